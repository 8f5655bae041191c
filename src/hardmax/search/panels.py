"""Clouds of keys, sorted into panels of 16 for the compiled search."""

from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._exact import TINY, UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.search.lanes import FLAGS, LANES, SMALLEST
from hardmax.search.threads import entry

LEVELS = 64  # of |k - c|^2, by which keys are sorted


class Panels(NamedTuple):
    """Keys of every cloud as (panel, coordinate, key of the panel), flat; c is the middle of the box around them."""

    order: IntArray  # (clouds, panels * 16) which key stands where; the last one fills up its panel
    counts: IntArray  # (clouds,) how many are seen
    coarse: AnyArray  # (clouds, panels * d * 16) float32, k - c scaled to at most 1
    fine: FloatArray  # (clouds, panels * d * 16) as given
    reach: AnyArray  # (clouds, panels) float32, largest |k - c| from this panel on, scaled
    scales: FloatArray  # (clouds,)
    highest: FloatArray  # (clouds,) largest |coordinate|


@njit(fastmath=FLAGS)
def seen_keys(mask: AnyArray, cloud: int, m: int, seen: IntArray) -> int:
    """List the keys of a cloud that are seen, all unless there is a mask, and return how many."""
    count = 0
    for key in range(m):
        if mask.size == 0 or mask[cloud, key]:
            seen[count] = key
            count += 1
    return count


@njit(inline="always", fastmath=FLAGS)
def slack_of_products(d: int, highest: float, size: float) -> float:
    """As `kernels.floating.slack_of`, for exact positions: |q|_1 = size, and keys with coordinates up to `highest`."""
    return 2.02 * ((d + 4) * UNIT * highest * size + d * TINY)


@njit(fastmath=FLAGS)
def centre_of(keys: AnyArray, seen: IntArray, centre: FloatArray) -> tuple[float, float]:
    """Write the middle of the box around the keys seen; return their largest |coordinate|, from zero and from there."""
    d, highest, spread = len(centre), 0.0, 0.0
    low, high = centre, np.empty(d)
    for r in range(d):
        low[r] = high[r] = keys[seen[0], r]
    for key in seen:
        for r in range(d):
            value = np.float64(keys[key, r])
            low[r], high[r] = min(low[r], value), max(high[r], value)
    for r in range(d):
        middle = low[r] + 0.5 * (high[r] - low[r])
        highest = max(highest, max(high[r], -low[r]))
        spread = max(spread, max(high[r] - middle, middle - low[r]))
        centre[r] = middle
    return highest, spread


@njit(fastmath=FLAGS)
def _sort(
    keys: AnyArray, seen: IntArray, centre: FloatArray, scale: float, in_order: bool, order: IntArray, reach: AnyArray
) -> None:
    """Order the keys seen by falling distance, up to a level, and write the largest distance from each panel on."""
    count, farthest, squares = len(seen), SMALLEST, np.empty(len(seen))
    for i in range(count):
        square = 0.0
        for r in range(len(centre)):
            square += ((np.float64(keys[seen[i], r]) - centre[r]) * scale) ** 2
        squares[i] = square
        farthest = max(farthest, square)
    starts, places, step = np.zeros(LEVELS + 1, np.intp), np.empty(count, np.intp), (LEVELS - 1) / farthest
    for i in range(count):
        starts[0 if in_order else LEVELS - int(squares[i] * step)] += 1
    starts[0] = 0
    for level in range(LEVELS):
        starts[level + 1] += starts[level]
    for i in range(count):
        level = 0 if in_order else LEVELS - 1 - int(squares[i] * step)
        places[starts[level]] = i
        starts[level] += 1
    farthest = 0.0
    for position in range(len(order) - 1, -1, -1):
        place = places[min(position, count - 1)]
        order[position] = seen[place]
        farthest = max(farthest, squares[place])
        if position % LANES == 0:
            reach[position // LANES] = np.float32(1.00001 * np.sqrt(farthest) + 1e-30)


@njit(fastmath=FLAGS)
def _pack_cloud(keys: AnyArray, mask: BoolArray, in_order: bool, cloud: int, panels: Panels) -> None:
    m, d = keys.shape
    seen, centre = np.empty(m, np.intp), np.empty(d)
    count = seen_keys(mask, cloud, m, seen)
    panels.counts[cloud] = count
    if not count:
        return
    highest, spread = centre_of(keys, seen[:count], centre)
    scale = 1.0 / max(spread, SMALLEST)
    panels.scales[cloud], panels.highest[cloud] = scale, highest
    order, fine, coarse = panels.order[cloud], panels.fine[cloud], panels.coarse[cloud]
    size = (count + LANES - 1) // LANES * LANES
    _sort(keys, seen[:count], centre, scale, in_order, order[:size], panels.reach[cloud])
    for start in range(0, size, LANES):
        for r in range(d):
            at = start * d + r * LANES
            for t in range(LANES):
                value = np.float64(keys[order[start + t], r])
                fine[at + t] = value
                coarse[at + t] = np.float32((value - centre[r]) * scale)


@entry(fastmath=FLAGS)
def pack(clouds: IntArray, keys: AnyArray, mask: BoolArray, in_order: bool, panels: Panels) -> None:
    """Sort the keys of some clouds into panels, without those that `mask` hides, if it is not empty."""
    for cloud in clouds:
        _pack_cloud(keys[cloud], mask, in_order, cloud, panels)


def empty_panels(clouds: int, m: int, d: int) -> Panels:
    """Make room for clouds of m keys each."""
    count = (m + LANES - 1) // LANES
    return Panels(
        np.empty((clouds, count * LANES), np.intp),
        np.empty(clouds, np.intp),
        np.empty((clouds, count * d * LANES), np.float32),
        np.empty((clouds, count * d * LANES)),
        np.empty((clouds, count), np.float32),
        np.empty(clouds),
        np.empty(clouds),
    )
