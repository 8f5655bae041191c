"""Batches in one pass: every token set has the results it has by itself, to the last
bit.
"""

import pickle
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from tests.problems import token_sets

settings.register_profile("hardmax", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("hardmax")

RULE = hm.Hardmax(0.5)
KINDS = {
    "gaussian": token_sets.gaussian,
    "ball": token_sets.ball,
    "lattice": lambda rng, n, d: token_sets.lattice(rng, n, d).astype(float),
    "duplicates": token_sets.duplicates,
    "huge": lambda rng, n, d: rng.normal(size=(n, d)) * 1e300,
    "tiny": lambda rng, n, d: rng.normal(size=(n, d)) * 1e-310,
    "apart": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-9, 9),
    "gathered": lambda rng, n, d: 1 + 1e-15 * rng.normal(size=(n, d)),
}
NUMBERS = ("certified", "layer", "pace", "proofs", "status", "radius")
FIELDS = ("tokens", "leaders", "emerged", "clusters", "points", "weights", "start")


def make_batch(seed, n, d, kinds, dtype, masked):
    """Return a batch, a mask with at least one token for each token set, and the
    generator.
    """
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        batch = np.stack([KINDS[kind](rng, n, d) for kind in kinds]).astype(dtype)
    real = (rng.uniform(size=batch.shape[:2]) < 0.6) | (not masked)
    real[:, rng.integers(n)] = True
    return np.where(np.isfinite(batch), batch, 1), real, rng


def same_bits(one, other):
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def assert_same(whole, b, alone, real):
    one, other = whole[b].records[0], alone.records[0]
    assert one.end == other.end
    assert all(one.sets(k) == other.sets(k) for k in range(one.end + 1))
    assert np.array_equal(one.proof, other.proof)
    for name in ("rows", "labels", "first", "counts"):
        assert same_bits(getattr(one.classes, name), getattr(other.classes, name))
    assert np.array_equal(one.emerged, other.emerged)
    assert np.array_equal(one.settled, other.settled)
    assert same_bits(whole.array[:, b, real], alone.array)
    assert np.array_equal(whole.emerged[b, real], alone.emerged)
    assert np.array_equal(whole.decided[b, real], alone.decided)
    assert whole.leaders[b].tolist() == np.flatnonzero(real)[alone.leaders].tolist()


batches = st.tuples(
    st.integers(0, 2**31),
    st.integers(1, 24),
    st.sampled_from([1, 2, 3, 5]),
    st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=6),
)


kernels = st.sampled_from(["auto", "scan"])  # NumPy and compiled, for this few
dtypes = st.sampled_from([np.float64, np.float32])


@given(
    batches, dtypes, kernels, st.booleans(), st.booleans(), st.booleans(), st.booleans()
)
def test_a_batch_is_its_token_sets(shape, dtype, kernel, masked, causal, with_A, last):
    batch, real, rng = make_batch(*shape, dtype, masked)
    (count, _, d), batch[~real] = batch.shape, np.nan
    A = np.diag(np.arange(1.0, d + 1)) + 0.25 if with_A else None
    rule = hm.Hardmax(
        [0.5, 0.1, 2.0], A, causal=causal, normalize=bool(rng.integers(2))
    )
    options = {"layers": 4, "save": "last" if last else "all"}
    whole = hm.simulate(batch, rule, mask=real, kernel=kernel, **options)
    each = [hm.simulate(batch[b, real[b]], rule, **options) for b in range(count)]
    assert np.array_equal(whole.mask, real)
    assert np.array_equal(
        whole.array[:, ~real],
        np.full_like(whole.array[:, ~real], np.nan),
        equal_nan=True,
    )
    assert whole.stats["queries"] == sum(one.stats["queries"] for one in each)
    for b, one in enumerate(each):
        assert_same(whole, b, one, real[b])


@given(
    batches,
    dtypes,
    kernels,
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 2, 1000]),
)
def test_limits_of_a_batch_are_those_of_its_token_sets(
    shape, dtype, kernel, masked, with_A, max_layers
):
    batch, real, _ = make_batch(*shape, dtype, masked)
    count, _, d = batch.shape
    rule = hm.Hardmax(
        [0.5, 0.1], np.diag(np.arange(1.0, d + 1)) + 0.25 if with_A else None
    )
    limits = hm.limit(batch, rule, mask=real, kernel=kernel, max_layers=max_layers)
    assert len(limits) == count
    for b in range(count):
        one, other = (
            limits[b],
            hm.limit(batch[b], rule, mask=real[b], max_layers=max_layers),
        )
        assert [getattr(one, name) for name in NUMBERS] == [
            getattr(other, name) for name in NUMBERS
        ]
        assert all(
            same_bits(getattr(one, name), getattr(other, name)) for name in FIELDS
        )
        if other.certified:
            assert (one.exact() == other.exact()).all()


def test_generic_token_sets_stay_in_the_pass_and_late_leaders_are_exact():
    batch = np.random.default_rng(0).normal(size=(200, 60, 2))
    limits = hm.limit(batch, hm.Hardmax(0.5))
    late = [b for b in range(200) if (limits[b].emerged > 0).any()]
    assert late
    for b in late:
        assert same_bits(limits[b].points, hm.limit(batch[b], hm.Hardmax(0.5)).points)
        assert (limits[b].exact() == hm.limit(batch[b], hm.Hardmax(0.5)).exact()).all()
    assert (
        hm.simulate(batch, hm.Hardmax(0.5), layers=3).stats["sets_in_one_pass"] == 200
    )


@pytest.mark.parametrize("kernel", ["auto", "scan"])
def test_close_comparisons_are_exact_in_a_shared_run(kernel):
    batch = np.random.default_rng(0).normal(size=(4, 10, 2))
    batch[1, 3] = batch[1, 4] = [0.01, 0.02]  # equal tokens
    # Floats cannot separate the products of these two with others.
    batch[2, :2] = [[9.0, 9.0], [9.0 + 2e-15, 9.0 - 2e-15]]
    whole = hm.simulate(batch, hm.Hardmax(0.5), layers=3, kernel=kernel)
    assert whole.stats["sets_in_one_pass"] == 4
    assert whole.stats["sets_compared_exactly"] > 0
    for b, tokens in enumerate(batch):
        alone = hm.simulate(tokens, hm.Hardmax(0.5, exact=True), layers=3)
        for k in range(4):
            assert whole[b].records[0].sets(k) == alone.records[0].sets(k)


def test_large_token_sets_and_named_kernels_go_one_by_one(monkeypatch):
    batch = np.random.default_rng(0).normal(size=(2, 30, 2))

    def shared(rule=RULE, **options):
        run = hm.simulate(batch, rule, layers=1, **options)
        return run.stats["sets_in_one_pass"]

    assert shared() == 2
    assert shared(kernel="numpy") == 0
    assert shared(hm.Hardmax(0.5, exact=True)) == 0
    monkeypatch.setattr(sys.modules["hardmax.run"], "MAX_BATCH_TOKENS", 20)
    assert shared() == 0


def test_progress_of_a_batch():
    batch = np.random.default_rng(0).normal(size=(5, 20, 2))
    batch[2] = np.round(batch[2])
    for run, total in ((hm.limit, 100), (partial(hm.simulate, layers=3), 20)):
        calls = []
        run(batch, hm.Hardmax(0.5), progress=lambda *at, to=calls: to.append(at))
        assert {all_of_them for _, all_of_them in calls} == {total}
        assert calls[-1] == (total, total)


def test_progress_ends_where_the_last_tokens_are_decided_together():
    batch = np.random.default_rng([27, 14]).integers(-2, 3, (5, 9, 2))
    calls = []
    limits = hm.limit(batch, hm.Hardmax(0.5), progress=lambda *at: calls.append(at))
    assert any("T" in limit.proofs or "chain" in limit.proofs for limit in limits)
    assert calls[-1] == (45, 45)


def test_a_limit_of_a_batch_is_pickled_without_the_others():
    batch = np.random.default_rng(0).normal(size=(100, 20, 2))
    limit = hm.limit(batch, hm.Hardmax(0.5))[0]
    before = pickle.dumps(limit)
    assert len(before) < batch.nbytes / 2
    assert pickle.loads(before) == limit
    assert limit.status
    assert limit.weights.size
    assert len(pickle.dumps(limit)) == len(before)


def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    batch = torch.tensor(
        np.random.default_rng(0).normal(size=(3, 20, 2)), dtype=torch.float32
    )
    batch[1] = batch[1].round()  # goes by itself
    limits = hm.limit(batch, hm.Hardmax(0.5))
    for b in range(3):
        assert limits[b].tokens.dtype == torch.float32
        alone = hm.limit(batch[b], hm.Hardmax(0.5))
        assert torch.equal(limits[b].tokens, alone.tokens)
