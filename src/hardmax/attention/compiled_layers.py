"""All hardmax layers of small clouds in one compiled pass, and its transpose, where no two keys are nearly as good.

The same as `stack.layers_of`, without arrays in between. A cloud with a near-tie anywhere, or without keys, is left to
that: here rounding decides nothing.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from hardmax._integers import TINY, UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.attention.contributions import settled
from hardmax.kernels.compiled import entry, share
from hardmax.kernels.lanes import FLAGS, LANES, panel_winners
from hardmax.kernels.plane import BLOCK, FAINT, _best, _slack, outer
from hardmax.kernels.small_clouds import LARGEST, SINGLE, SMALLEST, _again, _pack

PLANE, SHORT_CLOUD = 4096, 512  # tokens up to which clouds are small, as in `fused`
PRODUCTS = 60.0  # multiplications for each token of a plane and layer, about


class Moves(NamedTuple):
    """What the layers did, cloud by cloud; undefined for clouds that are not `clear`."""

    follows: IntArray  # (batch, layers, n) whom each token followed
    pulls: AnyArray  # (batch, layers, n, d) c_i - z_i
    steps: AnyArray  # (batch, layers) b, or that of all layers to come in the last that ran
    ran: IntArray  # (batch,) how many layers ran
    clear: BoolArray  # (batch,)

    def back(self, total: AnyArray, step: AnyArray) -> AnyArray:
        """Gradients of (batch, n, d) outputs become those of the inputs, in place; returns those of the steps."""
        slope = np.zeros(len(total))
        share(lambda clouds: _backward(clouds, total, step, self, slope), len(total), 4.0 * self.pulls.size)
        return slope.astype(step.dtype)


@njit(fastmath=FLAGS)
def _in_plane(z: AnyArray, ids: IntArray, space: Any, follows: IntArray) -> bool:
    """Write whom each token of a cloud in the plane follows among the tokens `ids`; whether no other was near."""
    x, y, kx, ky, kept, depth, path, qx, qy, best, second, at = space
    n, count = len(z), len(ids)
    for j in range(count):
        x[j], y[j] = z[ids[j], 0], z[ids[j], 1]
    few, highest = outer(x[:count], y[:count], path, depth, kx, ky, kept)
    clear = True
    for top in range(0, n, BLOCK):
        these = min(BLOCK, n - top)
        for i in range(these):
            qx[i], qy[i] = z[top + i, 0], z[top + i, 1]
        _best(kx[:few], ky[:few], qx, qy, best, second, at)
        for i in range(these):
            follows[top + i] = ids[kept[int(at[i])]]
            clear &= second[i] < best[i] - _slack(qx[i], qy[i], highest)
            clear &= (abs(qx[i]) + abs(qy[i])) * highest >= FAINT
    return clear


@njit(fastmath=FLAGS)
def _in_space(z: AnyArray, ids: IntArray, space: Any, follows: IntArray) -> bool:
    """As `_in_plane` for float32 and more coordinates: as `short.search`."""
    panels, lanes, products, lengths, sums, best, second, at = space
    (n, d), count = z.shape, len(ids)
    longest, highest = _pack(z, ids, panels)
    for top in range(0, n, LANES):
        for lane in range(LANES):
            square, total = 0.0, 0.0
            for r in range(d):
                value = z[min(top + lane, n - 1), r]
                lanes[r * LANES + lane] = value
                square += np.float64(value) * np.float64(value)
                total += abs(np.float64(value))
            lengths[lane], sums[lane] = 1.000001 * np.sqrt(square), total
            best[lane] = second[lane] = -3e38
            at[lane] = 0.0
        for start in range(0, count, LANES):
            panel_winners(lanes, panels, start * d, d, count - start, np.float32(start), best, second, at)
        for lane in range(min(LANES, n - top)):
            bound = lengths[lane] * longest
            slack = 2.02 * ((d + 4) * UNIT * highest * sums[lane] + d * TINY)
            error = 2.02 * ((d + 2) * SINGLE * bound + d * SMALLEST)
            follows[top + lane] = ids[int(at[lane])]
            if not (bound < LARGEST and np.float64(second[lane]) < np.float64(best[lane]) - error - slack):
                size, _, first = _again(z[top + lane], z, ids, slack, products, ids[:0])
                follows[top + lane] = first
                if size != 1:
                    return False
    return True


@njit
def _move(z: AnyArray, follows: IntArray, pull: AnyArray, b: Any) -> None:
    n, d = z.shape
    for i in range(n):
        for r in range(d):
            pull[i, r] = z[follows[i], r] - z[i, r]
    for i in range(n):
        for r in range(d):
            z[i, r] += b * pull[i, r]


@entry(fastmath=FLAGS)
def _forward(clouds: IntArray, tokens: AnyArray, step: AnyArray, counts: AnyArray, moves: Any) -> None:
    """Run some clouds through all layers in place. Clouds that are not clear stay where they were."""
    follows, pulls, steps, ran, clear = moves
    n, d = tokens.shape[1:]
    layers, ids, z = follows.shape[1], np.empty(n, np.intp), np.empty((n, d), tokens.dtype)
    plane = (
        np.empty(n),
        np.empty(n),
        np.empty(n + 1),
        np.empty(n + 1),
        np.empty(n + 1, np.intp),
        np.empty(n),
        np.zeros(8, np.intp),
        np.zeros(BLOCK),
        np.zeros(BLOCK),
        np.empty(BLOCK),
        np.empty(BLOCK),
        np.empty(BLOCK),
    )
    space = (
        np.zeros((n + LANES - 1) // LANES * LANES * d, np.float32),
        np.empty(d * LANES, np.float32),
        np.empty(n),
        np.empty(LANES),
        np.empty(LANES),
        np.empty(LANES, np.float32),
        np.empty(LANES, np.float32),
        np.empty(LANES, np.float32),
    )
    for cloud in clouds:
        count = 0
        for j in range(n):
            if counts.size == 0 or counts[cloud, j] > 0:
                ids[count] = j
                count += 1
        clear[cloud], ran[cloud] = count > 0, 0
        z[:] = tokens[cloud]
        while clear[cloud] and ran[cloud] < layers:
            k = ran[cloud]
            if d == 2:
                clear[cloud] = _in_plane(z, ids[:count], plane, follows[cloud, k])
            else:
                clear[cloud] = _in_space(z, ids[:count], space, follows[cloud, k])
            if not clear[cloud]:
                break  # not all of them are written
            last = settled(follows[cloud, k])
            b = 1 - (1 - np.float64(step[cloud])) ** (layers - k) if last else np.float64(step[cloud])
            steps[cloud, k] = b
            _move(z, follows[cloud, k], pulls[cloud, k], steps[cloud, k])
            ran[cloud] = k + 1
            if last:
                break
        if clear[cloud]:
            tokens[cloud] = z


@entry()
def _backward(clouds: IntArray, total: AnyArray, step: AnyArray, moves: Any, slope: FloatArray) -> None:
    """Transpose of `_forward` in place: b g_i goes to whom i followed, the rest stays; and d/db of the steps."""
    follows, pulls, steps, ran, clear = moves
    n, d = total.shape[1:]
    given = np.empty((n, d))
    for cloud in clouds:
        if not clear[cloud]:
            continue
        g = total[cloud]
        for k in range(ran[cloud] - 1, -1, -1):
            b, towards, pull, along = steps[cloud, k], follows[cloud, k], pulls[cloud, k], 0.0
            given[:] = 0.0
            for i in range(n):
                for r in range(d):
                    along += np.float64(g[i, r]) * np.float64(pull[i, r])
                    moved = b * g[i, r]
                    given[towards[i], r] += moved
                    g[i, r] -= moved
            for i in range(n):
                for r in range(d):
                    g[i, r] += given[i, r]
            ahead = follows.shape[1] - k if k == ran[cloud] - 1 else 1
            slope[cloud] += ahead * (1 - np.float64(step[cloud])) ** (ahead - 1) * along


def run(tokens: AnyArray, step: AnyArray, count: int, counts: IntArray | None) -> Moves | None:
    """Move (batch, n, d) tokens in place through `count` layers; None where there is no such way for these."""
    batch, n, d = tokens.shape
    planar = d == 2 and n <= PLANE
    if not (batch and n and count) or not (planar or (d > 3 and tokens.dtype == np.float32 and n <= SHORT_CLOUD)):
        return None
    moves = Moves(
        np.empty((batch, count, n), np.int32),
        np.empty((batch, count, n, d), tokens.dtype),
        np.empty((batch, count), tokens.dtype),
        np.empty(batch, np.intp),
        np.empty(batch, np.bool_),
    )
    seen = np.empty((0, 0), np.int64) if counts is None else np.require(counts, np.int64, ["C", "W"])
    effort = count * float(tokens.size) * (PRODUCTS if planar else n)
    share(lambda clouds: _forward(clouds, tokens, step, seen, moves), batch, effort)
    return moves
