"""Which method runs: the one named, or the fastest for this shape."""

import os
import sys
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hardmax._errors import MissingExtra, ParameterError
from hardmax._types import FloatArray, IntArray
from hardmax.kernels import reference
from hardmax.kernels.sets import Sets

if TYPE_CHECKING:
    from hardmax.kernels.hull import Hull

KERNELS = {
    "auto": "the fastest for the shape",
    "numpy": "all products, tile by tile, in NumPy: the definition",
    "hull": "d = 2: convex hull, and a binary search by angle",
    "fused": "any d: products and their maxima in registers, from the keys that are farthest from their centre on",
    "gemm": "many dimensions, tokens that are their own keys: half of a matrix product, tile by tile",
}
MANY = 320  # dimensions from which on half of a matrix product is faster than all of a fused one
LOADED = "hardmax.kernels.compiled"  # the module that all compiled kernels load
SMALL = 1 << 14  # products below which NumPy is done before anything else has begun
LOAD, COMPILE = 1 << 27, 1 << 31  # products that NumPy finds while compiled code is loaded, or made: once a machine


@cache
def has_numba() -> bool:
    """Whether compiled kernels can be had."""
    return find_spec("numba") is not None


def check_kernel(kernel: str) -> str:
    """Return a name from `KERNELS` that can run here, or say what to do.

    Parameters
    ----------
    kernel : str
        A name from `KERNELS`.

    Returns
    -------
    str
        The same.

    Raises
    ------
    ParameterError
        If there is no such kernel.
    MissingExtra
        If it needs numba, which is not installed.

    Examples
    --------
    >>> from hardmax.kernels import check_kernel
    >>> check_kernel("numpy")
    'numpy'
    """
    if kernel not in KERNELS:
        raise ParameterError("kernel", f"be one of {', '.join(map(repr, KERNELS))}", f"{kernel!r}")
    if kernel not in ("auto", "numpy") and not has_numba():
        raise MissingExtra(f'`kernel="{kernel}"`', "numba", "fast")
    return kernel


@cache
def _compiled_before() -> bool:
    """Whether compiled kernels are there: in this process, or on this disk where numba usually leaves them."""
    folder = os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__"
    return LOADED in sys.modules or any(Path(folder).rglob("hull._walk*.nbi"))


class Search:
    """Finds near-maxima, layer after layer; it remembers what ran, and what helps at the next layer.

    With `gaps=True` it is the definition that runs, which knows them.

    Parameters
    ----------
    kernel : str
        A name from `KERNELS`; "auto" takes the fastest for the shape.
    gaps : bool
        Whether to measure by how much the largest products lead.

    Raises
    ------
    ParameterError
        If there is no such kernel.
    MissingExtra
        If it needs numba, which is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from hardmax.kernels import Search
    >>> tokens = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    >>> sets, gaps = Search("numpy").near_maxima(tokens, tokens, np.zeros(3))
    >>> [members.tolist() for members in (sets[0], sets[1], sets[2])]
    [[0], [1], [0, 1]]
    """

    _done: ClassVar[int] = 0  # products that were asked for in this process: compiled code comes in when they add up

    def __init__(self, kernel: str = "auto", *, gaps: bool = False) -> None:
        self.kernel = "numpy" if gaps else kernel
        self.gaps = gaps
        self.ran: Counter[str] = Counter()  # queries answered by each method
        self._hull: Hull | None = None  # of the last layer

    def __str__(self) -> str:
        return ", ".join(name for name, queries in self.ran.most_common() if queries) or self.kernel

    def near_maxima(
        self, queries: FloatArray, keys: FloatArray, slack: FloatArray, limits: IntArray | None = None
    ) -> tuple[Sets, FloatArray | None]:
        """Every key whose product with a query is within `slack` of the largest, and the gaps if asked for.

        Parameters
        ----------
        queries : (n, d) array
            Floats.
        keys : (m, d) array
            Floats.
        slack : (n,) array
            For each query by how much a product may be below its largest.
        limits : (n,) array of int, optional
            For each query how many keys it sees, from the first; all unless said.

        Returns
        -------
        Sets, (n,) array or None
            The near-maxima of each query, and the gaps.
        """
        if self._plain(len(queries) * len(keys)):
            sets, gaps = reference.near_maxima(queries, keys, slack, limits)
            self.ran["numpy"] += len(queries)
            return sets, gaps if self.gaps else None
        queries, keys, slack = (np.ascontiguousarray(x, np.float64) for x in (queries, keys, slack))
        name = self._compiled(keys.shape[1], limits is not None)
        sets = Sets(np.zeros(len(queries) + 1, np.intp), np.empty(0, np.intp))
        if name == "hull":
            from hardmax.kernels import hull

            sets, self._hull = hull.near_maxima(queries, keys, slack, self._hull)
        elif name == "gemm" and limits is None and np.array_equal(queries, keys):
            from hardmax.kernels import gemm

            sets = gemm.near_maxima(keys, slack)
        left = np.flatnonzero(sets.sizes == 0)  # rows that a method has left out
        self.ran[name] += len(sets) - len(left)
        if len(left):
            from hardmax.kernels import fused

            self.ran["fused"] += len(left)
            some = left if len(left) < len(sets) else slice(None)
            seen = None if limits is None else limits[some]
            sets = sets.replace(left, fused.near_maxima(queries[some], keys, slack[some], seen))
        return sets, None

    def _plain(self, products: int) -> bool:
        """Whether NumPy is the one to ask; compiled code comes in for large work, and when small work has added up."""
        if self.kernel != "auto":
            return self.kernel == "numpy"
        if products < SMALL:
            return True
        Search._done += products
        if Search._done < LOAD and LOADED not in sys.modules:
            return True
        return not has_numba() or (Search._done < COMPILE and not _compiled_before())

    def _compiled(self, d: int, limited: bool) -> str:
        """The compiled method for this shape; for a hull that is named and does not fit, an error."""
        if self.kernel == "auto":
            return "hull" if d == 2 and not limited else "gemm" if d >= MANY else "fused"
        if self.kernel == "hull" and (d != 2 or limited):
            must, got = "have tokens in two dimensions", f"d = {d}"
            if d == 2:
                must, got = "have `causal=False`: a hull has no order of the tokens", "causal=True"
            raise ParameterError('kernel="hull"', must, got, 'Use `kernel="auto"`.')
        return self.kernel
