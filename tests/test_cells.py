"""Cells of attention: membership in exact arithmetic, and rays in the plane."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import hardmax as hm

pytestmark = [pytest.mark.quick, pytest.mark.portable]


def cross(a, b):
    return a[0] * b[1] - a[1] * b[0]


@pytest.mark.parametrize("seed", range(40))
def test_rays_bound_the_points_of_each_cell(seed):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(-4, 5, (rng.integers(1, 12), 2)).astype(float)
    A = rng.integers(-3, 4, (2, 2)) if seed % 2 else None
    if A is not None and abs(cross(*A)) == 0:
        A = np.eye(2)
    cells = hm.cells(tokens, A)
    points = [
        [Fraction(int(x), 8), Fraction(int(y), 8)]
        for x, y in rng.integers(-8, 9, (40, 2))
    ]
    inside = cells.contain(np.array(points, object))
    images = [
        p
        if A is None
        else [sum(int(a) * x for a, x in zip(row, p, strict=True)) for row in A]
        for p in points
    ]
    scores = [
        [x * Fraction(z[0]) + y * Fraction(z[1]) for z in tokens.tolist()]
        for x, y in images
    ]
    assert inside.tolist() == [[score == max(row) for score in row] for row in scores]
    for token, rays in cells.rays.items():
        for point, member in zip(points, inside[:, token], strict=True):
            if rays is None:
                assert member
            elif cross(*rays) == 0:  # a half-plane
                assert member == (cross(rays[0], point) >= 0)
            else:
                assert member == (
                    cross(rays[0], point) >= 0 and cross(point, rays[1]) >= 0
                )


def test_a_tie_is_decided_exactly():
    tokens = [[Fraction(1, 3), 1], [1, Fraction(1, 3)]]
    assert hm.cells(tokens).contain([[1, 1], [1, 1 + 2**-52]]).tolist() == [
        [True, True],
        [True, False],
    ]


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_membership_of_extreme_numbers_is_that_of_fractions(scale):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        tokens = rng.integers(-3, 4, (8, 2)) * scale
        A = rng.integers(-2, 3, (2, 2)).astype(float)
        exact = [[Fraction(x) for x in row] for row in tokens.tolist()]
        for point, row in zip(exact, hm.cells(tokens, A).contain(tokens), strict=True):
            image = [
                sum(Fraction(a) * x for a, x in zip(r, point, strict=True))
                for r in A.tolist()
            ]
            scores = [sum(a * b for a, b in zip(image, z, strict=True)) for z in exact]
            assert row.tolist() == [score == max(scores) for score in scores]


def test_integers_beyond_floats_are_points():
    cells = hm.cells([[2**60, 0], [2**60, 1]])
    assert cells.contain([[2**60 + 1, 0], [1, -1]]).tolist() == [
        [True, True],
        [True, False],
    ]
    assert cells.contain(np.empty((0, 2))).shape == (0, 2)


def test_a_rule_has_the_cells_of_its_matrix():
    tokens, B = [[1, 0], [0, 1], [-1, -1]], [[0, 2], [1, 0]]
    for rule in (hm.FrankWolfe(B), hm.Hardmax(1, B, any_A=True)):
        assert hm.cells(tokens, rule).rays == hm.cells(tokens, B).rays
    assert hm.cells(tokens, hm.FrankWolfe()).rays == hm.cells(tokens).rays


def test_a_vertex_owns_its_cell_if_the_product_falls_towards_its_neighbours():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tokens, B = rng.normal(size=(9, 2)), rng.normal(size=(2, 2))
        vertices = ConvexHull(tokens).vertices  # counterclockwise
        own = hm.cells(tokens, B).contain(tokens[vertices])
        for k, v in enumerate(vertices):
            neighbours = tokens[[vertices[k - 1], vertices[(k + 1) % len(vertices)]]]
            falls = ((neighbours - tokens[v]) @ B @ tokens[v] < 0).all()
            assert falls == (np.flatnonzero(own[k]).tolist() == [v])


def test_membership_in_space_is_the_argmax_set():
    rng = np.random.default_rng(1)
    tokens, points = rng.normal(size=(30, 5)), rng.normal(size=(50, 5))
    sets = hm.argmax_sets(points, tokens)
    assert [
        np.flatnonzero(row).tolist() for row in hm.cells(tokens).contain(points)
    ] == [sets[i].tolist() for i in range(50)]


def test_polygons_are_counterclockwise_and_cover_the_circle():
    tokens = hm.configuration("gaussian", n=30)
    cells = hm.cells(tokens, [[2.0, 1.0], [1.0, 1.0]])
    angles = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    inside = cells.contain(np.column_stack([np.cos(angles), np.sin(angles)]))
    assert inside[:, cells.owners].any(axis=1).all()
    for token in cells.owners:
        polygon = cells.polygon(token, 3.0)
        assert np.linalg.norm(polygon[1:], axis=1).min() > 3
        assert cells.contain(polygon[1:].mean(axis=0)[None])[0, token]
    assert hm.cells([[1.0, 1.0]]).polygon(0, 1.0).shape == (4, 2)
