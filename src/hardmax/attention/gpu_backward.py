"""What a gradient on a GPU needs for tensors of some shapes, found once, and the launches of its kernels."""

from collections.abc import Callable
from functools import cached_property

import torch
import triton
from torch import Tensor

from hardmax.attention import gpu_gradient
from hardmax.attention.gpu_forward import FEW_KEYS, is_small, programs
from hardmax.attention.gpu_launch import Launch, ready, stream_of
from hardmax.attention.gpu_layout import Found, offsets

COLLECTED = 16  # keys whose gradients are added up together


class Backward:
    """All that a gradient for tensors of some shapes needs, but the tensors."""

    def __init__(
        self, shape: tuple[int, int, int, int, int], types: tuple[torch.dtype, torch.dtype], masked: bool, causal: bool,
        copies: bool, device: int
    ) -> None:  # fmt: skip
        batch, n, m, d, dv = shape
        self.found, self.copies, self.device, self.outputs = Found(n, m, copies), copies, device, (batch, m, dv)
        record, blocks, units = self.found.record, triton.cdiv(m, COLLECTED), d * types[0].itemsize // 16
        unit_bits, each = n.bit_length() - 61, max(1, programs(device) // batch)
        parts = max(1, n // 128)  # programs a cloud for keys with many rows
        self.scratch, self.numbers = offsets(
            batch * m, batch * m, batch * n, batch * n, batch * n, batch, batch * n, batch, batch * dv,
            2 * batch * m * dv,
        )  # fmt: skip
        seen = (int(masked), int(causal))
        self.sorted = (n, m, record, int(copies), dv)
        self.tied = (n, m, record, units, unit_bits, *seen, each, dv)
        self.collected = (n, m, blocks, parts, record, int(copies), unit_bits, dv)
        self.whole = (n, m, record, int(copies), units, unit_bits, *seen, dv)
        self.together = is_small(batch, max(n, m), device, FEW_KEYS)
        (kind, value), whole, sums = types, torch.int32, (torch.float32, torch.int64)
        if self.together:
            self.launches = [Launch(
                gpu_gradient.gradient_of_cloud, batch,
                (value, value, *sums, kind, kind, torch.uint8, *[whole] * 16, *self.whole),
                {"ROWS": FEW_KEYS, "KEYS": 2 * COLLECTED}, {"num_warps": 8, "maxnreg": 64},
            )]  # fmt: skip
            return
        self.launches = [
            Launch(
                gpu_gradient.sort_rows, batch, (value, *sums, *[whole] * 12, *self.sorted), {"ROWS": 1024},
                {"num_warps": 8},
            ),
            Launch(
                gpu_gradient.scatter_tied, each * batch,
                (value, *sums, kind, kind, torch.uint8, *[whole] * 6, *self.tied), {},
                {"num_warps": 4, "maxnreg": 64},
            ),
            Launch(
                gpu_gradient.collect, batch * (blocks + parts), (value, value, *sums, *[whole] * 10, *self.collected),
                {"KEYS": COLLECTED, "ROWS": COLLECTED}, {"num_warps": 4, "maxnreg": 64},
            ),
        ]  # fmt: skip

    @cached_property
    def kernels(self) -> list[Callable[..., None]]:
        """The kernels as functions of their arguments."""
        return ready(self.launches)

    def __call__(self, g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, found: Tensor) -> Tensor:
        out = torch.empty(self.outputs, dtype=g.dtype, device=g.device)
        scratch = torch.empty(self.numbers, dtype=torch.int32, device=g.device)
        at, here = scratch.data_ptr(), found.data_ptr()
        counts, begins, ranks, order, tied, tied_counts, busy, busy_counts, largest, totals = [
            at + x for x in self.scratch
        ]
        sets = [here + x for x in self.found.rows]
        keys = [here + x for x in self.found.keys] if self.copies else [0, 0, 0, 0]
        g_at, out_at, mask_at = g.data_ptr(), out.data_ptr(), 0 if mask is None else mask.data_ptr()
        q_at, k_at, stream = q.data_ptr(), k.data_ptr(), stream_of(self.device)
        if self.together:
            self.kernels[0](
                stream, g_at, out_at, largest, totals, q_at, k_at, mask_at, *sets, *keys, counts, begins, ranks, order,
                tied, tied_counts, busy, busy_counts, *self.whole,
            )  # fmt: skip
            return out
        sort_rows, scatter_tied, collect = self.kernels
        sort_rows(
            stream, g_at, largest, totals, *sets[:2], *keys[:2], counts, begins, ranks, order, tied, tied_counts, busy,
            busy_counts, *self.sorted,
        )  # fmt: skip
        scatter_tied(
            stream, g_at, largest, totals, q_at, k_at, mask_at, *sets, tied, tied_counts, *self.tied
        )  # fmt: skip
        collect(
            stream, g_at, out_at, largest, totals, *keys, counts, begins, order, tied_counts, busy, busy_counts,
            *self.collected,
        )  # fmt: skip
        return out
