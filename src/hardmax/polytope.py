"""The polytope K of a limit, whose vertices are the leaders, and convex hulls in exact
arithmetic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._errors import InputError
from hardmax._exact import to_fractions
from hardmax._types import AnyArray, FloatArray, IntArray

MAX_FACET_DIMENSION = 8  # the number of facets grows too fast beyond it


@dataclass(frozen=True, eq=False, repr=False)
class Polytope:
    """The convex hull of the leaders of a limit, as `Limit.polytope` has it.

    Attributes
    ----------
    vertices : (n_leaders, d) array
        In the order of `limit.leaders`.

    Examples
    --------
    >>> import hardmax as hm
    >>> polytope = hm.limit(hm.configuration("square"), hm.Hardmax(0.5)).polytope
    >>> polytope
    Polytope of dimension 2 with 4 vertices in dimension 2
    >>> polytope.outline.shape, polytope.facets.shape
    ((4,), (4, 2))
    """

    vertices: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", np.asarray(self.vertices))

    def __repr__(self) -> str:
        number, d = self.vertices.shape
        return (
            f"Polytope of dimension {self.dimension} with {number} vertices in"
            f" dimension {d}"
        )

    def __getstate__(self) -> dict[str, FloatArray]:
        return {
            "vertices": self.vertices
        }  # without Qhull's result, which cannot be pickled

    @cached_property
    def _inner(self) -> FloatArray:
        """Vertices in coordinates of their own affine hull, scaled to about 1:
        (n_leaders, dimension).
        """
        offsets = self.vertices - self.vertices[0]
        size = float(np.abs(offsets).max()) or 1.0
        _, scales, basis = np.linalg.svd(offsets / size, full_matrices=False)
        rank = int(
            (
                scales
                > max(offsets.shape) * np.finfo(np.float64).eps * (scales[0] or 1.0)
            ).sum()
        )
        return np.asarray(offsets / size @ basis[:rank].T)

    @cached_property
    def dimension(self) -> int:
        """Rank of the differences of the vertices: 0 for a point, 1 for a segment."""
        return self._inner.shape[1]

    @cached_property
    def facets(self) -> IntArray:
        """Facets as rows of vertex indices, triangulated: (n_facets, dimension). Points
        and segments by hand.

        Above dimension 8 they are too many to list, and refused.
        """
        if self.dimension == 0:
            return np.empty((0, 0), np.intp)
        if self.dimension == 1:
            line = self._inner[:, 0]
            return np.array([[line.argmin()], [line.argmax()]], np.intp)
        if self.dimension > MAX_FACET_DIMENSION:
            must = f"Facets need a polytope of dimension at most {MAX_FACET_DIMENSION}."
            advice = "Its vertices are known all the same: `polytope.vertices`."
            raise InputError(f"{must} Got dimension {self.dimension}. {advice}")
        return np.asarray(self._hull.simplices, np.intp)

    @cached_property
    def outline(self) -> IntArray:
        """Vertex indices in order around a polygon; for a point or a segment all of
        them.
        """
        if self.dimension > 2:
            raise InputError(
                f"Only a polygon has an outline. Got dimension {self.dimension}. Use"
                " `facets`."
            )
        if self.dimension < 2:
            return np.arange(len(self.vertices))
        return np.asarray(self._hull.vertices, np.intp)

    @cached_property
    def _hull(self) -> "scipy.spatial.ConvexHull":
        """Qhull on the vertices; where they are flat within rounding, with joggled
        input.
        """
        try:
            return scipy.spatial.ConvexHull(self._inner)
        except scipy.spatial.QhullError:
            return scipy.spatial.ConvexHull(self._inner, qhull_options="QJ")


def is_in_hull(point: Sequence[Any], points: AnyArray) -> bool:
    """Return whether a point is a convex combination of points (m, d), by the simplex
    method in rational arithmetic.
    """
    rows = [
        [Fraction(x) for x in (*column, b)]
        for column, b in zip(points.T.tolist(), point, strict=True)
    ]
    rows = [[-x for x in row] if row[-1] < 0 else row for row in rows] + [
        [Fraction(1)] * (len(points) + 1)
    ]
    m, basis = (
        len(points),
        [len(points) + r for r in range(len(rows))],
    )  # artificial variables come last
    while True:
        cost = [
            sum(column)
            for column in zip(*compress(rows, [b >= m for b in basis]), strict=True)
        ]
        if not cost or cost[-1] == 0:
            return True
        entering = next(
            (j for j in range(m) if cost[j] > 0), None
        )  # Bland's rule: no cycles
        if entering is None:
            return False
        candidates = [r for r, row in enumerate(rows) if row[entering] > 0]
        r = min(candidates, key=lambda r: (rows[r][-1] / rows[r][entering], basis[r]))
        pivot = [x / rows[r][entering] for x in rows[r]]
        rows = [
            [x - row[entering] * y for x, y in zip(row, pivot, strict=True)]
            for row in rows
        ]
        rows[r], basis[r] = pivot, entering


def find_vertices(points: AnyArray) -> list[int]:
    """Return the rows of (m, d) distinct points that are vertices of their convex hull."""
    if len(points) < 3:
        return list(range(len(points)))
    exact = to_fractions(points)
    if points.shape[1] == 2:
        return sorted(find_planar_hull([(x, y) for x, y in exact]))
    return [
        i
        for i in range(len(exact))
        if not is_in_hull(exact[i], np.delete(exact, i, axis=0))
    ]


Vector: TypeAlias = tuple[Fraction, Fraction]


def find_planar_hull(points: Sequence[Vector]) -> list[int]:
    """Return the indices of the vertices of the convex hull, counterclockwise, by
    Andrew's monotone chain.
    """
    order = sorted(
        {point: i for i, point in reversed(list(enumerate(points)))}.items()
    )  # the first of equal points
    if len(order) == 1:
        return [order[0][1]]

    def half(ordered: list[tuple[Vector, int]]) -> list[tuple[Vector, int]]:
        chain: list[tuple[Vector, int]] = []
        for point, i in ordered:
            while len(chain) > 1 and _turn(chain[-2][0], chain[-1][0], point) <= 0:
                chain.pop()
            chain.append((point, i))
        return chain[:-1]

    return [i for _, i in [*half(order), *half(order[::-1])]]


def _turn(a: Vector, b: Vector, c: Vector) -> Fraction:
    """Return a number that is positive where the path from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])
