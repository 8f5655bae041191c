"""The polytope K: its vertices are leaders, and it has facets up to a dimension."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.polytope import Polytope
from tests.problems import theory, token_sets

pytestmark = pytest.mark.quick

SIDES = {(0, 1), (1, 3), (2, 3), (0, 2)}  # of the square, by its corners


def test_square():
    polytope = hm.limit(theory.SQUARE, hm.Hardmax(1)).polytope
    assert polytope.vertices.tolist() == [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    assert polytope.dimension == 2
    around = polytope.outline.tolist()
    assert {
        tuple(sorted(edge))
        for edge in zip(around, [*around[1:], around[0]], strict=True)
    } == SIDES
    assert {tuple(sorted(facet)) for facet in polytope.facets.tolist()} == SIDES
    assert repr(polytope) == "Polytope of dimension 2 with 4 vertices in dimension 2"


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize(
    ("vertices", "dimension", "facets", "outline"),
    [
        ([[2, 1]], 0, set(), [0]),
        ([[1, 2, 3], [-2, -4, -6]], 1, {(0,), (1,)}, [0, 1]),
        ([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [-1, -1, 1]], 2, SIDES, [0, 1, 2, 3]),
    ],
    ids=["point", "segment", "polygon in space"],
)
def test_flat_polytopes(vertices, dimension, facets, outline, scale):
    polytope = Polytope(np.array(vertices) * scale)
    assert polytope.dimension == dimension
    assert {tuple(sorted(facet)) for facet in polytope.facets.tolist()} == facets
    assert sorted(polytope.outline.tolist()) == outline
    assert (
        len(Polytope(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 4e-15]])).facets)
        >= 2
    )  # within rounding


def test_cube_and_simplex():
    cube = Polytope(np.array(list(np.ndindex(2, 2, 2)), float))
    assert cube.dimension == 3
    assert cube.facets.shape == (12, 3)  # two triangles a face
    with pytest.raises(hm.InputError, match="Only a polygon has an outline"):
        _ = cube.outline
    simplex = Polytope(np.eye(6))
    assert (simplex.dimension, simplex.facets.shape) == (5, (6, 5))


def test_facets_stop_where_there_are_too_many():
    polytope = Polytope(np.eye(10))
    assert polytope.dimension == 9
    with pytest.raises(hm.InputError, match="dimension at most 8"):
        _ = polytope.facets


@pytest.mark.parametrize("seed", range(5))
def test_vertices_are_leaders_and_each_is_exposed(seed):
    limit = hm.limit(
        token_sets.gaussian(np.random.default_rng(seed), 60, 3), hm.Hardmax(0.5)
    )
    vertices = limit.polytope.vertices
    assert np.array_equal(vertices, limit.tokens[limit.leaders])
    products = vertices @ vertices.T
    assert (products.argmax(axis=1) == np.arange(len(vertices))).all()
    assert set(limit.polytope.facets.ravel().tolist()) == set(range(len(vertices)))


def test_no_leader_no_polytope():
    limit = hm.limit(
        [[1.0], [-1.0]], hm.Hardmax(0.5, [[-1.0]], any_A=True), max_layers=5
    )
    assert len(limit.leaders) == 0
    with pytest.raises(hm.InputError, match="at least one leader"):
        _ = limit.polytope
