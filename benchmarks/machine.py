"""Facts about the machine, the environment variables of every measured process, and
peak memory.

Results are recorded for two kinds of machine: the processor as it is, and the same
processor with every library restricted to AVX2 (`python -m benchmarks --avx2`). The
second has the clock and the caches of the first.
"""

import ctypes
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hardmax import __version__

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CLEAR_REFS = Path("/proc/self/clear_refs")
CORES = (
    len(os.sched_getaffinity(0))
    if hasattr(os, "sched_getaffinity")
    else os.cpu_count() or 1
)
THREADS = min(2, CORES)  # for every library
PACKAGES = ("numpy", "scipy", "numba", "faiss-cpu", "pykeops", "torch")
MARK = "BENCHMARKS_VECTORS"  # environment variable of restricted processes
AVX2_ONLY = {
    MARK: "avx2",
    "NUMBA_CPU_NAME": "haswell",
    # with the name alone numba uses the features of the processor
    "NUMBA_CPU_FEATURES": "+avx2,+fma",
    "OPENBLAS_CORETYPE": "Haswell",  # of NumPy, SciPy and FAISS
    # new and old names
    "NPY_DISABLE_CPU_FEATURES": (
        "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX"
    ),
    "FAISS_SIMD_LEVEL": "AVX2",  # of a FAISS that chooses at run time
    "FAISS_OPT_LEVEL": "AVX2",  # of a FAISS that chooses when it is loaded
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "GLIBC_TUNABLES": (
        "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD"
    ),
}


def is_restricted() -> bool:
    """Return True if this process is restricted to AVX2."""
    return os.environ.get(MARK) == AVX2_ONLY[MARK]


def instructions() -> str:
    """Return the vector instructions that libraries may use."""
    if is_restricted():
        return "AVX2 (kept from AVX-512)"
    flags = _cpu_info("flags").split()
    return (
        "AVX-512"
        if "avx512f" in flags
        else "AVX2"
        if "avx2" in flags
        else platform.machine()
    )


def results_file(path: Path) -> Path:
    """Return the file in which this kind of machine keeps its results."""
    return path.with_stem(f"{path.stem}_avx2") if is_restricted() else path


def results_files(path: Path) -> list[Path]:
    """Return the files of both kinds of machine that exist."""
    return [
        each for each in (path, path.with_stem(f"{path.stem}_avx2")) if each.exists()
    ]


def machine() -> dict[str, str]:
    """Return facts to print beside every table."""
    found = {
        "processor": (
            _cpu_info("model name") or platform.processor() or platform.machine()
        ),
        "instructions": instructions(),
        "cores": str(CORES),
        "threads": str(THREADS),
        "hardmax": __version__,
        "Python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def environment() -> dict[str, str]:
    """Return variables that give every library the same number of threads, and KeOps
    the same instructions.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    architecture = "haswell" if is_restricted() else "native"
    return {
        f"{library}_NUM_THREADS": str(THREADS)
        for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")
    } | {
        "CXXFLAGS": f"-march={architecture}",
        # A separate folder: KeOps would reuse what it compiled without these flags.
        "KEOPS_CACHE_FOLDER": str(home / "hardmax" / f"keops-{architecture}"),
        "KEOPS_VERBOSE": "0",
        "PYKEOPS_VERBOSE": "0",
    }


def _cpu_info(field: str) -> str:
    """Return a field of the first processor in /proc/cpuinfo, or an empty string."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith(field)
        )
    except (OSError, StopIteration):
        return ""


def with_peak(
    run: Callable[[], Any], *, afresh: bool = False
) -> tuple[Any, float | None]:
    """Call a function; return its result and by how many MB the process grew at its
    peak, or None without Linux.

    This counts every allocator: NumPy, BLAS, FAISS, compiled code. The kernel keeps the
    largest resident size (VmHWM) and resets it when 5 is written to clear_refs. Later
    calls may reuse memory that the process kept from a first one, unless `afresh`
    releases it.
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
