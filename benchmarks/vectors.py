"""Two kinds of machine: the processor as it is, and the same one kept from AVX-512.

Of the second kind every library is told to use AVX2 alone, before any is loaded. It has the clock and the caches of the
first, and is not another chip.
"""

import os
import platform
from pathlib import Path

MARK = "BENCHMARKS_VECTORS"  # in the environment of the processes that are told so
ALONE = {
    MARK: "avx2",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx2,+fma",  # with the name alone numba keeps what the processor has
    "OPENBLAS_CORETYPE": "Haswell",  # of NumPy, SciPy and FAISS
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX",  # new and old names
    "FAISS_SIMD_LEVEL": "AVX2",  # of a FAISS that chooses when it runs
    "FAISS_OPT_LEVEL": "AVX2",  # and of one that chooses when it is loaded
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD",
}
FILES = "_avx2"  # at the end of the names of the files that such processes write


def alone() -> bool:
    """Whether this process was told to do without AVX-512."""
    return os.environ.get(MARK) == ALONE[MARK]


def instructions() -> str:
    """The vector instructions that libraries may use here."""
    if alone():
        return "AVX2 (kept from AVX-512)"
    flags = _flags()
    return "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else platform.machine()


def file_of(path: Path) -> Path:
    """Where this kind of machine keeps what goes to a file."""
    return path.with_stem(path.stem + FILES) if alone() else path


def files(path: Path) -> list[Path]:
    """The files of both kinds, as far as they are there."""
    return [each for each in (path, path.with_stem(path.stem + FILES)) if each.exists()]


def _flags() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].split() for line in lines if line.startswith("flags"))
    except (OSError, StopIteration):
        return []
