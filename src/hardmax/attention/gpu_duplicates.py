"""Triton kernel that prepares the keys of a search: their largest norm, and a list of
distinct keys.

Equal keys are searched as one key with a multiplicity: the search reads the lowest of
them alone. Every key writes its index to the slot of a hash table that its hash
selects. A key that then reads the index of an equal key there has found a duplicate.
The table needs no initial values, because a key reads a slot only after it wrote to it.

Vectors are compared completely, so keys that only share a hash stay apart. The hash is
the product with a fixed vector, for which 0 and -0 are equal, as they are for ==. A
missed duplicate costs time alone: rows in which two keys tie are decided later.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

KEY_COLUMNS: tl.constexpr = tl.constexpr(64)  # columns of keys held at a time
OPEN: tl.constexpr = tl.constexpr(-2)  # a key without a representative yet


@triton.jit
def drop_tf32(x):
    """Return the part of x that TF32 drops: the last 13 bits."""
    return x - (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def _is_seen(mask, b, keys, m):
    """Return which keys exist and are not hidden by the mask."""
    seen = keys < m
    if mask is not None:
        seen &= tl.load(mask + b * m + keys, mask=seen, other=0) != 0
    return seen


@triton.jit
def _slot(hashes, factor, slots):
    return ((hashes * factor) >> 3) & (slots - 1)


@triton.jit
def _measure(
    k,
    mask,
    norms,
    hashes,
    table,
    b,
    m,
    slots,
    D,
    KEYS: tl.constexpr,
    TF32: tl.constexpr,
):
    """Write the largest |k|^2 and, for TF32, that of the dropped parts; write hashes,
    and enter keys in the table.
    """
    largest = tl.zeros([KEYS], tl.float32)
    largest_rest = tl.zeros([KEYS], tl.float32)
    for start in range(0, m, KEYS):
        keys = start + tl.arange(0, KEYS)
        seen = _is_seen(mask, b, keys, m)
        norm = tl.zeros([KEYS], tl.float32)
        rest = tl.zeros([KEYS], tl.float32)
        hashed = tl.zeros([KEYS], tl.float32)
        for begin in range(0, D, KEY_COLUMNS):
            columns = begin + tl.arange(0, KEY_COLUMNS)
            at = k + (b * m + keys[:, None]) * D + columns[None, :]
            x = tl.load(at, mask=seen[:, None] & (columns < D)[None, :], other=0.0).to(
                tl.float32
            )
            norm += tl.sum(x * x, 1)
            if TF32:
                rest += tl.sum(drop_tf32(x) * drop_tf32(x), 1)
            if table is not None:
                weight = (((columns * 1640531527) >> 9) & 0x7FFFFF) | 0x3F800000
                hashed += tl.sum(
                    x * (weight.to(tl.float32, bitcast=True) - 1.5)[None, :], 1
                )
        largest = tl.maximum(largest, norm)
        largest_rest = tl.maximum(largest_rest, rest)
        if table is not None:
            bits = (hashed + 0.0).to(
                tl.int32, bitcast=True
            )  # -0 and 0 have the same hash
            bits = (bits ^ ((bits >> 15) & 0x1FFFF)) * 739982445
            bits = bits ^ ((bits >> 12) & 0xFFFFF)
            tl.store(hashes + keys, bits, mask=seen)
            tl.store(table + _slot(bits, 1, slots), keys, mask=seen)
    tl.store(norms, tl.max(largest, 0).to(tl.int32, bitcast=True))
    tl.store(norms + 1, tl.max(largest_rest, 0).to(tl.int32, bitcast=True))


@triton.jit
def _equal(k, b, m, keys, others, asked, D, CHUNK: tl.constexpr):
    """Return which pairs of keys are the same vector."""
    same = asked
    for start in range(0, D, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        inside = same[:, None] & (columns < D)[None, :]
        x = tl.load(
            k + (b * m + keys[:, None]) * D + columns[None, :], mask=inside, other=0.0
        )
        y = tl.load(
            k + (b * m + others[:, None]) * D + columns[None, :], mask=inside, other=0.0
        )
        same &= tl.max((x.to(tl.float32) != y.to(tl.float32)).to(tl.int32), 1) == 0
    return same


@triton.jit
def _find_duplicates(
    k, mask, hashes, table, chosen, b, m, slots, D, BLOCK: tl.constexpr
):
    """Write one of its duplicates for every seen key, the same for all of them; return
    the number of duplicates.

    Duplicates write to one slot and read the same index there. Keys that read the index
    of another vector try again in another slot. The key that wrote last to a slot reads
    itself, so every round settles some keys. There is no second round without
    duplicates in the first.
    """
    duplicates = 0
    factor = 1
    left = 1
    while left > 0:
        left = 0
        for start in range(0, m, BLOCK):
            keys = start + tl.arange(0, BLOCK)
            asked = _is_seen(mask, b, keys, m)
            asked &= (factor == 1) | (
                tl.load(chosen + keys, mask=asked, other=0) == OPEN
            )
            own = tl.load(hashes + keys, mask=asked, other=0)
            others = tl.load(table + _slot(own, factor, slots), mask=asked, other=0)
            same = asked & (tl.load(hashes + others, mask=asked, other=0) == own)
            if tl.max((same & (others != keys)).to(tl.int32), 0) > 0:
                same = (asked & (others == keys)) | _equal(
                    k, b, m, keys, others, same, D, 16
                )  # a NaN equals itself
            duplicates += tl.sum((same & (others != keys)).to(tl.int32), 0)
            tl.store(chosen + keys, tl.where(same, others, OPEN), mask=asked)
            left += tl.sum((asked & (same == 0)).to(tl.int32), 0)
        left = tl.where(duplicates > 0, left, 0)
        factor = factor * 1664525 + 2
        tl.debug_barrier()
        if left > 0:
            for start in range(0, m, BLOCK):
                keys = start + tl.arange(0, BLOCK)
                asked = _is_seen(mask, b, keys, m)
                asked &= tl.load(chosen + keys, mask=asked, other=0) == OPEN
                own = tl.load(hashes + keys, mask=asked, other=0)
                tl.store(table + _slot(own, factor, slots), keys, mask=asked)
        tl.debug_barrier()
    return duplicates


@triton.jit
def _name_lowest(mask, reps, weights, members, lowest, b, m, BLOCK: tl.constexpr):
    """Make the lowest duplicate of each key its representative, m for hidden keys;
    count the duplicates of each.
    """
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        tl.store(lowest + keys, m, mask=keys < m)
        tl.store(weights + keys, 0, mask=keys < m)
        tl.store(members + keys, keys, mask=keys < m)
    tl.debug_barrier()
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        seen = _is_seen(mask, b, keys, m)
        chosen = tl.load(reps + keys, mask=seen, other=0)
        tl.atomic_min(
            lowest + tl.where(chosen == OPEN, keys, chosen),
            keys,
            mask=seen,
            sem="relaxed",
        )
    tl.debug_barrier()
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        seen = _is_seen(mask, b, keys, m)
        chosen = tl.load(reps + keys, mask=seen, other=0)
        rep = tl.load(
            lowest + tl.where(chosen == OPEN, keys, chosen), mask=seen, other=m
        )
        tl.store(reps + keys, rep, mask=keys < m)
        tl.atomic_add(weights + rep, 1, mask=seen, sem="relaxed")
    tl.debug_barrier()


@triton.jit
def _sort_by_bit(source, target, reps, bit, m, BLOCK: tl.constexpr):
    """Sort keys by one bit of their representatives; keep the order of keys where the
    bits are equal.
    """
    zeros = 0
    for start in range(0, m, BLOCK):
        index = start + tl.arange(0, BLOCK)
        keys = tl.load(source + index, mask=index < m, other=0)
        ones = (tl.load(reps + keys, mask=index < m, other=-1) >> bit) & 1
        zeros += tl.sum(1 - ones, 0)
    low = 0
    for start in range(0, m, BLOCK):
        index = start + tl.arange(0, BLOCK)
        keys = tl.load(source + index, mask=index < m, other=0)
        ones = (tl.load(reps + keys, mask=index < m, other=-1) >> bit) & 1
        after = tl.cumsum(ones, 0)
        lower = low + tl.arange(0, BLOCK) - after
        higher = zeros + start - low + after - 1
        tl.store(target + tl.where(ones == 0, lower, higher), keys, mask=index < m)
        low += tl.sum(1 - ones, 0)
    tl.debug_barrier()


@triton.jit
def _list_keys(
    k,
    short,
    kept,
    used,
    weights,
    starts,
    b,
    m,
    D,
    BLOCK: tl.constexpr,
    KEYS: tl.constexpr,
):
    """List the representatives, copy their vectors, and write where the duplicates of
    each begin in `members`.
    """
    placed = 0
    listed = 0
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        weight = tl.load(weights + keys, mask=keys < m, other=0)
        tl.store(starts + keys, placed + tl.cumsum(weight, 0) - weight, mask=keys < m)
        there = (weight > 0).to(tl.int32)
        tl.store(kept + listed + tl.cumsum(there, 0) - there, keys, mask=there > 0)
        placed += tl.sum(weight, 0)
        listed += tl.sum(there, 0)
    tl.store(used, listed)
    tl.debug_barrier()
    for start in range(0, listed, KEYS):
        index = start + tl.arange(0, KEYS)
        keys = tl.load(kept + index, mask=index < listed, other=0)
        for begin in range(0, D, KEY_COLUMNS):
            columns = begin + tl.arange(0, KEY_COLUMNS)
            inside = (index < listed)[:, None] & (columns < D)[None, :]
            x = tl.load(
                k + (b * m + keys[:, None]) * D + columns[None, :],
                mask=inside,
                other=0.0,
            )
            tl.store(
                short + (b * m + index[:, None]) * D + columns[None, :], x, mask=inside
            )


@triton.jit(
    do_not_specialize=["n", "m", "rows", "units", "record", "stride", "slots", "bits"]
)
def prepare_keys(
    k, mask, found, work, short, n, m, rows, units, record, stride, slots, bits,
    BLOCK: tl.constexpr, TF32: tl.constexpr
):  # fmt: skip
    """Measure the keys of one batch element per program; list the distinct and seen
    ones where `short` is given.

    `work` has the number of pending rows and (rows,) these, and for each batch element
    the bits of its two norms and, with a list, (m,) weights, starts, members, hashes
    and spare room, and the (slots,) table. `found` is that of `gpu.attend`. Without
    duplicates and hidden keys there is no list, and `used` is -1.
    """
    D = units * (128 // k.dtype.element_ty.primitive_bitwidth)
    b = tl.program_id(0).to(tl.int64)
    tl.store(work, 0)
    norms = work + 1 + rows + b * stride
    if short is None:
        _measure(k, mask, norms, None, None, b, m, slots, D, BLOCK // 4, TF32)
    else:
        weights = norms + 2
        starts, members, hashes, spare, table = (
            weights + m, weights + 2 * m, weights + 3 * m, weights + 4 * m, weights + 5 * m
        )  # fmt: skip
        reps = found + b * record + 4 * n
        kept, used = reps + m, reps + 2 * m
        _measure(k, mask, norms, hashes, table, b, m, slots, D, BLOCK // 4, TF32)
        tl.debug_barrier()
        duplicates = _find_duplicates(
            k, mask, hashes, table, reps, b, m, slots, D, BLOCK
        )
        if (duplicates > 0) | (mask is not None):
            _name_lowest(mask, reps, weights, members, spare, b, m, BLOCK)
            if duplicates > 0:
                for bit in range(0, bits, 2):  # a radix sort, which is stable
                    _sort_by_bit(members, spare, reps, bit, m, BLOCK)
                    _sort_by_bit(spare, members, reps, bit + 1, m, BLOCK)
            _list_keys(
                k, short, kept, used, weights, starts, b, m, D, BLOCK, BLOCK // 4
            )
        else:
            tl.store(used, -1)
