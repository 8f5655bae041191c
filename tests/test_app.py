"""The playground without a browser: scenes and their links, what messages do, what answers hold, what is exported."""

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.spatial import ConvexHull

import hardmax as hm
from hardmax.app import control, exports, tour
from hardmax.app.answers import LONGEST, MANY, Cancelled, answer, pulled
from hardmax.app.controls import MOST_BYTES, Controls
from hardmax.app.links import LONGEST_LINK
from hardmax.app.packing import packed, unpacked
from hardmax.app.review_files import MOST_ROWS
from hardmax.app.reviews import MOST_TEXTS
from hardmax.app.scene import (
    MOST_DIMENSIONS,
    MOST_LAYERS,
    MOST_TOKENS,
    OVERLAYS,
    RULES,
    Scene,
    values_matrix,
    values_of,
)
from hardmax.app.store import Store
from hardmax.app.verdict import verdict
from hardmax.app.views import Playground

TRIANGLE = Scene.of_cloud("triangle")


@pytest.mark.parametrize("rule", RULES)
def test_a_link_holds_the_whole_scene(rule: str) -> None:
    scene = TRIANGLE.changed(
        rule=rule,
        alpha=0.75,
        A=[[2, 1], [1, 2]],
        temperature=0.1,
        V=[[1, 0], [0, -1]],
        beta=4,
        causal=True,
        layers=7,
        time=3,
        shown=4,
        selected=2,
        wanted=[7, 1],
        overlays=["cells", "trails"],
    )
    again = Scene.from_link(scene.to_link())
    assert again.to_data() == scene.to_data()
    assert again.tokens.tobytes() == scene.tokens.tobytes()


def test_a_scene_that_is_too_large_has_no_link() -> None:
    assert Scene.of_cloud("gaussian", n=5000).to_link() == ""
    assert 0 < len(Scene.of_cloud("gaussian", n=200).to_link()) <= LONGEST_LINK


@pytest.mark.parametrize("link", ["x", "eNo", "%%%", "a" * 20_000, "eJyrrgUAAXUA-Q", "4pyT"])
def test_links_that_were_changed_get_a_sentence(link: str) -> None:
    with pytest.raises(ValueError, match=r"link does not hold what it should|must be"):
        Scene.from_link(link)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"alpha": float("nan")}, "`alpha` must be a number from 0.001 to 1000. Got nan"),
        ({"alpha": True}, "`alpha` must be a number"),
        ({"layers": 10**9}, "`layers` must be a number from 1 to 200"),
        ({"rule": "<script>"}, "`rule` must be one of hardmax, softmax"),
        ({"A": [[1, 2]]}, "`A` must be 2 by 2 finite numbers"),
        ({"tokens": [[1, 2], [3]]}, "`tokens` must be rows of numbers"),
        ({"tokens": [[1, float("nan")]]}, "`tokens` must be finite. Got NaN or infinity. Fill or drop missing values."),
        ({"tokens": [[1, 2e6]]}, "`tokens` must be at most 1,000,000. Got 2e+06. Rescale them."),
        ({"tokens": np.zeros((MOST_TOKENS + 1, 2))}, "`tokens` must be 1 to 20,000 rows"),
        ({"overlays": 3}, "`overlays` must be a list of names"),
        ({"wanted": [True]}, "`wanted` must be a list of tokens"),
        ({"other": 1}, "`scene` must have no other names"),
    ],
)
def test_absurd_scenes_get_a_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        TRIANGLE.changed(**values)


def test_every_step_can_be_undone() -> None:
    store = Store(TRIANGLE)
    for k in range(3):
        assert not store.handle({"kind": "drag", "token": 0, "place": [0.1 * k, 0.5], "final": False})
    assert store.handle({"kind": "drag", "token": 0, "place": [0.123456, 0.5], "final": True})
    assert store.scene.tokens[0].tolist() == [0.1235, 0.5]
    store.handle({"kind": "add", "place": [2, 2]})
    assert (store.scene.n, store.scene.selected) == (16, 15)
    store.handle({"kind": "delete", "token": 15})
    assert store.scene.n == 15
    for n in (16, 15, 15):
        store.handle({"kind": "undo"})
        assert store.scene.n == n
    assert store.scene.tokens.tolist() == TRIANGLE.tokens.tolist()
    assert not store.can_undo
    store.handle({"kind": "redo"})
    assert store.scene.tokens[0].tolist() == [0.1235, 0.5]


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {},
        {"kind": "eval", "code": "1"},
        {"kind": "drag", "token": 99, "place": [0, 0]},
        {"kind": "drag", "token": "0", "place": [0, 0]},
        {"kind": "drag", "token": True, "place": [0, 0]},
        {"kind": "drag", "token": 0, "place": [0]},
        {"kind": "drag", "token": 0, "place": ["a", None]},
        {"kind": "drag", "token": 0, "place": [float("nan"), 0]},
        {"kind": "drag", "token": 0, "place": [1e300, 0]},
        {"kind": "pull", "axis": 7, "place": [1, 1]},
        {"kind": "pull", "axis": 0, "place": [0, 0]},
        {"kind": "show", "layer": -1},
        {"kind": "select", "token": {}},
        {"kind": "delete"},
    ],
)
def test_forged_messages_get_a_sentence_and_change_nothing(message: Any) -> None:
    store = Store(TRIANGLE)
    with pytest.raises(ValueError, match=r"must|too near"):
        store.handle(message)
    assert store.scene is TRIANGLE


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_answers_are_what_the_library_says(rule: str, d: int) -> None:
    overlays = ["trails", "polytope", "limit", "half-space", "cells", "ellipse", "attention"]
    scene = Scene.of_cloud("gaussian", n=12, d=d, seed=4).changed(rule=rule, overlays=overlays, selected=3, time=2)
    header, arrays = unpacked(packed(*answer(scene)))
    assert header["n"] == 12
    assert arrays["paths"].shape == (len(header["layers"]), 12, 2)
    assert ("axes_said" in header) == (d > 3)
    assert arrays["attention"].sum(axis=1) == pytest.approx(np.ones(12), abs=1e-5)
    if rule == "hardmax":
        found = hm.limit(scene.tokens, hm.Hardmax(0.5))
        assert header["leaders"] == found.leaders.tolist()
        assert header["status"] == found.status
        run = hm.simulate(scene.tokens, hm.Hardmax(0.5), layers=30)
        assert [row[0] for row in run.sets(5)] == arrays["follows"][5].tolist()
    if d == 2 and rule != "self-attention":
        start = scene.tokens if rule != "sphere" else scene.tokens / np.linalg.norm(scene.tokens, axis=1, keepdims=True)
        assert arrays["paths"][0] == pytest.approx(start, abs=1e-6)
        assert header["movable"]


def test_softmax_at_temperature_0_is_hardmax() -> None:
    hard, soft = (answer(TRIANGLE.changed(rule=rule, temperature=0.0)) for rule in ("hardmax", "softmax"))
    assert np.array_equal(hard[1]["paths"], soft[1]["paths"])


def test_cells_say_whom_a_token_would_follow() -> None:
    header, arrays = answer(TRIANGLE.changed(overlays=["cells"]))
    low, high = header["cells"]["low"], header["cells"]["high"]
    rows, columns = arrays["cells"].shape
    colours = answer(TRIANGLE)[1]["own"]
    for r, c in ((0, 0), (rows - 1, columns - 1), (rows // 2 + 9, 3)):
        place = [low[0] + c * (high[0] - low[0]) / (columns - 1), low[1] + r * (high[1] - low[1]) / (rows - 1)]
        (followed,) = hm.argmax_sets(np.array([place]), TRIANGLE.tokens)
        own = colours[followed[0]]
        assert arrays["cells"][r, c] == (own if own >= 0 else -1)  # grey: a token that nobody follows yet


def test_hulls_of_all_layers_lie_in_one_another() -> None:
    scene = Scene.of_cloud("gaussian", n=30).changed(overlays=["hulls"], layers=6)
    _, arrays = answer(scene, quickly=True)
    ends = arrays["hull_ends"].tolist()
    hulls = [arrays["hulls"][start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert len(hulls) == 7
    for hull, points in zip(hulls, arrays["paths"], strict=True):
        assert {tuple(corner) for corner in hull.tolist()} <= {tuple(point) for point in points.tolist()}
    areas = [ConvexHull(hull).volume for hull in hulls]
    assert all(later <= before * (1 + 1e-6) for before, later in pairwise(areas))
    assert areas[0] == pytest.approx(ConvexHull(scene.tokens).volume, rel=1e-5)


def test_the_half_space_of_a_token_is_known_in_every_layer() -> None:
    A = [[2.0, 0.5], [0.5, 1.0]]
    _, arrays = answer(TRIANGLE.changed(overlays=["half-space"], selected=7, A=A))
    assert arrays["normals"] == pytest.approx(arrays["paths"][:, 7] @ np.array(A), rel=1e-5)


def test_an_answer_is_given_up_when_something_newer_is_asked() -> None:
    with pytest.raises(Cancelled):
        answer(TRIANGLE.changed(rule="sphere"), stopped=lambda: True)


def test_pulling_an_axis_of_the_ellipse() -> None:
    A = pulled(TRIANGLE, 0, np.array([1.0, 0.0]))  # the radius is 1/2
    assert A.tolist() == [[0.25, 0.0], [0.0, 1.0]]
    end = np.array([0.3, 0.4])
    A = pulled(TRIANGLE, 1, end)
    assert end @ A @ end == pytest.approx(0.25)


def test_values_by_their_eigenvalues() -> None:
    V = values_matrix(2.0, -1.0, 30)
    assert np.linalg.eigvalsh(V) == pytest.approx([-1, 2], abs=1e-5)
    assert V @ [np.sqrt(3) / 2, 0.5] == pytest.approx([np.sqrt(3), 1.0], abs=1e-5)
    assert values_of(V) == (2.0, -1.0, 30.0)
    assert values_of(None) == (1.0, 1.0, 0.0)
    assert values_of(np.array([[1.0, 2.0], [0.0, 1.0]])) is None


def test_controls_say_the_values_of_the_scene() -> None:
    controls = Controls(on_file=lambda data: None, download=lambda kind: None)
    for first, second, degrees in ((2.0, -1.0, 30), (-1.0, 2.0, 40)):
        V = values_matrix(first, second, degrees)
        controls.show(TRIANGLE.changed(rule="self-attention", V=V))
        assert controls.matrix_V.visible
        said = values_matrix(controls.first.value, controls.second.value, controls.angle.value)
        assert said == pytest.approx(V, abs=1e-4)
    controls.show(TRIANGLE.changed(rule="self-attention", V=[[1, 2], [0, 1]]))
    assert (controls.matrix_V.visible, controls.rows_V.visible) == (False, True)
    assert controls.rows_V.value == "1.0, 2.0\n0.0, 1.0"


def test_tokens_that_shall_lead_are_the_same_ones_when_another_goes() -> None:
    store = Store(TRIANGLE.changed(wanted=[4, 9]))
    store.handle({"kind": "delete", "token": 4})
    assert store.scene.wanted == (8,)
    store.handle({"kind": "delete", "token": 0})
    assert store.scene.wanted == (7,)
    store.handle({"kind": "undo"})
    store.handle({"kind": "undo"})
    assert store.scene.wanted == (4, 9)


def test_what_is_not_shown_is_said() -> None:
    scene = Scene.of_cloud("gaussian", n=100).changed(overlays=["attention", "half-space", "cells", "limit"])
    assert answer(scene)[0]["unshown_said"] == (
        "Not shown: the half-space is that of a selected token under hardmax in the plane; "
        "the attention matrix is that of up to 80 tokens."
    )
    assert "cells are those of hardmax" in verdict(answer(scene.changed(rule="softmax"))[0])
    every = Scene.of_cloud("gaussian", n=20).changed(overlays=list(OVERLAYS), selected=1)
    assert answer(every)[0]["unshown_said"] == ""


def test_an_answer_that_takes_too_long_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardmax.app.answers.LONGEST", 0.0)
    with pytest.raises(ValueError, match=r"at most 60 seconds\. This one takes longer"):
        answer(TRIANGLE.changed(rule="sphere"))


def test_choosing_who_leads() -> None:
    pytest.importorskip("cvxpy")
    ball = Scene.of_cloud("ball", n=50)
    able = np.flatnonzero(hm.control.can_lead(ball.tokens)).tolist()
    before = answer(ball)[0]["leaders"]
    wanted = [i for i in able if i not in before][:1]
    found = control.find(ball.changed(wanted=wanted))
    assert found.A is not None
    assert np.array_equal(found.A, hm.control.choose_A(ball.tokens, leaders=wanted).A)  # to the last bit
    assert set(wanted) <= set(answer(ball.changed(A=found.A))[0]["leaders"])
    inner = next(i for i in range(50) if i not in able)
    none = control.find(ball.changed(wanted=[inner]))
    assert none.A is None
    assert inner in none.tokens
    with pytest.raises(ValueError, match="must be asked to lead"):
        control.find(ball)


@pytest.mark.parametrize("rule", RULES)
def test_python_makes_the_same_result(rule: str) -> None:
    scene = TRIANGLE.changed(
        rule=rule, alpha=0.25, A=[[2, 0], [0, 1]], V=[[1, 0], [0, 0.5]], time=2, causal=rule == "sphere"
    )
    names: dict[str, Any] = {}
    exec(exports.as_python(scene), names)
    paths = answer(scene)[1]["paths"]
    assert names["trajectory"].drawn.shape[0] == len(paths)
    if rule != "self-attention":  # whose axes may be turned
        assert names["trajectory"].drawn == pytest.approx(paths, abs=1e-4)


@pytest.mark.parametrize("kind", exports.KINDS)
def test_exports(kind: str) -> None:
    data = exports.as_file(TRIANGLE.changed(layers=3), kind)
    begins = {
        "png": b"\x89PNG",
        "svg": b"<?xml",
        "gif": b"GIF8",
        "csv": b"x1,x2\n1.0,1.0\n",
        "json": b"{",
        "scene": b"{",
    }
    assert data.startswith(begins[kind])
    assert plt.get_fignums() == []
    if kind == "scene":
        assert Scene.from_data(json.loads(data)).layers == 3


def test_the_tour_shows_what_it_tells() -> None:
    steps = tour.steps()
    answers = [answer(step.scene)[0] for step in steps]
    assert len(steps) == 5
    assert len(answers[0]["leaders"]) == 1
    assert len(answers[1]["leaders"]) == 3
    assert "the last since layer 1" in answers[2]["status"]
    assert steps[3].scene.rule == "softmax"
    assert "ellipse" in steps[4].scene.overlays


def test_no_verdict_of_an_earlier_scene_stays_beside_a_scene_that_is_refused() -> None:
    playground = Playground(Scene.of_cloud("triangle"))
    asyncio.run(playground._answer())
    assert "Certified" in playground.verdict.object
    playground.store.change(A=[[1.0, 2.0], [2.0, 1.0]])
    playground.store.handle({"kind": "drag", "token": 0, "place": [0.5, 2.0]})
    asyncio.run(playground._answer())
    assert "Certified" not in playground.verdict.object
    assert "symmetric positive definite" in playground.verdict.object
    playground.store.change(A=None)
    asyncio.run(playground._answer())
    assert "Certified" in playground.verdict.object


def test_words_of_the_verdict_are_escaped() -> None:
    header = answer(TRIANGLE)[0] | {"status": "<script>alert(1)</script>"}
    text = verdict(header)
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "Theorem 1" in text


def test_the_docs_say_the_limits_that_hold() -> None:
    page = (Path(__file__).parents[1] / "docs" / "app.md").read_text()
    playground = (
        f"{MOST_TOKENS:,} tokens, {MOST_DIMENSIONS} dimensions, {MOST_LAYERS} layers, files of {MOST_BYTES // 10**6} MB"
    )
    assert playground in page
    assert f"{LONGEST:g} seconds for an answer" in page
    assert f"Beyond {MANY:,} tokens a drag is answered when it ends" in page
    assert f"up to {MOST_ROWS:,} rows" in page
    assert MOST_TEXTS == 6
    assert "up to six" in page
