"""The semidefinite programme for A, and linear programmes that find the tokens that can lead at all.

The A of largest margin, or the one closest to the identity:

    maximise m   over A ⪰ 0 with trace A = d, condition number at most κ,
    such that    ⟨A z_i, z_t - z_j⟩ / (|z_i| |z_t - z_j|) >= m   for every demand i -> t and every j.

There are r (n - 1) rows and few of them are tight, so they are added as cutting planes: solve with some rows, evaluate
all of them in NumPy, add those that are violated, and repeat until none is.

Tokens that can lead (Theorem 5): token i leads at layer 0 for some symmetric positive definite A if and only if z_i is
not 0 and is a vertex of the hull of all tokens and 0: with p = A z_i, ⟨p, z_i⟩ > 0 and ⟨p, z_i - z_j⟩ > 0; and such a
p gives A = ppᵀ/⟨p, z_i⟩ + t (I - z_i z_iᵀ/|z_i|²). Each linear programme has the vertices known so far as its rows, not
all tokens, and a token that it cannot rule out gives a new vertex (Clarkson, "More output-sensitive geometric
algorithms", 1994).
"""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from hardmax._arrays import unit_rows
from hardmax._errors import ParameterError, needed_for
from hardmax._types import AnyArray, Array, BoolArray, FloatArray, IntArray
from hardmax._validation import check_tokens
from hardmax.exact.argmax import argmax_sets
from hardmax.exact.rounding import Scaled
from hardmax.search.sets import Classes

MAX_PRODUCTS = 1 << 22  # inner products in memory at a time
MAX_CUTS, MAX_CUTS_PER_DEMAND = 1000, 2  # rows that a round adds
MAX_ROUNDS = 200
CUT_TOL = 1e-7  # smaller violations of a row are the solver's tolerance
COPIES = 12  # of the rows, that the solver and CVXPY hold in memory
FORWARD_TOL = 1e-8  # the smallest ⟨p, v⟩ / |v| that counts as positive: programmes are solved to about 1e-9
NO_PAIRS = np.zeros((0, 2), np.intp)

as_fractions = np.vectorize(Fraction, otypes=[object])


@dataclass(frozen=True, eq=False)
class Demands:
    """Demands on layer 0: token i = `chooser[r]` attends to t = `target[r]` alone; a leader is its own target.

    A row of the programme is one pair (demand r, rival j).
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
        """Return z_i and z_t - z_j for pairs (demand, rival j), each (pairs, d): scaled floats, or given Fractions."""
        (demand, rival), convert, tokens = pairs.T, np.asarray, self.tokens
        if exact:
            convert, tokens = as_fractions, self.given
        z, target, other = (convert(tokens[i]) for i in (self.chooser[demand], self.target[demand], rival))
        return [z, target - other]

    def units(self, pairs: IntArray) -> list[FloatArray]:
        """Return z_i / |z_i| and (z_t - z_j) / |z_t - z_j|, each (pairs, d)."""
        return [unit_rows(each) for each in self.vectors(pairs)]

    def margin(self, A: FloatArray) -> float:
        """Return the smallest gap of all pairs; infinite without demands."""
        gaps, _ = self.tightest(A, 1, 1)
        return float(gaps[0]) if len(gaps) else np.inf

    def tightest(self, A: FloatArray, per_demand: int, most: int) -> tuple[FloatArray, IntArray]:
        """Return the `per_demand` smallest gaps of each demand, of these the `most` smallest, sorted, with pairs."""
        per_demand = min(per_demand, len(self.tokens) - 1)
        if not per_demand or not len(self):
            return np.zeros(0), NO_PAIRS
        step, parts = max(1, MAX_PRODUCTS // len(self.tokens)), []
        for part in np.split(np.arange(len(self)), range(step, len(self), step)):
            z, t, each = unit_rows(self.tokens[self.chooser[part]]), self.target[part], np.arange(len(part))
            products = z @ A @ self.tokens.T  # (part, n)
            apart = cdist(self.tokens[t], self.tokens)  # (part, n)
            apart[each, t] = 1.0
            gaps = (products[each, t][:, None] - products) / apart
            gaps[each, t] = np.inf
            rivals = np.argpartition(gaps, per_demand - 1, axis=1)[:, :per_demand]
            parts.append(np.column_stack([np.repeat(part, per_demand), rivals.ravel()]))
        pairs = np.concatenate(parts)
        z, ahead = self.units(pairs)
        gaps = np.asarray(((z @ A) * ahead).sum(axis=1))  # again from differences, which cancel less than products
        order = np.argsort(gaps, kind="stable")[:most]
        return gaps[order], pairs[order]


@dataclass(frozen=True, eq=False)
class Solution:
    """The optimum for some rows of a programme; the caller checks A."""

    A: FloatArray | None  # (d, d), None if the solver failed
    bound: float = np.nan  # no A has a larger margin
    weights: FloatArray = field(default_factory=lambda: np.zeros(0))  # dual weights of the rows, at least 0, sum 1
    failure: str = ""  # the solver's message, if it failed
    margin: float = np.nan  # the smallest gap of all rows at A, in NumPy
    pairs: IntArray = field(default_factory=lambda: NO_PAIRS)  # the rows
    rounds: int = 0


@dataclass(frozen=True)
class Programme:
    """The settings: bound on the condition number, cutting planes or all rows, options for Clarabel."""

    condition: float
    cuts: bool = True
    options: Mapping[str, Any] | None = None

    def maximise_margin(self, demands: Demands) -> Solution:
        """Find the A of largest margin. Stop as soon as rows show that no margin is positive."""
        pairs, (n, d) = NO_PAIRS, demands.tokens.shape
        if not self.cuts:
            rows = len(demands) * (n - 1)
            needed = 8 * COPIES * rows * d * (d + 1) / 2
            room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else np.inf
            if needed > room:
                raise MemoryError(
                    f'`method="full"` must hold all {rows:,} rows of the programme at once, about '
                    f"{needed / 2**30:,.0f} GiB. Got a machine with {room / 2**30:,.0f}. "
                    'Use `method="cuts"`, which adds rows as it needs them.'
                )
            pairs = np.indices((len(demands), n)).reshape(2, -1).T
            pairs = pairs[pairs[:, 1] != demands.target[pairs[:, 0]]]
        return add_cuts(demands, partial(self._solve, demands, None), pairs)

    def approach_identity(self, demands: Demands, margin: float, pairs: IntArray) -> Solution:
        """Find the A with at least this margin that is closest to the identity in the Frobenius norm."""
        return add_cuts(demands, partial(self._solve, demands, margin), pairs, margin)

    def _solve(self, demands: Demands, margin: float | None, pairs: IntArray) -> Solution:
        cp, d = load_cvxpy(), demands.tokens.shape[1]
        X, u = cp.Variable((d, d), symmetric=True), cp.Variable()
        m = cp.Variable() if margin is None else cp.Constant(margin)
        (z, g), (a, b) = demands.units(pairs), np.triu_indices(d)
        rows = z[:, a] * g[:, b] + np.where(a == b, 0.0, z[:, b] * g[:, a])  # (pairs, d (d + 1) / 2)
        ahead = rows @ cp.vec(X, order="C")[np.ravel_multi_index((a, b), (d, d))] >= m
        bounded = [X - (u / self.condition) * np.eye(d) >> 0, u * np.eye(d) - X >> 0, cp.trace(X) == d]
        goal = cp.Maximize(m) if margin is None else cp.Minimize(cp.sum_squares(X - np.eye(d)))
        problem = cp.Problem(goal, [ahead, *bounded])
        return solve(problem, m, lambda: clip_condition(X.value, self.condition), self.options)


def add_cuts(
    demands: Demands, optimise: Callable[[IntArray], Solution], pairs: IntArray = NO_PAIRS, least: float = np.inf
) -> Solution:
    """Add the rows that an optimum violates until it violates none, or until rows show that no margin is positive."""
    number = np.array([len(demands.tokens), 1])  # of a pair
    now, rounds = Solution(np.eye(demands.tokens.shape[1]), least), 0  # gaps below `least` are the first violations
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


def solve(problem: Any, m: Any, read_A: Callable[[], FloatArray], options: Mapping[str, Any] | None) -> Solution:
    """Solve a CVXPY problem for the margin m, whose first constraint is the rows. The caller checks A."""
    cp, options = load_cvxpy(), options or {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "Solution may be inaccurate": every answer is checked in NumPy
            problem.solve(solver=cp.CLARABEL, **options)
    except cp.error.SolverError as error:
        return Solution(None, failure=str(error).split(". ")[0])
    except (TypeError, AttributeError, ValueError) as error:
        if not options:
            raise
        raise ParameterError("solver_options", "be settings of Clarabel", f"{options!r}: {error}") from None
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        return Solution(None, failure=f"Solver 'CLARABEL' ended with the status {problem.status}")
    weights = np.maximum(np.atleast_1d(problem.constraints[0].dual_value), 0.0)
    return Solution(read_A(), float(m.value), weights / (weights.sum() or 1.0))


def clip_condition(X: FloatArray, condition: float) -> FloatArray:
    """Make X symmetric with trace d, and raise eigenvalues that are too small for the condition number."""
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


def check_token_set(tokens: Array, advice: str) -> tuple[AnyArray, Classes, FloatArray]:
    """Return one token set, its classes of equal tokens, and these as floats of at most 1: no product overflows."""
    array, _ = check_tokens(tokens)
    if array.ndim == 3:
        raise ParameterError("tokens", "be one token set of shape (n, d)", f"a batch of shape {array.shape}", advice)
    classes = Classes.of(array)
    floats = Scaled.of(classes.rows).values  # scaled by a power of two
    lost = (floats == 0).all(axis=1) != (classes.rows == 0).all(axis=1)
    if lost.any() or len(np.unique(floats, axis=0)) < len(floats):
        must = "differ from each other and from 0 when they are divided by the largest entry and rounded to floats"
        advice = "Leave out tokens that are equal but for rounding, or those that are tiny."
        raise ParameterError("tokens", must, "some that do not", advice)
    return array, classes, floats


def can_lead(tokens: Any, *, progress: Callable[[int, int], None] | None = None) -> BoolArray:
    """Find the tokens that lead at layer 0 for some symmetric positive definite A.

    Parameters
    ----------
    tokens : (n, d) array
    progress : callable, optional
        Called with (tokens tested, tokens in all).

    Returns
    -------
    (n,) bool array
        Equal tokens have equal answers: they lead as one, and if all tokens are equal they do. A token whose distance
        from the hull of the others is below 1e-8 of its distance to them counts as inside.

    Raises
    ------
    ParameterError
        If `tokens` are not one batch element of finite numbers.
    ParameterTypeError
        If they are not real numbers.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.control.can_lead([[1, 1], [1, -1], [-1, 0], [0.9, 0], [0, 0]])
    array([ True,  True,  True, False, False])

    Theorem 5 of this project (docs/control.md).
    """
    array, classes, floats = check_token_set(tokens, "Ask cloud by cloud.")
    if len(classes) == 1:
        return np.ones(len(array), bool)
    hull, answers = Vertices(floats), list[bool]()
    for i in range(len(classes)):
        answers.append(hull.has(i))
        if progress:
            progress(i + 1, len(classes))
    return np.array(answers)[classes.labels]


class Vertices:
    """The vertices of conv(tokens and 0), found one by one on demand."""

    def __init__(self, tokens: FloatArray) -> None:
        self.tokens = tokens  # (m, d) distinct
        sets = argmax_sets(tokens)  # leaders for A = I are vertices; the longest token is one of them
        self.known = {int(i) for i in np.flatnonzero(sets.sizes == 1) if sets[int(i)][0] == i and tokens[i].any()}

    def has(self, i: int) -> bool:
        """Return whether token i is a vertex."""
        if not self.tokens[i].any():
            return False
        while i not in self.known:
            ahead = np.vstack([self.tokens[i], self.tokens[i] - self.tokens[sorted(self.known)]])
            p = find_direction(ahead)  # in which z_i is ahead of 0 and of every known vertex
            if p is None or (vertex := self._farthest(p)) in self.known:  # none, or by rounding one that is known
                return False
            self.known.add(vertex)
        return True

    def _farthest(self, p: FloatArray) -> int:
        """Return the token farthest along p; of several on one face, a vertex of that face."""
        values = self.tokens @ p
        face = np.flatnonzero(values >= values.max() - 1e-12 * (np.abs(values).max() or 1.0))
        return int(face[np.lexsort(self.tokens[face].T)[-1]])


def find_direction(vectors: FloatArray) -> FloatArray | None:
    """Find the p, |p| <= 1 in each coordinate, with the largest min ⟨p, v⟩ / |v|; None if that is not positive."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    d = units.shape[1]
    found = linprog(  # maximise s such that <p, unit> >= s for all
        np.r_[np.zeros(d), -1.0],
        A_ub=np.column_stack([-units, np.ones(len(units))]),
        b_ub=np.zeros(len(units)),
        bounds=[(-1, 1)] * d + [(0, None)],
    )
    return None if found.x is None or found.x[d] <= FORWARD_TOL else np.asarray(found.x[:d])
