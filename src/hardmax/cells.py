"""Cells of attention: for each token, the points whose argmax set contains it."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import ParameterError
from hardmax._exact import to_fractions
from hardmax._types import AnyArray, BoolArray, FloatArray
from hardmax._validation import check_matrix, check_tokens
from hardmax.exact.thresholds import sets_within
from hardmax.rules.frank_wolfe import FrankWolfe
from hardmax.rules.hardmax import Hardmax
from hardmax.rules.localmax import Localmax

Vector: TypeAlias = tuple[Fraction, Fraction]


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of tokens: the cell of token l is the set of x with ⟨A x, z_l - z_j⟩ >= 0 for all j.

    A cell is a cone with its apex at 0. In the plane, cells with an interior are those of the vertices of the hull of
    the tokens, and `rays` bounds them exactly.

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
        """Return whether each point is in the cell of each token, (points, n), in exact arithmetic."""
        found = np.asarray(points)
        if found.ndim != 2 or found.shape[1] != self.tokens.shape[1]:
            must = f"have the shape (points, {self.tokens.shape[1]})"
            raise ParameterError("points", must, f"{found.shape}")
        return sets_within(self.tokens, self.A, Fraction(0), points=found)

    @property
    def owners(self) -> list[int]:
        """Tokens in the plane whose cell has an interior: one token per vertex of the hull, counterclockwise."""
        return list(self.rays)

    @property
    def rays(self) -> dict[int, tuple[Vector, Vector] | None]:
        """The exact directions between which each cell in the plane lies, counterclockwise; None is the whole plane.

        The directions of a half-plane are opposite, with the half-plane to the left of the first.
        """
        if self.tokens.shape[1] != 2:
            raise ParameterError("tokens", "lie in the plane to have rays", f"dimension {self.tokens.shape[1]}")
        points = [(x, y) for x, y in to_fractions(self.tokens)]
        hull = _find_hull(points)
        if len(hull) == 1:
            return {hull[0]: None}
        inverse = _invert(self.A)
        found: dict[int, tuple[Vector, Vector] | None] = {}
        for k, vertex in enumerate(hull):
            before, after = points[hull[k - 1]], points[hull[(k + 1) % len(hull)]]
            here = points[vertex]
            # Outward normals of the edges before and after the vertex bound its normal cone.
            first, last = ((e[1], -e[0]) for e in (_subtract(here, before), _subtract(after, here)))
            images = tuple(tuple(sum(row[s] * y[s] for s in range(2)) for row in inverse) for y in (first, last))
            found[vertex] = images if _cross(inverse[0], inverse[1]) > 0 else images[::-1]  # type: ignore[assignment]
        return found

    def polygon(self, token: int, radius: float) -> FloatArray:
        """Return the corners, (m, 2), of the cell of a token in the plane, cut off beyond the distance `radius`."""
        rays = self.rays.get(token, ())
        if rays == ():
            return np.empty((0, 2))
        if rays is None:
            angles = np.pi / 2 * np.arange(4)
            return 2 * radius * np.column_stack([np.cos(angles), np.sin(angles)])
        first, last = (np.arctan2(float(y), float(x)) for x, y in rays)
        span = (last - first) % (2 * np.pi) or np.pi
        angles = first + span * np.linspace(0, 1, 4)
        arc = 2 * radius * np.column_stack([np.cos(angles), np.sin(angles)])
        return np.vstack([[0, 0], arc])


def cells(tokens: Any, A: Any = None) -> Cells:
    """Return the cells of tokens: for every point of space, the tokens that it attends to under `Hardmax`.

    Parameters
    ----------
    tokens : (n, d) array
        Floats, integers or Fractions.
    A : (d, d) array or rule, optional
        The matrix of the inner product, or `Hardmax`, `FrankWolfe` or `Localmax` with theirs; the default is the
        identity. In the plane it must be invertible.

    Returns
    -------
    Cells
        `contain` decides membership in any dimension; `rays` and `polygon` describe cells in the plane.

    Examples
    --------
    >>> import hardmax as hm
    >>> sorted(hm.cells([[1, 1], [1, -1], [-1, -1], [-1, 1]]).owners)
    [0, 1, 2, 3]
    """
    array, _ = check_tokens(tokens)
    if array.ndim != 2:
        raise ParameterError("tokens", "be one token set of shape (n, d)", f"shape {array.shape}")
    A = A.B if isinstance(A, FrankWolfe) else A.A if isinstance(A, Hardmax | Localmax) else A
    matrix = None if A is None else check_matrix(A, any_A=True)
    if matrix is not None and matrix.shape != (array.shape[1],) * 2:
        raise ParameterError("A", f"have the size of the tokens, {array.shape[1]}", f"shape {matrix.shape}")
    return Cells(array, matrix)


def _find_hull(points: Sequence[Vector]) -> list[int]:
    """Return the indices of the vertices of the convex hull, counterclockwise, by Andrew's monotone chain."""
    order = sorted({point: i for i, point in reversed(list(enumerate(points)))}.items())  # the first of equal points
    if len(order) == 1:
        return [order[0][1]]

    def half(ordered: list[tuple[Vector, int]]) -> list[tuple[Vector, int]]:
        chain: list[tuple[Vector, int]] = []
        for point, i in ordered:
            while len(chain) > 1 and _cross(_subtract(chain[-1][0], chain[-2][0]), _subtract(point, chain[-1][0])) <= 0:
                chain.pop()
            chain.append((point, i))
        return chain[:-1]

    return [i for _, i in [*half(order), *half(order[::-1])]]


def _subtract(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1]


def _cross(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return a[0] * b[1] - a[1] * b[0]


def _invert(A: AnyArray | None) -> list[Vector]:
    """Return a positive multiple of the inverse of a 2 x 2 matrix, which maps directions alike."""
    if A is None:
        return [(Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))]
    (a, b), (c, d) = to_fractions(A)
    determinant = a * d - b * c
    if determinant == 0:
        raise ParameterError("A", "be invertible", "a singular matrix", "Use `contain` for membership.")
    sign = 1 if determinant > 0 else -1
    return [(sign * d, -sign * b), (-sign * c, sign * a)]
