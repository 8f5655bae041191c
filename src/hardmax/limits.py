"""Where every token ends, proved at a finite layer.

The run goes on until each token is decided by Theorem 1 or 4, or until T or chain (`certificates.py`) settles the rest.
Then the limit is known exactly: leaders stand still, and every other token tends to a convex combination of leaders.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from hardmax import _checks
from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._tensors import like
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.engine.certificates import Frozen, Point, certify
from hardmax.engine.limit_set import Ends
from hardmax.engine.run import Proof, Run
from hardmax.kernels import check_kernel
from hardmax.polytope import Polytope
from hardmax.rules.hardmax import Hardmax
from hardmax.trajectories.sentences import limit_status

QUICK = 10**10  # products that NumPy finds in seconds


@dataclass(frozen=True, eq=False, repr=False)
class Limit:
    """Where tokens end.

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
    """

    tokens: Any
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
    sparse_weights: Any
    _ends: Ends
    _radius: Callable[[], float]

    def __repr__(self) -> str:
        return self.status

    @cached_property
    def status(self) -> str:
        """Whether the limit is proved, since when and by what, as a sentence; else what is known."""
        return limit_status(self)

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
        """K, the convex hull of the leaders."""
        if not len(self.leaders):
            raise ValueError("A polytope needs at least one leader. Got none: A is outside the theorems' hypotheses.")
        return Polytope(self.points[: len(self.leaders)])

    def exact(self) -> AnyArray:
        """The limits as an (n, d) array of Fractions, without any rounding."""
        if not self.certified:
            raise ValueError(f"Exact limits need a certificate. Got: {self.status} Raise `max_layers`.")
        return np.asarray(self.exact_points[self.clusters])

    @cached_property
    def exact_points(self) -> AnyArray:
        """`points` as Fractions."""
        exact = self._ends.exact_points()
        if len(exact) != len(self.points):
            raise ValueError(f"Exact points need exact ties. Got: {self.status}")
        points = np.empty(self.points.shape, object)
        points[:] = exact
        return points

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write the arrays above to a NumPy archive, whole or not at all; `numpy.load` reads it."""
        from hardmax.trajectories.storage import save_limit

        save_limit(self, path)

    def to_json(self) -> str:
        """Everything above as JSON."""
        from hardmax.trajectories.storage import limit_json

        return limit_json(self)


def limit(
    tokens: Any,
    rule: Hardmax,
    *,
    max_layers: int = 1000,
    kernel: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Limit:
    """Find where every token ends, with a proof.

    Parameters
    ----------
    tokens : (n, d) array
    rule : Hardmax
        With `normalize=True`; without normalisation tokens grow for ever.
    max_layers : int
        Give up after this many layers; the answer then says what is known.
    kernel : str
        How the largest products are found, with the same sets: see `simulate`.
    progress : callable, optional
        Called with (tokens decided, tokens in all) after each layer.

    Returns
    -------
    Limit

    Raises
    ------
    ValueError, TypeError
        On input without a meaning.

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
    run = rule.start(array, kernel=check_kernel(kernel))
    found: dict[int, Point] = {}
    before, next_try = None, 0
    while True:
        sets = run.choose()
        if progress is not None:
            progress(int(run.classes.counts[run.decided].sum()), len(array))
        if run.decided.all():
            break
        if before is not None and sets == before and run.layer >= next_try and run.state.history is not None:
            found = _settle_the_rest(run, rule)
            next_try = run.layer + 1 + run.layer // 8
            if found:
                break
        if run.layer == max_layers:
            break
        run.advance()
        before = sets
    return _assemble(run, rule, found, tokens)


def _check_input(tokens: Any, rule: Hardmax) -> AnyArray:
    if not isinstance(rule, Hardmax):
        raise ParameterTypeError(
            "rule",
            "be a hm.Hardmax, whose limits are proved",
            type(rule).__name__,
            "For other rules use hm.simulate, and hm.classify for self-attention.",
        )
    if not rule.normalize:
        raise ParameterError(
            "limit",
            "have normalize=True",
            "normalize=False, where tokens grow by 1 + alpha a layer and have no limit",
            "Leaders and sets are the same with normalisation.",
        )
    if rule.causal:
        raise ParameterError(
            "limit",
            "have causal=False: no theorem covers a causal mask",
            "causal=True",
            "Use hm.simulate with many layers.",
        )
    array, _ = _checks.check_tokens(tokens)
    if array.ndim == 3:
        raise ValueError(
            f"`limit` takes one cloud of shape (n, d). Got a batch of shape {array.shape}. "
            "Use [hm.limit(cloud, rule) for cloud in tokens]."
        )
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


def _assemble(run: Run, rule: Hardmax, found: dict[int, Point], given: Any) -> Limit:
    """Turn a finished run over classes into the limit of every token."""
    ends = Ends.of(run, found)
    classes, labels = run.classes, run.classes.labels
    ends_at = run.tokens
    ends_at[ends.place >= 0] = ends.points[ends.place[ends.place >= 0]]
    certified = bool(run.decided.all())
    codes, numbers = np.unique(run.proof[labels], return_counts=True)
    return Limit(
        tokens=like(ends_at[labels], given),
        certified=certified,
        layer=run.layer,
        leaders=classes.first[ends.leaders],
        emerged=run.emerged[ends.leaders],
        clusters=ends.place[labels],
        points=ends.points,
        pace=0.0 if certified else run.pace,
        proofs={str(Proof(code)): int(number) for code, number in zip(codes, numbers, strict=True) if code},
        reason="" if certified else _reason(rule),
        stats={
            "kernel": run.state.kernel,
            "arithmetic": type(run.state).__name__.lower(),
            "layers": run.layer,
            "queries": run.queries,
            "sets_compared_exactly": run.state.exact_rows,
        },
        sparse_weights=ends.weights(run)[labels],
        _ends=ends,
        _radius=(lambda: _radius(run, rule)) if certified and classes.distinct and not found else (lambda: 0.0),
    )


def quick_radius(limit: Limit) -> float:
    """`limit.radius` where it takes seconds, else NaN: for files and reports, which nobody wants to wait for."""
    return limit.radius if len(limit.clusters) * limit.stats["queries"] <= QUICK else np.nan


def _radius(run: Run, rule: Hardmax) -> float:
    """Go through the layers again, with the gaps."""
    again = rule.start(run.classes.rows, gaps=True)
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
