"""Triton kernels that search: one product of queries with keys on the tensor cores, and the rows it decides."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

NOTHING: tl.constexpr = tl.constexpr(-3.0e38)  # stands for "sees no key": finite, so that packing never makes a NaN
LARGEST: tl.constexpr = tl.constexpr(1.0e37)  # scores up to here cannot overflow, nor come near NOTHING
EPSILON: tl.constexpr = tl.constexpr(2.0**-50)  # added to norms; outweighs every underflow
ROUNDS: tl.constexpr = tl.constexpr(4)  # near-maximal lanes of a row that are compared before it is left pending


@triton.jit
def _dropped(x):
    """What TF32 drops of x: the last 13 bits."""
    return x - (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=["rows", "m", "blocks"])
def measure_keys(
    k, mask, norms, residuals, pending, rows, m, blocks,
    D: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, TF32: tl.constexpr, MASKED: tl.constexpr
):  # fmt: skip
    """Write the largest |k|^2 of each block of keys and, for TF32, of what TF32 drops; start with no pending row."""
    block, b = tl.program_id(0) % blocks, (tl.program_id(0) // blocks).to(tl.int64)
    if tl.program_id(0) == 0:
        tl.store(pending + rows, 0)
    keys = block * BLOCK + tl.arange(0, BLOCK)
    real = keys < m
    if MASKED:
        real &= tl.load(mask + b * m + keys, mask=real, other=0) != 0
    norm = tl.zeros([BLOCK], tl.float32)
    residual = tl.zeros([BLOCK], tl.float32)
    for start in range(0, D, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        at = k + (b * m + keys[:, None]) * D + columns[None, :]
        x = tl.load(at, mask=real[:, None] & (columns < D)[None, :], other=0.0).to(tl.float32)
        norm += tl.sum(x * x, 1)
        if TF32:
            residual += tl.sum(_dropped(x) * _dropped(x), 1)
    tl.store(norms + b * blocks + block, tl.max(norm, 0))
    if TF32:
        tl.store(residuals + b * blocks + block, tl.max(residual, 0))


@triton.jit
def _squares(x, TF32: tl.constexpr):
    """|x|^2 of every row and, for TF32, that of what TF32 drops."""
    x = x.to(tl.float32)
    dropped = _dropped(x) if TF32 else tl.zeros(x.shape, tl.float32)
    return tl.sum(x * x, 1), tl.sum(dropped * dropped, 1)


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
def _merge(m1, m2, s, t, GROUP: tl.constexpr, BITS: tl.constexpr):
    """Take tile t of the scores into the largest and the second largest group of every lane."""
    x = s
    if GROUP > 1:
        x = tl.max(tl.reshape(s, (s.shape[0], GROUP, s.shape[1] // GROUP)), 1)
    if BITS > 0:
        x = ((x.to(tl.int32, bitcast=True) & -(1 << BITS)) | t).to(tl.float32, bitcast=True)
    return tl.maximum(m1, x), tl.maximum(m2, tl.minimum(m1, x))


@triton.jit
def _products(q, k, q_rows, k_rows, real, D: tl.constexpr, CHUNK: tl.constexpr):
    """Products of queries with one key each, in float32; minus infinity where the key is not real."""
    total = tl.zeros(q_rows.shape, tl.float32)
    for start in tl.static_range(0, D, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        within = real[:, None] & (columns < D)[None, :]
        x = tl.load(q + q_rows[:, None] * D + columns[None, :], mask=within, other=0.0).to(tl.float32)
        y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=within, other=0.0).to(tl.float32)
        total += tl.sum(x * y, 1)
    return tl.where(real, total, float("-inf"))


@triton.jit(do_not_specialize=["n", "m", "rows", "tiles", "blocks"])
def search(
    q_tiles, k_tiles, q, k, v, mask, norms, residuals, out, first, sizes, lanes, pending, n, m, rows, tiles, blocks,
    error, D: tl.constexpr, DV: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, CHUNK: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, LANES: tl.constexpr, BITS: tl.constexpr, STAGES: tl.constexpr,
    TF32: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr
):  # fmt: skip
    """Find C_i of a tile of queries where it clearly has one member, and write that value; leave other rows pending."""
    tile, b = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    if CAUSAL:
        tile = tiles - 1 - tile  # the longest first
    top = tile * ROWS
    query = top + tl.arange(0, ROWS)
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
    seen, whole = m, m // KEYS
    if CAUSAL:
        seen, whole = tl.minimum(m, top + ROWS), tl.minimum(m, top + 1) // KEYS
    if MASKED:
        whole = 0
    for t in tl.range(0, whole, num_stages=STAGES):
        s = _scores(q0, q_tiles, k_tiles, q_row, k_row + t * KEYS, WIDTH, PARTS)
        m1, m2 = _merge(m1, m2, s, t, KEYS // LANES, BITS)
    for t in tl.range(whole, tl.cdiv(seen, KEYS), num_stages=STAGES):
        s = _scores(q0, q_tiles, k_tiles, q_row, k_row + t * KEYS, WIDTH, PARTS)
        key = t * KEYS + tl.arange(0, KEYS)
        real = key < m
        if MASKED:
            real &= tl.load(mask + b * m + key, mask=real, other=0) != 0
        visible = real[None, :]
        if CAUSAL:
            visible = visible & (key[None, :] <= query[:, None])
        m1, m2 = _merge(m1, m2, tl.where(visible, s, NOTHING), t, KEYS // LANES, BITS)

    row = b * n + query
    inside = query < n
    q_norm = tl.sqrt(square) * 1.001 + EPSILON
    k_norm = _longest(norms, b, blocks, 32)
    size = q_norm * k_norm
    wrong = error * size
    if TF32:
        wrong += (tl.sqrt(residual) * 1.001 + EPSILON) * k_norm + q_norm * _longest(residuals, b, blocks, 32)

    best = tl.max(m1, 1)
    packing: tl.constexpr = 2.0 ** (BITS - 23)
    near = best - 2.25 * (wrong + packing * tl.abs(best))
    lane = tl.arange(0, LANES)
    close = m1 >= near[:, None]
    bounded = size < LARGEST  # false for NaN too
    bits = tl.sum(tl.where(close, (1 << lane)[None, :], 0), 1)
    tl.store(lanes + row, tl.where(bounded, bits, -1), mask=inside)
    count = tl.sum(close.to(tl.int32), 1)
    count = tl.where(best < -2.0e38, 0, tl.where((tl.max(m2, 1) >= near) | (count > ROUNDS), -1, count))
    count = tl.where(inside, tl.where(bounded, count, -1), 0)

    high = tl.full([ROWS], float("-inf"), tl.float32)
    second = tl.full([ROWS], float("-inf"), tl.float32)
    winner = tl.full([ROWS], -1, tl.int32)
    for index in range(tl.max(count, 0)):
        largest, at = tl.max(m1, 1, return_indices=True)
        m1 = tl.where(lane[None, :] == at[:, None], NOTHING, m1)
        base = at.to(tl.int32)
        if BITS > 0:
            base += (largest.to(tl.int32, bitcast=True) & ((1 << BITS) - 1)) * KEYS
        for member in range(KEYS // LANES):
            key = base + member * LANES
            real = (index < count) & (key < m)
            if CAUSAL:
                real &= key <= query
            if MASKED:
                real &= tl.load(mask + b * m + key, mask=real, other=0) != 0
            product = _products(q, k, row, b * m + key, real, D, CHUNK)
            winner = tl.where(product > high, key, winner)
            second = tl.maximum(second, tl.minimum(high, product))
            high = tl.maximum(high, product)

    sure = (count == 0) | ((count > 0) & (high - second > (D + 8) * 2.0**-23 * size))
    unsure = inside & (sure == 0)
    tl.store(first + row, winner, mask=inside)
    tl.store(sizes + row, tl.where(count == 0, 0, 1), mask=inside)
    slot = tl.atomic_add(pending + rows + tl.zeros([ROWS], tl.int32), 1, mask=unsure, sem="relaxed")
    tl.store(pending + slot, row.to(tl.int32), mask=unsure)
    for start in range(0, DV, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        within = inside[:, None] & (columns < DV)[None, :]
        chosen = within & (winner >= 0)[:, None]
        value = tl.load(v + (b * m + winner)[:, None] * DV + columns[None, :], mask=chosen, other=0.0)
        tl.store(out + row[:, None] * DV + columns[None, :], value, mask=within)
