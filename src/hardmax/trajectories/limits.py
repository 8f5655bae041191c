"""`Limit`: where tokens end and how that is proved, and its files."""

from collections import Counter
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._display import count, draw
from hardmax._errors import InputError, ParameterError
from hardmax._exact import format_up
from hardmax._types import AnyArray, Array, FloatArray, IntArray
from hardmax._validation import to_numpy
from hardmax.certificate import any_digits, check_certificate, make_certificate
from hardmax.exact.certificates import Point
from hardmax.exact.run import LimitSet
from hardmax.polytope import Polytope
from hardmax.search.dispatch import has_numba
from hardmax.trajectories import storage
from hardmax.trajectories.hardmax import leaders_since

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "hardmax-limit-1"
MAX_QUICK_PRODUCTS, MAX_QUICK_TOKENS = (
    10**10,
    10**6,
)  # for a radius in seconds: products, and tokens in the plane
WRITTEN = (
    "status",
    "certified",
    "layer",
    "tokens",
    "leaders",
    "emerged",
    "clusters",
    "points",
    "weights",
    "pace",
)
AGAIN = "Run hm.limit again."


class Comparable:
    """A dataclass that prints its status, and is equal to another one if all compared
    fields are.
    """

    clusters: IntArray

    def __repr__(self: Any) -> str:
        return str(self.status)

    def __eq__(self: Any, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        names = [item.name for item in fields(self) if item.compare]
        return all(
            np.array_equal(*(to_numpy(getattr(one, name)) for one in (self, other)))
            for name in names
        )

    def __hash__(self) -> int:
        return hash(self.clusters.tobytes())


@dataclass(frozen=True)
class _StoredLimit:
    """Weights and points as a certificate has them; takes the place of a `LimitSet`."""

    stored_weights: FloatArray
    points: list[Point]

    def weights(self) -> "scipy.sparse.csr_array":
        return scipy.sparse.csr_array(self.stored_weights)

    def radius(self) -> float:
        raise InputError(f"`radius` is not in a certificate. {AGAIN}")

    def exact_points(self) -> list[Point]:
        return self.points


@dataclass(frozen=True, eq=False, repr=False)
class Limit(Comparable):
    """Limits of the tokens of one token set, as `limit` returns them. It prints as a
    sentence.

    It can be pickled, and two of them are equal if all attributes but `stats` are.

    Attributes
    ----------
    tokens : (n, d) array
        The limit of every token, each coordinate rounded once from its exact value;
        where a token is undecided, its position at `layer`. Float64, or a torch tensor
        like the one that came in.
    certified : bool
        True when every limit is proved.
    layer : int
        The layer at which the proof was complete, or the last one run.
    leaders, emerged : (n_leaders,) arrays
        Tokens that lead, the first of each set of equal ones, and the layer from which
        each does.
    clusters : (n,) array
        Index in `points` of the limit of each token; -1 where undecided. The points of
        the leaders come first.
    points : (n_points, d) array
        The set S of distinct limits.
    pace : float
        Upper bound of the Euclidean distance by which the next layer would move a
        token; 0 when certified.
    proofs : dict
        Number of tokens that each theorem or certificate decided.
    reason : str
        Why there is no certificate, if there is none.
    stats : dict
        Kernel and why, arithmetic, layers, queries, sets compared exactly.
    start : (n, d) array
        The tokens at layer 0, as floats.

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
    stats: dict[str, Any] = field(compare=False)
    start: FloatArray
    _limit_set: LimitSet | _StoredLimit = field(compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {
            item.name: getattr(self, item.name) for item in fields(self)
        }  # without cached results

    def _repr_html_(self) -> str:
        return str(draw("limit_card", self))

    def plot(self, **options: Any) -> "Figure":
        """Draw a line from every token to its limit; return the Matplotlib figure.

        `options` are those of `hardmax.draw.plot_limit`.
        """
        return draw("limit_figure", self, **options)

    @cached_property
    def status(self) -> str:
        """State in a sentence whether the limit is proved, since which layer and by
        what; else what is known.
        """
        leaders = leaders_since(self.emerged)
        if self.certified:
            by = ", ".join(
                f"{name} for {count(number, 'token')}"
                for name, number in self.proofs.items()
            )
            points = count(len(self.points), "cluster point")
            return (
                f"Certified at layer {self.layer}. {leaders} {points}. Proved by {by}."
            )
        known = (
            f"{int((self.clusters >= 0).sum())} of {len(self.clusters)} tokens are"
            " decided"
        )
        return (
            f"Not certified within {count(self.layer, 'layer')}. {leaders} {known}; the"
            f" next layer would move no token by more than {format_up(self.pace, 2)}."
            f" {self.reason}"
        )

    @cached_property
    def radius(self) -> float:
        """Moving every input token by less than this changes no set at any layer.

        0 where tokens are tied or equal, and where they are so nearly tied that no
        bound was computed. Computed at the first access, by a second run that also
        finds the second best key of every query: n log n in the plane, and up to 16
        dimensions by log n searches of the usual kind; above, and without numba, all
        products are computed.
        """
        return self._limit_set.radius()

    @cached_property
    def sparse_weights(self) -> "scipy.sparse.csr_array":
        """`weights` without the zeros, as a SciPy csr_array."""
        return self._limit_set.weights()

    @cached_property
    def weights(self) -> FloatArray:
        """Weights of every limit as a convex combination of leaders: (n, n_leaders).

        A row is NaN where the token is undecided, or where its limit is no such
        combination, which only an A outside the hypotheses allows.
        """
        dense = np.asarray(self.sparse_weights.toarray())
        dense[self.sparse_weights.sum(axis=1) == 0] = np.nan
        return dense

    @cached_property
    def polytope(self) -> Polytope:
        """K, the convex hull of the leaders: a `Polytope`. An `InputError` where none
        leads, outside the hypotheses.
        """
        if not len(self.leaders):
            raise InputError(
                "A polytope needs at least one leader. Got none: `A` is outside the"
                " theorems' hypotheses."
            )
        return Polytope(self.points[: len(self.leaders)])

    def exact(self) -> AnyArray:
        """The limits as an (n, d) array of Fractions, without any rounding."""
        if not self.certified:
            raise InputError(f"Exact limits need a certificate. Got: {self.status}")
        return np.asarray(self.exact_points[self.clusters])

    @cached_property
    def exact_points(self) -> AnyArray:
        """`points` as Fractions."""
        return np.array(self._limit_set.exact_points(), object).reshape(
            self.points.shape
        )

    @property
    def has_certificate(self) -> bool:
        """Whether `certificate` returns one: the limit is certified, and does not come
        from a certificate.
        """
        return self.certified and isinstance(self._limit_set, LimitSet)

    def certificate(self) -> dict[str, Any]:
        """Return the proof as a document for JSON, which `hm.check_certificate` and a
        standalone program check.

        The layers are run again to record their sets. `hardmax/certificate.py`
        describes the format. An `InputError` where numbers are longer than the checkers
        accept.
        """
        if not self.has_certificate:
            got = "A limit from a certificate" if self.certified else self.status
            raise InputError(
                f"A certificate needs the certified limit of a run. Got: {got} {AGAIN}"
            )
        assert isinstance(self._limit_set, LimitSet)
        return make_certificate(self._limit_set)

    @classmethod
    def from_certificate(cls, document: Any) -> "Limit":
        """Check a certificate and restore its limit. `radius` raises an `InputError`:
        run `hm.limit` for it.
        """
        report = check_certificate(document)
        if not report.accepted:
            raise ParameterError(
                "document", "be a certificate that proves its limits", report.reason
            )
        try:
            return _restore_limit(document, report.emerged)
        except OverflowError:
            raise ParameterError(
                "document", "have numbers in the range of floats", "larger ones"
            ) from None

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write a table for spreadsheets to `path`: for each token its limit, the index
        of its point, if it leads.
        """
        numbers = np.arange(len(self.clusters))
        columns = {"token": numbers} | storage.coordinate_columns(
            np.asarray(to_numpy(self.tokens))
        )
        storage.write_rows(
            path,
            columns | {"point": self.clusters, "leads": np.isin(numbers, self.leaders)},
        )

    def to_json(self) -> str:
        """Return the arrays above, `start`, the rule, `proofs` and `stats` as JSON."""
        rule = {"rule": self._rule_data(), "start": self.start}
        return storage.to_json(
            FORMAT,
            self._arrays() | rule | {"proofs": self.proofs, "stats": self.stats},
        )

    def _rule_data(self) -> dict[str, Any] | None:
        """Return the rule as plain data; None if the limit is of a certificate."""
        if isinstance(self._limit_set, _StoredLimit):
            return None
        return storage.rule_to_data(self._limit_set.rule)

    def _arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of files; the radius is NaN where it would take minutes."""
        arrays = {
            name: np.asarray(to_numpy(getattr(self, name)))
            for name in (*WRITTEN, "reason")
        }
        return arrays | {"radius": np.asarray(quick_radius(self))}


@any_digits()
def _restore_limit(document: dict[str, Any], emerged: tuple[int, ...]) -> Limit:
    labels = np.array(
        range(len(document["tokens"]))
        if document["labels"] is None
        else document["labels"]
    )
    points = [tuple(map(Fraction, row)) for row in document["points"]]
    clusters, floats = (
        np.array(document["limits"])[labels],
        np.array([list(map(float, row)) for row in points]),
    )
    column = {row: c for c, row in enumerate(document["leaders"])}
    weights = np.zeros((len(labels), len(column)))
    for token, row in enumerate(labels.tolist()):
        for leader, weight in document["weights"][row] or []:
            weights[token, column[leader]] = float(Fraction(weight))
    return Limit(
        tokens=floats[clusters],
        certified=True,
        layer=document["layer"],
        leaders=np.array([int(np.flatnonzero(labels == row)[0]) for row in column]),
        emerged=np.array(emerged),
        clusters=clusters,
        points=floats,
        pace=0.0,
        proofs=dict(Counter(document["proofs"][row][0] for row in labels.tolist())),
        reason="",
        stats={"layers": document["layer"]},
        start=np.array(
            [[float(Fraction(x)) for x in row] for row in document["tokens"]]
        )[labels],
        _limit_set=_StoredLimit(weights, points),
    )


def quick_radius(limit: Limit) -> float:
    """Return `limit.radius` where it takes seconds, else NaN: for files and reports."""
    if isinstance(limit._limit_set, _StoredLimit):
        return np.nan
    in_plane = (
        limit.points.shape[1] == 2
        and has_numba()
        and len(limit.clusters) <= MAX_QUICK_TOKENS
    )
    in_plane = in_plane and "C1" not in limit.proofs  # there gaps need all products
    return (
        limit.radius
        if in_plane
        or len(limit.clusters) * limit.stats["queries"] <= MAX_QUICK_PRODUCTS
        else np.nan
    )
