"""Choose the method of a search: the one named, or the fastest for the shape.

Compiled code has to be loaded, and once per installation compiled. Small calls run in
NumPy meanwhile; the kernel is loaded once NumPy's accumulated work exceeds the loading
time, and compiled once it exceeds the compilation time.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._errors import MissingExtra, ParameterError
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray, Seen
from hardmax._validation import is_one_of, shortened
from hardmax.search import reference
from hardmax.sets import MAX_MEMBERS, Sets

KERNELS = {
    "auto": "the fastest for the shape",
    "numpy": "all products, tile by tile, in NumPy: the definition",
    "hull": (
        "d = 2: convex hull, and a binary search by angle; for prefixes of the keys, a"
        " hull that grows"
    ),
    "scan": (
        "any d: float32 products in registers, from the keys that are farthest from"
        " their centre on"
    ),
    "symmetric": (
        "d = 16 and more, tokens that are their own keys: half of the matrix of"
        " products, in int16"
    ),
}
MIN_COMPILED = 1 << 14  # products below which NumPy is done first
LOADING, COMPILING = (
    1 << 27,
    1 << 31,
)  # products that NumPy finds while a kernel is loaded, or compiled
NUMPY_CALL, NUMPY_ELEMENT = (
    1 << 15,
    1 << 10,
)  # products in NumPy's time for a batch, and per batch element, at least
MAX_SMALL_PLANE, MAX_SMALL = (
    4096,
    512,
)  # tokens of a batch element up to which "small" is faster than "scan"
TYPICAL_LAYERS = 8  # at least, until all tokens of a set are decided
MIN_SYMMETRIC_D, MIN_SYMMETRIC = (
    16,
    1 << 16,
)  # dimensions and coordinates from which "symmetric" is fastest
MIN_PREFIXES = (
    1 << 32
)  # products from which a hull that grows beats a scan of the first keys
MAX_GAPS_D, MIN_GAPS = (
    16,
    1 << 23,
)  # dimensions and products between which several searches beat all products

PACKAGE = Path(__file__).parents[1]
# each kernel, and the function that is compiled last of all that it needs
LAST_COMPILED = {
    "hull": "search.hull._walk",
    "growing": "search.growing._near_maxima",
    "hull_cache": "search.hull_heads.step",
    "scan": "search.scan._search",
    "symmetric": "search.symmetric._decide",
    "small": "search.small._search",
    "flows": "flows.compiled.advance",
    "flow_rows": "flows.compiled.attend_rows",
    "attention": "attention.layers_compiled._attend",
    "layers": "attention.layers_compiled._forward",
    "contributions": "attention.layers_compiled._contributions",
}
_numpy_work: Counter[str] = (
    Counter()
)  # products that NumPy found in this process in place of each kernel


@cache
def has_numba() -> bool:
    """Return whether numba is installed."""
    return find_spec("numba") is not None


def is_loaded(kernel: str) -> bool:
    """Return whether a kernel has run in this process."""
    module, function = f"hardmax.{LAST_COMPILED[kernel]}".rsplit(".", 1)
    found = getattr(
        sys.modules.get(module), function, None
    )  # absent while another thread imports the module
    return found is not None and bool(getattr(found, "signatures", True))


@cache
def is_stored(kernel: str) -> bool:
    """Return whether numba's cache on disk has a kernel that was compiled after the
    last change of its sources.
    """
    folder, module, function = LAST_COMPILED[kernel].split(".")
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    place = Path(chosen) if chosen else PACKAGE / folder / "__pycache__"
    changed = max(
        file.stat().st_mtime
        for each in ("search", folder)
        for file in (PACKAGE / each).glob("*.py")
    )
    return any(
        file.stat().st_mtime >= changed
        for file in place.rglob(f"{module}.{function}-*.nbi")
    )


def check_kernel(kernel: str) -> str:
    """Return a name from `KERNELS` that can run here, or raise an error with advice."""
    if not is_one_of(kernel, KERNELS):
        names = ", ".join(map(repr, KERNELS))
        raise ParameterError("kernel", f"be one of {names}", shortened(kernel))
    if kernel not in ("auto", "numpy") and not has_numba():
        raise MissingExtra(f'`kernel="{kernel}"`', "numba", "fast")
    return kernel


def explain_choice(kernel: str, products: float) -> tuple[bool, str]:
    """Return whether a compiled kernel is to find a number of products, and the reason
    as a sentence.
    """
    if products < MIN_COMPILED:
        return False, "NumPy finds this few products before compiled code has started."
    if not has_numba():
        return False, "numba, which compiles the faster kernels, is not installed."
    if is_loaded(kernel):
        return True, "Compiled code is loaded."
    products += _numpy_work[kernel]
    if products < LOADING:  # checked before `is_stored`, which takes a while
        return False, "NumPy is done before compiled code is loaded."
    if is_stored(kernel):
        return (
            True,
            (
                "Loading stored compiled code takes less time than NumPy needs, or has"
                " needed."
            ),
        )
    if products < COMPILING:
        return False, "Nothing is compiled yet, and NumPy is done before it would be."
    return True, "Compiling takes less time than NumPy needs, or has needed."


def use_compiled(kernel: str, products: float) -> bool:
    """Return whether a compiled kernel is to run; if not, count the work that NumPy
    does in its place.

    The logger "hardmax" gets the reason at level DEBUG.
    """
    compiled, why = explain_choice(kernel, products)
    if logging := sys.modules.get("logging"):  # which takes a while to load
        logging.getLogger("hardmax").debug(
            "%s by %s: %s", kernel, "compiled code" if compiled else "NumPy", why
        )
    if not compiled:
        count_numpy_work(kernel, products)
    return compiled


def count_numpy_work(kernel: str, products: float) -> None:
    """Count products that NumPy finds in place of a kernel."""
    _numpy_work[kernel] += int(products)


def products_of_batch(batch: int, n: float, m: float) -> float:
    """Return the products of one token set that take NumPy as long as a batch of n
    queries and m keys each.
    """
    return NUMPY_CALL + batch * (2 * n * m + NUMPY_ELEMENT)


def is_small(d: int, tokens: int, single: bool) -> bool:
    """Return whether "small" searches batch elements of this size; `single` states that
    they are float32.
    """
    return (
        0 < tokens <= MAX_SMALL_PLANE
        if d == 2
        else single and d > 3 and 0 < tokens <= MAX_SMALL
    )


def search_batch(
    queries: AnyArray,
    keys: AnyArray,
    slack: FloatArray | None,
    mask: BoolArray | None = None,
    causal: bool = False,
    most: float = np.inf,
) -> tuple[Sets, BoolArray]:
    """Return `scan.near_maxima_of_batch`, by "small" where batch elements are small."""
    single = queries.dtype == keys.dtype == np.float32
    if (
        slack is None
        and not causal
        and is_small(keys.shape[2], max(queries.shape[1], keys.shape[1]), single)
    ):
        from hardmax.search import small

        return small.near_maxima_of_batch(queries, keys, mask, most)
    from hardmax.search import scan

    return scan.near_maxima_of_batch(queries, keys, slack, mask, causal, most=most)


class Search:
    """Find near-maxima, layer after layer, and record what ran and why.

    `kernel` is a name from `KERNELS`; "auto" takes the fastest for the shape. `gaps`
    states whether gaps are wanted: by how much the maxima lead the keys that are not
    near them.
    """

    def __init__(self, kernel: str = "auto", *, gaps: bool = False) -> None:
        self.kernel, self.gaps = kernel, gaps
        self.ran: Counter[str] = Counter()  # queries answered by each method
        self.why = "There was no query." if kernel == "auto" else "It was named."
        self._is_clustered = (
            False  # whether "symmetric" left most rows of the last layer to "scan"
        )

    def __str__(self) -> str:
        return (
            ", ".join(name for name, queries in self.ran.most_common() if queries)
            or self.kernel
        )

    @property
    def stats(self) -> dict[str, Any]:
        """Return what ran, why, and the number of queries; an empty dict if there was
        none.
        """
        queries = self.ran.total()
        return (
            {"kernel": str(self), "why": self.why, "queries": queries}
            if queries
            else {}
        )

    def record(self, kernel: str, queries: int, why: str) -> None:
        """Record queries that were answered elsewhere, in place of this search."""
        self.why = self.why if self.ran else why
        self.ran[kernel] += queries

    def near_maxima(
        self,
        queries: FloatArray,
        keys: FloatArray,
        slack: FloatArray,
        seen: Seen = None,
    ) -> tuple[Sets, FloatArray | None]:
        """Return every key whose product with a query is within `slack` of the largest,
        and the gaps if NumPy ran.

        Queries (n, d), keys (m, d) and slack (n,) are floats; the hull of a plane takes
        coordinates to be at most 1 in size. `seen` is the number of keys that each
        query sees, from the first, or a mask (n, m) of them. Raises TooMany if the sets
        would take more memory than the tokens do; then pass fewer queries at a time.
        """
        name = self._choose(queries, keys, seen)
        if name == "numpy":
            sets, gaps = reference.near_maxima(queries, keys, slack, seen, MAX_MEMBERS)
            self.ran["numpy"] += len(queries)
            return sets, gaps if self.gaps else None
        queries, keys, slack = (
            np.ascontiguousarray(x, np.float64) for x in (queries, keys, slack)
        )
        sets = Sets(np.zeros(len(queries) + 1, np.intp), np.empty(0, np.intp))
        if name == "hull":
            if seen is None:
                from hardmax.search import hull

                sets = hull.near_maxima(queries, keys, slack)
            else:
                from hardmax.search import growing

                sets = growing.near_maxima(queries, keys, slack, seen)
        elif name == "symmetric" and seen is None and np.array_equal(queries, keys):
            from hardmax.search import symmetric

            sets = symmetric.near_maxima(keys, slack)
            self._is_clustered = bool(2 * np.count_nonzero(sets.sizes) < len(sets))
        left = np.flatnonzero(sets.sizes == 0)  # rows that a method has left out
        self.ran[name] += len(sets) - len(left)
        if len(left):
            some = left if len(left) < len(sets) else slice(None)
            visible = None if seen is None else seen[some]
            sets = sets.replace(
                left, self._scan(queries[some], keys, slack[some], visible, name)
            )
        return sets, None

    def _scan(
        self,
        queries: FloatArray,
        keys: FloatArray,
        slack: FloatArray,
        seen: Seen,
        name: str,
    ) -> Sets:
        """Run "scan", or NumPy if another kernel has left few rows and "scan" is not
        loaded.
        """
        numpy_pays = (
            self.kernel == "auto"
            and name != "scan"
            and not use_compiled("scan", len(queries) * len(keys))
        )
        if numpy_pays:
            self.ran["numpy"] += len(queries)
            return reference.near_maxima(queries, keys, slack, seen, MAX_MEMBERS)[0]
        from hardmax.search import scan

        self.ran["scan"] += len(queries)
        return scan.near_maxima(queries, keys, slack, seen)

    def _choose(self, queries: FloatArray, keys: FloatArray, seen: Seen) -> str:
        """Return the kernel to run: the one that is named, or the fastest for this
        shape that is worth loading.
        """
        products, d, limited = len(queries) * len(keys), keys.shape[1], seen is not None
        if seen is not None and seen.ndim == 2:
            self.why = "A mask needs all products."
            return "numpy"
        if self.kernel != "auto":
            return self._check_shape(d)
        if self.gaps and (limited or d > MAX_GAPS_D or products < MIN_GAPS):
            self.why = (
                "NumPy finds all products before compiled code has searched several"
                " times for gaps."
            )
            return "numpy"
        fastest = self._fastest(queries, keys, limited)
        for name in dict.fromkeys(
            [fastest, "scan"]
        ):  # "scan" may be loaded where the fastest is not
            compiled, why = explain_choice(
                "growing" if limited and name == "hull" else name, products
            )
            if (
                not self.ran or compiled
            ):  # the reason of the first layer, or of the first that was compiled
                self.why = why
            if compiled:
                return name
        count_numpy_work(fastest, products)
        return "numpy"

    def _fastest(self, queries: FloatArray, keys: FloatArray, limited: bool) -> str:
        n, d = keys.shape
        if d == 2 and (not limited or len(queries) * n >= MIN_PREFIXES):
            return "hull"
        if limited or d == 1:
            return "scan"
        if d >= MIN_SYMMETRIC_D and n * d >= MIN_SYMMETRIC and not self._is_clustered:
            return "symmetric"
        return "scan"

    def _check_shape(self, d: int) -> str:
        """Return the kernel that is named; raise an error where it does not fit."""
        if self.kernel == "hull" and d != 2:
            must = "have tokens in two dimensions"
            raise ParameterError(
                'kernel="hull"', must, f"d = {d}", 'Use `kernel="auto"`.'
            )
        return self.kernel


class BatchSearch(Search):
    """Find near-maxima in a batch of token sets, each among its own keys.

    Keys and queries are those of all token sets, one after another. Token sets are
    searched as one array (batch, n, d), the smaller ones filled up.

    Parameters
    ----------
    kernel : str
        "auto" or "scan".
    offsets : (batch + 1,) array
        Where the keys of each token set begin.
    causal : bool
        Whether a query sees the keys up to its own row alone.
    """

    def __init__(self, kernel: str, offsets: IntArray, causal: bool) -> None:
        super().__init__(kernel)
        self._offsets = offsets
        self._sizes = np.diff(offsets)
        self._owners = np.repeat(np.arange(len(self._sizes)), self._sizes)
        self._causal = causal
        self._is_compiled = kernel != "auto"
        if kernel == "auto":
            width = int(self._sizes.max())
            products = TYPICAL_LAYERS * products_of_batch(
                len(self._sizes), width, width
            )
            self._is_compiled, self.why = explain_choice("scan", products)
            count_numpy_work("scan", 0 if self._is_compiled else products)

    def near_maxima(
        self,
        queries: FloatArray,
        keys: FloatArray,
        slack: FloatArray,
        seen: Seen = None,
    ) -> tuple[Sets, FloatArray | None]:
        """Return near-maximal keys as `Search` does; `seen` is the row of each query,
        ascending, among whose keys it searches.
        """
        assert seen is not None
        rows = seen
        if len(rows) == len(keys) and (self._sizes == self._sizes[0]).all():
            return self._search_all(queries, keys, slack), None
        token_sets, owner = np.unique(self._owners[rows], return_inverse=True)
        sizes = self._sizes[token_sets]
        if self._causal:
            # Query i of an array sees the keys 0 to i.
            place = rows - self._offsets[token_sets][owner]
            width = int(sizes.max())
        else:
            counts = np.bincount(owner)
            begins = np.cumsum(counts) - counts
            place = np.arange(len(rows)) - begins[owner]
            width = int(counts.max())
        # Places without a query repeat the first one of their token set.
        chosen = np.empty((len(token_sets), width), np.intp)
        chosen[:] = np.searchsorted(owner, np.arange(len(token_sets)))[:, None]
        chosen[owner, place] = np.arange(len(rows))
        columns = np.arange(int(sizes.max()))
        is_key = columns < sizes[:, None]
        numbers = self._offsets[token_sets][:, None] + columns
        mask = None
        if not is_key.all():
            mask = is_key
            numbers = np.where(is_key, numbers, self._offsets[token_sets][:, None])
        found = self._search_arrays(queries[chosen], keys[numbers], slack[chosen], mask)
        mine = found.take(owner * width + place)
        first_keys = np.repeat(self._offsets[token_sets][owner], mine.sizes)
        return Sets(mine.starts, mine.members + first_keys), None

    def _search_all(
        self, queries: FloatArray, keys: FloatArray, slack: FloatArray
    ) -> Sets:
        """Search for all rows of token sets of one size: nothing has to be moved."""
        shape = len(self._sizes), int(self._sizes[0])
        found = self._search_arrays(
            queries.reshape(*shape, -1),
            keys.reshape(*shape, -1),
            slack.reshape(shape),
            None,
        )
        return found.flatten(shape[1], shape[1])

    def _search_arrays(
        self,
        queries: FloatArray,
        keys: FloatArray,
        slack: FloatArray,
        mask: BoolArray | None,
    ) -> Sets:
        """Search arrays (batch, w, d) and (batch, n, d), slack (batch, w)."""
        flat_slack = np.ascontiguousarray(slack.reshape(-1))
        if self._is_compiled:
            self.ran["scan"] += len(flat_slack)
            return search_batch(queries, keys, flat_slack, mask, self._causal)[0]
        self.ran["numpy"] += len(flat_slack)
        return reference.near_maxima_of_elements(
            queries, keys, flat_slack, mask, self._causal
        )


_shared: ContextVar[Search | None] = ContextVar("the search of a run", default=None)


@contextmanager
def share_search() -> Iterator[Search]:
    """Let all rules inside the block use one search, so that a run can report what ran
    and why.
    """
    search = Search()
    token = _shared.set(search)
    try:
        yield search
    finally:
        _shared.reset(token)


def current_search() -> Search:
    """Return the search of the run, or a new one outside of a run."""
    return _shared.get() or Search()
