"""Rows of one small cloud as lanes of float32: queries 16 at a time, keys in panels of 16, and a matrix times them."""

import numpy as np
from numba import njit

from hardmax._types import AnyArray, IntArray
from hardmax.search.lanes import FLAGS, LANES
from hardmax.search.row_lanes import COLUMNS, measure, times_four, times_one, turn

LOST = 1.2e-38  # what may be lost of a number below the range of float32


@njit(fastmath=FLAGS)
def size_of_form(form: AnyArray) -> float:
    """At least |form|_2, and not so small that what is lost in `times` may matter."""
    square = 0.0
    for r in range(len(form)):
        for s in range(form.shape[1]):
            square += np.float64(form[r, s]) * np.float64(form[r, s])
    return max(1.000001 * np.sqrt(square), 1e-6)


@njit(fastmath=FLAGS)
def times(lanes: AnyArray, form: AnyArray, out: AnyArray) -> None:
    """Multiply 16 rows by a matrix."""
    d = len(form)
    for column in range(0, d // COLUMNS * COLUMNS, COLUMNS):
        times_four(lanes, form, column, d, out)
    for column in range(d // COLUMNS * COLUMNS, d):
        times_one(lanes, form, column, d, out)


@njit(fastmath=FLAGS)
def turned(rows: AnyArray, ids: IntArray, start: int, stop: int, out: AnyArray, at: int) -> None:
    """Write the rows ids[start:stop], 16 at most, column by column; zeros for those that are missing."""
    d, turned = rows.shape[1], 0
    if stop - start == LANES:
        turned = d // COLUMNS * COLUMNS
        for column in range(0, turned, COLUMNS):
            turn(rows, ids, start, column, d, out, at + column * LANES)
    for r in range(turned, d):
        for lane in range(LANES):
            out[at + r * LANES + lane] = rows[ids[start + lane], r] if start + lane < stop else 0.0


@njit(fastmath=FLAGS)
def pack_rows(
    keys: AnyArray, ids: IntArray, panels: AnyArray, squares: AnyArray, largest: AnyArray
) -> tuple[np.float32, float]:
    """Sort keys into panels of 16; return a bound of their lengths, and the largest |coordinate|.

    Leaves the largest square of a length in `squares`.
    """
    count, d = len(ids), keys.shape[1]
    for lane in range(LANES):
        squares[lane] = largest[lane] = 0.0
    for start in range(0, count, LANES):
        turned(keys, ids, start, min(start + LANES, count), panels, start * d)
        measure(panels, start * d, d, squares, largest)
    square, highest = 0.0, 0.0
    for lane in range(LANES):
        square, highest = max(square, np.float64(squares[lane])), max(highest, np.float64(largest[lane]))
    for lane in range(LANES):
        squares[lane] = square
    return np.float32(1.000001 * np.sqrt(square + d * LOST)), highest
