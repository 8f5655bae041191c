"""`Limit`: where the tokens of one token set end, and how that is proved."""

from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._display import count, draw
from hardmax._errors import InputError, ParameterError
from hardmax._exact import format_up
from hardmax._types import AnyArray, Array, FloatArray, IntArray
from hardmax._validation import is_tensor, like, to_numpy
from hardmax.certificate import check_certificate, make_certificate, read_certificate
from hardmax.endpoints import Endpoints, weigh_leaders
from hardmax.polytope import Polytope
from hardmax.rules.hardmax import Hardmax
from hardmax.run import Proof, Record
from hardmax.search.dispatch import has_numba
from hardmax.trajectories import storage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "hardmax-limit-1"
# A radius in seconds: at most this many products, or tokens in the plane.
MAX_QUICK_PRODUCTS = 10**10
MAX_QUICK_TOKENS = 10**6
COMPARED = (
    "tokens",
    "certified",
    "layer",
    "leaders",
    "emerged",
    "clusters",
    "points",
    "pace",
    "proofs",
    "reason",
    "start",
)


class Limit:
    """Limits of the tokens of one token set, as `limit` returns them. It prints as a
    sentence.

    All attributes are computed from the record of one run when they are read. A limit
    can be pickled; `certificate` and `from_certificate` write and read it. Two are
    equal if all attributes but `stats` are.

    Parameters
    ----------
    record : Record
        What a run has found; `hm.limit` makes it.
    given : array or tensor, optional
        The tokens that came in: `tokens` has their type.

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
        Number of tokens that each proof decided.
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

    def __init__(self, record: Record, given: Array = None) -> None:
        self.record = record
        # Only dtype and device are needed; the input may be a whole batch.
        self._given = given.new_empty(0) if is_tensor(given) else None

    def __getstate__(self) -> dict[str, Any]:
        # Without what is computed again when it is read.
        return {"record": self.record, "_given": self._given}

    def __repr__(self) -> str:
        return self.status

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Limit):
            return NotImplemented
        pairs = ((getattr(self, name), getattr(other, name)) for name in COMPARED)
        return all(np.array_equal(to_numpy(a), to_numpy(b)) for a, b in pairs)

    def __hash__(self) -> int:
        return hash(self.clusters.tobytes())

    def _repr_html_(self) -> str:
        return str(draw("limit_card", self))

    def plot(self, **options: Any) -> "Figure":
        """Draw a line from every token to its limit; return the Matplotlib figure.

        `options` are those of `hardmax.draw.plot_limit`.
        """
        return draw("limit_figure", self, **options)

    @cached_property
    def _endpoints(self) -> Endpoints:
        return Endpoints.of(self.record)

    @property
    def _labels(self) -> IntArray:
        return self.record.classes.labels

    @cached_property
    def tokens(self) -> Array:
        """The limit of every token: (n, d)."""
        ends = self._endpoints
        if self.certified:
            found = ends.points[ends.place]
        else:
            assert self.record.tokens is not None
            found = self.record.tokens.copy()
            decided = ends.place >= 0
            found[decided] = ends.points[ends.place[decided]]
        return like(found[self._labels], self._given)

    @property
    def certified(self) -> bool:
        """Whether every limit is proved."""
        return self.record.is_certified

    @property
    def layer(self) -> int:
        """The layer at which the proof was complete, or the last one run."""
        return self.record.layer

    @property
    def leaders(self) -> IntArray:
        """Tokens that lead, the first of each set of equal ones."""
        return self.record.classes.first[self._endpoints.leaders]

    @property
    def emerged(self) -> IntArray:
        """The layer from which each leader leads."""
        return self.record.emerged[self._endpoints.leaders]

    @cached_property
    def clusters(self) -> IntArray:
        """Index in `points` of the limit of each token; -1 where undecided."""
        return self._endpoints.place[self._labels]

    @property
    def points(self) -> FloatArray:
        """The distinct limits, those of the leaders first: (n_points, d)."""
        return self._endpoints.points

    @cached_property
    def pace(self) -> float:
        """Upper bound of the distance that the next layer would move a token."""
        return 0.0 if self.certified else self.record.pace()

    @cached_property
    def proofs(self) -> dict[str, int]:
        """Number of tokens that each proof decided."""
        codes, numbers = np.unique(self.record.proof[self._labels], return_counts=True)
        pairs = zip(codes.tolist(), numbers.tolist(), strict=True)
        return {str(Proof(code)): number for code, number in pairs if code}

    @property
    def stats(self) -> dict[str, Any]:
        """Kernel and why, arithmetic, layers, queries, sets compared exactly."""
        return self.record.stats | {"layers": self.layer}

    @cached_property
    def start(self) -> FloatArray:
        """The tokens at layer 0, as floats: (n, d)."""
        return self.record.classes.rows[self._labels].astype(np.float64)

    @cached_property
    def reason(self) -> str:
        """Why there is no certificate; empty if there is one."""
        if self.certified:
            return ""
        if not self.record.rule.positive_definite:
            return (
                "A is not symmetric positive definite. A later layer need not have a"
                " certificate, unless A is close to symmetric, which is not tested."
            )
        layers = self.record.constant_layers()
        if layers and not self._is_covered():
            return (
                f"The argmax sets have not changed for {count(layers, 'layer')}, and no"
                " proof rule covers such sets: more layers may not help."
            )
        return "Raise `max_layers` to go on."

    def _is_covered(self) -> bool:
        """Return whether a proof may yet decide sets like these."""
        last = self.record.end
        _, cyclic = self.record.freeze(last, self.record.sets(last)).chain
        return not cyclic

    @cached_property
    def status(self) -> str:
        """State in a sentence whether the limit is proved, since which layer and by
        what; else what is known.
        """
        leaders = leaders_since(self.emerged)
        if self.certified:
            proofs = [
                f"{name} for {count(number, 'token')}"
                for name, number in self.proofs.items()
            ]
            points = count(len(self.points), "cluster point")
            by = ", ".join(proofs)
            return (
                f"Certified at layer {self.layer}. {leaders} {points}. Proved by {by}."
            )
        decided = int((self.clusters >= 0).sum())
        return (
            f"Not certified within {count(self.layer, 'layer')}. {leaders} {decided} of"
            f" {len(self.clusters)} tokens are decided; the next layer would move no"
            f" token by more than {format_up(self.pace, 2)}. {self.reason}"
        )

    @cached_property
    def radius(self) -> float:
        """Moving every input token by less than this changes no set at any layer.

        0 where tokens are tied or equal, and where they are so nearly tied that no
        bound was computed. Computed at the first access, from the recorded layers and
        the second best key of every query: n log n in the plane, and up to 16
        dimensions by log n searches of the usual kind; above, and without numba, all
        products are computed.
        """
        return self.record.radius()

    @cached_property
    def sparse_weights(self) -> "scipy.sparse.csr_array":
        """`weights` without the zeros, as a SciPy csr_array."""
        return weigh_leaders(self.record, self._endpoints)[self._labels]

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
        exact = np.array(self._endpoints.exact_points(), object)
        return exact.reshape(self.points.shape)

    def certificate(self) -> dict[str, Any]:
        """Return the proof as a document for JSON, which `hm.check_certificate` and a
        standalone program check.

        `hardmax/certificate.py` describes the format. An `InputError` where numbers are
        longer than the checkers accept.
        """
        if not self.certified:
            raise InputError(f"A certificate needs a certified limit. Got: {self}")
        return make_certificate(self.record, self._endpoints)

    @classmethod
    def from_certificate(cls, document: Any) -> "Limit":
        """Check a certificate and restore its limit."""
        report = check_certificate(document)
        if not report.accepted:
            raise ParameterError(
                "document", "be a certificate that proves its limits", report.reason
            )
        limit = cls(read_certificate(document))
        try:
            _ = limit.points, limit.start
        except OverflowError:
            raise ParameterError(
                "document", "have numbers in the range of floats", "larger ones"
            ) from None
        return limit

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write a table for spreadsheets to `path`: for each token its limit, the index
        of its point, if it leads.
        """
        numbers = np.arange(len(self.clusters))
        columns: dict[str, AnyArray] = {"token": numbers}
        columns |= storage.coordinate_columns(np.asarray(to_numpy(self.tokens)))
        columns["point"] = self.clusters
        columns["leads"] = np.isin(numbers, self.leaders)
        storage.write_rows(path, columns)

    def to_json(self) -> str:
        """Return status, limits, leaders, weights and proofs as JSON."""
        names = (
            *("status", "start", "certified", "layer", "tokens", "leaders", "emerged"),
            *("clusters", "points", "weights", "pace", "reason"),
        )
        data = {name: np.asarray(to_numpy(getattr(self, name))) for name in names}
        data["radius"] = np.asarray(quick_radius(self))
        about = {
            "rule": storage.rule_to_data(self.record.rule),
            "proofs": self.proofs,
            "stats": self.stats,
        }
        return storage.to_json(FORMAT, data | about)


def check_normalized(rule: Hardmax) -> None:
    """Raise an error for a rule under which tokens have no limit."""
    if not rule.normalize:
        got = (
            "`normalize=False`, where tokens grow by 1 + alpha per layer and have no"
            " limit"
        )
        advice = "Leaders and sets are the same with normalisation."
        raise ParameterError("rule", "have `normalize=True` for a limit", got, advice)


def leaders_since(emerged: IntArray) -> str:
    """State how many leaders there are, and since which layer."""
    if len(emerged) == 0:
        return "No leader."
    if len(emerged) == 1:
        return f"1 leader, since layer {emerged[0]}."
    last = emerged.max()
    if last:
        return f"{len(emerged)} leaders; the last one appeared at layer {last}."
    return f"{len(emerged)} leaders, all since layer 0."


def quick_radius(limit: Limit) -> float:
    """Return `limit.radius` where it takes seconds, else NaN: for files and reports."""
    n = len(limit.clusters)
    # Under a mask gaps need all products.
    is_quick = (
        limit.points.shape[1] == 2
        and has_numba()
        and n <= MAX_QUICK_TOKENS
        and not limit.record.is_masked
    )
    if is_quick or n * limit.stats["queries"] <= MAX_QUICK_PRODUCTS:
        return limit.radius
    return np.nan
