"""Points in an order in which every 16 that follow one another are neighbours: a k-d tree without pointers.

A range of panels is cut where its first half, the largest power of two, ends: those with the smaller coordinate come
first, along the widest side of the box around them. Where that is by far the widest, both halves are cut along it at
once, and so are quarters of what is too large for a cache. Panels 4^l i to 4^l (i + 1) are then neighbours for every l.

A cut need not be sharp. What lies on its wrong side is close to it, and whoever uses the order measures the boxes: it
decides how long a search takes, not what is found.
"""

import numpy as np
from numba import njit

from hardmax._types import AnyArray, IntArray
from hardmax.search.lanes import FLAGS, LANES

SHARP = 16  # a cut is sharp enough when only this part of a range is still in disorder around it
ROUNDS = 24  # times that points are moved for one cut, at most
BINS, FEW_BINS = 256, 64  # into which points are sorted; fewer for up to
SEVERAL = 2048  # points
GLANCE = 16  # points by which a side is taken for the widest
LONG = np.float32(1.5)  # times the next side: then it is cut in four
FEW = 64  # points that are sorted by counting the smaller ones of each
LARGE = 1024  # panels that are in a cache together
DEPTH = 512  # ranges that wait at most


@njit(fastmath=FLAGS)
def arrange(points: AnyArray, ids: AnyArray, first: int, last: int, smallest: int) -> None:
    """Bring the ids of points in order, from panel `first` to `last`, down to ranges so small.

    The second half of `ids` is room to work in.
    """
    waiting, count = np.empty((DEPTH, 2), np.intp), 1
    ends, numbers = np.empty(BINS, np.intp), np.empty(max(2 * FEW, (last - first) * LANES), np.int32)
    sample, around = np.empty(FEW, np.float32), np.empty((7, 2), np.intp)
    waiting[0, 0], waiting[0, 1] = first, last
    while count:
        count -= 1
        start, stop = waiting[count, 0], waiting[count, 1]
        if stop - start <= smallest:
            continue
        step = 1
        while 2 * step < stop - start:
            step *= 2
        low, high = start * LANES, min(stop * LANES, len(ids) // 2)
        axis, long = _widest(points, ids, low, high)
        if stop - start > LARGE:
            step = max(step // 4, LARGE)
        elif long and step > 1:
            step //= 2
        _cut(points, ids, axis, low, high, step * LANES, ends, numbers, sample, around)
        for piece in range(start, stop, step):
            waiting[count, 0], waiting[count, 1] = piece, min(piece + step, stop)
            count += 1


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
def _widest(points: AnyArray, ids: AnyArray, low: int, high: int) -> tuple[int, bool]:
    """The longest side of the box around some points, and whether it is by far, as far as a sample shows."""
    widest, next_one, axis = np.float32(-1), np.float32(-1), 0
    for r in range(points.shape[1]):
        least, most = _ends(points, ids, r, low, high)
        if most - least > widest:
            widest, next_one, axis = most - least, widest, r
        else:
            next_one = max(next_one, most - least)
    return axis, bool(widest > LONG * next_one)


@njit(fastmath=FLAGS)
def _ends(points: AnyArray, ids: AnyArray, axis: int, low: int, high: int) -> tuple[np.float32, np.float32]:
    """The smallest and the largest coordinate of a sample."""
    least = most = points[ids[low], axis]
    for i in range(low, high, max(1, (high - low) // GLANCE)):
        value = points[ids[i], axis]
        least, most = min(least, value), max(most, value)
    return least, most


@njit(fastmath=FLAGS)
def _cut(
    points: AnyArray,
    ids: AnyArray,
    axis: int,
    low: int,
    high: int,
    step: int,
    ends: IntArray,
    numbers: AnyArray,
    sample: AnyArray,
    around: IntArray,
) -> None:
    """Bring smaller coordinates before every `step` points and larger ones behind, but for a few nearly the same."""
    enough, cuts = (high - low) // SHARP, (high - low - 1) // step
    if not _spread(points, ids, axis, low, high, ends, numbers, sample):
        return
    for i in range(cuts):
        around[i, 0], around[i, 1] = _bin_of(low + (i + 1) * step, ends, low)
    for i in range(cuts):
        middle, first, last, before = low + (i + 1) * step, around[i, 0], around[i, 1], high - low
        for _ in range(ROUNDS):
            if last == middle or last - first <= enough or last - first == before:  # all of which are then the same
                break
            before = last - first
            if not _spread(points, ids, axis, first, last, ends, numbers, sample):
                break
            first, last = _bin_of(middle, ends, first)


@njit
def _bin_of(place: int, ends: IntArray, low: int) -> tuple[int, int]:
    """Where the bin begins and ends in which a place is."""
    number = 0
    while ends[number] < place:
        number += 1
    return ends[number - 1] if number else low, ends[number]


@njit(fastmath=FLAGS)
def _spread(
    points: AnyArray,
    ids: AnyArray,
    axis: int,
    low: int,
    high: int,
    ends: IntArray,
    numbers: AnyArray,
    sample: AnyArray,
) -> bool:
    """Sort some points into bins by a coordinate, and write where each ends; or bring a few in order without.

    What is beyond the ends of a sample is in the first and last bin.
    """
    if high - low <= FEW:
        _sort(points, ids, axis, low, high, sample, numbers)
        return False
    room, bins = len(ids) // 2, BINS if high - low > SEVERAL else FEW_BINS
    least, most = _ends(points, ids, axis, low, high)
    scale = np.float32(bins - 2.01) / max(most - least, np.float32(1e-30))
    for number in range(bins):
        ends[number] = 0
    for i in range(high - low):
        own = ids[low + i]
        place = (points[own, axis] - least) * scale
        number = int(min(max(place, np.float32(-1)), np.float32(bins - 2))) + 1
        ids[room + low + i], numbers[i] = own, number
        ends[number] += 1
    total = low
    for number in range(bins):
        ends[number], total = total, total + ends[number]
    for i in range(high - low):
        number = numbers[i]
        ids[ends[number]] = ids[room + low + i]
        ends[number] += 1
    return True


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
