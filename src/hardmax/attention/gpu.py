"""Exact hardmax attention on the GPU: launches the Triton kernels of the other modules named gpu.

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
2.04 and 2.25 covers the rounding of this line. If a row has one or two such groups and no lane holds two, `search`
multiplies their keys in float32 with the query: errors are at most d 2^-24 S (1 + d 2^-24) for each, so a key that
leads all others by more than (d + 8) 2^-23 S is C_i. All other rows are pending, with the bits of the lanes that hold
C_i, as are rows with S >= 1e37, where float32 could overflow.

`gpu_keys` looks at the keys first. Where it finds equal ones, or a mask hides some, the search sees a list of the keys
that are seen, each vector once; the members of C_i are then the copies of what is found, and their number its size.

`decide` looks at all keys in these lanes of a pending row. Products of float32 numbers are exact in float64, and their
sum has an error of at most (d + 8) 2^-53 |q| |k_j|. Keys that this does not tell apart are the same, or they are
compared in integer arithmetic (`gpu_decide._order`), so ties are found exactly for all finite inputs, overflow and
underflow in float32 included. Non-finite inputs have no exact answer: outputs are then undefined, but nothing hangs.

`gpu_gradient` adds gradients so that the bits are the same on every run: a few rows in float32 in their order, many as
64-bit integers in units of 2^(e - 61) max|g|, 2^e > n, which can be added in any order. No step waits for the GPU; only
`exact_sets` does.
"""

from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from hardmax.attention import gpu_decide, gpu_gradient, gpu_keys, gpu_search
from hardmax.attention.gpu_launch import Launch, ready
from hardmax.attention.gpu_layout import Found, offsets
from hardmax.kernels.sets import Sets

LANES = 32  # columns of scores that are kept; their bits fill an int32
WIDTHS = (32, 64, 128, 256)  # columns that a search holds at once: few, as each is compiled for
BLOCK = 128  # keys whose norms are taken together
COLUMNS = 16  # that are compared at a time
COLLECTED = 16  # keys whose gradients are added up together


class Plan(NamedTuple):
    """Sizes of the tiles of a search."""

    rows: int
    keys: int
    warps: int
    stages: int
    registers: int | None


def plan_for(dtype: torch.dtype, width: int, parts: int, m: int) -> Plan:
    """Tiles that were fastest on a Hopper GPU for m vectors of that many columns."""
    if width * dtype.itemsize <= 128:
        return Plan(64, 128, 4, 2, 128)
    if width * dtype.itemsize <= 256:
        return Plan(64, 64, 4, 3, 128) if dtype.itemsize == 2 and m < 8192 else Plan(128, 128, 8, 2, 128)
    return Plan(64, 64, 4, 2 if parts == 1 else 1, None)


def aligned(x: Tensor) -> Tensor:
    """The same vectors, contiguous, padded with zeros to whole multiples of 16 bytes: what the copy engine asks."""
    missing = -x.shape[-1] % (16 // x.dtype.itemsize)
    return torch.nn.functional.pad(x, (0, missing)) if missing else placed(x)


def placed(x: Tensor) -> Tensor:
    """The same tensor, contiguous and on 16 bytes."""
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


class Address(NamedTuple):
    """A part of an array, as far as a descriptor asks."""

    address: int
    dtype: torch.dtype

    def data_ptr(self) -> int:
        return self.address


class Forward:
    """All that a search for tensors of some shapes needs, but the tensors."""

    def __init__(
        self, shape: tuple[int, int, int, int, int], types: tuple[torch.dtype, torch.dtype], masked: bool, causal: bool,
        copies: bool, device: int, plan: Plan | None
    ) -> None:  # fmt: skip
        batch, n, m, d, dv = shape
        dtype, rows, blocks = types[0], batch * n, triton.cdiv(m, BLOCK)
        width = next((w for w in WIDTHS if w >= d and w * dtype.itemsize <= 512), 512 // dtype.itemsize)
        parts, units, tf32 = triton.cdiv(d, width), d * dtype.itemsize // 16, dtype == torch.float32
        self.plan = plan = plan or plan_for(dtype, width, parts, m)
        self.found, self.batch, self.copies, self.device = Found(n, m, copies), batch, copies, device
        self.tiles = [plan.rows, width], [plan.keys, width]
        self.dtype = dtype
        self.shapes = ([rows, d], [d, 1]), ([batch * m, d], [d, 1])
        record, slots = self.found.record, triton.next_power_of_2(2 * m) if copies else 0
        own = 0 if copies else batch * (4 + (m if masked else 0))  # `class_record` of each
        keys, clouds = (batch * m, batch) if copies else (0, 0)
        self.scratch, self.numbers = offsets(
            rows + 1,
            batch * blocks,
            batch * blocks,
            own,
            keys,
            clouds * slots,
            keys,
            keys,
            clouds,
            4 * keys * units,
            rows,
        )
        self.class_record = record if copies else 4 + (m if masked else 0)
        tiles, keep = triton.cdiv(n, plan.rows), -(1 << (triton.cdiv(m, plan.keys) - 1).bit_length())
        seen = (int(masked), self.class_record)
        self.measured = (rows, n, m, blocks, slots, units, *seen)
        self.searched = (
            n, m, rows, tiles, blocks, units, int(causal), record, self.class_record, keep, (d + 16) * 2.0**-22,
            -keep * 2.0**-23, dv,
        )  # fmt: skip
        self.decided = (n, m, rows, units, dv, record, self.class_record, int(causal))
        self.listed = (m, slots, units, *seen)
        self.grids = batch * blocks, batch * tiles, batch
        self.types, self.constants = types, {
            "WIDTH": width, "PARTS": parts, "CHUNK": COLUMNS, "ROWS": plan.rows, "KEYS": plan.keys,
            "LANES": LANES, "STAGES": plan.stages, "TF32": tf32, "COPIES": copies,
        }  # fmt: skip
        self.kernels: list[Any] | None = None

    def compile(self, *tiled: TensorDescriptor) -> list[Any]:
        """The kernels as functions of their arguments."""
        (kind, value), whole, plan = self.types, torch.int32, self.plan
        registers = {"maxnreg": plan.registers} if plan.registers else {}
        tf32 = self.constants["TF32"]
        launches = [
            Launch(
                gpu_keys.measure_keys, self.grids[0],
                (kind, torch.uint8, *[torch.float32] * 2, *[whole] * 5, *self.measured),
                {"CHUNK": 64, "BLOCK": BLOCK, "TF32": tf32, "COPIES": self.copies}, {"num_warps": 8},
            ),
            Launch(
                gpu_search.search, self.grids[1],
                (*tiled, kind, kind, value, *[torch.float32] * 2, value, *[whole] * 11, *self.searched),
                self.constants, {"num_warps": plan.warps, **registers},
            ),
            Launch(
                gpu_decide.decide, programs(self.device),
                (kind, kind, value, value, *[whole] * 10, *self.decided), {},
                {"num_warps": 8, "maxnreg": 128},
            ),
        ]  # fmt: skip
        if self.copies:
            launches.append(
                Launch(
                    gpu_keys.find_copies, self.grids[2],
                    (kind, torch.uint8, *[whole] * 7, kind, whole, whole, *self.listed),
                    {"BLOCK": 2048, "CHUNK": 16, "PAIRS": 128}, {"num_warps": 16},
                )
            )  # fmt: skip
        return ready(launches)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        out = torch.empty((self.batch, self.found.n, v.shape[2]), dtype=v.dtype, device=v.device)
        found = torch.empty((self.batch, self.found.record), dtype=torch.int32, device=v.device)
        scratch = torch.empty(self.numbers, dtype=torch.int32, device=v.device)
        at, here = scratch.data_ptr(), found.data_ptr()
        pending, norms, residuals, own, hashes, table, chosen, kept, used, short, lanes = (at + x for x in self.scratch)
        rows = [here + x for x in self.found.rows]
        keys = [here + x for x in self.found.keys] if self.copies else [own, own + 16, 0, 0]
        q_at, k_at, v_at, out_at = q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr()
        mask_at = 0 if mask is None else mask.data_ptr()
        q_tiles = TensorDescriptor(q, *self.shapes[0], self.tiles[0])
        k_tiles = short_tiles = TensorDescriptor(k, *self.shapes[1], self.tiles[1])
        if self.copies:
            short_tiles = TensorDescriptor(Address(short, k.dtype), *self.shapes[1], self.tiles[1])
        kernels = self.kernels
        if kernels is None:
            kernels = self.kernels = self.compile(q_tiles, k_tiles, k_tiles)
        stream = torch.cuda.current_stream().cuda_stream
        kernels[0](stream, k_at, mask_at, norms, residuals, hashes, table, keys[0], keys[1], pending, *self.measured)
        if self.copies:
            kernels[3](stream, k_at, mask_at, hashes, table, *keys, chosen, short, kept, used, *self.listed)
        kernels[1](
            stream, q_tiles, k_tiles, short_tiles, q_at, k_at, v_at, norms, residuals, out_at, *rows, lanes, *keys,
            kept, used, pending, *self.searched,
        )  # fmt: skip
        kernels[2](
            stream, q_at, k_at, v_at, out_at, rows[0], rows[1], *keys, kept, used, lanes, pending, *self.decided
        )  # fmt: skip
        return out, found


_forward = lru_cache(maxsize=1024)(Forward)


@cache
def programs(device: int) -> int:
    """How many programs share the pending rows: enough to fill the GPU, few enough to end at once if there is none."""
    return 4 * torch.cuda.get_device_properties(device).multi_processor_count


def find(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, *, plan: Plan | None = None, copies: bool = True
) -> tuple[Tensor, Tensor]:
    """Hardmax attention of (B, n, d) queries on (B, m, d) keys and (B, m, dv) values; mask is (B, m) bool or None.

    Gives outputs and the records of `gpu_layout.Found`. Nothing waits for the GPU here. Equal keys are looked for
    unless `causal`, where how many of them are seen differs from query to query.
    """
    q, k, v, copies = aligned(q), aligned(k), placed(v), copies and not causal
    (batch, n, d), m, dv = q.shape, k.shape[1], v.shape[2]
    if batch * n == 0 or m == 0:
        found = torch.zeros((batch, Found(n, m, copies).record), dtype=torch.int32, device=q.device)
        found[:, :n] = -1
        return v.new_zeros(batch, n, dv), found
    mask = None if mask is None else placed(mask)
    shape, types = (batch, n, m, d, dv), (q.dtype, v.dtype)
    return _forward(shape, types, mask is not None, causal, copies, torch.cuda.current_device(), plan)(q, k, v, mask)


class Backward:
    """All that a gradient for tensors of some shapes needs, but the tensors."""

    def __init__(
        self, shape: tuple[int, int, int, int, int], types: tuple[torch.dtype, torch.dtype], masked: bool, causal: bool,
        copies: bool, device: int
    ) -> None:  # fmt: skip
        batch, n, m, d, dv = shape
        self.batch, self.found, self.copies = batch, Found(n, m, copies), copies
        record, blocks, units = self.found.record, triton.cdiv(m, COLLECTED), d * types[0].itemsize // 16
        unit_bits, each = n.bit_length() - 61, max(1, programs(device) // batch)
        parts = max(1, n // 128)  # programs a cloud for keys with many rows
        self.scratch, self.numbers = offsets(
            batch * m, batch * m, batch * n, batch * n, batch * n, batch, batch * n, batch, batch * dv,
            2 * batch * m * dv,
        )  # fmt: skip
        self.sorted = (n, m, record, int(copies), dv)
        self.tied = (n, m, record, units, unit_bits, int(masked), int(causal), each, dv)
        self.collected = (n, m, blocks, parts, record, int(copies), unit_bits, dv)
        (kind, value), whole = types, torch.int32
        sums = torch.float32, torch.int64
        self.kernels = ready([
            Launch(
                gpu_gradient.sort_rows, batch, (value, *sums, *[whole] * 12, *self.sorted), {"ROWS": 1024},
                {"num_warps": 8},
            ),
            Launch(
                gpu_gradient.scatter_tied, each * batch,
                (value, *sums, kind, kind, torch.uint8, *[whole] * 5, *self.tied), {}, {"num_warps": 8},
            ),
            Launch(
                gpu_gradient.collect, batch * (blocks + parts), (value, value, *sums, *[whole] * 10, *self.collected),
                {"KEYS": COLLECTED, "ROWS": COLLECTED}, {"num_warps": 4, "maxnreg": 64},
            ),
        ])  # fmt: skip

    def __call__(self, g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, found: Tensor) -> Tensor:
        out = torch.empty((self.batch, self.found.m, g.shape[2]), dtype=g.dtype, device=g.device)
        scratch = torch.empty(self.numbers, dtype=torch.int32, device=g.device)
        at, here = scratch.data_ptr(), found.data_ptr()
        counts, begins, ranks, order, tied, tied_counts, busy, busy_counts, largest, totals = (
            at + x for x in self.scratch
        )
        first, sizes, lanes = (here + x for x in self.found.rows)
        flags, copies, starts, members = (here + x for x in self.found.keys) if self.copies else (0, 0, 0, 0)
        g_at, mask_at = g.data_ptr(), 0 if mask is None else mask.data_ptr()
        stream = torch.cuda.current_stream().cuda_stream
        sort_rows, scatter_tied, collect = self.kernels
        sort_rows(
            stream, g_at, largest, totals, first, sizes, flags, copies, counts, begins, ranks, order, tied,
            tied_counts, busy, busy_counts, *self.sorted,
        )  # fmt: skip
        scatter_tied(
            stream, g_at, largest, totals, q.data_ptr(), k.data_ptr(), mask_at, first, sizes, lanes, tied,
            tied_counts, *self.tied,
        )  # fmt: skip
        collect(
            stream, g_at, out.data_ptr(), largest, totals, flags, copies, starts, members, counts, begins, order,
            tied_counts, busy, busy_counts, *self.collected,
        )  # fmt: skip
        return out


_backward = lru_cache(maxsize=1024)(Backward)


def spread(g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, found: Tensor) -> Tensor:
    """Gradient of the values: each g_i / |C_i| goes to the members of C_i. The same bits on every run."""
    q, k, g, found = aligned(q), aligned(k), placed(g), placed(found)
    (batch, n, d), m, dv = q.shape, k.shape[1], g.shape[2]
    if g.numel() == 0 or m == 0:
        return g.new_zeros(batch, m, dv)
    mask = None if mask is None else placed(mask)
    shape, types, copies = (batch, n, m, d, dv), (q.dtype, g.dtype), found.shape[1] != Found(n, m, False).record
    return _backward(shape, types, mask is not None, causal, copies, torch.cuda.current_device())(g, q, k, mask, found)


def first_and_sizes(found: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """(B, n) lowest members, -1 for none, and sizes of the sets."""
    begin = Found(n, 0, False).rows[1] // 4
    return found[:, :n], found[:, begin : begin + n]


def exact_sets(q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False) -> Sets:
    """C_i of (B, n, d) queries on (B, m, d) keys, written out; waits for the GPU to know how many are tied."""
    n, m = q.shape[1], k.shape[1]
    found = placed(find(q, k, k[:, :, :0], mask, causal)[1])
    first, sizes = (x.reshape(-1).long() for x in first_and_sizes(found, n))
    tied = torch.nonzero(sizes > 1).flatten()
    begins = torch.zeros(len(tied) + 1, dtype=torch.int64, device=q.device)
    torch.cumsum(sizes[tied], 0, out=begins[1:])
    members = begins.new_empty(int(begins[-1]))
    if len(tied):
        q, k, mask = aligned(q), aligned(k), None if mask is None else placed(mask)
        units = q.shape[2] * q.dtype.itemsize // 16
        counts = (n, m, len(tied), units, found.shape[1], int(mask is not None), int(causal))
        kinds = (q.dtype, q.dtype, torch.uint8, torch.int64, torch.int64, torch.int32, torch.int64, torch.int32)
        device = torch.cuda.current_device()
        (run,) = ready([Launch(gpu_decide.list_members, programs(device), (*kinds, *counts), {}, {"num_warps": 8})])
        here, (lowest, _, lanes) = found.data_ptr(), Found(n, m, False).rows
        run(
            torch.cuda.current_stream().cuda_stream, q.data_ptr(), k.data_ptr(), 0 if mask is None else mask.data_ptr(),
            tied.data_ptr(), begins.data_ptr(), here + lowest, members.data_ptr(), here + lanes, *counts,
        )  # fmt: skip
        owners = torch.repeat_interleave(torch.arange(len(tied), device=q.device), sizes[tied])
        members = torch.sort(owners * m + members).values - owners * m
    return Sets.joined(*(x.cpu().numpy() for x in (first, sizes, members)))
