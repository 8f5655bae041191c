"""The benchmark of control refuses a wrong optimum, and its wish can be met."""

import numpy as np
import pytest
from benchmarks import control

import hardmax as hm


def test_the_wish_can_be_met_and_has_the_size_it_says() -> None:
    tokens, leaders = control.wish(False)
    assert tokens.shape == (control.N, control.D)
    assert len(leaders) == control.LEADERS
    assert hm.control.choose_A(tokens, leaders=leaders, condition=control.CONDITION).found


@pytest.mark.slow
def test_both_methods_agree_on_a_small_wish() -> None:
    ours, theirs, *larger = (method.answer(method.prepare()()) for method in control._methods(True))
    assert len(larger) == len(control.SIZES)
    assert all(answer["found"] for answer in larger)
    assert control.one_optimum(ours, theirs)
    assert not control.one_optimum(ours, theirs | {"margin": theirs["margin"] + 1e-3})
    assert not control.one_optimum(ours, theirs | {"found": np.array(False)})
