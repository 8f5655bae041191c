"""Pictures of tokens, limits and clusters: markers, colours, shading, projections,
thinning, movies.
"""

import re
from base64 import b64decode
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex, to_rgb, to_rgba
from mpl_toolkits.mplot3d import Axes3D
from PIL import Image

import hardmax as hm
from hardmax.draw import movies, pages, style, text_page
from hardmax.draw.clusters import plot_clusters
from hardmax.draw.control import plot_control
from hardmax.draw.pages import Picture
from hardmax.draw.projection import Projection
from hardmax.draw.style import CLASSES, COLOURS, EDGE, REST
from hardmax.draw.tokens import (
    MAX_SECTORS,
    Palette,
    plot_layers,
    plot_limit,
    plot_tokens,
)
from hardmax.figures.hardmax_rule import plot_half_space

RULE = hm.Hardmax(0.5)
PLANE = ("$z_{1}$", "$z_{2}$")
PRINCIPAL = (
    "principal axis 1 of 5 (_% of the spread)",
    "principal axis 2 of 5 (_% of the spread)",
)

pytestmark = pytest.mark.usefixtures("headless")


def drawn(ax, kind: type = PathCollection) -> list[Any]:
    return [c for c in ax.collections if isinstance(c, kind)]


def faces(markers: PathCollection) -> list[str]:
    return [to_hex(colour).upper() for colour in markers.get_facecolors()]


def test_stars_lead_and_circles_follow_in_their_colours() -> None:
    trajectory = hm.simulate(hm.configuration("emerging-leader"), RULE, layers=5)
    palette = Palette(trajectory)
    ax = plot_tokens(trajectory, 0, palette=palette)
    circles, stars = drawn(ax)
    leaders = [
        i for i, members in enumerate(trajectory.sets(0)) if members.tolist() == [i]
    ]
    assert np.allclose(stars.get_offsets(), trajectory.tokens[0, leaders])
    assert faces(stars) == [palette(i) for i in leaders]
    others = [i for i in range(8) if i not in leaders]
    assert np.allclose(circles.get_offsets(), trajectory.tokens[0, others])
    assert faces(circles) == [palette(int(trajectory.sets(0)[i][0])) for i in others]
    edges = [palette(i) if i in trajectory.followers(0) else EDGE for i in others]
    assert [to_hex(c).upper() for c in circles.get_edgecolors()] == edges
    assert any(edge != EDGE for edge in edges)  # (0, 1/4) is followed


def test_invalid_input_names_its_parameter() -> None:
    tokens = hm.configuration("emerging-leader")
    trajectory, limit = hm.simulate(tokens, RULE, layers=2), hm.limit(tokens, RULE)
    for call in (
        plot_layers,
        plot_tokens,
        hm.interactive,
        lambda x: hm.draw.movie(x, "a.gif"),
    ):
        for wrong in (limit, tokens):
            with pytest.raises(hm.ParameterTypeError, match="`trajectory`"):
                call(wrong)
    with pytest.raises(hm.ParameterTypeError, match="`limit`"):
        plot_limit(trajectory)
    with pytest.raises(hm.ParameterError, match="`path`"):
        hm.interactive(trajectory, "flow.png")
    with pytest.raises(
        hm.ParameterIndexError, match=r'Got 0. Simulate with `save="all"`.$'
    ):
        hm.simulate(tokens, RULE, layers=2, save="last").plot(0)


def test_two_halves_when_two_are_followed() -> None:
    trajectory = hm.simulate([[1, 1], [1, -1], [-1, 0], [0.5, 0]], RULE, layers=2)
    palette = Palette(trajectory)
    ax = plot_tokens(trajectory, 0, palette=palette)
    halves = [
        c
        for c in drawn(ax)
        if np.allclose(c.get_offsets(), [[0.5, 0]]) and len(c.get_facecolors())
    ]
    assert [faces(half) for half in halves] == [[palette(0)], [palette(1)]]
    left, right = (
        c.get_paths()[0].vertices[2:, 0] for c in halves
    )  # after the two corners that fix the scale
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
    assert not drawn(first, LineCollection)
    corners = {tuple(p) for p in last.patches[0].get_xy().round(12).tolist()}
    assert corners == {(1, 1), (1, -1), (-1, -1), (-1, 1)}
    (tails,) = drawn(last, LineCollection)
    assert len(tails.get_segments()) == 10
    (one,) = trajectory.plot(1, tails=False).axes
    assert (one.get_title(), drawn(one, LineCollection)) == ("layer 1", [])
    assert [trajectory.plot().axes[k].get_title() for k in (0, -1)] == [
        "layer 0",
        "layer 6",
    ]


@pytest.mark.parametrize(
    ("d", "x", "y"), [(1, "$z$", ""), (2, *PLANE), (3, *PLANE), (5, *PRINCIPAL)]
)
def test_axes_have_labels(d: int, x: str, y: str) -> None:
    tokens = hm.configuration("gaussian", n=30, d=d)
    for ax in (
        plot_tokens(hm.simulate(tokens, RULE, layers=3)),
        plot_limit(hm.limit(tokens, RULE)),
    ):
        assert [
            re.sub(r"\d+%", "_%", label) for label in (ax.get_xlabel(), ax.get_ylabel())
        ] == [x, y]
        assert isinstance(ax, Axes3D) == (d == 3)
        ax.figure.canvas.draw()


def test_a_projection_keeps_distances_within_its_plane() -> None:
    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    points = rng.normal(size=(20, 2)) @ plane.T
    shown = Projection.of(points)(points)
    assert np.allclose(
        np.linalg.norm(shown[0] - shown[1:], axis=1),
        np.linalg.norm(points[0] - points[1:], axis=1),
    )


def test_half_space_contains_the_attracting_tokens() -> None:
    A = np.array([[2.0, 1], [1, 1]])
    tokens = hm.configuration("gaussian", n=20)
    trajectory = hm.simulate(tokens, hm.Hardmax(0.5, A), layers=0)
    ax = plot_tokens(trajectory)
    plot_half_space(ax, tokens[3], A)
    shaded = ax.patches[-1].get_path()
    for j in trajectory.sets(0)[3]:
        assert shaded.contains_point(tokens[j], radius=1e-9) or j == 3
    assert not shaded.contains_point(tokens[3] - 0.01 * (A @ tokens[3]))


def test_padding_and_undecided_tokens_draw() -> None:
    mask = np.array([True, True, True, False])
    padded = hm.simulate(
        [[1, 1], [-1, 1], [0.2, 0.1], [np.nan, np.nan]], RULE, layers=2, mask=mask
    )
    plot_tokens(padded).figure.draw_without_rendering()
    undecided = plot_limit(
        hm.limit(hm.configuration("emerging-leader"), RULE, max_layers=0)
    )
    assert "grey: undecided" in undecided.figure.get_supxlabel()


@pytest.mark.parametrize(("ending", "magic"), [(".gif", b"GIF89a"), (".mp4", b"ftyp")])
def test_movies(tmp_path: Path, ending: str, magic: bytes) -> None:
    trajectory = hm.simulate(hm.configuration("triangle"), RULE, layers=2)
    path, frames = tmp_path / f"movie{ending}", []
    movies.movie(
        trajectory,
        path,
        steps=2,
        fps=3,
        progress=lambda done, total: frames.append((done, total)),
    )
    assert magic in path.read_bytes()[:16]
    assert frames[-1] == (7, 7)
    assert list(tmp_path.iterdir()) == [path]


def test_a_movie_has_a_legend() -> None:
    run = hm.simulate(hm.configuration("ball", n=60), RULE, layers=2)
    legends: list[str] = []
    movies.movie(
        run,
        steps=1,
        fps=1,
        overlay=lambda ax: legends.append(ax.figure.get_supxlabel()),
    )
    line = "stars lead; colours: the token followed; shaded: hull of the leaders"
    assert {" ".join(legend.split()) for legend in legends} == {line}


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
    assert faces(stars) == [COLOURS[c] for c in (0, 0, 1)]
    assert len(circles.get_offsets()) == 1


def test_leaders_have_one_colour_in_every_picture() -> None:
    tokens = hm.configuration("ball", n=60)
    trajectory, limit = hm.simulate(tokens, RULE, layers=30), hm.limit(tokens, RULE)
    assert len(limit.leaders) > len(COLOURS)
    sizes = np.bincount(limit.clusters)
    seen = []
    for ax in (plot_tokens(trajectory), plot_limit(limit)):
        seen.append(faces(drawn(ax)[-1]))
        assert [
            colour for colour in seen[-1] if colour in COLOURS
        ] == COLOURS  # each once, by the number of the leader
        assert len(set(seen[-1])) == len(limit.leaders)  # the others have hues
    assert seen[0] == seen[1]
    coloured = np.array([Palette(trajectory)(i) in COLOURS for i in limit.leaders])
    assert sizes[coloured].min() >= sizes[~coloured].max()
    chosen = Palette(trajectory, chosen={int(i): "#123456" for i in limit.leaders})
    assert {*faces(drawn(plot_limit(limit, palette=chosen))[-1])} == {"#123456"}


def test_requested_leaders_have_colours_and_no_two_leaders_share_one() -> None:
    result = hm.control.choose_A(hm.configuration("ball", n=50), leaders=(45, 47))
    figure = plot_control(result)
    for ax in figure.axes:
        stars = drawn(ax)[1]
        colours = [colour for colour in faces(stars) if colour != REST]
        assert len(colours) == len(set(colours))
    after = dict(zip(map(tuple, stars.get_offsets()), faces(stars), strict=True))
    assert REST not in {after[tuple(result.tokens[i])] for i in (45, 47)}
    named = plot_control(
        result, names=[f"word {i}" for i in range(50)]
    )  # fewer colours, and no hues
    assert "follows a token without a colour" in [
        text.get_text() for text in named.legends[0].get_texts()
    ]


def test_a_colour_means_the_same_in_every_frame(tmp_path: Path) -> None:
    trajectory = hm.simulate(hm.configuration("gaussian"), RULE, layers=10)
    movies.movie(trajectory, tmp_path / "movie.gif", steps=1, fps=2)
    with Image.open(tmp_path / "movie.gif") as film:
        frames = []
        for k in range(film.n_frames):
            film.seek(k)
            frames.append(
                {tuple(colour) for _, colour in film.convert("RGB").getcolors(1 << 20)}
            )
    shown = [
        tuple(int(COLOURS[c][i : i + 2], 16) for i in (1, 3, 5))
        for c in range(len(trajectory.leaders))
    ]
    for colour in shown:
        near = [
            {
                c
                for c in frame
                if max(abs(a - b) for a, b in zip(c, colour, strict=True)) < 16
            }
            for frame in frames
        ]
        assert all(near), colour
        assert set.intersection(*near), colour  # the very same entry of the palette


def test_coloured_stars_are_above_grey_ones() -> None:
    tokens = hm.configuration("sphere", n=30)
    run = hm.simulate(tokens, RULE, layers=0)
    expected = [REST] * 22 + [
        Palette(run)(i) for i in run.leaders[:8]
    ]  # no token is followed: the first have colours
    ax = plot_tokens(
        run, palette=Palette(run, colours=[*COLOURS])
    )  # an own list of colours has no hues
    assert faces(ax.collections[-1]) == expected
    assert "grey: without a colour" in ax.figure.get_supxlabel()


def test_of_many_clusters_the_largest_have_the_colours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels = np.repeat(np.arange(10), [1, 2, 9, 9, 9, 9, 9, 9, 9, 9])
    X = np.random.default_rng(0).normal(size=(len(labels), 2))
    leaders = np.searchsorted(labels, np.arange(10))
    figure = plot_clusters(X, labels, leaders)
    points, stars = figure.axes[0].collections
    assert faces(points)[3:] == np.repeat(COLOURS, 9).tolist()
    hues = [
        style.hue_colour(style.find_hue(X[i] - X.mean(axis=0))).upper()
        for i in leaders[:2]
    ]
    assert faces(points)[:3] == [hues[0], hues[1], hues[1]]
    assert faces(stars) == [*hues, *COLOURS]
    few = plot_clusters(X[labels < 5], labels[labels < 5], leaders[:5])
    assert few.get_supxlabel() == ""
    monkeypatch.setattr(style, "MAX_DRAWN", 40)
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


def test_few_points_are_all_drawn_and_of_many_a_sample_with_the_extreme_ones() -> None:
    most, rng = style.MAX_DRAWN, np.random.default_rng(0)
    assert np.array_equal(
        style.choose_rows(rng.normal(size=(most, 2)), np.empty(0, np.intp)),
        np.arange(most),
    )
    many, required = rng.normal(size=(5 * most, 2)), np.array([7, 99_999])
    rows = style.choose_rows(many, required)
    assert most - 100 < len(rows) <= most
    assert set(rows) >= {7, 99_999, *style.find_extreme_rows(many).tolist()}
    assert np.array_equal(
        rows, style.choose_rows(many, required)
    )  # the same on every run
    assert (
        len(style.choose_rows(many, np.arange(3 * most))) >= 3 * most
    )  # required rows are never left out
    line = np.column_stack([np.linspace(0, 1, 50), np.zeros(50)])
    assert {0, 49} <= set(style.find_extreme_rows(line).tolist())
    square = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.4]])
    assert style.find_extreme_rows(square).tolist() == [0, 1, 2, 3]


def test_pictures_of_many_tokens_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "MAX_DRAWN", 200)
    tokens = hm.configuration("gaussian", n=1000)
    limit, run = hm.limit(tokens, RULE), hm.simulate(tokens, RULE, layers=3)
    (ax,) = limit.plot().axes
    assert ax.get_title().startswith("limit: certified at layer ")
    (lines,) = drawn(ax, LineCollection)
    starts = {tuple(segment[0]) for segment in lines.get_segments()}
    assert len(starts) <= 200
    assert {tuple(segment[-1]) for segment in lines.get_segments()} <= set(
        map(tuple, limit.points)
    )
    required = [*style.find_extreme_rows(tokens), *limit.leaders]
    assert {tuple(tokens[i]) for i in required} <= starts
    assert np.allclose(
        drawn(ax)[-1].get_offsets(), limit.points
    )  # every leader; here no other point
    assert f"{len(starts)} of 1,000 tokens drawn" in ax.figure.get_supxlabel()
    for figure in (plot_layers(run), plot_tokens(run).figure):
        assert "of 1,000 tokens drawn" in " ".join(figure.get_supxlabel().split())
        assert sum(len(c.get_offsets()) for c in drawn(figure.axes[0])) <= 200
    assert (
        "drawn"
        not in plot_tokens(
            hm.simulate(tokens[:100], RULE, layers=1)
        ).figure.get_supxlabel()
    )


def test_a_page_holds_very_many_lines_as_one_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = hm.configuration("gaussian", n=1000)
    limit = hm.limit(tokens, RULE)
    shapes = Picture.of(plot_limit(limit).figure, "limit", "")
    monkeypatch.setattr(pages, "MAX_SHAPES", 500)
    raster = Picture.of(plot_limit(limit).figure, "limit", "")
    whole, image = (
        b64decode(picture.source.partition(",")[2]) for picture in (shapes, raster)
    )
    assert b"data:image/png" not in whole
    assert image.count(b"data:image/png") == 2  # of the lines, and of the tokens
    assert image.count(b"<path") < whole.count(b"<path") / 5


# Ottosson's Oklab, in which distances are about as large as differences look.
CONES = np.array(
    [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
)
LAB = np.array(
    [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
)
SIGHTS = {  # Machado, Oliveira and Fernandes 2009, and the minimum distance
    "usual": (np.eye(3), 0.12),
    "deuteranopia": (
        np.array(
            [
                [0.3673, 0.8606, -0.2280],
                [0.2801, 0.6725, 0.0474],
                [-0.0118, 0.0429, 0.9689],
            ]
        ),
        0.07,
    ),
    "protanopia": (
        np.array(
            [
                [0.1523, 1.0526, -0.2049],
                [0.1145, 0.7863, 0.0992],
                [-0.0039, -0.0481, 1.0520],
            ]
        ),
        0.07,
    ),
}


def seen(colour: str, sight: np.ndarray) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return LAB @ np.cbrt(CONES @ np.clip(sight @ linear, 0, 1))


@pytest.mark.parametrize("name", SIGHTS)
@pytest.mark.parametrize(
    "colours", [[*COLOURS, REST, "white"], [*text_page.CLASS_COLOURS, REST, "white"]]
)
def test_colours_can_be_distinguished(colours: list[str], name: str) -> None:
    sight, least = SIGHTS[name]
    for one, other in combinations(colours, 2):
        assert np.linalg.norm(seen(one, sight) - seen(other, sight)) > least, (
            one,
            other,
        )


def test_the_largest_have_colours_in_the_order_of_their_numbers() -> None:
    assert style.rank_colours([3, 1, 2]) == COLOURS[:3]
    assert style.rank_colours([1, 5, 2, 5, 5], ["a", "b", "c"]) == [
        REST,
        "a",
        REST,
        "b",
        "c",
    ]
    assert style.rank_colours([1, 1, 1], ["a", "b"]) == ["a", "b", REST]
    assert style.rank_colours([4, 2], []) == [REST, REST]
    around = np.array([[1.0, 0.0], [0.0, 3.0], [-2.0, 0.0]])
    assert [style.find_hue(point) for point in around] == [0, 90, 180]
    assert style.rank_colours([1, 5, 1], ["a"], around) == [
        style.hue_colour(0),
        "a",
        style.hue_colour(180),
    ]
    assert style.cluster_colours(np.array([0, 8, -1]), around) == [
        COLOURS[0],
        style.hue_colour(90),
        REST,
    ]
    # Other points get the colours that leaders leave.
    assert style.point_colours([1, 1], [5, 9], ["a", "b", "c"]) == ["a", "b", REST, "c"]
    assert style.point_colours([1, 2, 3], [9], ["a", "b"]) == [REST, "a", "b", REST]


def test_pages_and_pictures_have_the_same_colours_of_classes() -> None:
    assert (*CLASSES, *style.BESIDE_WORDS) == text_page.CLASS_COLOURS


@pytest.mark.parametrize(
    ("text", "answer"), [("a wonderful film", "pos"), ("a terrible waste", "neg")]
)
def test_each_class_has_the_colour_of_its_side(text: str, answer: str) -> None:
    explanation = hm.pretrained("imdb-2d").explain(text)
    assert explanation.prediction == answer
    figure = explanation.plot(kind="plane")
    ax = figure.axes[-1]
    mean = explanation.trajectory[0].array[-1].mean(axis=0)
    (shaded,) = [
        c for c in ax.collections if c.get_zorder() == 0 and c.get_alpha() is not None
    ]
    sides = dict(
        zip(
            (to_hex(c) for c in shaded.get_facecolors()),
            shaded.get_paths(),
            strict=True,
        )
    )
    predicted, other = CLASSES if answer == "neg" else CLASSES[::-1]
    assert sides[predicted.lower()].contains_point(mean)
    assert not sides[other.lower()].contains_point(mean)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"neg", "pos"} <= set(labels)
    used = {colour for collection in drawn(ax) for colour in faces(collection)}
    assert not used & {*CLASSES}  # leaders and followers have other colours


@pytest.mark.parametrize(
    "text",
    ["The start is slow, but the ending is wonderful.", "A good start, but awful."],
)
def test_bars_have_the_colour_of_the_class_that_they_support(text: str) -> None:
    explanation = hm.pretrained("imdb").explain(text)
    ax = explanation.plot(kind="words").axes[0]
    assert {
        to_hex(bar.get_facecolor()).upper() for bar in ax.patches if bar.get_width() > 0
    } == {CLASSES[1]}
    assert {
        to_hex(bar.get_facecolor()).upper() for bar in ax.patches if bar.get_width() < 0
    } == {CLASSES[0]}
    assert ax.get_xlabel() == "neg ← contribution to the logit → pos"
