"""The Triton kernel that searches: one product of queries with keys on the tensor cores, and the rows it decides."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

from hardmax.attention.gpu_keys import COPIED, PLAIN, SHORT, dropped

NOTHING: tl.constexpr = tl.constexpr(-3.0e38)  # stands for "sees no key": finite, so that packing never makes a NaN
LARGEST: tl.constexpr = tl.constexpr(1.0e37)  # scores up to here cannot overflow, nor come near NOTHING
EPSILON: tl.constexpr = tl.constexpr(2.0**-50)  # added to norms; outweighs every underflow
VALUES: tl.constexpr = tl.constexpr(64)  # columns of values held at a time


@triton.jit
def _squares(x, TF32: tl.constexpr):
    """|x|^2 of every row and, for TF32, that of what TF32 drops."""
    x = x.to(tl.float32)
    rest = dropped(x) if TF32 else tl.zeros(x.shape, tl.float32)
    return tl.sum(x * x, 1), tl.sum(rest * rest, 1)


@triton.jit
def _longest(squares, b, blocks, BLOCKS: tl.constexpr):
    """Largest norm of a key, rounded up, from the largest squares of its blocks."""
    block = tl.arange(0, BLOCKS)
    most = tl.zeros([BLOCKS], tl.float32)
    for start in range(0, blocks, BLOCKS):
        inside = start + block < blocks
        most = tl.maximum(most, tl.load(squares + b * blocks + start + block, mask=inside, other=0.0))
    return tl.sqrt(tl.max(most, 0)) * 1.001 + EPSILON


@triton.jit
def _scores(q0, q_tiles, k_tiles, q_row, k_row, WIDTH: tl.constexpr, PARTS: tl.constexpr):
    """Products of a tile of queries with a tile of keys; long vectors in parts."""
    s = tl.dot(q0, k_tiles.load([k_row, 0]).T, input_precision="tf32")
    for part in tl.static_range(1, PARTS):
        q = q_tiles.load([q_row, part * WIDTH])
        s = tl.dot(q, k_tiles.load([k_row, part * WIDTH]).T, s, input_precision="tf32")
    return s


@triton.jit
def _merge(m1, m2, s, t, keep, GROUP: tl.constexpr):
    """Take tile t of the scores into the largest and the second largest group of every lane."""
    x = s
    if GROUP > 1:
        x = tl.max(tl.reshape(s, (s.shape[0], GROUP, s.shape[1] // GROUP)), 1)
    x = ((x.to(tl.int32, bitcast=True) & keep) | t).to(tl.float32, bitcast=True)
    return tl.maximum(m1, x), tl.maximum(m2, tl.minimum(m1, x))


@triton.jit
def _true(copies, kept, b, m, index, real, flag, record):
    """The keys that a search numbers so, and whether they are to be looked at."""
    key = index
    if flag >= SHORT:
        key = tl.load(kept + b * m + index, mask=real, other=0)
    if flag != PLAIN:
        real &= tl.load(copies + b * record + key, mask=real, other=1) != 0
    return key, real


@triton.jit
def _take(winner, high, second, key, real, product):
    """Best key so far, its product, and the best of all others."""
    product = tl.where(real, product, float("-inf"))
    winner = tl.where(product > high, key, winner)
    return winner, tl.maximum(high, product), tl.maximum(second, tl.minimum(high, product))


@triton.jit
def _compared(
    winner, high, second, group, q, k, copies, kept, row, b, m, limit, flag, record, D, CHUNK: tl.constexpr,
    LANES: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    """Take the keys of a group into account: the best so far, its product, and the best product of all others."""
    more: tl.constexpr = GROUP > 2
    asked = group >= 0
    w, w_real = _true(copies, kept, b, m, group, asked & (group < limit), flag, record)
    x, x_real = _true(copies, kept, b, m, group + LANES, asked & (group + LANES < limit), flag, record)
    y, y_real = _true(copies, kept, b, m, group + 2 * LANES, asked & (group + 2 * LANES < limit) & more, flag, record)
    z, z_real = _true(copies, kept, b, m, group + 3 * LANES, asked & (group + 3 * LANES < limit) & more, flag, record)
    w_total = tl.zeros([row.shape[0], CHUNK], tl.float32)
    x_total = tl.zeros([row.shape[0], CHUNK], tl.float32)
    y_total = tl.zeros([row.shape[0], CHUNK], tl.float32)
    z_total = tl.zeros([row.shape[0], CHUNK], tl.float32)
    for start in tl.range(0, D, CHUNK, loop_unroll_factor=2):
        columns = (start + tl.arange(0, CHUNK))[None, :]
        own = tl.load(q + row[:, None] * D + columns, mask=asked[:, None] & (columns < D), other=0.0).to(tl.float32)
        kw = tl.load(k + (b * m + w)[:, None] * D + columns, mask=w_real[:, None] & (columns < D), other=0.0)
        kx = tl.load(k + (b * m + x)[:, None] * D + columns, mask=x_real[:, None] & (columns < D), other=0.0)
        w_total += own * kw.to(tl.float32)
        x_total += own * kx.to(tl.float32)
        if GROUP > 2:
            ky = tl.load(k + (b * m + y)[:, None] * D + columns, mask=y_real[:, None] & (columns < D), other=0.0)
            kz = tl.load(k + (b * m + z)[:, None] * D + columns, mask=z_real[:, None] & (columns < D), other=0.0)
            y_total += own * ky.to(tl.float32)
            z_total += own * kz.to(tl.float32)
    winner, high, second = _take(winner, high, second, w, w_real, tl.sum(w_total, 1))
    winner, high, second = _take(winner, high, second, x, x_real, tl.sum(x_total, 1))
    winner, high, second = _take(winner, high, second, y, y_real, tl.sum(y_total, 1))
    winner, high, second = _take(winner, high, second, z, z_real, tl.sum(z_total, 1))
    return winner, high, second


@triton.jit(do_not_specialize=[
    "n", "m", "rows", "tiles", "blocks", "units", "causal", "record", "class_record", "keep", "error", "packing",
    "slack"
])  # fmt: skip
def search(
    q_tiles, k_tiles, short_tiles, q, k, v, norms, residuals, out, first, sizes, lanes, own_lanes, flags, copies,
    starts, members, kept, used, pending, n, m, rows, tiles, blocks, units, causal, record, class_record, keep, error,
    packing, slack, DV,
    WIDTH: tl.constexpr, PARTS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    LANES: tl.constexpr, STAGES: tl.constexpr, ROUNDS: tl.constexpr, TF32: tl.constexpr, COPIES: tl.constexpr
):  # fmt: skip
    """Find C_i of a tile of queries where it clearly is one key or its copies; leave other rows pending.

    The best ROUNDS groups of a row are looked into.
    """
    D = units * (128 // q.dtype.element_ty.primitive_bitwidth)
    tile, b = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.where(causal != 0, tiles - 1 - tile, tile)  # the longest first
    top = tile * ROWS
    query = top + tl.arange(0, ROWS)
    flag = tl.load(flags + b * class_record)
    amount = tl.load(used + b, mask=flag >= SHORT, other=0)
    limit = tl.minimum(m, tl.where(causal != 0, query + 1, m))  # keys below it are seen
    limit = tl.where(flag >= SHORT, amount, limit)
    k_norm = _longest(norms, b, blocks, 32)
    k_rest = _longest(residuals, b, blocks, 32) if TF32 else 0.0
    q_row = (b * n + top).to(tl.int32)
    k_row = (b * m).to(tl.int32)
    q0 = q_tiles.load([q_row, 0])
    square, residual = _squares(q0, TF32)
    for part in tl.static_range(1, PARTS):
        more, more_residual = _squares(q_tiles.load([q_row, part * WIDTH]), TF32)
        square += more
        residual += more_residual
    m1 = tl.full([ROWS, LANES], NOTHING, tl.float32)
    m2 = tl.full([ROWS, LANES], NOTHING, tl.float32)
    if COPIES and flag >= SHORT:  # loops begin with copies that nobody waits for if there is nothing to do
        for t in tl.range(0, tl.cdiv(amount, KEYS), num_stages=STAGES):
            s = _scores(q0, q_tiles, short_tiles, q_row, k_row + t * KEYS, WIDTH, PARTS)
            s = tl.where((t * KEYS + tl.arange(0, KEYS) < amount)[None, :], s, NOTHING)
            m1, m2 = _merge(m1, m2, s, t * LANES, keep, KEYS // LANES)
    else:
        tail = tl.where(flag != PLAIN, 0, tl.minimum(m, tl.where(causal != 0, top + 1, m)) // KEYS)
        for t in tl.range(0, tail, num_stages=STAGES):
            s = _scores(q0, q_tiles, k_tiles, q_row, k_row + t * KEYS, WIDTH, PARTS)
            m1, m2 = _merge(m1, m2, s, t * LANES, keep, KEYS // LANES)
        seen = tl.minimum(m, tl.where(causal != 0, top + ROWS, m))
        if tail * KEYS < seen:
            for t in tl.range(tail, tl.cdiv(seen, KEYS), num_stages=STAGES):
                s = _scores(q0, q_tiles, k_tiles, q_row, k_row + t * KEYS, WIDTH, PARTS)
                key = t * KEYS + tl.arange(0, KEYS)
                real = tl.load(copies + b * class_record + key, mask=(key < m) & (flag != PLAIN), other=1) != 0
                s = tl.where(real[None, :] & (key[None, :] < limit[:, None]), s, NOTHING)
                m1, m2 = _merge(m1, m2, s, t * LANES, keep, KEYS // LANES)

    row = b * n + query
    inside = query < n
    q_norm = tl.sqrt(square) * 1.001 + EPSILON
    size = q_norm * k_norm
    wrong = error * size
    if TF32:
        wrong += (tl.sqrt(residual) * 1.001 + EPSILON) * k_norm + q_norm * k_rest

    lane = tl.arange(0, LANES)
    m1 = (m1.to(tl.int32, bitcast=True) | lane[None, :]).to(tl.float32, bitcast=True)
    score = tl.max(m1, 1)
    near = score - slack * (wrong + packing * tl.abs(score))
    bounded = size < LARGEST  # false for NaN too
    nobody = bounded & (score < -2.0e38)
    clear = inside & bounded & (nobody == 0) & (tl.max(m2, 1) < near)
    high = tl.full([ROWS], float("-inf"), tl.float32)
    lower = tl.full([ROWS], float("-inf"), tl.float32)
    winner = tl.full([ROWS], -1, tl.int32)
    bits = tl.zeros([ROWS], tl.int32)
    turn = 0
    while (turn < ROUNDS) & (tl.max((clear & (score >= near)).to(tl.int32), 0) > 0):
        packed = score.to(tl.int32, bitcast=True)
        place = packed & (LANES - 1)
        group = tl.where(clear & (score >= near), place + (packed & ~keep) // LANES * KEYS, -1)
        winner, high, lower = _compared(winner, high, lower, group, q, k, copies, kept, row, b, m, limit, flag,
                                        class_record, D, CHUNK, LANES, KEYS // LANES)  # fmt: skip
        bits |= tl.where(score >= near, 1 << place, 0)
        m1 = tl.where(m1 == score[:, None], NOTHING, m1)
        score = tl.max(m1, 1)
        turn += 1
    sure = nobody | (clear & (score < near) & (high - lower > (D + 8) * 2.0**-23 * size))
    unsure = inside & (sure == 0)
    if tl.max(unsure.to(tl.int32), 0) > 0:
        bits |= tl.sum(tl.where(m1 >= near[:, None], (1 << lane)[None, :], 0), 1)
        bits = tl.where(bounded, bits, -1)
        slot = tl.atomic_add(pending + rows + tl.zeros([ROWS], tl.int32), 1, mask=unsure, sem="relaxed")
        tl.store(pending + slot, row.to(tl.int32), mask=unsure)
        tl.store(own_lanes + row, bits, mask=unsure)
    bits = tl.where(flag < SHORT, bits, -1)  # keys of a short list may lie in any lane
    whole = query < (n + 3) // 4 * 4  # the record has room for multiples of 4
    tl.store(lanes + b * record + query, bits, mask=whole)
    weight = tl.where(nobody, 0, 1)
    begin = tl.zeros([ROWS], tl.int32)
    if COPIES and flag == COPIED:
        weight = tl.load(copies + b * class_record + winner, mask=winner >= 0, other=0)
        begin = tl.load(starts + b * class_record + winner, mask=winner >= 0, other=0)
    tl.store(first + b * record + query, winner, mask=whole)
    tl.store(sizes + b * record + query, weight, mask=whole)
    for start in range(0, DV, VALUES):
        columns = start + tl.arange(0, VALUES)
        within = inside[:, None] & (columns < DV)[None, :]
        chosen = within & (winner >= 0)[:, None]
        value = tl.load(v + (b * m + winner)[:, None] * DV + columns[None, :], mask=chosen, other=0.0)
        if COPIES and flag == COPIED:
            total = value.to(tl.float32)
            for index in range(1, tl.max(weight, 0)):
                copy = tl.load(members + b * class_record + begin + index, mask=index < weight, other=0)
                place = v + (b * m + copy)[:, None] * DV + columns[None, :]
                total += tl.load(place, mask=chosen & (index < weight)[:, None], other=0.0).to(tl.float32)
            value = (total / tl.maximum(weight, 1).to(tl.float32)[:, None]).to(value.dtype)
        tl.store(out + row[:, None] * DV + columns[None, :], value, mask=within)
