"""Pages of trajectories: they need no other file, and their texts and frames are those
of the trajectory.
"""

import json
import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.draw.clusters import clusters_page
from hardmax.draw.pages import interactive, trajectory_page
from hardmax.draw.player import HIDDEN, MAX_FRAMES, MAX_TOKENS, STAR, make_frames
from hardmax.draw.style import COLOURS
from hardmax.draw.tokens import Palette
from tests import browser
from tests.test_flow_pictures import uniform


@pytest.fixture(scope="module")
def solid() -> hm.SmoothTrajectory:
    return hm.simulate(uniform(20, 3), hm.SelfAttention(), times=10)


@pytest.fixture(scope="module")
def edges() -> hm.HardmaxTrajectory:
    return hm.simulate(hm.configuration("edge-clusters"), hm.Hardmax(0.5), layers=5)


def tokens_of(trajectory: hm.Trajectory) -> dict[str, np.ndarray]:
    """Return positions (frames, n, d), marks, and names of face and edge colours
    (frames, n), as in the viewer.
    """
    data = make_frames(trajectory)
    tokens, frames = data["tokens"], len(data["frames"])
    arrays = {
        name: np.frombuffer(b64decode(tokens[name]), np.uint8)
        for name in ("faces", "edges", "marks")
    }
    found = {name: array.reshape(frames, -1) for name, array in arrays.items()}
    palette = np.array(tokens["palette"], object)
    found |= {name: palette[found[name]] for name in ("faces", "edges")}
    positions = np.frombuffer(b64decode(tokens["positions"]), np.float32)
    return found | {"positions": positions.reshape(frames, -1, tokens["dimension"])}


def test_a_page_loads_nothing(solid, tmp_path: Path) -> None:
    path = tmp_path / "pages" / "flow.html"
    interactive(solid, path, title="a < b")
    page = path.read_text(encoding="utf-8")
    assert page == interactive(solid, title="a < b")
    assert list(path.parent.iterdir()) == [path]
    assert len(page) < 2e5
    assert "<h1>a &lt; b</h1>" in page
    assert solid.status in page
    assert repr(hm.classify(V=np.eye(3))) in page
    assert "Stars lead at the end; colours: clusters at the end of the run" in page
    assert (
        "shaded: hull. Drag to turn, point at a token for its number, cluster and"
        " leader." in page
    )
    assert not re.search(r"<script[^>]*\ssrc=", page)
    assert not re.search(r"<(link|img|iframe)\b[^>]*\s(href|src)=", page)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "token 19\\ncluster" in page


def test_reports_escape_their_title_and_load_nothing(solid) -> None:
    rule = hm.SelfAttention(
        Q=lambda t: (1 + t) * np.eye(2)
    )  # of which the spectrum of V says nothing
    runs = (
        solid,
        hm.simulate(uniform(5, 2), rule, times=1),
        hm.simulate(uniform(5, 2), hm.Hardmax(0.5), layers=3),
    )
    for run in runs:
        page = trajectory_page(run, "<b>x</b>")
        assert page.startswith("<!doctype html>")
        assert page.count("<h1>hardmax: &lt;b&gt;x&lt;/b&gt;</h1>") == 1
        assert "<nav>" not in page  # there is one section,
        assert "<h2" not in page  # whose title is that of the page
        assert "<b>" not in page
        assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""(src|href)=["'](?!data:)""", page)
        for other in (page, interactive(run)):
            assert other.endswith(
                '<p class="other">Made by hardmax'
                f" {hm.__version__}.</p></body></html>\n"
            )
    assert repr(hm.classify(np.eye(3))) in trajectory_page(solid, "x")


def test_reports_have_a_player_if_there_are_several_frames(edges) -> None:
    page = trajectory_page(edges, "x")
    assert "mount(document.getElementById" in page
    assert (
        "Stars lead; colours: the token followed; white: several; shaded: hull of the"
        " leaders. Drag" in page
    )
    assert 'alt="x: layers"' not in page
    for colour, mark, point in (
        (COLOURS[0], "★", "(1, 1)"),
        (COLOURS[4], "■", "(1, 0)"),
    ):
        assert f'<td><span style="color:{colour}">{mark}</span> {point}</td>' in page
    last = hm.simulate(
        hm.configuration("edge-clusters"), hm.Hardmax(0.5), layers=5, save="last"
    )
    page = trajectory_page(last, "x")
    assert "mount(" not in page
    assert 'alt="x: layers"' in page


def test_frames_are_the_saved_times(solid) -> None:
    labels = [frame["label"] for frame in make_frames(solid)["frames"]]
    assert (len(labels), labels[0], labels[-1]) == (MAX_FRAMES, "t = 0", "t = 10")
    found = tokens_of(solid)
    np.testing.assert_allclose(
        found["positions"][[0, -1]], solid.rescaled[[0, -1]], atol=1e-5
    )
    assert np.flatnonzero(found["marks"][-1] == STAR).tolist() == solid.leaders.tolist()
    assert HIDDEN in found["marks"][-1]  # behind a leader
    assert HIDDEN not in found["marks"][0]


def test_the_hull_is_more_than_a_segment(solid) -> None:
    hull = make_frames(solid)["tokens"]["hull"]
    assert len(hull["facets"][0]) == 3
    assert (
        make_frames(
            hm.simulate(
                uniform(10, 3), hm.SelfAttention(V=np.diag([1, 1, -0.5])), times=2
            )
        )["tokens"]["hull"]
        is None
    )
    two = hm.simulate(
        np.array([[1.0, 0], [-1, 0.2], [0.5, 0.1]]), hm.SelfAttention(), times=10
    )
    assert two.clusters.max() == 1
    assert make_frames(two)["tokens"]["hull"] is None
    assert "shaded" not in interactive(two)


def test_tokens_have_their_number_cluster_and_leader(solid) -> None:
    for i, text in enumerate(make_frames(solid)["tokens"]["texts"]):
        number, cluster, leader = text.split("\n")
        assert (number, cluster) == (f"token {i}", f"cluster {solid.clusters[i]}")
        followed = int(solid.attention(-1)[i].argmax())
        assert (
            leader == "leads"
            if followed == i
            else leader.startswith(f"follows {followed} (")
        )


def test_without_leaders_the_page_mentions_none() -> None:
    softmax = hm.simulate(
        hm.configuration("gaussian", n=20), hm.Softmax(0.5), layers=10
    )
    assert not len(softmax.leaders)
    assert all(
        text.count("\n") == 1 for text in make_frames(softmax)["tokens"]["texts"]
    )  # number and cluster
    assert STAR not in tokens_of(softmax)["marks"]
    page = interactive(softmax)
    assert "point at a token for its number and cluster.<" in page
    assert "lead at the end" not in page


def test_a_page_of_many_tokens_states_how_many_it_draws() -> None:
    tokens = hm.configuration("gaussian", n=MAX_TOKENS + 500)
    trajectory = hm.simulate(tokens, hm.Hardmax(0.5), layers=2)
    indices = [
        int(text.split("\n")[0].removeprefix("token "))
        for text in make_frames(trajectory)["tokens"]["texts"]
    ]
    assert len(indices) <= MAX_TOKENS
    assert set(trajectory.leaders) <= set(indices)
    np.testing.assert_array_equal(
        tokens_of(trajectory)["positions"][0], tokens[indices].astype(np.float32)
    )
    assert f"{len(indices):,} of 3,500 tokens drawn. Drag" in interactive(trajectory)


def test_frames_of_hardmax_are_layers(edges) -> None:
    data = make_frames(edges)
    assert [frame["label"] for frame in data["frames"]] == [
        f"layer {k}" for k in range(6)
    ]
    texts = data["tokens"]["texts"]
    assert texts[0].endswith("leads")
    assert texts[4].endswith("follows 0, 1")  # (1/2, 0) tends to the middle of an edge
    assert tokens_of(edges)["faces"][0, 4] == "paper"
    assert data["tokens"]["hull"]["facets"] is None
    assert "Every token is decided" in interactive(edges)


@pytest.mark.parametrize(
    ("tokens", "rule", "run"),
    [
        (uniform(6, 1), hm.SelfAttention(), {"times": 2}),
        (uniform(6, 5), hm.Softmax(0.5), {"layers": 4}),
        (hm.configuration("sphere", n=8, d=3), hm.Sphere(5.0), {"times": 2}),
        (hm.configuration("sphere", n=8, d=2), hm.Sphere(5.0), {"times": 2}),
        (np.ones((1, 2)), hm.SelfAttention(), {"times": 2}),
        (np.array([[1.0, 0, 0], [-1, 0, 0]]), hm.SelfAttention(), {"times": 2}),
        (uniform(6, 3), hm.Hardmax(0.5, normalize=False), {"layers": 4}),
        (
            uniform(6, 2),
            hm.MultiHead([hm.SelfAttention(), hm.SelfAttention()]),
            {"times": 1},
        ),
    ],
)
def test_every_rule_and_dimension_plays(tokens, rule, run) -> None:
    trajectory = hm.simulate(tokens, rule, **run)
    assert "mount(" in interactive(trajectory)
    assert not any(
        "$" in axis["label"] for axis in make_frames(trajectory)["panels"][0]["axes"]
    )


def test_a_causal_flow_is_not_called_proved():
    rule = hm.SelfAttention(V=np.diag([2.0, 1.0]), causal=True)
    page = hm.interactive(hm.simulate(np.eye(2), rule, times=1))
    assert "OPEN: attention is causal." in page
    assert "Proved" not in page


@pytest.mark.parametrize("d", [2, 3])
def test_tokens_that_others_follow_have_rings_of_their_colour(d) -> None:
    run = hm.simulate(
        hm.configuration("gaussian", n=30, d=d), hm.Hardmax(0.5), layers=3
    )
    palette, edges, ringed = Palette(run), tokens_of(run)["edges"], 0
    for k in range(4):
        followed = [i for i in run.followers(k) if run.sets(k)[i].tolist() != [i]]
        ringed += len(followed)
        assert edges[k].tolist() == [
            palette(i) if i in followed else "ink" for i in range(30)
        ]
    assert ringed > 0


@browser.needed
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_plays_in_a_browser(solid, edges, scheme, tmp_path: Path) -> None:
    with (
        browser.started() as chromium,
        browser.opened(chromium, (900, 900), scheme) as page,
    ):
        for run in (solid, edges):
            interactive(run, tmp_path / "page.html")
            page.goto((tmp_path / "page.html").as_uri())
            player = page.locator(".hm-player")
            assert player.get_attribute("data-frame") == "0"
            page.get_by_role("slider").focus()
            page.keyboard.press("End")
            last = len(make_frames(run)["frames"]) - 1
            assert player.get_attribute("data-frame") == str(last)
            page.get_by_role("button", name="Play").click()
            page.get_by_role("button", name="Pause").wait_for()
            page.get_by_role("button", name="Play").wait_for()
            assert player.get_attribute("data-frame") == str(last)
            page.locator("canvas").hover(position={"x": 400, "y": 200})
            assert browser.unfriendly(page) == []
        assert page.problems == []


@browser.needed
def test_the_cut_of_a_tree_of_clusters_is_dragged(tmp_path: Path) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    points, _ = datasets.make_moons(120, noise=0.06, random_state=0)
    clustering = hm.HardmaxClustering(n_clusters=2).fit(points)
    (tmp_path / "page.html").write_text(
        clusters_page(clustering, points, "Moons"), encoding="utf-8"
    )
    with browser.started() as chromium, browser.opened(chromium, (1000, 900)) as page:
        page.goto((tmp_path / "page.html").as_uri())
        data = json.loads(
            page.locator("script[type='application/json']").text_content()
        )
        box = page.locator("canvas").nth(1).bounding_box()
        axes, cuts = data["panels"][1]["axes"], data["panels"][1]["cuts"]

        def height(value: float) -> float:
            return box["y"] + 12 + (box["height"] - 54) * (1 - value / axes[1]["high"])

        player, start = page.locator(".hm-player"), data["start"]
        share = (
            data["frames"][start]["panels"][0][2]["points"][0][0] - axes[0]["low"]
        ) / (axes[0]["high"] - axes[0]["low"])
        x = box["x"] + 52 + share * (box["width"] - 66)
        page.mouse.move(x, height(cuts[start]))
        page.mouse.down()
        page.mouse.move(x, height(cuts[start + 2]), steps=4)
        page.mouse.up()
        assert player.get_attribute("data-frame") == str(start + 2)
        assert page.problems == []


WATCH = """() => {
  const [pen, seen] = [CanvasRenderingContext2D.prototype, (window.seen = { rings: 0, heights: [] })];
  const { arc, lineTo } = pen;
  pen.arc = function (x, y, radius, ...rest) { seen.rings += radius === 7; arc.call(this, x, y, radius, ...rest); };
  pen.lineTo = function (x, y) { seen.heights.push(y); lineTo.call(this, x, y); };
}"""


@browser.needed
def test_members_of_every_cluster_are_marked_and_pages_fit_the_window(
    tmp_path: Path,
) -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    angles = np.repeat(np.arange(12) * np.pi / 6, 15)
    points = 5 * np.column_stack([np.cos(angles), np.sin(angles)]) + 0.1 * rng.normal(
        size=(180, 2)
    )
    clustering = hm.HardmaxClustering(n_clusters=12).fit(points)
    (tmp_path / "clusters.html").write_text(
        clusters_page(clustering, points, "Rings"), encoding="utf-8"
    )
    solid = hm.simulate(uniform(30, 3), hm.Hardmax(0.5), layers=4)
    (tmp_path / "solid.html").write_text(
        trajectory_page(solid, "Solid"), encoding="utf-8"
    )
    with browser.started() as chromium, browser.opened(chromium, (1280, 800)) as page:
        page.goto((tmp_path / "clusters.html").as_uri())
        box = page.locator("canvas").first.bounding_box()
        axes = json.loads(
            page.locator("script[type='application/json']").text_content()
        )["panels"][0]["axes"]
        inner = box["width"] - 66, box["height"] - 54
        scale = min(
            side / (axis["high"] - axis["low"])
            for side, axis in zip(inner, axes, strict=True)
        )
        x, y = (points[170] - [(axis["low"] + axis["high"]) / 2 for axis in axes]) * [
            scale,
            -scale,
        ]
        page.evaluate(WATCH)
        page.mouse.move(
            box["x"] + 52 + inner[0] / 2 + x, box["y"] + 12 + inner[1] / 2 + y
        )
        members = int((clustering.labels_ == clustering.labels_[170]).sum())
        assert page.evaluate("() => window.seen.rings") == members == 15
        page.goto((tmp_path / "solid.html").as_uri())
        page.evaluate(WATCH)
        page.locator("canvas").press("0")  # draws again
        heights, size = page.evaluate(
            "() => [window.seen.heights, document.querySelector('canvas').clientHeight]"
        )
        assert 0 < min(heights) < max(heights) < size
        controls = page.locator(".hm-controls").bounding_box()
        assert controls["y"] + controls["height"] <= 800
        assert page.problems == []
