"""A fresh process: the first call, the loading of compiled code, and the first answer
of a classifier.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.machine import CLEAR_REFS
from benchmarks.registry import Case, Method, Target, equal

NOTHING_COMPILED = "where nothing was compiled before"
LIMIT = """
import time
import hardmax as hm
tokens = hm.configuration("gaussian", n={n})
start = time.perf_counter()
limit = hm.limit(tokens, hm.Hardmax(0.5), kernel="{kernel}")
print(time.perf_counter() - start, limit.layer)
"""
LOAD = """
import time
import hardmax as hm
tokens = hm.configuration("gaussian", n={n}, d={d})
start = time.perf_counter()
sets = hm.argmax_sets(tokens, kernel="{kernel}")
print(time.perf_counter() - start, sets.members.sum())
"""
IMPORT = """
import time
start = time.process_time()
import hardmax
print(time.process_time() - start, 1.0)
"""
ANSWER = """
import time
start = time.perf_counter()
import hardmax as hm
answer = hm.pretrained("imdb").predict(["Not funny, far too long, and the ending is a mess."])
print(time.perf_counter() - start, float(answer[0] == "neg"))
"""
ATTEND = """
import time
import torch, hardmax as hm
tokens = torch.randn(4, 64, 16, generator=torch.Generator().manual_seed(0), requires_grad=True)
start = time.perf_counter()
out = {attend}(tokens.detach(), tokens.detach(), tokens)
out.sum().backward()
print(time.perf_counter() - start, float(out.sum() + tokens.grad.square().sum()))
"""
TRAIN = """
import csv, subprocess, sys, tempfile, time
from pathlib import Path
from hardmax.text.datasets import reviews
corpus = reviews(1000, seed=1)
with tempfile.TemporaryDirectory() as name:
    rows, out = Path(name, "rows.csv"), Path(name, "model")
    with open(rows, "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(corpus.texts, corpus.labels)])
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "hardmax.cli.main", "train", rows, "--out", out, "--quiet"], check=True)
    print(time.perf_counter() - start, float((out / "model.json").exists()))
"""
PEAK = """
import resource
sizes = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(1.024e-3 * max(int(sizes[0]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
"""
Fresh = tuple[float, float, float | None]


def _run_fresh(code: str, empty_cache: bool = False) -> Fresh:
    """Return the seconds that code measures in a new process, its answer, and the
    largest process in MB.
    """
    code += PEAK if CLEAR_REFS.exists() else "print(0)"
    with tempfile.TemporaryDirectory() as folder:
        variables = os.environ | ({"NUMBA_CACHE_DIR": folder} if empty_cache else {})
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env=variables,
        )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    seconds, answer, peak = map(float, done.stdout.split())
    return seconds, answer, peak or None


def _method(
    name: str,
    code: str,
    most: Target | None = None,
    package: str = "",
    empty_cache: bool = False,
) -> Method:
    return Method(
        name,
        lambda: partial(_run_fresh, code, empty_cache),
        lambda result: {"answer": np.array(result[1])},
        target=most,
        package=package,
        seconds=lambda wall, result: result[0],
        peak=lambda result: result[2],
    )


def _first_limit(n: int, quick: bool) -> list[Method]:
    auto, plain = (LIMIT.format(n=n, kernel=kernel) for kernel in ("auto", "numpy"))
    return [
        _method('limit, kernel="auto"', auto),
        _method('limit, kernel="numpy"', plain, Target(0.9)),
    ]


def _first_layer(quick: bool) -> list[Method]:
    auto, plain = (
        LOAD.format(n=10_000, d=2, kernel=kernel) for kernel in ("auto", "numpy")
    )
    return [
        _method('kernel="auto"', auto, Target(0.5, "s")),
        _method('kernel="numpy"', plain),
    ]


def _import(quick: bool) -> list[Method]:
    return [
        _method("import hardmax, seconds of the processor", IMPORT, Target(0.3, "s"))
    ]


def _loading(kernel: str, d: int, quick: bool) -> list[Method]:
    compiled, plain = (
        LOAD.format(n=1000, d=d, kernel=name) for name in (kernel, "numpy")
    )
    named = f'kernel="{kernel}"'
    slow = (
        []
        if quick
        else [
            _method(
                f"{named}, compiled anew", compiled, package="numba", empty_cache=True
            )
        ]
    )
    loaded = _method(f"{named}, loaded from its cache", compiled, package="numba")
    return [_method('kernel="numpy"', plain), loaded, *slow]


def _classifier(name: str, code: str, most: float, quick: bool) -> list[Method]:
    slow = (
        []
        if quick
        else [_method(NOTHING_COMPILED, code, package="sklearn", empty_cache=True)]
    )
    return [_method(name, code, Target(most, "s"), "sklearn"), *slow]


def _attention(quick: bool) -> list[Method]:
    by_torch = (
        "(lambda q, k, v: v.gather(1, (q @ k.mT).argmax(2, keepdim=True).expand(-1, -1,"
        " v.shape[2])))"
    )
    ours, theirs = (
        ATTEND.format(attend=attend) for attend in ("hm.hardmax_attention", by_torch)
    )
    return [
        _method("hardmax_attention", ours, Target(0.5, "s"), "torch"),
        _method(
            f"hardmax_attention, {NOTHING_COMPILED}",
            ours,
            package="torch",
            empty_cache=True,
        ),
        _method("argmax and gather in torch", theirs, package="torch"),
    ]


def _case(name: str, title: str, methods: Callable[[bool], list[Method]]) -> Case:
    return Case(name, title, methods, equal, "has another answer")


FRESH = "of a fresh process, Gaussian tokens,"
CASES = [
    _case("import", "The import, in a fresh process", _import),
    _case(
        "first_layer",
        f"First layer {FRESH} n = 10,000, d = 2, after the import",
        _first_layer,
    ),
    *(
        _case(
            f"first_limit_{n}",
            f"First limit {FRESH} n = {n}, d = 2, alpha = 0.5",
            partial(_first_limit, n),
        )
        for n in (100, 1000)
    ),
    *(
        _case(
            f"loading_{kernel}",
            f"First layer {FRESH} n = 1000, d = {d}",
            partial(_loading, kernel, d),
        )
        for kernel, d in (("hull", 2), ("scan", 16), ("symmetric", 256))
    ),
    _case(
        "first_attention",
        "First hardmax_attention of a fresh process with its gradient, Gaussian tokens,"
        " 4 clouds of 64, d = 16",
        _attention,
    ),
    _case(
        "first_answer",
        "First answer of the shipped model of film reviews in a fresh process, imports"
        " included",
        partial(_classifier, "pretrained and predict", ANSWER, 2.0),
    ),
    _case(
        "first_model",
        "From the command to the model: 1,000 short made reviews, imports included",
        partial(_classifier, "hardmax train", TRAIN, 10.0),
    ),
]
