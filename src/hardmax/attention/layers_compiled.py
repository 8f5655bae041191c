"""Compiled passes over batches of small token sets, where no two keys are nearly as
good.

One hardmax layer with its transpose, several layers with their transpose, and the
contributions of tokens to logits: all search by `find_argmax` and hold no arrays in
between. A batch element with a near-tie anywhere is left to exact arithmetic: rounding
decides nothing here.

Functions that move tokens and gradients are compiled with `fastmath=False`, so that
results have the same bits on every machine and equal those of `layers_numpy`. Without
it numba would pass on the flags of the caller. Sums of gradients are taken element by
element and query by query, so that they have the same bits on every run.
"""

from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit

from hardmax._exact import UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.search.scan import as_plain, list_seen
from hardmax.search.simd import FLAGS
from hardmax.search.small import Workspace, allocate, find_argmax
from hardmax.search.threads import entry, share

LEFT_OUT = -1  # in place of a size: of a batch element that is left to exact arithmetic
PLANE_WORK = 60.0  # multiplications per token of a plane and layer, about
# multiplications in the time of one number of a gradient, which waits for memory
SPREAD_WORK = 8.0
Encoded: TypeAlias = tuple[
    IntArray, IntArray, IntArray
]  # token ids, where texts start, and multiplicities


@entry()
def _attend(
    queries: AnyArray,
    keys: AnyArray,
    values: AnyArray,
    mask: BoolArray,
    out: AnyArray,
    found: AnyArray,
    elements: IntArray,
) -> None:
    """Write the outputs of some batch elements, and their lowest members and sizes, or
    LEFT_OUT for the first size.
    """
    (n, d), (m, dv) = queries.shape[1:], values.shape[1:]
    space, seen, clear = allocate(n, m, d), np.empty(m, np.intp), np.empty(n, np.bool_)
    for element in elements:
        own, known, argmax = queries[element], keys[element], found[element]
        count = list_seen(mask, element, m, seen)
        if not count:
            argmax[:n], argmax[n:], out[element] = -1, 0, 0
        elif find_argmax(
            own, known, seen[:count], 0.0, known[:0], space, argmax, clear
        )[1]:
            given, rows = (
                values[element].reshape(-1),
                out[element].reshape(-1),
            )  # faster than two axes
            argmax[n:] = 1
            for i in range(n):
                source, target = argmax[i] * dv, i * dv
                for r in range(dv):
                    rows[target + r] = given[source + r]
        else:
            argmax[n] = LEFT_OUT


@entry()
def _spread(g: AnyArray, found: AnyArray, out: AnyArray, elements: IntArray) -> None:
    """Add (batch, n, dv) gradients to the keys that queries followed, (batch, m, dv),
    where none followed several.
    """
    n, dv = g.shape[1:]
    for element in elements:
        rows, gradients = (
            out[element].reshape(-1),
            g[element].reshape(-1),
        )  # four times as fast as two axes
        argmax, single = found[element], True
        for i in range(n):
            single &= argmax[n + i] < 2
        rows[:] = 0
        for i in range(n if single else 0):
            if argmax[i] >= 0:
                source, target = i * dv, argmax[i] * dv
                for r in range(dv):
                    rows[target + r] += gradients[source + r]


def attend(
    queries: AnyArray,
    keys: AnyArray,
    values: AnyArray,
    mask: BoolArray | None,
    out: AnyArray,
    found: AnyArray,
) -> IntArray:
    """Write the outputs of one layer, and lowest members and sizes (batch, 2 n); return
    the elements left out.
    """
    (batch, n, _), m = queries.shape, keys.shape[1]
    seen = np.empty((0, 0), np.bool_) if mask is None else as_plain(mask)
    share(
        partial(_attend, queries, keys, values, seen, out, found),
        batch,
        float(queries.size * m),
    )
    return np.flatnonzero(found[:, n] == LEFT_OUT)


def spread(g: AnyArray, found: AnyArray, out: AnyArray) -> IntArray:
    """Write the gradients of all values; return the elements left out, in which some
    query followed several.
    """
    share(partial(_spread, g, found, out), len(g), SPREAD_WORK * (g.size + out.size))
    return np.flatnonzero(found[:, g.shape[1] :].max(axis=1) > 1)


class CompiledLayers(NamedTuple):
    """Record of the layers, by batch element."""

    follows: AnyArray  # (batch, layers, n) which token each token followed
    # (batch, layers or 1, n, d) c_i - z_i, of each layer or of the last alone
    pulls: AnyArray
    # (batch, layers) b, or that of all remaining layers in the last that ran
    steps: AnyArray
    # (batch,) number of layers that ran; -1 for elements left out, of which the rest is
    # undefined
    ran: IntArray

    def back(self, total: AnyArray, step: AnyArray) -> AnyArray:
        """Turn gradients of (batch, n, d) outputs into those of the inputs, in place;
        return those of the steps.
        """
        slope, effort = np.zeros(len(total)), 4.0 * self.follows.size * total.shape[2]
        share(
            lambda elements: _backward(elements, total, step, self, slope),
            len(total),
            effort,
        )
        return slope


@njit
def _follow_on_line(z: AnyArray, error: float, follows: AnyArray) -> bool:
    """Write the largest or the smallest token for each, without products; return
    whether no other is near.
    """
    high = low = 0
    for j in range(len(z)):
        high = j if z[j, 0] > z[high, 0] else high
        low = j if z[j, 0] < z[low, 0] else low
    clear, most, least = True, z[high, 0], z[low, 0]
    for j in range(len(z)):
        x = z[j, 0]
        clear &= (
            (most - x > 2 * error or j == high)
            and (x - least > 2 * error or j == low)
            and abs(x) > error
        )
        follows[j] = high if x > 0.0 else low
    return clear


@njit
def _is_decided(follows: AnyArray) -> bool:
    """Return whether each token follows one that follows itself."""
    decided = True
    for j in follows:
        decided &= follows[j] == j
    return decided


@njit(fastmath=False)
def _join_steps(step: float, count: int) -> float:
    """Return the step of several layers as `layers_numpy` does, to the last bit."""
    if count == 1:
        return step
    power = 1.0
    for _ in range(count):
        power *= 1 - step
    return 1 - power


@njit(fastmath=False)
def _move(z: AnyArray, follows: AnyArray, pull: AnyArray, b: float) -> None:
    n, d = z.shape
    if d < 3:  # a loop over two is three times as slow
        for i in range(n):
            j = follows[i]
            pull[i, 0], pull[i, d - 1] = z[j, 0] - z[i, 0], z[j, d - 1] - z[i, d - 1]
    else:
        for i in range(n):
            for r in range(d):
                pull[i, r] = z[follows[i], r] - z[i, r]
    numbers, pulls = z.reshape(-1), pull.reshape(-1)
    for i in range(n * d):
        numbers[i] += b * pulls[i]


@njit(fastmath=FLAGS)
def _run_layers(
    z: AnyArray,
    ids: IntArray,
    step: float,
    exact: bool,
    form: AnyArray,
    space: Workspace,
    follows: AnyArray,
    steps: AnyArray,
    pulls: AnyArray,
) -> int:
    """Run the tokens z of one batch element through all layers in place; return how
    many ran, or -1 for a near-tie.

    Writes which token each followed in each layer, the step of each layer, and c_i -
    z_i, of the last layer alone if there is room for one. With `exact`, the rounding of
    earlier layers decides nothing either. `form` is the matrix A; an empty one is the
    identity.
    """
    layers, error, reach, clear = len(follows), 0.0, 0.0, np.empty(len(z), np.bool_)
    if exact:
        for number in z.reshape(-1):
            reach = max(reach, z.shape[1] * abs(number))
    for k in range(layers):
        if z.shape[1] == 1:
            sure = _follow_on_line(z, error, follows[k])
        else:
            sure = find_argmax(z, z, ids, error, form, space, follows[k], clear)[1]
        if not sure:
            return -1
        error += 8 * UNIT * reach  # the layer itself brings positions no farther apart
        last = _is_decided(follows[k])
        steps[k] = _join_steps(step, layers - k) if last else step
        _move(z, follows[k], pulls[min(k, len(pulls) - 1)], steps[k])
        if last:
            return k + 1
    return layers


@njit(fastmath=False)
def _transpose_layer(
    g: AnyArray, follows: AnyArray, b: float, given: FloatArray
) -> None:
    """Apply the transpose of one layer in place: b g_i goes to the token that i
    followed. `given` (n, d) is zero.
    """
    n, d = g.shape
    for i in range(n):
        for r in range(d):
            part = g[i, r] * b
            g[i, r] -= part
            given[follows[i], r] += part
    numbers, more = g.reshape(-1), given.reshape(-1)
    for i in range(n * d):
        numbers[i] += more[i]
        more[i] = 0.0


@njit
def _copy(source: AnyArray, target: AnyArray) -> None:
    """Copy rows; `target[:] = source` compiles, for seconds, an error message for other
    shapes.
    """
    for i in range(len(source)):
        for r in range(source.shape[1]):
            target[i, r] = source[i, r]


@entry(fastmath=FLAGS)
def _forward(
    elements: IntArray,
    tokens: AnyArray,
    step: AnyArray,
    counts: AnyArray,
    forms: AnyArray,
    layers: CompiledLayers,
) -> None:
    """Run some batch elements through all layers in place. Those that are left out stay
    where they were.
    """
    n, d = tokens.shape[1:]
    ids, z, space = (
        np.empty(n, np.intp),
        np.empty((n, d), tokens.dtype),
        allocate(n, n, d),
    )
    for element in elements:
        count, ran = list_seen(counts, element, n, ids), -1
        _copy(tokens[element], z)
        if count:
            follows, steps, pulls = (
                layers.follows[element],
                layers.steps[element],
                layers.pulls[element],
            )
            form = forms[element] if len(forms) else z[:0]
            ran = _run_layers(
                z,
                ids[:count],
                np.float64(step[element]),
                False,
                form,
                space,
                follows,
                steps,
                pulls,
            )
        layers.ran[element] = ran
        if ran >= 0:
            _copy(z, tokens[element])


@entry(fastmath=FLAGS)
def _backward(
    elements: IntArray,
    total: AnyArray,
    step: AnyArray,
    layers: CompiledLayers,
    slope: FloatArray,
) -> None:
    """Apply the transpose of `_forward` in place, and add d/db of the steps if all
    pulls are known.
    """
    n, d = total.shape[1:]
    given, all_pulls = (
        np.zeros((n, d)),
        layers.pulls.shape[1] == layers.follows.shape[1],
    )
    for element in elements:
        g, last = total[element], layers.ran[element] - 1
        for k in range(last, -1, -1):
            if all_pulls:
                pull, numbers, along = (
                    layers.pulls[element, k].reshape(-1),
                    g.reshape(-1),
                    0.0,
                )
                for i in range(n * d):
                    along += np.float64(numbers[i]) * np.float64(pull[i])
                ahead = layers.follows.shape[1] - k if k == last else 1
                slope[element] += (
                    ahead * (1 - np.float64(step[element])) ** (ahead - 1) * along
                )
            _transpose_layer(
                g, layers.follows[element, k], layers.steps[element, k], given
            )


def run_layers(
    tokens: AnyArray,
    step: AnyArray,
    count: int,
    A: AnyArray | None,
    counts: IntArray | None,
    slopes: bool,
) -> CompiledLayers:
    """Move (batch, n, d) tokens, which `dispatch.is_small`, in place through `count`
    layers.

    `slopes` states whether d/db of the steps is needed later.
    """
    batch, n, d = tokens.shape
    layers = CompiledLayers(
        np.empty((batch, count, n), np.int32),
        np.empty((batch, count if slopes else 1, n, d), tokens.dtype),
        np.empty((batch, count), tokens.dtype),
        np.empty(batch, np.intp),
    )
    seen = (
        np.empty((0, 0), np.int64)
        if counts is None
        else np.require(counts, np.int64, ["C", "W"])
    )
    forms = np.empty((0, d, d), tokens.dtype) if A is None else as_plain(A)
    effort = float(count * tokens.size) * (
        PLANE_WORK if d == 2 else n
    )  # at most: decided elements leave
    share(
        lambda elements: _forward(elements, tokens, step, seen, forms, layers),
        batch,
        effort,
    )
    return layers


class TextSpace(NamedTuple):
    """Workspace for one text, as long as the longest."""

    search: Workspace
    ids: IntArray  # 0, 1, ...
    follows: AnyArray  # of all layers
    steps: FloatArray
    pulls: FloatArray
    given: FloatArray


@njit(fastmath=False)
def _pull_back(
    z: FloatArray, step: float, layers: int, space: TextSpace, weights: FloatArray
) -> bool:
    """Run tokens z through all layers in place, and turn `weights` (n,) of the outputs
    into those of the inputs.

    Returns False for a near-tie; then nothing is decided.
    """
    (n, d), given = z.shape, space.given
    follows, pulls = (
        space.follows[: layers * n].reshape((layers, n)),
        space.pulls[: n * d].reshape((1, n, d)),
    )
    ran = _run_layers(
        z, space.ids[:n], step, True, z[:0], space.search, follows, space.steps, pulls
    )
    for k in range(
        ran - 1, -1, -1
    ):  # the transpose of a layer: b w_i goes to the token that i followed
        follow, b = follows[k], space.steps[k]
        for i in range(n):
            given[follow[i]] += weights[i]
        for i in range(n):
            weights[i] += b * (given[i] - weights[i])
            given[i] = 0.0
    return ran >= 0


@njit
def _group_equal(
    z: FloatArray, counts: IntArray, member: IntArray, size: IntArray
) -> int:
    """Move one of each class of equal tokens to the front; write the class of each
    token and the size of each class.
    """
    m, d = 0, z.shape[1]
    for i in range(len(z)):
        at, x, y = (
            0,
            z[i, 0],
            z[i, d - 1],
        )  # the only coordinates on a line and in the plane
        while at < m and (z[at, 0] != x or z[at, d - 1] != y):
            at += 1
        if at == m:
            z[m, 0], z[m, d - 1], size[m] = x, y, 0
            m += 1
        member[i] = at
        size[at] += counts[i]
    return m


@entry()
def _contributions(
    encoded: Encoded,
    embedding: AnyArray,
    step: FloatArray,
    decoder: FloatArray,
    layers: int,
    out: FloatArray,
    clear: BoolArray,
    texts: IntArray,
) -> None:
    """Write the contributions of some texts, and whether they are decided."""
    ids, starts, counts = encoded
    longest, (heads, d) = 1, embedding.shape[1:]
    for t in texts:
        longest = max(longest, starts[t + 1] - starts[t])
    embedded, z = (
        np.empty((heads, longest, d)),
        np.empty((longest, d)),
    )  # tokens of all heads, and of one
    weights, of_classes = np.empty(longest), np.empty(longest)
    member, size = np.empty(longest, np.intp), np.empty(longest, np.intp)
    follows, pulls = np.empty(layers * longest, np.int32), np.empty(longest * d)
    space = TextSpace(
        allocate(longest, longest, d),
        np.arange(longest),
        follows,
        np.empty(layers),
        pulls,
        np.zeros(longest),
    )
    for t in texts:
        clear[t] = True
        here = slice(starts[t], starts[t + 1])
        tokens, many, result = ids[here], counts[here], out[here]
        n, total = len(tokens), many.sum()
        result[:] = 0.0
        for i in range(n):
            _copy(embedding[tokens[i]], embedded[:, i])
        for h in range(heads if n else 0):
            _copy(embedded[h, :n], z)
            for i in range(n):
                weights[i] = many[i] / total
            if not _pull_back(z[:n], step[h], layers, space, weights[:n]):
                # Equal tokens stay equal, so they are one token with the multiplicity
                # of all of them.
                _copy(embedded[h, :n], z)
                m = _group_equal(z[:n], many, member, size)
                for c in range(m):
                    of_classes[c] = size[c] / total
                clear[t] &= _pull_back(z[:m], step[h], layers, space, of_classes[:m])
                for i in range(n):
                    weights[i] = of_classes[member[i]] * many[i] / size[member[i]]
            for c in range(len(decoder)):
                for r in range(d):
                    for i in range(n):
                        result[i, c] += weights[i] * (
                            decoder[c, h, r] * embedded[h, i, r]
                        )


def contributions_of_texts(
    encoded: Encoded,
    embedding: AnyArray,
    step: FloatArray,
    decoder: FloatArray,
    layers: int,
) -> tuple[FloatArray, BoolArray]:
    """Return (tokens, outputs) contributions of every text, and (texts,) which are
    decided; others are undefined.

    `embedding` has shape (tokens, heads, 1 or 2), `step` (heads,), and `decoder`
    (outputs, heads, 1 or 2). The result equals `layers_numpy.shares` times scores to
    the last bit.
    """
    ids, starts, counts = encoded
    out, clear = np.empty((len(ids), len(decoder))), np.empty(len(starts) - 1, np.bool_)
    embedding, decoder = _as_readonly(embedding), _as_readonly(decoder)
    work = partial(
        _contributions,
        (ids, starts, counts),
        embedding,
        step,
        decoder,
        layers,
        out,
        clear,
    )
    share(work, len(clear), PLANE_WORK * len(ids) * len(step) * max(1, layers))
    return out, clear


def _as_readonly(array: AnyArray) -> AnyArray:
    """Return a read-only view, fresh from training or from a file: numba would compile
    again for another kind.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
