"""Widgets in notebooks: what the browser sends is done, and what Python says goes there."""

import numpy as np
import pytest

pytest.importorskip("anywidget")

import hardmax as hm
from hardmax.app.packing import unpacked

TOKENS = [[1.0, 0.2], [0.1, 0.9], [-0.8, -0.6], [0.3, 0.1]]


def test_a_dragged_token_is_the_one_that_python_has() -> None:
    widget = hm.playground(TOKENS, hm.Hardmax(0.7), layers=5)
    header, arrays = unpacked(widget.plane.answer)
    assert header["leaders"] == [0, 1, 2]
    assert arrays["paths"].shape == (6, 4, 2)
    widget.plane.request = {"kind": "drag", "token": 0, "place": [0.05, 0.02], "seq": 1, "final": True}
    header, _ = unpacked(widget.plane.answer)
    assert (header["seq"], header["can_undo"]) == (1, True)
    assert widget.tokens[0].tolist() == [0.05, 0.02]
    assert header["leaders"] == hm.simulate(widget.tokens, widget.rule, layers=5).leaders.tolist() != [0, 1, 2]
    widget.plane.request = {"kind": "undo", "seq": 2}
    assert np.array_equal(widget.tokens, TOKENS)


def test_controls_change_the_rule_and_follow_it() -> None:
    widget = hm.playground("square")
    widget._controls["rule"].value = "softmax"
    widget._controls["temperature"].value = 0.0
    assert isinstance(widget.rule, hm.Hardmax)
    assert "Certified" in widget.verdict.value
    widget.plane.request = {"kind": "undo", "seq": 1}
    assert isinstance(widget.rule, hm.Softmax)
    assert widget._controls["temperature"].value == 0.5


def test_what_is_wrong_is_said() -> None:
    widget = hm.playground(TOKENS)
    widget.plane.request = {"kind": "drag", "token": 17, "place": [0, 0], "seq": 3}
    assert "token must be a number from 0 to 3. Got 17." in unpacked(widget.plane.answer)[0]["error"]
    assert np.array_equal(widget.tokens, TOKENS)
    with pytest.raises(hm.InputError, match="`rule` must be Hardmax, Softmax"):
        hm.playground(TOKENS, hm.Normalize())
    with pytest.raises(hm.InputError, match="`tokens` must be"):
        hm.playground(np.zeros((3, 40)))


@pytest.mark.parametrize(
    "rule",
    [
        hm.Softmax(0.3, [[2.0, 0.5], [0.5, 1.0]], temperature=0.2),
        hm.SelfAttention(V=np.diag([1.0, -1.0])),
        hm.Sphere(4.0),
    ],
)
def test_rules_come_as_they_were_given(rule: hm.Softmax | hm.SelfAttention | hm.Sphere) -> None:
    assert repr(hm.playground(TOKENS, rule).rule) == repr(rule)


def test_a_word_is_struck_and_the_model_answers_again() -> None:
    pytest.importorskip("sklearn")
    widget = hm.pretrained("imdb-2d").explain("A <b>wonderful</b> film with a dull end.").show()
    assert "&lt;b&gt;" in widget.details.value
    assert "<b>wonderful" not in widget.details.value
    word = next(piece for piece in widget.words.pieces if piece["text"] == "wonderful")
    widget.words.request = {
        "number": 1,
        "kind": "strike",
        "start": word["start"],
        "end": word["end"],
        "word": "wonderful",
    }
    assert widget.text.read.count("wonderful") == 0
    assert "1 word struck or replaced" in widget.answer.value
    stale = {"number": 2, "kind": "strike", "start": 0, "end": 1, "word": "other"}
    widget.words.request = stale
    assert len(widget.text.edits) == 1
