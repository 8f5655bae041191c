"""Pictures of flows show what they claim: colours, stars, hulls, ranks, connections."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from mpl_toolkits.mplot3d import Axes3D, proj3d
from mpl_toolkits.mplot3d.art3d import Line3DCollection
from PIL import Image

import hardmax as hm
from hardmax.draw import flows, movies
from hardmax.draw.flows import plot_attention, rank_clusters
from hardmax.draw.projection import Projection
from hardmax.draw.style import COLOURS, REST
from hardmax.draw.tokens import plot_layers, plot_tokens
from hardmax.figures.attention_in_time import MIN_WEIGHT, plot_connections
from tests.test_draw import drawn

pytestmark = pytest.mark.usefixtures("headless")


def uniform(n: int, d: int, seed: int = 1, side: float = 5.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-side, side, (n, d))


@pytest.fixture(scope="module")
def plane() -> hm.SmoothTrajectory:
    return hm.simulate(uniform(30, 2), hm.SelfAttention(), times=10)


def free_axis(d: int, times: float = 12.0) -> hm.SmoothTrajectory:
    """Tokens that gather in d - 1 coordinates and grow without bound in the last."""
    V = np.diag([*[1.0] * (d - 1), -0.9])
    return hm.simulate(uniform(12, d), hm.SelfAttention(V=V), times=times)


def test_tokens_have_the_colour_of_their_cluster_and_leaders_are_stars(plane) -> None:
    (stars,) = drawn(plot_tokens(plane))  # every follower is under one
    assert np.allclose(stars.get_offsets(), plane.rescaled[-1, plane.leaders])
    clusters = rank_clusters(plane)
    sizes = np.bincount(clusters)
    assert (np.diff(sizes) <= 0).all()  # the largest cluster has the first colour
    assert [to_hex(c) for c in stars.get_facecolors()] == [
        COLOURS[g].lower() for g in clusters[plane.leaders]
    ]
    early = 15
    circles, stars = drawn(plot_tokens(plane, early))
    Z, lead = plane.rescaled[early], flows.is_leader(plane, early)
    view = Projection.of_trajectory(plane)
    gaps = np.linalg.norm((Z[:, None] - Z[lead]) / (view.high - view.low), axis=-1).min(
        axis=1
    )
    others = np.flatnonzero(
        gaps > flows.COVERED
    )  # a star stands for those that it covers
    assert 0 < len(others) < 30 - lead.sum()
    assert np.allclose(circles.get_offsets(), Z[others])
    assert [to_hex(c) for c in circles.get_facecolors()] == [
        COLOURS[g].lower() for g in clusters[others]
    ]
    for number in range(len(sizes)):
        assert len({*plane.clusters[clusters == number].tolist()}) == 1


def test_a_single_token_that_does_not_lead_is_grey() -> None:
    early = hm.simulate(uniform(30, 2), hm.SelfAttention(), times=[0, 1])
    single = (np.bincount(early.clusters)[early.clusters] == 1) & ~np.isin(
        np.arange(30), early.leaders
    )
    assert single.any()
    assert (rank_clusters(early)[single] == -1).all()
    circles = drawn(plot_tokens(early))[0]
    assert REST.lower() in {to_hex(c) for c in circles.get_facecolors()}


def test_the_hull_is_shaded_at_the_end_where_it_shrinks(plane) -> None:
    assert not plot_tokens(plane, 50).patches
    (shade,) = plot_tokens(plane).patches
    corners = np.unique(shade.get_xy().round(3), axis=0)
    assert {tuple(c) for c in corners} <= {
        tuple(z) for z in plane.rescaled[-1].round(3)
    }
    assert not plot_tokens(plane, polytope=False).patches
    stretched = hm.simulate(
        uniform(30, 2), hm.SelfAttention(V=np.diag([1.0, -0.5])), times=2
    )
    assert not plot_tokens(stretched).patches
    assert plot_tokens(stretched, polytope=True).patches


def test_tails_end_at_the_tokens(plane) -> None:
    (tails,) = [
        c for c in plot_tokens(plane, 40).collections if isinstance(c, LineCollection)
    ]
    ends = np.array([segment[-1] for segment in tails.get_segments()])
    assert np.allclose(ends, plane.rescaled[40])
    assert not [
        c
        for c in plot_tokens(plane, 40, tails=False).collections
        if isinstance(c, LineCollection)
    ]


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_every_dimension_draws(d: int) -> None:
    trajectory = hm.simulate(uniform(12, d), hm.SelfAttention(), times=3)
    ax = plot_tokens(trajectory)
    assert isinstance(ax, Axes3D) == (d == 3)
    assert ax.get_xlabel().startswith(
        {1: "$z$", 6: "principal axis 1 of 6"}.get(d, "$z_{1}$")
    )
    plot_layers(trajectory).draw_without_rendering()


@pytest.mark.parametrize("d", [2, 3])
def test_the_sphere_is_drawn_whole_and_in_x(d: int) -> None:
    trajectory = hm.simulate(
        hm.configuration("sphere", n=10, d=d), hm.Sphere(20.0), times=2
    )
    projection = Projection.of_trajectory(trajectory)
    assert (projection.low < -1).all()
    assert (projection.high > 1).all()
    ax = plot_tokens(trajectory, 0, tails=False)
    assert ax.get_xlabel() == "$x_{1}$"
    wires = [c for c in ax.collections if isinstance(c, Line3DCollection)]
    lines = wires[0]._segments3d if d == 3 else [ax.lines[0].get_xydata()]
    assert np.allclose(np.linalg.norm(np.concatenate(lines), axis=1), 1)


@pytest.mark.parametrize("d", [2, 3])
def test_coordinates_that_diverge_have_a_scale_of_their_own(d: int) -> None:
    V = np.diag([1.0, 0.9, -0.8][-d:])
    far, near = (
        hm.simulate(uniform(12, d), hm.SelfAttention(V=V), times=T) for T in (8, 1)
    )
    assert not Projection.of_trajectory(far).equal
    assert Projection.of_trajectory(near).equal
    spread = np.ptp(far.rescaled[..., 0])
    assert 1.1 * spread < np.diff(plot_tokens(far).get_xlim())[0] < 1.2 * spread
    plot_layers(far).draw_without_rendering()


@pytest.mark.parametrize("d", [2, 3])
def test_a_free_coordinate_is_logarithmic_and_says_so(d: int) -> None:
    trajectory = free_axis(d)
    view = Projection.of_trajectory(trajectory)
    assert view.labels[:-1] == tuple(f"$z_{{{r}}}$" for r in range(1, d))
    assert view.labels[-1].startswith(f"$z_{{{d}}}$, log beyond ")
    shown = view(trajectory.rescaled)
    assert np.allclose(shown[..., :-1], trajectory.rescaled[..., :-1])
    size = float(view.log_beyond[-1])
    assert np.allclose(
        size * np.sinh(shown[..., -1] / size), trajectory.rescaled[..., -1]
    )
    assert (view.low < shown.min(axis=(0, 1))).all()
    assert (view.high > shown.max(axis=(0, 1))).all()
    ticks = view.ticks(d - 1)
    assert [size * np.sinh(place / size) for place in ticks] == pytest.approx(
        list(ticks.values())
    )
    powers = np.log10([x for x in ticks.values() if x > 0])
    assert len(powers)
    assert np.allclose(powers, powers.round())
    assert view.ticks(0) is None
    ax = plot_tokens(trajectory)
    labels = getattr(ax, "get_zticklabels" if d == 3 else "get_yticklabels")()
    assert [label.get_text() for label in labels].count("0") == 1


def test_axes_turn_to_the_leading_direction_where_others_are_far_wider() -> None:
    V = hm.matrix("paper-2d")
    trajectory = hm.simulate(
        hm.configuration("gaussian"), hm.SelfAttention(V=V), times=60
    )
    view = Projection.of_trajectory(trajectory)
    assert view.labels[0] == "leading direction"
    assert view.labels[1].startswith("free direction, log beyond")
    values, left = np.linalg.eig(V.T)
    phi = left[:, values.argmax()]
    assert np.allclose(view.basis[:, 0], phi * np.sign(phi[np.abs(phi).argmax()]))
    assert np.allclose(view.basis.T @ view.basis, np.eye(2))
    near = hm.simulate(hm.configuration("gaussian"), hm.SelfAttention(V=V), times=5)
    assert Projection.of_trajectory(near).labels == ("$z_{1}$", "$z_{2}$")


def test_in_many_dimensions_the_leading_plane_is_drawn() -> None:
    V = np.diag([0.5, 1.0, 1.0, -0.5, -0.5])
    trajectory = hm.simulate(uniform(20, 5), hm.SelfAttention(V=V), times=12)
    view = Projection.of_trajectory(trajectory)
    assert view.labels == ("$z_{2}$ (d = 5)", "$z_{3}$ (d = 5)")
    assert np.allclose(view(trajectory.rescaled), trajectory.rescaled[..., 1:3])
    simple = hm.simulate(
        uniform(20, 5),
        hm.SelfAttention(V=np.diag([1.0, 0.5, 0.3, -0.8, -0.5])),
        times=10,
    )
    labels = Projection.of_trajectory(simple).labels
    assert labels[0] == "$z_{1}$ (d = 5)"
    assert "(d = 5), log beyond" in labels[1]
    plot_layers(simple).draw_without_rendering()


@pytest.mark.parametrize(
    ("rule", "end"),
    [
        (hm.Hardmax(0.5), {"layers": 30}),
        (hm.Softmax(0.5), {"layers": 30}),
        (hm.SelfAttention(V=np.diag([1.0, 1.0, -0.9])), {"times": 12}),
        (
            hm.SelfAttention(V=hm.matrix("paper-product")),
            {"times": 5},
        ),  # z_3 is six times as wide
        (hm.SelfAttention(V=hm.matrix("paper-codimension")), {"times": 3}),
    ],
)
def test_in_three_dimensions_boxes_fill_their_panels_and_labels_are_inside(
    rule, end: dict
) -> None:
    trajectory = hm.simulate(uniform(12, 3), rule, **end)
    for figure in (plot_layers(trajectory), plot_tokens(trajectory).figure):
        figure.draw_without_rendering()
        whole, columns = figure.bbox, 3 if len(figure.axes) > 3 else len(figure.axes)
        for ax in figure.axes:
            for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
                box = axis.label.get_window_extent()
                assert axis.label.get_text()
                assert whole.x0 <= box.x0 < box.x1 <= whole.x1
                assert whole.y0 <= box.y0 < box.y1 <= whole.y1
            corners = np.array(
                np.meshgrid(ax.get_xlim(), ax.get_ylim(), ax.get_zlim())
            ).reshape(3, -1)
            x, y, _ = proj3d.proj_transform(*corners, ax.get_proj())
            across, up = np.ptp(ax.transData.transform(np.column_stack([x, y])), axis=0)
            assert across > 0.55 * whole.width / columns
            assert up > 0.55 * whole.height / (2 if len(figure.axes) > 3 else 1)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize(
    "rule", [hm.Softmax(0.5), hm.Hardmax(0.5)], ids=["softmax", "hardmax"]
)
def test_titles_keep_off_the_edge(d: int, rule: hm.Softmax | hm.Hardmax) -> None:
    trajectory = hm.simulate(hm.configuration("gaussian", n=30, d=d), rule, layers=30)
    for figure in (plot_layers(trajectory), plot_tokens(trajectory).figure):
        figure.draw_without_rendering()
        assert all(
            ax.title.get_window_extent().y1 <= figure.bbox.y1 - 4 for ax in figure.axes
        )


def test_softmax_that_collapses_has_one_star_and_no_hull() -> None:
    trajectory = hm.simulate(
        hm.configuration("gaussian", n=30), hm.Softmax(0.5), layers=30
    )
    first, last = trajectory.leaders_at(0), trajectory.leaders
    assert len(first) > len(last) == 1
    assert not np.isin(last, first).any()
    figure = plot_layers(trajectory)
    assert figure.get_supxlabel().endswith(
        "\nstars lead at the end; colours: clusters at the end of the run"
    )
    assert [len(drawn(ax)) for ax in figure.axes[:-1]] == [
        1
    ] * 4  # circles alone, until all are together
    (star,) = drawn(figure.axes[-1])
    assert np.allclose(star.get_offsets(), trajectory.tokens[-1, last])
    assert not any(ax.patches for ax in figure.axes)


def test_stars_are_the_leaders_and_equal_tokens_have_one() -> None:
    tokens = np.array([[3.0, 0], [3, 0], [-3, 1], [0.5, 0.2]])
    trajectory = hm.simulate(tokens, hm.SelfAttention(), times=3)
    last = len(trajectory.saved) - 1
    assert (
        np.flatnonzero(flows.is_leader(trajectory, last)).tolist()
        == trajectory.leaders.tolist()
        == [0, 2]
    )
    early = trajectory.leaders_at(0)
    assert (
        np.flatnonzero(flows.is_leader(trajectory, 0)).tolist()
        == early.tolist()
        == [0, 2]
    )


def test_attention_is_drawn_with_its_rank(plane) -> None:
    for k, rank in (
        (0, np.linalg.matrix_rank(plane.attention(0), rtol=1e-6)),
        (-1, len(plane.leaders)),
    ):
        ax = plot_attention(plane, k)
        assert np.allclose(ax.images[0].get_array(), plane.attention(k))
        assert ax.get_title() == f"{plane.label(plane.index(k))}: rank {rank}"
    hardmax = hm.simulate(hm.configuration("square"), hm.Hardmax(0.5), layers=3)
    assert plot_attention(hardmax, 3).get_title() == "layer 3: rank 4"


def test_attention_of_heads_is_their_mean_and_padding_is_left_out() -> None:
    heads = hm.MultiHead(
        [hm.SelfAttention(), hm.SelfAttention(Q=2 * np.eye(2))], shared=True
    )
    trajectory = hm.simulate(uniform(6, 2, side=1), heads, times=1)
    ax = plot_attention(trajectory)
    assert ax.get_title().endswith("mean of 2 heads")
    assert np.allclose(np.sum(ax.images[0].get_array(), axis=1), 1)
    mask = np.array([True] * 5 + [False])
    padded = hm.simulate(uniform(6, 2), hm.SelfAttention(), times=1, mask=mask)
    assert plot_attention(padded).images[0].get_array().shape == (5, 5)
    assert sum(len(c.get_offsets()) for c in drawn(plot_tokens(padded))) == 5


def test_connections_follow_the_weights() -> None:
    Q = np.random.default_rng(0).normal(size=(2, 2))  # not symmetric
    trajectory = hm.simulate(uniform(8, 2, side=1), hm.SelfAttention(Q=Q), times=1)
    ax = plt.figure().add_subplot()
    plot_connections(trajectory, 50, ax)
    P, X = trajectory.attention(50), trajectory.tokens[50]
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    rows, columns = np.nonzero(P > MIN_WEIGHT)
    assert np.allclose(np.argsort(lines.get_linewidths()), np.argsort(P[rows, columns]))
    segments = np.array(lines.get_segments())
    assert np.allclose(segments[:, 1], X[columns])
    queries = segments[:, 0]
    scores = queries @ X.T
    assert (scores.argmax(axis=1) == P[rows].argmax(axis=1)).all()
    assert np.allclose(
        np.einsum("sd,sd->s", queries, X[columns]), (X @ Q.T @ X.T)[rows, columns]
    )


def test_a_row_divides_the_path_in_coordinates_that_converge(plane) -> None:
    titles = [ax.get_title() for ax in plot_layers(plane).axes]
    assert (titles[0], titles[-1], len(titles)) == ("t = 0", "t = 10", 5)
    product = hm.SelfAttention(
        V=hm.matrix("paper-product")
    )  # z_3 moves mostly after t = 15
    for run in (
        plane,
        hm.simulate(hm.configuration("gaussian", d=3), product, times=20),
    ):
        lengths = np.linalg.norm(np.diff(run.rescaled[..., :2], axis=0), axis=-1).sum(
            axis=1
        )
        path = np.concatenate([[0.0], lengths.cumsum()]) / lengths.sum()
        first, *later = flows.choose_positions(run, None)[:-1]
        assert first == 0
        for k, part in zip(
            later, [0.25, 0.5, 0.75], strict=True
        ):  # the first saved time beyond each part of the path
            assert path[k - 1] - 1e-6 < part < path[k] + 1e-6
        assert run.times[later].max() < 5
    assert [ax.get_title() for ax in plot_layers(plane, [0, 10]).axes] == [
        "t = 0",
        "t = 1",
        "t = 10",
    ]
    softmax = hm.simulate(uniform(10, 2), hm.Softmax(0.5), layers=8)
    assert [ax.get_title() for ax in plot_layers(softmax).axes] == [
        f"layer {k}" for k in (0, 1, 2, 5, 8)
    ]


def test_times_that_are_not_finite_are_not_drawn(plane) -> None:
    rescaled = plane.rescaled.copy()
    rescaled[60:] = np.nan
    broken = replace(plane, rescaled=rescaled)
    assert flows.find_index(broken, -1) == 59
    assert plot_tokens(broken).get_title() == "t = 5.9"
    assert plot_layers(broken).axes[-1].get_title() == "t = 5.9"
    with pytest.raises(ValueError, match=r"must be finite to be drawn\. Got t = 8"):
        plot_tokens(broken, 80)
    lost = replace(plane, rescaled=rescaled * np.nan)
    for plot in (
        lost.plot,
        lost.plot_clusters,
        partial(plot_layers, lost),
        partial(plot_tokens, lost),
    ):
        with pytest.raises(hm.InputError, match="must be finite to be drawn"):
            plot()


def test_a_batch_is_refused_with_the_call_to_use() -> None:
    tokens = np.stack([uniform(4, 2), uniform(4, 2, 2)])
    layers, flow = (
        hm.simulate(tokens, hm.Hardmax(0.5), layers=1),
        hm.simulate(tokens, hm.SelfAttention(), times=1),
    )
    for draw in (plot_tokens, plot_layers, plot_attention, hm.interactive):
        for batch in (layers, flow):
            with pytest.raises(
                hm.InputError,
                match=rf"Got a batch. Use {draw.__name__}\(trajectory\[b\]",
            ):
                draw(batch)
    plot_tokens(flow[1])


def test_a_movie_of_a_flow_has_one_frame_per_time(tmp_path: Path) -> None:
    trajectory = hm.simulate(
        uniform(5, 2), hm.SelfAttention(), times=np.linspace(0, 2, 6)
    )
    frames: list[tuple[int, int]] = []
    movies.movie(
        trajectory,
        tmp_path / "flow.gif",
        fps=2,
        progress=lambda done, total: frames.append((done, total)),
    )
    assert frames[-1] == (7, 7)
    with Image.open(tmp_path / "flow.gif") as film:
        assert film.n_frames >= 6
    shown = movies.choose_frames(399)
    assert (len(shown), shown[0], shown[-1]) == (movies.MAX_FRAMES, 0, 399)
    last = hm.simulate(uniform(5, 2), hm.SelfAttention(), times=2, save="last")
    with pytest.raises(hm.InputError, match='Simulate with `save="all"`'):
        movies.movie(last, tmp_path / "last.gif")
