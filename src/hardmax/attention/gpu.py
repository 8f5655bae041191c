"""Exact hardmax attention on the GPU: launches the Triton kernels of the other modules
named gpu.

`search` multiplies queries with keys on the tensor cores, tile of keys after tile. For
every query it keeps the largest score of each lane, the keys at one position of all
tiles, and for each of 8 columns of lanes the two tiles with the largest scores, with
the index of the tile in the last bits. That costs little more than two comparisons per
score, instead of an exponential and a second product. If one lane and one tile alone
come near the best score, the key where they meet is C_i. All this is inexact; that the
sets are exact follows from bounds of every error.

Let S = |q| max_j |k_j|, so that sum_c |q_c k_jc| <= S for every key j by Cauchy and
Schwarz. Norms are computed in float32, multiplied by 1.001 and raised by EPSILON =
2^-50. A score s'_j as computed differs from s_j = <q, k_j> by at most E, the sum of

- accumulation, (d + 16) 2^-22 S. Products of bfloat16, float16 and TF32 numbers are
  exact (at most 22 bits). Tensor cores add K of them (K = 16, for TF32 8) and the sum
  so far at once, each cut to at least 23 bits below the largest exponent, so with an
  error below 2^-23 S each; so is cutting the result. That is (d / K) (K + 2) 2^-23 S in
  all, at most 1.25 d 2^-23 S for d rounded up to a multiple of K, and we allow for more
  than half as much again;
- rounding to TF32, for float32 alone: |q - q'| max|k| + |q| max|k - k'|, where x' is x
  without its last 13 bits. An element rounded to nearest is no farther from x than x',
  so this holds whichever the hardware does;
- underflow. Numbers below 2^-126 may count as 0, which changes a score by at most d
  2^-126 + 2^-126 sqrt(d) (|q| +
  |k|). The terms with EPSILON in E exceed that: 2^-100 d 2^-22 and 2^-50 d 2^-22 (|q| + |k|).

The index of a tile in the last bits changes a score x by at most p |x|, p = 2^(bits -
23), or by less than an underflow. Let x be the largest score of a row as computed, and
j a key of C_i. Then s'_j >= s_j - E >= x - 2 E; and as y - p |y| increases with y, the
score of the tile of j with its index, in the column of j, is at least

    (x - 2 E) - p |x - 2 E| >= x - 2 E (1 + p) - p |x|.

So every key of C_i is in a lane and in a tile whose scores are at least near = x - 2.1
(E + p |x|) (1 + p); the difference between 2 and 2.1 covers the rounding of this line.
Two keys lie in different lanes or in different tiles, and two tiles in one column are
both known. All rows that have more than one lane or tile near are pending, with the
bits of their lanes and, if these are two at most, the tiles; as are rows with S >=
1e37, where float32 could overflow.

`prepare_keys` reads the keys first. Where some are equal, or hidden from all queries,
the search reads a list of the distinct keys that are seen. The members of C_i are then
the duplicates of the key found, and their number is its size.

`decide` reads all keys in these lanes and tiles of a pending row. Products of float32
numbers are exact in float64, and their sum has an error of at most (d + 8) 2^-53 |q|
|k_j|. Keys that this does not separate are the same, or all their products are integer
multiples of a unit and below 2^53 of it, so that float64 makes no error, as is usual
for numbers of 16 bits, or they are compared in integer arithmetic. So ties are found
exactly for all finite inputs, overflow and underflow in float32 included. Non-finite
inputs have no exact answer: outputs are then undefined, but nothing hangs.

No step waits for the GPU, so that calls can be recorded in a CUDA graph.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from hardmax.attention import gpu_duplicates, gpu_exact, gpu_gradient, gpu_search

WIDTHS = (
    32,
    64,
    128,
    256,
)  # columns of queries and keys that a search holds at once; each is compiled for
MAX_TOTALS = (
    1 << 23
)  # 64-bit integers that collect the gradients of tied rows at a time: 64 MB
TILE = gpu_search.TILE.value
_compiled: dict[Any, Any] = {}  # kernels by name and case


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, found: Tensor
) -> Tensor:
    """Return hardmax attention of (..., n, d) queries on (..., m, d) keys and (..., m,
    dv) values, and fill `found`.

    The mask is (B, m) or (B, n, m) for B batch elements. Each row of `found` describes
    the sets of one for `spread`:

    - (n,) the lowest member of C_i, -1 for none, or -2 - j if j is the lowest member
      and distinct keys tie;
    - (n,) sizes of C_i;
    - (n,) bits of the lanes, and (n,) the two tiles that hold the members of tied rows
      (`gpu_exact.find_candidates`);
    - if it has room, which it has where all queries see the same keys: (m,) the lowest
      duplicate of each key, m for hidden keys; (m,) list of distinct keys; and the
      length of that list, -1 where all keys are distinct and seen.
    """
    q, k, v = _pad(q), _pad(k), _align(v)
    (n, d), m, dv, (batch, record) = q.shape[-2:], k.shape[-2], v.shape[-1], found.shape
    out = v.new_empty(*q.shape[:-1], dv)
    if batch * n == 0 or m == 0:
        found[:, :n], found[:, n:] = -1, 0
        return out.zero_()
    mask = None if mask is None else _align(mask).view(torch.uint8)
    mask_rows = 1 if mask is None or mask.ndim == 2 else n
    common = mask if mask_rows == 1 else None
    rows, units, slots, stride = (
        batch * n,
        d * q.dtype.itemsize // 16,
        1 << (2 * m - 1).bit_length(),
        2,
    )
    short, has_list = None, record > 4 * n
    if has_list:
        short, mask, stride = torch.empty_like(k), None, 2 + 5 * m + slots
    work = found.new_empty(1 + rows + batch * stride)
    block, tf32 = (
        512 if m <= 512 else 1024 if m <= 1024 else 2048,
        q.dtype == torch.float32,
    )
    case = (
        q.device,
        q.dtype,
        v.dtype,
        d,
        dv,
        block,
        common is None,
        mask is None,
        has_list,
    )
    _launch(gpu_duplicates.prepare_keys, batch, case, k, common, found, work, short, n, m, rows, units, record, stride,
            slots, m.bit_length(), block, tf32, num_warps=block // 128, maxnreg=128)  # fmt: skip
    width = next(
        (w for w in WIDTHS if w >= d and w * q.dtype.itemsize <= 512),
        512 // q.dtype.itemsize,
    )
    parts, is_short = _count_blocks(d, width), width * q.dtype.itemsize <= 256
    stages = (
        3 if is_short else 2 if parts == 1 else 1
    )  # these and the number of registers were fastest on Hopper
    layout = [d, 1], [TILE, width]
    tiles = [
        x if x is None else TensorDescriptor(x, [x.numel() // d, d], *layout)
        for x in (q, k, short)
    ]
    keep = -(1 << (_count_blocks(m, TILE) - 1).bit_length())
    _launch(gpu_search.search, batch * _count_blocks(n, TILE), case, *tiles, v, mask, out, found, work, n, m, rows,
            d, int(causal), mask_rows, record, stride, keep, dv, width, parts, stages, tf32,
            num_warps=4, maxnreg=96 if is_short and mask is None else None)  # fmt: skip
    _launch(gpu_exact.decide, _count_programs(q.device), case, q, k, v, mask, out, found, work, n, m, rows, units,
            int(causal), mask_rows, record, stride, dv, has_list, num_warps=4, maxnreg=64)  # fmt: skip
    return out


def spread(
    g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, found: Tensor
) -> Tensor:
    """Return the gradient of the values: each g_i / |C_i| goes to the members of C_i.
    The same bits on every run.
    """
    q, k, g, found = _pad(q), _pad(k), _align(g), _align(found)
    (n, d), m, dv, (batch, record) = q.shape[-2:], k.shape[-2], g.shape[-1], found.shape
    out = g.new_empty(*k.shape[:-1], dv)
    if g.numel() == 0 or m == 0:
        return out.zero_()
    keys, order = torch.sort(found[:, :n], dim=1, stable=True)
    has_list, units, bits = record > 4 * n, d * q.dtype.itemsize // 16, n.bit_length()
    mask = None if mask is None or has_list else _align(mask).view(torch.uint8)
    mask_rows = 1 if mask is None or mask.ndim == 2 else n
    count = min(batch, max(1, MAX_TOTALS // (m * dv)))  # batch elements at a time
    totals, begins = (
        found.new_empty(count, m + 1, dv, dtype=torch.int64),
        found.new_empty(batch, m + 2),
    )
    each, block, index_block = max(1, _count_programs(q.device) // count), 16, 1024
    case = q.device, q.dtype, g.dtype, dv, mask is None, has_list
    for first in range(0, batch, count):
        some = min(count, batch - first)
        _launch(gpu_gradient.index_rows, some * _count_blocks(m + 2, index_block), case, g, totals, keys, begins, first,
                n, m, bits, dv, index_block, num_warps=8)  # fmt: skip
        _launch(gpu_gradient.scatter_ties, some * each, case, g, totals, q, k, mask, found, begins, order, first, n, m,
                units, each, int(causal), mask_rows, record, bits, dv, has_list, num_warps=4, maxnreg=64)  # fmt: skip
        _launch(gpu_gradient.collect, some * _count_blocks(m, block), case, g, out, totals, found, begins, order, first,
                n, m, record, bits, dv, block, num_warps=4, maxnreg=64)  # fmt: skip
    if has_list:
        programs = batch * _count_blocks(m, gpu_gradient.ROWS.value)
        _launch(
            gpu_gradient.copy_to_duplicates,
            programs,
            case,
            out,
            found,
            n,
            m,
            record,
            dv,
            num_warps=4,
        )
    return out


def _launch(
    kernel: Any, programs: int, case: tuple[Any, ...], *arguments: Any, **options: Any
) -> None:
    """Launch a kernel that is compiled once per case, which holds all that Triton
    specializes on but alignment.

    `kernel[grid]` classifies all arguments at every call and takes twice as long: most
    of an eager call at small n.
    """
    compiled = _compiled.get((kernel.__name__, case))
    if compiled is None:
        compiled = _compiled[kernel.__name__, case] = kernel.warmup(
            *arguments, grid=(1,), **options
        )
    compiled[programs, 1, 1](*arguments)


def _count_blocks(length: int, block: int) -> int:
    return -(-length // block)


def _align(x: Tensor) -> Tensor:
    """Return x contiguous from an address that is a multiple of 16 bytes, for which all
    kernels are compiled.
    """
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


def _pad(x: Tensor) -> Tensor:
    """Return vectors aligned and padded with zeros to multiples of 16 bytes, which
    tensor descriptors require.
    """
    missing = -x.shape[-1] % (16 // x.dtype.itemsize)
    return _align(torch.nn.functional.pad(x, (0, missing)) if missing else x)


@cache
def _count_programs(device: torch.device) -> int:
    """Return how many programs share the pending or tied rows: enough to fill the GPU."""
    properties: Any = torch.cuda.get_device_properties(device)
    return 8 * int(properties.multi_processor_count)
