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
from typing import Any

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.control.demands import Demands
from hardmax.control.programme import Optimum, Solved, cutting_planes, dual_weights, load_cvxpy, run
from hardmax.control.relations import positive_relation
from hardmax.control.wishes import Wish

WIDE = 1e3  # R
SPAN_TOL = 1e-10  # singular values below this part of the largest are directions that no demand has
PROOF_TOL = 1e-7  # what S_PP must be below 0; rows have norm 1, so rounding is nine orders smaller
MOST_EXACT = 40  # rows that are compared in rational arithmetic
WEIGHT_TOL = 1e-6  # weights below this are the solver's noise
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

    @property
    def proof(self) -> bool:
        """Whether the weights prove that no symmetric positive definite A meets the demands."""
        if self.solved.A is None or self.solved.bound > FEASIBLE:
            return False
        return self._is_negative() or self._vanishes()

    def _is_negative(self) -> bool:
        """Whether S_PN = 0 and S_PP is negative definite.

        The cross block S_PN is corrected to 0 by a least change of the weights that count, which must stay positive.
        The map from weights to S_PN must be onto, so that an exact correction lies within rounding of the one found,
        and S_PP is below 0 by far more than that.
        """
        weights, z, ahead = self._support()
        if not len(weights):
            return False
        N = _complement(self.basis)
        if N.shape[1]:
            cross = np.einsum("rp,rk->pkr", z @ self.basis, ahead @ N).reshape(
                -1, len(weights)
            )  # S_PN = cross @ weights
            if np.linalg.matrix_rank(cross, tol=PROOF_TOL) < len(cross):
                return False
            change = np.linalg.pinv(cross) @ (cross @ weights)
            if (np.abs(change) > weights / 2).any():
                return False
            weights = weights - change
        S = self.basis.T @ np.einsum("r,ri,rj->ij", weights, z, ahead) @ self.basis
        return bool(np.linalg.eigvalsh((S + S.T) / 2)[-1] < -PROOF_TOL * weights.sum())

    def _vanishes(self) -> bool:
        """Whether S = 0 for some positive weights on the rows that count, in rational arithmetic.

        So it is where a leader is a convex combination of others, and where 0 is one of vectors that should all lie on
        one side of a plane.
        """
        kept = self.solved.pairs[self.solved.weights > WEIGHT_TOL]
        if len(kept) > MOST_EXACT:
            return False
        return positive_relation([self._exact_row(int(r), int(j)) for r, j in kept])

    def _exact_row(self, demand: int, rival: int) -> list[Fraction]:
        """sym(z_i (z_t - z_j)ᵀ), its upper triangle."""
        numbers = self.demands.who[demand], self.demands.target[demand], rival
        z, t, j = ([Fraction(x) for x in self.demands.tokens[i].tolist()] for i in numbers)
        g = [a - b for a, b in zip(t, j, strict=True)]
        return [z[a] * g[b] + z[b] * g[a] for a in range(len(z)) for b in range(a, len(z))]

    def _support(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        kept = np.flatnonzero(self.solved.weights > WEIGHT_TOL)
        return (self.solved.weights[kept], *self.demands.units(self.solved.pairs[kept]))

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

    Where some of the demands conflict and others do not touch them, S_PP is singular and no proof to the eye of a
    computer; so those without weight are left out, and what remains is asked again.
    """
    answer = _exists(demands, options or {})
    while answer.solved.A is not None and answer.solved.margin <= FEASIBLE and not answer.proof:
        heavy = answer.solved.weights > SHOWN * answer.solved.weights.max(initial=0.0)
        kept = np.unique(answer.solved.pairs[heavy, 0])
        if len(kept) in (0, len(answer.demands)):
            break
        now = answer.demands
        answer = _exists(Demands(now.tokens, now.who[kept], now.target[kept]), options or {})
    return answer


def _exists(demands: Demands, options: Mapping[str, Any]) -> Existence:
    z = demands.tokens[demands.who]
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
