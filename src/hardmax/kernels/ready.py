"""Whether compiled code pays: by the size of the call, and by what is ready.

Compiled code may be loaded in this process, stored on this disk by an earlier one, or not there yet. numba stores it in
`NUMBA_CACHE_DIR` if that is set, else beside the source, else, where that cannot be written to, in the user's cache.
"""

import os
import sys
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

LOADED = "hardmax.kernels.compiled"  # the module that all compiled kernels load
SMALL = 1 << 14  # products below which NumPy is done before anything else has begun
LOAD, COMPILE = 1 << 27, 1 << 31  # products that NumPy finds while compiled code is loaded, or made: once a machine


@cache
def has_numba() -> bool:
    """Whether compiled kernels can be had."""
    return find_spec("numba") is not None


@cache
def folder_hash(folder: Path) -> str:
    """What changes with any source file of a folder."""
    return sha256(b"".join(file.read_bytes() for file in sorted(folder.glob("*.py")))).hexdigest()[:16]


def _stores() -> list[Path]:
    """Where numba may have stored compiled code of this folder."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return [Path(given)]
    home = Path.home()
    users = {
        "darwin": home / "Library" / "Caches",
        "win32": Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"),
    }.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache"))
    return [Path(__file__).parent / "__pycache__", users / "numba"]


@cache
def stored() -> bool:
    """Whether compiled kernels of this very source are on the disk."""
    name = f"hull._walk-{folder_hash(Path(__file__).parent)}*.nbi"
    return any(True for folder in _stores() if folder.is_dir() for _ in folder.rglob(name))


def why_compiled(products: float, before: float = 0) -> tuple[bool, str]:
    """Whether compiled code is to find so many products, and why, as a sentence.

    `before` is how many NumPy has found in this process: whoever has waited as long as loading takes waits no more.
    """
    if products < SMALL:
        return False, "NumPy is done with so few products before anything else has begun."
    if not has_numba():
        return False, "numba, which compiles the faster kernels, is not installed."
    if LOADED in sys.modules:
        return True, "Compiled code is loaded."
    if stored():
        if products + before < LOAD:
            return False, "NumPy is done before stored compiled code is loaded."
        return True, "Stored compiled code is loaded in less time than NumPy needs, or has needed."
    if products + before < COMPILE:
        return False, "Nothing is compiled yet, and NumPy is done before it would be."
    return True, "Compiling takes less time than NumPy needs, or has needed."
