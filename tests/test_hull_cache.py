"""`HullCache` against `hardmax_attention`, and its compiled heads against the reference
in rational arithmetic.
"""

import copy
import os
import pickle
import subprocess
import sys
import threading
import time
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.exact.argmax import exact_sets_of_batch
from hardmax.hull_cache import TIES, HullCache

pytestmark = pytest.mark.quick


def walk(rng, n):
    return np.cumsum(rng.integers(-2, 3, (n, 2)), axis=0)


KINDS = {
    "gaussian": lambda rng, n: rng.normal(size=(n, 2)),
    "grid": lambda rng, n: rng.integers(-3, 4, (n, 2)),
    "grid of floats": lambda rng, n: rng.integers(-3, 4, (n, 2)) * 0.1,
    "column after column": lambda rng, n: np.c_[np.arange(n) // 5, np.arange(n) % 5],
    "line": lambda rng, n: np.outer(rng.integers(-9, 10, n), [2, -1]),
    "line of floats": lambda rng, n: np.outer(rng.integers(-9, 10, n), [0.1, 0.3]),
    "rising line": lambda rng, n: np.outer(np.arange(n), [1, 0]),
    "falling line": lambda rng, n: np.outer(-np.arange(n), [1, 2]),
    "column": lambda rng, n: np.outer(rng.permutation(n), [0, 1]),
    "rising column": lambda rng, n: np.outer(np.arange(n), [0, 1]),
    "columns in turn": lambda rng, n: np.c_[
        np.arange(n) % 3, rng.choice([-1, 1]) * np.arange(n)
    ],
    "row beside a column": lambda rng, n: np.c_[
        x := np.maximum(np.arange(n) - 20, 0) * rng.choice([-1, 1]),
        np.arange(n) * (x == 0),
    ],
    "parabola": lambda rng, n: np.c_[2 * np.arange(n), -(np.arange(n) ** 2)],
    "shuffled parabola": lambda rng, n: rng.permutation(
        np.c_[2 * np.arange(n), -(np.arange(n) ** 2)]
    ),
    "circle": lambda rng, n: np.exp(1j * rng.permutation(n))[:, None].view(float),
    "walk": walk,
    "equal": lambda rng, n: np.ones((n, 2)),
    "zero": lambda rng, n: np.zeros((n, 2)),
    "nearly on a line": lambda rng, n: np.c_[
        t := rng.random(n), t / 3 + rng.integers(-1, 2, n) * 2.0**-54
    ],
    "wide range": lambda rng, n: (
        rng.normal(size=(n, 2)) * 2.0 ** rng.integers(-300, 300, (n, 1))
    ),
}


def queries_for(rng, keys):
    """Return queries: keys, directions of edges turned by a right angle, axes and zero."""
    i, j = rng.integers(0, len(keys), (2, len(keys)))
    edges = (keys[i] - keys[j])[:, ::-1] * [1, -1]
    axes = np.array([(0, 0), (0, 1), (1, 0), (-1, 0), (0, -1), (-0.0, 0.0)])
    return rng.permutation(np.concatenate([edges, keys[i], axes]))[: len(keys)]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_sets_are_those_of_causal_attention(kind, compiled, monkeypatch):
    if compiled:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr("hardmax.hull_cache.has_numba", lambda: False)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 90))
        keys = KINDS[kind](rng, n)
        queries = queries_for(rng, keys).astype(float)
        expected = exact_sets_of_batch(
            queries[None], keys[None].astype(float), causal=True
        )
        cache = HullCache()
        for i in range(n):
            cache.append(keys[i : i + 1], np.eye(n)[i : i + 1])
            found = cache.sets(queries[i : i + 1])[0]
            assert found.tolist() == expected[i].tolist(), (seed, i)
        values = rng.normal(size=(n, 3))
        for ties in TIES:
            out = HullCache(ties=ties).attend(queries, keys, values)
            for i, members in enumerate(expected):
                chosen = (
                    members
                    if ties == "mean"
                    else members[-1 if ties == "latest" else 0]
                )
                np.testing.assert_allclose(
                    out[i],
                    values[chosen].reshape(-1, 3).mean(axis=0),
                    rtol=1e-12,
                    atol=1e-13,
                )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "wide range"])
def test_heads_batches_and_tensors(kind):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    keys = np.array(
        [[KINDS[kind](rng, 300) for _ in range(3)] for _ in range(2)], np.float32
    )
    queries = np.array(
        [[queries_for(rng, own) for own in row] for row in keys], np.float32
    )
    values = rng.normal(size=(2, 3, 300, 2)).astype(np.float32)
    q, k, v = map(torch.from_numpy, (queries, keys, values))
    expected = hm.hardmax_attention(q, k, v, causal=True)
    cache, out = hm.HullCache(), []
    for some in np.split(np.arange(300), [1, 64, 65, 200]):
        out.append(cache.attend(*(x[..., some, :] for x in (q, k, v))))
    assert out[0].dtype == torch.float32
    torch.testing.assert_close(torch.cat(out, -2), expected, rtol=1e-4, atol=1e-5)
    assert cache.sets(queries) == exact_sets_of_batch(
        queries.reshape(6, 300, 2), keys.reshape(6, 300, 2)
    )
    assert repr(cache) == "HullCache(ties='mean'): 300 keys in each of 6 heads"


@pytest.mark.parametrize(
    "keys",
    [
        lambda i: (0 * i, i),
        lambda i: (0 * i, -i),
        lambda i: (i % 2, i),
        lambda i: (-i, 0 * i),
    ],
)
def test_appends_to_a_column_take_no_longer_in_a_long_one(keys):
    """Time that is quadratic in the number of keys would be minutes."""
    pytest.importorskip("numba")
    cache, start = hm.HullCache(), time.process_time()
    cache.append(np.c_[keys(np.arange(100_000))], np.ones((100_000, 1)))
    assert time.process_time() - start < 20
    assert len(cache.sets([[1, 0]])[0]) in (100_000, 50_000, 1)


def test_numbers_that_floats_cannot_hold():
    third = Fraction(1, 3)
    cache = hm.HullCache()
    cache.append([[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]])
    cache.append([[third, 2 * third], [2**60, 2**60 + 1]], [[5.0], [7.0]])
    assert cache.query([[1, -1], [0, 0], [third, third]]).tolist() == [
        [1.0],
        [3.75],
        [7.0],
    ]
    line = hm.HullCache()
    line.append([[third, 1 - third], [0, 1], [1, 0]], [[Fraction(1, 7)], [1], [2]])
    assert line.query([[1, 1]]).tolist() == [[Fraction(22, 21)]]
    assert line.sets([[0, 0], [Fraction(1, 7), Fraction(1, 7)]])[1].tolist() == [
        0,
        1,
        2,
    ]


def test_floats_and_fractions_in_one_cache(tmp_path):
    rng, cache, keys = np.random.default_rng(0), hm.HullCache(), []
    for scale in (0.1, Fraction(1, 10), 0.3, Fraction(1, 3)):
        some = rng.integers(-2, 3, (8, 2)) * scale
        cache.append(some, some * 2)
        keys += [[Fraction(x) for x in row] for row in some.tolist()]
    queries = [[1, 0], [3, 1], [-1, -1], [Fraction(1, 3), Fraction(1, 3)]]
    products = [[q[0] * k[0] + q[1] * k[1] for k in keys] for q in queries]
    expected = [
        [j for j, product in enumerate(row) if product == max(row)] for row in products
    ]
    cache.save(tmp_path / "cache.npz")
    for one in (cache, hm.HullCache.load(tmp_path / "cache.npz")):
        assert [members.tolist() for members in one.sets(queries)] == expected
        assert one.query(queries)[0, 0] == 2 * keys[expected[0][0]][0]
    torch = pytest.importorskip("torch")
    assert cache.query(torch.tensor([[1.0, 0.0]]))[0, 0] == torch.tensor(
        float(cache.query([[1, 0]])[0, 0])
    )


@pytest.mark.parametrize("compiled", [True, False])
def test_queries_that_compiled_code_does_not_accept_change_no_other(
    compiled, monkeypatch
):
    if compiled:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr("hardmax.hull_cache.has_numba", lambda: False)
    rng = np.random.default_rng(3)
    keys, values = rng.integers(-3, 4, (2, 2, 40, 2))
    queries = rng.integers(-2, 3, (2, 40, 2)).astype(object)
    queries[0, 7] = queries[0, 7] * Fraction(1, 3) + Fraction(1, 2**2000)
    queries[1, 20] = [1e-130, 1]
    cache, plain = (
        hm.HullCache(),
        [[[Fraction(x) for x in q] for q in head] for head in queries],
    )
    out = cache.attend(queries, keys, values)
    for h, i in np.ndindex(2, 40):
        products = (keys[h].astype(object) @ np.array(plain[h][i], object)).tolist()
        best = [
            [j for j in range(end) if products[j] == max(products[:end])]
            for end in (i + 1, 40)
        ]
        np.testing.assert_allclose(
            out[h, i], values[h][best[0]].mean(axis=0), atol=1e-15
        )
        assert cache.sets(queries)[h * 40 + i].tolist() == best[1]
        np.testing.assert_allclose(
            cache.query(queries)[h, i], values[h][best[1]].mean(axis=0), atol=1e-15
        )
    assert cache._is_exact != compiled


def test_arrays_without_keys_queries_values_or_heads(tmp_path):
    for leading, m, n, dv in (
        ((), 0, 1, 3),
        ((), 2, 0, 3),
        ((2,), 3, 1, 0),
        ((0,), 3, 2, 1),
        ((2, 0), 0, 0, 0),
    ):
        for dtype in (float, int, object):
            cache, values = hm.HullCache(), np.ones((*leading, m, dv), dtype)
            cache.append(np.ones((*leading, m, 2), dtype), values)
            empty, queries = (
                np.ones((*leading, 0, 2), dtype),
                np.ones((*leading, n, 2), dtype),
            )
            assert cache.attend(empty, empty, values[..., :0, :]).shape == (
                *leading,
                0,
                dv,
            )
            cache.save(tmp_path / "cache.npz")
            for one in (cache, hm.HullCache.load(tmp_path / "cache.npz")):
                assert len(one) == m
                if m:
                    assert one.query(queries).shape == (*leading, n, dv)
                    assert len(one.sets(queries)) == n * (leading[0] if leading else 1)


def test_decoding_of_memory_addresses_is_exact():
    """Write to addresses on a parabola and read them back, beyond the index at which
    float32 products fail.
    """
    rng, n = np.random.default_rng(0), 20_000
    address = rng.integers(0, 5000, n) + 10**6
    keys, read = np.c_[2 * address, -(address**2)], rng.permutation(address)
    queries, values = np.c_[read, np.ones(n, int)], rng.normal(size=(n, 1))
    cache = hm.HullCache(ties="latest")
    found, memory = cache.attend(queries, keys, values), {}
    for i in range(n):
        memory[address[i]] = values[i, 0]
        if read[i] in memory:
            assert found[i, 0] == memory[read[i]]
    assert len(memory) > 4000


@pytest.mark.parametrize("exact", [False, True])
def test_saved_caches_go_on(tmp_path, exact):
    rng = np.random.default_rng(1)
    keys, values = rng.integers(-3, 4, (2, 50, 2)), rng.normal(size=(2, 50, 2))
    keys = keys * Fraction(1, 3) if exact else keys
    cache = hm.HullCache(ties="mean")
    cache.append(keys[:, :30], values[:, :30])
    cache.save(tmp_path / "cache.npz")
    loaded = hm.HullCache.load(tmp_path / "cache.npz")
    assert repr(loaded) == repr(cache)
    for one in (cache, loaded):
        one.append(keys[:, 30:], values[:, 30:])
    assert cache.sets(keys) == loaded.sets(keys)
    assert np.array_equal(cache.query(keys), loaded.query(keys))
    empty = hm.HullCache(ties="first")
    empty.save(tmp_path / "empty.npz")
    assert len(hm.HullCache.load(tmp_path / "empty.npz")) == 0


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "cache.npz"
    cache = hm.HullCache()
    cache.append([[1, 2], [3, 4], [1, 2]], [[1], [2], [3]])
    cache.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    for name, wrong in {
        "keys": np.array([[[1, 2], [3, np.nan], [1, 2]]]),
        "values": np.ones((1, 2, 1)),
        "leading": np.array([3]),
        "ties": np.array("none"),
    }.items():
        np.savez(path, **arrays | {name: wrong})
        with pytest.raises(hm.InputError, match="path"):
            hm.HullCache.load(path)
    path.write_bytes(b"no archive")
    with pytest.raises(hm.InputError, match="path"):
        hm.HullCache.load(path)


def test_wrong_input_is_named():
    cache = hm.HullCache()
    with pytest.raises(hm.InputError, match="append"):
        cache.query([[1, 2]])
    for queries, keys in (
        ([[[1, 2]]], [[[1, 2]] * 2]),
        ([[np.nan, 1]], [[Fraction(1, 3), 1]]),
    ):
        with pytest.raises(hm.ParameterError, match="`queries`"):
            cache.attend(queries, keys, keys)
    assert (repr(cache), cache._is_exact) == (
        repr(hm.HullCache()),
        hm.HullCache()._is_exact,
    )
    with pytest.raises(hm.ParameterError, match="ties"):
        hm.HullCache(ties="last")
    for keys, values, name in (
        ([[1, 2, 3]], [[1]], "keys"),
        ([[1, np.nan]], [[1]], "keys"),
        ([[1, 2]], [[1], [2]], "values"),
        ([[1, 2]], [[np.inf]], "values"),
        ([1, 2], [1], "keys"),
    ):
        with pytest.raises(hm.ParameterError, match=f"`{name}`"):
            cache.append(keys, values)
    cache.append([[1, 2]], [[1]])
    for call in (
        lambda: cache.append([[[1, 2]]], [[[1]]]),
        lambda: cache.append([[1, 2]], [[1, 2]]),
    ):
        with pytest.raises(hm.ParameterError):
            call()
    with pytest.raises(hm.ParameterError, match="`queries`"):
        cache.query([1, 2])
    with pytest.raises(hm.ParameterError, match="`queries`"):
        cache.attend([[1, 2], [3, 4]], [[1, 2]], [[1]])
    with pytest.raises(hm.InputError, match="evict"):
        cache.evict(1)
    assert len(cache) == 1


def check_against_new(cache, keys, values):
    """Compare a cache with a new one of the same keys."""
    new = HullCache(ties=cache.ties)
    new.append(keys, values)
    queries = np.random.default_rng(5).normal(size=(50, 2))
    queries = np.concatenate([queries, [[0, 0], [1, 0], [0, -1]]])
    assert len(cache) == len(keys)
    assert cache.sets(queries) == new.sets(queries)
    np.testing.assert_allclose(cache.query(queries), new.query(queries), atol=1e-9)


@pytest.mark.parametrize("number", [2, 6])
def test_threads_may_use_one_cache(number):
    cache, failed = HullCache(), []
    rng = np.random.default_rng(0)
    keys = rng.integers(-40, 40, (number, 60, 50, 2))
    cache.append(keys[0, 0], keys[0, 0])

    def use(own):
        try:
            for some in own:
                cache.append(some, some)
                out = cache.query(some)
                # the best product is the same for all keys of a set
                assert (np.einsum("ij,ij->i", some, out - some) >= 0).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=use, args=(own,)) for own in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(cache) == (number * 60 + 1) * 50
    everything = cache._history()[0][0]
    found = np.unique(everything, axis=0, return_counts=True)
    expected = np.unique(
        np.concatenate([keys[0, 0], keys.reshape(-1, 2)]), axis=0, return_counts=True
    )
    assert all(map(np.array_equal, found, expected))
    check_against_new(cache, everything, everything)


INTERRUPTED = """
import signal
import time
import numpy as np
from hardmax import HullCache

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
rng = np.random.default_rng(0)
heads = 4
first = rng.normal(size=(heads, 1000, 2))
many = rng.normal(size=(heads, 40_000, 2))
queries = rng.normal(size=(heads, 100, 2))


def new(*keys):
    cache = HullCache()
    for some in keys:
        cache.append(some, some)
    return cache


new(first).query(queries)  # compiles
start = time.perf_counter()
expected = new(first, many)
took = time.perf_counter() - start
interrupted = 0
for fraction in np.linspace(0.3, 0.9, 10):
    cache = new(first)
    try:
        signal.setitimer(signal.ITIMER_REAL, fraction * took)
        cache.append(many, many)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
        assert len(cache) == 1000
        cache.append(many[:, :30_000], many[:, :30_000])
        cache.append(many[:, 30_000:], many[:, 30_000:])
    assert len(cache) == 41_000
    assert cache.sets(queries) == expected.sets(queries)
    assert np.array_equal(cache.query(queries), expected.query(queries))
assert interrupted >= 2, interrupted
print("done")
"""

OUT_OF_MEMORY = """
import resource
import numpy as np
from hardmax import HullCache

rng = np.random.default_rng(0)
cache = HullCache()
keys = rng.normal(size=(64, 2))
cache.append(keys, keys)
cache.query(keys)
more = rng.normal(size=(30_000, 2))
values = np.ones((30_000, 200))
small = HullCache()
small.append(more[:64], values[:64])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (60 << 20), hard))
failed = 0
for _ in range(3):
    try:
        small.append(more, values)
    except MemoryError:
        failed += 1
    assert len(small) == 64
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
for some in np.split(more[:3000], 30):
    small.append(some, values[:100])
assert len(small) == 3064
new = HullCache()
new.append(np.concatenate([more[:64], more[:3000]]), np.ones((3064, 200)))
queries = rng.normal(size=(100, 2))
assert small.sets(queries) == new.sets(queries)
print("failed", failed)
"""


def run_alone(script):
    """Run a script in a process of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"NUMBA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals of POSIX")
def test_an_interrupted_append_changes_nothing():
    pytest.importorskip("numba")
    assert run_alone(INTERRUPTED) == ["done"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of memory")
def test_an_append_without_memory_changes_nothing():
    pytest.importorskip("numba")
    assert run_alone(OUT_OF_MEMORY) == ["failed", "3"]


@pytest.mark.parametrize(
    ("factor", "name"), [(1, "_compute"), (Fraction(1, 3), "_means")]
)
def test_any_error_restores_the_cache(factor, name, monkeypatch):
    """Also one after new keys that need rational arithmetic have been stored."""
    pytest.importorskip("numba")
    keys = np.arange(12).reshape(6, 2) % 5
    cache = HullCache()
    cache.append(keys, keys)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(HullCache, name, fail)
        with pytest.raises(MemoryError):
            cache.attend(keys * factor, keys * factor, keys)
    check_against_new(cache, keys, keys)
    assert cache.query(keys).dtype == float


def test_copies_are_independent():
    keys = np.random.default_rng(2).normal(size=(40, 2))
    cache = HullCache(ties="latest")
    cache.append(keys[:20], keys[:20])
    copies = copy.copy(cache), copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))
    cache.append(-keys[20:], keys[20:])
    for one in copies:
        one.append(keys[20:], keys[20:])
        check_against_new(one, keys, keys)


@pytest.mark.parametrize("large", [1.5e308, -1e308])
@pytest.mark.parametrize("ties", TIES)
def test_means_of_large_values_do_not_overflow(ties, large):
    cache = HullCache(ties=ties)
    cache.append([[1, 0], [1, 0], [0, 1]], [[large], [large], [1.0]])
    assert cache.query([[1, 0]]).tolist() == [[large]]
    every = cache.query([[0, 0]])[0, 0]
    expected = {"mean": 2 * (large / 3), "latest": 1.0, "first": large}[ties]
    assert every == pytest.approx(expected, rel=1e-15)
    cache.append([[1, 0]], [[5e-324]])
    assert np.isfinite(cache.query([[1, 0]])).all()
