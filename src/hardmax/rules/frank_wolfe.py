"""Attention as a Frank-Wolfe step (arXiv 2508.09628)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hardmax import _validation
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, Array, BoolArray
from hardmax._validation import like
from hardmax.exact.argmax import argmax_matrix
from hardmax.polytope import find_vertices
from hardmax.rules.base import Layered, token_sets
from hardmax.sets import Classes

OPEN_LOOP = "2/(t+2)"  # the usual step sizes of the Frank-Wolfe method


@dataclass(frozen=True, eq=False, repr=False)
class FrankWolfe(Layered):
    """Move each token towards the vertex of the hull of the tokens that maximises ⟨B
    x_i, v⟩.

    x_i <- x_i + gamma_t (v_i - x_i),
    v_i = argmax ⟨B x_i, v⟩ over the vertices v of conv(x_1, ..., x_n).

    For symmetric B this is a step of the Frank-Wolfe method that maximises ⟨B x, x⟩/2
    over the hull. Keys are points: equal tokens count once. Where several vertices are
    maximal, the token moves towards their mean. Without such ties a step is that of
    `Hardmax(gamma/(1 - gamma), B, any_A=True)`.

    `simulate` runs it in rational arithmetic, and rounds the tokens that it returns; `attention` of a trajectory is that of the rounded tokens.
    Beside other rules in a `Compose`, among heads on shared coordinates, and where
    gradients pass, tokens are rounded at every layer.

    Statements of arXiv 2508.09628 are used as a public formal transcription has them;
    the paper was not read.

    Parameters
    ----------
    B : (d, d) array, optional
        Any matrix; None is the identity. Floats or Fractions.
    steps : number, sequence of numbers or "2/(t+2)"
        Gamma in (0, 1], the exact value of a float, or a Fraction. A sequence has one
        per layer, the last one also later; "2/(t+2)" is 1, 2/3, 1/2, ...

    Examples
    --------
    A token tied between two equal tokens and a third one: Frank-Wolfe counts the two
    once, `Hardmax` twice, so that it leaves the middle and then follows the two alone.

    >>> import hardmax as hm
    >>> tokens = [[1, 1], [1, 1], [1, -1], [-1, 0], [0.5, 0]]
    >>> hm.simulate(tokens, hm.FrankWolfe(steps=0.5), layers=60).array[-1][4]
    array([1., 0.])
    >>> hm.simulate(tokens, hm.Hardmax(alpha=1), layers=60).array[-1][4]
    array([1., 1.])
    """

    B: ArrayLike | None = None
    steps: float | Fraction | str | Sequence[float | Fraction] = OPEN_LOOP
    _matrix = "B"

    def __post_init__(self) -> None:
        if self.B is not None:
            self._set(B=_validation.check_matrix(self.B, any_A=True, name="B"))
        gammas: tuple[Fraction, ...] = ()
        if not isinstance(self.steps, str):
            gammas = _validation.check_alpha(self.steps, "steps")
        elif self.steps != OPEN_LOOP:
            must = f'be a number, a sequence or "{OPEN_LOOP}"'
            raise ParameterError("steps", must, _validation.shortened(self.steps))
        if gammas:
            largest = max(gammas)
            if largest > 1:
                got = _validation.shortened(largest)
                advice = "A typical value is 1/2."
                raise ParameterError("steps", "lie in (0, 1]", got, advice)
            self._set(steps=gammas[0] if len(gammas) == 1 else gammas)
        self._set(_gammas=gammas)

    def step(self, k: int) -> Fraction:
        """Return gamma of layer k, counted from 0, as a Fraction."""
        gammas: tuple[Fraction, ...] = self._gammas  # type: ignore[attr-defined]
        if not gammas:
            return Fraction(2, int(k) + 2)
        return gammas[min(k, len(gammas) - 1)]

    def sets(self, tokens: AnyArray) -> BoolArray:
        """Return which of distinct tokens (n, d) each of them moves towards, (n, n):
        exact sets of vertices.
        """
        sets = argmax_matrix(tokens, tokens, self.B)  # type: ignore[arg-type]
        for i in np.flatnonzero(sets.sum(axis=1) > 2):
            tied = np.flatnonzero(sets[i])
            sets[i] = False
            sets[i, tied[find_vertices(tokens[tied])]] = True
        return sets

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        """Return the matrix that is uniform on the exact sets of these tokens, (..., n,
        n).
        """
        n = tokens.shape[-2]
        matrices = []
        for real_tokens, ids in token_sets(tokens, keys):
            classes = Classes.of(real_tokens)
            over_classes = self.sets(classes.rows) / classes.counts
            weights = over_classes[np.ix_(classes.labels, classes.labels)]
            P = np.zeros((n, n))
            P[np.ix_(ids, ids)] = weights / weights.sum(axis=1)[:, None]
            matrices.append(P)
        return like(np.reshape(matrices, (*tokens.shape[:-1], n)), tokens)

    def exact_layer(self, tokens: AnyArray, k: int) -> AnyArray:
        """Return tokens (n, d), Fractions, after a layer."""
        classes = Classes.of(tokens)
        means = np.empty(classes.rows.shape, object)
        for i, members in enumerate(self.sets(classes.rows)):
            means[i] = classes.rows[members].sum(axis=0) / Fraction(int(members.sum()))
        return tokens + self.step(k) * (means[classes.labels] - tokens)

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        means = self.attention(tokens, k, keys) @ tokens
        return tokens + float(self.step(k)) * (means - tokens)
