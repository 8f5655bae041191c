"""The error of a flow is of the size of the `rtol` that was requested."""

from functools import cache

import numpy as np
import pytest
from studies import flow_accuracy

import hardmax as hm

PROBLEMS = flow_accuracy.problems()
UNIFORM, SPHERE = "uniform (300, 3), V = I", "sphere (100, 3), beta = 9"


@cache
def reference(name):
    return flow_accuracy.solve(PROBLEMS[name], rtol=1e-12, atol=1e-15)[0]


@pytest.mark.parametrize(
    ("name", "method", "rtol"),
    [
        *((UNIFORM, "DOP853", rtol) for rtol in (1e-4, 1e-6, 1e-8)),
        *((UNIFORM, "RK45", rtol) for rtol in (1e-4, 1e-6)),
        (UNIFORM, "LSODA", 1e-6),
        (SPHERE, "DOP853", 1e-6),
        ("uniform (40, 2), V(t) = I", "DOP853", 1e-6),
    ],
)
def test_the_error_of_a_trajectory_is_at_most_a_hundred_times_rtol(name, method, rtol):
    found, _ = flow_accuracy.solve(PROBLEMS[name], method=method, rtol=rtol)
    assert flow_accuracy.relative_error(found, reference(name)) < 100 * rtol


def test_the_smallest_rtol_gives_no_warning():
    tokens = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    run = hm.simulate(tokens, hm.SelfAttention(), times=[0, 0.5], rtol=1e-13)
    assert run.stats["rtol_reached"] == 1e-13


def test_the_command_prints_a_table(capsys):
    flow_accuracy.main(["V(t)"])
    out = capsys.readouterr().out
    assert "| DOP853 | 0.000001 |" in out
    assert float(out.rsplit(":", 1)[1]) < 10
