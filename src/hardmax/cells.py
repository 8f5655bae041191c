"""Cells of attention: for each token, the points whose argmax set contains it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import ParameterError
from hardmax._exact import to_fractions
from hardmax._types import AnyArray, BoolArray, FloatArray
from hardmax._validation import (
    as_array,
    check_count,
    check_matrix,
    check_positive,
    check_tokens,
    exact_numbers,
    to_numpy,
)
from hardmax.exact.argmax import argmax_matrix
from hardmax.polytope import Vector, find_planar_hull
from hardmax.rules.frank_wolfe import FrankWolfe
from hardmax.rules.hardmax import Hardmax


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of tokens: the cell of token l is the set of x with ⟨A x, z_l - z_j⟩ >=
    0 for all j.

    A cell is a cone with its apex at 0. In the plane, cells with an interior are those
    of the vertices of the hull of the tokens, and `rays` bounds them exactly.

    Attributes
    ----------
    tokens : (n, d) array
    A : (d, d) array or None
        None is the identity.

    Examples
    --------
    >>> import hardmax as hm
    >>> cells = hm.cells([[1, 0], [0, 1], [-1, -1], [0, 0]])
    >>> sorted(cells.owners)
    [0, 1, 2]
    >>> cells.contain([[2.0, 0.5]])[0].tolist()
    [True, False, False, False]
    """

    tokens: AnyArray
    A: AnyArray | None

    def contain(self, points: ArrayLike) -> BoolArray:
        """Return whether each point is in the cell of each token, (points, n), in exact
        arithmetic.
        """
        found = as_array(points, "points", "have rows of equal length")
        if found.ndim != 2 or found.shape[1] != self.tokens.shape[1]:
            must = f"have the shape (points, {self.tokens.shape[1]})"
            raise ParameterError("points", must, f"{found.shape}")
        exact = exact_numbers(found, "points")
        return argmax_matrix(exact, self.tokens, self.A)

    @property
    def owners(self) -> list[int]:
        """Tokens in the plane whose cell has an interior: one token per vertex of the
        hull, counterclockwise.
        """
        return list(self.rays)

    @cached_property
    def rays(self) -> dict[int, tuple[Vector, Vector] | None]:
        """The exact directions between which each cell in the plane lies,
        counterclockwise; None is the whole plane.

        The directions of a half-plane are opposite, with the half-plane to the left of
        the first.
        """
        if self.tokens.shape[1] != 2:
            raise ParameterError(
                "tokens",
                "lie in the plane to have rays",
                f"dimension {self.tokens.shape[1]}",
            )
        points = to_fractions(self.tokens)
        hull = find_planar_hull([(x, y) for x, y in points])
        if len(hull) == 1:
            return {hull[0]: None}
        (a, b), (c, d) = to_fractions(np.eye(2) if self.A is None else self.A)
        if a * d == b * c:
            raise ParameterError(
                "A",
                "be invertible",
                "a singular matrix",
                "Use `contain` for membership.",
            )
        sign = 1 if a * d > b * c else -1
        inverse = sign * np.array([[d, -b], [-c, a]])  # times a positive number
        edges = points[np.roll(hull, -1)] - points[hull]  # from each vertex to the next
        normals = np.column_stack([edges[:, 1], -edges[:, 0]]) @ inverse.T
        after = [(x, y) for x, y in normals]
        before = [after[-1], *after[:-1]]  # both bound the normal cone of the vertex
        first, last = (before, after) if sign > 0 else (after, before)
        return dict(zip(hull, zip(first, last, strict=True), strict=True))

    def polygon(self, token: int, radius: float) -> FloatArray:
        """Return the corners, (m, 2), of the cell of a token in the plane, cut off
        beyond the distance `radius`.
        """
        n = len(self.tokens)
        token = check_count(token, "token", least=0, most=n - 1)
        advice = "It has the unit of the tokens."
        radius = float(to_numpy(check_positive(radius, "radius", advice)))
        rays = self.rays.get(token, ())
        if rays == ():
            return np.empty((0, 2))
        angles = np.pi / 2 * np.arange(4)
        if rays is not None:
            first, last = (np.arctan2(float(y), float(x)) for x, y in rays)
            angles = first + ((last - first) % (2 * np.pi) or np.pi) * np.linspace(
                0, 1, 4
            )
        arc = 2 * radius * np.column_stack([np.cos(angles), np.sin(angles)])
        return arc if rays is None else np.vstack([[0, 0], arc])


def cells(tokens: Any, A: Any = None) -> Cells:
    """Return the cells of tokens: for every point of space, the tokens that it attends
    to under `Hardmax`.

    Parameters
    ----------
    tokens : (n, d) array
        Floats, integers or Fractions.
    A : (d, d) array or rule, optional
        The matrix of the inner product, or `Hardmax` or `FrankWolfe` with theirs; the
        default is the identity. In the plane it must be invertible.

    Returns
    -------
    Cells
        `contain` decides membership in any dimension; `rays` and `polygon` describe
        cells in the plane.

    Examples
    --------
    >>> import hardmax as hm
    >>> sorted(hm.cells([[1, 1], [1, -1], [-1, -1], [-1, 1]]).owners)
    [0, 1, 2, 3]
    """
    array, _ = check_tokens(tokens)
    if array.ndim != 2:
        raise ParameterError(
            "tokens", "be one token set of shape (n, d)", f"shape {array.shape}"
        )
    if isinstance(A, FrankWolfe):
        A = A.B
    elif isinstance(A, Hardmax):
        A = A.A
    matrix = None if A is None else check_matrix(A, any_A=True)
    if matrix is not None and matrix.shape != (array.shape[1],) * 2:
        raise ParameterError(
            "A",
            f"have the size of the tokens, {array.shape[1]}",
            f"shape {matrix.shape}",
        )
    return Cells(array, matrix)
