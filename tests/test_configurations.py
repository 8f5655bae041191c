"""Named token sets are those of Figure 2, and certified."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.configurations import CONFIGURATIONS, PAPER_CONFIGURATIONS

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", PAPER_CONFIGURATIONS)
@pytest.mark.parametrize("seed", range(20))
def test_the_papers_configurations_are_certified(name: str, seed: int) -> None:
    assert hm.limit(hm.configuration(name, seed=seed), hm.Hardmax(0.5)).certified


def test_what_figure_2_shows() -> None:
    ends = {
        name: hm.limit(hm.configuration(name), hm.Hardmax(0.5))
        for name in PAPER_CONFIGURATIONS
    }
    assert ends["triangle"].points.tolist() == [[1, 1], [0.5, -0.5], [-1, -1]]
    assert ends["emerging-leader"].emerged.tolist() == [0, 1, 0]
    assert len(ends["square"].points) == len(ends["square"].leaders) == 4
    assert sorted(ends["edge-clusters"].points[4:].tolist()) == [[-1, 0], [1, 0]]


def test_random_ones() -> None:
    assert np.allclose(np.linalg.norm(hm.configuration("sphere", n=50, d=4), axis=1), 1)
    inside = np.linalg.norm(hm.configuration("ball", n=2000, d=3), axis=1)
    assert inside.max() < 1
    assert (
        abs((inside**3).mean() - 0.5) < 0.05
    )  # uniform: the cube of the radius is uniform on [0, 1]
    for name in CONFIGURATIONS:
        assert np.array_equal(
            hm.configuration(name, seed=5), hm.configuration(name, seed=5)
        )
    assert hm.configuration("gaussian", n=3, d=7).shape == (3, 7)
