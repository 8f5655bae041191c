"""Whether any A exists, and if not, which demands contradict each other: Farkas weights.

If weights λ >= 0, not all 0, make S = Σ λ sym(z_i (z_t - z_j)ᵀ) negative semidefinite, then
Σ λ ⟨A z_i, z_t - z_j⟩ = ⟨S, A⟩ <= 0 for every positive semidefinite A, so that not all of these products are positive:
a proof. Let P be the span of the z_i that make demands, and N its complement. S vanishes on N, so S ⪯ 0 needs S_PN = 0
and S_PP ⪯ 0. The programme that has these weights as its dual is

    maximise m   over A_PP ⪰ 0 with trace 1, and A_PN with entries between -R and R,

where A_NN does not matter: it can always be made large enough for A to be definite.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from hardmax._arrays import unit_rows
from hardmax._types import FloatArray, IntArray
from hardmax.control.demands import Demands
from hardmax.control.programme import Optimum, Solved, cutting_planes, dual_weights, load_cvxpy, solve
from hardmax.control.refutation import as_fractions, refutes
from hardmax.control.request import Request
from hardmax.control.result import Clash

WIDE = 1e3  # R
SPAN_TOL = 1e-10  # singular values below this part of the largest are directions that no demand has
NOISE = (1e-6, 1e-4, 1e-2)  # parts of the largest weight below which others may be the solver's noise
FEASIBLE = 1e-6  # a margin that is surely positive
HEAVY = 1e-3  # of the largest weight: demands with less have no part in a conflict


@dataclass(frozen=True, eq=False)
class Existence:
    """The answer of the programme above: a positive margin, or weights."""

    demands: Demands
    solved: Solved

    @cached_property
    def proof(self) -> bool:
        """Whether weights like these prove, in rational arithmetic, that no positive definite A meets the demands."""
        weights = self.solved.weights
        if self.solved.A is None or not weights.any():
            return False
        for part in NOISE:
            kept = weights > part * weights.max()
            pairs = self.solved.pairs[kept]
            if refutes(*self.demands.exact(pairs), as_fractions(weights[kept] / self.demands.lengths(pairs))):
                return True
        return False

    def clashes(self, request: Request) -> tuple[Clash, ...]:
        """The products with a weight that matters, the largest first, in the numbers of the tokens."""
        weights, named = self.solved.weights, []
        for r in np.argsort(-weights, kind="stable"):
            if weights[r] > HEAVY * weights.max():
                demand, rival = self.solved.pairs[r]
                classes = self.demands.chooser[demand], self.demands.target[demand], rival
                token, target, other = map(request.token, classes)
                named.append(Clash(token, target, other, float(weights[r])))
        return tuple(named)


def exists(demands: Demands, options: Mapping[str, Any] | None = None) -> Existence:
    """Decide whether some symmetric positive definite A meets the demands, of any condition number.

    Where some of the demands conflict and others do not touch them, the best margin is 0 and the weights are vague; so
    those without weight are left out, and what remains is asked again.
    """
    while True:
        _, values, axes = np.linalg.svd(unit_rows(demands.tokens[demands.chooser]), full_matrices=False)
        basis = axes[values > SPAN_TOL * values[0]].T  # (d, p)
        solved = cutting_planes(demands, partial(_optimum, demands, basis, options or {}))
        answer = Existence(demands, solved)
        if solved.A is None or solved.margin > FEASIBLE or answer.proof:
            return answer
        kept = np.unique(solved.pairs[solved.weights > HEAVY * solved.weights.max(initial=0.0), 0])
        if len(kept) in (0, len(demands)):
            return answer
        demands = demands.subset(kept)


def _optimum(demands: Demands, basis: FloatArray, options: Mapping[str, Any], pairs: IntArray) -> Optimum:
    cp = load_cvxpy()
    N = np.linalg.svd(basis, full_matrices=True)[0][:, basis.shape[1] :]  # the complement of P
    p, k = basis.shape[1], N.shape[1]
    z, ahead = demands.units(pairs)
    z, onto, beside = z @ basis, ahead @ basis, ahead @ N  # (rows, p), (rows, p), (rows, k)
    B, m = cp.Variable((p, p), symmetric=True), cp.Variable()
    gaps = np.einsum("ri,rj->rij", z, onto).reshape(-1, p * p) @ cp.vec(B, order="C")
    F = cp.Variable((p, k)) if k else None
    if F is not None:
        gaps = gaps + np.einsum("ri,rj->rij", z, beside).reshape(-1, p * k) @ cp.vec(F, order="C")
    ahead_of = gaps >= m
    limits = [B >> 0, cp.trace(B) == 1, *([cp.abs(F) <= WIDE] if F is not None else [])]
    failure = solve(cp.Problem(cp.Maximize(m), [ahead_of, *limits]), options)
    if failure:
        return Optimum(None, failure=failure)
    cross = F.value if F is not None else np.zeros((p, 0))
    A = basis @ B.value @ basis.T + basis @ cross @ N.T + N @ cross.T @ basis.T
    return Optimum(A, float(m.value), dual_weights(ahead_of))
