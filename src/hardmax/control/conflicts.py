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
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.control.demands import Demands, units
from hardmax.control.programme import Optimum, Solved, cutting_planes, dual_weights, load_cvxpy, run
from hardmax.control.refutation import refutes
from hardmax.control.request import Wish

WIDE = 1e3  # R
SPAN_TOL = 1e-10  # singular values below this part of the largest are directions that no demand has
NOISE = (1e-6, 1e-4, 1e-2)  # parts of the largest weight below which others may be the solver's noise
FEASIBLE = 1e-6  # a margin that is surely positive
SHOWN = 1e-3  # of the largest weight: what a reader is shown


@dataclass(frozen=True)
class Clash:
    """One product that would have to be positive: `token` sees `target` before `rival`."""

    token: int
    target: int
    rival: int
    weight: float

    def __str__(self) -> str:
        wanted = "lead" if self.token == self.target else f"follow {self.target}"
        return f"token {self.token} would {wanted}, not follow {self.rival} (weight {self.weight:.3g})"


@dataclass(frozen=True, eq=False)
class Existence:
    """The answer of the programme above: a positive margin, or weights."""

    demands: Demands
    basis: FloatArray  # (d, p) orthonormal, of P
    solved: Solved

    @cached_property
    def proof(self) -> bool:
        """Whether weights like these prove, in rational arithmetic, that no positive definite A meets the demands."""
        weights = self.solved.weights
        if self.solved.A is None or not weights.any():
            return False
        return any(self._refutes(np.flatnonzero(weights > part * weights.max())) for part in NOISE)

    def _refutes(self, kept: IntArray) -> bool:
        """Whether the rows that are kept do."""
        pairs = self.solved.pairs[kept]
        z, ahead = self.demands.exact(pairs)
        lengths = self.demands.lengths(pairs)
        weights = [Fraction(w) for w in (self.solved.weights[kept] / lengths).tolist()]
        return refutes(z, ahead, weights)

    def clashes(self, wish: Wish) -> tuple[Clash, ...]:
        """The products with a weight that matters, the largest first, in the numbers of the tokens."""
        weights = self.solved.weights
        order = [r for r in np.argsort(-weights, kind="stable") if weights[r] > SHOWN * weights.max()]
        named = []
        for r in order:
            demand, rival = self.solved.pairs[r]
            who, target = self.demands.who[demand], self.demands.target[demand]
            named.append(Clash(wish.token(who), wish.token(target), wish.token(rival), float(weights[r])))
        return tuple(named)


def exists(demands: Demands, options: Mapping[str, Any] | None = None) -> Existence:
    """Decide whether some symmetric positive definite A meets the demands, of any condition number.

    Where some of the demands conflict and others do not touch them, the best margin is 0 and the weights are vague; so
    those without weight are left out, and what remains is asked again.
    """
    answer = _exists(demands, options or {})
    while answer.solved.A is not None and answer.solved.margin <= FEASIBLE and not answer.proof:
        heavy = answer.solved.weights > SHOWN * answer.solved.weights.max(initial=0.0)
        kept = np.unique(answer.solved.pairs[heavy, 0])
        if len(kept) in (0, len(answer.demands)):
            break
        now = answer.demands
        answer = _exists(now.some(kept), options or {})
    return answer


def _exists(demands: Demands, options: Mapping[str, Any]) -> Existence:
    z = units(demands.tokens[demands.who])
    _, values, axes = np.linalg.svd(z, full_matrices=False)
    basis = axes[values > SPAN_TOL * values[0]].T  # (d, p)

    def optimum(pairs: IntArray) -> Optimum:
        return _optimum(demands, pairs, basis, options)

    return Existence(demands, basis, cutting_planes(demands, optimum))


def _optimum(demands: Demands, pairs: IntArray, basis: FloatArray, options: Mapping[str, Any]) -> Optimum:
    cp = load_cvxpy()
    N = _complement(basis)
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
    failure = run(cp.Problem(cp.Maximize(m), [ahead_of, *limits]), options)
    if failure:
        return Optimum(None, failure=failure)
    cross = F.value if F is not None else np.zeros((p, 0))
    A = basis @ B.value @ basis.T + basis @ cross @ N.T + N @ cross.T @ basis.T
    return Optimum(A, float(m.value), dual_weights(ahead_of))


def _complement(basis: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.svd(basis, full_matrices=True)[0][:, basis.shape[1] :])
