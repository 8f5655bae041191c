"""Batches in one pass: every cloud has exactly what it has by itself, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.exact import batch as one_pass
from hardmax.exact.batch import Batch
from tests.problems import clouds

settings.register_profile("hardmax", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("hardmax")

KINDS = {
    "gaussian": lambda rng, n, d: rng.normal(size=(n, d)),
    "ball": lambda rng, n, d: clouds.ball(rng, n, d),
    "lattice": lambda rng, n, d: clouds.lattice(rng, n, d).astype(float),
    "duplicates": clouds.duplicates,
    "huge": lambda rng, n, d: rng.normal(size=(n, d)) * 1e300,
    "tiny": lambda rng, n, d: rng.normal(size=(n, d)) * 1e-310,
    "apart": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-9, 9),
    "gathered": lambda rng, n, d: 1 + 1e-15 * rng.normal(size=(n, d)),
}
NUMBERS = ("certified", "layer", "pace", "proofs", "status", "radius")
FIELDS = ("tokens", "leaders", "emerged", "clusters", "points", "weights", "start")


def batch_of(seed, n, d, kinds, dtype=np.float64):
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        batch = np.stack([KINDS[kind](rng, n, d) for kind in kinds]).astype(dtype)
    return np.where(np.isfinite(batch), batch, 1), rng


def same_bits(one, other):
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def same_clouds(whole, b, alone, real):
    one, other = whole[b].token_sets[0], alone.token_sets[0]
    assert len(one.sets) == len(other.sets)
    assert all(mine == theirs for mine, theirs in zip(one.sets, other.sets, strict=True))
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


kernels = st.sampled_from(["auto", "scan"])  # NumPy and compiled, for so few
dtypes = st.sampled_from([np.float64, np.float32])


@given(batches, dtypes, kernels, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_a_batch_is_its_clouds(shape, dtype, kernel, masked, causal, with_A, last):
    batch, rng = batch_of(*shape, dtype)
    (count, n, d), real = batch.shape, np.ones(batch.shape[:2], bool)
    if masked:
        real = rng.uniform(size=real.shape) < 0.6
        real[:, rng.integers(n)] = True
        batch[~real] = np.nan
    A = np.diag(np.arange(1.0, d + 1)) + 0.25 if with_A else None
    rule = hm.Hardmax([0.5, 0.1, 2.0], A, causal=causal, normalize=bool(rng.integers(2)))
    options = {"layers": 4, "save": "last" if last else "all"}
    whole = hm.simulate(batch, rule, mask=real, kernel=kernel, **options)
    each = [hm.simulate(batch[b, real[b]], rule, **options) for b in range(count)]
    assert np.array_equal(whole.mask, real)
    assert np.array_equal(whole.array[:, ~real], np.full_like(whole.array[:, ~real], np.nan), equal_nan=True)
    assert whole.stats["queries"] == sum(one.stats["queries"] for one in each)
    for b, one in enumerate(each):
        same_clouds(whole, b, one, real[b])


@given(batches, dtypes, kernels, st.booleans(), st.booleans(), st.sampled_from([0, 2, 1000]))
def test_limits_of_a_batch_are_those_of_its_clouds(shape, dtype, kernel, masked, with_A, max_layers):
    batch, rng = batch_of(*shape, dtype)
    (count, n, d), real = batch.shape, np.ones(batch.shape[:2], bool)
    if masked:
        real = rng.uniform(size=real.shape) < 0.6
        real[:, rng.integers(n)] = True
    rule = hm.Hardmax([0.5, 0.1], np.diag(np.arange(1.0, d + 1)) + 0.25 if with_A else None)
    limits = hm.limit(batch, rule, mask=real, kernel=kernel, max_layers=max_layers)
    assert len(limits) == count
    for b in range(count):
        one, other = limits[b], hm.limit(batch[b, real[b]], rule, max_layers=max_layers)
        assert (one.certified, one.layer, one.pace, one.proofs) == (
            other.certified,
            other.layer,
            other.pace,
            other.proofs,
        )
        assert (one.status, one.radius) == (other.status, other.radius)
        assert all(same_bits(getattr(one, name), getattr(other, name)) for name in FIELDS)
        assert (limits.certified[b], limits.layer[b]) == (other.certified, other.layer)
        assert same_bits(limits.tokens[b, real[b]], other.tokens)
        assert np.array_equal(limits.clusters[b, real[b]], other.clusters)
        assert (limits.clusters[b, ~real[b]] == -1).all()
        assert np.array_equal(limits.tokens[b, ~real[b]], batch[b, ~real[b]])
        assert limits.leaders[b].tolist() == np.flatnonzero(real[b])[other.leaders].tolist()
        if other.certified:
            assert (one.exact() == other.exact()).all()


def test_generic_clouds_stay_in_the_pass_and_late_leaders_are_exact():
    batch = np.random.default_rng(0).normal(size=(200, 60, 2))
    limits = hm.limit(batch, hm.Hardmax(0.5))
    assert limits.stats["sets_in_one_pass"] == 200
    late = [b for b in range(200) if (limits[b].emerged > 0).any()]
    assert late
    for b in late:
        assert same_bits(limits[b].points, hm.limit(batch[b], hm.Hardmax(0.5)).points)
        assert (limits[b].exact() == hm.limit(batch[b], hm.Hardmax(0.5)).exact()).all()
    assert hm.simulate(batch, hm.Hardmax(0.5), layers=3).stats["sets_in_one_pass"] == 200


@pytest.mark.parametrize("kernel", ["auto", "scan"])
def test_close_comparisons_leave_the_pass(kernel):
    batch = np.random.default_rng(0).normal(size=(4, 10, 2))
    batch[1, :2] = [[9.0, 9.0], [9.0 + 2e-15, 9.0 - 2e-15]]  # floats cannot tell their products with others apart
    batch[2, 3] = batch[2, 4] = [0.01, 0.02]  # whom nobody follows
    passed = Batch(hm.Hardmax(0.5), batch, np.ones((4, 10), bool), kernel)
    passed.choose()
    assert passed.in_pass.tolist() == [True, False, False, True]
    whole = hm.simulate(batch, hm.Hardmax(0.5), layers=3)
    assert whole.stats["sets_in_one_pass"] == 2
    assert whole.stats["sets_compared_exactly"] > 0


@pytest.mark.parametrize("kernel", ["auto", "scan"])
def test_positions_that_are_known_less_well_are_compared_with_more_care(kernel):
    batch = np.array([[[1.0, 0.0], [1 - 1e-12, 0.5], [0.9, 1e-13]]] * 2)  # the last sees the others nearly level
    passed = Batch(hm.Hardmax(0.5), batch, np.ones((2, 3), bool), kernel)
    passed.error = 1e-11
    passed.choose()
    assert not passed.in_pass.any()


def test_large_clouds_and_named_kernels_go_one_by_one(monkeypatch):
    batch = np.random.default_rng(0).normal(size=(2, 30, 2))
    assert hm.limit(batch, hm.Hardmax(0.5), kernel="numpy").stats["sets_in_one_pass"] == 0
    assert hm.limit(batch, hm.Hardmax(0.5, exact=True)).stats["arithmetic"] == "rational"
    assert hm.limit(batch, hm.Hardmax(0.5, ties=1e-3), max_layers=2).stats["arithmetic"] == "tolerant"
    monkeypatch.setattr(one_pass, "MAX_TOKENS", 20)
    assert hm.limit(batch, hm.Hardmax(0.5)).stats["sets_in_one_pass"] == 0


def test_progress_of_a_batch():
    batch, calls = np.random.default_rng(0).normal(size=(5, 20, 2)), []
    batch[2] = np.round(batch[2])
    hm.limit(batch, hm.Hardmax(0.5), progress=lambda *at: calls.append(at))
    assert {total for _, total in calls} == {100}
    assert calls[-1] == (100, 100)
    calls.clear()
    hm.simulate(batch, hm.Hardmax(0.5), layers=3, progress=lambda *at: calls.append(at))
    assert {total for _, total in calls} == {20}
    assert calls[-1] == (20, 20)


def test_the_representation_of_limits():
    batch = np.random.default_rng(0).normal(size=(3, 20, 2))
    limits = hm.limit(batch, hm.Hardmax(0.5))
    assert repr(limits) == f"Certified for 3 of 3 token sets, the last at layer {limits.layer.max()}."
    assert [one.layer for one in limits] == limits.layer.tolist()
    assert limits[-1] is limits[2]
    assert [one.layer for one in limits[1:]] == limits.layer[1:].tolist()
    with pytest.raises(IndexError):
        limits[3]
    few = hm.limit(batch, hm.Hardmax(0.5), max_layers=0)
    assert few.status == "Certified for 2 of 3 token sets, the last at layer 0. Raise `max_layers` to go on."


def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    batch = torch.tensor(np.random.default_rng(0).normal(size=(3, 20, 2)), dtype=torch.float32)
    batch[1] = batch[1].round()  # goes by itself
    limits = hm.limit(batch, hm.Hardmax(0.5))
    assert limits.tokens.dtype == torch.float32
    for b in range(3):
        assert torch.equal(limits.tokens[b], hm.limit(batch[b], hm.Hardmax(0.5)).tokens)
        assert torch.equal(limits[b].tokens, limits.tokens[b])


def test_a_mask_for_one_cloud():
    tokens = np.random.default_rng(0).normal(size=(20, 2))
    real = np.arange(20) % 3 > 0
    assert same_bits(
        hm.limit(tokens, hm.Hardmax(0.5), mask=real).tokens, hm.limit(tokens[real], hm.Hardmax(0.5)).tokens
    )
