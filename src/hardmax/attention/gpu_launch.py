"""Launching Triton kernels from Python with little of it: what can be known from the shapes alone is kept.

A kernel is compiled once for each kind of its arguments, all kernels of one call and of its gradient at the same time
(`gpu_compile`), and Triton keeps the machine code on disk (`TRITON_CACHE_DIR`). Afterwards a launch hands over
addresses and numbers, without a look at them: every tensor starts on 16 bytes, as the compiled code expects.
"""

import inspect
import logging
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from time import perf_counter
from typing import Any, NamedTuple

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from hardmax._private_apis import may_use_private
from hardmax.attention.gpu_compile import OTHER_TRITON, Request, can_begin, request_of, settle_keys

LOG = logging.getLogger("hardmax")
SLOW, LONGEST = 0.5, 120  # seconds of compilation that are told of, and that are waited for
KNOWN = 256  # places of tensors whose descriptors are kept
LAUNCHER = {"self", "gridX", "gridY", "gridZ", "stream", "function", "args"}  # what Triton's launcher is called with
_COMPILED: dict[Any, Any] = {}
_EXPECTED: set[Any] = set()  # what has been asked for
_ELSEWHERE: "dict[Any, subprocess.Popen[bytes]]" = {}  # what other processes compile


class Address(NamedTuple):
    """A tensor, as far as a descriptor asks."""

    address: int
    dtype: torch.dtype

    def data_ptr(self) -> int:
        return self.address


def tiles(dtype: torch.dtype, rows: int, columns: int, block: list[int]) -> TensorDescriptor:
    """What the copy engine must know of a matrix that is read in blocks, but where it lies."""
    return TensorDescriptor(Address(0, dtype), [rows, columns], [columns, 1], block)


class Launch(NamedTuple):
    """One kernel of a call: how many programs, and what it is compiled for.

    `kinds` holds for each argument before the constants the type of a tensor, the tiles of one, or a number. Tiles come
    first. A launch takes the addresses of tensors and of what is read in tiles.
    """

    kernel: Any
    programs: int
    kinds: tuple[Any, ...]
    constants: dict[str, Any]
    options: dict[str, Any]

    @property
    def key(self) -> Any:
        """All that the machine code depends on. Triton makes other code for multiples of 16, and for 1."""
        fixed = self.kernel.do_not_specialize
        kinds: list[Any] = []
        for name, kind in zip(self.kernel.arg_names, self.kinds, strict=False):
            if isinstance(kind, TensorDescriptor):
                kinds.append((kind.base.dtype, *kind.block_shape))
            elif isinstance(kind, int):
                kinds.append("int" if name in fixed else (kind == 1, kind % 16 == 0))
            else:
                kinds.append(kind if isinstance(kind, torch.dtype) else type(kind))
        rest = *self.constants.items(), *self.options.items()
        return self.kernel, torch.cuda.current_device(), *kinds, *rest


def missing(launches: Sequence[Launch]) -> dict[Any, Request]:
    """What is neither compiled in this process nor on disk; an `OTHER_TRITON` may not tell."""
    settle_keys()  # before keys are made
    each = {launch.key: launch for launch in launches}  # many have the same
    asked = {key: request_of(launch.kernel, partial(_warm_up, launch)) for key, launch in each.items()}
    return {key: request for key, request in asked.items() if request is not None and not request.is_on_disk()}


def expect(launches: Sequence[Launch]) -> None:
    """Begin to compile what `ready` will be asked for, if that are several kernels, in processes of their own."""
    settle_keys()
    new = [launch for launch in launches if launch.key not in _EXPECTED]
    _EXPECTED.update(launch.key for launch in new)
    with suppress(Exception):  # whatever keeps other processes from it, `ready` compiles what is missing
        requests = missing(new) if can_begin() and may_use_private("triton") else {}
        if len(requests) > 1:
            names = ", ".join(request.name for request in requests.values())
            LOG.warning("hardmax compiles %s for this GPU, which takes some seconds, once: it is kept on disk.", names)
            for key, request in requests.items():
                _ELSEWHERE[key] = request.begin()


def ready(launches: Sequence[Launch]) -> list[Callable[..., None]]:
    """A function of the arguments for each launch; compiles what is missing."""
    settle_keys()
    new = {launch.key: launch for launch in launches if launch.key not in _COMPILED}
    if new:
        began, device, waited = perf_counter(), torch.cuda.current_device(), [_wait(key) for key in new]
        with ThreadPoolExecutor(len(new)) as pool:
            _COMPILED.update(zip(new, pool.map(lambda one: _compiled(one, device), new.values()), strict=True))
        if (took := perf_counter() - began) > SLOW and not any(waited):
            names = ", ".join(launch.kernel.__name__ for launch in new.values())
            LOG.warning("hardmax compiled %s for this GPU in %.1f s; kept on disk for the next time.", names, took)
    return [_bound(_COMPILED[launch.key], launch) for launch in launches]


def _wait(key: Any) -> bool:
    """Until another process has compiled something; whether one was asked to."""
    process = _ELSEWHERE.pop(key, None)
    if process is None:
        return False
    try:
        process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
    return True


def _warm_up(launch: Launch) -> Any:
    return launch.kernel.warmup(*launch.kinds, grid=(1,), **launch.constants, **launch.options)


def _compiled(launch: Launch, device: int) -> Any:
    torch.cuda.set_device(device)  # each thread has a device of its own
    compiled = _warm_up(launch)
    with suppress(AttributeError):
        compiled._init_handles()  # loads the machine code, for which Triton builds a launcher: here, beside the others
    return compiled


def _bound(compiled: Any, launch: Launch) -> Callable[..., None]:
    """A launch as a function of a stream and the arguments."""
    names, constants = launch.kernel.arg_names[len(launch.kinds) :], tuple(launch.constants.values())
    assert tuple(launch.constants) == tuple(names), f"{launch.kernel.__name__}: constants in the order of {names}"
    grid, tiled = (launch.programs, 1, 1), [kind for kind in launch.kinds if isinstance(kind, TensorDescriptor)]
    try:
        if not may_use_private("triton"):
            raise TypeError("the order of the arguments of a launch may be another one")
        return _direct(compiled, grid, tiled, constants)
    except OTHER_TRITON:  # the documented way, which is slower
        run, count = compiled[grid], len(tiled)
        return lambda _, *arguments: run(*map(_at, tiled, arguments), *arguments[count:], *constants)


def _at(tiled: TensorDescriptor, address: int) -> TensorDescriptor:
    return TensorDescriptor(Address(address, tiled.base.dtype), tiled.shape, tiled.strides, tiled.block_shape)


def _direct(
    compiled: Any, grid: tuple[int, int, int], tiled: list[TensorDescriptor], constants: tuple[Any, ...]
) -> Callable[..., None]:
    """As Triton 3.6 launches, without what it does for those who watch it. Nothing of this is promised by Triton."""
    run = compiled.run
    if inspect.signature(type(run).__call__).parameters.keys() != LAUNCHER:
        raise TypeError("launches take other arguments")
    if run.global_scratch_size or run.profile_scratch_size:
        raise TypeError("memory would have to be found first")
    fixed = run.launch_cooperative_grid, run.launch_pdl, None, None, compiled.packed_metadata, None, None, None
    start, code, count = run.launch, compiled.function, len(tiled)
    if not tiled:
        return lambda stream, *arguments: start(*grid, stream, code, *fixed, *arguments, *constants)
    from triton.backends.nvidia.driver import make_tensordesc_arg

    inside = inspect.getclosurevars(start).nonlocals
    start, metas = inside["launcher"], inside["tensordesc_meta"]
    known: dict[tuple[int, ...], list[Any]] = {}

    def launch(stream: int, *arguments: Any) -> None:
        places = arguments[:count]
        parts = known.get(places)
        if parts is None:  # tensors come back to the same places, and a descriptor takes as long as a launch
            if len(known) >= KNOWN:
                known.clear()  # other threads keep what they hold
            made = map(make_tensordesc_arg, map(_at, tiled, places), metas)
            parts = known[places] = [part for own in made for part in own]
        start(*grid, stream, code, *fixed, *parts, *arguments[count:], *constants)

    return launch


def stream_of(device: int) -> int:
    """The stream on which torch works there now."""
    return int(_streams()(device))


@cache
def _streams() -> Callable[[int], int]:
    found: Callable[[int], int] = triton.runtime.driver.active.get_current_stream
    return found
