"""The semidefinite programme for A, and proofs that no A meets the demands: see
docs/control.md.

Of its rows ⟨A z_i, z_t - z_j⟩ / (|z_i| |z_t - z_j|) >= m few are tight, so they are
added as cutting planes: solve with some rows, evaluate all of them in NumPy, add those
that are violated, and repeat until none is.

A proof is a set of Farkas weights λ >= 0, not all 0, with S = Σ λ sym(z gᵀ) ⪯ 0, where
z = z_i and g = z_t - z_j. Let P be the span of the z that make demands, and N its
complement. S vanishes on N, so S ⪯ 0 needs S_PN = 0 and S_PP ⪯ 0. The programme that
has these weights as its dual is

    maximise m   over A_PP ⪰ 0 with trace 1, and A_PN with entries between -R and R,

where A_NN does not matter: it can always be made large enough for A to be definite.

For an exact proof, look for rational weights near those of the solver. S ⪯ 0 needs S x
= 0 for every x orthogonal to all z, which is linear in λ; if rows depend on each other
S may be 0 altogether; and on lattices it may vanish along simple directions. Such
equations are solved exactly, and the result is checked exactly.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.spatial.distance import cdist

from hardmax._arrays import unit_rows
from hardmax._errors import ParameterError, needed_for
from hardmax._exact import to_fraction
from hardmax._types import AnyArray, FloatArray, IntArray

MAX_PRODUCTS = 1 << 22  # inner products in memory at a time
MAX_CUTS, MAX_CUTS_PER_DEMAND = 1000, 2  # rows that a round adds
MAX_ROUNDS = 200
CUT_TOL = 1e-7  # smaller violations of a row are the solver's tolerance
MAX_CROSS = 1e3  # R
# smaller singular values, relative to the largest, belong to directions without demands
SPAN_TOL = 1e-10
NOISE = (
    1e-6,
    1e-4,
    1e-2,
)  # weights below these parts of the largest one may be the solver's noise
MIN_MARGIN = 1e-6  # a larger margin is certainly positive
# relative to the largest: demands with smaller weights have no part in a conflict
MIN_WEIGHT = 1e-3
NULL_TOL = 1e-6  # smaller eigenvalues of S, relative to the largest, may be 0
MAX_DENOMINATOR = 1000  # of vectors that S maps to 0
NO_PAIRS = np.zeros((0, 2), np.intp)

as_fractions = np.vectorize(to_fraction, otypes=[object])


@dataclass(frozen=True, eq=False)
class Demands:
    """Demands on layer 0: token i = `chooser[r]` attends to t = `target[r]` alone; a
    leader is its own target.
    """

    given: AnyArray  # (n, d) distinct tokens, floats or Fractions
    tokens: FloatArray  # (n, d) the same, scaled by `check_token_set`
    chooser: IntArray  # (r,)
    target: IntArray  # (r,)

    def __len__(self) -> int:
        return len(self.chooser)

    def subset(self, kept: IntArray) -> "Demands":
        return replace(self, chooser=self.chooser[kept], target=self.target[kept])

    def vectors(self, pairs: IntArray, *, exact: bool = False) -> list[AnyArray]:
        """Return z_i and z_t - z_j for pairs (demand, rival j), each (pairs, d): scaled
        floats, or given Fractions.
        """
        (demand, rival), convert = pairs.T, as_fractions if exact else np.asarray
        tokens = self.given if exact else self.tokens
        z, target, other = (
            convert(tokens[i])
            for i in (self.chooser[demand], self.target[demand], rival)
        )
        return [z, target - other]

    def units(self, pairs: IntArray) -> list[FloatArray]:
        """Return z_i / |z_i| and (z_t - z_j) / |z_t - z_j|, each (pairs, d)."""
        return [unit_rows(each) for each in self.vectors(pairs)]

    def margin(self, A: FloatArray) -> float:
        """Return the smallest gap of all pairs; infinite without demands."""
        gaps, _ = self.tightest(A, 1, 1)
        return float(gaps[0]) if len(gaps) else np.inf

    def tightest(
        self, A: FloatArray, per_demand: int, most: int
    ) -> tuple[FloatArray, IntArray]:
        """Return the `per_demand` smallest gaps of each demand, of these the `most`
        smallest, sorted, with pairs.
        """
        per_demand = min(per_demand, len(self.tokens) - 1)
        if not per_demand or not len(self):
            return np.zeros(0), NO_PAIRS
        step, parts = max(1, MAX_PRODUCTS // len(self.tokens)), []
        for part in np.split(np.arange(len(self)), range(step, len(self), step)):
            z, t, each = (
                unit_rows(self.tokens[self.chooser[part]]),
                self.target[part],
                np.arange(len(part)),
            )
            products = z @ A @ self.tokens.T  # (part, n)
            apart = cdist(self.tokens[t], self.tokens)  # (part, n)
            apart[each, t] = 1.0
            gaps = (products[each, t][:, None] - products) / apart
            gaps[each, t] = np.inf
            rivals = np.argpartition(gaps, per_demand - 1, axis=1)[:, :per_demand]
            parts.append(np.column_stack([np.repeat(part, per_demand), rivals.ravel()]))
        pairs = np.concatenate(parts)
        z, ahead = self.units(pairs)
        gaps = np.asarray(
            ((z @ A) * ahead).sum(axis=1)
        )  # again from differences, which cancel less than products
        order = np.argsort(gaps, kind="stable")[:most]
        return gaps[order], pairs[order]


@dataclass(frozen=True, eq=False)
class Solution:
    """The optimum for some rows of a programme; the caller checks A."""

    A: FloatArray | None  # (d, d), None if the solver failed
    bound: float = np.nan  # no A has a larger margin
    weights: FloatArray = field(
        default_factory=lambda: np.zeros(0)
    )  # dual weights of the rows, at least 0, sum 1
    failure: str = ""  # the solver's message, if it failed
    margin: float = np.nan  # the smallest gap of all rows at A, in NumPy
    pairs: IntArray = field(default_factory=lambda: NO_PAIRS)  # the rows
    rounds: int = 0


@dataclass(frozen=True)
class Programme:
    """The settings: bound on the condition number, and options for Clarabel."""

    condition: float
    options: Mapping[str, Any] | None = None

    def find_A(
        self, demands: Demands, margin: float | None = None, pairs: IntArray = NO_PAIRS
    ) -> Solution:
        """Find the A of largest margin, or the one closest to the identity (Frobenius
        norm) that keeps a `margin`.
        """
        return add_cuts(
            demands,
            partial(self.optimise, demands, margin),
            pairs,
            np.inf if margin is None else margin,
        )

    def optimise(
        self, demands: Demands, margin: float | None, pairs: IntArray
    ) -> Solution:
        """Find the A of largest margin, or the one closest to the identity with a
        margin, for some rows.
        """
        cp, d = load_cvxpy(), demands.tokens.shape[1]
        X, u = cp.Variable((d, d), symmetric=True), cp.Variable()
        m = cp.Variable() if margin is None else cp.Constant(margin)
        (z, g), (a, b) = demands.units(pairs), np.triu_indices(d)
        rows = z[:, a] * g[:, b] + np.where(
            a == b, 0.0, z[:, b] * g[:, a]
        )  # (pairs, d (d + 1) / 2)
        ahead = rows @ cp.vec(X, order="C")[np.ravel_multi_index((a, b), (d, d))] >= m
        bounded = [
            X - (u / self.condition) * np.eye(d) >> 0,
            u * np.eye(d) - X >> 0,
            cp.trace(X) == d,
        ]
        goal = (
            cp.Maximize(m)
            if margin is None
            else cp.Minimize(cp.sum_squares(X - np.eye(d)))
        )
        problem = cp.Problem(goal, [ahead, *bounded])
        return solve(
            problem, m, lambda: clip_condition(X.value, self.condition), self.options
        )


def add_cuts(
    demands: Demands,
    optimise: Callable[[IntArray], Solution],
    pairs: IntArray = NO_PAIRS,
    least: float = np.inf,
) -> Solution:
    """Add the rows that an optimum violates until it violates none, or until rows show
    that no margin is positive.
    """
    number = np.array([len(demands.tokens), 1])  # of a pair
    now, rounds = (
        Solution(np.eye(demands.tokens.shape[1]), least),
        0,
    )  # gaps below `least` are the first violations
    while True:
        if now.A is not None:
            gaps, tight = demands.tightest(now.A, MAX_CUTS_PER_DEMAND, MAX_CUTS)
            margin = float(gaps[0]) if len(gaps) else np.inf
            cuts = tight[gaps < now.bound - CUT_TOL]
            cuts = cuts[~np.isin(cuts @ number, pairs @ number)] if rounds else cuts
        if now.A is None or not len(cuts) or now.bound < 0 or rounds == MAX_ROUNDS:
            return replace(now, margin=margin, pairs=pairs, rounds=rounds)
        pairs = np.unique(np.concatenate([pairs, cuts]), axis=0)
        now, rounds = optimise(pairs), rounds + 1


def solve(
    problem: Any,
    m: Any,
    read_A: Callable[[], FloatArray],
    options: Mapping[str, Any] | None,
) -> Solution:
    """Solve a CVXPY problem for the margin m, whose first constraint is the rows. The
    caller checks A.
    """
    cp, options = load_cvxpy(), options or {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # "Solution may be inaccurate": every answer is checked in NumPy
            problem.solve(solver=cp.CLARABEL, **options)
    except cp.error.SolverError as error:
        return Solution(None, failure=str(error).split(". ")[0])
    except (TypeError, AttributeError, ValueError) as error:
        if not options:
            raise
        raise ParameterError(
            "solver_options", "be settings of Clarabel", f"{options!r}: {error}"
        ) from None
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        return Solution(
            None, failure=f"Solver 'CLARABEL' ended with the status {problem.status}"
        )
    weights = np.maximum(np.atleast_1d(problem.constraints[0].dual_value), 0.0)
    return Solution(read_A(), float(m.value), weights / (weights.sum() or 1.0))


def clip_condition(X: FloatArray, condition: float) -> FloatArray:
    """Make X symmetric with trace d, and raise eigenvalues that are too small for the
    condition number.
    """
    values, vectors = np.linalg.eigh((X + X.T) / 2)
    values = np.maximum(values, values[-1] / condition)
    A = (vectors * (values * len(X) / values.sum())) @ vectors.T
    return np.asarray((A + A.T) / 2)


def load_cvxpy() -> Any:
    """Import CVXPY and Clarabel, or raise an error with the command that installs them."""
    with needed_for("`hardmax.control`", "CVXPY", "control"):
        import clarabel  # noqa: F401
        import cvxpy
    return cvxpy


class Existence(NamedTuple):
    """The solution of the programme above for some of the demands: a positive margin,
    or weights.
    """

    demands: Demands
    solved: Solution
    is_refuted: (
        bool  # weights near these prove that no positive definite A meets the demands
    )

    @classmethod
    def decide(
        cls, demands: Demands, options: Mapping[str, Any] | None = None
    ) -> "Existence":
        """Decide whether some symmetric positive definite A, of any condition number,
        meets the demands.
        """
        # if only some demands conflict, weights are vague: drop demands without weight
        # and decide again
        while True:
            _, values, axes = np.linalg.svd(
                unit_rows(demands.tokens[demands.chooser]), full_matrices=False
            )
            basis = axes[values > SPAN_TOL * values[0]].T  # (d, p)
            solved = add_cuts(demands, partial(_solve, demands, basis, options))
            refuted = (
                solved.A is not None
                and solved.margin <= MIN_MARGIN
                and _is_refuted(demands, solved)
            )
            kept = np.unique(
                solved.pairs[
                    solved.weights > MIN_WEIGHT * solved.weights.max(initial=0.0), 0
                ]
            )
            if (
                solved.A is None
                or solved.margin > MIN_MARGIN
                or refuted
                or len(kept) in (0, len(demands))
            ):
                return cls(demands, solved, refuted)
            demands = demands.subset(kept)


def _is_refuted(demands: Demands, solved: Solution) -> bool:
    for part in NOISE if solved.weights.any() else ():
        kept = solved.weights > part * solved.weights.max()
        pairs = solved.pairs[kept]
        lengths = [
            np.hypot.reduce(np.abs(vectors), axis=1)
            for vectors in demands.vectors(pairs)
        ]  # of z and g
        z, g = demands.vectors(pairs, exact=True)
        with np.errstate(over="ignore", divide="ignore"):
            weights = solved.weights[kept] / np.prod(lengths, axis=0)
        if np.isfinite(weights).all() and refutes(z, g, as_fractions(weights)):
            return True
    return False


def _solve(
    demands: Demands,
    basis: FloatArray,
    options: Mapping[str, Any] | None,
    pairs: IntArray,
) -> Solution:
    cp = load_cvxpy()
    N = np.linalg.svd(basis, full_matrices=True)[0][
        :, basis.shape[1] :
    ]  # the complement of P
    p, k = basis.shape[1], N.shape[1]
    z, ahead = demands.units(pairs)
    z, onto, beside = (
        z @ basis,
        ahead @ basis,
        ahead @ N,
    )  # (rows, p), (rows, p), (rows, k)
    B, m = cp.Variable((p, p), symmetric=True), cp.Variable()
    gaps = np.einsum("ri,rj->rij", z, onto).reshape(-1, p * p) @ cp.vec(B, order="C")
    F = cp.Variable((p, k)) if k else None
    if F is not None:
        gaps = gaps + np.einsum("ri,rj->rij", z, beside).reshape(-1, p * k) @ cp.vec(
            F, order="C"
        )
    limits = [
        B >> 0,
        cp.trace(B) == 1,
        *([cp.abs(F) <= MAX_CROSS] if F is not None else []),
    ]

    def read_A() -> FloatArray:
        half = basis @ F.value @ N.T if F is not None else np.zeros((len(N), len(N)))
        return np.asarray(basis @ B.value @ basis.T + half + half.T)

    return solve(cp.Problem(cp.Maximize(m), [gaps >= m, *limits]), m, read_A, options)


def refutes(z: AnyArray, g: AnyArray, weights: AnyArray) -> bool:
    """Return whether Fractions near `weights` prove that ⟨A z_r, g_r⟩ > 0 for all r has
    no positive definite A.
    """
    a, b = np.triu_indices(z.shape[1])
    zero = (z[:, a] * g[:, b] + z[:, b] * g[:, a]).T  # S = 0, entry by entry
    for equations in (
        _orthogonal_equations(z, g),
        zero,
        _kernel_equations(z, g, weights),
    ):
        exact = _solve_exactly(np.array(list(equations)).reshape(-1, len(z)), weights)
        if exact is not None and _is_negative_semidefinite(_sum(z, g, exact)):
            return True
    return False


def _orthogonal_equations(z: AnyArray, g: AnyArray) -> Iterator[AnyArray]:
    """Yield S x = 0 for x orthogonal to all z: Σ λ z ⟨g, x⟩ = 0, in coordinates that
    span the z.
    """
    reduced, pivots = rref(z)
    for free in np.setdiff1d(np.arange(z.shape[1]), pivots):
        x = as_fractions(np.arange(z.shape[1]) == free)
        x[pivots] = -reduced[:, free]
        yield from (z[:, pivots] * (g @ x)[:, None]).T


def _kernel_equations(
    z: AnyArray, g: AnyArray, weights: AnyArray
) -> Iterator[AnyArray]:
    """Yield S x = 0 for x that S nearly maps to 0: on lattices these are simple
    fractions.
    """
    values, vectors = np.linalg.eigh(_sum(z, g, weights).astype(np.float64))
    near = vectors[:, np.abs(values) <= NULL_TOL * np.abs(values).max()].T
    if not len(near):
        return
    columns = qr(near, mode="r", pivoting=True)[1][
        : len(near)
    ]  # the same span, with the identity where that is stable
    for row in np.linalg.solve(near[:, columns], near).tolist():
        x = np.array(
            [Fraction(entry).limit_denominator(MAX_DENOMINATOR) for entry in row]
        )
        yield from (z * (g @ x)[:, None] + g * (z @ x)[:, None]).T


def _solve_exactly(equations: AnyArray, weights: AnyArray) -> AnyArray | None:
    """Return weights at least 0, not all 0, that solve the equations: the others
    determine the largest ones.
    """
    order = np.argsort(-weights, kind="stable")
    ranked, (reduced, pivots) = weights[order], rref(equations[:, order])
    others = np.setdiff1d(np.arange(len(order)), pivots)
    ranked[pivots] = -reduced[:, others] @ ranked[others]
    if min(ranked) < 0 or not any(ranked):
        return None
    return ranked[np.argsort(order)]


def _sum(z: AnyArray, g: AnyArray, weights: AnyArray) -> AnyArray:
    half = (z * weights[:, None]).T @ g
    return np.asarray(half + half.T)


def _is_negative_semidefinite(S: AnyArray) -> bool:
    """Eliminate -S symmetrically: pivots must be at least 0, and the row of a zero
    pivot must be 0.
    """
    M = -S
    for k, row in enumerate(M):
        if row[k] < 0 or (row[k] == 0 and any(row[k:])):
            return False
        if row[k]:
            M[k + 1 :, k:] -= np.outer(M[k + 1 :, k] / row[k], row[k:])
    return True


def rref(rows: AnyArray) -> tuple[AnyArray, list[int]]:
    """Return the reduced row echelon form, without its zero rows, and its pivot
    columns.
    """
    try:  # 55 rows of 120 floats take 0.7 s instead of 18 s
        from flint import fmpq, fmpq_mat
    except ImportError:
        return _rref(rows)
    n, columns = rows.shape
    reduced, rank = fmpq_mat(
        n, columns, [fmpq(x.numerator, x.denominator) for x in rows.flat]
    ).rref()
    found = np.array(
        [Fraction(int(x.p), int(x.q)) for x in reduced.entries()], object
    ).reshape(n, columns)[:rank]
    return found, [int(np.flatnonzero(row)[0]) for row in found]


def _rref(rows: AnyArray) -> tuple[AnyArray, list[int]]:
    rows, pivots = rows.copy(), list[int]()
    for column in range(rows.shape[1]):
        top = len(pivots)
        if not rows[top:, column].any():
            continue
        at = top + int(np.flatnonzero(rows[top:, column])[0])
        rows[[top, at]] = rows[[at, top]]
        rows[top] /= rows[top, column]
        others = np.setdiff1d(np.flatnonzero(rows[:, column]), top)
        rows[others] -= np.outer(rows[others, column], rows[top])
        pivots.append(column)
    return rows[: len(pivots)], pivots
