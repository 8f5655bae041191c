"""Where every token ends, proved at a finite layer.

The run goes on until each token is decided by Theorem 1 or 4, or until T or chain (`certificates.py`) settles the rest.
Then the limit is known exactly: leaders stand still, and every other token tends to a convex combination of leaders.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from hardmax import _checks
from hardmax._drawers import draw
from hardmax._errors import InputError, ParameterError, ParameterTypeError
from hardmax._tensors import like, to_numpy
from hardmax._types import AnyArray, Array, FloatArray, IntArray, Progress
from hardmax.engine.certificates import Frozen, Point, certify
from hardmax.engine.limit_set import LimitSet
from hardmax.engine.run import Proof, Run
from hardmax.kernels import check_kernel
from hardmax.polytope import Polytope
from hardmax.rules.hardmax import Hardmax
from hardmax.trajectories.sentences import coordinates, count, leaders_since
from hardmax.trajectories.storage import coordinate_columns, to_json, write_archive, write_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK = 10**10  # products that NumPy finds in seconds
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
        What ran: kernel, arithmetic, layers, queries, sets compared exactly.
    sparse_weights : (n, n_leaders) csr_array
        `weights` without the zeros.

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
    sparse_weights: csr_array
    _limit_set: LimitSet
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
            f"the next layer would move no token by more than {self.pace:.2g}. {self.reason}"
        )

    @cached_property
    def radius(self) -> float:
        """Moving every input token by less than this changes no set at any layer.

        0 where tokens are tied or equal, and where they are so nearly tied that no bound was computed. Found when first
        asked for, by a second run that compares every query with every key: quadratic in n, whatever the kernel.
        """
        return self._radius()

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
        exact = self._limit_set.exact_points()
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


def limit(
    tokens: Array, rule: Hardmax, *, max_layers: int = 1000, kernel: str = "auto", progress: Progress | None = None
) -> Limit:
    """Find where every token ends, with a proof.

    Parameters
    ----------
    tokens : (n, d) array
        Floats, integers or Fractions; a torch tensor gives tensors back.
    rule : Hardmax
        With `normalize=True`, as without normalisation tokens grow for ever; and without a causal mask.
    max_layers : int
        Give up after this many layers; the answer then says what is known.
    kernel : str
        How the largest products are found, with the same sets: see `simulate`.
    progress : callable, optional
        Called with (tokens decided, tokens in all) after each layer.

    Returns
    -------
    Limit
        Every token's end, with what proves it. Where the layers were too few, `certified` is False and `reason` says
        why.

    Raises
    ------
    ParameterError
        If `tokens` are not one cloud of finite numbers that fits `A`, or if `rule` has `normalize=False` or
        `causal=True`.
    ParameterTypeError
        If `rule` is not a `Hardmax`.
    MissingExtra
        If `kernel` or `exact=True` needs a package that is not installed.

    Examples
    --------
    >>> import hardmax as hm
    >>> square = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0], [-0.5, 0]]
    >>> limit = hm.limit(square, hm.Hardmax(alpha=0.5))
    >>> limit
    Certified at layer 0. 4 leaders, all since layer 0. 6 cluster points. Proved by
    Theorem 1 for 4 tokens, Theorem 4 for 2 tokens.
    >>> limit.tokens[4:]
    array([[ 1., 0.],
           [-1., 0.]])
    >>> limit.weights[4]
    array([0.5, 0.5, 0. , 0. ])
    """
    array = _check_input(tokens, rule)
    max_layers = _checks.check_count(max_layers, "max_layers", least=0)
    run = Run(rule, array, kernel=check_kernel(kernel))
    before, next_try, found = None, 0, dict[int, Point]()
    while True:
        sets = run.choose()
        if progress is not None:
            progress(int(run.classes.counts[run.decided].sum()), len(array))
        if run.decided.all():
            break
        if sets == before and run.layer >= next_try:
            found = _settle_the_rest(run, rule)
            next_try = run.layer + 1 + run.layer // 8
            if found:
                break
        if run.layer == max_layers:
            break
        run.advance()
        before = sets
    return _assemble(run, rule, found, tokens)


def _check_input(tokens: Array, rule: Hardmax) -> AnyArray:
    if not isinstance(rule, Hardmax):
        advice = "For other rules use hm.simulate, and hm.classify for self-attention."
        raise ParameterTypeError("rule", "be a hm.Hardmax, whose limits are proved", type(rule).__name__, advice)
    if not rule.normalize:
        got = "`normalize=False`, where tokens grow by 1 + alpha a layer and have no limit"
        advice = "Leaders and sets are the same with normalisation."
        raise ParameterError("rule", "have `normalize=True` for a limit", got, advice)
    if rule.causal:
        must = "have `causal=False` for a limit: no theorem covers a causal mask"
        raise ParameterError("rule", must, "`causal=True`", "Use hm.simulate with many layers.")
    array = _checks.check_cloud(tokens, "Use [hm.limit(cloud, rule) for cloud in tokens].")
    rule.check(array)
    return array


def _settle_the_rest(run: Run, rule: Hardmax) -> dict[int, Point]:
    """Try T and chain on the exact picture of this layer; mark what they prove, and return those limits."""
    history, sets = run.state.history, run.sets
    if history is None or run.layer < len(rule.steps) - 1:  # alpha must be constant from here on
        return {}
    undecided = np.flatnonzero(~run.decided).tolist()
    if (sets.sizes[undecided] == 1).all():  # then the frozen picture ends at leaders, which is Theorem 1's to see
        return {}
    positions = history.at(run.layer, range(len(run.classes)))
    proved = certify(Frozen(positions, sets, run.classes.counts, undecided, rule.step(run.layer), rule.metric.rows))
    if proved is None:
        return {}
    proof, limits = proved
    D = history.denominator(run.layer)
    run.settle(np.array(undecided), proof)
    return {i: tuple(x / D for x in point) for i, point in limits.items()}


def _assemble(run: Run, rule: Hardmax, found: dict[int, Point], given: Array) -> Limit:
    """Turn a finished run over classes into the limit of every token."""
    limit_set, classes, labels = LimitSet.of(run, found), run.classes, run.classes.labels
    place, tokens = limit_set.place, run.tokens
    tokens[place >= 0] = limit_set.points[place[place >= 0]]
    certified = bool(run.decided.all())
    codes, numbers = np.unique(run.proof[labels], return_counts=True)
    return Limit(
        tokens=like(tokens[labels], given),
        certified=certified,
        layer=run.layer,
        leaders=classes.first[limit_set.leaders],
        emerged=run.emerged[limit_set.leaders],
        clusters=place[labels],
        points=limit_set.points,
        pace=0.0 if certified else run.pace,
        proofs={str(Proof(code)): int(number) for code, number in zip(codes, numbers, strict=True) if code},
        reason="" if certified else _reason(rule),
        stats=run.stats,
        sparse_weights=limit_set.weights(run)[labels],
        _limit_set=limit_set,
        _start=lambda: classes.rows[labels].astype(np.float64),
        _radius=(lambda: _radius(run, rule)) if certified and classes.distinct and not found else (lambda: 0.0),
    )


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
    return limit.radius if len(limit.clusters) * limit.stats["queries"] <= QUICK else np.nan


def _radius(run: Run, rule: Hardmax) -> float:
    """Go through the layers again, with the gaps."""
    again = Run(rule, run.classes.rows, gaps=True)
    again.choose()
    while again.layer < run.layer:
        again.advance()
        again.choose()
    return again.state.radius(again.smallest_gap)


def _reason(rule: Hardmax) -> str:
    if rule.ties != "exact":
        return 'A tolerance treats near-ties as ties, and no theorem covers that; use `ties="exact"`.'
    if not rule.positive_definite:
        return "A is not symmetric positive definite, so no theorem promises a certificate."
    return "Raise `max_layers` to go on."
