"""Pictures show what they claim: markers, colours, halves, shading, projections."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex, to_rgba
from mpl_toolkits.mplot3d import Axes3D
from PIL import Image

import hardmax as hm
from hardmax.draw import movies, style
from hardmax.draw.clusters import plot_clusters
from hardmax.draw.control import plot_control
from hardmax.draw.projection import Projection
from hardmax.draw.style import COLOURS, EDGE, REST
from hardmax.draw.tokens import MAX_SECTORS, Palette, plot_half_space, plot_layers, plot_limit, plot_tokens

RULE = hm.Hardmax(0.5)


pytestmark = pytest.mark.usefixtures("headless")


def drawn(ax) -> list[PathCollection]:
    return [c for c in ax.collections if isinstance(c, PathCollection)]


def test_stars_lead_and_circles_follow_in_their_colours() -> None:
    trajectory = hm.simulate(hm.configuration("emerging-leader"), RULE, layers=5)
    palette = Palette(trajectory)
    ax = plot_tokens(trajectory, 0, palette=palette)
    circles, stars = drawn(ax)
    leaders = [i for i, members in enumerate(trajectory.sets(0)) if members.tolist() == [i]]
    assert np.allclose(stars.get_offsets(), trajectory.tokens[0, leaders])
    assert [to_hex(c) for c in stars.get_facecolors()] == [palette(i).lower() for i in leaders]
    others = [i for i in range(8) if i not in leaders]
    assert np.allclose(circles.get_offsets(), trajectory.tokens[0, others])
    chosen = [int(trajectory.sets(0)[i][0]) for i in others]
    assert [to_hex(c) for c in circles.get_facecolors()] == [palette(j).lower() for j in chosen]
    followed = trajectory.followers(0)
    edges = [palette(i).lower() if i in followed else EDGE.lower() for i in others]
    assert [to_hex(c) for c in circles.get_edgecolors()] == edges
    assert any(edge != EDGE.lower() for edge in edges)  # (0, 1/4) is followed


def test_invalid_input_names_its_parameter() -> None:
    tokens = hm.configuration("emerging-leader")
    trajectory, limit = hm.simulate(tokens, RULE, layers=2), hm.limit(tokens, RULE)
    for call in (plot_layers, plot_tokens, hm.interactive, lambda x: hm.draw.movie(x, "a.gif")):
        for wrong in (limit, tokens):
            with pytest.raises(hm.ParameterTypeError, match="`trajectory`"):
                call(wrong)
    with pytest.raises(hm.ParameterTypeError, match="`limit`"):
        plot_limit(trajectory, tokens)
    for wrong in (tokens[:3], tokens + 0.5):
        with pytest.raises(hm.ParameterError, match="`tokens`"):
            plot_limit(limit, wrong)


def test_two_halves_when_two_are_followed() -> None:
    trajectory = hm.simulate([[1, 1], [1, -1], [-1, 0], [0.5, 0]], RULE, layers=2)
    palette = Palette(trajectory)
    ax = plot_tokens(trajectory, 0, palette=palette)
    halves = [c for c in drawn(ax) if np.allclose(c.get_offsets(), [[0.5, 0]]) and len(c.get_facecolors())]
    assert [to_hex(c.get_facecolors()[0]) for c in halves] == [palette(0).lower(), palette(1).lower()]
    left, right = (c.get_paths()[0].vertices[2:, 0] for c in halves)  # after the two corners that fix the scale
    assert left.max() < 1e-9
    assert right.min() > -1e-9


def test_a_token_that_follows_everything_is_white() -> None:
    circle = [[np.cos(t), np.sin(t)] for t in range(MAX_SECTORS + 2)]
    trajectory = hm.simulate([*circle, [0, 0]], RULE, layers=0)
    ax = plot_tokens(trajectory, 0)
    (blank,) = [c for c in drawn(ax) if np.allclose(c.get_offsets(), [[0, 0]])]
    assert tuple(blank.get_facecolors()[0]) == to_rgba("white")


def test_tails_and_polytope() -> None:
    trajectory = hm.simulate(hm.configuration("square"), RULE, layers=6)
    first, last = plot_tokens(trajectory, 0), plot_tokens(trajectory)
    assert not first.patches
    assert not [c for c in first.collections if isinstance(c, LineCollection)]
    corners = {tuple(p) for p in last.patches[0].get_xy().round(12).tolist()}
    assert corners == {(1, 1), (1, -1), (-1, -1), (-1, 1)}
    (tails,) = [c for c in last.collections if isinstance(c, LineCollection)]
    assert len(tails.get_segments()) == 10
    assert not [c for c in plot_tokens(trajectory, tails=False).collections if isinstance(c, LineCollection)]


@pytest.mark.parametrize(("d", "labels"), [(1, ("$z$", "")), (2, ("$z_{1}$", "$z_{2}$")), (5, "principal axis 1 of 5")])
def test_axes_say_what_they_are(d: int, labels: object) -> None:
    tokens = hm.configuration("gaussian", n=30, d=d)
    trajectory = hm.simulate(tokens, RULE, layers=3)
    for ax in (plot_tokens(trajectory), plot_limit(hm.limit(tokens, RULE), tokens)):
        if d > 3:
            assert ax.get_xlabel().startswith(str(labels))
            assert ax.get_xlabel().endswith("of the spread)")
        else:
            assert (ax.get_xlabel(), ax.get_ylabel()) == labels


def test_a_projection_keeps_distances_within_its_plane() -> None:
    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    points = rng.normal(size=(20, 2)) @ plane.T
    shown = Projection.of(points)(points)
    assert np.allclose(np.linalg.norm(shown[0] - shown[1:], axis=1), np.linalg.norm(points[0] - points[1:], axis=1))


def test_three_dimensions() -> None:
    tokens = hm.configuration("ball", n=20, d=3)
    ax = plot_tokens(hm.simulate(tokens, RULE, layers=3))
    assert isinstance(ax, Axes3D)
    assert isinstance(plot_limit(hm.limit(tokens, RULE), tokens), Axes3D)
    plot_half_space(ax, tokens[0])
    ax.figure.canvas.draw()


def test_half_space_holds_what_attracts() -> None:
    A = np.array([[2.0, 1], [1, 1]])
    tokens = hm.configuration("gaussian", n=20)
    trajectory = hm.simulate(tokens, hm.Hardmax(0.5, A), layers=0)
    ax = plot_tokens(trajectory)
    plot_half_space(ax, tokens[3], A)
    shaded = ax.patches[-1].get_path()
    for j in trajectory.sets(0)[3]:
        assert shaded.contains_point(tokens[j], radius=1e-9) or j == 3
    assert not shaded.contains_point(tokens[3] - 0.01 * (A @ tokens[3]))


def test_many_leaders_and_padding_and_undecided_tokens_draw() -> None:
    sphere = hm.simulate(hm.configuration("sphere", n=40), RULE, layers=1)
    colours = [to_hex(c) for c in drawn(plot_tokens(sphere))[-1].get_facecolors()]
    assert colours == [REST.lower()] * 32 + [c.lower() for c in COLOURS]
    mask = np.array([True, True, True, False])
    padded = hm.simulate([[1, 1], [-1, 1], [0.2, 0.1], [np.nan, np.nan]], RULE, layers=2, mask=mask)
    plot_tokens(padded).figure.canvas.draw()
    tokens = hm.configuration("emerging-leader")
    plot_limit(hm.limit(tokens, RULE, max_layers=0), tokens).figure.canvas.draw()


@pytest.mark.parametrize(("ending", "magic"), [(".gif", b"GIF89a"), (".mp4", b"ftyp")])
def test_movies(tmp_path: Path, ending: str, magic: bytes) -> None:
    trajectory = hm.simulate(hm.configuration("triangle"), RULE, layers=2)
    path, frames = tmp_path / f"movie{ending}", []
    movies.movie(trajectory, path, steps=2, fps=3, progress=lambda done, total: frames.append((done, total)))
    assert magic in path.read_bytes()[:16]
    assert frames[-1] == (7, 7)
    assert list(tmp_path.iterdir()) == [path]


def test_a_movie_says_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    write = movies.write_movie

    def noted(figure: Any, *arguments: Any, **options: Any) -> None:
        said.append(figure.get_supxlabel())
        write(figure, *arguments, **options)

    monkeypatch.setattr(movies, "write_movie", noted)
    movies.movie(hm.simulate(hm.configuration("ball", n=60), RULE, layers=2), tmp_path / "movie.gif")
    line = "stars lead; colours: whom they follow; grey: beyond eight colours; shaded: hull of the leaders"
    assert " ".join(said[0].split()) == line


def test_a_movie_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    trajectory = hm.simulate(hm.configuration("triangle"), RULE, layers=2)

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        movies.movie(trajectory, tmp_path / "movie.gif", progress=stop)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="`path`"):
        movies.movie(trajectory, "film.avi")


def test_a_leader_with_copies_is_a_star_and_keeps_its_colour() -> None:
    tokens = [[1, 1], [1, 1], [-1, -1], [0.5, 0.2]]
    trajectory = hm.simulate(tokens, RULE, layers=1)
    circles, stars = drawn(plot_tokens(trajectory, 0))
    assert np.allclose(stars.get_offsets(), tokens[:3])
    assert [to_hex(c) for c in stars.get_facecolors()] == [COLOURS[c].lower() for c in (0, 0, 1)]
    assert len(circles.get_offsets()) == 1


def test_leaders_have_one_colour_in_every_picture() -> None:
    tokens = hm.configuration("ball", n=60)
    trajectory, limit = hm.simulate(tokens, RULE, layers=30), hm.limit(tokens, RULE)
    assert len(limit.leaders) > len(COLOURS)
    sizes = np.bincount(limit.clusters)
    seen = []
    for ax in (plot_tokens(trajectory), plot_limit(limit, tokens)):
        seen.append([to_hex(c).upper() for c in drawn(ax)[-1].get_facecolors()])
        assert [colour for colour in seen[-1] if colour != REST] == COLOURS  # each once, by the number of the leader
        assert "grey: " in ax.figure.get_supxlabel()
    assert seen[0] == seen[1]
    coloured = np.array([Palette(trajectory)(i) != REST for i in limit.leaders])
    assert sizes[coloured].min() >= sizes[~coloured].max()


def test_those_asked_to_lead_have_colours_and_no_two_leaders_share_one() -> None:
    result = hm.control.choose_A(hm.configuration("ball", n=50), leaders=(45, 47))
    figure = plot_control(result)
    stars = [drawn(ax)[1] for ax in figure.axes]
    for collection in stars:
        colours = [to_hex(c).upper() for c in collection.get_facecolors() if to_hex(c).upper() != REST]
        assert len(colours) == len(set(colours))
    after = {
        tuple(at): to_hex(c).upper() for at, c in zip(stars[1].get_offsets(), stars[1].get_facecolors(), strict=True)
    }
    assert REST not in {after[tuple(result.tokens[i])] for i in (45, 47)}
    assert "follows one without a colour" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_row_of_layers_says_that_it_is_a_projection() -> None:
    figure = plot_layers(hm.simulate(hm.configuration("ball", n=20, d=5), RULE, layers=4))
    assert [ax.get_title() for ax in figure.axes] == ["layer 0", "layer 1", "layer 2", "layer 4"]
    assert figure.get_supxlabel().startswith("principal axis 1 of 5")


def test_a_colour_means_the_same_in_every_frame(tmp_path: Path) -> None:
    trajectory = hm.simulate(hm.configuration("gaussian"), RULE, layers=10)
    movies.movie(trajectory, tmp_path / "movie.gif", steps=1, fps=2)
    with Image.open(tmp_path / "movie.gif") as film:
        frames = []
        for k in range(film.n_frames):
            film.seek(k)
            frames.append({tuple(colour) for _, colour in film.convert("RGB").getcolors(1 << 20)})
    shown = [tuple(int(COLOURS[c][i : i + 2], 16) for i in (1, 3, 5)) for c in range(len(trajectory.leaders))]
    for colour in shown:
        near = [{c for c in frame if max(abs(a - b) for a, b in zip(c, colour, strict=True)) < 16} for frame in frames]
        assert all(near), colour
        assert set.intersection(*near), colour  # the very same entry of the palette


def test_coloured_stars_are_above_grey_ones() -> None:
    tokens = hm.configuration("sphere", n=30)
    run = hm.simulate(tokens, hm.Hardmax(0.5), layers=0)
    stars = plot_tokens(run).collections[-1]
    faces = [to_hex(colour).upper() for colour in stars.get_facecolors()]
    assert faces == [REST] * 22 + [Palette(run)(i) for i in run.leaders[:8]]  # a draw: nobody is followed
    limit = hm.limit(tokens, hm.Hardmax(0.5))
    ax = plot_limit(limit)
    assert [to_hex(colour).upper() for colour in ax.collections[-1].get_facecolors()] == faces
    assert ax.figure.get_supxlabel() == "grey: beyond eight colours"


def test_of_many_clusters_the_largest_have_the_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.repeat(np.arange(10), [1, 2, 9, 9, 9, 9, 9, 9, 9, 9])
    X = np.random.default_rng(0).normal(size=(len(labels), 2))
    leaders = np.searchsorted(labels, np.arange(10))
    figure = plot_clusters(X, labels, leaders)
    points, stars = figure.axes[0].collections
    faces = [to_hex(colour).upper() for colour in points.get_facecolors()]
    assert faces == [REST] * 3 + np.repeat(COLOURS, 9).tolist()
    assert [to_hex(colour).upper() for colour in stars.get_facecolors()] == [REST] * 2 + COLOURS
    assert figure.get_supxlabel() == "grey: the smaller clusters"
    few = plot_clusters(X[labels < 5], labels[labels < 5], leaders[:5])
    assert few.get_supxlabel() == ""
    monkeypatch.setattr(style, "MOST_DRAWN", 40)
    figure = plot_clusters(X, labels, leaders)
    shown = {tuple(x) for x in figure.axes[0].collections[0].get_offsets()}
    assert 10 < len(shown) <= 40
    assert {tuple(X[i]) for i in leaders} <= shown
    assert f"{len(shown)} of 75 points drawn" in figure.get_supxlabel()


@pytest.mark.parametrize("rule", [RULE, hm.Softmax(0.5), hm.SelfAttention()], ids=repr)
def test_invalid_options_name_their_parameter(rule: Any, tmp_path: Path) -> None:
    how = {"times": 1.0} if rule.continuous else {"layers": 2}
    run = hm.simulate(hm.configuration("triangle"), rule, **how)
    for k in (1.5, [0, 1], "last", True):
        with pytest.raises(TypeError, match="`k`"):
            run.plot(k)
    for name, value in (("steps", 0), ("steps", -1), ("steps", 1.5), ("fps", 0)):
        with pytest.raises(ValueError, match=f"`{name}`"):
            movies.movie(run, tmp_path / "movie.gif", **{name: value})
    batch = hm.simulate(np.stack([hm.configuration("triangle")] * 2), rule, **how)
    for k in (None, 0):
        with pytest.raises(ValueError, match=r"Got a batch. Use trajectory\[b\].plot\(\)."):
            batch.plot(k)


def test_a_layer_that_was_not_kept_gets_advice_that_helps() -> None:
    tokens = hm.configuration("triangle")
    with pytest.raises(IndexError, match=r"be a saved layer: layers 0 to 2. Got 50. Simulate more layers.$"):
        hm.simulate(tokens, RULE, layers=2).plot(50)
    with pytest.raises(IndexError, match=r'be a saved layer: layer 2 alone. Got 0. Simulate with `save="all"`.$'):
        hm.simulate(tokens, RULE, layers=2, save="last").plot(0)
