"""The symmetric product: tiles, the registers they use, and the sets that follow."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from hardmax.exact.argmax import argmax_sets, slack_of
from hardmax.search.dispatch import Search
from tests.problems.token_sets import make

pytest.importorskip("numba")

from numba import njit

from hardmax.search import symmetric
from hardmax.search.simd import count_accumulators, tile_maxima

pytestmark = pytest.mark.portable

ON_X86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="names of other processors"
)
PROGRAM = """
import numpy as np
from hardmax.exact.argmax import argmax_sets
from hardmax.search.simd import count_accumulators
rng = np.random.default_rng(0)
for tokens in (rng.normal(size=(700, 21)), np.repeat(rng.normal(size=(90, 16)), 2, axis=0)):
    for kernel in ("symmetric", "scan"):
        assert argmax_sets(tokens, kernel=kernel) == argmax_sets(tokens, kernel="numpy")
print(count_accumulators())
"""


@ON_X86
@pytest.mark.slow
@pytest.mark.parametrize(("cpu", "sums"), [("haswell", 6), ("generic", 2)])
def test_sets_are_the_same_for_narrower_registers(cpu, sums, tmp_path):
    flags = {
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | flags,
        capture_output=True,
        text=True,
    )
    assert run.stdout.split() == [str(sums)], run.stderr


@njit
def _tile(panels, d, cuts, out):
    return tile_maxima(panels, 0, 16 * d, d, cuts, 0, 16, out)


@pytest.mark.parametrize(
    ("cpu", "features", "sums"),
    [
        ("generic", "", 2),
        ("haswell", "", 6),
        ("znver2", "", 6),
        ("skylake-avx512", "", 16),
        ("haswell", "+avx512f", 16),
    ],
)
@ON_X86
def test_sums_fit_the_registers_of_the_target(cpu, features, sums, monkeypatch):
    monkeypatch.setattr("numba.core.config.CPU_NAME", cpu)
    monkeypatch.setattr("numba.core.config.CPU_FEATURES", features)
    assert count_accumulators.__wrapped__() == sums


@pytest.mark.parametrize(
    ("d", "most"), [(1, 32000), (2, 22000), (5, 14000), (16, 8000), (33, 5000)]
)
def test_a_tile_has_the_maxima_of_both_its_sides(d, most):
    tokens = np.random.default_rng(d).integers(-most, most + 1, size=(2, 16, d))
    tokens[:, :2] = most * np.sign(tokens[:, :2])  # as long as they may be
    products, cuts, out = (
        tokens[0] @ tokens[1].T,
        np.zeros(32, np.int32),
        np.zeros(32, np.int32),
    )
    expected = np.r_[products.max(axis=1), products.max(axis=0)]
    cuts[::3] = expected[::3]
    pairs = np.zeros((2, 16, d + d % 2), np.int16)
    pairs[..., :d] = tokens
    panels = (
        np.ascontiguousarray(pairs.reshape(2, 16, -1, 2).transpose(0, 2, 1, 3))
        .reshape(-1)
        .view(np.int32)
    )
    found = _tile(panels, (d + 1) // 2, cuts, out)
    assert out.tolist() == expected.tolist()
    assert [bool(found >> bit & 1) for bit in range(32)] == (expected > cuts).tolist()


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        "gaussian",
        "lattice",
        "duplicates",
        "nearly duplicates",
        "some zero",
        "tiny",
        "mixed scales",
        "off centre",
    ],
)
@pytest.mark.parametrize(
    ("n", "d"), [(1, 16), (15, 3), (16, 16), (17, 40), (129, 1), (300, 16), (1000, 5)]
)
def test_half_of_the_products_gives_all_sets(kind, n, d, clustered, monkeypatch):
    monkeypatch.setattr(
        symmetric, "_are_clustered", lambda *given: clustered
    )  # left to "scan" if they are
    tokens = make(kind, n, d)
    assert argmax_sets(tokens, kernel="symmetric") == argmax_sets(
        tokens, kernel="numpy"
    )


@pytest.mark.parametrize("d", [1, 3, 16, 40])
@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e8])
def test_int16_products_are_within_their_bound(d, scale):
    tokens = scale * np.random.default_rng(d).normal(size=(200, d))
    packed = symmetric._pack_tokens(tokens, np.zeros(200))
    pairs = (
        packed.pairs.view(np.int16)
        .reshape(-1, (d + 1) // 2, 16, 2)
        .transpose(0, 2, 1, 3)
    )
    v, z = (
        pairs.reshape(len(packed.order), -1)[:, :d].astype(np.int64),
        tokens[packed.order],
    )
    unit = np.sqrt((z * z).sum(axis=1).max()) / symmetric.MAX_LENGTH
    assert np.abs(v - z / unit).max() < 0.5 + 1e-9
    off = np.abs(v @ v.T - (z / unit) @ (z / unit).T)
    assert (2 * off <= packed.unsure[:, None]).all()
    assert (
        np.sqrt((v * v).sum(axis=1)).reshape(-1, 16).max(axis=1) <= packed.reach
    ).all()
    assert (packed.inverse * np.sqrt((v * v).sum(axis=1)) <= 1).all()


def test_int16_is_used_where_it_separates_products():
    rng = np.random.default_rng(0)
    spread, slack = rng.normal(size=(3000, 16)), np.zeros(3000)
    assert symmetric._pack_tokens(spread, slack) is not None
    assert symmetric._pack_tokens(spread, slack + 1e3) is None
    clustered = spread[rng.integers(0, 10, 3000)] + 1e-5 * spread
    assert symmetric._pack_tokens(clustered, slack) is None


def test_rows_that_int16_cannot_decide_go_to_the_scan(monkeypatch):
    monkeypatch.setattr(symmetric, "_are_clustered", lambda *given: False)
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(10, 16))[rng.integers(0, 10, 4096)] + 1e-4 * rng.normal(
        size=(4096, 16)
    )
    search, scaled = Search("symmetric"), tokens / 8
    slack = slack_of(scaled, 0.0, scaled, 0.0)
    found, _ = search.near_maxima(scaled, scaled, slack)
    assert search.ran["scan"] > 2048
    assert found == Search("numpy").near_maxima(scaled, scaled, slack)[0]


def test_the_lists_of_all_threads_fit_into_their_memory(monkeypatch):
    tokens = np.random.default_rng(0).normal(size=(700, 16))
    expected, used = argmax_sets(tokens, kernel="numpy"), []
    monkeypatch.setattr(symmetric, "max_threads", lambda: 64)
    original = symmetric._decide
    monkeypatch.setattr(
        symmetric,
        "_decide",
        lambda *given: used.append(len(given[3].values)) or original(*given),
    )
    for bytes_allowed, threads in ((1 << 28, 64), (3 * 704 * 64, 3), (1, 1)):
        monkeypatch.setattr(symmetric, "MAX_BYTES", bytes_allowed)
        used.clear()
        assert argmax_sets(tokens, kernel="symmetric") == expected
        assert set(used) == {threads}


def test_tokens_that_int16_cannot_separate_are_left_to_the_scan():
    tokens = 1 + 1e-10 * np.random.default_rng(0).normal(size=(4096, 16))
    search = Search()
    search.near_maxima(tokens / 2, tokens / 2, np.full(4096, 1e-15))
    assert search.ran["symmetric"] == 0 < search.ran["scan"]
    assert search._choose(tokens, tokens, None) == "scan"  # at the next layer at once
    assert Search()._choose(tokens, tokens, None) == "symmetric"


def test_what_float32_loses_of_small_numbers_grows_with_the_keys():
    tokens = np.zeros((600, 16))
    tokens[0, 0], tokens[1, 1] = 2.0**30, 0.9 * 2.0**30
    tokens[2, :2] = (
        1.49 * 2.0**-149,
        1.51 * 2.0**-149,
    )  # which float32 rounds to one and two of its smallest
    tokens[3:, 2:] = np.random.default_rng(0).normal(size=(597, 14))
    found, _ = Search("symmetric").near_maxima(
        tokens, tokens, slack_of(tokens, 0.0, tokens, 0.0)
    )
    assert found[2].tolist() == [0]


def test_products_beyond_float32_are_not_those_of_tiles():
    tokens = np.zeros((4096, 16))
    tokens[:, 2] = np.arange(4096) / 4096
    tokens[:32, :2], tokens[32, :2] = (
        [4e19, -4e19],
        [1e19, 1e19],
    )  # 4e38 - 4e38 is infinite on the way to 0
    found, wanted = (
        Search(kernel).near_maxima(tokens, tokens, np.zeros(4096))[0]
        for kernel in ("symmetric", "numpy")
    )
    assert found == wanted
