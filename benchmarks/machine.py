"""Where a measurement was made: processor, instructions, threads, versions."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.vectors import alone, instructions
from hardmax import __version__

ROOT = Path(__file__).parents[1]  # of the repository: where `python -m benchmarks` works
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
THREADS = min(2, CORES)  # for everyone
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA")
PACKAGES = ("numpy", "scipy", "numba", "faiss-cpu", "pykeops", "torch")


def machine() -> dict[str, str]:
    """Facts to print beside every table."""
    found = {"hardmax": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    here = {"processor": _processor(), "instructions": instructions(), "cores": str(CORES), "threads": str(THREADS)}
    return here | found


def environment() -> dict[str, str]:
    """Variables that give every library the same number of threads, and KeOps the instructions of the others."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    architecture = "haswell" if alone() else "native"
    return {f"{library}_NUM_THREADS": str(THREADS) for library in LIBRARIES} | {
        "CXXFLAGS": f"-march={architecture}",
        # A folder of its own: KeOps would take what it compiled before, without these flags.
        "KEOPS_CACHE_FOLDER": str(home / "hardmax" / f"keops-{architecture}"),
        "KEOPS_VERBOSE": "0",
        "PYKEOPS_VERBOSE": "0",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
