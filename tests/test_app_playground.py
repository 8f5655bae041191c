"""The playground without a server: scenes, answers, control and exports."""

import base64
import io
import json
import runpy

import numpy as np
import pytest

pytest.importorskip("starlette")

import hardmax as hm
from hardmax.app import exports, playground
from hardmax.app.api import Context, choose_pool, handle
from hardmax.app.playground import Cancelled, answer
from hardmax.app.scene import OVERLAYS, RULES, UNMASKED, Scene
from hardmax.draw.player import make_frames
from hardmax.draw.style import COLOURS

TRIANGLE = hm.configuration("triangle").tolist()

MASKED = [
    (rule, causal)
    for rule in RULES
    for causal in (False, True)
    if not (causal and rule in UNMASKED)
]


def scene(**values):
    return Scene.from_data({"tokens": TRIANGLE, **values})


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_answered(rule):
    header, arrays = answer(scene(rule=rule, overlays=list(OVERLAYS), selected=3))
    frames = len(header["layers"])
    assert arrays["positions"].shape == (frames, 15, 2)
    assert arrays["emerged"].shape == arrays["token_colours"].shape == (15,)
    assert header["sentence"].endswith(".")
    assert (
        len(header["columns"]) in {len(row["cells"]) for row in header["points"]}
        or not header["leaders"]
    )
    json.dumps(header, allow_nan=False)


def test_the_answer_is_that_of_the_library():
    header, arrays = answer(scene(overlays=["limit", "polytope"]))
    trajectory, limit = (
        hm.simulate(TRIANGLE, hm.Hardmax(0.5), layers=30),
        hm.limit(TRIANGLE, hm.Hardmax(0.5)),
    )
    assert header["leaders"] == trajectory.leaders.tolist()
    assert (header["details"], header["certified"]) == ([limit.status], True)
    assert header["sentence"] == "Certified at layer 0, by Theorem 1 for 15 tokens."
    assert header["points"][1]["cells"] == ["1", "0.50, \N{MINUS SIGN}0.50", "0", "3"]
    np.testing.assert_allclose(arrays["positions"], trajectory.array, atol=1e-6)
    np.testing.assert_allclose(arrays["limit"], limit.tokens, atol=1e-6)
    for k in (0, 3, 30):
        for i, C in enumerate(trajectory.sets(k)):
            assert arrays["follows"][k, i] == (C[0] if len(C) == 1 else -1)
    assert [v["name"] for v in header["verdicts"]] == [
        v.name for v in hm.theorems.check(trajectory) if v.applies
    ]


def test_colours_stay_with_tokens_when_others_change():
    first = answer(scene())[0]["colours"]
    moved = [[5.0, -5.0], *TRIANGLE]
    later = [[i + 1, colour] for i, colour in first]
    header, arrays = answer(Scene.from_data({"tokens": moved, "colours": later}))
    for token, colour in later:
        if token in header["leaders"]:
            assert arrays["token_colours"][token] == colour
    many, arrays = answer(
        Scene.from_data({"tokens": hm.configuration("sphere", n=12).tolist()})
    )
    assert (
        len(set(arrays["token_colours"].tolist())) == 12
    )  # beyond eight, hues by angle
    assert many["palette"][: len(COLOURS)] == COLOURS
    again = {
        "tokens": hm.configuration("sphere", n=12, seed=5).tolist(),
        "colours": many["colours"],
    }
    header, later = answer(Scene.from_data(again))  # hues stay, too
    assert later["token_colours"].tolist() == arrays["token_colours"].tolist()
    assert header["palette"] == many["palette"]


def test_a_former_leader_keeps_its_colour_while_others_are_free():
    before = answer(scene())[0]["colours"]
    inside = [[0.1, 0.1], *TRIANGLE[1:]]
    header = answer(Scene.from_data({"tokens": inside, "colours": before}))[0]
    assert 0 not in header["leaders"]
    assert dict(header["colours"])[0] == dict(before)[0]


def test_scores_of_the_selected_token():
    found = answer(scene(selected=4, A=[[2.0, 0.5], [0.5, 1.0]]))[0]["scores"]
    Z = np.array(TRIANGLE)
    scores = Z @ (np.array([[2.0, 0.5], [0.5, 1.0]]) @ Z[4])
    assert [bar["token"] for bar in found["bars"]] == np.argsort(
        -scores, kind="stable"
    )[:12].tolist()
    assert found["followed"] == [int(scores.argmax())]
    assert found["margin"] == pytest.approx(np.sort(scores)[-1] - np.sort(scores)[-2])
    assert found["next"] == int(np.argsort(scores)[-2])
    np.testing.assert_allclose(found["to"], Z[4] + (Z[scores.argmax()] - Z[4]) / 3)


@pytest.mark.parametrize(("rule", "causal"), MASKED)
def test_every_rule_has_scores_weights_and_a_step(rule, causal):
    one = scene(rule=rule, causal=causal, selected=4, shown=2)
    header, arrays = answer(one)
    found, trajectory = header["scores"], playground.run(one)
    P = np.asarray(trajectory.attention(2))[4]
    for bar in found["bars"]:
        assert bar["weight"] == pytest.approx(P[bar["token"]])
        assert bar["token"] <= (4 if causal else 14)
    assert found["followed"] == np.flatnonzero(P.max() == P).tolist()
    step = arrays["positions"][3, 4] - arrays["positions"][2, 4]
    np.testing.assert_allclose(np.subtract(found["to"], found["from"]), step, atol=1e-5)
    assert found["step"] == pytest.approx(np.linalg.norm(step), abs=1e-5)


def test_scores_of_a_token_that_is_tied_between_two():
    found = answer(
        Scene.from_data(
            {"tokens": hm.configuration("edge-clusters").tolist(), "selected": 4}
        )
    )[0]["scores"]
    assert found["followed"] == [0, 1]
    assert found["bars"][0]["weight"] == 0.5


def test_causal_limits_are_proved_and_the_polytope_is_that_of_the_last_layer():
    header, arrays = answer(scene(causal=True, shown=1, overlays=["limit"]))
    result = hm.limit(TRIANGLE, hm.Hardmax(0.5, causal=True))
    assert (header["certified"], header["details"]) == (True, [result.status])
    np.testing.assert_allclose(arrays["limit"], result.tokens, atol=1e-6)
    assert {v["name"]: v["outcome"] for v in header["verdicts"]} == dict.fromkeys(
        ("C0 limit", "C1", "C2"), "holds"
    )
    assert [row["leader"] for row in header["points"]][
        : len(result.leaders)
    ] == result.leaders.tolist()
    assert [row["members"] for row in header["points"]] == [
        np.flatnonzero(result.clusters == p).tolist()
        for p in range(len(header["points"]))
    ]
    assert (
        header["polytope"]
        == answer(scene(causal=True, shown=30, overlays=["limit"]))[0]["polytope"]
    )


def test_the_entries_of_V_are_those_of_the_matrix():
    V = handle(
        "values", {"first": 2.0, "second": -1.0, "degrees": 30}, Context()
    ).header["V"]
    assert answer(scene(rule="self-attention", V=V, time=1.0))[0]["V"] == pytest.approx(
        [-1, 2, 120], abs=1e-3
    )


def test_cells_are_those_of_the_shown_layer():
    header, _ = answer(scene(overlays=["cells"], shown=2))
    trajectory = hm.simulate(TRIANGLE, hm.Hardmax(0.5), layers=2)
    assert [cell["token"] for cell in header["cells"]] == hm.cells(
        trajectory.array[2]
    ).owners


def test_a_quick_answer_has_no_verdicts_and_work_can_be_stopped():
    assert "verdicts" not in answer(scene(), quick=True)[0]
    with pytest.raises(Cancelled):
        answer(scene(), stopped=lambda: True)
    assert (
        choose_pool("scene", {"scene": {"tokens": TRIANGLE}, "quick": True}) == "quick"
    )
    assert (
        choose_pool(
            "scene", {"scene": {"tokens": TRIANGLE, "rule": "sphere"}, "quick": True}
        )
        == "long"
    )
    assert [
        choose_pool(*asked) for asked in (("export", {}), ("explain", {"text": "good"}))
    ] == ["files", "quick"]
    assert choose_pool("explain", {"text": "good " * 1100}) == "long"
    many = {
        "tokens": hm.configuration("gaussian", n=400).tolist(),
        "overlays": ["cells"],
        "layers": 5,
    }
    assert choose_pool("scene", {"scene": many, "quick": True}) == "long"
    gone = Context(stopped=lambda: True)
    for path, more in (
        ("export", {"kind": "json"}),
        ("export", {"kind": "gif"}),
        ("multiples", {}),
    ):
        with pytest.raises(Cancelled):
            handle(path, {"scene": {"tokens": TRIANGLE}, **more}, gone)


def test_pulling_a_handle_moves_the_end_of_the_ellipse():
    found = handle(
        "pull",
        {"scene": {"tokens": TRIANGLE}, "axis": 0, "end": [0.42, 0.56]},
        Context(),
    ).header["A"]
    axes = playground.describe_ellipse(scene(A=found))["axes"]
    ends = [*axes, *(-np.array(axes)).tolist()]
    assert min(np.linalg.norm(np.subtract(end, [0.42, 0.56])) for end in ends) < 1e-4


def test_a_matrix_is_chosen_or_the_reason_given():
    tokens = hm.configuration("ball", n=30).tolist()
    header = handle(
        "control",
        {
            "scene": {
                "tokens": tokens,
                "wanted": [int(np.argmax(np.linalg.norm(tokens, axis=1)))],
            }
        },
        Context(),
    ).header
    assert header["A"] is not None
    inside = int(np.argmin(np.linalg.norm(tokens, axis=1)))
    header = handle(
        "control", {"scene": {"tokens": tokens, "wanted": [inside]}}, Context()
    ).header
    assert header["A"] is None
    assert inside in header["tokens"]


@pytest.mark.parametrize(("rule", "causal"), MASKED)
def test_exported_python_gives_the_same_trajectory(rule, causal, tmp_path, capsys):
    one = scene(rule=rule, causal=causal, time=1.0, layers=4)
    path = tmp_path / "scene.py"
    path.write_bytes(exports.to_file(one, "py"))
    names = runpy.run_path(str(path))
    np.testing.assert_array_equal(names["trajectory"].array, playground.run(one).array)
    assert names["trajectory"].status in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "start"),
    [("gif", b"GIF8"), ("html", b"<!doctype"), ("json", b"{")],
)
def test_exports(kind, start):
    assert exports.to_file(scene(layers=3, shown=2), kind).startswith(start)


@pytest.mark.parametrize(("rule", "n"), [("hardmax", 60), ("sphere", 12)])
def test_an_exported_page_has_the_colours_of_the_screen(rule, n):
    data = {
        "tokens": hm.configuration("ball", n=n, seed=3).tolist(),
        "rule": rule,
        "layers": 2,
        "time": 0.1,
    }
    shown = Scene.from_data(data | {"colours": [[5, 3], [7, 200]]})
    header, arrays = answer(shown)
    assert len({*arrays["token_colours"].tolist()}) > len(COLOURS)
    trajectory = playground.run(shown)
    tokens = make_frames(trajectory, exports.choose_palette(shown, trajectory))[
        "tokens"
    ]
    faces = np.frombuffer(base64.b64decode(tokens["faces"]), np.uint8).reshape(-1, n)[0]
    found = [tokens["palette"][k] for k in faces]
    followed = arrays["follows"][0] if rule == "hardmax" else np.arange(n)
    expected = [header["palette"][arrays["token_colours"][i]] for i in followed]
    assert found == expected


def test_exported_csv_is_read_again():
    text = exports.to_file(scene(), "csv").decode()
    assert handle("tokens", {"text": text}, Context()).header["tokens"] == TRIANGLE
    assert np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1).tolist() == TRIANGLE
    later = exports.to_file(scene(shown=3), "csv").decode()
    tokens = hm.simulate(TRIANGLE, hm.Hardmax(0.5), layers=3).array[3]
    assert (
        np.loadtxt(io.StringIO(later), delimiter=",", skiprows=1).tolist()
        == tokens.tolist()
    )


def test_the_tour_and_configurations_are_valid_scenes():
    for step in playground.list_tour():
        answer(Scene.from_data(step["scene"]))
    for name in hm.configurations.CONFIGURATIONS:
        body = {
            "name": name,
            **(
                {"n": 7, "d": 3, "seed": 2}
                if name in hm.configurations.RANDOM_CONFIGURATIONS
                else {}
            ),
        }
        assert handle("configuration", body, Context()).header["tokens"]
    panels = handle("multiples", {"scene": {"tokens": TRIANGLE}}, Context()).header[
        "panels"
    ]
    assert [panel["temperature"] for panel in panels] == list(playground.TEMPERATURES)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"tokens": []}, "tokens"),
        ({"tokens": [[1, 2], [3]]}, "tokens"),
        ({"tokens": [[1e7, 0]]}, "tokens"),
        ({"tokens": [[1.0, 2.0]] * 3001, "rule": "sphere"}, "tokens"),
        ({"tokens": [[1.0] * 16] * 20_000, "layers": 200}, "tokens"),
        ({"tokens": [[float("nan"), 0]]}, "tokens"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": True}, "alpha"),
        ({"layers": 1e9}, "layers"),
        ({"layers": 2.5}, "layers"),
        ({"tokens": [["1", "2"]]}, "tokens"),
        ({"A": [[None, 0], [0, 1]]}, "A"),
        ({"rule": "x"}, "rule"),
        ({"rule": ["hardmax"]}, "rule"),
        ({"A": [[1]]}, "A"),
        ({"wanted": [-1]}, "wanted"),
        ({"colours": [[1]]}, "colours"),
        ({"overlays": "trails"}, "overlays"),
        ({"causal": 1}, "causal"),
        ({"other": 1}, "scene"),
    ],
)
def test_forged_scenes_are_refused(values, name):
    with pytest.raises(hm.ParameterError, match=f"`{name}`"):
        Scene.from_data({"tokens": TRIANGLE} | values)
