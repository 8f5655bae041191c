"""Triton functions that sort the rows of a cloud by the key they chose, for the gradient, and find the tied ones."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

from hardmax.attention.gpu_decide import CHUNK, how_many, members_in_lanes
from hardmax.attention.gpu_exact import BLOCK, score_one
from hardmax.attention.gpu_keys import COPIED

FEW: tl.constexpr = tl.constexpr(8)  # rows of a key that are added up in their order, in float32


@triton.jit
def unit_of(most, unit_bits):
    """The power of two that whole numbers of a column count: the sum of n gradients stays below 2^62 units.

    Infinite in a column with a gradient that is not finite.
    """
    exponent = (most.to(tl.int32, bitcast=True) >> 23).to(tl.int64)  # most < 2^(exponent - 126)
    unit = ((exponent - 126 + unit_bits + 1023) << 52).to(tl.float64, bitcast=True)
    return tl.where(most < float("inf"), unit, float("inf"))


@triton.jit
def size_of(x):
    """|x|, infinite for NaN."""
    return tl.where(tl.abs(x) < float("inf"), tl.abs(x), float("inf"))


@triton.jit
def _prepare_ties(g, largest, totals, b, n, m, DV, ROWS: tl.constexpr):
    """Write the largest |g| of every column of a cloud, infinite where one is not finite, and clear its totals."""
    for start in range(0, DV, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        most = tl.zeros([ROWS, CHUNK], tl.float32)
        for top in range(0, n, ROWS):
            i = top + tl.arange(0, ROWS)
            inside = (i < n)[:, None] & (columns < DV)[None, :]
            x = tl.load(g + (b * n + i[:, None]) * DV + columns[None, :], mask=inside, other=0.0).to(tl.float32)
            most = tl.maximum(most, size_of(x))
        tl.store(largest + b * DV + columns, tl.max(most, 0), mask=columns < DV)
        for top in range(0, m, ROWS):
            key = top + tl.arange(0, ROWS)
            inside = (key < m)[:, None] & (columns < DV)[None, :]
            zero = tl.zeros([ROWS, CHUNK], tl.int64)
            tl.store(totals + (b * m + key[:, None]) * DV + columns[None, :], zero, mask=inside)


@triton.jit
def sort_cloud(
    g, largest, totals, first, sizes, flags, copies, counts, begins, ranks, order, tied, tied_counts, busy, busy_counts,
    b, n, m, record, listed, DV, ROWS: tl.constexpr
):  # fmt: skip
    """Sort the rows of a cloud by their key; list the tied ones. `listed` says whether there are flags and copies."""
    flag = tl.load(flags + b * record, mask=listed != 0, other=0)
    for start in range(0, m, ROWS):
        keys = start + tl.arange(0, ROWS)
        tl.store(counts + b * m + keys, 0, mask=keys < m)
    tl.debug_barrier()
    several = 0
    for start in range(0, n, ROWS):
        i = start + tl.arange(0, ROWS)
        key = tl.load(first + b * record + i, mask=i < n, other=-1)
        size = tl.load(sizes + b * record + i, mask=i < n, other=0)
        own = tl.load(copies + b * record + key, mask=(key >= 0) & (flag == COPIED), other=1)
        alone = (size > 0) & (size == own)
        rank = tl.atomic_add(counts + b * m + key, 1, mask=alone, sem="relaxed")
        tl.store(ranks + b * n + i, tl.where(alone, rank, -1), mask=i < n)
        others = ((size > 0) & (size != own)).to(tl.int32)
        tl.store(tied + b * n + several + tl.cumsum(others, 0) - others, i, mask=others > 0)
        several += tl.sum(others, 0)
    tl.store(tied_counts + b, several)
    tl.debug_barrier()
    placed = 0
    n_busy = 0
    for start in range(0, m, ROWS):
        keys = start + tl.arange(0, ROWS)
        many = tl.load(counts + b * m + keys, mask=keys < m, other=0)
        crowded = (many > FEW).to(tl.int32)
        tl.store(busy + b * n + n_busy + tl.cumsum(crowded, 0) - crowded, keys, mask=crowded > 0)
        n_busy += tl.sum(crowded, 0)
        tl.store(begins + b * m + keys, placed + tl.cumsum(many, 0) - many, mask=keys < m)
        placed += tl.sum(many, 0)
    tl.store(busy_counts + b, n_busy)
    tl.debug_barrier()
    for start in range(0, n, ROWS):
        i = start + tl.arange(0, ROWS)
        rank = tl.load(ranks + b * n + i, mask=i < n, other=-1)
        key = tl.load(first + b * record + i, mask=rank >= 0, other=0)
        begin = tl.load(begins + b * m + key, mask=rank >= 0, other=0)
        tl.store(order + b * n + begin + rank, i, mask=rank >= 0)
    if several > 0:
        _prepare_ties(g, largest, totals, b, n, m, DV, 32)


@triton.jit
def scatter_cloud(
    g, largest, totals, q, k, mask, first, sizes, lanes, tiles, tied, tied_counts, b, part, each, n, m, record, D,
    unit_bits, masked, causal, DV
):  # fmt: skip
    """Add the gradient of each tied row, divided by the number of members, to all of them: part `part` of `each`."""
    for slot in range(part, tl.load(tied_counts + b), each):
        i = tl.load(tied + b * n + slot)
        row = b * n + i
        limit = tl.where(causal != 0, i + 1, m)
        size = tl.load(sizes + b * record + i).to(tl.float64)
        bits = tl.load(lanes + b * record + i)
        pair = tl.load(tiles + b * record + i)
        pivot = tl.load(first + b * record + i)
        pivot_score, pivot_error = score_one(q, k, row, b * m + pivot, D)
        for start in range(0, how_many(m, bits, pair), BLOCK):
            keys, member = members_in_lanes(q, k, mask, row, b, m, limit, bits, pair, start, pivot, pivot_score,
                                            pivot_error, masked, D)  # fmt: skip
            for start_v in range(0, DV, CHUNK):
                columns = start_v + tl.arange(0, CHUNK)
                unit = unit_of(tl.load(largest + b * DV + columns, mask=columns < DV, other=0.0), unit_bits)
                x = tl.load(g + row * DV + columns, mask=columns < DV, other=0.0).to(tl.float64)
                number = (x / size * (1.0 / unit)).to(tl.int64)[None, :] + tl.zeros([BLOCK, 1], tl.int64)
                at = totals + (b * m + keys[:, None]) * DV + columns[None, :]
                tl.atomic_add(at, number, mask=member[:, None] & (columns < DV)[None, :], sem="relaxed")
