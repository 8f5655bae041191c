"""What each token adds to the logits of its text, for heads on a line or in the plane, in one compiled pass.

The same as `numpy_layers.shares` times scores, without arrays in between. A text with a near-tie anywhere, be it by the
rounding of earlier layers, is left out: here rounding decides nothing. Sums are taken as there, to the last bit.
"""

from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.attention.layers_compiled import PRODUCTS, WorkSpace, copy, forward, work_space
from hardmax.search.threads import entry, share

Encoded: TypeAlias = tuple[IntArray, IntArray, IntArray]  # tokens, where texts start, and how often each counts


class Room(NamedTuple):
    """Work space for one cloud, as large as the largest."""

    search: WorkSpace
    ids: IntArray  # 0, 1, ...
    follows: AnyArray  # of all layers
    steps: FloatArray
    pulls: FloatArray
    given: FloatArray


@njit
def _room(n: int, d: int, layers: int) -> Room:
    follows, given = np.empty(layers * n, np.int32), np.zeros(n)
    return Room(work_space(n, n, d), np.arange(n), follows, np.empty(layers), np.empty(n * d), given)


@njit(fastmath=False)
def _pulled_back(z: FloatArray, step: float, layers: int, room: Room, weights: FloatArray) -> bool:
    """Run tokens z through all layers in place, and turn `weights` (n,) of the outputs into those of the inputs.

    False where two tokens are as good or nearly so; then nothing is decided.
    """
    (n, d), given = z.shape, room.given
    follows, pulls = room.follows[: layers * n].reshape((layers, n)), room.pulls[: n * d].reshape((1, n, d))
    ran = forward(z, room.ids[:n], step, True, z[:0], room.search, follows, room.steps, pulls)
    for k in range(ran - 1, -1, -1):  # the transpose of a layer: b w_i goes to whom i followed, the rest stays
        follow, b = follows[k], room.steps[k]
        for i in range(n):
            given[follow[i]] += weights[i]
        for i in range(n):
            weights[i] += b * (given[i] - weights[i])
            given[i] = 0.0
    return ran >= 0


@njit
def _classes(z: FloatArray, counts: IntArray, member: IntArray, size: IntArray) -> int:
    """Bring one of each class of equal tokens to the front; `member` is the class of a token, `size` what it counts."""
    m, d = 0, z.shape[1]
    for i in range(len(z)):
        at, x, y = 0, z[i, 0], z[i, d - 1]  # all there is on a line and in the plane
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
    """Contributions of some texts; `clear` tells whether they are decided."""
    ids, starts, counts = encoded
    longest, (heads, d) = 1, embedding.shape[1:]
    for t in texts:
        longest = max(longest, starts[t + 1] - starts[t])
    embedded, z = np.empty((heads, longest, d)), np.empty((longest, d))  # tokens of all heads, and of one
    weights, of_classes = np.empty(longest), np.empty(longest)
    member, size, room = np.empty(longest, np.intp), np.empty(longest, np.intp), _room(longest, d, layers)
    for t in texts:
        clear[t] = True
        here = slice(starts[t], starts[t + 1])
        tokens, many, result = ids[here], counts[here], out[here]
        n, total = len(tokens), many.sum()
        result[:] = 0.0
        for i in range(n):
            copy(embedding[tokens[i]], embedded[:, i])
        for h in range(heads if n else 0):
            copy(embedded[h, :n], z)
            for i in range(n):
                weights[i] = many[i] / total
            if not _pulled_back(z[:n], step[h], layers, room, weights[:n]):
                # Equal tokens stay equal, so they are one that counts as often as all of them.
                copy(embedded[h, :n], z)
                m = _classes(z[:n], many, member, size)
                for c in range(m):
                    of_classes[c] = size[c] / total
                clear[t] &= _pulled_back(z[:m], step[h], layers, room, of_classes[:m])
                for i in range(n):
                    weights[i] = of_classes[member[i]] * many[i] / size[member[i]]
            for c in range(len(decoder)):
                for r in range(d):
                    for i in range(n):
                        result[i, c] += weights[i] * (decoder[c, h, r] * embedded[h, i, r])


def contributions_of_texts(
    encoded: Encoded, embedding: AnyArray, step: FloatArray, decoder: FloatArray, layers: int
) -> tuple[FloatArray, BoolArray]:
    """(tokens, outputs) contributions of every text, and (texts,) which of them are decided; the others are undefined.

    `embedding` has shape (tokens, heads, 1 or 2), `step` (heads,), and `decoder` (outputs, heads, 1 or 2).
    """
    ids, starts, counts = encoded
    out, clear = np.empty((len(ids), len(decoder))), np.empty(len(starts) - 1, np.bool_)
    embedding, decoder = _readonly(embedding), _readonly(decoder)
    work = partial(_contributions, (ids, starts, counts), embedding, step, decoder, layers, out, clear)
    share(work, len(clear), PRODUCTS * len(ids) * len(step) * max(1, layers))
    return out, clear


def _readonly(array: AnyArray) -> AnyArray:
    """The same numbers as one kind of array, fresh from training or from a file: each kind would be compiled anew."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
