"""Processes that train one network together, started by `torchrun`; usually there is
one.

Torch is imported where it is used: a linear start does not need it.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from hardmax._errors import needed_for

if TYPE_CHECKING:
    from torch import Tensor


class Process(NamedTuple):
    """Rank of this process among `size` processes; each computes its part of every
    batch, and gradients are summed.
    """

    rank: int
    size: int

    @classmethod
    def current(cls) -> "Process":
        import torch

        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())
        return cls(0, 1)

    @property
    def is_first(self) -> bool:
        return self.rank == 0  # it writes files and prints

    @property
    def part(self) -> slice:
        return slice(self.rank, None, self.size)  # of a batch

    def add(self, tensors: "Iterable[Tensor]") -> None:
        """Replace tensors by their sums over all processes."""
        if self.size > 1:
            import torch

            for tensor in tensors:
                torch.distributed.all_reduce(tensor)


@contextmanager
def join_processes(device: str) -> Iterator[Process]:
    """Join the process group of `torchrun`, if there is one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Process(0, 1)  # without torch, which a linear start does not need
        return
    with needed_for("Training in several processes", "torch", "torch"):
        import torch
    if torch.distributed.is_initialized():
        yield Process.current()
        return
    on_gpu = torch.cuda.is_available() and not device.startswith("cpu")
    if on_gpu:
        torch.cuda.set_device(
            int(os.environ.get("LOCAL_RANK", "0"))
        )  # "cuda" is then the GPU of this process
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Process.current()
        # a process that left early would abort one that still writes
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()
