"""Demands on layer 0: token i shall choose exactly token t, so ⟨A z_i, z_t - z_j⟩ > 0 for every other token j.

Each is linear in A. Rows are divided by |z_i| |z_t - z_j|, so that a margin has one meaning for all of them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from hardmax._types import AnyArray, FloatArray, IntArray

CELLS = 1 << 22  # products at a time


@dataclass(frozen=True, eq=False)
class Demands:
    """Token `who[r]` shall choose `target[r]` alone; a leader is its own target."""

    tokens: FloatArray  # (n, d) distinct
    who: IntArray  # (r,)
    target: IntArray  # (r,)

    def __len__(self) -> int:
        return len(self.who)

    def rows(self, pairs: IntArray) -> FloatArray:
        """sym(z_i (z_t - z_j)ᵀ) / (|z_i| |z_t - z_j|) for pairs (demand, rival j), shape (pairs, d, d)."""
        z, ahead = self.units(pairs)
        products = z[:, :, None] * ahead[:, None, :]
        return (products + products.swapaxes(1, 2)) / 2

    def gaps(self, A: FloatArray, pairs: IntArray) -> FloatArray:
        """⟨A z_i, z_t - z_j⟩ / (|z_i| |z_t - z_j|), from differences, which cancel less than products."""
        z, ahead = self.units(pairs)
        return np.asarray(((z @ A) * ahead).sum(axis=1))

    def units(self, pairs: IntArray) -> tuple[FloatArray, FloatArray]:
        """z_i / |z_i| and (z_t - z_j) / |z_t - z_j| for pairs (demand, rival j), each (pairs, d)."""
        z = self.tokens[self.who[pairs[:, 0]]]
        ahead = self.tokens[self.target[pairs[:, 0]]] - self.tokens[pairs[:, 1]]
        return z / _norms(z), ahead / _norms(ahead)

    def tightest(self, A: FloatArray, per: int, most: int) -> tuple[FloatArray, IntArray]:
        """The `per` smallest gaps of each demand, of these the `most` smallest, in order, and their pairs."""
        per = min(per, len(self.tokens) - 1)
        if not per or not len(self):
            return np.zeros(0), np.zeros((0, 2), np.intp)
        step = max(1, CELLS // len(self.tokens))
        blocks = [self._tightest(A, per, np.arange(b, min(b + step, len(self)))) for b in range(0, len(self), step)]
        pairs = np.concatenate(blocks)
        gaps = self.gaps(A, pairs)
        order = np.argsort(gaps, kind="stable")[:most]
        return gaps[order], pairs[order]

    def _tightest(self, A: FloatArray, per: int, block: IntArray) -> IntArray:
        z, t = self.tokens[self.who[block]], self.target[block]
        products = z @ A @ self.tokens.T  # (block, n)
        apart = cdist(self.tokens[t], self.tokens)  # (block, n)
        each = np.arange(len(block))
        apart[each, t] = 1.0
        gaps = (products[each, t][:, None] - products) / (apart * _norms(z))
        gaps[each, t] = np.inf
        rivals = np.argpartition(gaps, per - 1, axis=1)[:, :per]
        return np.column_stack([np.repeat(block, per), rivals.ravel()])

    def every_pair(self) -> IntArray:
        """All pairs (demand, rival), shape (r (n - 1), 2)."""
        grid = np.indices((len(self), len(self.tokens))).reshape(2, -1).T
        return np.asarray(grid[grid[:, 1] != self.target[grid[:, 0]]])


def scaled(rows: AnyArray) -> FloatArray:
    """Distinct tokens as floats with no entry above 1, so that no product overflows; exact, being by a power of two."""
    _, exponent = np.frexp(float(np.abs(rows).max()))
    return np.ldexp(rows.astype(np.float64), -exponent)


def _norms(x: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(x, axis=1, keepdims=True))
