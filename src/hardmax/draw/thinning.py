"""Which of very many tokens a picture shows.

A million markers take minutes and hide each other. Up to 20,000 tokens are all drawn. Of more, those that a picture is
about always are, and so are the corners of the cloud; the others are drawn by lot, the same on every run, and the
picture says how many.
"""

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from hardmax._types import FloatArray, IntArray

MOST_DRAWN = 20_000


def drawn_rows(points: FloatArray, always: IntArray, most: int | None = None) -> IntArray:
    """Which rows of points (n, 2 or 3) to draw, in their order."""
    n, most = len(points), most or MOST_DRAWN
    if n <= most:
        return np.arange(n)
    by_lot = np.random.default_rng(0).choice(n, most, replace=False)
    kept = np.unique(np.concatenate([always, corners(points)]))
    return np.union1d(kept, by_lot[: max(most - len(kept), 0)])


def corners(points: FloatArray) -> IntArray:
    """Rows that are extremal: along an axis, and vertices of the hull where it is not flat."""
    ends = np.concatenate([points.argmin(axis=0), points.argmax(axis=0)])
    try:
        return np.union1d(ends, ConvexHull(points).vertices)
    except QhullError:  # all on a line or in a plane
        return np.unique(ends)


def thinned_line(shown: int, n: int, what: str = "tokens") -> str:
    """What a picture says of it; nothing where all tokens are drawn."""
    return f"{shown:,} of {n:,} {what} drawn" if shown < n else ""
