"""Points in an order in which every 16 that follow one another are neighbours: a k-d tree without pointers.

A range of panels is cut where its first half, the largest power of two, ends: those with the smaller coordinate come
first, along the widest side of the box around them. Panels 4^l i to 4^l (i + 1) are then neighbours for every l.

A cut need not be sharp. What lies on its wrong side is close to it, and whoever uses the order measures the boxes: it
decides how long a search takes, not what is found.
"""

import numpy as np
from numba import njit

from hardmax._types import AnyArray
from hardmax.kernels.lanes import FLAGS, LANES

SHARP = 16  # a cut is sharp enough when only this part of a range is still in disorder around it
ROUNDS = 24  # times that points are moved for one cut, at most
SAMPLE = 63  # coordinates by which a cut is guessed
GLANCE = 16  # points by which a side is taken for the widest
FEW = 64  # points that are sorted by counting the smaller ones of each
DEPTH = 128  # ranges that wait at most


@njit(fastmath=FLAGS)
def arrange(points: AnyArray, ids: AnyArray, first: int, last: int, smallest: int) -> None:
    """Bring the ids of points in order, from panel `first` to `last`, down to ranges so small.

    The second half of `ids` is room to work in.
    """
    waiting, count = np.empty((DEPTH, 2), np.intp), 1
    sample, ranks = np.empty(SAMPLE + 1, np.float32), np.empty(2 * FEW, np.int32)
    waiting[0, 0], waiting[0, 1] = first, last
    while count:
        count -= 1
        start, stop = waiting[count, 0], waiting[count, 1]
        if stop - start <= smallest:
            continue
        half = 1
        while 2 * half < stop - start:
            half *= 2
        low, high = start * LANES, min(stop * LANES, len(ids) // 2)
        _cut(points, ids, _widest(points, ids, low, high), low, high, (start + half) * LANES, sample, ranks)
        waiting[count, 0], waiting[count, 1] = start, start + half
        waiting[count + 1, 0], waiting[count + 1, 1] = start + half, stop
        count += 2


@njit(fastmath=FLAGS)
def arrange_part(points: AnyArray, ids: AnyArray, first: int, last: int) -> None:
    """Bring the ids from panel `first` to `last` in order down to single panels; a copy of their points is near."""
    low, high, d = first * LANES, min(last * LANES, len(ids) // 2), points.shape[1]
    near, places = np.empty((high - low, d), points.dtype), np.empty(2 * (high - low), ids.dtype)
    room = len(ids) // 2
    for i in range(high - low):
        places[i], own = i, ids[low + i]
        ids[room + low + i] = own
        for r in range(d):
            near[i, r] = points[own, r]
    arrange(near, places, 0, last - first, 1)
    for i in range(high - low):
        ids[low + i] = ids[room + low + places[i]]


@njit(fastmath=FLAGS)
def _widest(points: AnyArray, ids: AnyArray, low: int, high: int) -> int:
    """The longest side of the box around some points, as far as a sample shows."""
    widest, axis, step = np.float32(0), 0, max(1, (high - low) // GLANCE)
    for r in range(points.shape[1]):
        least = most = points[ids[low], r]
        for i in range(low, high, step):
            value = points[ids[i], r]
            least, most = min(least, value), max(most, value)
        if most - least > widest:
            widest, axis = most - least, r
    return axis


@njit(fastmath=FLAGS)
def _cut(
    points: AnyArray, ids: AnyArray, axis: int, low: int, high: int, middle: int, sample: AnyArray, ranks: AnyArray
) -> None:
    """Bring smaller coordinates before `middle` and larger ones behind it, but for a few that are nearly the same.

    Those below and above an interval around the cut are moved aside, without a branch that a processor could guess
    wrong; then the same again for what is in between.
    """
    room, enough = len(ids) // 2, (high - low) // SHARP
    for _ in range(ROUNDS):
        if high - low <= enough:
            return
        if high - low <= FEW:
            _sort(points, ids, axis, low, high, sample, ranks)
            return
        lower, upper = _around(points, ids, axis, low, high, middle, sample)
        left, between, right = room + low, low, room + high - 1
        for i in range(low, high):
            own = ids[i]
            value = points[own, axis]
            below, above = int(value < lower), int(value > upper)
            rest = 1 - below - above
            ids[below * left + above * right + rest * between] = own
            left, between, right = left + below, between + rest, right - above
        for i in range(between - low):
            ids[left + i] = ids[low + i]
        for i in range(low, high):
            ids[i] = ids[room + i]
        left, right = left - room, right + 1 - room
        if middle < left:
            high = left
        elif middle > right:
            low = right
        elif lower == upper:
            return
        else:
            low, high = left, right


@njit(fastmath=FLAGS)
def _around(
    points: AnyArray, ids: AnyArray, axis: int, low: int, high: int, middle: int, sample: AnyArray
) -> tuple[float, float]:
    """Two coordinates, of which the one with as many smaller ones as belong before `middle` lies likely in between."""
    count = min(SAMPLE, (high - low) // 16 + 8)
    step = (high - low) // count
    for s in range(count):
        value, place = points[ids[low + s * step + step // 2], axis], s
        while place > 0 and sample[place - 1] > value:
            sample[place] = sample[place - 1]
            place -= 1
        sample[place] = value
    rank, away = (middle - low) * count // (high - low), max(1, count // 10)
    return sample[max(rank - away, 0)], sample[min(rank + away, count - 1)]


@njit(fastmath=FLAGS)
def _sort(points: AnyArray, ids: AnyArray, axis: int, low: int, high: int, sample: AnyArray, ranks: AnyArray) -> None:
    """Sort a few points by a coordinate."""
    count, room = high - low, len(ids) // 2
    taken = ranks[FEW : FEW + count]
    for i in range(count):
        ids[room + low + i] = ids[low + i]
        sample[i] = points[ids[low + i], axis]
        taken[i] = 0
    for i in range(count):
        value, smaller = sample[i], np.float32(0)
        for j in range(count):
            smaller += np.float32(1) if sample[j] < value else np.float32(0)
        ranks[i] = int(smaller)
    for i in range(count):
        smaller = ranks[i]
        ids[low + smaller + taken[smaller]] = ids[room + low + i]
        taken[smaller] += 1
