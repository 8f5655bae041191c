"""What a search on a GPU needs for tensors of some shapes, found once, and the launches of its kernels."""

from collections.abc import Callable
from functools import cache, cached_property

import torch
import triton
from torch import Tensor

from hardmax.attention import gpu_decide, gpu_duplicates, gpu_keys, gpu_search
from hardmax.attention.gpu_launch import Launch, ready, stream_of, tiles
from hardmax.attention.gpu_layout import Found, offsets

WIDTHS = (32, 64, 128, 256)  # columns that a search holds at once: few, as each is compiled for
BLOCK = 128  # keys whose norms are taken together
TILE = gpu_keys.TILE.value
FEW_KEYS, MANY_KEYS = 512, 1024  # of a cloud that one program looks at


@cache
def processors(device: int) -> int:
    """How many programs run at the same time, at least."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def programs(device: int) -> int:
    """How many programs share the pending rows: enough to fill the GPU, few enough to end at once if there is none."""
    return 8 * processors(device)


def is_small(batch: int, most: int, device: int, few: int) -> bool:
    """Whether one program for a cloud is enough to prepare a search, or for its gradient."""
    return most <= (few if 2 * batch >= processors(device) else BLOCK)


def aligned(x: Tensor) -> Tensor:
    """The same vectors, contiguous, padded with zeros to whole multiples of 16 bytes: what the copy engine asks."""
    missing = -x.shape[-1] % (16 // x.dtype.itemsize)
    return torch.nn.functional.pad(x, (0, missing)) if missing else placed(x)


def placed(x: Tensor) -> Tensor:
    """The same tensor, contiguous and on 16 bytes."""
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


class Forward:
    """All that a search for tensors of some shapes needs, but the tensors."""

    def __init__(
        self, shape: tuple[int, int, int, int, int], types: tuple[torch.dtype, torch.dtype], masked: bool, causal: bool,
        copies: bool, device: int
    ) -> None:  # fmt: skip
        batch, n, m, d, dv = shape
        dtype, rows, blocks = types[0], batch * n, triton.cdiv(m, BLOCK)
        width = next((w for w in WIDTHS if w >= d and w * dtype.itemsize <= 512), 512 // dtype.itemsize)
        parts, units = triton.cdiv(d, width), d * dtype.itemsize // 16
        short = width * dtype.itemsize <= 256  # what was fastest on a Hopper GPU
        stages, self.registers = 3 if short else 2 if parts == 1 else 1, {"maxnreg": 96} if short else {}
        self.found, self.copies, self.device = Found(n, m, copies), copies, device
        self.outputs, self.records = (batch, n, dv), (batch, self.found.record)
        of_keys = tiles(dtype, batch * m, d, [TILE, width])
        self.tiled = tiles(dtype, rows, d, [TILE, width]), of_keys, of_keys if copies else None
        slots = triton.next_power_of_2(2 * m) if copies else 0
        own = 0 if copies else batch * (4 + (m if masked else 0))  # `class_record` of each
        keys, clouds = (batch * m, batch) if copies else (0, 0)
        self.scratch, self.numbers = offsets(
            rows + 1, batch * blocks, batch * blocks, BLOCK // 32 * batch * blocks, own, keys, clouds * slots, keys,
            keys, clouds, 4 * keys * units, rows, rows,
        )  # fmt: skip
        record, class_record = self.found.record, self.found.record if copies else 4 + (m if masked else 0)
        n_tiles = triton.cdiv(n, TILE)
        keep = -(1 << (triton.cdiv(m, TILE) - 1).bit_length())
        packing = -keep * 2.0**-23
        seen = (int(masked), class_record)
        self.measured, self.listed = (rows, m, blocks, slots, units, *seen), (m, slots, units, *seen)
        self.searched = (
            n, m, rows, n_tiles, blocks, int(causal), int(masked), record, class_record, keep, (d + 16) * 2.0**-22,
            packing, 2.1 * (1 + packing), dv,
        )  # fmt: skip
        self.decided = (n, m, rows, units, dv, record, class_record, int(causal))
        self.together = copies and is_small(batch, m, device, MANY_KEYS)
        self.ahead = (self.together or not copies) and torch.cuda.get_device_capability(device) >= (9, 0)
        self.block = 2048 if not self.together else FEW_KEYS if m <= FEW_KEYS else MANY_KEYS
        self.grids = batch * blocks, batch, batch * n_tiles
        self.types, self.constants = types, {
            "WIDTH": width, "PARTS": parts, "ROWS": TILE, "KEYS": TILE, "STAGES": stages,
            "TF32": dtype == torch.float32, "COPIES": copies, "AHEAD": self.ahead,
        }  # fmt: skip

    @property
    def launches(self) -> list[Launch]:
        """The kernels and what they are compiled for."""
        (kind, value), whole, number = self.types, torch.int32, torch.float32
        sizes, ahead = {"TF32": self.constants["TF32"]}, {"AHEAD": self.ahead}
        blocks = {"BLOCK": self.block, "CHUNK": 16, "PAIRS": 128}
        if self.together:
            prepare = [Launch(
                gpu_duplicates.measure_and_find, self.grids[1],
                (kind, torch.uint8, number, number, *[whole] * 8, kind, *[whole] * 3, *self.measured),
                {"COLUMNS": 64, "KEYS": BLOCK} | sizes | ahead | blocks,
                {"num_warps": self.block // 128, "maxnreg": 128},
            )]  # fmt: skip
        else:
            prepare = [Launch(
                gpu_keys.measure_keys, self.grids[0],
                (kind, torch.uint8, number, number, *[whole] * 6, *self.measured),
                {"CHUNK": 64, "BLOCK": BLOCK} | sizes | {"COPIES": self.copies} | ahead, {"num_warps": 2},
            )]  # fmt: skip
        if self.copies and not self.together:
            prepare.append(Launch(
                gpu_duplicates.find_copies, self.grids[1],
                (kind, torch.uint8, *[whole] * 7, kind, whole, whole, *self.listed), blocks, {"num_warps": 16},
            ))  # fmt: skip
        return [
            Launch(
                gpu_search.search, self.grids[2],
                (*self.tiled, value, number, number, whole, value, *[whole] * 13, *self.searched),
                self.constants, {"num_warps": 4, "launch_pdl": self.ahead} | self.registers,
            ),
            Launch(
                gpu_decide.decide, programs(self.device),
                (kind, kind, value, value, *[whole] * 11, *self.decided), {}, {"num_warps": 4, "maxnreg": 64},
            ),
            *prepare,
        ]  # fmt: skip

    @cached_property
    def kernels(self) -> list[Callable[..., None]]:
        """The kernels as functions of their arguments."""
        return ready(self.launches)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        out = torch.empty(self.outputs, dtype=v.dtype, device=v.device)
        found = torch.empty(self.records, dtype=torch.int32, device=v.device)
        scratch = torch.empty(self.numbers, dtype=torch.int32, device=v.device)
        at, here = scratch.data_ptr(), found.data_ptr()
        pending, norms, residuals, words, own, hashes, table, chosen, kept, used, short, lanes, tiled = (
            at + x for x in self.scratch
        )
        rows = [here + x for x in self.found.rows]
        keys = [here + x for x in self.found.keys] if self.copies else [own, own + 16, 0, 0]
        q_at, k_at, v_at, out_at = q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr()
        mask_at = 0 if mask is None else mask.data_ptr()
        search, decide, prepare, *find = self.kernels
        stream = stream_of(self.device)
        if self.together:
            prepare(
                stream, k_at, mask_at, norms, residuals, words, hashes, table, *keys, chosen, short, kept, used,
                pending, *self.measured,
            )  # fmt: skip
        else:
            prepare(stream, k_at, mask_at, norms, residuals, words, hashes, table, *keys[:2], pending, *self.measured)
        if find:
            find[0](stream, k_at, mask_at, hashes, table, *keys, chosen, short, kept, used, *self.listed)
        search(
            stream, q_at, k_at, short if self.copies else None, v_at, norms, residuals, words, out_at, *rows, lanes,
            tiled, *keys, kept, used, pending, *self.searched,
        )  # fmt: skip
        decide(
            stream, q_at, k_at, v_at, out_at, rows[0], rows[1], *keys, kept, used, lanes, tiled, pending, *self.decided
        )
        return out, found
