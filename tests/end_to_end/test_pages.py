"""The page that plays a trajectory holds everything it needs, and what it says is true."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.draw import pages
from hardmax.draw.pages import interactive, trajectory_page
from hardmax.draw.player import MAX_FRAMES, MAX_TOKENS, make_figure
from hardmax.draw.style import COLOURS, EDGE
from hardmax.draw.tokens import Palette

pytest.importorskip("plotly")


def uniform(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(-5, 5, (n, d))


@pytest.fixture(scope="module")
def solid() -> hm.SmoothTrajectory:
    return hm.simulate(uniform(20, 3), hm.SelfAttention(), times=10)


def without_plotly(page: str) -> str:
    """The page without Plotly's own script."""
    return re.sub(r"<script[^>]*>/\*\*.*?</script>", "", page, flags=re.DOTALL)


def test_the_page_is_whole_and_loads_nothing(solid, tmp_path: Path) -> None:
    path = tmp_path / "pages" / "flow.html"
    interactive(solid, path, title="a < b")
    page = path.read_text(encoding="utf-8")
    assert page == interactive(solid, title="a < b")
    assert list(path.parent.iterdir()) == [path]
    assert len(page) < 8e6
    assert "<h1>a &lt; b</h1>" in page
    assert solid.status in page
    assert repr(hm.classify(V=np.eye(3))) in page
    assert "Diamonds lead at the end; colours: who is together at the end of the run; grey: alone, or in a " in page
    assert "shaded: hull. Drag to turn or zoom, point at a token for its number, cluster and leader." in page
    assert not re.search(r"<script[^>]*\ssrc=", page)
    assert not re.search(r"<(link|img|iframe)\b[^>]*\s(href|src)=", page)
    ours = without_plotly(page)
    assert len(ours) < 2e6 < len(page)
    assert "http" not in ours
    assert "Plotly.addFrames" in ours
    assert "token 19<br>" in ours.replace("\\u003c", "<").replace("\\u003e", ">")


def test_reports_are_made_as_all_pages_are(solid) -> None:
    rule = hm.SelfAttention(Q=lambda t: (1 + t) * np.eye(2))  # of which the spectrum of V says nothing
    runs = solid, hm.simulate(uniform(5, 2), rule, times=1), hm.simulate(uniform(5, 2), hm.Hardmax(0.5), layers=3)
    for run in runs:
        page = trajectory_page(run, "<b>x</b>")
        assert page.startswith("<!doctype html>")
        assert page.count('<h2 id="b-x-b">&lt;b&gt;x&lt;/b&gt;</h2>') == 1
        assert "<nav>" not in page  # there is one section
        ours = without_plotly(page)
        assert "<b>" not in ours
        assert "http" not in ours
        assert not re.search(r"""(src|href)=["'](?!data:)""", ours)
        for other in (page, interactive(run)):
            assert other.endswith(f'<p class="other">Made by hardmax {hm.__version__}.</p></body></html>\n')
    assert repr(hm.classify(np.eye(3))) in trajectory_page(solid, "x")


def test_reports_have_the_player_where_plotly_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = hm.simulate(hm.configuration("edge-clusters"), hm.Hardmax(0.5), layers=5)
    page = trajectory_page(run, "x")
    assert "Plotly.addFrames" in page
    assert '"label":"Play"' in page
    assert "Stars lead; colours: the leader of each token; white: several; shaded: hull of the leaders. Drag" in page
    assert 'alt="x: layers"' not in page
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    page = trajectory_page(run, "x")
    assert "Plotly" not in page
    assert 'alt="x: layers"' in page
    last = hm.simulate(hm.configuration("edge-clusters"), hm.Hardmax(0.5), layers=5, save="last")
    monkeypatch.undo()
    assert "Plotly" not in trajectory_page(last, "x")  # one frame is no movie


def test_points_have_their_mark_in_the_pictures() -> None:
    run = hm.simulate(hm.configuration("edge-clusters"), hm.Hardmax(0.5), layers=5)
    page = trajectory_page(run, "x")
    for colour, mark, point in ((COLOURS[0], "★", "(1, 1)"), (COLOURS[4], "■", "(1, 0)")):
        assert f'<td><span style="color:{colour}">{mark}</span> {point}</td>' in page


def test_frames_are_the_saved_times(solid) -> None:
    figure = make_figure(solid)
    frames = figure["frames"]
    assert len(frames) == MAX_FRAMES
    assert [step["label"] for step in figure["layout"]["sliders"][0]["steps"]] == [frame["name"] for frame in frames]
    assert (frames[0]["name"], frames[-1]["name"]) == ("t = 0", "t = 10")
    for frame, at in ((frames[0], 0), (frames[-1], -1)):
        tokens = frame["data"][1]
        assert np.allclose(np.column_stack([tokens[axis] for axis in "xyz"]), solid.rescaled[at], atol=1e-5)
    stars = np.flatnonzero(np.array(frames[-1]["data"][1]["marker"]["symbol"]) == "diamond")
    assert stars.tolist() == solid.leaders.tolist()
    tails = frames[-1]["data"][0]
    assert np.isnan(tails["x"]).sum() == 20  # a gap after each
    ways = tails["x"].reshape(20, -1)[:, :-1]
    assert np.allclose(ways[:, [0, -1]], solid.rescaled[[0, -1], :, 0].T, atol=1e-5)


def test_the_hull_comes_with_the_last_frame(solid) -> None:
    figure = make_figure(solid)
    assert figure["data"][2]["type"] == "mesh3d"
    assert [frame["data"][2]["opacity"] > 0 for frame in figure["frames"]] == [False] * (MAX_FRAMES - 1) + [True]
    without = make_figure(hm.simulate(uniform(10, 3), hm.SelfAttention(V=np.diag([1, 1, -0.5])), times=2))
    assert [trace["type"] for trace in without["data"]] == ["scatter3d"] * 2


def test_a_hull_that_is_a_segment_is_left_out() -> None:
    two = hm.simulate(np.array([[1.0, 0], [-1, 0.2], [0.5, 0.1]]), hm.SelfAttention(), times=10)
    assert two.clusters.max() == 1
    assert [trace.get("name") for trace in make_figure(two)["data"]] == [None, None]
    assert "shaded" not in interactive(two)


def test_markers_can_be_seen_and_pointed_at(solid) -> None:
    for frame in make_figure(solid)["frames"]:
        marker = frame["data"][1]["marker"]
        sizes = dict(zip(marker["symbol"], marker["size"], strict=True))
        assert sizes["diamond"] >= 8
        assert set(marker["size"]) <= {0, 7, sizes["diamond"]}  # none where a leader is on top
    assert 0 not in make_figure(solid)["frames"][0]["data"][1]["marker"]["size"]
    assert 0 in marker["size"]


def test_axes_are_those_of_the_pictures() -> None:
    far = hm.simulate(uniform(10, 2), hm.SelfAttention(V=np.diag([1.0, -0.8])), times=10)
    axis = make_figure(far)["layout"]["yaxis"]
    assert axis["title"]["text"].startswith("z<sub>2</sub>, log beyond")
    assert "0" in axis["ticktext"]
    assert len(axis["tickvals"]) == len(axis["ticktext"])
    back = hm.simulate(uniform(10, 2), hm.SelfAttention(V=-np.eye(2)), times=2)
    assert make_figure(back)["layout"]["xaxis"]["title"]["text"] == "x<sub>1</sub>"


def test_words_for_each_token(solid) -> None:
    texts = make_figure(solid)["data"][1]["text"]
    for i, text in enumerate(texts):
        number, cluster, leader = text.split("<br>")
        assert (number, cluster) == (f"token {i}", f"cluster {solid.clusters[i]}")
        heard = int(solid.attention(-1)[i].argmax())
        assert leader == "leads" if heard == i else leader.startswith(f"follows {heard} (")


def test_where_nobody_leads_nothing_is_said_of_leaders() -> None:
    softmax = hm.simulate(hm.configuration("gaussian", n=20), hm.Softmax(0.5), layers=10)
    assert not len(softmax.leaders)
    figure = make_figure(softmax)
    assert all(text.count("<br>") == 1 for text in figure["data"][1]["text"])  # number and cluster
    assert {symbol for frame in figure["frames"] for symbol in frame["data"][1]["marker"]["symbol"]} == {"circle"}
    page = interactive(softmax)
    assert ". Drag to zoom, point at a token for its number and cluster.<" in page
    assert "lead at the end" not in page


def test_a_page_of_many_tokens_is_thinned_and_says_so() -> None:
    tokens = hm.configuration("gaussian", n=MAX_TOKENS + 500)
    trajectory = hm.simulate(tokens, hm.Hardmax(0.5), layers=2)
    figure = make_figure(trajectory)
    shown = figure["data"][1]
    assert len(shown["x"]) <= MAX_TOKENS
    assert {f"token {i}" for i in trajectory.leaders} <= {text.split("<br>")[0] for text in shown["text"]}
    for x, text in zip(shown["x"], shown["text"], strict=True):
        assert x == np.float32(tokens[int(text.split("<br>")[0].removeprefix("token ")), 0])
    assert f"{len(shown['x']):,} of 3,500 tokens drawn. Drag" in interactive(trajectory)


def test_hardmax_plays_too() -> None:
    trajectory = hm.simulate(hm.configuration("edge-clusters"), hm.Hardmax(0.5), layers=5)
    figure = make_figure(trajectory)
    assert [frame["name"] for frame in figure["frames"]] == [f"layer {k}" for k in range(6)]
    texts = figure["data"][1]["text"]
    assert texts[0].endswith("leads")
    assert texts[4].endswith("follows 0, 1")  # (1/2, 0) goes to the middle of an edge
    assert figure["frames"][0]["data"][1]["marker"]["color"][4] == "#FFFFFF"
    assert figure["data"][2]["fill"] == "toself"
    assert "Every token is decided" in interactive(trajectory)


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
        (uniform(6, 2), hm.MultiHead([hm.SelfAttention(), hm.SelfAttention()]), {"times": 1}),
    ],
)
def test_every_rule_and_dimension_plays(tokens, rule, run) -> None:
    trajectory = hm.simulate(tokens, rule, **run)
    assert "Plotly.newPlot" in interactive(trajectory)
    names = [
        axis["title"]["text"] for key, axis in make_figure(trajectory)["layout"].items() if key in ("xaxis", "yaxis")
    ]
    assert not any("$" in name for name in names)  # formulas would need a script that is not in the page


def test_bad_input_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, solid) -> None:
    batch = hm.simulate(np.stack([uniform(4, 2)] * 2), hm.SelfAttention(), times=1)
    with pytest.raises(hm.InputError, match="Got a batch"):
        interactive(batch)
    with pytest.raises(hm.ParameterError, match="`path`"):
        interactive(solid, "flow.png")
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(hm.MissingExtra, match="Plotly"):
        interactive(solid)


def test_a_causal_mask_is_not_called_proved():
    rule = hm.SelfAttention(V=np.diag([2.0, 1.0]), causal=True)
    page = hm.interactive(hm.simulate(np.eye(2), rule, times=1))
    assert "OPEN: attention is causal." in page
    assert "Proved" not in page


def test_tokens_that_others_follow_have_rings_of_their_colour() -> None:
    for d, wide in ((2, 2.5), (3, 2)):
        run = hm.simulate(hm.configuration("gaussian", n=30, d=d), hm.Hardmax(0.5), layers=3)
        palette, ringed = Palette(run), 0
        for k, frame in enumerate(make_figure(run)["frames"]):
            marker = frame["data"][1]["marker"]
            followed = [i for i in run.followers(k) if run.sets(k)[i].tolist() != [i]]
            ringed += len(followed)
            colours = marker["line"]["color"]
            expected = [palette(i) if i in followed else EDGE for i in range(30)]
            assert colours == (expected if followed else EDGE)
            if followed:
                widths = np.broadcast_to(marker["line"]["width"], 30)
                assert {float(widths[i]) for i in followed} == {wide}
        assert ringed > 0
