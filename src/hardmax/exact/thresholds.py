"""Exact sets of keys within a threshold of the largest product, and membership in a
convex hull.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import compress
from typing import Any

import numpy as np

from hardmax._exact import (
    UNIT,
    apply,
    dot,
    over_one_denominator,
    to_fraction,
    to_fractions,
)
from hardmax._types import AnyArray, BoolArray


def sets_within(
    tokens: AnyArray,
    A: AnyArray | None,
    eps: Fraction,
    *,
    relative: bool = False,
    points: AnyArray | None = None,
) -> BoolArray:
    """Return which tokens j have ⟨A x_i, z_j⟩ >= max - eps for each point x_i, (points,
    n), as in real arithmetic.

    The points are the tokens unless others are given. With `relative` the threshold is
    eps |A x_i| max_j |z_j|. Floats decide where their error bound allows it, integers
    elsewhere.
    """
    points = tokens if points is None else points
    x, z = points.astype(np.float64), tokens.astype(np.float64)
    images, sizes = (
        (x, np.abs(x))
        if A is None
        else (x @ A.T.astype(float), np.abs(x) @ np.abs(A.T.astype(float)))
    )
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scores = images @ z.T  # (points, n)
        d, largest = z.shape[1], (sizes @ np.abs(z).T).max(axis=1)
        size = float(
            min(eps, Fraction(10**300))
        )  # of a larger one products are compared exactly
        reach = np.full(len(x), size)
        if relative:
            reach *= np.linalg.norm(images, axis=1) * np.linalg.norm(z, axis=1).max()
        bound = (16 * d * d * UNIT * (largest + reach + size * d * largest) + 1e-290)[
            :, None
        ]
        least = (scores.max(axis=1) - reach)[:, None]
        inside, sure = scores >= least - 2 * bound, scores >= least + 2 * bound
        open_rows = ((inside & ~sure).any(axis=1) & (inside.sum(axis=1) > 1)) | ~(
            largest + reach < 1e299
        )
    if not open_rows.any():
        return np.asarray(inside)
    keys, D = over_one_denominator(tokens)
    queries, C = over_one_denominator(points)
    rows, E = (None, 1) if A is None else over_one_denominator(A)
    p, q = eps.as_integer_ratio()
    longest = max(dot(key, key) for key in keys)
    for i in np.flatnonzero(open_rows).tolist():
        image = apply(rows, queries[i])
        products = [dot(image, key) for key in keys]  # over C D E
        gaps, limit = [max(products) - s for s in products], p * C * D * E
        if relative:
            gaps, limit = (
                [(gap * q) ** 2 for gap in gaps],
                p * p * dot(image, image) * longest,
            )
        else:
            gaps = [gap * q for gap in gaps]
        inside[i] = [gap <= limit for gap in gaps]
    return np.asarray(inside)


def is_in_hull(point: Sequence[Any], points: AnyArray) -> bool:
    """Return whether a point is a convex combination of points (m, d), by the simplex
    method in rational arithmetic.
    """
    rows = [
        [to_fraction(x) for x in (*column, b)]
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
    return [
        i
        for i in range(len(exact))
        if not is_in_hull(exact[i], np.delete(exact, i, axis=0))
    ]
