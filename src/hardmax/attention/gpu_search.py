"""Triton kernel that searches: one product of queries with keys on the tensor cores,
and the rows that it decides.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

from hardmax.attention.gpu_duplicates import drop_tf32

TILE: tl.constexpr = tl.constexpr(
    64
)  # queries, and keys, of a product on the tensor cores
NOTHING: tl.constexpr = tl.constexpr(
    -3.0e38
)  # score of a hidden key: finite, so that a tile index never makes a NaN
MAX_SCORE: tl.constexpr = tl.constexpr(
    1.0e37
)  # scores up to here cannot overflow, nor come near NOTHING
EPSILON: tl.constexpr = tl.constexpr(
    2.0**-50
)  # added to norms; exceeds every underflow
COLUMNS: tl.constexpr = tl.constexpr(
    8
)  # lanes that are COLUMNS apart form a column: one thread holds all of it
ONE: tl.constexpr = tl.constexpr(
    1 << 20
)  # counts lanes and tiles, above the bits of their indices
LANES: tl.constexpr = tl.constexpr(32)  # lanes that the bits of an int32 select
CHUNK: tl.constexpr = tl.constexpr(64)  # columns of values held at a time


@triton.jit
def _square(x, TF32: tl.constexpr):
    """Return |x|^2 of every row and, for TF32, that of the dropped parts."""
    x = x.to(tl.float32)
    rest = drop_tf32(x) if TF32 else tl.zeros(x.shape, tl.float32)
    return tl.sum(x * x, 1), tl.sum(rest * rest, 1)


@triton.jit
def _round_norm_up(square):
    return tl.sqrt(square) * 1.001 + EPSILON


@triton.jit
def _score(
    q0, q_tiles, k_tiles, q_row, k_row, WIDTH: tl.constexpr, PARTS: tl.constexpr
):
    """Multiply a tile of queries with a tile of keys, long vectors in parts."""
    s = tl.dot(q0, k_tiles.load([k_row, 0]).T, input_precision="tf32")
    for part in tl.static_range(1, PARTS):
        q = q_tiles.load([q_row, part * WIDTH])
        s = tl.dot(q, k_tiles.load([k_row, part * WIDTH]).T, s, input_precision="tf32")
    return s


@triton.jit
def _merge(lanes, best, second, s, t, keep):
    """Merge the scores of tile t into the largest of each lane, and into the two best
    tiles of each column.
    """
    x = tl.max(tl.reshape(s, (TILE, TILE // COLUMNS, COLUMNS)), 1)
    x = ((x.to(tl.int32, bitcast=True) & keep) | t).to(tl.float32, bitcast=True)
    return (
        tl.maximum(lanes, s),
        tl.maximum(best, x),
        tl.maximum(second, tl.minimum(best, x)),
    )


@triton.jit
def _scan(
    q0, q_tiles, k_tiles, seen, q_row, k_row, whole, tiles, limit, m, keep,
    WIDTH: tl.constexpr, PARTS: tl.constexpr, STAGES: tl.constexpr
):  # fmt: skip
    """Return the largest score of each lane, and the two best tiles of each column with
    their indices.

    Queries see the keys below `limit`, all keys of the first `whole` tiles; `seen`
    points to a mask, if there is one.
    """
    lanes = tl.full([TILE, TILE], NOTHING, tl.float32)
    best = tl.full([TILE, COLUMNS], NOTHING, tl.float32)
    second = tl.full([TILE, COLUMNS], NOTHING, tl.float32)
    for t in tl.range(0, whole, num_stages=STAGES):
        s = _score(q0, q_tiles, k_tiles, q_row, k_row + t * TILE, WIDTH, PARTS)
        if seen is not None:
            s = tl.where(tl.load(seen + t * TILE) != 0, s, NOTHING)
        lanes, best, second = _merge(lanes, best, second, s, t, keep)
    for t in tl.range(
        whole, tiles, num_stages=1
    ):  # at most two tiles: not worth a pipeline
        s = _score(q0, q_tiles, k_tiles, q_row, k_row + t * TILE, WIDTH, PARTS)
        keys = (t * TILE + tl.arange(0, TILE))[None, :]
        s = tl.where(keys < limit[:, None], s, NOTHING)
        if seen is not None:
            s = tl.where(
                tl.load(seen + t * TILE, mask=keys < m, other=0) != 0, s, NOTHING
            )
        lanes, best, second = _merge(lanes, best, second, s, t, keep)
    return lanes, best, second


@triton.jit(
    do_not_specialize=[
        "n",
        "m",
        "rows",
        "d",
        "causal",
        "mask_rows",
        "record",
        "stride",
        "keep",
    ]
)
def search(
    q_tiles, k_tiles, short_tiles, v, mask, out, found, work, n, m, rows, d, causal, mask_rows, record, stride, keep,
    DV, WIDTH: tl.constexpr, PARTS: tl.constexpr, STAGES: tl.constexpr, TF32: tl.constexpr
):  # fmt: skip
    """Find C_i of a tile of queries where it clearly is one key with its duplicates;
    list other rows as pending.

    `keep` masks the last bits of a score, which hold the index of a tile. The bounds
    are those of `gpu`. A mask has `mask_rows` rows per batch element: one for all
    queries, or n. `work` is that of `prepare_keys`.
    """
    tiles = tl.cdiv(n, TILE)
    tile, b = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.where(causal != 0, tiles - 1 - tile, tile)  # the longest first
    top = tile * TILE
    query = top + tl.arange(0, TILE)
    q_row = (b * n + top).to(tl.int32)
    k_row = (b * m).to(tl.int32)
    q0 = q_tiles.load([q_row, 0])
    square, rest = _square(q0, TF32)
    for part in tl.static_range(1, PARTS):
        more, more_rest = _square(q_tiles.load([q_row, part * WIDTH]), TF32)
        square += more
        rest += more_rest
    used = (
        tl.load(found + b * record + 4 * n + 2 * m) if short_tiles is not None else -1
    )
    if short_tiles is not None and used >= 0:
        limit = tl.zeros([TILE], tl.int32) + used
        lanes, best, second = _scan(q0, q_tiles, short_tiles, None, q_row, k_row, used // TILE, tl.cdiv(used, TILE),
                                    limit, m, keep, WIDTH, PARTS, STAGES)  # fmt: skip
    else:
        limit = tl.minimum(m, tl.where(causal != 0, query + 1, m))
        whole = tl.minimum(m, tl.where(causal != 0, top + 1, m)) // TILE
        last = tl.cdiv(tl.minimum(m, tl.where(causal != 0, top + TILE, m)), TILE)
        seen = None
        if mask is not None:
            own = mask + (b * mask_rows + tl.minimum(query, mask_rows - 1)) * m
            seen = own[:, None] + tl.arange(0, TILE)[None, :]
        lanes, best, second = _scan(q0, q_tiles, k_tiles, seen, q_row, k_row, whole, last, limit, m, keep, WIDTH,
                                    PARTS, STAGES)  # fmt: skip

    norms = work + 1 + rows + b * stride
    k_norm = _round_norm_up(tl.load(norms).to(tl.float32, bitcast=True))
    q_norm = _round_norm_up(square)
    size = q_norm * k_norm
    error = (d + 16) * 2.0**-22 * size
    if TF32:
        k_rest = _round_norm_up(tl.load(norms + 1).to(tl.float32, bitcast=True))
        error += _round_norm_up(rest) * k_norm + q_norm * k_rest
    packing = -keep * 2.0**-23
    score = tl.max(lanes, 1)
    near = score - 2.1 * (1.0 + packing) * (error + packing * tl.abs(score))
    bounded = size < MAX_SCORE  # false for NaN too
    empty = bounded & (score < -2.0e38)
    near_lane, near_tile = lanes >= near[:, None], best >= near[:, None]
    number = best.to(tl.int32, bitcast=True) & ~keep
    lane = tl.sum(tl.where(near_lane, tl.arange(0, TILE)[None, :] + ONE, 0), 1) - ONE
    near_tiles = tl.sum(tl.where(near_tile, number + ONE, 0), 1) - ONE
    apart = tl.max(second, 1) < near  # no column with two tiles
    inside = query < n
    sure = bounded & (empty | (apart & (lane < ONE) & (near_tiles < ONE)))
    winner = tl.where(sure & (empty == 0) & inside, near_tiles * TILE + lane, -1)
    row = b * n + query
    at_row = found + b * record + query
    unsure = inside & (sure == 0)
    bits = tl.zeros([TILE], tl.int32)
    pair = tl.zeros([TILE], tl.int32)
    if tl.max(unsure.to(tl.int32), 0) > 0:
        folded = tl.max(
            tl.reshape(near_lane.to(tl.int32), (TILE, TILE // LANES, LANES)), 1
        )
        bits = tl.where(bounded, tl.sum(folded << tl.arange(0, LANES)[None, :], 1), -1)
        low = tl.min(tl.where(near_tile, number, ONE), 1)
        high = tl.max(tl.where(near_tile, number, 0), 1)
        others = tl.max(
            (near_tile & (number != low[:, None]) & (number != high[:, None])).to(
                tl.int32
            ),
            1,
        )
        pair = tl.where(
            bounded & apart & (others == 0) & (high < 1 << 15), low | (high << 16), -1
        )
        slot = tl.atomic_add(
            work + tl.zeros([TILE], tl.int32), 1, mask=unsure, sem="relaxed"
        )
        tl.store(work + 1 + slot, row.to(tl.int32), mask=unsure)
    weight = tl.where(winner < 0, 0, 1)
    begin = tl.zeros([TILE], tl.int32)
    if short_tiles is not None and used >= 0:
        winner = tl.load(
            found + b * record + 4 * n + m + winner, mask=winner >= 0, other=-1
        )
        weight = tl.load(norms + 2 + winner, mask=winner >= 0, other=0)
        begin = tl.load(norms + 2 + m + winner, mask=winner >= 0, other=0)
    tl.store(at_row, winner, mask=inside)
    tl.store(at_row + n, weight, mask=inside)
    tl.store(at_row + 2 * n, bits, mask=inside)
    tl.store(at_row + 3 * n, pair, mask=inside)
    for start in range(0, DV, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        within = inside[:, None] & (columns < DV)[None, :]
        chosen = within & (winner >= 0)[:, None]
        value = tl.load(
            v + (b * m + winner)[:, None] * DV + columns[None, :],
            mask=chosen,
            other=0.0,
        )
        if short_tiles is not None and used >= 0:
            total = value.to(tl.float32)
            for index in range(1, tl.max(weight, 0)):
                other = tl.load(
                    norms + 2 + 2 * m + begin + index, mask=index < weight, other=0
                )
                at = v + (b * m + other)[:, None] * DV + columns[None, :]
                total += tl.load(
                    at, mask=chosen & (index < weight)[:, None], other=0.0
                ).to(tl.float32)
            value = (total / tl.maximum(weight, 1).to(tl.float32)[:, None]).to(
                value.dtype
            )
        tl.store(out + row[:, None] * DV + columns[None, :], value, mask=within)
