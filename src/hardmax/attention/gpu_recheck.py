"""Triton kernels that decide pending rows exactly, and kernels that send gradients to the members of each set."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

LIMBS: tl.constexpr = tl.constexpr(18)  # of 32 bits from 2^-298 on: every product of two float32 numbers
BLOCK: tl.constexpr = tl.constexpr(128)  # keys compared at a time
CHUNK: tl.constexpr = tl.constexpr(64)  # columns held at a time


@triton.jit
def _whole(x):
    """Round towards zero."""
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


@triton.jit
def _limb(x, scale):
    """Bits 0 to 31 of x scale, with the sign of x. All steps are exact: scale is a power of two."""
    return _whole(x * scale) - _whole(x * (scale * 2.0**-32)) * 2.0**32


@triton.jit
def _order(q, k, q_row, k_rows, pivot_row, asked, D):
    """Sign of <q, k_j> - <q, k_pivot> in integer arithmetic: 1, 0 or -1."""
    carry = tl.zeros([BLOCK], tl.int64)
    rest = tl.zeros([BLOCK], tl.int32)
    scale = tl.full([1], 2.0**298, tl.float64)
    for _ in range(LIMBS):
        total = tl.zeros([BLOCK], tl.float64)  # whole numbers below 2^33 each, so exact for D up to 2^19
        for start in range(0, D, CHUNK):
            columns = start + tl.arange(0, CHUNK)
            x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
            z = tl.load(k + pivot_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
            inside = asked[:, None] & (columns < D)[None, :]
            y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0).to(tl.float64)
            total += tl.sum(_limb(x[None, :] * y, scale[:, None]) - _limb(x * z, scale)[None, :], 1)
        number = total.to(tl.int64) + carry
        carry = number >> 32
        rest |= (number - (carry << 32) != 0).to(tl.int32)
        scale *= 2.0**-32
    return tl.where(carry < 0, -1, tl.where((carry > 0) | (rest > 0), 1, 0))


@triton.jit
def _score(q, k, q_row, k_rows, real, D):
    """<q, k_j> in float64, and a bound of its error: (D + 8) 2^-53 |q| |k_j|, rounded up."""
    product = tl.zeros([BLOCK], tl.float64)
    k_square = tl.zeros([BLOCK], tl.float64)
    q_square = tl.zeros([CHUNK], tl.float64)
    for start in range(0, D, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
        inside = real[:, None] & (columns < D)[None, :]
        y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0).to(tl.float64)
        product += tl.sum(x[None, :] * y, 1)
        k_square += tl.sum(y * y, 1)
        q_square += x * x
    return product, (D + 8) * 2.0**-53 * 1.001 * tl.sqrt(tl.sum(q_square, 0) * k_square)


@triton.jit
def _differs(q, k, q_row, k_rows, pivot_row, asked, D):
    """Whether a key differs from the pivot in a column where the query is not 0."""
    found = tl.zeros([BLOCK], tl.int32)
    for start in range(0, D, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float32)
        z = tl.load(k + pivot_row * D + columns, mask=columns < D, other=0.0).to(tl.float32)
        inside = asked[:, None] & (columns < D)[None, :]
        y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0).to(tl.float32)
        found |= tl.max(((y != z[None, :]) & (x != 0)[None, :] & inside).to(tl.int32), 1)
    return found


@triton.jit
def _compare(q, k, q_row, k_rows, real, score, error, pivot_row, pivot, pivot_error, D):
    """Exact sign of <q, k_j> - <q, k_pivot> for a block of keys; -1 for a key that is not real."""
    close = real & (tl.abs(score - pivot) <= error + pivot_error)
    sign = tl.where(close, 0, tl.where(score > pivot, 1, -1))
    asked = close & (k_rows != pivot_row)
    if tl.max(asked.to(tl.int32), 0) > 0:
        asked &= _differs(q, k, q_row, k_rows, pivot_row, asked, D) > 0
        if tl.max(asked.to(tl.int32), 0) > 0:
            sign = tl.where(asked, _order(q, k, q_row, k_rows, pivot_row, asked, D), sign)
    return tl.where(real, sign, -1)


@triton.jit
def _highest(keys, sign, score, error):
    """The key with the largest float64 score of those above the pivot, that score and its error."""
    best = tl.max(tl.where(sign > 0, score, float("-inf")), 0)
    tl.debug_barrier()
    key = tl.min(tl.where((sign > 0) & (score == best), keys, 2147483647), 0)
    tl.debug_barrier()
    return key, best, tl.sum(tl.where(keys == key, error, 0.0), 0)


@triton.jit
def _keys_of_lane(
    mask, b, i, m, lane, start, LANES: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr
):  # fmt: skip
    """Keys number `start` on of a lane, and whether the query sees them."""
    keys = lane + LANES * (start + tl.arange(0, BLOCK))
    real = keys < m
    if CAUSAL:
        real &= keys <= i
    if MASKED:
        real &= tl.load(mask + b * m + keys, mask=real, other=0) != 0
    return keys, real


@triton.jit
def _score_one(q, k, q_row, k_row, D):
    alone = tl.arange(0, BLOCK) == 0
    score, error = _score(q, k, q_row, k_row + tl.zeros([BLOCK], tl.int64), alone, D)
    return tl.sum(tl.where(alone, score, 0.0), 0), tl.sum(tl.where(alone, error, 0.0), 0)


@triton.jit
def _members(
    q, k, mask, row, b, i, m, lane, start, pivot, pivot_score, pivot_error,
    D, LANES: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr
):  # fmt: skip
    """Keys number `start` on of a lane, and whether they are in the set that has `pivot` in it."""
    keys, real = _keys_of_lane(mask, b, i, m, lane, start, LANES, MASKED, CAUSAL)
    score, error = _score(q, k, row, b * m + keys, real, D)
    real &= tl.abs(score) + error < float("inf")
    sign = _compare(q, k, row, b * m + keys, real, score, error, b * m + pivot, pivot_score, pivot_error, D)
    return keys, sign == 0


@triton.jit(do_not_specialize=["n", "m", "rows"])
def decide(
    q, k, v, mask, out, first, sizes, lanes, pending, n, m, rows,
    D, DV, LANES: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr
):  # fmt: skip
    """Find C_i of the pending rows exactly, and write the mean of their values.

    One pass over the lanes that `search` named: a key above the pivot becomes the pivot, and all keys before it are
    then below.
    """
    for slot in range(tl.program_id(0), tl.load(pending + rows), tl.num_programs(0)):
        row = tl.load(pending + slot).to(tl.int64)
        b = row // n
        i = (row % n).to(tl.int32)
        bits = tl.load(lanes + row)
        pivot = -1
        pivot_score = tl.full([], float("-inf"), tl.float64)
        pivot_error = tl.full([], 0.0, tl.float64)
        lowest = m
        size = 0
        for lane in range(LANES):
            if ((bits >> lane) & 1) != 0:
                for start in range(0, tl.cdiv(m, LANES), BLOCK):
                    keys, real = _keys_of_lane(mask, b, i, m, lane, start, LANES, MASKED, CAUSAL)
                    k_rows = b * m + keys
                    score, error = _score(q, k, row, k_rows, real, D)
                    real &= tl.abs(score) + error < float("inf")
                    sign = _compare(q, k, row, k_rows, real, score, error, b * m + pivot, pivot_score, pivot_error, D)
                    floor = tl.max(tl.where(sign > 0, score - error, float("-inf")), 0)
                    contenders = tl.sum(((sign > 0) & (score + error >= floor)).to(tl.int32), 0)
                    if contenders > 0:
                        lowest, size = m, 0
                    for _ in range(contenders):  # one of them becomes the pivot each time, until none is above
                        if tl.max(sign, 0) > 0:
                            pivot, pivot_score, pivot_error = _highest(keys, sign, score, error)
                            sign = _compare(q, k, row, k_rows, real, score, error, b * m + pivot,
                                            pivot_score, pivot_error, D)  # fmt: skip
                    size += tl.sum((sign == 0).to(tl.int32), 0)
                    lowest = tl.minimum(lowest, tl.min(tl.where(sign == 0, keys, m), 0))
        lowest = tl.where(size > 0, lowest, -1)
        tl.store(first + row, lowest)
        tl.store(sizes + row, size)
        for start_v in range(0, DV, CHUNK):
            columns = start_v + tl.arange(0, CHUNK)
            within = columns < DV
            at = v + (b * m + lowest) * DV + columns
            total = tl.load(at, mask=within & (size == 1), other=0.0).to(tl.float32)
            if size > 1:
                for lane in range(LANES):
                    if ((bits >> lane) & 1) != 0:
                        for start in range(0, tl.cdiv(m, LANES), BLOCK):
                            keys, member = _members(q, k, mask, row, b, i, m, lane, start, lowest,
                                                    pivot_score, pivot_error, D, LANES, MASKED, CAUSAL)  # fmt: skip
                            at_members = v + (b * m + keys[:, None]) * DV + columns[None, :]
                            x = tl.load(at_members, mask=member[:, None] & within[None, :], other=0.0)
                            total += tl.sum(x.to(tl.float32), 0)
                total /= size.to(tl.float32)  # type: ignore[attr-defined]
            tl.store(out + row * DV + columns, total.to(out.dtype.element_ty), mask=within)


@triton.jit(do_not_specialize=["n", "m", "count"])
def list_members(
    q, k, mask, tied, starts, first, members, lanes, n, m, count,
    D, LANES: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr
):  # fmt: skip
    """Write out the members of each tied row, lane after lane."""
    for slot in range(tl.program_id(0), count, tl.num_programs(0)):
        row = tl.load(tied + slot).to(tl.int64)
        b = row // n
        i = (row % n).to(tl.int32)
        bits = tl.load(lanes + row)
        pivot = tl.load(first + row)
        pivot_score, pivot_error = _score_one(q, k, row, b * m + pivot, D)
        at = tl.load(starts + slot)
        for lane in range(LANES):
            if ((bits >> lane) & 1) != 0:
                for start in range(0, tl.cdiv(m, LANES), BLOCK):
                    keys, member = _members(q, k, mask, row, b, i, m, lane, start, pivot, pivot_score, pivot_error,
                                            D, LANES, MASKED, CAUSAL)  # fmt: skip
                    chosen = member.to(tl.int64)
                    tl.store(members + at + tl.cumsum(chosen, 0) - chosen, keys, mask=member)
                    at += tl.sum(chosen, 0)


@triton.jit(do_not_specialize=["n", "parts", "each"])
def largest_gradients(g, largest, n, parts, each, DV, ROWS: tl.constexpr):
    """Write the largest |g| of every column over `each` rows of a batch entry; infinite where one is not finite."""
    part, b = tl.program_id(0) % parts, (tl.program_id(0) // parts).to(tl.int64)
    for start in range(0, DV, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        most = tl.zeros([ROWS, CHUNK], tl.float32)
        for top in range(part * each, tl.minimum(n, (part + 1) * each), ROWS):
            i = top + tl.arange(0, ROWS)
            inside = (i < n)[:, None] & (columns < DV)[None, :]
            x = tl.load(g + (b * n + i[:, None]) * DV + columns[None, :], mask=inside, other=0.0).to(tl.float32)
            most = tl.maximum(most, tl.where(tl.abs(x) < float("inf"), tl.abs(x), float("inf")))
        tl.store(largest + (b * parts + part) * DV + columns, tl.max(most, 0), mask=columns < DV)


@triton.jit
def _unit(largest, b, parts, columns, unit_bits, DV, PARTS: tl.constexpr):
    """The power of two that fixed-point numbers of a column count: the sum of n gradients stays below 2^62 units.

    Infinite in a column with a gradient that is not finite.
    """
    most = tl.zeros([CHUNK], tl.float32)
    part = tl.arange(0, PARTS)
    for start in range(0, parts, PARTS):
        inside = (start + part < parts)[:, None] & (columns < DV)[None, :]
        at = largest + (b * parts + start + part[:, None]) * DV + columns[None, :]
        most = tl.maximum(most, tl.max(tl.load(at, mask=inside, other=0.0), 0))
    exponent = (most.to(tl.int32, bitcast=True) >> 23).to(tl.int64)  # most < 2^(exponent - 126)
    unit = ((exponent - 126 + unit_bits + 1023) << 52).to(tl.float64, bitcast=True)
    return tl.where(most < float("inf"), unit, float("inf"))


@triton.jit(do_not_specialize=["n", "m", "rows", "tiles", "parts", "unit_bits"])
def scatter(
    g, largest, totals, first, sizes, tied, n, m, rows, tiles, parts, unit_bits,
    DV, ROWS: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    """Add the gradients of rows with one member, in fixed point: sums of whole numbers have no order. List the tied."""
    tile, b = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    i = tile * ROWS + tl.arange(0, ROWS)
    row = b * n + i
    size = tl.load(sizes + row, mask=i < n, other=0)
    slot = tl.atomic_add(tied + rows + tl.zeros([ROWS], tl.int32), 1, mask=size > 1, sem="relaxed")
    tl.store(tied + slot, row.to(tl.int32), mask=size > 1)
    single = size == 1
    key = b * m + tl.load(first + row, mask=single, other=0)
    for start in range(0, DV, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        inside = single[:, None] & (columns < DV)[None, :]
        unit = _unit(largest, b, parts, columns, unit_bits, DV, PARTS)
        x = tl.load(g + row[:, None] * DV + columns[None, :], mask=inside, other=0.0).to(tl.float64)
        number = (x * (1.0 / unit)[None, :]).to(tl.int64)
        tl.atomic_add(totals + key[:, None] * DV + columns[None, :], number, mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=["n", "m", "rows", "parts", "unit_bits"])
def scatter_tied(
    g, largest, totals, q, k, mask, first, sizes, lanes, tied, n, m, rows, parts, unit_bits,
    D, DV, LANES: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    PARTS: tl.constexpr
):  # fmt: skip
    """Add the gradient of each row with several members, divided by their number, to all of them."""
    for slot in range(tl.program_id(0), tl.load(tied + rows), tl.num_programs(0)):
        row = tl.load(tied + slot).to(tl.int64)
        size = tl.load(sizes + row).to(tl.float64)
        b = row // n
        i = (row % n).to(tl.int32)
        bits = tl.load(lanes + row)
        pivot = tl.load(first + row)
        pivot_score, pivot_error = _score_one(q, k, row, b * m + pivot, D)
        for lane in range(LANES):
            if ((bits >> lane) & 1) != 0:
                for start in range(0, tl.cdiv(m, LANES), BLOCK):
                    keys, member = _members(q, k, mask, row, b, i, m, lane, start, pivot, pivot_score, pivot_error,
                                            D, LANES, MASKED, CAUSAL)  # fmt: skip
                    for start_v in range(0, DV, CHUNK):
                        columns = start_v + tl.arange(0, CHUNK)
                        unit = _unit(largest, b, parts, columns, unit_bits, DV, PARTS)
                        x = tl.load(g + row * DV + columns, mask=columns < DV, other=0.0).to(tl.float64)
                        number = (x / size * (1.0 / unit)).to(tl.int64)
                        at = totals + (b * m + keys[:, None]) * DV + columns[None, :]
                        inside = member[:, None] & (columns < DV)[None, :]
                        number = number[None, :] + tl.zeros([BLOCK, 1], tl.int64)
                        tl.atomic_add(at, number, mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=["m", "tiles", "parts", "unit_bits"])
def round_totals(totals, largest, out, m, tiles, parts, unit_bits, DV, ROWS: tl.constexpr,
                 PARTS: tl.constexpr):  # fmt: skip
    """Write fixed-point sums as floating-point numbers."""
    tile, b = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    key = tile * ROWS + tl.arange(0, ROWS)
    for start in range(0, DV, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        inside = (key < m)[:, None] & (columns < DV)[None, :]
        at = (b * m + key[:, None]) * DV + columns[None, :]
        unit = _unit(largest, b, parts, columns, unit_bits, DV, PARTS)[None, :]
        total = tl.load(totals + at, mask=inside, other=0).to(tl.float64) * unit
        total = tl.where(unit < float("inf"), total, float("nan"))
        tl.store(out + at, total.to(tl.float32).to(out.dtype.element_ty), mask=inside)
