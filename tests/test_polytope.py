"""The polytope K: vertices are leaders, and facets where the dimension allows."""

import pickle

import numpy as np
import pytest

import hardmax as hm
from hardmax.polytope import Polytope
from tests.problems import clouds, theory

pytestmark = pytest.mark.quick


def test_square():
    polytope = hm.limit(theory.SQUARE, hm.Hardmax(1)).polytope
    assert polytope.vertices.tolist() == [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    assert polytope.dimension == 2
    assert {frozenset(f) for f in polytope.facets.tolist()} == {frozenset(e) for e in ((0, 1), (1, 3), (3, 2), (2, 0))}
    around = polytope.outline.tolist()
    assert sorted(around) == [0, 1, 2, 3]
    assert {frozenset(e) for e in zip(around, [*around[1:], around[0]], strict=True)} == {
        frozenset(f) for f in polytope.facets.tolist()
    }
    assert repr(polytope) == "Polytope of dimension 2 with 4 vertices in dimension 2"


def test_point():
    polytope = hm.limit([[2.0, 1.0], [1.0, 0.5]], hm.Hardmax(1)).polytope
    assert (polytope.vertices.tolist(), polytope.dimension) == ([[2.0, 1.0]], 0)
    assert polytope.facets.shape == (0, 0)
    assert polytope.outline.tolist() == [0]


def test_segment():
    polytope = hm.limit([[1.0, 2.0, 3.0], [-2.0, -4.0, -6.0], [0.5, 1.0, 1.5]], hm.Hardmax(1)).polytope
    assert polytope.dimension == 1
    assert sorted(polytope.facets.ravel().tolist()) == [0, 1]
    assert polytope.outline.tolist() == [0, 1]


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_flat_polygon_in_space(scale):
    corners = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [-1, -1, 1]]) * scale
    polytope = Polytope(corners)
    assert polytope.dimension == 2
    assert len(polytope.facets) == 4
    assert sorted(polytope.outline.tolist()) == [0, 1, 2, 3]


def test_cube_and_simplex():
    cube = Polytope(np.array(list(np.ndindex(2, 2, 2)), float))
    assert cube.dimension == 3
    assert cube.facets.shape == (12, 3)  # two triangles a face
    with pytest.raises(ValueError, match=r"Only a polygon has an outline. Got dimension 3. Use `facets`."):
        _ = cube.outline
    simplex = Polytope(np.eye(6))
    assert (simplex.dimension, simplex.facets.shape) == (5, (6, 5))


def test_facets_stop_where_there_are_too_many():
    polytope = Polytope(np.eye(10))
    assert polytope.dimension == 9
    with pytest.raises(ValueError, match=r"dimension at most 8. Got dimension 9. Its vertices are known all the same"):
        _ = polytope.facets


@pytest.mark.parametrize("seed", range(5))
def test_vertices_are_leaders_and_each_is_exposed(seed):
    limit = hm.limit(clouds.gaussian(np.random.default_rng(seed), 60, 3), hm.Hardmax(0.5))
    vertices = limit.polytope.vertices
    assert np.array_equal(vertices, limit.tokens[limit.leaders])
    products = vertices @ vertices.T
    assert (products.argmax(axis=1) == np.arange(len(vertices))).all()
    assert set(limit.polytope.facets.ravel().tolist()) == set(range(len(vertices)))


def test_no_leader_no_polytope():
    limit = hm.limit([[1.0], [-1.0]], hm.Hardmax(0.5, [[-1.0]], any_A=True), max_layers=5)
    assert len(limit.leaders) == 0
    with pytest.raises(ValueError, match=r"A polytope needs at least one leader. Got none"):
        _ = limit.polytope


def test_a_polytope_can_be_pickled_also_with_its_facets() -> None:
    polytope = hm.limit(hm.configuration("square"), hm.Hardmax(0.5)).polytope
    facets = polytope.facets.tolist()
    again = pickle.loads(pickle.dumps(polytope))
    assert again.facets.tolist() == facets
    np.testing.assert_array_equal(again.vertices, polytope.vertices)


def test_a_polytope_flat_within_rounding_has_facets() -> None:
    flat = Polytope(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 4e-15]]))
    assert len(flat.facets) >= 2
