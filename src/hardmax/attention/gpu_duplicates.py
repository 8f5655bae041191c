"""Triton kernels that find equal keys before a search.

Equal keys are one key that counts several times: the search sees the lowest of them alone. A key leaves its number in
a slot of a table that its hash names, and whoever reads there the number of an equal key has found a copy. Nothing
need be cleared first: a key reads a slot only after it wrote there, so what it reads is the number of some key.

Vectors are compared whole, so keys that only share a hash stay apart. The hash is the product with a fixed vector, to
which 0 and -0 are the same, as they are to ==. Copies that are missed cost time alone: rows in which two keys tie are
decided later.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

from hardmax.attention.gpu_keys import COPIED, SHORT, begin_search, measure_block, seen

MANY: tl.constexpr = tl.constexpr(16)  # copies of a key up to which each of them looks at all others


@triton.jit
def _equal(k, b, m, keys, others, asked, D, CHUNK: tl.constexpr):
    """Whether two keys are the same vector."""
    same = asked
    for start in range(0, D, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        inside = same[:, None] & (columns < D)[None, :]
        x = tl.load(k + (b * m + keys[:, None]) * D + columns[None, :], mask=inside, other=0.0)
        y = tl.load(k + (b * m + others[:, None]) * D + columns[None, :], mask=inside, other=0.0)
        same &= tl.max((x.to(tl.float32) != y.to(tl.float32)).to(tl.int32), 1) == 0
    return same


@triton.jit
def _choose(k, mask, hashes, table, chosen, b, m, slots, masked, D, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    """Write for each key that is seen one of its copies, the same for all of them; -1 for others.

    Copies write to the same slot and read the same number there. Those that read the number of another vector try
    again in another slot; whoever wrote last there is among those who read its own, so each round ends some.
    """
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        tl.store(chosen + b * m + keys, tl.where(seen(mask, b, keys, m, masked), -2, -1), mask=keys < m)
    tl.debug_barrier()
    left = 1
    factor = 1
    while left > 0:
        for start in range(0, m, BLOCK):
            keys = start + tl.arange(0, BLOCK)
            asked = tl.load(chosen + b * m + keys, mask=keys < m, other=-1) == -2
            slot = ((tl.load(hashes + b * m + keys, mask=asked, other=0) * factor) >> 3) & (slots - 1)
            tl.store(table + b * slots + slot, keys, mask=asked)
        tl.debug_barrier()
        left = 0
        for start in range(0, m, BLOCK):
            keys = start + tl.arange(0, BLOCK)
            asked = tl.load(chosen + b * m + keys, mask=keys < m, other=-1) == -2
            own = tl.load(hashes + b * m + keys, mask=asked, other=0)
            slot = ((own * factor) >> 3) & (slots - 1)
            others = tl.load(table + b * slots + slot, mask=asked, other=0)
            same = asked & (tl.load(hashes + b * m + others, mask=asked, other=0) == own)
            if tl.max((same & (others != keys)).to(tl.int32), 0) > 0:
                same = (asked & (others == keys)) | _equal(k, b, m, keys, others, same, D, CHUNK)  # NaN too
            tl.store(chosen + b * m + keys, others, mask=same)
            left += tl.sum((asked & (same == 0)).to(tl.int32), 0)
        tl.debug_barrier()
        factor = factor * 1664525 + 2


@triton.jit
def _count(chosen, copies, ranks, b, m, record, BLOCK: tl.constexpr):
    """Write in `copies` how many keys each chosen one stands for, and a rank of each among them, in any order."""
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        tl.store(copies + b * record + keys, 0, mask=keys < m)
    tl.debug_barrier()
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        one = tl.load(chosen + b * m + keys, mask=keys < m, other=-1)
        rank = tl.atomic_add(copies + b * record + one, 1, mask=one >= 0, sem="relaxed")
        tl.store(ranks + b * m + keys, rank, mask=one >= 0)
    tl.debug_barrier()
    most = 0
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.max(tl.load(copies + b * record + keys, mask=keys < m, other=0), 0))
    return most


@triton.jit
def _place(chosen, copies, starts, members, ranks, b, m, record, BLOCK: tl.constexpr):
    """Write copies one after the other, by their ranks."""
    placed = 0
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        many = tl.load(copies + b * record + keys, mask=keys < m, other=0)
        tl.store(starts + b * record + keys, placed + tl.cumsum(many, 0) - many, mask=keys < m)
        placed += tl.sum(many, 0)
    tl.debug_barrier()
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        one = tl.load(chosen + b * m + keys, mask=keys < m, other=-1)
        rank = tl.load(ranks + b * m + keys, mask=one >= 0, other=-1)
        begin = tl.load(starts + b * record + one, mask=one >= 0, other=0)
        tl.store(members + b * record + begin + rank, keys, mask=one >= 0)
    tl.debug_barrier()


@triton.jit
def _rank_few(chosen, copies, starts, members, ranks, most, b, m, record, BLOCK: tl.constexpr):
    """Ranks in the order of the keys, where nobody has many copies: each looks at all of its own."""
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        one = tl.load(chosen + b * m + keys, mask=keys < m, other=-1)
        many = tl.load(copies + b * record + one, mask=one >= 0, other=0)
        begin = tl.load(starts + b * record + one, mask=one >= 0, other=0)
        rank = tl.zeros([BLOCK], tl.int32)
        for index in range(most):
            other = tl.load(members + b * record + begin + index, mask=index < many, other=m)
            rank += (other < keys).to(tl.int32)
        tl.store(ranks + b * m + keys, rank, mask=one >= 0)
    tl.debug_barrier()


@triton.jit
def _rank_many(chosen, copies, ranks, b, m, record, BLOCK: tl.constexpr):
    """The same for any number of copies: block after block, all pairs of a block."""
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        tl.store(copies + b * record + keys, 0, mask=keys < m)
    tl.debug_barrier()
    index = tl.arange(0, BLOCK)
    for start in range(0, m, BLOCK):
        one = tl.load(chosen + b * m + start + index, mask=start + index < m, other=-1)
        before = tl.load(copies + b * record + one, mask=one >= 0, other=0)
        same = one[:, None] == one[None, :]
        earlier = tl.sum((same & (index[None, :] < index[:, None])).to(tl.int32), 1)
        tl.store(ranks + b * m + start + index, before + earlier, mask=start + index < m)
        tl.debug_barrier()
        total = before + tl.sum(same.to(tl.int32), 1)
        tl.store(copies + b * record + one, total, mask=(one >= 0) & (earlier == 0))
        tl.debug_barrier()


@triton.jit
def _list(chosen, copies, starts, members, ranks, b, m, record, BLOCK: tl.constexpr, PAIRS: tl.constexpr):
    """Write copies one after the other, in their order; the lowest of them gets their number and where they begin."""
    most = _count(chosen, copies, ranks, b, m, record, BLOCK)
    if most > MANY:
        _rank_many(chosen, copies, ranks, b, m, record, PAIRS)
    else:
        _place(chosen, copies, starts, members, ranks, b, m, record, BLOCK)
        _rank_few(chosen, copies, starts, members, ranks, most, b, m, record, BLOCK)
    _place(chosen, copies, starts, members, ranks, b, m, record, BLOCK)
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        one = tl.load(chosen + b * m + keys, mask=keys < m, other=-1)
        lowest = (one >= 0) & (tl.load(ranks + b * m + keys, mask=one >= 0, other=-1) == 0)
        many = tl.load(copies + b * record + one, mask=lowest, other=0)
        begin = tl.load(starts + b * record + one, mask=lowest, other=0)
        tl.debug_barrier()
        tl.store(copies + b * record + one, 0, mask=lowest & (one != keys))
        tl.store(copies + b * record + keys, many, mask=lowest)
        tl.store(starts + b * record + keys, begin, mask=lowest)
        tl.store(starts + b * record + keys, -1, mask=(keys < m) & (one < 0))
        tl.debug_barrier()


@triton.jit
def _shorten(
    k, short, kept, used, copies, b, m, record, D, BLOCK: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr
):
    """List the keys that the search looks at, and copy them one after the other."""
    placed = 0
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        there = (tl.load(copies + b * record + keys, mask=keys < m, other=0) > 0).to(tl.int32)
        tl.store(kept + b * m + placed + tl.cumsum(there, 0) - there, keys, mask=there > 0)
        placed += tl.sum(there, 0)
    tl.store(used + b, placed)
    tl.debug_barrier()
    for start in range(0, placed, ROWS):
        index = start + tl.arange(0, ROWS)
        keys = tl.load(kept + b * m + index, mask=index < placed, other=0)
        for begin in range(0, D, CHUNK):
            columns = begin + tl.arange(0, CHUNK)
            inside = (index < placed)[:, None] & (columns < D)[None, :]
            x = tl.load(k + (b * m + keys[:, None]) * D + columns[None, :], mask=inside, other=0.0)
            tl.store(short + (b * m + index[:, None]) * D + columns[None, :], x, mask=inside)


@triton.jit
def _look(
    k, mask, hashes, table, flags, copies, starts, members, chosen, short, kept, used, b, m, slots, D, masked, record,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr, PAIRS: tl.constexpr
):  # fmt: skip
    """Where a cloud seems to have equal keys, list them."""
    twins = 0
    for start in range(0, m, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        real = seen(mask, b, keys, m, masked)
        own = tl.load(hashes + b * m + keys, mask=real, other=0)
        others = tl.load(table + b * slots + (own & (slots - 1)), mask=real, other=0)
        asked = real & (others != keys)
        asked &= tl.load(hashes + b * m + others, mask=asked, other=0) == own
        if tl.max(asked.to(tl.int32), 0) > 0:
            twins += tl.sum(_equal(k, b, m, keys, others, asked, D, CHUNK).to(tl.int32), 0)
    if twins > 0:
        tl.debug_barrier()
        _choose(k, mask, hashes, table, chosen, b, m, slots, masked, D, BLOCK, CHUNK)
        _list(chosen, copies, starts, members, hashes, b, m, record, BLOCK, PAIRS)
        tl.store(flags + b * record, COPIED)
    elif masked != 0:
        tl.store(flags + b * record, SHORT)
    if (twins > 0) | (masked != 0):
        _shorten(k, short, kept, used, copies, b, m, record, D, BLOCK, 128, 64)


@triton.jit(do_not_specialize=["m", "slots", "units", "masked", "record"])
def find_copies(
    k, mask, hashes, table, flags, copies, starts, members, chosen, short, kept, used, m, slots, units, masked, record,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr, PAIRS: tl.constexpr
):  # fmt: skip
    """A cloud for each program, whose keys have been measured."""
    D = units * (128 // k.dtype.element_ty.primitive_bitwidth)
    _look(k, mask, hashes, table, flags, copies, starts, members, chosen, short, kept, used,
          tl.program_id(0).to(tl.int64), m, slots, D, masked, record, BLOCK, CHUNK, PAIRS)  # fmt: skip


@triton.jit(do_not_specialize=["rows", "m", "blocks", "slots", "units", "masked", "record"])
def measure_and_find(
    k, mask, norms, residuals, words, hashes, table, flags, copies, starts, members, chosen, short, kept, used, pending,
    rows, m, blocks, slots, units, masked, record,
    COLUMNS: tl.constexpr, KEYS: tl.constexpr, TF32: tl.constexpr, AHEAD: tl.constexpr, BLOCK: tl.constexpr,
    CHUNK: tl.constexpr, PAIRS: tl.constexpr
):  # fmt: skip
    """The same for few keys, which the program measures first."""
    if AHEAD:  # the search may begin
        gdc_launch_dependents()
    D = units * (128 // k.dtype.element_ty.primitive_bitwidth)
    b = tl.program_id(0).to(tl.int64)
    begin_search(pending, flags, True, b, rows, masked, record)
    for block in range(blocks):
        measure_block(k, mask, norms, residuals, words, hashes, table, copies, block, b, m, blocks, slots, D, masked,
                      record, COLUMNS, KEYS, TF32, True)  # fmt: skip
    tl.debug_barrier()
    _look(k, mask, hashes, table, flags, copies, starts, members, chosen, short, kept, used, b, m, slots, D, masked,
          record, BLOCK, CHUNK, PAIRS)  # fmt: skip
