"""Triton kernels that look at keys before a search: how long they are, which are seen, and what their hashes are."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

TILE: tl.constexpr = tl.constexpr(64)  # queries, and keys, of a product on the tensor cores
PLAIN: tl.constexpr = tl.constexpr(0)  # every key is seen, and none was found to have a copy
MASKED: tl.constexpr = tl.constexpr(1)  # `copies` says which keys are seen
SHORT: tl.constexpr = tl.constexpr(2)  # so it does, and those keys are also listed, and copied one after the other
COPIED: tl.constexpr = tl.constexpr(3)  # the same of the lowest of equal keys, and `copies` says how often it is there


@triton.jit
def dropped(x):
    """What TF32 drops of x: the last 13 bits."""
    return x - (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def seen(mask, b, keys, m, masked):
    """Which keys are there, and not hidden by the mask."""
    return (keys < m) & (tl.load(mask + b * m + keys, mask=(keys < m) & (masked != 0), other=1) != 0)


@triton.jit
def measure_block(
    k, mask, norms, residuals, words, hashes, table, copies, block, b, m, blocks, slots, D, masked, record,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr, TF32: tl.constexpr, COPIES: tl.constexpr
):  # fmt: skip
    """Write the largest |k|^2 of a block of keys and, for TF32, of what TF32 drops; for COPIES, enter the hashes."""
    keys = block * BLOCK + tl.arange(0, BLOCK)
    real = seen(mask, b, keys, m, masked)
    norm = tl.zeros([BLOCK], tl.float32)
    residual = tl.zeros([BLOCK], tl.float32)
    hashed = tl.zeros([BLOCK], tl.float32)
    for start in range(0, D, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        at = k + (b * m + keys[:, None]) * D + columns[None, :]
        x = tl.load(at, mask=real[:, None] & (columns < D)[None, :], other=0.0).to(tl.float32)
        norm += tl.sum(x * x, 1)
        if TF32:
            residual += tl.sum(dropped(x) * dropped(x), 1)
        if COPIES:
            weight = (((columns * 1640531527) >> 9) & 0x7FFFFF) | 0x3F800000
            hashed += tl.sum(x * (weight.to(tl.float32, bitcast=True) - 1.5)[None, :], 1)
    tl.store(norms + b * blocks + block, tl.max(norm, 0))
    if TF32:
        tl.store(residuals + b * blocks + block, tl.max(residual, 0))
    if masked != 0:
        tl.store(copies + b * record + keys, real.to(tl.int32), mask=keys < m)
        bits = tl.reshape(real.to(tl.int32), (BLOCK // 32, 32)) << tl.arange(0, 32)[None, :]
        tl.store(words + (b * blocks + block) * (BLOCK // 32) + tl.arange(0, BLOCK // 32), tl.sum(bits, 1))
    if COPIES:
        bits = (hashed + 0.0).to(tl.int32, bitcast=True)  # of -0 and 0 the same
        bits = (bits ^ ((bits >> 15) & 0x1FFFF)) * 739982445
        bits = bits ^ ((bits >> 12) & 0xFFFFF)
        tl.store(hashes + b * m + keys, bits, mask=real)
        tl.store(table + b * slots + (bits & (slots - 1)), keys, mask=real)


@triton.jit
def begin_search(pending, flags, first, b, rows, masked, record):
    """Start with no pending row, and with keys that have no copies."""
    if first:
        tl.store(flags + b * record, tl.where(masked != 0, MASKED, PLAIN))
        if b == 0:
            tl.store(pending + rows, 0)


@triton.jit(do_not_specialize=["rows", "m", "blocks", "slots", "units", "masked", "record"])
def measure_keys(
    k, mask, norms, residuals, words, hashes, table, flags, copies, pending, rows, m, blocks, slots, units, masked,
    record, CHUNK: tl.constexpr, BLOCK: tl.constexpr, TF32: tl.constexpr, COPIES: tl.constexpr, AHEAD: tl.constexpr
):  # fmt: skip
    """A block of keys for each program."""
    if AHEAD:  # the search may begin
        gdc_launch_dependents()
    D = units * (128 // k.dtype.element_ty.primitive_bitwidth)
    block, b = tl.program_id(0) % blocks, (tl.program_id(0) // blocks).to(tl.int64)
    begin_search(pending, flags, block == 0, b, rows, masked, record)
    measure_block(k, mask, norms, residuals, words, hashes, table, copies, block, b, m, blocks, slots, D, masked,
                  record, CHUNK, BLOCK, TF32, COPIES)  # fmt: skip
