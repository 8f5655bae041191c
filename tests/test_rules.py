"""All rules: invalid arguments, representations, immutability, custom rules."""

import re
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems.softmax import ANY_A, TOKENS, last

pytestmark = pytest.mark.quick

EYE = np.eye(2)


BAD = {
    "temperature zero": (lambda: hm.Softmax(1, temperature=0), "`temperature`"),
    "temperature negative": (lambda: hm.Softmax(1, temperature=-1.0), "`temperature`"),
    "temperature nan": (lambda: hm.Softmax(1, temperature=np.nan), "`temperature`"),
    "temperature infinite": (lambda: hm.Softmax(1, temperature=np.inf), "`temperature`"),
    "temperature too small": (lambda: hm.Softmax(1, temperature=1e-310), "`temperature`"),
    "temperature text": (lambda: hm.Softmax(1, temperature="cold"), "`temperature`"),
    "temperature none": (lambda: hm.Softmax(1, temperature=None), "`temperature`"),
    "temperature two": (lambda: hm.Softmax(1, temperature=[1, 2]), "`temperature`"),
    "temperature complex": (lambda: hm.Softmax(1, temperature=1j), "`temperature`"),
    "temperature true": (lambda: hm.Softmax(1, temperature=True), "`temperature`"),
    "alpha": (lambda: hm.Softmax(-1), "`alpha`"),
    "alphas": (lambda: hm.Softmax([]), "`alpha`"),
    "A not square": (lambda: hm.Softmax(1, np.ones((2, 3))), "`A`"),
    "A nan": (lambda: hm.Softmax(1, [[np.nan]]), "`A`"),
    "A ragged": (lambda: hm.Softmax(1, [[1, 2], [3]]), "`A`"),
    "A text": (lambda: hm.Softmax(1, [["a"]]), "`A`"),
    "A empty": (lambda: hm.Softmax(1, np.empty((0, 0))), "`A`"),
    "normalize": (lambda: hm.Softmax(1, normalize="batch"), "`normalize`"),
    "kind": (lambda: hm.Normalize("rescaling"), "`kind`"),
    "W1 vector": (lambda: hm.FeedForward([1.0], EYE), "`W1`"),
    "W1 and W2": (lambda: hm.FeedForward(np.ones((3, 2)), np.ones((3, 2))), "`W1`"),
    "W2 infinite": (lambda: hm.FeedForward(EYE, np.full((2, 2), np.inf)), "`W2`"),
    "b1": (lambda: hm.FeedForward(EYE, EYE, [1, 2, 3]), "`b1`"),
    "b2": (lambda: hm.FeedForward(EYE, EYE, None, [1]), "`b2`"),
    "b1 nan": (lambda: hm.FeedForward(EYE, EYE, [1, np.nan]), "`b1`"),
    "activation": (lambda: hm.FeedForward(EYE, EYE, activation="swish"), "`activation`"),
    "random d": (lambda: hm.FeedForward.random(0), "`d`"),
    "no parts": (lambda: hm.Compose([]), "`parts`"),
    "no rule": (lambda: hm.Compose([hm.Softmax(1), 3]), "`parts`"),
    "no list": (lambda: hm.Compose(hm.Softmax(1)), "`parts`"),
    "dt of compose": (lambda: hm.Compose([hm.Softmax(1)], dt=0), "`dt`"),
    "sizes of parts": (lambda: hm.Compose([hm.Softmax(1, EYE), hm.FeedForward.random(3)]), "`parts`"),
    "no heads": (lambda: hm.MultiHead([]), "`heads`"),
    "head no rule": (lambda: hm.MultiHead([0.5]), "`heads`"),
    "layers and flows": (lambda: hm.MultiHead([hm.Softmax(1), hm.SelfAttention()]), "`heads`"),
    "head by itself": (lambda: hm.MultiHead([hm.Softmax(1), hm.Normalize()]), "`heads`"),
    "shares alone": (lambda: hm.MultiHead([hm.Softmax(1)], shares=[1]), "`shares`"),
    "shares": (lambda: hm.MultiHead([hm.Softmax(1)], shared=True, shares=[1, 2]), "`shares`"),
    "shared sizes": (lambda: hm.MultiHead([hm.Softmax(1, EYE), hm.Softmax(1, ANY_A)], shared=True), "`heads`"),
    "heads do not split": (
        lambda: last(TOKENS, hm.MultiHead([hm.Softmax(1), hm.Softmax(2)])),
        "Tokens of dimension 3",
    ),
    "heads want more": (
        lambda: last(TOKENS, hm.MultiHead([hm.Softmax(1, EYE), hm.Softmax(2, EYE)])),
        "d = 4",
    ),
    "dimension of A": (
        lambda: last(TOKENS, hm.Softmax(1, EYE)),
        "d = 2",
    ),
    "times for layers": (lambda: hm.simulate(TOKENS, hm.Softmax(1), times=[0, 1]), "`layers`"),
    "both": (lambda: hm.simulate(TOKENS, hm.Hardmax(1), layers=1, times=3), "`layers`"),
    "no layers": (lambda: hm.simulate(TOKENS, hm.Softmax(1)), "`layers`"),
    "A complex": (lambda: hm.Softmax(1, [[1j]]), "`A`"),
    "temperature callable": (lambda: hm.Softmax(1, temperature=len), "`temperature`"),
    "temperature ragged": (lambda: hm.Softmax(1, temperature=[1, [2, 3]]), "`temperature`"),
    "b1 ragged": (lambda: hm.FeedForward(EYE, EYE, [[1], [1, 2]]), "`b1`"),
    "gain nan": (lambda: hm.FeedForward(EYE, EYE, gain=np.nan), "`gain`"),
    "gain text": (lambda: hm.FeedForward(EYE, EYE, gain="much"), "`gain`"),
    "normalize list": (lambda: hm.Softmax(1, normalize=[]), "`normalize`"),
    "activation list": (lambda: hm.FeedForward(EYE, EYE, activation=[]), "`activation`"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_argument_is_named(name):
    call, parameter = BAD[name]
    with pytest.raises(ValueError, match=re.escape(parameter)):
        call()


def test_representations_of_rules():
    assert repr(hm.Softmax(0.5, temperature=0.1)) == "Softmax(alpha=0.5, temperature=0.1)"
    assert repr(hm.Softmax(0.5, EYE)) == "Softmax(alpha=0.5, A=[[1.0, 0.0], [0.0, 1.0]])"
    assert repr(hm.FeedForward.random(2)) == "FeedForward(W1=8 by 2, W2=2 by 8)"
    assert repr(hm.Normalize("layer")) == "Normalize(kind='layer')"
    assert repr(hm.MultiHead([hm.Softmax(1)])) == "MultiHead(heads=(Softmax(alpha=1),))"


def test_rules_cannot_be_changed():
    rule = hm.Softmax(0.5, EYE)
    with pytest.raises(AttributeError):
        rule.alpha = 1
    with pytest.raises(ValueError, match="read-only"):
        rule.A[0, 0] = 5
    EYE[0, 0] = 7  # the rule has a copy
    try:
        assert rule.A[0, 0] == 1
    finally:
        EYE[0, 0] = 1


class Shrink(hm.rules.Layered):
    """A rule without dataclass fields, as in the documentation of `Layered`."""

    def attention(self, tokens, at, keys=None):
        return np.broadcast_to(np.eye(tokens.shape[-2]), (*tokens.shape[:-1], tokens.shape[-2]))

    def layer(self, tokens, k, keys=None):
        return tokens / 2


def test_a_custom_rule_prints_and_its_trajectory_is_written_without_its_code(tmp_path):
    assert repr(Shrink()) == "Shrink()"
    trajectory = hm.simulate(TOKENS, Shrink(), layers=2)
    assert trajectory.status
    trajectory.to_npz(tmp_path / "run.npz")
    with pytest.raises(hm.ParameterError, match="`rule`"):
        hm.Trajectory.from_npz(tmp_path / "run.npz")
    with pytest.raises(hm.ParameterError, match="`rule`"):
        hm.Trajectory.from_npz(tmp_path / "run.npz", rule=hm.Softmax(1))
    again = hm.Trajectory.from_npz(tmp_path / "run.npz", rule=Shrink())
    assert (again.status, again.to_json()) == (trajectory.status, trajectory.to_json())
    np.testing.assert_array_equal(again.tokens, trajectory.tokens)


def test_a_custom_rule_with_the_name_of_a_rule_is_custom(tmp_path):
    namesake = type("Softmax", (Shrink,), {})
    hm.simulate(TOKENS, namesake(), layers=2).to_npz(tmp_path / "run.npz")
    assert type(hm.Trajectory.from_npz(tmp_path / "run.npz", rule=namesake()).rule) is namesake


def test_a_rule_that_the_file_has_is_not_given_again(tmp_path):
    hm.simulate(TOKENS, hm.Softmax(1), layers=1).to_npz(tmp_path / "run.npz")
    with pytest.raises(hm.ParameterError, match="`rule`"):
        hm.Trajectory.from_npz(tmp_path / "run.npz", rule=hm.Softmax(1))


def test_names_of_rules_tell_a_float_from_a_fraction() -> None:
    steps = (0.1, Fraction(1, 10), 1e-12, 2, [0.5, Fraction(1, 3)])
    assert [repr(hm.Hardmax(a)) for a in steps] == [
        "Hardmax(alpha=0.1)",
        "Hardmax(alpha=1/10)",
        "Hardmax(alpha=1e-12)",
        "Hardmax(alpha=2)",
        "Hardmax(alpha=[0.5, 1/3])",
    ]


def test_rules_are_values() -> None:
    assert hm.Hardmax(0.5) == hm.Hardmax(Fraction(1, 2)) != hm.Hardmax(0.5, exact=True)
    assert len({hm.Hardmax(0.5, np.eye(2)), hm.Hardmax(0.5, [[1, 0], [0, 1]]), hm.Hardmax(0.5)}) == 2
