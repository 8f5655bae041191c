"""Peak memory of a call, whoever allocates it: NumPy, BLAS, FAISS, compiled code."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FORGET = Path("/proc/self/clear_refs")


def with_peak(run: Callable[[], Any], *, afresh: bool = False) -> tuple[Any, float | None]:
    """Call, and say by how many MB the process was larger at its peak than before; None where Linux does not tell.

    The kernel keeps the largest resident size (VmHWM) and resets it when 5 is written to clear_refs. A first call
    sees all that it needs; later ones may reuse memory that the process kept, unless `afresh` gives that back first.
    """
    if afresh:
        with suppress(OSError, AttributeError):  # another C library than that of GNU keeps what it keeps
            ctypes.CDLL("libc.so.6").malloc_trim(0)
    before = _reset()
    result = run()
    return result, None if before is None else max(resident("VmHWM") - before, 0) / 1e3


def _reset() -> float | None:
    try:
        FORGET.write_text("5")
        return resident("VmRSS")
    except OSError:
        return None


def resident(field: str, process: int | str = "self") -> float:
    """A size in kB (1024 bytes), as thousands of bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(field))
    return 1.024 * int(line.split()[1])


@contextmanager
def peak_memory(every: float = 0.25) -> Iterator[dict[str, float]]:
    """The largest resident size of this process, and of the largest of its children and theirs, in MB."""
    import psutil

    peak, stopped, me = {"client": 0.0, "child": 0.0}, threading.Event(), psutil.Process()

    def watch() -> None:
        while not stopped.wait(every):
            for child in me.children(recursive=True):
                try:
                    peak["child"] = max(peak["child"], resident("VmHWM", child.pid) / 1e3)
                except (OSError, StopIteration):  # one that has ended meanwhile
                    continue

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        stopped.set()
        thread.join()
        peak["client"] = resident("VmHWM") / 1e3
