"""Benchmarks compare methods that agree, and refuse where they do not."""

import sys
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks/ is not part of the package

from benchmarks import flows, layers
from benchmarks.definition import euler_loop, triple_loop
from benchmarks.registry import BENCHMARKS, Benchmark, Peer, measure


def test_the_triple_loop_is_the_definition() -> None:
    tokens = hm.configuration("gaussian", n=30, d=3)
    ours = hm.simulate(tokens, hm.Hardmax(0.5), layers=6)
    assert triple_loop(tokens.tolist(), 0.5, 6) == layers._sets(ours)


def test_ratios_are_to_the_first_peer_and_only_of_equal_sets() -> None:
    def peers(answer: list) -> Benchmark:
        both = [Peer("first", lambda: [[[0]]], list, 2), Peer("other", lambda: answer, list, 2)]
        return Benchmark("", lambda: both, lambda one, first: one == first, "chooses other sets than the definition")

    rows = measure(peers([[[0]]]))
    assert [name for name, _, _ in rows] == ["first", "other"]
    assert rows[0][2] == 1
    assert rows[1][2] == rows[0][1] / rows[1][1]
    with pytest.raises(AssertionError, match="other chooses other sets than the definition: no ratio"):
        measure(peers([[[1]]]))


def test_the_loop_of_the_flow_is_of_order_one() -> None:
    tokens, V = hm.configuration("ball", n=6, d=2), hm.matrix("paper-2d")
    exact = hm.simulate(tokens, hm.SelfAttention(V=V), times=[0, 1], rtol=1e-11).rescaled[-1]
    errors = [np.abs(np.array(euler_loop(tokens.tolist(), V.tolist(), 1.0, dt)) - exact).max() for dt in (0.02, 0.01)]
    assert 1.8 < errors[0] / errors[1] < 2.2
    assert flows.no_worse(errors[1], errors[0])
    assert not flows.no_worse(errors[0], errors[1])


def test_every_benchmark_of_the_readme_exists() -> None:
    table = (Path(layers.__file__).parent / "README.md").read_text()
    assert [name for name in BENCHMARKS if f"| `{name}` |" in table] == list(BENCHMARKS)
