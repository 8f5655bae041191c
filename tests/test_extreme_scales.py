"""Argmax sets at the ends of the range of floats, for every kernel, against rational
arithmetic.
"""

import numpy as np
import pytest

import hardmax as hm
from hardmax.draw.tokens import plot_limit, plot_tokens
from hardmax.exact.argmax import argmax_sets
from hardmax.search.dispatch import KERNELS
from tests.problems.oracle import choose

BATCH, N = 3, 21
# (batch, n, d) of small integers, or of random numbers with some duplicates and ties
POINTS = {
    "lattice": lambda rng, shape: rng.integers(-3, 4, size=shape).astype(float),
    "gaussian": lambda rng, shape: rng.normal(size=shape),
    "equal": lambda rng, shape: np.ones(shape),
    "nearly equal": lambda rng, shape: 1 + 2.0**-40 * rng.integers(0, 4, size=shape),
    "some zero": lambda rng, shape: (
        rng.integers(-3, 4, size=shape) * (rng.uniform(size=(*shape[:2], 1)) < 0.6)
    ),
}
SCALES = {  # exponents of two
    "one": (0, 0),
    "subnormal queries": (-1030, 0),
    "keys with small squares": (0, -500),
    "keys whose squares underflow": (0, -540),
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


@pytest.mark.parametrize("d", [2, 3, 17])
@pytest.mark.parametrize("kind", POINTS)
@pytest.mark.parametrize("scale", SCALES)
def test_argmax_sets_of_batches(kind, scale, d):
    queries, keys = problem(kind, scale, d, seed=d)
    found = argmax_sets(queries, keys)
    expected = [
        members
        for q, k in zip(queries, keys, strict=True)
        for members in choose(q, keys=k)
    ]
    assert [members.tolist() for members in found] == expected


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "scale",
    [*list(SCALES)[:4], "all subnormal", "smallest", "subnormal and huge", "huge"],
)
def test_argmax_sets_of_one_token_set(kernel, scale):
    for d in (2, 3) if kernel != "hull" else (2,):
        queries, keys = (array[0] for array in problem("lattice", scale, d, seed=d))
        if kernel == "symmetric":  # needs queries that are the keys
            keys = queries
        found = argmax_sets(queries, keys, kernel=kernel)
        assert [members.tolist() for members in found] == choose(queries, keys=keys)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("d", [2, 5])
def test_attention_in_float64(scale, causal, masked, d):
    torch = pytest.importorskip("torch")
    queries, keys = problem("lattice", scale, d, seed=1)
    values = np.random.default_rng(2).normal(size=(BATCH, N, 3))
    mask = (
        np.random.default_rng(3).uniform(size=(BATCH, N)) < 0.7
        if masked
        else np.ones((BATCH, N), bool)
    )
    mask[:, 0] = True
    given = [torch.from_numpy(array) for array in (queries, keys, values)]
    found = hm.hardmax_attention(
        *given, mask=torch.from_numpy(mask), causal=causal
    ).numpy()
    for b in range(BATCH):
        for i in range(N):
            seen = np.flatnonzero(mask[b] & ((np.arange(N) <= i) | (not causal)))
            members = seen[choose(queries[b, i : i + 1], keys=keys[b, seen])[0]]
            np.testing.assert_allclose(
                found[b, i], values[b, members].mean(axis=0), rtol=0, atol=1e-14
            )


@pytest.mark.parametrize("power", [-149, -140, -130, 0, 120])
def test_attention_in_float32(power):
    torch = pytest.importorskip("torch")
    for d in (2, 5):
        queries, keys = (
            array.astype(np.float32) for array in problem("lattice", "one", d, seed=1)
        )
        queries = np.ldexp(queries, power)
        values = torch.eye(N).expand(BATCH, N, N)
        found = hm.hardmax_attention(
            torch.from_numpy(queries), torch.from_numpy(keys), values
        ).numpy()
        for b in range(BATCH):
            assert [np.flatnonzero(row).tolist() for row in found[b]] == choose(
                queries[b], keys=keys[b]
            )


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
@pytest.mark.usefixtures("headless")
def test_every_token_set_can_be_drawn(tokens):
    rule = hm.Hardmax(0.5)
    plot_tokens(hm.simulate(tokens, rule, layers=1)).figure.canvas.draw()
    plot_limit(hm.limit(tokens, rule)).figure.canvas.draw()


@pytest.mark.usefixtures("headless")
def test_a_trajectory_that_cannot_be_drawn_is_refused():
    endless = hm.simulate([[1.0, 2.0]], hm.Hardmax(1, normalize=False), layers=1100)
    with pytest.raises(hm.InputError, match="must be finite to be drawn"):
        plot_tokens(endless)


def test_pages_are_of_the_exact_input(run, tmp_path):
    (tmp_path / "square.csv").write_text(
        "0.1,0.3\n0.3,-0.1\n-0.3,0.1\n-0.1,-0.3\n0.02,0.01\n"
    )
    for command in ("simulate", "limit", "verify"):
        assert run(command, "square.csv", "--exact", "--out", f"{command}.html")[0] == 0
        assert "5 cluster points" in (tmp_path / f"{command}.html").read_text()


def test_the_command_line_refuses_complex_numbers_and_words(run):
    for name, array in (("complex.npy", [[1j]]), ("words.npy", [["a"]])):
        np.save(name, np.array(array))
        code, _, err = run("limit", name)
        assert code == 2
        assert "must hold real numbers" in err
    assert run("limit", "triangle", "--alpha", "1e400", "--exact")[0] == 0
