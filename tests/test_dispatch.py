"""Choice of compiled code: by the size of a call, and by the kernels that are loaded or
stored.
"""

import importlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")

import hardmax as hm
from hardmax.cli.compile import RUNS
from hardmax.exact.argmax import argmax_sets
from hardmax.search import dispatch, hull, threads
from hardmax.search.dispatch import Search

pytestmark = pytest.mark.by_size


@pytest.fixture
def set_ready(monkeypatch):
    """Return a function that sets what is loaded and stored; first nothing, as in a
    fresh installation.
    """

    def set_ready(loaded=(), stored=()):
        monkeypatch.setattr(dispatch, "is_loaded", lambda kernel: kernel in loaded)
        monkeypatch.setattr(dispatch, "is_stored", lambda kernel: kernel in stored)
        monkeypatch.setattr(dispatch, "_numpy_work", Counter())

    set_ready()
    return set_ready


def search(tokens):
    """Return the kernels that ran, the reason, and the sets."""
    one = Search()
    sets, _ = one.near_maxima(tokens, tokens, np.zeros(len(tokens)))
    return str(one), one.why, sets


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
def test_compiled_code_runs_by_size_and_by_readiness(
    set_ready, products, loaded, stored, expected
):
    set_ready(["hull"] * loaded, ["hull"] * stored)
    compiled, why = dispatch.explain_choice("hull", products)
    assert compiled == expected
    assert why.endswith(".")


def test_loops_of_small_calls_come_to_compiled_code(set_ready, monkeypatch):
    monkeypatch.setattr(dispatch, "LOADING", 10**6)
    set_ready(stored=["hull"])
    tokens = np.random.default_rng(0).normal(
        size=(500, 2)
    )  # a quarter of the products that pay for loading
    *first, (kernel, why, _) = [search(tokens) for _ in range(4)]
    assert [kernel for kernel, _, _ in first] == ["numpy"] * 3
    assert (kernel, why) == (
        "hull",
        "Loading stored compiled code takes less time than NumPy needs, or has needed.",
    )


def test_a_loaded_kernel_replaces_one_that_is_not(set_ready):
    set_ready(loaded=["scan"])
    assert search(np.random.default_rng(0).normal(size=(500, 2)))[:2] == (
        "scan",
        "Compiled code is loaded.",
    )


def test_few_rows_that_are_left_over_load_no_other_kernel(set_ready):
    set_ready(loaded=["hull"])
    tokens = (
        np.random.default_rng(0).integers(-5, 6, (300, 2)).astype(float)
    )  # with zeros, which a hull leaves out
    kernels, _, sets = search(tokens)
    assert kernels == "hull, numpy"
    assert sets == argmax_sets(tokens, kernel="numpy")


HALF = hm.Hardmax(0.5)


@pytest.mark.parametrize(
    ("rule", "d", "kernels"),
    [
        (HALF, 2, "hull"),
        (hm.Compose([HALF]), 2, "hull"),
        (hm.Compose([HALF, hm.Normalize("layer"), hm.Hardmax(1)]), 2, "hull"),
        (hm.MultiHead([HALF, hm.Softmax(0.5)], shared=True), 3, "scan"),
        (hm.MultiHead([HALF, hm.Hardmax(2)], shared=True), 2, "hull"),
        (hm.MultiHead([HALF, hm.Hardmax(2), hm.Softmax(0.5)]), 6, "hull"),
        (hm.MultiHead([hm.Compose([HALF]), hm.Hardmax(2)]), 4, "hull"),
        (
            hm.Compose(
                [hm.MultiHead([HALF, hm.Hardmax(2, np.eye(3))]), hm.Normalize("rms")]
            ),
            5,
            "hull, scan",
        ),
    ],
)
def test_every_simulation_reports_its_kernel_and_the_reason(
    set_ready, rule, d, kernels
):
    tokens = np.random.default_rng(0).normal(
        size=(200, d)
    )  # products enough for compiled code that is loaded
    for loaded in (True, False):
        set_ready(dispatch.LAST_COMPILED if loaded else ())
        stats = hm.simulate(tokens, rule, layers=2).stats
        ran = set(kernels.split(", ")) if loaded else {"numpy"}
        assert (
            ran <= set(stats["kernel"].split(", ")) <= ran | {"numpy"}
        )  # when few tokens are undecided
        assert stats["queries"] > 0
        why = (
            "Compiled code is loaded."
            if loaded
            else "NumPy is done before compiled code is loaded."
        )
        assert stats["why"].startswith(why)
    assert hm.simulate(tokens, rule, layers=2).stats == stats  # nothing is carried over


def test_heads_with_their_own_coordinates_report_every_reason_once():
    tokens = np.random.default_rng(0).normal(size=(20, 6))
    heads = [hm.Hardmax(0.5, exact=True), hm.Hardmax(2, exact=True), hm.Softmax(1)]
    stats = hm.simulate(tokens, hm.MultiHead(heads), layers=1).stats
    assert (stats["kernel"], stats["queries"]) == (
        "flint",
        sum(own.get("queries", 0) for own in stats["heads"]),
    )
    assert stats["why"] == "`exact=True` multiplies integers."
    for rule in (
        hm.Softmax(0.5),
        hm.Compose([hm.Softmax(0.5)]),
        hm.MultiHead([hm.Softmax(1), hm.Softmax(2)]),
    ):
        assert (
            "kernel" not in hm.simulate(tokens, rule, layers=2).stats
        )  # nothing is searched


@pytest.mark.usefixtures("set_ready")
def test_small_tensors_go_to_numpy_and_the_logger_gets_the_reason(caplog):
    torch = pytest.importorskip("torch")
    z = torch.randn(3, 20, 8, requires_grad=True)
    with caplog.at_level("INFO", "hardmax"):
        hm.hardmax_attention(z, z, z)
    assert caplog.messages == []
    dispatch._numpy_work.clear()
    with caplog.at_level("DEBUG", "hardmax"):
        hm.hardmax_attention(z, z, z).sum().backward()
        hm.hardmax_layers(z, torch.ones(3), 4).sum().backward()
    assert set(dispatch._numpy_work) == {"attention", "small", "layers"}
    assert (
        "attention by NumPy: NumPy is done before compiled code is loaded."
        in caplog.messages
    )


def test_a_kernel_is_loaded_once_it_has_run():
    argmax_sets(np.eye(5, 2), kernel="hull")
    assert dispatch.is_loaded("hull")
    for name in dispatch.LAST_COMPILED.values():
        module, function = f"hardmax.{name}".rsplit(".", 1)
        assert hasattr(getattr(importlib.import_module(module), function), "overloads")


PROGRAM = """
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
    own, command = (
        os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        [sys.executable, "-c", PROGRAM],
    )
    printed = [
        subprocess.run(
            command, env=own, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert printed == ["False False True 0\n", "True False True 1\n"]


def run_program(code, **variables):
    """Return what a new Python process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


COPY = """
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("copied", "{}")
copied = module_from_spec(spec)
spec.loader.exec_module(copied)
print(copied.SOURCES)
"""


def test_names_in_the_cache_change_with_every_source(tmp_path):
    """numba itself looks at the file of a compiled function alone."""
    for file in Path(threads.__file__).parent.glob("*.py"):
        shutil.copy(file, tmp_path)
    print_name = COPY.format(tmp_path / "threads.py")
    assert run_program(print_name).strip() == threads.SOURCES
    with (tmp_path / "simd.py").open("a") as file:
        file.write("# another line")
    assert run_program(print_name).strip() != threads.SOURCES
    assert hull._walk.py_func.__qualname__ == f"_walk-{threads.SOURCES}"


ANNOUNCED = """
import io, sys
import numpy as np
class Terminal(io.StringIO):
    def isatty(self):
        return {is_terminal}
sys.stderr = Terminal()
from hardmax.search import hull
hull._angles(np.eye(3, 2), np.arange(3))
hull._angles(np.eye(3, 2), np.arange(3, dtype=np.int32))
print(sys.stderr.getvalue(), end="")
"""


def test_compilation_is_announced_once_on_a_terminal(tmp_path):
    line = "Compiling hardmax.search.hull, once per machine ...\n"
    for is_terminal, folder, printed in (
        (False, "a", ""),
        (True, "b", line),
        (True, "b", ""),  # it is loaded from the cache
    ):
        program = ANNOUNCED.format(is_terminal=is_terminal)
        assert run_program(program, NUMBA_CACHE_DIR=str(tmp_path / folder)) == printed


THREADS = """
import atexit, multiprocessing, os, sys, threading
import numpy as np
from hardmax.search import threads
threads.max_threads = lambda: 3

def add():
    total = np.zeros(100)
    def work(some):
        total[some] += 1
    threads.share(work, 100, 1e9)
    assert (total == 1).all()

if __name__ == "__main__":
    atexit.register(add)
    add()
    others = [threading.Thread(target=add) for _ in range(8)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert sum(each.name.startswith("hardmax") for each in threading.enumerate()) == 2
    for method in multiprocessing.get_all_start_methods():
        child = multiprocessing.get_context(method).Process(target=add, daemon=True)
        child.start()
        child.join(60)
        assert child.exitcode == 0, method
    print("done")
"""


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_threads_survive_forks_daemons_other_threads_and_the_end(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(THREADS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, IndexError])
@pytest.mark.parametrize("in_caller", [False, True])
def test_an_error_ends_all_parts_and_is_raised(error, in_caller, monkeypatch):
    monkeypatch.setattr(threads, "max_threads", lambda: 2)
    caller = threading.current_thread()
    raised = threading.Event()
    begun = []

    def work(some):
        begun.append(some)
        if in_caller == (threading.current_thread() is caller):
            raised.set()
            raise error
        raised.wait(10)
        time.sleep(0.05)  # until the other thread has removed all parts

    with pytest.raises(error):
        threads.share(work, 100, 1e9)
    time.sleep(0.1)
    assert len(begun) <= 2


def test_every_kernel_can_be_compiled_ahead(run, monkeypatch):
    assert set(RUNS) == set(dispatch.LAST_COMPILED)
    monkeypatch.setattr("hardmax.cli.compile.has_numba", lambda: False)
    monkeypatch.setattr("hardmax.cli.compile._has_gpu", lambda: False)
    code, _, err = run("compile")
    assert code == 2
    assert "`hardmax compile` needs numba" in err
    monkeypatch.setattr("hardmax.cli.compile._has_gpu", lambda: True)
    monkeypatch.setitem(
        sys.modules, "hardmax.attention.gpu", None
    )  # as where Triton lacks what it imports
    code, out, _ = run("compile")
    assert code == 0
    assert run("compile", "--workers", 0)[0] == 2
    assert out.startswith(
        "GPU kernels: not compiled, because this version of Triton is not supported"
    )


def test_an_interruption_ends_the_compiling_processes(run, monkeypatch):
    def interrupted(runs):
        raise KeyboardInterrupt

    monkeypatch.setattr("hardmax.cli.compile.as_completed", interrupted)
    assert run("compile", "--workers", 2)[0] == 130
    assert not multiprocessing.active_children()


def one_more(x):
    return x + 1


def test_code_is_compiled_without_a_cache_folder(monkeypatch):
    from numba.core import caching

    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    assert threads.entry()(one_more)(2) == 3


USE = """
import sys, numpy as np, torch, hardmax as hm
from hardmax import hardmax_attention, hardmax_layers
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
        hardmax_attention(z, z, z, mask=mask).sum().backward()
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
    assert {line.split(":")[0] for line in done.stdout.splitlines()[:-1]} >= set(
        dispatch.LAST_COMPILED
    )
    used = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True)
    assert (used.returncode, used.stdout) == (0, ""), used.stderr


def test_a_module_that_another_thread_still_imports_is_not_loaded(monkeypatch):
    name = "hardmax.attention.layers_compiled"
    monkeypatch.setitem(sys.modules, name, type(sys)(name))
    assert not dispatch.is_loaded("contributions")
