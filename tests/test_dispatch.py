"""When compiled code runs: by the size of a call, and by what is loaded or stored."""

import importlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("numba")

import hardmax as hm
from hardmax.cli.compile import RUNS
from hardmax.exact.argmax import argmax_sets
from hardmax.search import dispatch, threads
from hardmax.search.dispatch import Search

pytestmark = pytest.mark.by_size


@pytest.fixture
def nothing_ready(monkeypatch):
    """As in a fresh process of a fresh installation."""
    monkeypatch.setattr(dispatch, "is_loaded", lambda kernel: False)
    monkeypatch.setattr(dispatch, "is_stored", lambda kernel: False)
    monkeypatch.setattr(dispatch, "_numpy_work", Counter())


@pytest.mark.parametrize(
    ("products", "loaded", "stored", "expected"),
    [
        (dispatch.MIN_COMPILED - 1, True, True, False),
        (dispatch.MIN_COMPILED, True, False, True),
        (dispatch.LOADING - 1, False, True, False),
        (dispatch.LOADING, False, True, True),
        (dispatch.COMPILING - 1, False, False, False),
        (dispatch.COMPILING, False, False, True),
    ],
)
def test_compiled_code_runs_by_size_and_by_what_is_ready(monkeypatch, products, loaded, stored, expected):
    monkeypatch.setattr(dispatch, "is_stored", lambda kernel: stored)
    monkeypatch.setattr(dispatch, "is_loaded", lambda kernel: loaded)
    monkeypatch.setattr(dispatch, "_numpy_work", Counter())
    compiled, why = dispatch.explain_choice("hull", products)
    assert compiled == expected
    assert why.endswith(".")


@pytest.mark.usefixtures("nothing_ready")
def test_loops_of_small_calls_come_to_compiled_code(monkeypatch):
    monkeypatch.setattr(dispatch, "LOADING", 10**6)
    monkeypatch.setattr(dispatch, "is_stored", lambda kernel: kernel == "hull")
    tokens, slack = np.random.default_rng(0).normal(size=(500, 2)), np.zeros(500)
    for call in range(4):
        one = Search()
        one.near_maxima(tokens, tokens, slack)
        assert str(one) == ("numpy" if call < 3 else "hull")  # each asks for a quarter of what pays for loading
    assert one.why == "Loading stored compiled code takes less time than NumPy needs, or has needed."


@pytest.mark.usefixtures("nothing_ready")
def test_a_kernel_that_is_ready_takes_the_place_of_one_that_is_not(monkeypatch):
    monkeypatch.setattr(dispatch, "is_loaded", lambda kernel: kernel == "scan")
    tokens, slack = np.random.default_rng(0).normal(size=(500, 2)), np.zeros(500)
    one = Search()
    one.near_maxima(tokens, tokens, slack)
    assert (str(one), one.why) == ("scan", "Compiled code is loaded.")


@pytest.mark.usefixtures("nothing_ready")
def test_few_rows_that_are_left_over_do_not_wait_for_another_kernel(monkeypatch):
    monkeypatch.setattr(dispatch, "is_loaded", lambda kernel: kernel == "hull")
    tokens = np.random.default_rng(0).integers(-5, 6, (300, 2)).astype(float)  # zeros, for whom a hull has no answer
    one = Search()
    sets, _ = one.near_maxima(tokens, tokens, np.zeros(300))
    assert str(one) == "hull, numpy"
    assert sets == argmax_sets(tokens, kernel="numpy")


HALF = hm.Hardmax(0.5)


@pytest.mark.parametrize(
    ("rule", "d", "kernels"),
    [
        (HALF, 2, "hull"),
        (hm.Compose([HALF]), 2, "hull"),
        (hm.Compose([HALF, hm.Normalize("layer"), hm.Hardmax(1, ties=0.1)]), 2, "hull, numpy"),
        (hm.MultiHead([HALF, hm.Softmax(0.5)], shared=True), 3, "scan"),
        (hm.MultiHead([HALF, hm.Hardmax(2)], shared=True), 2, "hull"),
        (hm.MultiHead([HALF, hm.Hardmax(2, ties=0.1), hm.Softmax(0.5)]), 6, "hull, numpy"),
        (hm.MultiHead([hm.Compose([HALF]), hm.Hardmax(2)]), 4, "hull"),
        (hm.Compose([hm.MultiHead([HALF, hm.Hardmax(2, np.eye(3))]), hm.Normalize("rms")]), 5, "hull, scan"),
    ],
)
def test_every_simulation_says_which_kernel_ran_and_why(monkeypatch, rule, d, kernels):
    tokens = np.random.default_rng(0).normal(size=(200, d))  # products enough for compiled code that is loaded
    for loaded in (True, False):
        monkeypatch.setattr(dispatch, "is_loaded", lambda kernel, so=loaded: so)
        monkeypatch.setattr(dispatch, "_numpy_work", Counter())
        stats = hm.simulate(tokens, rule, layers=2).stats
        ran = set(kernels.split(", ")) if loaded else {"numpy"}
        assert ran <= set(stats["kernel"].split(", ")) <= ran | {"numpy"}  # when few tokens are left to ask
        assert stats["queries"] > 0
        why = "Compiled code is loaded." if loaded else "NumPy is done before compiled code is loaded."
        assert stats["why"].startswith(why)


def test_heads_of_their_own_say_every_reason_once():
    tokens = np.random.default_rng(0).normal(size=(200, 6))
    heads = [hm.Hardmax(0.5, ties=0.1), hm.Hardmax(2, ties=0.1), hm.Hardmax(1, exact=True)]
    stats = hm.simulate(tokens[:20], hm.MultiHead(heads), layers=1).stats
    assert (stats["kernel"], stats["queries"]) == ("numpy, flint", sum(own["queries"] for own in stats["heads"]))
    assert stats["why"] == "A tolerance sees all products. `exact=True` multiplies integers."


def test_rules_without_a_search_name_no_kernel():
    tokens = np.random.default_rng(0).normal(size=(10, 2))
    for rule in (hm.Softmax(0.5), hm.Compose([hm.Softmax(0.5)]), hm.MultiHead([hm.Softmax(1), hm.Softmax(2)])):
        assert "kernel" not in hm.simulate(tokens, rule, layers=2).stats


def test_what_ran_in_one_simulation_is_not_told_of_the_next():
    first, again = (hm.simulate(np.eye(9, 2), hm.Compose([HALF]), layers=3).stats for _ in range(2))
    hm.Compose([HALF]).layer(np.eye(9, 2), 0)  # outside of a run
    assert first == again


@pytest.mark.usefixtures("nothing_ready")
def test_small_tensors_are_answered_by_numpy(monkeypatch):
    torch = pytest.importorskip("torch")
    from hardmax.attention.functional import hardmax_attention
    from hardmax.attention.layers import hardmax_layers

    asked = []
    monkeypatch.setattr(dispatch, "count_numpy_work", lambda kernel, products: asked.append(kernel))
    z = torch.randn(3, 20, 8, requires_grad=True)
    hardmax_attention(z, z, z).sum().backward()
    hardmax_layers(z, torch.ones(3), 4).sum().backward()
    assert set(asked) == {"attention", "small", "layers"}


@pytest.mark.usefixtures("nothing_ready")
def test_the_logger_gets_what_ran_for_tensors_and_why(caplog):
    torch = pytest.importorskip("torch")
    from hardmax.attention.functional import hardmax_attention

    x = torch.ones(1, 3, 2)
    with caplog.at_level("INFO", "hardmax"):
        hardmax_attention(x, x, x)
    assert caplog.messages == []
    with caplog.at_level("DEBUG", "hardmax"):
        hardmax_attention(x, x, x)
    assert "attention by NumPy: NumPy is done before compiled code is loaded." in caplog.messages


def test_a_kernel_is_loaded_once_it_has_run():
    argmax_sets(np.eye(5, 2), kernel="hull")
    assert dispatch.is_loaded("hull")
    for name in dispatch.LAST_COMPILED.values():
        module, function = f"hardmax.{name}".rsplit(".", 1)
        assert hasattr(getattr(importlib.import_module(module), function), "overloads")


ASK = """
import sys, numpy as np
from hardmax.exact.argmax import argmax_sets
from hardmax.search import dispatch
before, loaded = dispatch.is_stored("symmetric"), dispatch.is_loaded("symmetric")
argmax_sets(np.random.default_rng(0).normal(size=(300, 16)), kernel="symmetric")
from hardmax.search import symmetric
hits = sum(symmetric._search.stats.cache_hits.values())
print(before, loaded, dispatch.is_loaded("symmetric"), hits)
"""


@pytest.mark.slow
def test_compiled_code_is_stored_and_found_again(tmp_path):
    own = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run([sys.executable, "-c", ASK], env=own, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert said == [["False", "False", "True", "0"], ["True", "False", "True", "1"]]


def test_a_source_that_has_changed_is_compiled_again(monkeypatch, tmp_path):
    for folder in ("search", "attention"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "hull.py").write_text("1")
    monkeypatch.setattr(dispatch, "PACKAGE", tmp_path)
    monkeypatch.setattr(threads, "__file__", str(tmp_path / "search" / "threads.py"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    named, stored = threads.hash_sources.__wrapped__, dispatch.is_stored.__wrapped__  # without their caches
    assert not stored("hull")
    before = named(tmp_path / "search")
    (tmp_path / f"hull._walk{before}-0.py311.nbi").touch()
    assert stored("hull")
    (tmp_path / "search" / "simd.py").write_text("2")  # which the function may call
    later = time.time() + 10
    os.utime(tmp_path / "search" / "simd.py", (later, later))
    assert not stored("hull")
    assert named(tmp_path / "search") != before
    own, search = (named(tmp_path / folder) for folder in ("attention", "search"))
    (tmp_path / "attention" / "hull.py").write_text("3")
    assert named(tmp_path / "attention") != own
    assert named(tmp_path / "search") == search


def test_every_kernel_can_be_compiled_ahead(run, monkeypatch):
    assert set(RUNS) == set(dispatch.LAST_COMPILED)
    monkeypatch.setattr("hardmax.cli.compile.has_numba", lambda: False)
    monkeypatch.setattr("hardmax.cli.compile._has_gpu", lambda: False)
    code, _, err = run("compile")
    assert code == 2
    assert "`hardmax compile` needs numba" in err


@pytest.mark.slow
def test_kernels_are_compiled_by_processes_of_their_own(run, monkeypatch):
    monkeypatch.setattr("hardmax.cli.compile.RUNS", {"symmetric": RUNS["symmetric"], "small": RUNS["small"]})
    monkeypatch.setattr("hardmax.cli.compile._has_gpu", lambda: False)
    code, out, _ = run("compile", "--workers", 1)
    assert code == 0
    first, second, last = out.splitlines()
    assert [first.split(":")[0], second.split(":")[0]] == [
        "symmetric",
        "small",
    ]
    assert last.startswith("Compiled code is in ")
    assert run("compile", "--workers", 0)[0] == 2


def test_compile_reports_a_version_of_triton_that_does_not_fit(run, monkeypatch):
    monkeypatch.setattr("hardmax.cli.compile.has_numba", lambda: False)
    monkeypatch.setattr("hardmax.cli.compile._has_gpu", lambda: True)
    monkeypatch.setitem(sys.modules, "hardmax.attention.gpu", None)  # as where Triton lacks what it imports
    code, out, _ = run("compile")
    assert code == 0
    assert out.startswith("GPU kernels: not compiled, because this version of Triton is not supported")


def test_an_interruption_ends_the_compiling_processes(run, monkeypatch):
    def interrupted(runs):
        raise KeyboardInterrupt

    monkeypatch.setattr("hardmax.cli.compile.as_completed", interrupted)
    assert run("compile", "--workers", 2)[0] == 130
    assert not multiprocessing.active_children()


def one_more(x):
    return x + 1


def test_without_a_folder_for_compiled_code_it_is_compiled_all_the_same(monkeypatch):
    from numba.core import caching

    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    assert threads.entry()(one_more)(2) == 3


USE = """
import sys, numpy as np, torch, hardmax as hm
from hardmax.attention.functional import hardmax_attention
from hardmax.attention.layers import hardmax_layers
from hardmax.exact.argmax import argmax_sets
from hardmax.search import dispatch
dispatch.is_loaded = lambda kernel: True
rng = np.random.default_rng(0)
for kind, n, d in (("gaussian", 300, 2), ("sphere", 20_000, 3), ("gaussian", 300, 3), ("gaussian", 5_000, 16)):
    hm.limit(hm.configuration(kind, n=n, d=d), hm.Hardmax(0.5))
    hm.simulate(hm.configuration(kind, n=200, d=d), hm.Hardmax(0.5, causal=True), layers=2)
for d in (2, 3):
    hm.limit(rng.normal(size=(20, 50, d)), hm.Hardmax(0.5))
for d, number in ((2, torch.float64), (2, torch.float32), (3, torch.float32), (8, torch.float32), (8, torch.float64)):
    z = torch.randn(4, 50, d, dtype=number, requires_grad=True)
    for mask in (None, torch.rand(4, 50) < 0.8):
        hardmax_attention(z, z, z, mask).sum().backward()
    hardmax_attention(z, z, z, causal=True).sum().backward()
    alpha, A = torch.ones(4, dtype=number, requires_grad=True), torch.eye(d, dtype=number).expand(4, d, d)
    for more in ({}, {"A": A}, {"counts": torch.ones(4, 50, dtype=torch.int64)}):
        hardmax_layers(z, alpha, 3, **more).sum().backward()
hm.pretrained().predict(["a good film"] * 100)
for module in [m for name, m in sys.modules.items() if name.startswith("hardmax.")]:
    for name, entry in vars(module).items():
        if hasattr(entry, "overloads") and sum(entry.stats.cache_misses.values()):
            print(module.__name__, name, entry.stats.cache_misses)
"""


@pytest.mark.slow
def test_nothing_is_compiled_after_hardmax_compile():
    """In the cache of this installation, in which `make test` has stored everything."""
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "hardmax.cli.main", "compile"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {line.split(":")[0] for line in done.stdout.splitlines()[:-1]} >= set(dispatch.LAST_COMPILED)
    used = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True)
    assert (used.returncode, used.stdout) == (0, ""), used.stderr
