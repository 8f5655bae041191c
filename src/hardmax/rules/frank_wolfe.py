"""Attention as a Frank-Wolfe step (arXiv 2508.09628)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hardmax import _validation
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, BoolArray
from hardmax.exact.thresholds import find_vertices, sets_within
from hardmax.rules.base import SetAttention
from hardmax.search.sets import Classes

OPEN_LOOP = "2/(t+2)"  # the usual step sizes of the Frank-Wolfe method


@dataclass(frozen=True, eq=False, repr=False)
class FrankWolfe(SetAttention):
    """Move each token towards the vertex of the hull of the tokens that maximises ⟨B
    x_i, v⟩.

    x_i <- x_i + gamma_t (v_i - x_i),
    v_i = argmax ⟨B x_i, v⟩ over the vertices v of conv(x_1, ..., x_n).

    For symmetric B this is a step of the Frank-Wolfe method that maximises ⟨B x, x⟩/2
    over the hull. Keys are points: equal tokens count once. Where several vertices are
    maximal, the token moves towards their mean. Without such ties a step is that of
    `Hardmax(gamma/(1 - gamma), B, any_A=True)`.

    `limit` runs it in rational arithmetic, and so does `simulate`, which rounds the
    tokens that it returns; `attention` of a trajectory is that of the rounded tokens.
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
    >>> hm.simulate(tokens, hm.FrankWolfe(steps=0.5), layers=1).array[-1][4]
    array([0.75, 0.  ])
    >>> hm.limit(tokens, hm.FrankWolfe(steps=0.5)).exact()[4].tolist()
    [Fraction(1, 1), Fraction(0, 1)]
    >>> hm.limit(tokens, hm.Hardmax(alpha=1)).exact()[4].tolist()
    [Fraction(1, 1), Fraction(1, 1)]
    """

    B: ArrayLike | None = None
    steps: float | Fraction | str | Sequence[float | Fraction] = OPEN_LOOP
    _matrix = "B"

    def __post_init__(self) -> None:
        if self.B is not None:
            self._set(B=_validation.check_matrix(self.B, any_A=True, name="B"))
        gammas = (
            ()
            if isinstance(self.steps, str)
            else _validation.check_alpha(self.steps, "steps")
        )
        if isinstance(self.steps, str) and self.steps != OPEN_LOOP:
            must = f'be a number, a sequence or "{OPEN_LOOP}"'
            raise ParameterError("steps", must, _validation.shortened(self.steps))
        if gammas and max(gammas) > 1:
            raise ParameterError(
                "steps",
                "lie in (0, 1]",
                _validation.shortened(max(gammas)),
                "A typical value is 1/2.",
            )
        if gammas:
            self._set(steps=gammas[0] if len(gammas) == 1 else gammas)
        self._set(_gammas=gammas)

    def step(self, k: int) -> Fraction:
        """Return gamma of layer k, counted from 0, as a Fraction."""
        gammas: tuple[Fraction, ...] = self._gammas  # type: ignore[attr-defined]
        return gammas[min(k, len(gammas) - 1)] if gammas else Fraction(2, int(k) + 2)

    def has_full_step(self, k: int) -> bool:
        """Return whether a step from layer k on is 1: then tokens are at the mean of
        their targets.
        """
        last = len(self._gammas)  # type: ignore[attr-defined]
        return any(self.step(layer) == 1 for layer in range(k, max(k + 1, last)))

    def sets(self, tokens: AnyArray, points: AnyArray | None = None) -> BoolArray:
        """Return which of distinct tokens each of them, or each point, moves towards:
        exact sets of vertices.
        """
        sets = sets_within(tokens, self.B, Fraction(0), points=points)  # type: ignore[arg-type]
        for i in np.flatnonzero(sets.sum(axis=1) > 2):
            tied = np.flatnonzero(sets[i])
            sets[i] = False
            sets[i, tied[find_vertices(tokens[tied])]] = True
        return sets

    def _weights(self, tokens: AnyArray, k: int) -> AnyArray:
        classes = Classes.of(tokens)
        return (self.sets(classes.rows) / classes.counts)[
            np.ix_(classes.labels, classes.labels)
        ]
