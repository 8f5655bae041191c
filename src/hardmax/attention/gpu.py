"""Exact hardmax attention on the GPU: launches the Triton kernels of `gpu_search` and `gpu_recheck`.

`search` multiplies queries with keys on the tensor cores, and keeps for every query and each of `LANES` columns the
largest and the second largest score of a group of keys: a tile of keys is cut into groups of KEYS / LANES keys that lie
LANES apart, and the number t of the tile is written over the last BITS bits of the group's largest score. That costs
two comparisons a score, instead of an exponential and a second product. All this is inexact; that the sets are exact
follows from bounds of every error.

Let S = |q| max_j |k_j|, so that sum_c |q_c k_jc| <= S for every key j by Cauchy and Schwarz. Norms are computed in
float32, multiplied by 1.001 and raised by EPSILON = 2^-50. A score s'_j as computed differs from s_j = <q, k_j> by at
most E, the sum of

- accumulation, (d + 16) 2^-22 S. Products of bfloat16, float16 and TF32 numbers are exact (at most 22 bits). Tensor
  cores add K of them (K = 16, for TF32 8) and the sum so far at once, each cut to at least 23 bits below the largest
  exponent, so with an error below 2^-23 S each; so is cutting the result. That is (d / K) (K + 2) 2^-23 S in all, at
  most 1.25 d 2^-23 S for d rounded up to a multiple of K, and we allow for more than half as much again;
- rounding to TF32, for float32 alone: |q - q'| max|k| + |q| max|k - k'|, where x' is x without its last 13 bits. An
  element rounded to nearest is no farther from x than x', so this holds whichever the hardware does;
- underflow. Numbers below 2^-126 may count as 0, which changes a score by at most d 2^-126 + 2^-126 sqrt(d) (|q| +
  |k|). The terms with EPSILON in E exceed that: 2^-100 d 2^-22 and 2^-50 d 2^-22 (|q| + |k|).

Packing t changes a score x by at most p |x|, p = 2^(BITS - 23) <= 2^-6, or by less than an underflow. Let x be the
largest packed score of a row, S' the score it came from and j a key of C_i. Then s'_j >= s_j - E >= S' - 2 E, and as
y - p |y| increases with y, the packed score of the group of j is at least

    (S' - 2 E) - p |S' - 2 E| >= x - 2 p |S'| - 2 E (1 + p) >= x - 2.04 (E + p |x|).

So every key of C_i is in a group whose packed score is at least near = x - 2.25 (E + p |x|); the difference between
2.04 and 2.25 covers the rounding of this line. If a row has at most ROUNDS such groups and no lane holds two, `search`
multiplies their keys in float32 with the query: errors are at most d 2^-24 S (1 + d 2^-24) for each, so a key that
leads all others by more than (d + 8) 2^-23 S is C_i. All other rows are pending, with the bits of the lanes that hold
C_i, as are rows with S >= 1e37, where float32 could overflow.

`decide` looks at all keys in these lanes of a pending row. Products of float32 numbers are exact in float64, and their
sum has an error of at most (d + 8) 2^-53 |q| |k_j|. Keys that this does not tell apart are the same, or they are
compared in integer arithmetic (`gpu_recheck._order`), so ties are found exactly for all finite inputs, overflow and
underflow in float32 included. Non-finite inputs have no exact answer: outputs are then undefined, but nothing hangs.

Gradients of the values are added as 64-bit integers in units of 2^(e - 61) max|g|, 2^e > n, for each column of a batch
entry. Integers can be added in any order, so the bits are the same on every run, and the error is far below that of a
float32 sum. The gradient of a column with NaN or infinity is NaN. No step waits for the GPU; only `exact_sets` does.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from hardmax.attention import gpu_recheck, gpu_search
from hardmax.kernels.sets import Sets

LANES = 32  # columns of scores that are kept; their bits fill an int32
WARPS = 8  # of the kernels that look at 128 keys at a time


class RawSets(NamedTuple):
    """What a search leaves on the GPU: C_i where it has one member, and where to look for the others."""

    first: Tensor  # (rows,) int32, lowest member; -1 where a query sees no key
    sizes: Tensor  # (rows,) int32, |C_i|
    lanes: Tensor  # (rows,) int32, bits of the lanes that hold C_i


class Plan(NamedTuple):
    """Sizes of the tiles of a search."""

    rows: int
    keys: int
    warps: int
    stages: int
    registers: int | None


def plan_for(dtype: torch.dtype, width: int, parts: int) -> Plan:
    """Tiles that were fastest on a Hopper GPU for vectors of that many columns, a power of two."""
    size = width * dtype.itemsize
    if size <= 128:
        return Plan(64, 128, 4, 3, 128)
    if size <= 256:
        return Plan(128, 128, 8, 2, 128)
    return Plan(64, 64, 4, 2 if parts == 1 else 1, None)


def aligned(x: Tensor) -> Tensor:
    """The same vectors, contiguous, padded with zeros to whole multiples of 16 bytes: what the copy engine asks."""
    missing = -x.shape[-1] % (16 // x.dtype.itemsize)
    if missing:
        return torch.nn.functional.pad(x, (0, missing))
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


def find(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, plan: Plan | None = None
) -> tuple[Tensor, RawSets]:
    """Hardmax attention of (B, n, d) queries on (B, m, d) keys and (B, m, dv) values; mask is (B, m) bool or None.

    Nothing waits for the GPU here.
    """
    q, k, v = aligned(q), aligned(k), v.contiguous()
    mask = None if mask is None else mask.contiguous().view(torch.uint8)
    (batch, n, d), m, dv = q.shape, k.shape[1], v.shape[2]
    rows = batch * n
    found = RawSets(*(q.new_empty(rows, dtype=torch.int32) for _ in range(3)))
    out = v.new_empty(batch, n, dv)
    if rows == 0 or m == 0:
        return out.zero_(), RawSets(found.first.fill_(-1), found.sizes.zero_(), found.lanes.zero_())
    tf32 = q.dtype == torch.float32
    width = min(max(16, triton.next_power_of_2(d)), 512 // q.dtype.itemsize)
    plan = plan or plan_for(q.dtype, width, triton.cdiv(d, width))
    blocks, tiles = triton.cdiv(m, 128), triton.cdiv(n, plan.rows)
    norms, residuals = (q.new_empty(batch * blocks, dtype=torch.float32) for _ in range(2))
    pending = q.new_empty(rows + 1, dtype=torch.int32)  # rows to decide exactly, in no order; the last says how many
    flags = {"MASKED": mask is not None, "CAUSAL": causal}
    _launch(
        gpu_search.measure_keys, batch * blocks, (k, mask, norms, residuals, pending, rows, m, blocks),
        {"D": d, "CHUNK": min(128, width), "BLOCK": 128, "TF32": tf32, "MASKED": mask is not None}, num_warps=8,
    )  # fmt: skip
    tiled = (
        TensorDescriptor.from_tensor(q.view(rows, d), [plan.rows, width]),
        TensorDescriptor.from_tensor(k.view(batch * m, d), [plan.keys, width]),
    )
    counts = (n, m, rows, tiles, blocks, (d + 16) * 2.0**-22)
    shape = {
        "D": d, "DV": dv, "WIDTH": width, "PARTS": triton.cdiv(d, width), "CHUNK": min(64, width), "ROWS": plan.rows,
        "KEYS": plan.keys, "LANES": LANES, "BITS": (triton.cdiv(m, plan.keys) - 1).bit_length(),
        "STAGES": plan.stages, "TF32": tf32,
    }  # fmt: skip
    _launch(
        gpu_search.search, batch * tiles, (*tiled, q, k, v, mask, norms, residuals, out, *found, pending, *counts),
        shape | flags, num_warps=plan.warps, **({"maxnreg": plan.registers} if plan.registers else {}),
    )  # fmt: skip
    _launch(
        gpu_recheck.decide, _programs(q.device), (q, k, v, mask, out, *found, pending, n, m, rows, d, dv),
        {"LANES": LANES, **flags}, num_warps=WARPS, maxnreg=128,
    )  # fmt: skip
    return out, found


_READY: dict[Any, Any] = {}


def _launch(kernel: Any, programs: int, arguments: tuple[Any, ...], constants: dict[str, Any], **options: Any) -> None:
    """Launch a kernel; if one like it ran before, without Triton's look at every argument, which takes longer."""
    kinds = (_kind(x) for x in arguments)
    key = (kernel, torch.cuda.current_device(), *kinds, *constants.values(), *options.values())
    if ready := _READY.get(key):
        ready[(programs, 1, 1)](*arguments, *(constants[name] for name in kernel.arg_names[len(arguments) :]))
    else:
        _READY[key] = kernel[(programs,)](*arguments, **constants, **options)


def _kind(x: Any) -> Any:
    """All that the machine code of a kernel depends on: of a tensor its type, and whether it lies on 16 bytes."""
    if isinstance(x, TensorDescriptor):
        return x.base.dtype, *x.block_shape
    return (x.dtype, x.data_ptr() % 16) if isinstance(x, torch.Tensor) else x


@cache
def _programs(device: torch.device) -> int:
    """How many programs share the pending rows: enough to fill the GPU, few enough to end at once if there is none."""
    return 4 * torch.cuda.get_device_properties(device).multi_processor_count


def spread(g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, found: RawSets) -> Tensor:
    """Gradient of the values: each g_i / |C_i| goes to the members of C_i. The same bits on every run."""
    q, k, g = aligned(q), aligned(k), g.contiguous()
    mask = None if mask is None else mask.contiguous().view(torch.uint8)
    (batch, n, d), m, dv = q.shape, k.shape[1], g.shape[2]
    out = g.new_empty(batch, m, dv)
    if g.numel() == 0 or m == 0:
        return out.zero_()
    each = max(512, triton.next_power_of_2(triton.cdiv(n, 16)))
    parts = triton.cdiv(n, each)
    largest = g.new_empty(batch, parts, dv, dtype=torch.float32)
    totals = g.new_zeros(batch, m, dv, dtype=torch.int64)
    tied = g.new_zeros(batch * n + 1, dtype=torch.int32)  # rows, in no order; the last entry says how many
    unit_bits = n.bit_length() - 61
    _launch(gpu_recheck.largest_gradients, batch * parts, (g, largest, n, parts, each, dv), {"ROWS": 64}, num_warps=8)
    tiles, rows = triton.cdiv(n, 64), batch * n
    _launch(
        gpu_recheck.scatter, batch * tiles,
        (g, largest, totals, found.first, found.sizes, tied, n, m, rows, tiles, parts, unit_bits, dv),
        {"ROWS": 64, "PARTS": 16},
    )  # fmt: skip
    _launch(
        gpu_recheck.scatter_tied, _programs(q.device),
        (g, largest, totals, q, k, mask, *found, tied, n, m, rows, parts, unit_bits, d, dv),
        {"LANES": LANES, "MASKED": mask is not None, "CAUSAL": causal, "PARTS": 16}, num_warps=WARPS,
    )  # fmt: skip
    tiles = triton.cdiv(m, 64)
    _launch(
        gpu_recheck.round_totals, batch * tiles, (totals, largest, out, m, tiles, parts, unit_bits, dv),
        {"ROWS": 64, "PARTS": 16},
    )  # fmt: skip
    return out


def exact_sets(q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False) -> Sets:
    """C_i of (B, n, d) queries on (B, m, d) keys, written out; waits for the GPU to know how many are tied."""
    _, found = find(q, k, k[:, :, :0], mask, causal)
    first, sizes = found.first.long(), found.sizes.long()
    tied = torch.nonzero(sizes > 1).flatten()
    starts = torch.zeros(len(tied) + 1, dtype=torch.int64, device=q.device)
    torch.cumsum(sizes[tied], 0, out=starts[1:])
    members = starts.new_empty(int(starts[-1]))
    if len(tied):
        q, k = aligned(q), aligned(k)
        mask = None if mask is None else mask.contiguous().view(torch.uint8)
        counts = (q.shape[1], k.shape[1], len(tied), q.shape[2])
        _launch(
            gpu_recheck.list_members, _programs(q.device),
            (q, k, mask, tied, starts, found.first, members, found.lanes, *counts),
            {"LANES": LANES, "MASKED": mask is not None, "CAUSAL": causal}, num_warps=WARPS,
        )  # fmt: skip
        owners = torch.repeat_interleave(torch.arange(len(tied), device=q.device), sizes[tied])
        members = torch.sort(owners * k.shape[1] + members).values - owners * k.shape[1]
    return Sets.joined(*(x.cpu().numpy() for x in (first, sizes, members)))
