"""The flow of the example `cylinder_flow.py` is a flow, and the comparison of its leaders is what it says it is."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hardmax as hm

PATH = Path(__file__).parents[1] / "examples" / "cluster" / "cylinder_flow.py"
SPEC = importlib.util.spec_from_file_location("cylinder_flow", PATH)
example = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(example)
INNER = example.INNER


def decay_rate(flow: object, steps: int) -> float:
    """Of the velocity, over the second half of the steps; the first is for the stress to find its value."""
    middle, end = np.linalg.norm(flow.record(np.array([steps // 2, steps])).reshape(2, -1), axis=1)
    return np.log(middle / end) / (steps - steps // 2)


def vortices_error(n: int, viscosity: float = 0.02) -> float:
    """Taylor and Green's vortices in an n by n box decay at the rate 2 nu k^2, exactly; our relative error."""
    k = 2 * np.pi / n
    y, x = np.indices((n, n)) + 0.5
    velocity = 0.32 / n * np.stack([np.cos(k * x) * np.sin(k * y), -np.sin(k * x) * np.cos(k * y)])
    flow = example.Flow(velocity, viscosity, np.zeros((n + 2, n + 2), bool))
    return abs(decay_rate(flow, steps=n * n) / (2 * viscosity * k**2) - 1)


def test_vortices_decay_with_the_viscosity_at_second_order() -> None:
    errors = [vortices_error(n) for n in (12, 24, 48)]
    assert errors[-1] < 2e-3
    slope = np.polyfit(np.log([12, 24, 48]), np.log(errors), 1)[0]
    assert -2.3 < slope < -1.7, errors


def test_the_period_of_a_sine() -> None:
    t = np.arange(300)
    assert example.period(3 + np.sin(2 * np.pi * t / 67.8)) == pytest.approx(67.8, rel=1e-4)
    with pytest.raises(SystemExit, match=r"No vortices are shed yet. More --steps may help."):
        example.period(1e-3 * np.sin(2 * np.pi * t / 67.8))


@pytest.fixture(scope="module")
def shed() -> SimpleNamespace:
    """A coarse run of the whole example."""
    channel = example.Channel(diameter=10)
    flow = channel.start()
    steps = example.settle(flow, channel)
    shots = example.Snapshots.of(flow, steps)
    tokens = shots.training @ shots.modes[:10].T
    limit = hm.limit(tokens, hm.Hardmax(0.5))
    return SimpleNamespace(channel=channel, flow=flow, steps=steps, shots=shots, tokens=tokens, limit=limit)


def test_vortices_are_shed_as_often_as_in_the_benchmark(shed: SimpleNamespace) -> None:
    """0.295 to 0.305 (Schäfer and Turek, 1996), within three per cent for ten cells a diameter."""
    strouhal = shed.channel.diameter / (shed.channel.speed * shed.steps)
    assert 0.286 < strouhal < 0.314
    across = shed.shots.fields[:, 1] / shed.channel.speed
    assert np.ptp(across, axis=0).max() > 1
    density = shed.flow.f[INNER].sum(0)
    assert np.abs(density - 1).max() < 0.06
    assert density[~shed.channel.solid[INNER]].mean() == pytest.approx(1, abs=0.02)


def test_leaders_are_exposed_vertices_and_phases(shed: SimpleNamespace) -> None:
    limit, tokens = shed.limit, shed.tokens
    assert limit.certified
    assert (limit.emerged == 0).all()
    products = tokens[limit.leaders] @ tokens.T
    own = products[np.arange(len(limit.leaders)), limit.leaders].copy()
    products[np.arange(len(limit.leaders)), limit.leaders] = -np.inf
    assert (own > products.max(axis=1)).all()  # a linear function is largest there and nowhere else
    assert example.phases(limit, tokens) == (len(limit.leaders), example.RATES[-1])


@pytest.mark.parametrize("rate", [4, 12])
def test_no_basis_is_better_than_the_modes(shed: SimpleNamespace, rate: int) -> None:
    """On the training snapshots no m fields beat POD; on later ones none beat their own modes."""
    shots, rule = shed.shots, hm.Hardmax(0.5)
    rows = shots.training[:: example.RATES[-1] // rate]
    row = example.compare(rows, shots, rule, 10)
    others = (row.leaders, row.k_means, row.random.min(), row.latest, row.pod)
    assert row.best < min(others)
    assert row.leaders < row.random.mean()
    tokens = rows @ shots.modes[:10].T
    leaders = rows[hm.limit(tokens, rule).leaders]
    assert row.leaders == example.error(leaders, shots.held_out)
    optimal = example.error(shots.modes[: row.m], shots.training)
    for basis in (leaders, example.centres(rows, tokens, row.m), rows[: row.m]):
        assert optimal < example.error(basis, shots.training)
