"""Every kernel chooses the sets of the definition: in Fractions for few tokens, by
NumPy for many.
"""

import threading
import time
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import hardmax as hm
from hardmax.exact.argmax import argmax_sets, slack_of
from hardmax.search import reference
from hardmax.search import threads as compiled
from hardmax.search.dispatch import KERNELS, Search, search_batch
from hardmax.search.hull import Hull
from hardmax.sets import Sets
from tests.problems import token_sets
from tests.problems.oracle import choose, sets_of
from tests.problems.token_sets import SHAPES, make

pytestmark = pytest.mark.portable

COMPILED = [name for name in KERNELS if name not in ("auto", "numpy")]


@pytest.fixture
def set_threads(monkeypatch):
    """Return a function that sets the number of threads for one test."""
    return lambda count: monkeypatch.setattr(compiled, "max_threads", lambda: count)


def kernels_for(d):
    return [name for name in COMPILED if name != "hull" or d == 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", SHAPES)
def test_the_sets_are_those_of_real_arithmetic(kind, dtype):
    for n, d in [(1, 2), (2, 3), (3, 1), (24, 2), (30, 3), (17, 16), (9, 60)]:
        tokens = make(kind, n, d, dtype)
        expected = choose(tokens)
        for kernel in ["numpy", *kernels_for(d)]:
            assert [
                row.tolist() for row in argmax_sets(tokens, kernel=kernel)
            ] == expected, kernel
        assert [
            row.tolist() for row in argmax_sets(np.stack([tokens, tokens]))
        ] == expected * 2


@pytest.mark.parametrize("d", [2, 3, 17, 100])
@pytest.mark.parametrize("kind", SHAPES)
def test_kernels_agree_at_awkward_sizes(kind, d):
    large = [1000] if kind in ("gaussian", "sphere", "off centre", "lattice") else []
    for n in (1, 2, 3, 63, 257, *large):
        tokens = make(kind, n, d)
        expected = argmax_sets(tokens, kernel="numpy")
        for kernel in kernels_for(d):
            assert argmax_sets(tokens, kernel=kernel) == expected, (kernel, n)


@pytest.mark.parametrize("kernel", COMPILED)
def test_threads_change_nothing(kernel, set_threads):
    tokens = make("lattice", 3000, 2)
    set_threads(2)
    two = argmax_sets(tokens, kernel=kernel)
    set_threads(1)
    assert argmax_sets(tokens, kernel=kernel) == two


@pytest.mark.parametrize(
    ("kernel", "causal"), [*((kernel, False) for kernel in COMPILED), ("scan", True)]
)
@pytest.mark.parametrize(
    "kind", ["gaussian", "lattice", "mirrored", "flattened", "denormal", "huge"]
)
def test_whole_runs_are_the_same(kernel, causal, kind):
    tokens = np.asarray(token_sets.KINDS[kind](np.random.default_rng(2)), float)[:, :2]
    rule = hm.Hardmax(
        0.5, A=None if kernel == "symmetric" else [[3, 1], [1, 0.5]], causal=causal
    )
    one, other = (
        hm.simulate(tokens, rule, layers=12, kernel=name) for name in ("numpy", kernel)
    )
    assert all(sets_of(one, k) == sets_of(other, k) for k in range(13))
    assert np.array_equal(one.tokens, other.tokens)
    ran = {"symmetric": {"symmetric", "scan"}}.get(
        kernel, {kernel}
    )  # int16 cannot separate mirrored tokens
    assert ran & set(other.stats["kernel"].split(", "))


EYE = np.eye(6)


@pytest.mark.parametrize(
    ("kernel", "rule"),
    [
        ("fast", hm.Hardmax(1)),
        ("symmetric", hm.Hardmax(1, np.eye(6) + 1)),
        *((kernel, hm.Hardmax(1, causal=True)) for kernel in ("symmetric", "hull")),
        ("numpy", hm.Hardmax(1, exact=True)),
        *(
            ("numpy", rule)
            for rule in (
                hm.Softmax(1),
                hm.Compose([hm.Hardmax(1)]),
                hm.SelfAttention(),
                hm.Sphere(1.0),
            )
        ),
        *(
            ("numpy", hm.MultiHead(heads * 2, shared=True))
            for heads in ([hm.Hardmax(1)], [hm.Softmax(1)])
        ),
        ("numpy", hm.MultiHead([hm.Softmax(1)] * 2)),
        ("hull", hm.MultiHead([hm.Hardmax(1)] * 2)),  # of three dimensions each
    ],
    ids=str,
)
def test_a_kernel_that_does_not_fit_is_refused(kernel, rule):
    when = {"times": 1} if rule.continuous else {"layers": 1}
    calls = [partial(hm.simulate, EYE, rule, kernel=kernel, **when)]
    if isinstance(rule, hm.Hardmax) and not rule.causal:
        calls.append(partial(hm.limit, EYE, rule, kernel=kernel))
    for call in calls:
        with pytest.raises(hm.ParameterError) as raised:
            call()
        assert raised.value.names[0] in ("kernel", f'kernel="{kernel}"')


def test_integers_and_no_queries():
    assert [row.tolist() for row in argmax_sets([[1]], [[2], [3]])] == [[1]]
    assert argmax_sets(np.ones((0, 2)), np.ones((3, 2))) == Sets(
        np.zeros(1, np.intp), np.empty(0, np.intp)
    )


def test_the_hull_of_a_square_with_tokens_on_its_edges():
    keys = np.array(
        [
            [1, 1],
            [-1, 1],
            [-1, -1],
            [1, -1],
            [0, 1],
            [0.5, 1],
            [0, 0],
            [0, 1 - 2.0**-40],
        ]
    )
    hull = Hull.of(keys, 1e-15)
    assert sorted(hull.chain.tolist()) == [0, 1, 2, 3, 4, 5]
    around = hull.chain.tolist() * 2
    start = around.index(0)
    assert around[start : start + 6] == [0, 5, 4, 1, 2, 3]
    assert sorted(Hull.of(keys, 1e-9).chain.tolist()) == [
        0,
        1,
        2,
        3,
        4,
        5,
        7,
    ]  # deeper, and not the one in the middle


def test_the_walk_goes_on_past_keys_behind_the_boundary():
    keys = np.array(
        [[1, 1], [0.5, 1 - 1e-7], [0, 1], [-0.5, 1 - 1e-7], [-1, 1], [-1, -1], [1, -1]]
    )
    queries = np.array([[0.0, 1.0], [1e-9, 0.0], [0.0, 1.0]])
    slack = np.array(
        [1e-15, 5e-16, 2e-7]
    )  # keys 5e-7 and 2e-7 behind the boundary matter to the last two
    found, _ = Search("hull").near_maxima(queries, keys, slack)
    assert found == reference.near_maxima(queries, keys, slack)[0]
    assert [found[0].tolist(), found[2].tolist()] == [[0, 2, 4], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("kernel", ["numpy", "hull", "scan", "symmetric"])
@pytest.mark.parametrize("errors", [(0.0, 0.0), (3e-16, 2e-16)])
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e-300, 5e-324])
def test_short_queries_and_positions_with_errors_keep_all_candidates(
    kernel, errors, scale
):
    rng = np.random.default_rng(0)
    keys = np.r_[token_sets.lattice(rng, 100, 2), rng.normal(size=(300, 2))]
    keys /= 2 * np.abs(keys).max()
    queries = (
        np.r_[keys * scale, keys, np.zeros((1, 2))] if kernel != "symmetric" else keys
    )
    slack = slack_of(queries, errors[0], keys, errors[1])
    found, _ = Search(kernel).near_maxima(queries, keys, slack)
    least = Search("numpy").near_maxima(queries, keys, slack / 2)[
        0
    ]  # whose products round differently
    assert found.sizes.all()
    assert all(
        set(row) <= set(all_of_it) for row, all_of_it in zip(least, found, strict=True)
    )


def test_keys_on_the_edges_of_a_plane_stay():
    rng = np.random.default_rng(0)
    steps, starts = (
        rng.integers(2**e, 2 ** (e + 1), size=(200, 1, 2)) for e in (29, 33)
    )  # products are rounded
    edges = starts + np.arange(6)[:, None] * steps * [
        -1,
        1,
    ]  # (200, 6, 2), six keys on an edge each
    keys = np.concatenate([edges, np.zeros((200, 1, 2)), -starts], axis=1).astype(float)
    ahead = steps[..., ::-1].astype(float)  # at right angles to the edge
    for row in argmax_sets(ahead, keys):
        assert row.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1.0, 1e30, 1e150])
@pytest.mark.parametrize("gap", [1e-12, 1e-9, 1e-8, 3e-8, 6e-8, 1e-7, 3e-7, 1e-6])
def test_leads_that_float32_cannot_see_count_in_the_plane(scale, gap):
    """Keys and queries on a circle and inside, the second key of each pair ahead by a
    relative `gap`.
    """
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, (50, 12, 1))
    circle = np.concatenate([np.cos(angles), np.sin(angles)], axis=2)
    inside = rng.normal(scale=0.2, size=(50, 20, 2))
    keys = np.concatenate([circle, circle * (1 + gap), inside], axis=1) * scale
    queries = np.concatenate(
        [circle * rng.uniform(1e-6, 1, (50, 12, 1)), inside], axis=1
    )
    found = argmax_sets(queries, keys)
    want = [
        argmax_sets(one, other, kernel="numpy")
        for one, other in zip(queries, keys, strict=True)
    ]
    assert [row.tolist() for row in found] == [
        row.tolist() for element in want for row in element
    ]


def test_float32_products_beyond_float32():
    keys = np.array(
        [[[-1e20, 1e20, 1e18, 0], [0, 0, 1e17, 0], [1, 2, 3, 4]]], np.float32
    )
    query = np.array(
        [[[1e20, 1e20, 1e19, 0]]], np.float32
    )  # -1e40 + 1e40 + 1e37 with the first, 1e36 with the second
    assert argmax_sets(query, keys)[0].tolist() == [0]


def test_float32_may_err_in_every_term():
    d, unit = 64, 2.0**-24
    query = np.full(
        (1, 1, d), unit * (1 + 2.0**-10), np.float32
    )  # half of the last digit of 1, and a bit more
    keys = np.stack([np.ones(d), np.full(d, 1 - 2.0**-8)]).astype(np.float32)[None]
    query[..., 0], keys[0, :, 0] = 1.0, [1 - 2 * unit, 1.0]
    assert argmax_sets(query, keys)[0].tolist() == [
        1
    ]  # though in float32 the sum of the first grows by 60 digits more


def test_a_million_tokens_are_certified():
    tokens = np.random.default_rng(0).normal(size=(10**6, 2))
    limit = hm.limit(tokens, hm.Hardmax(0.5))
    assert limit.certified
    assert limit.stats["kernel"].startswith("hull")
    some = tokens[::50000]  # whose first sets are computed by the definition
    sets = hm.simulate(tokens, hm.Hardmax(0.5), layers=0).sets(0)
    followed = tokens[[sets[i][0] for i in range(0, 10**6, 50000)]]
    assert np.allclose(
        (some * followed).sum(axis=1), (some @ tokens.T).max(axis=1), rtol=1e-15
    )


@pytest.mark.parametrize(
    ("d", "causal", "kind", "expected"),
    [
        (1, False, "gaussian", "scan"),
        (2, False, "gaussian", "hull"),
        (2, True, "gaussian", "scan"),
        (3, False, "gaussian", "scan"),
        (16, False, "gaussian", "scan"),
        (320, False, "lattice", "symmetric"),
        (320, True, "gaussian", "scan"),
        (128, False, "gaussian", "symmetric"),
    ],
)
def test_auto_picks_by_shape(d, causal, kind, expected):
    run = hm.simulate(make(kind, 600, d), hm.Hardmax(0.5, causal=causal), layers=0)
    assert run.stats["kernel"] == expected


def test_without_numba_everything_works(without_numba):
    without_numba()
    tokens = make("gaussian", 3000, 2)
    limit = hm.limit(tokens, hm.Hardmax(0.5))
    assert (limit.certified, limit.stats["kernel"]) == (True, "numpy")
    small = make("lattice", 30, 3)
    assert argmax_sets(small[None]) == argmax_sets(small)
    with pytest.raises(
        ImportError,
        match=r"kernel=\"hull\"` needs numba: pip install .*\[fast\]",
    ):
        hm.limit(tokens, hm.Hardmax(0.5), kernel="hull")


def test_a_hull_of_other_keys_is_not_used():
    rng = np.random.default_rng(0)
    search, many, few = (
        Search("hull"),
        rng.uniform(-1, 1, (100_000, 2)),
        rng.uniform(-1, 1, (50, 2)),
    )
    search.near_maxima(many[:10], many, np.full(10, 1e-14))
    found, _ = search.near_maxima(few, few, np.full(50, 1e-14))
    assert found == reference.near_maxima(few, few, np.full(50, 1e-14))[0]


def test_an_error_in_a_thread_is_raised(set_threads):
    def work(some):
        if threading.current_thread() is not caller:
            raise MemoryError("no room")
        time.sleep(0.01)  # so that the other thread has its turn

    caller, done = threading.current_thread(), []
    set_threads(2)
    with pytest.raises(MemoryError, match="no room"):
        compiled.share(work, 100, 1e9)
    compiled.share(lambda some: done.extend(some), 100, 1e9)
    assert sorted(done) == list(range(100))


def as_lists(found):
    sets, *same = found if isinstance(found, tuple) else (found,)
    return [array.tolist() for array in (sets.starts, sets.members, *same)]


@pytest.mark.parametrize("kind", ["gaussian", "lattice", "duplicates", "zero"])
def test_every_number_of_an_answer_is_written(kind, monkeypatch):
    inputs = [make(kind, 130, 2), make(kind, 130, 70)]
    batches = [make(kind, 3 * 40, d, np.float32).reshape(3, 40, d) for d in (2, 5)]
    runs = [
        partial(argmax_sets, tokens, kernel=name)
        for tokens in inputs
        for name in kernels_for(tokens.shape[1])
    ]
    runs += [partial(argmax_sets, batch) for batch in batches]
    mask = np.random.default_rng(0).random((3, 40)) < 0.4
    for batch in batches:
        runs += [
            partial(search_batch, batch, batch, None, *more)
            for more in ((mask,), (None, True), (mask, True))
        ]
    expected = [as_lists(run()) for run in runs]
    empty = np.empty

    def poisoned(*args, **options):
        array = empty(*args, **options)
        if array.dtype != object:
            array.view(np.uint8).fill(0xFF)  # not a number, or minus one
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    assert [as_lists(run()) for run in runs] == expected


@pytest.mark.parametrize("power", [-400, -520, -600, -900, -1070])
def test_a_tiny_query_still_finds_its_maximum(power: int) -> None:
    t, u = (
        2.0**power,
        2.0**-53,
    )  # the square of the query underflows; the products differ in their last bit
    tokens = [[1, u, u], [1, 1.5 * u, 0], [t, t, t]]
    found, exact = (
        hm.limit(tokens, hm.Hardmax(0.5, exact=exact)) for exact in (False, True)
    )
    assert found.clusters.tolist() == exact.clusters.tolist() == [0, 1, 0]
    assert np.isfinite(hm.simulate(tokens, hm.Hardmax(0.5), layers=0).margins(0)).all()
    rng = np.random.default_rng(-power)
    for _ in range(20):  # near-ties
        near = 1 + rng.integers(-2, 3, (4, 3)) * 2.0**-52
        tokens = np.vstack([near, rng.uniform(0.5, 1, (3, 3)) * t])
        assert sets_of(hm.simulate(tokens, hm.Hardmax(0.5), layers=0), 0) == choose(
            tokens
        )


@pytest.mark.parametrize("exact", [False, True])
def test_a_strict_choice_never_shows_a_margin_of_zero(exact: bool) -> None:
    for tokens, i, margin in (
        ([[2**53 + 1, 1], [2**53, 1], [-5, -5]], 0, 1),
        ([[1e300, 1], [-1e300, 1], [1e-300, 2]], 2, 0.5),
        ([[1, 1e-9], [1, 0], [-1, 0]], 0, 1e-18),
    ):
        trajectory = hm.simulate(tokens, hm.Hardmax(0.5, exact=exact), layers=1)
        assert trajectory.margins(0)[i] == pytest.approx(margin)
    late = hm.simulate(
        [[1.0, 1], [-1, -1], [0.5, 0.25]], hm.Hardmax(0.5, exact=exact), layers=200
    )
    assert 0 < late.margins(200)[0] < 1e-30


@pytest.mark.parametrize("batch", [0, 3])
def test_margins_bound_the_lead_of_the_sets(batch):
    rng = np.random.default_rng(batch)
    shape = (batch,) if batch else ()
    for scale, unit in (
        (1.0, 0.5),
        (1e-200, 0.5),
        (1e150, 0.5),
        (1e-160, 1e-160),
        (1e-310, 0.1),
        (1e200, 1e150),
    ):
        queries, keys = (
            rng.integers(-3, 4, (*shape, 20, 2)) * scale,
            rng.integers(-3, 4, (*shape, 9, 2)) * unit,
        )
        sets, margins = argmax_sets(queries, keys, margins=True)
        assert sets == argmax_sets(queries, keys)
        for row, (members, margin) in enumerate(zip(sets, margins, strict=True)):
            q, k = (queries[row // 20], keys[row // 20]) if batch else (queries, keys)
            products = [
                sum(
                    Fraction(x) * Fraction(y)
                    for x, y in zip(q[row % 20], key, strict=True)
                )
                for key in k
            ]
            others = [product for j, product in enumerate(products) if j not in members]
            if not others:
                assert margin == np.inf
                continue
            lead = products[members[0]] - max(others)
            least = min(
                lead * (1 - Fraction(1, 10**9)), Fraction(float(np.finfo(float).max))
            )
            rounding = Fraction(scale) * max(Fraction(unit), 1) / 10**9 + Fraction(
                5e-324
            )
            assert least - rounding <= Fraction(float(margin)) <= lead
    sets, margins = argmax_sets(queries[..., :0, :], keys, margins=True)
    assert len(sets) == len(margins) == 0


def test_tensors_have_the_same_sets():
    torch = pytest.importorskip("torch")
    queries, keys = torch.randn(2, 30, 4), torch.randn(2, 12, 4)
    assert argmax_sets(queries, keys) == argmax_sets(queries.numpy(), keys.numpy())
    assert argmax_sets(queries.bfloat16(), keys.bfloat16()) == argmax_sets(
        queries.bfloat16().float().numpy(), keys.bfloat16().float().numpy()
    )
