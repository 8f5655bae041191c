"""Figures of the papers show what their captions say."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from hardmax.figures import FIGURES, fig1_half_space, fig2_clusters, fig4_attracting_set, fig5_separation


@pytest.fixture(autouse=True)
def _headless():
    mpl.use("Agg")
    yield
    plt.close("all")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_draws(name: str) -> None:
    module = FIGURES[name]
    figure = module.draw(module.compute())
    figure.canvas.draw()
    assert module.TITLE.startswith(f"Figure {name[3:]}:")


def test_figure_1_has_the_sets_of_the_paper() -> None:
    plain, skewed = fig1_half_space.compute().values()
    assert plain.sets(0)[0].tolist() == [1, 2]  # C_1 = {2, 3}
    assert skewed.sets(0)[0].tolist() == [3]  # C_1 = {4}


def test_figure_2_has_its_panels() -> None:
    rows = fig2_clusters.compute()
    assert [len(run.leaders) for run in rows.values()] == [3, 3, 4, 4]
    figure = fig2_clusters.draw(rows)
    assert len(figure.axes) == 20
    assert [ax.get_title() for ax in figure.axes[:5]] == [f"layer {k}" for k in (0, 1, 2, 5, 30)]
    shaded = [bool(ax.patches) for ax in figure.axes]
    assert shaded == [False, False, False, False, True] * 4


def test_figure_4_names_the_first_layer_inside() -> None:
    trajectory, end, inside = fig4_attracting_set.compute()
    distances = np.linalg.norm(trajectory.tokens[:, :, None] - end.points, axis=-1).min(axis=2).max(axis=1)
    assert distances[inside] < fig4_attracting_set.DELTA <= distances[inside - 1]


def test_figure_5_separates_up_to_delta_and_not_beyond() -> None:
    result, rng = fig5_separation.compute(), np.random.default_rng(0)
    directions = rng.normal(size=(20000, 2, 2))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    for factor, separated in ((0.999, True), (1.02, False)):
        x = result.points[0] + factor * result.delta * directions[:, 0]
        gaps = [
            (x * (x - s)).sum(axis=1) - factor * result.delta * np.linalg.norm(x, axis=1) for s in result.points[1:]
        ]
        assert (min(gap.min() for gap in gaps) > 0) == separated
