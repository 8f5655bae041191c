"""The polytope K of a limit, whose vertices are the leaders."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._errors import InputError
from hardmax._types import FloatArray, IntArray

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
