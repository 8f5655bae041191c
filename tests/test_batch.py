"""Batches in one pass: every token set has the results it has by itself, to the last
bit.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.exact import batch as one_pass
from hardmax.exact.batch import Batch
from tests.problems import token_sets

settings.register_profile("hardmax", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("hardmax")

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
    one, other = whole[b].token_sets[0], alone.token_sets[0]
    assert len(one.sets) == len(other.sets)
    assert all(
        mine == theirs for mine, theirs in zip(one.sets, other.sets, strict=True)
    )
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
        assert (limits.certified[b], limits.layer[b]) == (other.certified, other.layer)
        assert same_bits(limits.tokens[b, real[b]], other.tokens)
        assert np.array_equal(limits.clusters[b, real[b]], other.clusters)
        assert (limits.clusters[b, ~real[b]] == -1).all()
        assert np.array_equal(limits.tokens[b, ~real[b]], batch[b, ~real[b]])
        assert (
            limits.leaders[b].tolist()
            == np.flatnonzero(real[b])[other.leaders].tolist()
        )
        if other.certified:
            assert (one.exact() == other.exact()).all()


def test_generic_token_sets_stay_in_the_pass_and_late_leaders_are_exact():
    batch = np.random.default_rng(0).normal(size=(200, 60, 2))
    limits = hm.limit(batch, hm.Hardmax(0.5))
    assert limits.stats["sets_in_one_pass"] == 200
    late = [b for b in range(200) if (limits[b].emerged > 0).any()]
    assert late
    for b in late:
        assert same_bits(limits[b].points, hm.limit(batch[b], hm.Hardmax(0.5)).points)
        assert (limits[b].exact() == hm.limit(batch[b], hm.Hardmax(0.5)).exact()).all()
    assert (
        hm.simulate(batch, hm.Hardmax(0.5), layers=3).stats["sets_in_one_pass"] == 200
    )


@pytest.mark.parametrize("kernel", ["auto", "scan"])
def test_close_comparisons_leave_the_pass(kernel):
    batch = np.random.default_rng(0).normal(size=(4, 10, 2))
    batch[1, :2] = [
        [9.0, 9.0],
        [9.0 + 2e-15, 9.0 - 2e-15],
    ]  # floats cannot separate their products with others
    batch[2, 3] = batch[2, 4] = [0.01, 0.02]  # that no token follows
    passed = Batch(hm.Hardmax(0.5), batch, np.ones((4, 10), bool), kernel)
    passed.choose()
    assert passed.in_pass.tolist() == [True, False, False, True]
    whole = hm.simulate(batch, hm.Hardmax(0.5), layers=3)
    assert whole.stats["sets_in_one_pass"] == 2
    assert whole.stats["sets_compared_exactly"] > 0


@pytest.mark.parametrize("kernel", ["auto", "scan"])
def test_positions_with_larger_errors_are_compared_with_a_larger_slack(kernel):
    batch = np.array(
        [[[1.0, 0.0], [1 - 1e-12, 0.5], [0.9, 1e-13]]] * 2
    )  # the last sees the others nearly level
    passed = Batch(hm.Hardmax(0.5), batch, np.ones((2, 3), bool), kernel)
    passed.error = 1e-11
    passed.choose()
    assert not passed.in_pass.any()


def test_large_token_sets_and_named_kernels_go_one_by_one(monkeypatch):
    batch = np.random.default_rng(0).normal(size=(2, 30, 2))
    assert (
        hm.limit(batch, hm.Hardmax(0.5), kernel="numpy").stats["sets_in_one_pass"] == 0
    )
    assert (
        hm.limit(batch, hm.Hardmax(0.5, exact=True)).stats["arithmetic"] == "rational"
    )
    monkeypatch.setattr(one_pass, "MAX_TOKENS", 20)
    assert hm.limit(batch, hm.Hardmax(0.5)).stats["sets_in_one_pass"] == 0


def test_progress_of_a_batch():
    batch = np.random.default_rng(0).normal(size=(5, 20, 2))
    batch[2] = np.round(batch[2])
    for run, total in ((hm.limit, 100), (partial(hm.simulate, layers=3), 20)):
        calls = []
        run(batch, hm.Hardmax(0.5), progress=lambda *at, to=calls: to.append(at))
        assert {all_of_them for _, all_of_them in calls} == {total}
        assert calls[-1] == (total, total)


def test_the_representation_of_limits():
    batch = np.random.default_rng(0).normal(size=(3, 20, 2))
    limits = hm.limit(batch, hm.Hardmax(0.5))
    assert (
        repr(limits)
        == f"Certified for 3 of 3 token sets, the last at layer {limits.layer.max()}."
    )
    assert [one.layer for one in limits] == limits.layer.tolist()
    assert limits[-1] is limits[2]
    assert [one.layer for one in limits[1:]] == limits.layer[1:].tolist()
    with pytest.raises(IndexError):
        limits[3]
    few = hm.limit(batch, hm.Hardmax(0.5), max_layers=0)
    assert (
        few.status
        == "Certified for 2 of 3 token sets, the last at layer 0. Raise `max_layers` to"
        " go on."
    )


def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    batch = torch.tensor(
        np.random.default_rng(0).normal(size=(3, 20, 2)), dtype=torch.float32
    )
    batch[1] = batch[1].round()  # goes by itself
    limits = hm.limit(batch, hm.Hardmax(0.5))
    assert limits.tokens.dtype == torch.float32
    for b in range(3):
        assert torch.equal(limits.tokens[b], hm.limit(batch[b], hm.Hardmax(0.5)).tokens)
        assert torch.equal(limits[b].tokens, limits.tokens[b])
