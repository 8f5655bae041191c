"""All hardmax layers of small clouds in one compiled pass, and its transpose, where no two keys are nearly as good.

The same as `numpy_layers`, without arrays in between. A cloud with a near-tie anywhere, or without keys, is left to
that: here rounding decides nothing. Training runs this, and `contributions` is built on it.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._integers import UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels.compiled import entry, share
from hardmax.kernels.lanes import FLAGS
from hardmax.kernels.panels import seen_keys
from hardmax.kernels.small_clouds import WorkSpace, is_small, tied, winners, work_space

PRODUCTS = 60.0  # multiplications for each token of a plane and layer, about


class CompiledLayers(NamedTuple):
    """What the layers did, cloud by cloud."""

    follows: AnyArray  # (batch, layers, n) whom each token followed
    pulls: AnyArray  # (batch, layers, n, d) c_i - z_i
    steps: AnyArray  # (batch, layers) b, or that of all layers to come in the last that ran
    ran: IntArray  # (batch,) how many layers ran; -1 for clouds that are left to others, of which all else is undefined

    def back(self, total: AnyArray, step: AnyArray) -> AnyArray:
        """Gradients of (batch, n, d) outputs become those of the inputs, in place; returns those of the steps."""
        slope = np.zeros(len(total))
        share(lambda clouds: _backward(clouds, total, step, self, slope), len(total), 4.0 * self.pulls.size)
        return slope.astype(step.dtype)


@njit(fastmath=FLAGS)
def _followed(z: AnyArray, ids: IntArray, error: float, space: WorkSpace, follows: AnyArray, clear: BoolArray) -> bool:
    """Write whom each token follows among the tokens `ids`; whether no other was near.

    Positions may be off by `error`, on a line and in the plane; elsewhere it must be 0.
    """
    if z.shape[1] == 1:
        return _followed_on_line(z, error, follows)
    highest, all_clear = winners(z, z, ids, error, space, follows, clear)
    if error > 0 or all_clear:
        return all_clear
    for i in range(len(z)):
        if not clear[i]:
            size, _, follows[i] = tied(z[i], z, ids, highest, space[3], ids[:0])
            if size > 1:
                return False
    return True


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


@njit
def copy(source: AnyArray, target: AnyArray) -> None:
    """`target[:] = source` for two axes; that would compile, for seconds, what to say of other shapes."""
    for i in range(len(source)):
        for r in range(source.shape[1]):
            target[i, r] = source[i, r]


@njit
def _move(z: AnyArray, follows: AnyArray, pull: AnyArray, b: float) -> None:
    n, d = z.shape
    if d == 2:  # a loop over two is three times as slow
        for i in range(n):
            j = follows[i]
            pull[i, 0], pull[i, 1] = z[j, 0] - z[i, 0], z[j, 1] - z[i, 1]
    else:
        for i in range(n):
            for r in range(d):
                pull[i, r] = z[follows[i], r] - z[i, r]
    numbers, pulls = z.reshape(-1), pull.reshape(-1)
    for i in range(n * d):
        numbers[i] += b * pulls[i]


@njit(fastmath=FLAGS)
def forward(
    z: AnyArray,
    ids: IntArray,
    step: float,
    exact: bool,
    space: WorkSpace,
    follows: AnyArray,
    steps: AnyArray,
    pulls: AnyArray,
) -> int:
    """Run the tokens z of one cloud through all layers in place; how many ran, or -1 where nothing is decided.

    Writes whom each token followed in each layer, the step of each layer, and c_i - z_i, of the last layer alone if
    there is room for one. With `exact`, the rounding of earlier layers decides nothing either.
    """
    layers, error, reach, clear = len(follows), 0.0, 0.0, np.empty(len(z), np.bool_)
    if exact:
        for number in z.reshape(-1):
            reach = max(reach, z.shape[1] * abs(number))
    for k in range(layers):
        if not _followed(z, ids, error, space, follows[k], clear):
            return -1
        error += 8 * UNIT * reach  # the layer itself brings positions no farther apart
        last = _decided(follows[k])
        steps[k] = 1 - (1 - step) ** (layers - k) if last else step
        _move(z, follows[k], pulls[min(k, len(pulls) - 1)], steps[k])
        if last:
            return k + 1
    return layers


@njit
def backward(g: AnyArray, follows: AnyArray, b: float, given: FloatArray) -> None:
    """Transpose of one layer, in place: b g_i goes to whom i followed, the rest stays. `given` is work space."""
    n, d = g.shape
    given[:] = 0.0
    for i in range(n):
        for r in range(d):
            moved = b * g[i, r]
            given[follows[i], r] += moved
            g[i, r] -= moved
    for i in range(n):
        for r in range(d):
            g[i, r] += given[i, r]


@entry(fastmath=FLAGS)
def _forward(clouds: IntArray, tokens: AnyArray, step: AnyArray, counts: AnyArray, layers: CompiledLayers) -> None:
    """Run some clouds through all layers in place. Those that are left to others stay where they were."""
    n, d = tokens.shape[1:]
    ids, z, space = np.empty(n, np.intp), np.empty((n, d), tokens.dtype), work_space(n, n, d)
    for cloud in clouds:
        count, ran = seen_keys(counts, cloud, n, ids), -1
        copy(tokens[cloud], z)
        if count:
            follows, steps, pulls = layers.follows[cloud], layers.steps[cloud], layers.pulls[cloud]
            ran = forward(z, ids[:count], np.float64(step[cloud]), False, space, follows, steps, pulls)
        layers.ran[cloud] = ran
        if ran >= 0:
            copy(z, tokens[cloud])


@entry()
def _backward(clouds: IntArray, total: AnyArray, step: AnyArray, layers: CompiledLayers, slope: FloatArray) -> None:
    """Transpose of `_forward` in place, and d/db of the steps."""
    n, d = total.shape[1:]
    given = np.empty((n, d))
    for cloud in clouds:
        g, last = total[cloud], layers.ran[cloud] - 1
        for k in range(last, -1, -1):
            pull, along = layers.pulls[cloud, k], 0.0
            for i in range(n):
                for r in range(d):
                    along += np.float64(g[i, r]) * np.float64(pull[i, r])
            ahead = layers.follows.shape[1] - k if k == last else 1
            slope[cloud] += ahead * (1 - np.float64(step[cloud])) ** (ahead - 1) * along
            backward(g, layers.follows[cloud, k], layers.steps[cloud, k], given)


def run(tokens: AnyArray, step: AnyArray, count: int, counts: IntArray | None) -> CompiledLayers | None:
    """Move (batch, n, d) tokens in place through `count` layers; None where there is no such way for these."""
    batch, n, d = tokens.shape
    if not (batch and count) or not is_small(d, n, tokens.dtype == np.float32):
        return None
    layers = CompiledLayers(
        np.empty((batch, count, n), np.int32),
        np.empty((batch, count, n, d), tokens.dtype),
        np.empty((batch, count), tokens.dtype),
        np.empty(batch, np.intp),
    )
    seen = np.empty((0, 0), np.int64) if counts is None else np.require(counts, np.int64, ["C", "W"])
    effort = count * float(tokens.size) * (PRODUCTS if d == 2 else n)
    share(lambda clouds: _forward(clouds, tokens, step, seen, layers), batch, effort)
    return layers
