"""Exact hardmax attention on the GPU: launches the Triton kernels of the other modules named gpu.

`search` multiplies queries with keys on the tensor cores, tile of keys after tile, and keeps for every query the
largest score of each lane, the keys in one place of all tiles, and of each of 8 columns of lanes the two tiles with the
largest scores, with the number of the tile written over the last bits. That costs little more than two comparisons a
score, instead of an exponential and a second product. If one lane and one tile alone come near the best score, the key
where they meet is C_i, and nothing is looked at twice. All this is inexact; that the sets are exact follows from bounds
of every error.

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

The number of a tile in the last bits changes a score x by at most p |x|, p = 2^(bits - 23), or by less than an
underflow. Let x be the largest score of a row as computed, and j a key of C_i. Then s'_j >= s_j - E >= x - 2 E; and as
y - p |y| increases with y, the score with a number in it of the tile of j, in the column of j, is at least

    (x - 2 E) - p |x - 2 E| >= x - 2 E (1 + p) - p |x|.

So every key of C_i is in a lane and in a tile whose scores are at least near = x - 2.1 (E + p |x|) (1 + p); the
difference between 2 and 2.1 covers the rounding of this line. Two keys lie in different lanes or in different tiles,
and two tiles in one column are both known. All rows that have more than one lane or tile near are pending, with the
bits of their lanes and, if these are two at most, the tiles; as are rows with S >= 1e37, where float32 could overflow.

`gpu_keys` and `gpu_duplicates` read the keys first. Where some are equal or masked, the search reads a list
of the keys that are seen, each vector once; the members of C_i are then the copies of what is found, and their number
its size. In small clouds the search begins before that is known, and begins again where there is such a list.

`decide` looks at all keys in these lanes and tiles of a pending row. Products of float32 numbers are exact in float64,
and their sum has an error of at most (d + 8) 2^-53 |q| |k_j|. Keys that this does not tell apart are the same, or all
their products are whole numbers of a unit and below 2^53 of it, so that float64 makes no error, as is usual for numbers
of 16 bits, or they are compared in integer arithmetic (`gpu_exact`). So ties are found exactly for all finite inputs,
overflow and underflow in float32 included. Non-finite inputs have no exact answer: outputs are then undefined, but
nothing hangs.

`gpu_gradient` adds gradients so that the bits are the same on every run: a few rows in float32 in their order, many as
64-bit integers in units of 2^(e - 61) max|g|, 2^e > n, which can be added in any order. No step waits for the GPU; only
`exact_sets` does.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from hardmax.attention import gpu_decide
from hardmax.attention.gpu_backward import Backward
from hardmax.attention.gpu_forward import WIDTHS, Forward, aligned, placed, programs
from hardmax.attention.gpu_launch import Launch, expect, ready
from hardmax.attention.gpu_layout import Found
from hardmax.search.sets import Sets

_backward = lru_cache(maxsize=1024)(Backward)


@lru_cache(maxsize=1024)
def _forward(shape: tuple[int, int, int, int, int], *case: Any) -> Forward:
    """A search, and a beginning made with compiling its gradient, if there can be one."""
    forward = Forward(shape, *case)
    expect([*forward.launches, *(Backward(shape, *case).launches if shape[-1] else [])])
    return forward


def usual() -> list[Launch]:
    """The launches of calls with the usual types and widths, forward and backward, to be compiled ahead."""
    found, device = [], torch.cuda.current_device()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for d in WIDTHS:
            for n, causal in ((512, False), (1024, False), (4096, False), (4096, True)):
                case = (256, n, n, d, d), (dtype, dtype), False, causal, not causal, device
                found += [*Forward(*case).launches, *Backward(*case).launches]
    return found


def find(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, *, copies: bool = True
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
    return _forward(shape, types, mask is not None, causal, copies, torch.cuda.current_device())(q, k, v, mask)


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
        kinds = (q.dtype, q.dtype, torch.uint8, torch.int64, torch.int64, torch.int32, torch.int64, *[torch.int32] * 2)
        device = torch.cuda.current_device()
        (run,) = ready([Launch(gpu_decide.list_members, programs(device), (*kinds, *counts), {}, {"num_warps": 8})])
        here, (lowest, _, lanes, tiles) = found.data_ptr(), Found(n, m, False).rows
        run(
            torch.cuda.current_stream().cuda_stream, q.data_ptr(), k.data_ptr(), 0 if mask is None else mask.data_ptr(),
            tied.data_ptr(), begins.data_ptr(), here + lowest, members.data_ptr(), here + lanes, here + tiles, *counts,
        )  # fmt: skip
        owners = torch.repeat_interleave(torch.arange(len(tied), device=q.device), sizes[tied])
        members = torch.sort(owners * m + members).values - owners * m
    return Sets.joined(*(x.cpu().numpy() for x in (first, sizes, members)))
