"""The Triton kernel that searches: one product of queries with keys on the tensor cores, and the rows it decides."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from hardmax.attention.gpu_keys import COPIED, MASKED, PLAIN, SHORT, dropped

NOTHING: tl.constexpr = tl.constexpr(-3.0e38)  # stands for "sees no key": finite, so that packing never makes a NaN
LARGEST: tl.constexpr = tl.constexpr(1.0e37)  # scores up to here cannot overflow, nor come near NOTHING
EPSILON: tl.constexpr = tl.constexpr(2.0**-50)  # added to norms; outweighs every underflow
VALUES: tl.constexpr = tl.constexpr(64)  # columns of values held at a time
COLUMNS: tl.constexpr = tl.constexpr(8)  # of lanes, each of those that lie so far apart: one thread holds all of them
ONE: tl.constexpr = tl.constexpr(1 << 20)  # counts, beside numbers of lanes and tiles
BITS: tl.constexpr = tl.constexpr(32)  # lanes that `gpu_decide` tells apart


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
def _merge(lanes, best, second, s, t, keep):
    """Take tile t of the scores into the largest of each lane, and into the two best tiles of each column."""
    x = tl.max(tl.reshape(s, (s.shape[0], s.shape[1] // COLUMNS, COLUMNS)), 1)
    x = ((x.to(tl.int32, bitcast=True) & keep) | t).to(tl.float32, bitcast=True)
    return tl.maximum(lanes, s), tl.maximum(best, x), tl.maximum(second, tl.minimum(best, x))


@triton.jit
def _unhidden(s, words, t):
    """The scores of tile t of 64 keys but for those that the mask hides; each of these has its bit in two words."""
    lane = tl.arange(0, s.shape[1])
    word = tl.where(lane < 32, tl.load(words + 2 * t), tl.load(words + 2 * t + 1))
    return tl.where((((word >> (lane & 31)) & 1) != 0)[None, :], s, NOTHING)


@triton.jit(do_not_specialize=[
    "n", "m", "rows", "tiles", "blocks", "causal", "masked", "record", "class_record", "keep", "error", "packing",
    "slack"
])  # fmt: skip
def search(
    q_tiles, k_tiles, short_tiles, v, norms, residuals, words, out, first, sizes, near_bits, near_pairs, own_bits,
    own_tiles, flags, copies, starts, members, kept, used, pending, n, m, rows, tiles, blocks, causal, masked, record,
    class_record, keep, error, packing, slack, DV,
    WIDTH: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, STAGES: tl.constexpr,
    TF32: tl.constexpr, COPIES: tl.constexpr, AHEAD: tl.constexpr
):  # fmt: skip
    """Find C_i of a tile of queries where it clearly is one key or its copies; leave other rows pending."""
    tile, b = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.where(causal != 0, tiles - 1 - tile, tile)  # the longest first
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
    if AHEAD and masked != 0:  # what is seen must be known first
        gdc_wait()
    limit = tl.minimum(m, tl.where(causal != 0, query + 1, m))  # keys below it are seen
    lanes = tl.full([ROWS, KEYS], NOTHING, tl.float32)
    best = tl.full([ROWS, COLUMNS], NOTHING, tl.float32)
    second = tl.full([ROWS, COLUMNS], NOTHING, tl.float32)
    whole = True
    if COPIES:  # AHEAD: before it is known whether keys have copies, which most have not
        whole = masked == 0 if AHEAD else tl.load(flags + b * class_record) < SHORT
    if whole:
        words += b * blocks * 4
        tail = tl.minimum(m, tl.where(causal != 0, top + 1, m)) // KEYS
        if COPIES or masked == 0:
            for t in tl.range(0, tail, num_stages=STAGES):
                s = _scores(q0, q_tiles, k_tiles, q_row, k_row + t * KEYS, WIDTH, PARTS)
                lanes, best, second = _merge(lanes, best, second, s, t, keep)
        else:
            for t in tl.range(0, tail, num_stages=STAGES):
                s = _unhidden(_scores(q0, q_tiles, k_tiles, q_row, k_row + t * KEYS, WIDTH, PARTS), words, t)
                lanes, best, second = _merge(lanes, best, second, s, t, keep)
        seen = tl.minimum(m, tl.where(causal != 0, top + ROWS, m))
        for t in tl.range(tail, tl.cdiv(seen, KEYS), num_stages=1):  # at most two tiles: not worth a pipeline
            s = _scores(q0, q_tiles, k_tiles, q_row, k_row + t * KEYS, WIDTH, PARTS)
            s = tl.where(t * KEYS + tl.arange(0, KEYS)[None, :] < limit[:, None], s, NOTHING)
            if not COPIES and masked != 0:
                s = _unhidden(s, words, t)
            lanes, best, second = _merge(lanes, best, second, s, t, keep)

    if AHEAD:  # what is written of the keys is not needed before
        gdc_wait()
    flag = tl.load(flags + b * class_record) if COPIES else tl.where(masked != 0, MASKED, PLAIN)
    if COPIES and flag >= SHORT:
        lanes = tl.full([ROWS, KEYS], NOTHING, tl.float32)
        best = tl.full([ROWS, COLUMNS], NOTHING, tl.float32)
        second = tl.full([ROWS, COLUMNS], NOTHING, tl.float32)
        amount = tl.load(used + b)
        for t in tl.range(0, tl.cdiv(amount, KEYS), num_stages=STAGES):
            s = _scores(q0, q_tiles, short_tiles, q_row, k_row + t * KEYS, WIDTH, PARTS)
            s = tl.where((t * KEYS + tl.arange(0, KEYS) < amount)[None, :], s, NOTHING)
            lanes, best, second = _merge(lanes, best, second, s, t, keep)
    k_norm = _longest(norms, b, blocks, 32)
    k_rest = _longest(residuals, b, blocks, 32) if TF32 else 0.0
    row = b * n + query
    inside = query < n
    q_norm = tl.sqrt(square) * 1.001 + EPSILON
    size = q_norm * k_norm
    wrong = error * size
    if TF32:
        wrong += (tl.sqrt(residual) * 1.001 + EPSILON) * k_norm + q_norm * k_rest

    score = tl.max(lanes, 1)
    near = score - slack * (wrong + packing * tl.abs(score))
    bounded = size < LARGEST  # false for NaN too
    nobody = bounded & (score < -2.0e38)
    found, near_tile = lanes >= near[:, None], best >= near[:, None]
    number = best.to(tl.int32, bitcast=True) & ~keep
    lane = tl.sum(tl.where(found, tl.arange(0, KEYS)[None, :] + ONE, 0), 1) - ONE
    near_tiles = tl.sum(tl.where(near_tile, number + ONE, 0), 1) - ONE
    apart = tl.max(second, 1) < near  # no column with two tiles
    sure = bounded & (nobody | (apart & (lane < ONE) & (near_tiles < ONE)))
    winner = tl.where(sure & (nobody == 0) & inside, near_tiles * KEYS + lane, -1)
    if COPIES and flag >= SHORT:
        winner = tl.load(kept + b * m + winner, mask=winner >= 0, other=-1)
    room = query < (n + 3) // 4 * 4  # the record has it for multiples of 4
    unsure = inside & (sure == 0)
    bits = 1 << (lane & (BITS - 1))
    pair = tl.full([ROWS], -1, tl.int32)
    if tl.max(unsure.to(tl.int32), 0) > 0:
        folded = tl.max(tl.reshape(found.to(tl.int32), (ROWS, KEYS // BITS, BITS)), 1)
        bits = tl.where(bounded, tl.sum(folded << tl.arange(0, BITS)[None, :], 1), -1)
        low = tl.min(tl.where(near_tile, number, ONE), 1)
        high = tl.max(tl.where(near_tile, number, 0), 1)
        others = tl.max((near_tile & (number != low[:, None]) & (number != high[:, None])).to(tl.int32), 1)
        pair = tl.where(bounded & apart & (others == 0) & (high < 1 << 15), low | (high << 16), -1)
        slot = tl.atomic_add(pending + rows + tl.zeros([ROWS], tl.int32), 1, mask=unsure, sem="relaxed")
        tl.store(pending + slot, row.to(tl.int32), mask=unsure)
        tl.store(own_bits + row, bits, mask=unsure)
        tl.store(own_tiles + row, pair, mask=unsure)
    bits = tl.where(flag < SHORT, bits, -1)  # keys of a short list may lie in any lane and tile
    tl.store(near_bits + b * record + query, bits, mask=room)
    tl.store(near_pairs + b * record + query, tl.where(flag < SHORT, pair, -1), mask=room)
    weight = tl.where(nobody, 0, 1)
    begin = tl.zeros([ROWS], tl.int32)
    if COPIES and flag == COPIED:
        weight = tl.load(copies + b * class_record + winner, mask=winner >= 0, other=0)
        begin = tl.load(starts + b * class_record + winner, mask=winner >= 0, other=0)
    tl.store(first + b * record + query, winner, mask=room)
    tl.store(sizes + b * record + query, weight, mask=room)
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
