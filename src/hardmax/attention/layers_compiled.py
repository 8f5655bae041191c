"""All hardmax layers of small clouds in one compiled pass, and its transpose, where no two keys are nearly as good.

The same as `numpy_layers`, without arrays in between. A cloud with a near-tie anywhere, or without keys, is left to
that: here rounding decides nothing. Training runs this, and `contributions` is built on it.

What moves tokens and gradients is compiled with `fastmath=False`, so that both ways have the same bits on every
machine. Without a word of it, numba would hand down the flags of whoever calls.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._exact import UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.search.lanes import FLAGS
from hardmax.search.panels import seen_keys
from hardmax.search.row_lanes import copy_row, hand_on
from hardmax.search.small import WorkSpace, single_winners, work_space
from hardmax.search.threads import entry, share

SAMPLE = 16  # of so many clouds the first is asked before the others
PRODUCTS = 60.0  # multiplications for each token of a plane and layer, about


class CompiledLayers(NamedTuple):
    """What the layers did, cloud by cloud."""

    follows: AnyArray  # (batch, layers, n) whom each token followed
    pulls: AnyArray  # (batch, layers or 1, n, d) c_i - z_i, of each layer or of the last alone
    steps: AnyArray  # (batch, layers) b, or that of all layers to come in the last that ran
    ran: IntArray  # (batch,) how many layers ran; -1 for clouds that are left to others, of which all else is undefined

    def back(self, total: AnyArray, step: AnyArray) -> AnyArray:
        """Gradients of (batch, n, d) outputs become those of the inputs, in place; returns those of the steps, or 0."""
        slope, effort = np.zeros(len(total)), 4.0 * self.follows.size * total.shape[2]
        share(lambda clouds: _backward(clouds, total, step, self, slope), len(total), effort)
        return slope


@njit(fastmath=FLAGS)
def _followed(
    z: AnyArray, ids: IntArray, error: float, form: AnyArray, space: WorkSpace, follows: AnyArray, clear: BoolArray
) -> bool:
    """Write whom each token follows among the tokens `ids`; whether no other was near.

    Positions may be off by `error`, on a line and in the plane; elsewhere it must be 0, and queries are z times `form`
    unless that is empty.
    """
    if z.shape[1] == 1:
        return _followed_on_line(z, error, follows)
    return single_winners(z, z, ids, error, form, space, follows, clear)


@njit
def _followed_on_line(z: AnyArray, error: float, follows: AnyArray) -> bool:
    """The largest or the smallest of all, without products."""
    high = low = 0
    for j in range(len(z)):
        high = j if z[j, 0] > z[high, 0] else high
        low = j if z[j, 0] < z[low, 0] else low
    clear, most, least = True, z[high, 0], z[low, 0]
    for j in range(len(z)):
        x = z[j, 0]
        clear &= (most - x > 2 * error or j == high) and (x - least > 2 * error or j == low) and abs(x) > error
        follows[j] = high if x > 0.0 else low
    return clear


@njit
def _decided(follows: AnyArray) -> bool:
    """Whether each token follows one that follows itself."""
    decided = True
    for j in follows:
        decided &= follows[j] == j
    return decided


@njit(fastmath=False)
def _joined_step(step: float, count: int) -> float:
    """As in `numpy_layers`, to the last bit."""
    if count == 1:
        return step
    power = 1.0
    for _ in range(count):
        power *= 1 - step
    return 1 - power


@njit
def copy(source: AnyArray, target: AnyArray) -> None:
    """`target[:] = source` for two axes; that would compile, for seconds, what to say of other shapes."""
    for i in range(len(source)):
        for r in range(source.shape[1]):
            target[i, r] = source[i, r]


@njit(fastmath=False)
def _move(z: AnyArray, follows: AnyArray, pull: AnyArray, b: float) -> None:
    n, d = z.shape
    if d < 3:  # a loop over two is three times as slow
        for i in range(n):
            j = follows[i]
            pull[i, 0], pull[i, d - 1] = z[j, 0] - z[i, 0], z[j, d - 1] - z[i, d - 1]
    numbers, pulls = z.reshape(-1), pull.reshape(-1)
    if d > 2:
        for i in range(n):
            copy_row(z, follows[i] * d, pull, i * d, d)
        for i in range(n * d):
            pulls[i] -= numbers[i]
    for i in range(n * d):
        numbers[i] += b * pulls[i]


@njit(fastmath=FLAGS)
def forward(
    z: AnyArray,
    ids: IntArray,
    step: float,
    exact: bool,
    form: AnyArray,
    space: WorkSpace,
    follows: AnyArray,
    steps: AnyArray,
    pulls: AnyArray,
) -> int:
    """Run the tokens z of one cloud through all layers in place; how many ran, or -1 where nothing is decided.

    Writes whom each token followed in each layer, the step of each layer, and c_i - z_i, of the last layer alone if
    there is room for one. With `exact`, the rounding of earlier layers decides nothing either. `form` is the matrix A;
    an empty one is the identity.
    """
    layers, error, reach, clear = len(follows), 0.0, 0.0, np.empty(len(z), np.bool_)
    if exact:
        for number in z.reshape(-1):
            reach = max(reach, z.shape[1] * abs(number))
    for k in range(layers):
        if not _followed(z, ids, error, form, space, follows[k], clear):
            return -1
        error += 8 * UNIT * reach  # the layer itself brings positions no farther apart
        last = _decided(follows[k])
        steps[k] = _joined_step(step, layers - k) if last else step
        _move(z, follows[k], pulls[min(k, len(pulls) - 1)], steps[k])
        if last:
            return k + 1
    return layers


@njit(fastmath=False)
def backward(g: AnyArray, follows: AnyArray, b: float, given: FloatArray) -> None:
    """Transpose of one layer, in place: b g_i goes to whom i followed, the rest stays. `given` is work space, zeros."""
    n, d = g.shape
    for i in range(n):
        hand_on(g, i * d, given, follows[i] * d, d, b)
    numbers, more = g.reshape(-1), given.reshape(-1)
    for i in range(n * d):
        numbers[i] += more[i]
        more[i] = 0.0


@entry(fastmath=FLAGS)
def _forward(
    clouds: IntArray, tokens: AnyArray, step: AnyArray, counts: AnyArray, forms: AnyArray, layers: CompiledLayers
) -> None:
    """Run some clouds through all layers in place. Those that are left to others stay where they were."""
    n, d = tokens.shape[1:]
    ids, z, space = np.empty(n, np.intp), np.empty((n, d), tokens.dtype), work_space(n, n, d)
    for cloud in clouds:
        count, ran = seen_keys(counts, cloud, n, ids), -1
        copy_row(tokens, cloud * n * d, z, 0, n * d)
        if count:
            follows, steps, pulls = layers.follows[cloud], layers.steps[cloud], layers.pulls[cloud]
            form = forms[cloud] if len(forms) else z[:0]
            ran = forward(z, ids[:count], np.float64(step[cloud]), False, form, space, follows, steps, pulls)
        layers.ran[cloud] = ran
        if ran >= 0:
            copy_row(z, 0, tokens, cloud * n * d, n * d)


@entry(fastmath=FLAGS)
def _backward(clouds: IntArray, total: AnyArray, step: AnyArray, layers: CompiledLayers, slope: FloatArray) -> None:
    """Transpose of `_forward` in place, and d/db of the steps if all pulls are known."""
    n, d = total.shape[1:]
    given, all_pulls = np.zeros((n, d)), layers.pulls.shape[1] == layers.follows.shape[1]
    for cloud in clouds:
        g, last = total[cloud], layers.ran[cloud] - 1
        for k in range(last, -1, -1):
            if all_pulls:
                pull, numbers, along = layers.pulls[cloud, k].reshape(-1), g.reshape(-1), 0.0
                for i in range(n * d):
                    along += np.float64(numbers[i]) * np.float64(pull[i])
                ahead = layers.follows.shape[1] - k if k == last else 1
                slope[cloud] += ahead * (1 - np.float64(step[cloud])) ** (ahead - 1) * along
            backward(g, layers.follows[cloud, k], np.float64(layers.steps[cloud, k]), given)


def run(
    tokens: AnyArray, step: AnyArray, count: int, A: AnyArray | None, counts: IntArray | None, slopes: bool
) -> CompiledLayers:
    """Move (batch, n, d) tokens in place through `count` layers, which must be small (`kernels.ready`).

    `slopes` tells whether d/db of the steps is wanted later.
    """
    batch, n, d = tokens.shape
    layers = CompiledLayers(
        np.empty((batch, count, n), np.int32),
        np.empty((batch, count if slopes else 1, n, d), tokens.dtype),
        np.empty((batch, count), tokens.dtype),
        np.empty(batch, np.intp),
    )
    seen = np.empty((0, 0), np.int64) if counts is None else np.require(counts, np.int64, ["C", "W"])
    forms = np.empty((0, d, d), tokens.dtype) if A is None else np.require(A, requirements=["C", "W"])
    few = -(-batch // SAMPLE)  # which tell how many layers clouds go through before they are decided
    _forward(np.arange(few), tokens, step, seen, forms, layers)
    each = np.where(layers.ran[:few] < 0, count, layers.ran[:few]).mean()
    effort = each * float(tokens[few:].size) * (PRODUCTS if d == 2 else n)
    share(lambda clouds: _forward(few + clouds, tokens, step, seen, forms, layers), batch - few, effort)
    return layers
