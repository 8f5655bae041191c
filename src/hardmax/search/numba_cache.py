"""Compiled functions: which are loaded in this process, and which are in numba's cache on disk."""

import os
import sys
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
LAST_COMPILED = {  # each kernel, and the function that is compiled last of all that it needs
    "hull": "search.hull._walk",
    "scan": "search.scan._search",
    "symmetric": "search.symmetric._decide",
    "small": "search.small._search",
    "attention": "attention.layers_compiled._attend",
    "layers": "attention.layers_compiled._forward",
    "contributions": "attention.layers_compiled._contributions",
    "encoding": "sentiment.compiled_encoding._encode",
}


@cache
def has_numba() -> bool:
    """Return whether numba is installed."""
    return find_spec("numba") is not None


@cache
def hash_sources(folder: Path) -> str:
    """Return a name that changes with any source file of a folder or of this one."""
    files = [file for each in {PACKAGE / "search", folder} for file in each.glob("*.py")]
    return "-" + sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:16]


def is_loaded(kernel: str) -> bool:
    """Return whether a kernel has run in this process."""
    module, function = f"hardmax.{LAST_COMPILED[kernel]}".rsplit(".", 1)
    found = sys.modules.get(module)
    return found is not None and bool(getattr(getattr(found, function), "signatures", True))


@cache
def is_stored(kernel: str) -> bool:
    """Return whether numba's cache on disk has a kernel compiled from this source."""
    folder, module, function = LAST_COMPILED[kernel].split(".")
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(chosen)] if chosen else [PACKAGE / folder / "__pycache__"]
    name = f"{module}.{function}{hash_sources(PACKAGE / folder)}-*.nbi"
    return any(True for place in places for _ in place.rglob(name))
