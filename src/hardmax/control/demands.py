"""Demands on layer 0: token i shall choose exactly token t, so ⟨A z_i, z_t - z_j⟩ > 0 for every other token j.

Each is linear in A. Rows are divided by |z_i| |z_t - z_j|, so that a margin has one meaning for all of them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from hardmax._arrays import unit_rows
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, Array, FloatArray, IntArray
from hardmax._validation import check_tokens
from hardmax.control.refutation import as_fractions
from hardmax.search.rounding import Scaled

CELLS = 1 << 22  # products at a time


@dataclass(frozen=True, eq=False)
class Demands:
    """Token `chooser[r]` shall choose `target[r]` alone; a leader is its own target."""

    given: AnyArray  # (n, d) distinct tokens, floats or Fractions
    tokens: FloatArray  # (n, d) the same as `scaled` gives them
    chooser: IntArray  # (r,)
    target: IntArray  # (r,)

    def __len__(self) -> int:
        return len(self.chooser)

    def subset(self, kept: IntArray) -> "Demands":
        return Demands(self.given, self.tokens, self.chooser[kept], self.target[kept])

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
        return unit_rows(self.tokens[self.chooser[pairs[:, 0]]]), unit_rows(self._ahead(pairs))

    def lengths(self, pairs: IntArray) -> FloatArray:
        return _norms(self.tokens[self.chooser[pairs[:, 0]]]) * _norms(self._ahead(pairs))

    def exact(self, pairs: IntArray) -> tuple[AnyArray, AnyArray]:
        """z_i and z_t - z_j of the tokens as they were given, each (pairs, d) Fractions."""
        z, target, rival = (
            as_fractions(self.given[i]) for i in (self.chooser[pairs[:, 0]], self.target[pairs[:, 0]], pairs[:, 1])
        )
        return z, target - rival

    def margin(self, A: FloatArray) -> float:
        """The smallest gap of all; infinite where nothing is asked."""
        gaps, _ = self.tightest(A, 1, 1)
        return float(gaps[0]) if len(gaps) else np.inf

    def _ahead(self, pairs: IntArray) -> FloatArray:
        return self.tokens[self.target[pairs[:, 0]]] - self.tokens[pairs[:, 1]]

    def tightest(self, A: FloatArray, per: int, most: int) -> tuple[FloatArray, IntArray]:
        """The `per` smallest gaps of each demand, of these the `most` smallest, in order, and their pairs."""
        per = min(per, len(self.tokens) - 1)
        if not per or not len(self):
            return np.zeros(0), np.zeros((0, 2), np.intp)
        step = max(1, CELLS // len(self.tokens))
        parts = np.split(np.arange(len(self)), range(step, len(self), step))
        pairs = np.concatenate([self._tightest(A, per, part) for part in parts])
        gaps = self.gaps(A, pairs)
        order = np.argsort(gaps, kind="stable")[:most]
        return gaps[order], pairs[order]

    def _tightest(self, A: FloatArray, per: int, rows: IntArray) -> IntArray:
        z, t = unit_rows(self.tokens[self.chooser[rows]]), self.target[rows]
        products = z @ A @ self.tokens.T  # (rows, n)
        apart = cdist(self.tokens[t], self.tokens)  # (rows, n)
        each = np.arange(len(rows))
        apart[each, t] = 1.0
        gaps = (products[each, t][:, None] - products) / apart
        gaps[each, t] = np.inf
        rivals = np.argpartition(gaps, per - 1, axis=1)[:, :per]
        return np.column_stack([np.repeat(rows, per), rivals.ravel()])

    def every_pair(self) -> IntArray:
        """All pairs (demand, rival), shape (r (n - 1), 2)."""
        grid = np.indices((len(self), len(self.tokens))).reshape(2, -1).T
        return np.asarray(grid[grid[:, 1] != self.target[grid[:, 0]]])


def scaled(rows: AnyArray) -> FloatArray:
    """Distinct tokens as floats with no entry above 1, so that no product overflows; a power of two loses nothing."""
    floats = Scaled.of(rows).values
    lost = (floats == 0).all(axis=1) != (rows == 0).all(axis=1)
    if lost.any() or len(np.unique(floats, axis=0)) < len(floats):
        must = "differ from each other and from 0 when they are divided by the largest entry and rounded to floats"
        advice = "Leave out tokens that are equal but for rounding, or those that are tiny."
        raise ParameterError("tokens", must, "some that do not", advice)
    return floats


def _norms(x: FloatArray) -> FloatArray:
    size = np.abs(x).max(axis=1)
    return np.asarray(size * np.linalg.norm(x / size[:, None], axis=1))


def check_token_set(tokens: Array, advice: str) -> AnyArray:
    """Return the tokens of one token set."""
    array, _ = check_tokens(tokens)
    if array.ndim == 3:
        raise ParameterError("tokens", "be one token set of shape (n, d)", f"a batch of shape {array.shape}", advice)
    return array
