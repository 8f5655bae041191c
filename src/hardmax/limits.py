"""Where every token ends, proved at a finite layer.

The run goes on until each token is decided by Theorem 1 or 4, or until T or chain (`certificates.py`) settles the rest.
Then the limit is known exactly: leaders stand still, and every other token tends to a convex combination of leaders.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from hardmax import _checks, exact, kernels
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.certificates import Frozen, Point, certify
from hardmax.polytope import Polytope
from hardmax.rules.hardmax import Hardmax
from hardmax.run import Run
from hardmax.sentences import limit_status

PROOFS = {1: "Theorem 1", 4: "Theorem 4", 5: "T", 6: "chain"}


@dataclass(frozen=True, eq=False, repr=False)
class Limit:
    """Where tokens end.

    Attributes
    ----------
    tokens : (n, d) array
        The limit of every token, each coordinate rounded once from its exact value; where a token is undecided, its
        position at `layer`.
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
    radius : float
        Moving every input token by less than this changes no set at any layer; 0 where a tie makes it so.
    """

    tokens: FloatArray
    certified: bool
    layer: int
    leaders: IntArray
    emerged: IntArray
    clusters: IntArray
    points: FloatArray
    radius: float
    proofs: dict[str, int]
    reason: str
    stats: dict[str, Any]
    status: str = field(default="")
    sparse_weights: Any = None  # (n, n_leaders) csr_array
    _exact_points: Callable[[], list[Point]] = list

    def __repr__(self) -> str:
        return self.status

    @cached_property
    def weights(self) -> FloatArray:
        """Every limit as a convex combination of leaders: (n, n_leaders), rows of NaN where undecided."""
        dense = np.asarray(self.sparse_weights.toarray())
        dense[self.clusters < 0] = np.nan
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
        points = np.empty(self.points.shape, object)
        points[:] = self._exact_points()
        return points[self.clusters]


def limit(
    tokens: Any,
    rule: Hardmax,
    *,
    max_layers: int = 1000,
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
    Certified at layer 0. 4 leaders, the last since layer 0. 6 cluster points. Tokens proved: Theorem 1 4, Theorem 4 2.
    >>> limit.tokens[4:]
    array([[ 1., 0.],
           [-1., 0.]])
    >>> limit.weights[4]
    array([0.5, 0.5, 0. , 0. ])
    """
    array = _check_input(tokens, rule)
    max_layers = _checks.check_count(max_layers, "max_layers", least=0)
    run = rule.start(array)
    found: dict[int, Point] = {}
    before, next_try, moved = None, 0, float("nan")
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
        start = run.state.tokens
        run.advance()
        moved, before = float(np.abs(run.state.tokens - start).max()), sets
    return _assemble(run, rule, found, moved)


def _check_input(tokens: Any, rule: Hardmax) -> AnyArray:
    if not isinstance(rule, Hardmax):
        raise TypeError(f"`rule` must be a rule such as hm.Hardmax(alpha=0.5). Got {type(rule).__name__}.")
    if not rule.normalize:
        raise ValueError(
            "`limit` must have normalize=True. Got normalize=False, where tokens grow by 1 + alpha a layer and have no "
            "limit. Leaders and sets are the same with normalisation."
        )
    array = _checks.check_tokens(tokens)
    if array.ndim == 3:
        raise ValueError(
            f"`limit` takes one cloud of shape (n, d). Got a batch of shape {array.shape}. "
            "Use [hm.limit(cloud, rule) for cloud in tokens]."
        )
    return array


def _settle_the_rest(run: Run, rule: Hardmax) -> dict[int, Point]:
    """Try T and chain on the exact picture of this layer; mark what they prove, and return those limits."""
    history, sets = run.state.history, run.sets
    if history is None or sets is None or run.layer < len(rule.steps) - 1:  # alpha must be constant from here on
        return {}
    A = None if rule.matrix is None else exact.over_one_denominator(rule.matrix)[0]
    undecided = np.flatnonzero(~run.decided).tolist()
    positions = history.at(run.layer, range(len(run.classes)))
    leads = run.emerged >= 0
    proved = certify(Frozen(positions, sets, run.classes.counts, leads, undecided, rule.step(run.layer), A))
    if proved is None:
        return {}
    name, limits = proved
    D = history.denominator(run.layer)
    run.settled[undecided] = run.layer
    run.theorem[undecided] = next(code for code, proof in PROOFS.items() if proof == name)
    return {i: tuple(x / D for x in point) for i, point in limits.items()}


def _assemble(run: Run, rule: Hardmax, found: dict[int, Point], moved: float) -> Limit:
    """Turn a finished run over classes into the limit of every token."""
    assert run.sets is not None
    classes, labels, counts = run.classes, run.classes.labels, run.classes.counts
    history, layer = run.state.history, run.layer
    by_index = np.flatnonzero(run.emerged >= 0)
    by_index = by_index[np.argsort(classes.first[by_index])]  # leaders in the order of their tokens
    if history is not None:
        D = history.denominator(layer)
        rows = history.at(layer, by_index.tolist())
        by_index, rows, column = _distinct(by_index, rows, len(classes))
        leader_points = exact.as_floats(rows, D) if rows else np.empty((0, classes.rows.shape[1]))
    else:
        leader_points, column = run.state.tokens[by_index], np.full(len(classes), -1)
        column[by_index] = np.arange(len(by_index))

    place = np.full(len(classes), -1)  # class -> point
    simple = run.theorem == 1
    place[simple] = column[run.sets.targets[simple]]
    further: dict[Point, int] = {}
    for i in np.flatnonzero(run.theorem > 1).tolist():
        point = found.get(i)
        if point is None:
            assert history is not None
            members, weights, total = run.sets.shares(i, counts)
            point = tuple(Fraction(x, D * total) for x in exact.combine(weights, history.at(layer, members)))
        place[i] = further.setdefault(point, len(by_index) + len(further))
    if further and history is not None:
        place = _merge_with_leaders(place, further, [tuple(Fraction(x, D) for x in row) for row in rows])
    points = np.vstack([leader_points, *[np.array([list(map(float, point))]) for point in further]])
    if points.shape[0] == 0:
        points = np.empty((0, classes.rows.shape[1]))
    tokens = run.state.tokens
    tokens[place >= 0] = points[place[place >= 0]]
    certified = bool(run.decided.all())
    names, numbers = np.unique(run.theorem[labels], return_counts=True)
    result = {
        "tokens": tokens[labels],
        "certified": certified,
        "layer": layer,
        "leaders": classes.first[by_index],
        "emerged": run.emerged[by_index],
        "clusters": place[labels],
        "points": points,
        "radius": run.state.radius(run.smallest_gap) if certified and classes.distinct and not found else 0.0,
        "proofs": {PROOFS[int(k)]: int(v) for k, v in zip(names, numbers, strict=True) if k},
        "reason": _reason(run, rule),
        "stats": {
            "kernel": kernels.METHOD,
            "arithmetic": type(run.state).__name__.lower(),
            "layers": layer,
            "queries": run.queries,
            "sets_compared_exactly": run.state.exact_rows,
        },
        "sparse_weights": _weights(run, column, len(by_index))[labels],
        "_exact_points": lambda: [tuple(Fraction(x, D) for x in row) for row in rows] + list(further),
    }
    return Limit(**result, status=limit_status(Limit(**result), len(points), moved))


def _distinct(by_index: IntArray, rows: list[Any], m: int) -> tuple[IntArray, list[Any], IntArray]:
    """Leaders that came to one place, which only an A outside the hypotheses allows, count once."""
    column = np.full(m, -1)
    seen: dict[Any, int] = {}
    kept = []
    for i, row in zip(by_index.tolist(), rows, strict=True):
        if row not in seen:
            seen[row] = len(kept)
            kept.append(i)
        column[i] = seen[row]
    return np.array(kept, np.intp), list(seen), column


def _merge_with_leaders(place: IntArray, further: dict[Point, int], leaders: list[Point]) -> IntArray:
    """A chain may end at a leader after all: give such points the leader's number, and close the ranks."""
    known = {point: number for number, point in enumerate(leaders)}
    renumber = np.arange(len(leaders) + len(further) + 1)
    renumber[-1] = -1
    new = len(leaders)
    for point, number in list(further.items()):
        if point in known:
            renumber[number] = known[point]
            del further[point]
        else:
            renumber[number] = new
            further[point] = new
            new += 1
    return np.asarray(renumber[place])


def _weights(run: Run, column: IntArray, n_leaders: int) -> sparse.csr_array:
    """Absorption probabilities of the frozen matrix P: W = P_L on leaders, (I - P_NN) W = P_NL elsewhere."""
    assert run.sets is not None
    P = run.sets.matrix(run.classes.counts)
    m = len(run.classes)
    leads = np.flatnonzero(column >= 0)
    onto = sparse.csr_array((np.ones(len(leads)), (leads, column[leads])), shape=(m, n_leaders))
    one_step = sparse.csr_array(P @ onto)  # exact for Theorems 1 and 4: all their members lead
    deep = np.flatnonzero(run.theorem > 4)
    if not len(deep):
        keep = sparse.diags_array((run.decided).astype(np.float64))
        return sparse.csr_array(keep @ one_step)
    inside = np.eye(len(deep)) - P[deep][:, deep].toarray()
    outside = np.setdiff1d(np.arange(m), deep)
    solved = np.linalg.lstsq(inside, (P[deep][:, outside] @ one_step[outside]).toarray(), rcond=None)[0]
    W = one_step.tolil()
    W[deep] = solved
    return sparse.csr_array(W)


def _reason(run: Run, rule: Hardmax) -> str:
    if run.decided.all():
        return ""
    if rule.ties != "exact":
        return 'A tolerance treats near-ties as ties, and no theorem covers that; use ties="exact".'
    if not rule.positive_definite:
        return "A is not symmetric positive definite, so no theorem promises a certificate."
    return "Raise max_layers to go on."
