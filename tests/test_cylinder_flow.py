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


def walls(height: int, length: int) -> np.ndarray:
    """No cylinder, only walls above and below."""
    solid = np.zeros((height + 2, length + 2), bool)
    solid[[0, -1]] = True
    return solid


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


def test_walls_lie_half_way_between_cells() -> None:
    """A half sine between no-slip walls decays at the rate nu (pi / H)^2; walls in the next cells would make H + 1."""
    height, viscosity = 16, 0.02
    y = (np.arange(height) + 0.5) / height
    velocity = np.zeros((2, height, 8))
    velocity[0] = 0.02 * np.sin(np.pi * y)[:, None]
    flow = example.Flow(velocity, viscosity, walls(height, 8))
    assert decay_rate(flow, steps=2000) == pytest.approx(viscosity * (np.pi / height) ** 2, rel=2e-3)


def test_the_open_channel_tends_to_poiseuille_flow() -> None:
    """From plug flow to the inflow's parabola, with the pressure gradient -12 nu U / H^2."""
    channel = example.Channel(diameter=4, reynolds=10, height=4, length=16)
    velocity = np.zeros((2, *channel.shape))
    velocity[0] = channel.speed
    flow = example.Flow(velocity, channel.viscosity, walls(*channel.shape), channel.inflow)
    u, v = flow.record(np.array([6000]))[0]
    assert np.abs(u - channel.inflow[:, None]).max() < 0.01 * channel.speed
    assert np.abs(v).max() < 0.01 * channel.speed
    pressure = flow.f[INNER].sum(0).mean(0)[8:-8] / 3
    drop = -12 * channel.viscosity * channel.speed / channel.shape[0] ** 2
    assert np.polyfit(np.arange(len(pressure)), pressure, 1)[0] == pytest.approx(drop, rel=0.02)


def test_a_cylinder_neither_takes_nor_gives_mass_and_stops_the_flow() -> None:
    n = 24
    y, x = np.indices((n + 2, n + 2)) - (n + 1) / 2
    solid = x**2 + y**2 < 25
    velocity = np.zeros((2, n, n))
    velocity[0] = 0.05
    velocity[:, solid[INNER]] = 0
    flow = example.Flow(velocity, 0.05, solid)
    fluid = ~solid[INNER]
    mass, speed = flow.f[INNER][:, fluid].sum(), 1.0
    for _ in range(4):
        before, speed = speed, np.linalg.norm(flow.record(np.array([300]))[0])
        assert speed < 0.8 * before
        assert flow.f[INNER][:, fluid].sum() == pytest.approx(mass, rel=1e-12)


def test_without_solids_momentum_is_conserved() -> None:
    velocity = 0.05 * np.random.default_rng(0).standard_normal((2, 12, 16)) + 0.03
    flow = example.Flow(velocity, 0.05, np.zeros((14, 18), bool))
    before = flow.velocity().sum(axis=(1, 2))
    assert flow.record(np.array([200]))[0].sum(axis=(1, 2)) == pytest.approx(before, rel=1e-11)


def test_the_fluid_sticks_to_the_cylinder() -> None:
    """The parabola through three cells above the cylinder is near zero on its surface, half a cell below them."""
    channel = example.Channel(diameter=16, reynolds=10, length=6)
    flow = channel.start()
    u = flow.record(np.array([4000]))[0][0]
    column, top = round(channel.centre * 16), round((channel.centre + 0.5) * 16)
    assert channel.solid[INNER][top - 1, column]
    first, second, third = u[top : top + 3, column]
    assert abs(15 * first - 10 * second + 3 * third) / 8 < 0.03 * channel.speed
    assert first < 0.5 * channel.speed < third
    assert (u[channel.solid[INNER]] == 0).all()


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


def test_the_shedding_is_periodic_and_alternates(shed: SimpleNamespace) -> None:
    """After a period the same snapshot; after half a one nearly the opposite."""
    rows, rate = shed.shots.training, example.RATES[-1]
    size = np.linalg.norm(rows)
    assert np.linalg.norm(rows[rate:] - rows[:-rate]) < 0.02 * size
    assert np.linalg.norm(rows[rate // 2 :] + rows[: -rate // 2]) < 0.4 * size


def test_coordinates_keep_inner_products(shed: SimpleNamespace) -> None:
    fields = shed.shots.fields.reshape(len(shed.shots.fields), -1)
    fields = fields - fields.mean(0)
    assert np.allclose(shed.shots.training @ shed.shots.training.T, fields @ fields.T, atol=1e-10)


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


def test_error_is_that_of_an_orthogonal_projection() -> None:
    basis = np.array([[1.0, 0, 0], [1.0, 1, 0]])
    assert example.error(basis, np.array([[5.0, -7, 0]])) == pytest.approx(0, abs=1e-12)
    assert example.error(basis, np.array([[3.0, 0, 4]])) == pytest.approx(0.8)
