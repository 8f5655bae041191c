"""Peak memory of a call, whoever allocates it: NumPy, BLAS, FAISS, compiled code."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

FORGET = Path("/proc/self/clear_refs")


def with_peak(run: Callable[[], Any]) -> tuple[Any, float | None]:
    """Call, and say by how many MB the process was larger at its peak than before; None where Linux does not tell.

    The kernel keeps the largest resident size (VmHWM) and resets it when 5 is written to clear_refs. A first call
    sees all that it needs; later ones may reuse memory that the process kept.
    """
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
