"""Where tokens end, as a result: points, weights, proofs, and how it is kept in files."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._arrays import to_numpy
from hardmax._drawers import draw
from hardmax._errors import InputError
from hardmax._rounding import format_up
from hardmax._types import AnyArray, Array, FloatArray, IntArray
from hardmax.exact.certificates import Point
from hardmax.polytope import Polytope
from hardmax.search.numba_cache import has_numba
from hardmax.trajectories.sentences import coordinates, count, leaders_since
from hardmax.trajectories.storage import coordinate_columns, to_json, write_archive, write_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from scipy.sparse import csr_array

QUICK, QUICK_IN_PLANE = 10**10, 10**6  # products that NumPy finds in seconds; tokens that a hull does
STORED = ("status", "certified", "layer", "tokens", "leaders", "emerged", "clusters", "points", "weights", "pace")


@dataclass(frozen=True, eq=False, repr=False)
class Limit:
    """Where tokens end, as `limit` returns it. It prints as a sentence.

    Attributes
    ----------
    tokens : (n, d) array
        The limit of every token, each coordinate rounded once from its exact value; where a token is undecided, its
        position at `layer`. Float64, or a torch tensor like the one that came in.
    certified : bool
        True when every limit is proved.
    layer : int
        The layer at which the proof was complete, or the last one run.
    leaders, emerged : (n_leaders,) arrays
        Tokens that lead, the first of each set of equal ones, and the layer from which each does.
    clusters : (n,) array
        Which point of `points` a token tends to; -1 where undecided. The leaders' points come first, in their order.
    points : (n_points, d) array
        The set S of distinct limits.
    pace : float
        How far the next layer would move an undecided token at most; 0 when certified.
    proofs : dict
        How many tokens each theorem or certificate decided.
    reason : str
        Why there is no certificate, if there is none.
    stats : dict
        What ran: kernel and why, arithmetic, layers, queries, sets compared exactly.

    Examples
    --------
    >>> import hardmax as hm
    >>> limit = hm.limit(hm.configuration("triangle"), hm.Hardmax(alpha=0.5))
    >>> limit.certified, limit.leaders.tolist(), limit.points.shape
    (True, [0, 1, 2], (3, 2))
    >>> limit.clusters[:5]
    array([0, 1, 2, 0, 0])
    >>> limit.exact()[1].tolist()
    [Fraction(1, 2), Fraction(-1, 2)]
    """

    tokens: Array
    certified: bool
    layer: int
    leaders: IntArray
    emerged: IntArray
    clusters: IntArray
    points: FloatArray
    pace: float
    proofs: dict[str, int]
    reason: str
    stats: dict[str, Any]
    _weights: Callable[[], "csr_array"]
    _exact: Callable[[], list[Point]]
    _radius: Callable[[], float]
    _start: Callable[[], FloatArray]

    def __repr__(self) -> str:
        return self.status

    def _repr_html_(self) -> str:
        return str(draw("limit_card", self))

    def plot(self, **options: Any) -> "Figure":
        """Draw from every token a line to its limit; returns the Matplotlib figure.

        `options` are those of `hardmax.draw.plot_limit`.
        """
        figure: Figure = draw("limit_figure", self, **options)
        return figure

    @cached_property
    def start(self) -> FloatArray:
        """The tokens at layer 0, as floats: (n, d)."""
        return self._start()

    @cached_property
    def status(self) -> str:
        """Whether the limit is proved, since when and by what, as a sentence; else what is known."""
        leaders = leaders_since(self.emerged)
        if self.certified:
            by = ", ".join(f"{name} for {count(number, 'token')}" for name, number in self.proofs.items())
            points = count(len(self.points), "cluster point")
            return f"Certified at layer {self.layer}. {leaders} {points}. Proved by {by}."
        known = f"{int((self.clusters >= 0).sum())} of {len(self.clusters)} tokens are decided"
        return (
            f"Not certified within {count(self.layer, 'layer')}. {leaders} {known}; "
            f"the next layer would move no token by more than {format_up(self.pace, 2)}. {self.reason}"
        )

    @cached_property
    def radius(self) -> float:
        """Moving every input token by less than this changes no set at any layer.

        0 where tokens are tied or equal, and where they are so nearly tied that no bound was computed. Found when first
        asked for, by a second run that also looks for the second best key of every query: n log n in the plane, and
        up to 16 dimensions by log n searches of the usual kind; above, and without numba, all products are computed.
        """
        return self._radius()

    @cached_property
    def sparse_weights(self) -> "csr_array":
        """`weights` without the zeros, as a SciPy csr_array."""
        return self._weights()

    @cached_property
    def weights(self) -> FloatArray:
        """Every limit as a convex combination of leaders: (n, n_leaders).

        A row is NaN where the token is undecided, or where its limit is no such combination, which only an A outside
        the hypotheses allows.
        """
        dense = np.asarray(self.sparse_weights.toarray())
        dense[self.sparse_weights.sum(axis=1) == 0] = np.nan
        return dense

    @cached_property
    def polytope(self) -> Polytope:
        """K, the convex hull of the leaders: a `Polytope`. An `InputError` where none leads, outside the hypotheses."""
        if not len(self.leaders):
            raise InputError("A polytope needs at least one leader. Got none: `A` is outside the theorems' hypotheses.")
        return Polytope(self.points[: len(self.leaders)])

    def exact(self) -> AnyArray:
        """The limits as an (n, d) array of Fractions, without any rounding.

        Raises
        ------
        InputError
            If the limit is not certified.
        """
        if not self.certified:
            raise InputError(f"Exact limits need a certificate. Got: {self.status} Raise `max_layers`.")
        return np.asarray(self.exact_points[self.clusters])

    @cached_property
    def exact_points(self) -> AnyArray:
        """`points` as Fractions."""
        exact = self._exact()
        if len(exact) != len(self.points):
            raise InputError(f"Exact points need exact ties. Got: {self.status}")
        return np.array(exact, object).reshape(self.points.shape)

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write the arrays above to a NumPy archive at `path`, whole or not at all; `numpy.load` reads it."""
        write_archive(path, self._arrays())

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write a table for spreadsheets to `path`: for each token its limit, the number of its point, who leads."""
        numbers = np.arange(len(self.clusters))
        columns = {"token": numbers} | coordinate_columns(np.asarray(to_numpy(self.tokens)))
        write_rows(path, columns | {"point": self.clusters, "leads": np.isin(numbers, self.leaders)})

    def to_json(self) -> str:
        """Everything above as JSON."""
        return to_json(self._arrays() | {"proofs": self.proofs, "stats": self.stats})

    def _arrays(self) -> dict[str, AnyArray]:
        """What files hold; the radius is NaN where it would take minutes."""
        fields = {name: np.asarray(to_numpy(getattr(self, name))) for name in (*STORED, "reason")}
        return fields | {"radius": np.asarray(quick_radius(self))}


def limit_points(limit: Limit, most: int) -> list[tuple[str, str, str, str]]:
    """Rows of a table of the set S: the point, what it is, since which layer, how many tokens end there."""
    rows = []
    for p, point in enumerate(limit.points[:most]):
        tokens = np.flatnonzero(limit.clusters == p)
        if p < len(limit.leaders):
            what, since = f"leader {limit.leaders[p]}", str(limit.emerged[p])
        else:
            weights = limit.weights[tokens[0]]
            terms = [f"{w:.3g} x leader {i}" for w, i in zip(weights, limit.leaders, strict=True) if w > 0]
            what, since = " + ".join(terms) or "no combination of leaders", ""
        rows.append((coordinates(point), what, since, str(len(tokens))))
    if len(limit.points) > most:
        rows.append(("...", f"and {len(limit.points) - most} more", "", ""))
    if (limit.clusters < 0).any():
        rows.append(("", "undecided", "", str(int((limit.clusters < 0).sum()))))
    return rows


def quick_radius(limit: Limit) -> float:
    """`limit.radius` where it takes seconds, else NaN: for files and reports, which nobody wants to wait for."""
    in_plane = limit.points.shape[1] == 2 and has_numba() and len(limit.clusters) <= QUICK_IN_PLANE
    return limit.radius if in_plane or len(limit.clusters) * limit.stats["queries"] <= QUICK else np.nan
