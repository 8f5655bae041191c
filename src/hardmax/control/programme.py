"""The semidefinite programme: the A of largest margin, or the one closest to the identity.

    maximise m   over A ⪰ 0 with trace A = d, condition number at most κ,
    such that    ⟨A z_i, z_t - z_j⟩ / (|z_i| |z_t - z_j|) >= m   for every demand i -> t and every j.

There are r (n - 1) rows and few of them are tight, so they come in as cutting planes: solve with some rows, look at all
of them in NumPy, add those that are violated, and go on until none is.
"""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardmax._errors import ParameterError, needed_for
from hardmax._types import FloatArray, IntArray
from hardmax.control.demands import Demands

PER, MOST = 2, 1000  # rows a demand, and rows in all, that a round adds
MOST_ROUNDS = 200
CUT_TOL = 1e-7  # a row that is violated by less is as good as kept: solvers leave that much
COPIES = 12  # of the rows, that the solver and CVXPY make on the way
NO_PAIRS = np.zeros((0, 2), np.intp)


@dataclass(frozen=True, eq=False)
class Optimum:
    """What a solver says of some rows."""

    A: FloatArray | None  # (d, d), None where it failed
    bound: float = np.nan  # no A has a larger margin
    weights: FloatArray = field(default_factory=lambda: np.zeros(0))  # dual weights of the rows, at least 0, sum 1
    failure: str = ""  # what the solver said, if it gave up


@dataclass(frozen=True, eq=False)
class Solved(Optimum):
    """What cutting planes found, before anybody has checked it."""

    margin: float = np.nan  # the smallest of all rows at A, in NumPy
    pairs: IntArray = field(default_factory=lambda: NO_PAIRS)  # the rows that were used
    rounds: int = 0


@dataclass(frozen=True)
class Programme:
    """How to solve: bound on the condition number, cutting planes or all rows, options for Clarabel."""

    condition: float
    cuts: bool = True
    options: Mapping[str, Any] | None = None

    def largest_margin(self, demands: Demands) -> Solved:
        """The A whose smallest scaled gap is largest. Stops as soon as rows show that no margin is positive."""
        pairs = NO_PAIRS
        if not self.cuts:
            _check_memory(len(demands) * (len(demands.tokens) - 1), demands.tokens.shape[1])
            pairs = demands.every_pair()
        return cutting_planes(demands, lambda pairs: self._optimum(demands.rows(pairs), None), pairs)

    def closest_to_identity(self, demands: Demands, margin: float, pairs: IntArray) -> Solved:
        """The A with at least this margin that is closest to the identity, in the Frobenius norm."""
        return cutting_planes(demands, lambda pairs: self._optimum(demands.rows(pairs), margin), pairs, margin)

    def _optimum(self, rows: FloatArray, margin: float | None) -> Optimum:
        cp = load_cvxpy()
        d = rows.shape[1]
        X, u = cp.Variable((d, d), symmetric=True), cp.Variable()
        m = cp.Variable() if margin is None else cp.Constant(margin)
        upper = np.triu_indices(d)
        coefficients = rows[:, upper[0], upper[1]] * np.where(upper[0] == upper[1], 1.0, 2.0)
        ahead = coefficients @ cp.vec(X, order="C")[upper[0] * d + upper[1]] >= m
        bounded = [X - (u / self.condition) * np.eye(d) >> 0, u * np.eye(d) - X >> 0, cp.trace(X) == d]
        goal = cp.Maximize(m) if margin is None else cp.Minimize(cp.sum_squares(X - np.eye(d)))
        failure = solve(cp.Problem(goal, [ahead, *bounded]), self.options or {})
        if failure:
            return Optimum(None, failure=failure)
        return Optimum(within_condition(X.value, self.condition), float(m.value), dual_weights(ahead))


def cutting_planes(
    demands: Demands, optimum: Callable[[IntArray], Optimum], pairs: IntArray = NO_PAIRS, least: float = np.inf
) -> Solved:
    """Add the rows that an optimum violates until it violates none, or until rows show that no margin is positive.

    A violation is a gap below the optimum's own margin, before the first one below `least`.
    """
    number = np.array([len(demands.tokens), 1])  # of a pair
    now, rounds = Optimum(np.eye(demands.tokens.shape[1]), least), 0
    while True:
        A = np.asarray(now.A)
        gaps, tight = demands.tightest(A, PER, MOST)
        margin = float(gaps[0]) if len(gaps) else np.inf
        fresh = tight[gaps < now.bound - CUT_TOL]
        fresh = fresh[~np.isin(fresh @ number, pairs @ number)] if rounds else fresh
        if not len(fresh) or now.bound < 0 or rounds == MOST_ROUNDS:
            return Solved(A, now.bound, now.weights, "", margin, pairs, rounds)
        pairs = np.unique(np.concatenate([pairs, fresh]), axis=0)
        now, rounds = optimum(pairs), rounds + 1
        if now.A is None:
            return Solved(None, now.bound, now.weights, now.failure, margin, pairs, rounds)


def solve(problem: Any, options: Mapping[str, Any]) -> str:
    """Solve, and return why there is no answer, if there is none. One that is inaccurate is for the caller to check."""
    cp = load_cvxpy()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "Solution may be inaccurate": every answer is checked in NumPy
            problem.solve(solver=cp.CLARABEL, **options)
    except cp.error.SolverError as error:
        return str(error).split(". ")[0]
    except (TypeError, AttributeError, ValueError) as error:
        if not options:
            raise
        raise ParameterError("solver_options", "be settings of Clarabel", f"{options!r}: {error}") from None
    good = problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
    return "" if good else f"Solver 'CLARABEL' ended with the status {problem.status}"


def dual_weights(constraint: Any) -> FloatArray:
    """The weights of rows, at least 0 and with sum 1."""
    weights = np.maximum(np.atleast_1d(constraint.dual_value), 0.0)
    return np.asarray(weights / (weights.sum() or 1.0))


def within_condition(X: FloatArray, condition: float) -> FloatArray:
    """Symmetric with trace d exactly enough, and eigenvalues within bounds that the solver missed by its tolerance."""
    values, vectors = np.linalg.eigh((X + X.T) / 2)
    values = np.maximum(values, values[-1] / condition)
    A = (vectors * (values * len(X) / values.sum())) @ vectors.T
    return np.asarray((A + A.T) / 2)


def _check_memory(rows: int, d: int) -> None:
    needed = 8 * COPIES * rows * d * (d + 1) / 2
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else np.inf
    if needed > room:
        raise MemoryError(
            f'`method="full"` must hold all {rows:,} rows of the programme at once, about {needed / 2**30:,.0f} GiB. '
            f'Got a machine with {room / 2**30:,.0f}. Use `method="cuts"`, which adds rows as it needs them.'
        )


def load_cvxpy() -> Any:
    """CVXPY with Clarabel, or the command that installs them."""
    with needed_for("`hardmax.control`", "CVXPY", "control"):
        import clarabel  # noqa: F401
        import cvxpy
    return cvxpy
