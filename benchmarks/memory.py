"""Peak memory of a call, by any allocator: NumPy, BLAS, FAISS, compiled code."""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

CLEAR_REFS = Path("/proc/self/clear_refs")


def with_peak(run: Callable[[], Any], *, afresh: bool = False) -> tuple[Any, float | None]:
    """Call a function; return its result and by how many MB the process grew at its peak, or None without Linux.

    The kernel keeps the largest resident size (VmHWM) and resets it when 5 is written to clear_refs. Later calls may
    reuse memory that the process kept from a first one, unless `afresh` releases it.
    """
    if afresh:
        with suppress(OSError, AttributeError):  # only the GNU C library has it
            ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        CLEAR_REFS.write_text("5")
        before = resident("VmRSS")
    except OSError:
        return run(), None
    result = run()
    return result, max(resident("VmHWM") - before, 0) / 1e3


def resident(field: str, process: int | str = "self") -> float:
    """Return a size from /proc/PID/status in kilobytes of 1000 bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(field))
    return 1.024 * int(line.split()[1])
