"""Whether compiled code pays: by the size of the call, and by what is ready.

A kernel may be loaded in this process, stored on this disk by an earlier one, or not there yet. Where it is stored is
for `store` to say.
"""

import os
import sys
from collections import Counter
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np

SMALL = 1 << 14  # products below which NumPy is done before anything else has begun
LOAD, COMPILE = 1 << 27, 1 << 31  # products that NumPy finds while a kernel is loaded, or made: once a machine
IN_PLANE, IN_SPACE = 4096, 512  # tokens of a cloud up to which `small_clouds` is faster than `fused`
CALL, CLOUD = 1 << 15, 1 << 10  # products in the time that NumPy takes for a batch, and for each cloud, at least

KNOWN_BY = {  # each kernel, and the function that is compiled last of all that it needs
    "hull": "search.hull._walk",
    "tree": "search.tree._search",
    "scan": "search.scan._search",
    "symmetric": "search.symmetric._look_again",
    "small clouds": "search.small.search_small",
    "attention": "attention.compiled_attention._attend",
    "layers": "attention.layers_compiled._forward",
    "contributions": "attention.contributions._contributions",
    "encoding": "sentiment.compiled_encoding._encode",
}
_by_numpy: Counter[str] = Counter()  # products that NumPy found in this process for each: loops of calls add up, too


@cache
def has_numba() -> bool:
    """Whether compiled kernels can be had."""
    return find_spec("numba") is not None


@cache
def folder_hash(folder: Path) -> str:
    """What changes with any source file of a folder."""
    return sha256(b"".join(file.read_bytes() for file in sorted(folder.glob("*.py")))).hexdigest()[:16]


def hashes(folder: Path) -> str:
    """The end of the name of a stored function of a folder: of all the files it may call, its own and those here."""
    return "".join(f"-{folder_hash(each)}" for each in dict.fromkeys([Path(__file__).parent, folder]))


@cache
def store() -> Path:
    """The folder for compiled code, in `NUMBA_CACHE_DIR`, or in the user's cache, which all installations share."""
    from importlib.metadata import version  # takes a while to load

    made_by = f"numba-{version('numba')}-numpy-{np.__version__}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given) / made_by
    try:
        home = Path.home()
    except RuntimeError:  # a user without one, as in some containers: nothing is kept there
        home = Path(os.devnull)
    users = {
        "darwin": home / "Library" / "Caches",
        "win32": Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"),
    }.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache"))
    return users / "hardmax" / made_by


def is_loaded(kernel: str) -> bool:
    """Whether a kernel has run in this process."""
    module, function = f"hardmax.{KNOWN_BY[kernel]}".rsplit(".", 1)
    found = sys.modules.get(module)
    return found is not None and bool(getattr(getattr(found, function), "overloads", True))


@cache
def is_stored(kernel: str) -> bool:
    """Whether a kernel of this very source is on the disk."""
    package, module, function = KNOWN_BY[kernel].split(".")
    folder = Path(__file__).parents[1] / package
    name = f"{module}.{function}{hashes(folder)}-*.nbi"
    return any(True for place in (store(), folder / "__pycache__") for _ in place.glob(name))


def is_small(d: int, tokens: int, single: bool) -> bool:
    """Whether clouds of so many queries or keys are small; in space, if they are of float32."""
    return 0 < tokens <= IN_PLANE if d == 2 else single and d > 3 and 0 < tokens <= IN_SPACE


def of_batch(clouds: int, n: float, m: float) -> float:
    """In the time that NumPy takes for clouds of n queries and m keys, it finds so many products of a single cloud."""
    return CALL + clouds * (2 * n * m + CLOUD)


def why_compiled(kernel: str, products: float) -> tuple[bool, str]:
    """Whether a compiled kernel is to find so many products, and why, as a sentence.

    What NumPy has found instead adds up, see `count`: whoever has waited as long as loading takes waits no more.
    """
    if products < SMALL:
        return False, "NumPy is done with so few products before anything else has begun."
    if not has_numba():
        return False, "numba, which compiles the faster kernels, is not installed."
    if is_loaded(kernel):
        return True, "Compiled code is loaded."
    products += _by_numpy[kernel]
    if products < LOAD:  # stored or not, which takes a while to find out
        return False, "NumPy is done before compiled code is loaded."
    if is_stored(kernel):
        return True, "Stored compiled code is loaded in less time than NumPy needs, or has needed."
    if products < COMPILE:
        return False, "Nothing is compiled yet, and NumPy is done before it would be."
    return True, "Compiling takes less time than NumPy needs, or has needed."


def count(kernel: str, products: float) -> None:
    """NumPy finds so many products in the place of a kernel."""
    _by_numpy[kernel] += int(products)


def compiled_pays(kernel: str, products: float) -> bool:
    """Whether a kernel is to run; if not, NumPy does, which counts.

    Why is told to whoever has set the level of the logger "hardmax" to DEBUG: what is asked for here has no `stats`.
    """
    compiled, why = why_compiled(kernel, products)
    if logging := sys.modules.get("logging"):  # which takes a while to load: who has not done so does not listen
        logging.getLogger("hardmax").debug("%s by %s: %s", kernel, "compiled code" if compiled else "NumPy", why)
    if not compiled:
        count(kernel, products)
    return compiled
