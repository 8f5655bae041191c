"""Processes that train one network together, started by `torchrun`; usually there is just one."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Process:
    """One process among `size`; each takes its part of every batch, and sums make them agree."""

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> "Process":
        """The process that runs this."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())
        return ALONE

    @property
    def is_first(self) -> bool:
        return self.rank == 0  # and so writes files and prints

    @property
    def part(self) -> slice:
        return slice(self.rank, None, self.size)  # of a batch

    def add(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace tensors by their sums over all processes."""
        if self.size > 1:
            for tensor in tensors:
                torch.distributed.all_reduce(tensor)


ALONE = Process()


@contextmanager
def joined(device: str) -> Iterator[Process]:
    """Join the processes that `torchrun` has started, if it has."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or torch.distributed.is_initialized():
        yield Process.current()
        return
    on_gpu = torch.cuda.is_available() and not device.startswith("cpu")
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))  # "cuda" is then a GPU of its own
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Process.current()
        torch.distributed.barrier()  # one that left while another still writes would be cut off from it, and may abort
    finally:
        torch.distributed.destroy_process_group()
