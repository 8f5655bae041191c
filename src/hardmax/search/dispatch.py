"""Which method runs: the one named, or the fastest for this shape."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import MissingExtra, ParameterError
from hardmax._types import FloatArray, IntArray
from hardmax.search import reference
from hardmax.search.ready import compiled_pays, count, has_numba, why_compiled
from hardmax.search.rounding import Slack
from hardmax.search.sets import MOST, Sets
from hardmax.search.tree_choice import MOST as MOST_SIDES
from hardmax.search.tree_choice import pays

if TYPE_CHECKING:
    from hardmax.search.hull import Hull

KERNELS = {
    "auto": "the fastest for the shape",
    "numpy": "all products, tile by tile, in NumPy: the definition",
    "hull": "d = 2: convex hull, and a binary search by angle",
    "tree": "3 to 6 dimensions: a tree of the keys, for tokens that are about equally far from their centre",
    "scan": "any d: products and their maxima in registers, from the keys that are farthest from their centre on",
    "symmetric": "many dimensions, tokens that are their own keys: half of the matrix of products, tile by tile",
}
FEW, SEVERAL = 16, 1 << 23  # dimensions up to which, and products from which, several searches beat all products
FAR = 2.0**30  # a coordinate up to which products of many dimensions stay in the range of float32
MANY, CROWD = 16, 1 << 16  # dimensions, and coordinates of all keys, from which on half of all products are faster


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
    >>> from hardmax.search.dispatch import check_kernel
    >>> check_kernel("numpy")
    'numpy'
    """
    if kernel not in KERNELS:
        raise ParameterError("kernel", f"be one of {', '.join(map(repr, KERNELS))}", f"{kernel!r}")
    if kernel not in ("auto", "numpy") and not has_numba():
        raise MissingExtra(f'`kernel="{kernel}"`', "numba", "fast")
    return kernel


class Search:
    """Finds near-maxima, layer after layer; it remembers what ran and why, and what helps at the next layer.

    With `gaps=True` it also finds by how much each maximum leads the keys that are not near it.

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
    >>> from hardmax.search.dispatch import Search
    >>> tokens = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    >>> sets, gaps = Search("numpy").near_maxima(tokens, tokens, np.zeros(3))
    >>> [members.tolist() for members in (sets[0], sets[1], sets[2])]
    [[0], [1], [0, 1]]
    """

    def __init__(self, kernel: str = "auto", *, gaps: bool = False) -> None:
        self.kernel, self.gaps = kernel, gaps
        self.ran: Counter[str] = Counter()  # queries answered by each method
        self.why = "Nothing was asked." if kernel == "auto" else "It was named."
        self._hull: Hull | None = None  # of the last layer
        self._gathered = False  # whether "symmetric" left most rows of the last layer, too close to call, to "scan"

    def __str__(self) -> str:
        return ", ".join(name for name, queries in self.ran.most_common() if queries) or self.kernel

    @property
    def stats(self) -> dict[str, Any]:
        """What ran, why, and how many queries it answered; nothing where none was asked."""
        queries = self.ran.total()
        return {"kernel": str(self), "why": self.why, "queries": queries} if queries else {}

    def counts(self, kernel: str, queries: int, why: str) -> None:
        """Remember queries that were answered elsewhere, in the place of this search."""
        self.why = self.why if self.ran else why
        self.ran[kernel] += queries

    def near_maxima(
        self, queries: FloatArray, keys: FloatArray, slack: FloatArray | Slack, limits: IntArray | None = None
    ) -> tuple[Sets, FloatArray | None]:
        """Every key whose product with a query is within `slack` of the largest, and the gaps if asked for.

        Parameters
        ----------
        queries : (n, d) array
            Floats.
        keys : (m, d) array
            Floats. Coordinates beyond 1 in size are best scaled first: the hull of a plane takes them to be 1 at most.
        slack : (n,) array or Slack
            For each query by how much a product may be below its largest; a `Slack` grows with the query.
        limits : (n,) array of int, optional
            For each query how many keys it sees, from the first; all unless said.

        Returns
        -------
        Sets, (n,) array or None
            The near-maxima of each query, and the gaps if NumPy has them.

        Raises
        ------
        TooMany
            Where that would take more memory than tokens do; then ask fewer queries at a time.
        """
        name = self._choice(queries, keys, limits is not None)
        if name == "numpy":
            sets, gaps = reference.near_maxima(queries, keys, _of_each(slack, queries), limits, MOST)
            self.ran["numpy"] += len(queries)
            return sets, gaps if self.gaps else None
        queries, keys = (np.ascontiguousarray(x, np.float64) for x in (queries, keys))
        slack = slack if isinstance(slack, Slack) else np.ascontiguousarray(slack, np.float64)
        sets = Sets(np.zeros(len(queries) + 1, np.intp), np.empty(0, np.intp))
        if name == "hull":
            from hardmax.search import hull

            sets, self._hull = hull.near_maxima(queries, keys, slack, self._hull)
        elif name == "tree":
            from hardmax.search import tree

            sets = tree.near_maxima(queries, keys, _of_each(slack, queries))
        elif name == "symmetric" and limits is None and np.array_equal(queries, keys) and _moderate(keys):
            from hardmax.search import symmetric as gemm

            sets = gemm.near_maxima(keys, _of_each(slack, queries))
            self._gathered = bool(2 * np.count_nonzero(sets.sizes) < len(sets))
        left = np.flatnonzero(sets.sizes == 0)  # rows that a method has left out
        self.ran[name] += len(sets) - len(left)
        if len(left):
            some = left if len(left) < len(sets) else slice(None)
            seen = None if limits is None else limits[some]
            asked = slack if isinstance(slack, Slack) else slack[some]
            sets = sets.replace(left, self._scanned(queries[some], keys, _of_each(asked, queries[some]), seen, name))
        return sets, None

    def _scanned(
        self, queries: FloatArray, keys: FloatArray, slack: FloatArray, limits: IntArray | None, name: str
    ) -> Sets:
        """What "scan" finds, or NumPy if another kernel has left few rows and "scan" is not ready."""
        if self.kernel == "auto" and name != "scan" and not compiled_pays("scan", len(queries) * len(keys)):
            self.ran["numpy"] += len(queries)
            return reference.near_maxima(queries, keys, slack, limits, MOST)[0]
        from hardmax.search import scan as fused

        self.ran["scan"] += len(queries)
        return fused.near_maxima(queries, keys, slack, limits)

    def _choice(self, queries: FloatArray, keys: FloatArray, limited: bool) -> str:
        """The kernel to ask: the one that is named, or the fastest for this shape, if it pays to have it."""
        products, d = len(queries) * len(keys), keys.shape[1]
        if self.kernel != "auto":
            return self._named(d, limited)
        if self.gaps and (limited or d > FEW or products < SEVERAL):
            self.why = "NumPy is done with all products before compiled code has searched several times for gaps."
            return "numpy"
        fastest = self._fastest(queries, keys, limited)
        for name in dict.fromkeys([fastest, "scan"]):  # which may be ready where the fastest is not
            compiled, why = why_compiled(name, products)
            if not self.ran or compiled:  # that of the first layer, or of the first that was compiled
                self.why = why
            if compiled:
                return name
        count(fastest, products)
        return "numpy"

    def _fastest(self, queries: FloatArray, keys: FloatArray, limited: bool) -> str:
        n, d = keys.shape
        if limited or d == 1:
            return "scan"
        if d == 2:
            return "hull"
        half = d >= MANY and n * d >= CROWD and not self._gathered
        return "symmetric" if half else "tree" if pays(queries, keys) else "scan"

    def _named(self, d: int, limited: bool) -> str:
        """The one that is named; where it does not fit, an error."""
        if self.kernel == "hull" and (d != 2 or limited):
            must, got = "have tokens in two dimensions", f"d = {d}"
            if d == 2:
                must, got = "have `causal=False`: a hull has no order of the tokens", "causal=True"
            raise ParameterError('kernel="hull"', must, got, 'Use `kernel="auto"`.')
        if self.kernel == "tree" and (d > MOST_SIDES or limited):
            must, got = f"have tokens in {MOST_SIDES} dimensions at most", f"d = {d}"
            if limited:
                must, got = "have `causal=False`: a tree has no order of the tokens", "causal=True"
            raise ParameterError('kernel="tree"', must, got, 'Use `kernel="auto"`.')
        return self.kernel


def _moderate(keys: FloatArray) -> bool:
    """Whether float32 has room to spare for the products of keys."""
    return bool(max(keys.max(), -keys.min()) <= FAR)


def _of_each(slack: FloatArray | Slack, queries: FloatArray) -> FloatArray:
    """As an array: shape (rows,)."""
    return slack.at(queries) if isinstance(slack, Slack) else slack
