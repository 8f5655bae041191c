"""All rules: representations, immutability, equality."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems.self_attention import waves

pytestmark = pytest.mark.quick

EYE = np.eye(2)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (hm.Softmax(0.5, temperature=0.1), "Softmax(alpha=0.5, temperature=0.1)"),
        (hm.Softmax(0.5, EYE), "Softmax(alpha=0.5, A=[[1.0, 0.0], [0.0, 1.0]])"),
        (hm.FeedForward.random(2), "FeedForward(W1=8 by 2, W2=2 by 8)"),
        (hm.Normalize("layer"), "Normalize(kind='layer')"),
        (hm.MultiHead([hm.Softmax(1)]), "MultiHead(heads=(Softmax(alpha=1),))"),
        (hm.SelfAttention(), "SelfAttention()"),
        (
            hm.SelfAttention(V=waves, causal=True),
            "SelfAttention(V=waves(t), causal=True)",
        ),
        (
            type("Shrink", (hm.rules.Layered,), {"attention": None, "layer": None})(),
            "Shrink()",
        ),
        (
            hm.Hardmax(0.1),
            "Hardmax(alpha=0.1)",
        ),  # a float and a Fraction differ: ties may depend on it
        (hm.Hardmax(Fraction(1, 10)), "Hardmax(alpha=1/10)"),
        (hm.Hardmax(1e-12), "Hardmax(alpha=1e-12)"),
        (hm.Hardmax(2), "Hardmax(alpha=2)"),
        (hm.Hardmax([0.5, Fraction(1, 3)]), "Hardmax(alpha=[0.5, 1/3])"),
    ],
)
def test_representations_of_rules(rule, text):
    assert repr(rule) == text


def test_rules_cannot_be_changed():
    given = np.eye(2)
    rule = hm.Softmax(0.5, given)
    with pytest.raises(AttributeError):
        rule.alpha = 1
    with pytest.raises(ValueError, match="read-only"):
        rule.A[0, 0] = 5
    given[0, 0] = 7
    assert rule.A[0, 0] == 1  # the rule has a copy


def test_rules_are_values():
    assert hm.Hardmax(0.5) == hm.Hardmax(Fraction(1, 2)) != hm.Hardmax(0.5, exact=True)
    assert (
        len({hm.Hardmax(0.5, EYE), hm.Hardmax(0.5, [[1, 0], [0, 1]]), hm.Hardmax(0.5)})
        == 2
    )
    assert hm.Hardmax(0.5) != hm.Hardmax(0.5, causal=True)
    assert hm.Hardmax(1, normalize="rescaling") == hm.Hardmax(1)
    assert hm.Hardmax(1, normalize="none") == hm.Hardmax(1, normalize=False)
