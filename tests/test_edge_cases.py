"""Inputs at the edge, each of which a simpler program would get wrong."""

import json
from fractions import Fraction

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import hardmax as hm
from hardmax.draw.movies import movie
from hardmax.draw.tokens import plot_limit, plot_tokens
from hardmax.exact.certificates import _peak
from hardmax.polytope import Polytope

HALF = Fraction(1, 2)
LATTICE = [[-2, -1], [-2, 2], [-1, -3], [-1, 0], [-1, 3], [0, -3], [1, -3], [1, 0], [1, 3], [2, -1], [2, 2]]
PLATE = [[x, y, -1 + (x != 0) * (y == 0)] for x in (-1, 0, 1) for y in (-1, 0, 1)]


def outcomes(tokens, rule: hm.Hardmax, layers: int) -> dict[str, str]:
    return {v.name: v.outcome for v in hm.theorems.check(hm.simulate(tokens, rule, layers=layers))}


@pytest.mark.parametrize("power", [-400, -520, -600, -900, -1070])
def test_a_tiny_query_still_finds_its_maximum(power: int) -> None:
    t, u = 2.0**power, 2.0**-53  # the square of the query underflows; the products differ in their last bit
    tokens = [[1, u, u], [1, 1.5 * u, 0], [t, t, t]]
    found, exact = (hm.limit(tokens, hm.Hardmax(0.5, exact=exact)) for exact in (False, True))
    assert found.clusters.tolist() == exact.clusters.tolist() == [0, 1, 0]
    assert np.isfinite(hm.simulate(tokens, hm.Hardmax(0.5), layers=0).margins(0)).all()


def test_near_ties_seen_by_tiny_queries() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        near = 1 + rng.integers(-2, 3, (4, 3)) * 2.0**-52
        tokens = np.vstack([near, rng.uniform(0.5, 1, (3, 3)) * 2.0 ** -rng.integers(500, 600)])
        found, exact = (hm.simulate(tokens, hm.Hardmax(0.5, exact=exact), layers=0) for exact in (False, True))
        assert [s.tolist() for s in found.sets(0)] == [s.tolist() for s in exact.sets(0)]


def test_a_token_that_sees_everything_leaves_no_radius() -> None:
    tokens = [[1, 0], [-1, 0.5], [0, 0]]
    assert [hm.limit(tokens, hm.Hardmax(0.5, exact=exact)).radius for exact in (False, True)] == [0, 0]
    assert [hm.limit([[1, 0]], hm.Hardmax(0.5, exact=exact)).radius for exact in (False, True)] == [np.inf, np.inf]


def test_a_token_amid_those_it_follows_stands_still_without_leading() -> None:
    tokens = [[1, 1], [1, -1], [1, 0]]
    trajectory = hm.simulate(tokens, hm.Hardmax(0.5), layers=3)
    assert trajectory.sets(0)[2].tolist() == [0, 1, 2]
    assert (trajectory.exact(3)[2] == [1, 0]).all()
    assert outcomes(tokens, hm.Hardmax(0.5), 3)["F2 norm"] == "holds"


def test_weights_are_never_negative_by_rounding() -> None:
    limit = hm.limit(PLATE, hm.Hardmax(HALF))
    assert limit.certified
    assert limit.weights.min() == 0
    assert outcomes(PLATE, hm.Hardmax(HALF), 1)["F5 limit"] == "holds"


def test_a_limit_that_no_leader_makes_has_no_weights() -> None:
    tokens = [[-2, 1], [-1, -2], [-1, -2], [2, 2], [1, -1], [2, -1], [0, -2]]
    limit = hm.limit(tokens, hm.Hardmax(HALF, [[2, 1], [0, 0]], any_A=True))
    assert limit.certified
    reached = ~np.isnan(limit.weights).any(axis=1)
    assert not reached[3]
    np.testing.assert_allclose(limit.weights[reached] @ limit.points[: len(limit.leaders)], limit.tokens[reached])


@pytest.mark.parametrize("alpha", [1e-5, 1e-12, Fraction(1, 10**9)])
def test_small_steps_do_not_hang_the_certificate(alpha: float) -> None:
    assert not hm.limit(LATTICE, hm.Hardmax(alpha), max_layers=3).certified
    rho = 1 / (1 + Fraction(alpha))
    assert _peak(2, rho) == rho**2 / (1 - rho) ** 3  # and not a power of rho with millions of digits


@pytest.mark.parametrize(
    ("tokens", "alpha", "layers"),
    [
        ([[1.0, 1], [-1, -1], [0.5, 0.25]], 1e12, 40),
        ([[1.0, 1], [-1, -1], [0.5, 0.25]], 0.5, 2500),
        ([[1.0], [1e-200]], 1e-12, 3),
    ],
)
def test_growth_of_norms_beyond_floats(tokens: list, alpha: float, layers: int) -> None:
    assert outcomes(tokens, hm.Hardmax(alpha), layers)["F2 norm"] == "holds"


def test_verdicts_for_a_matrix_near_singular() -> None:
    A = [[0.668875908015357, 0.4706110546150983], [0.4706110546150983, 0.3311427042396938]]
    tokens = [[141.47608947904504, -198.87965568200798], [92.43594770873511, -130.0453635066387]]
    assert outcomes(tokens, hm.Hardmax([0.1, 0.5, 2], A), 60)["F2 norm"] == "holds"


@pytest.mark.parametrize("scale", [1e300, 1.0, 1e-300, 1e-308, 1e-315, 1e-320])
def test_verdicts_at_every_scale(scale: float) -> None:
    tokens = np.random.default_rng(1).integers(-9, 10, (12, 3)) * scale
    found = outcomes(np.unique(tokens[tokens.any(axis=1)], axis=0), hm.Hardmax(0.5), 12)
    assert set(found.values()) <= {"holds", "hypotheses not met", "nothing to check"}
    assert found["F1 hull"] == found["Theorem 1"] == "holds"


def test_limits_between_the_smallest_floats() -> None:
    tokens = np.array([[8, -7], [9, 9], [-9, 7], [-9, 2], [-6, 3]]) * 5e-324  # one ends halfway between two of these
    A = [[6, 3], [3, 6]]
    assert len(hm.limit(tokens, hm.Hardmax(5, A)).points) == 5
    assert outcomes(tokens, hm.Hardmax(5, A), 3)["F5 limit"] == "holds"


def test_a_token_below_all_floats_is_not_zero() -> None:
    found = outcomes([[Fraction(1, 2**1200), 0], [1, 1], [-1, 2]], hm.Hardmax(0.5), 3)
    assert found["F1 hull"] == found["F5 limit"] == "holds"


def test_leaders_keep_their_last_bit_beside_huge_numbers() -> None:
    tokens = [[1e308, 5e-324], [-1e308, 1.0]]
    trajectory = hm.simulate(tokens, hm.Hardmax(0.5), layers=3)
    assert (trajectory.tokens == trajectory.tokens[0]).all()
    assert outcomes(tokens, hm.Hardmax(0.5), 3)["F4 leaders"] == "holds"


def test_a_zero_matrix_ties_everything() -> None:
    limit = hm.limit([[1.0, 2.0]], hm.Hardmax(0.5, np.zeros((2, 2)), any_A=True))
    assert limit.certified
    assert limit.radius == np.inf
    trajectory = hm.simulate([[1.0, 2.0], [3.0, 4.0]], hm.Hardmax(0.5, np.zeros((2, 2)), any_A=True), layers=1)
    assert trajectory.margins(0).tolist() == [np.inf, np.inf]


def test_growth_beyond_floats_of_tokens_below_them() -> None:
    trajectory = hm.simulate([[1e-300, 0.0]], hm.Hardmax(1e10, normalize=False), layers=31)
    assert trajectory.tokens[31, 0, 0] == pytest.approx(1e10, rel=1e-8)
    assert trajectory.tokens[31, 0, 1] == 0


def test_names_of_rules_tell_a_float_from_a_fraction() -> None:
    steps = (0.1, Fraction(1, 10), 1e-12, 2, [0.5, Fraction(1, 3)])
    assert [repr(hm.Hardmax(a)) for a in steps] == [
        "Hardmax(alpha=0.1)",
        "Hardmax(alpha=1/10)",
        "Hardmax(alpha=1e-12)",
        "Hardmax(alpha=2)",
        "Hardmax(alpha=[0.5, 1/3])",
    ]


def test_a_batch_is_indexed_by_whole_numbers_and_iterated_by_clouds() -> None:
    batch = hm.simulate(np.random.default_rng(0).normal(size=(3, 4, 2)), hm.Hardmax(0.5), layers=1)
    assert [cloud.tokens.shape for cloud in batch] == [(2, 4, 2)] * 3
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        batch[0:2]


def test_padding_of_fractions_keeps_its_values() -> None:
    tokens = np.array([[Fraction(1, 3), 1], [2, 0], [7, 7]], object)
    trajectory = hm.simulate(tokens, hm.Hardmax(0.5), layers=1, mask=[True, True, False])
    assert trajectory.tokens[1, 2].tolist() == [7, 7]


@pytest.mark.parametrize(
    "tokens",
    [
        [[1.0, 2, 3, 4, 5]],
        [[1e20, 1e20]],
        [[1e300, 0, 1e299], [0, 1e300, 1e298]],
        [[1e-300, 0, 0], [0, 1e-300, 1e-301]],
        [[1e308, -1e308]],
        [[0.0, 0.0]],
    ],
    ids=["one token of five", "one far token", "huge", "tiny", "at the end", "zero"],
)
def test_every_cloud_can_be_drawn(tokens: list) -> None:
    mpl.use("Agg")
    rule = hm.Hardmax(0.5)
    plot_tokens(hm.simulate(tokens, rule, layers=1)).figure.canvas.draw()
    plot_limit(hm.limit(tokens, rule), tokens).figure.canvas.draw()
    plt.close("all")


def test_what_cannot_be_drawn_says_why(tmp_path) -> None:
    mpl.use("Agg")
    endless = hm.simulate([[1.0, 2.0]], hm.Hardmax(1, normalize=False), layers=1100)
    with pytest.raises(ValueError, match=r"Tokens must be finite to be drawn. Got infinities"):
        plot_tokens(endless)
    last = hm.simulate([[1.0, 2.0]], hm.Hardmax(1), layers=5, save="last")
    with pytest.raises(ValueError, match='Simulate with `save="all"`'):
        movie(last, tmp_path / "film.gif")
    tolerant = hm.limit([[1.0, 2.0], [0, 1]], hm.Hardmax(1, ties=0.1), max_layers=2)
    with pytest.raises(ValueError, match="Exact points need exact ties"):
        _ = tolerant.exact_points
    plt.close("all")


def test_a_polytope_flat_within_rounding_has_facets() -> None:
    flat = Polytope(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 4e-15]]))
    assert len(flat.facets) >= 2


def test_pages_are_of_the_exact_input(tmp_path, monkeypatch) -> None:
    from hardmax.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "square.csv").write_text("0.1,0.3\n0.3,-0.1\n-0.3,0.1\n-0.1,-0.3\n0.02,0.01\n")
    for command in ("simulate", "limit", "verify"):
        assert main([command, "square.csv", "--exact", "--out", f"{command}.html"]) == 0
        assert "5 cluster points" in (tmp_path / f"{command}.html").read_text()


def test_the_command_line_survives_odd_numbers(tmp_path, monkeypatch, capsys) -> None:
    from hardmax.cli.main import main

    monkeypatch.chdir(tmp_path)
    np.save("complex.npy", np.array([[1j]]))
    np.save("words.npy", np.array([["a"]]))
    for name in ("complex.npy", "words.npy"):
        assert main(["limit", name]) == 2
    assert "must hold real numbers" in capsys.readouterr().err
    assert main(["limit", "triangle", "--alpha", "1e400", "--exact"]) == 0


@pytest.mark.parametrize("exact", [False, True])
def test_a_strict_choice_never_shows_a_margin_of_zero(exact: bool) -> None:
    for tokens, i, margin in (
        ([[2**53 + 1, 1], [2**53, 1], [-5, -5]], 0, 1),
        ([[1e300, 1], [-1e300, 1], [1e-300, 2]], 2, 0.5),
        ([[1, 1e-9], [1, 0], [-1, 0]], 0, 1e-18),
    ):
        trajectory = hm.simulate(tokens, hm.Hardmax(0.5, exact=exact), layers=1)
        assert trajectory.margins(0)[i] == pytest.approx(margin)
    late = hm.simulate([[1.0, 1], [-1, -1], [0.5, 0.25]], hm.Hardmax(0.5, exact=exact), layers=200)
    assert 0 < late.margins(200)[0] < 1e-30


def test_a_radius_between_integers_beyond_floats() -> None:
    tokens = [[2**53 + 1, 1], [2**53, 1], [-5, -5]]
    radii = [hm.limit(tokens, hm.Hardmax(0.5, exact=exact)).radius for exact in (False, True)]
    assert radii == pytest.approx([0.25, 0.25], rel=0.1)


def test_rules_are_values() -> None:
    assert hm.Hardmax(0.5) == hm.Hardmax(Fraction(1, 2)) != hm.Hardmax(0.5, exact=True)
    assert len({hm.Hardmax(0.5, np.eye(2)), hm.Hardmax(0.5, [[1, 0], [0, 1]]), hm.Hardmax(0.5)}) == 2


def test_points_come_in_the_order_of_their_tokens() -> None:
    assert hm.limit(hm.configuration("edge-clusters"), hm.Hardmax(0.5)).clusters[4:6].tolist() == [4, 5]


def test_a_limit_as_json_and_archive(tmp_path) -> None:
    limit = hm.limit(hm.configuration("emerging-leader"), hm.Hardmax(0.5), max_layers=0)
    data = json.loads(limit.to_json())
    assert data["certified"] is False
    assert data["weights"][1] == [None, None]
    limit.to_npz(tmp_path / "limit.npz")
    with np.load(tmp_path / "limit.npz") as file:
        assert np.array_equal(file["clusters"], limit.clusters)
        assert str(file["status"]) == limit.status
