"""Which tokens can lead at all (Theorem 5), by linear programmes.

Token i leads at layer 0 for some symmetric positive definite A if and only if z_i is not 0 and is a vertex of the hull
of all tokens and 0: with p = A z_i, ⟨p, z_i⟩ > 0 and ⟨p, z_i - z_j⟩ > 0; and such a p gives
A = ppᵀ/⟨p, z_i⟩ + t (I - z_i z_iᵀ/|z_i|²). Each programme has the vertices known so far as its rows, not all tokens,
and a token that it cannot rule out names a new vertex (Clarkson, "More output-sensitive geometric algorithms", 1994).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linprog

from hardmax._types import BoolArray, FloatArray
from hardmax.control.demands import check_token_set, scaled
from hardmax.exact.argmax import argmax_sets
from hardmax.search.sets import Classes

FORWARD_TOL = 1e-8  # by which each must point forward, as a part of its length: programmes are solved to about 1e-9


def can_lead(tokens: Any, *, progress: Callable[[int, int], None] | None = None) -> BoolArray:
    """Find the tokens that lead at layer 0 for some symmetric positive definite A.

    Parameters
    ----------
    tokens : (n, d) array
    progress : callable, optional
        Called with (tokens looked at, tokens in all).

    Returns
    -------
    (n,) bool array
        Equal tokens have equal answers: they lead as one, and where all are equal they do. A token that stands out from
        the hull of the others by less than 1e-8 of its distance to them counts as inside.

    Raises
    ------
    ParameterError
        If `tokens` are not one cloud of finite numbers.
    ParameterTypeError
        If they are not real numbers.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.control.can_lead([[1, 1], [1, -1], [-1, 0], [0.9, 0], [0, 0]])
    array([ True,  True,  True, False, False])

    Theorem 5 of this project (docs/control.md).
    """
    array = check_token_set(tokens, "Ask cloud by cloud.")
    classes = Classes.of(array)
    if len(classes) == 1:
        return np.ones(len(array), bool)
    hull = Vertices(scaled(classes.rows))
    answers = np.zeros(len(classes), bool)
    for i in range(len(classes)):
        answers[i] = hull.has(i)
        if progress:
            progress(i + 1, len(classes))
    return answers[classes.labels]


class Vertices:
    """The vertices of conv(tokens and 0), found one by one as they are asked for."""

    def __init__(self, tokens: FloatArray) -> None:
        self.tokens = tokens  # (m, d) distinct
        sets = argmax_sets(tokens)  # who leads for A = I is a vertex; the longest token is one of them
        self.known = {int(i) for i in np.flatnonzero(sets.sizes == 1) if sets[int(i)][0] == i and tokens[i].any()}

    def has(self, i: int) -> bool:
        if not self.tokens[i].any():
            return False
        while i not in self.known:
            # A direction in which z_i is ahead of 0 and of every known vertex
            ahead = np.vstack([self.tokens[i], self.tokens[i] - self.tokens[sorted(self.known)]])
            p = forward_direction(ahead)
            if p is None or (vertex := self._farthest(p)) in self.known:  # none, or by rounding one that shows no more
                return False
            self.known.add(vertex)
        return True

    def _farthest(self, p: FloatArray) -> int:
        """The token farthest along p; of several on one face, a vertex of that face."""
        values = self.tokens @ p
        face = np.flatnonzero(values >= values.max() - 1e-12 * (np.abs(values).max() or 1.0))
        return int(face[np.lexsort(self.tokens[face].T)[-1]])


def forward_direction(vectors: FloatArray) -> FloatArray | None:
    """The p, |p| <= 1 in each coordinate, whose smallest ⟨p, v⟩ / |v| is largest; None where that is not positive."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    d = units.shape[1]
    found = linprog(  # maximise s such that <p, unit> >= s for all
        np.r_[np.zeros(d), -1.0],
        A_ub=np.column_stack([-units, np.ones(len(units))]),
        b_ub=np.zeros(len(units)),
        bounds=[(-1, 1)] * d + [(0, None)],
    )
    return None if found.x is None or found.x[d] <= FORWARD_TOL else np.asarray(found.x[:d])
