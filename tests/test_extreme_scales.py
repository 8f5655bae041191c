"""Argmax sets at the ends of the range of floats, for every kernel, against rational arithmetic."""

from fractions import Fraction

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import hardmax as hm
from hardmax.draw.movies import movie
from hardmax.draw.tokens import plot_limit, plot_tokens
from hardmax.exact.argmax import argmax_sets
from hardmax.search.dispatch import KERNELS

BATCH, N = 3, 21
POINTS = {  # (batch, n, d) of small integers, or of random numbers with some duplicates and ties
    "lattice": lambda rng, shape: rng.integers(-3, 4, size=shape).astype(float),
    "gaussian": lambda rng, shape: rng.normal(size=shape),
    "equal": lambda rng, shape: np.ones(shape),
    "nearly equal": lambda rng, shape: 1 + 2.0**-40 * rng.integers(0, 4, size=shape),
    "some zero": lambda rng, shape: rng.integers(-3, 4, size=shape) * (rng.uniform(size=(*shape[:2], 1)) < 0.6),
}
SCALES = {  # exponents of two
    "one": (0, 0),
    "subnormal queries": (-1030, 0),
    "subnormal keys": (0, -1035),
    "smaller keys": (-500, -1070),
    "smallest keys": (0, -1074),
    "all subnormal": (-1060, -1030),
    "smallest queries": (-1074, 0),
    "smallest": (-1072, -1072),
    "subnormal and huge": (-1030, 1000),
    "huge and subnormal": (1000, -1030),
    "huge": (1015, 1015),
    "near the square root of the range": (-500, -498),
    "1e150": (496, 497),
}


def problem(kind, scale, d, seed):
    rng = np.random.default_rng(seed)
    queries, keys = (POINTS[kind](rng, (BATCH, N, d)) for _ in range(2))
    return np.ldexp(queries, SCALES[scale][0]), np.ldexp(keys, SCALES[scale][1])


def exact_sets(queries, keys):
    """Return argmax_j <q_i, k_j> for each query, in Fractions."""
    keys, sets = [[Fraction(x) for x in row] for row in keys.tolist()], []
    for query in ([Fraction(x) for x in row] for row in queries.tolist()):
        products = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
        sets.append([j for j, product in enumerate(products) if product == max(products)])
    return sets


@pytest.mark.parametrize("d", [2, 3, 17])
@pytest.mark.parametrize("kind", POINTS)
@pytest.mark.parametrize("scale", SCALES)
def test_argmax_sets_of_batches(kind, scale, d):
    queries, keys = problem(kind, scale, d, seed=d)
    found = argmax_sets(queries, keys)
    expected = [members for q, k in zip(queries, keys, strict=True) for members in exact_sets(q, k)]
    assert [members.tolist() for members in found] == expected


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scale", ["subnormal queries", "all subnormal", "smallest", "subnormal and huge", "huge"])
def test_argmax_sets_of_one_token_set(kernel, scale):
    for d in (2, 3) if kernel != "hull" else (2,):
        queries, keys = (array[0] for array in problem("lattice", scale, d, seed=d))
        if kernel == "symmetric":  # needs queries that are the keys
            keys = queries
        found = argmax_sets(queries, keys, kernel=kernel)
        assert [members.tolist() for members in found] == exact_sets(queries, keys)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("d", [2, 5])
def test_attention_in_float64(scale, causal, masked, d):
    torch = pytest.importorskip("torch")
    queries, keys = problem("lattice", scale, d, seed=1)
    values = np.random.default_rng(2).normal(size=(BATCH, N, 3))
    mask = np.random.default_rng(3).uniform(size=(BATCH, N)) < 0.7 if masked else np.ones((BATCH, N), bool)
    mask[:, 0] = True
    given = [torch.from_numpy(array) for array in (queries, keys, values)]
    found = hm.hardmax_attention(*given, mask=torch.from_numpy(mask), causal=causal).numpy()
    for b in range(BATCH):
        for i in range(N):
            seen = np.flatnonzero(mask[b] & ((np.arange(N) <= i) | (not causal)))
            members = seen[exact_sets(queries[b, i : i + 1], keys[b, seen])[0]]
            np.testing.assert_allclose(found[b, i], values[b, members].mean(axis=0), rtol=0, atol=1e-14)


@pytest.mark.parametrize("power", [-149, -140, -130, 0, 120])
def test_attention_in_float32(power):
    torch = pytest.importorskip("torch")
    for d in (2, 5):
        queries, keys = (array.astype(np.float32) for array in problem("lattice", "one", d, seed=1))
        queries = np.ldexp(queries, power)
        values = torch.eye(N).expand(BATCH, N, N)
        found = hm.hardmax_attention(torch.from_numpy(queries), torch.from_numpy(keys), values).numpy()
        for b in range(BATCH):
            sets = exact_sets(queries[b], keys[b])
            assert [np.flatnonzero(row).tolist() for row in found[b]] == sets


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("power", [-1074, -1060, -1030, 0, 1015])
def test_layers_of_a_batch(power, d):
    tokens = np.ldexp(POINTS["lattice"](np.random.default_rng(d), (BATCH, N, d)), power)
    together = hm.simulate(tokens, hm.Hardmax(0.5), layers=2)
    for b in range(BATCH):
        exact = hm.simulate(tokens[b], hm.Hardmax(0.5, exact=True), layers=2)
        for layer in range(3):
            assert np.array_equal(together[b].attention(layer), exact.attention(layer))


def test_rounding_to_16_bits_does_not_decide():
    """The largest key after rounding to 16-bit integers, by more than one rounding bound, is not the largest."""
    d, half = 64, 32
    query, largest, rounded_up, far = np.full(d, 4000.0), np.zeros(d), np.zeros(d), np.full(d, -4000.0)
    query[:half] -= 0.49  # rounded up where the wrong key is, and down where the right one is
    query[half:] += 0.49
    largest[half:] = 5654 + 0.49
    rounded_up[:half] = 5656 - 0.49
    rounded_up[:6] += 1
    queries = np.tile(query, (2, 16, 1)).astype(np.float32)
    keys = np.tile([rounded_up, largest, *[far] * 14], (2, 1, 1)).astype(np.float32)
    rounded = [np.rint(keys[0, j].astype(float)) @ np.rint(queries[0, 0].astype(float)) for j in range(2)]
    assert rounded[0] - rounded[1] > 260_000
    assert exact_sets(queries[0, :1], keys[0]) == [[1]]
    assert [members.tolist() for members in argmax_sets(queries, keys)] == [[1]] * 32


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


def test_what_cannot_be_drawn_is_refused(tmp_path) -> None:
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


def test_pages_are_of_the_exact_input(tmp_path, monkeypatch) -> None:
    from hardmax.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "square.csv").write_text("0.1,0.3\n0.3,-0.1\n-0.3,0.1\n-0.1,-0.3\n0.02,0.01\n")
    for command in ("simulate", "limit", "verify"):
        assert main([command, "square.csv", "--exact", "--out", f"{command}.html"]) == 0
        assert "5 cluster points" in (tmp_path / f"{command}.html").read_text()


def test_the_command_line_refuses_complex_numbers_and_words(tmp_path, monkeypatch, capsys) -> None:
    from hardmax.cli.main import main

    monkeypatch.chdir(tmp_path)
    np.save("complex.npy", np.array([[1j]]))
    np.save("words.npy", np.array([["a"]]))
    for name in ("complex.npy", "words.npy"):
        assert main(["limit", name]) == 2
    assert "must hold real numbers" in capsys.readouterr().err
    assert main(["limit", "triangle", "--alpha", "1e400", "--exact"]) == 0
