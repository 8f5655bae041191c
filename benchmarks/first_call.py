"""A fresh process: what the first call costs, what loading compiled code adds to it, and when a classifier answers."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.memory import FORGET
from benchmarks.registry import Case, Method, Target, equal

WHY = "has another answer"
FIRST_OF_ALL = "where nothing was compiled before"
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


def _fresh(code: str, cache: str | None = None) -> Fresh:
    """Seconds that the code measures in a new process, a number to compare, and the largest size of a process in MB."""
    variables = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": cache})
    code += PEAK if FORGET.exists() else "print(0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    seconds, answer, peak = map(float, done.stdout.split())
    return seconds, answer, peak or None


def _empty(code: str) -> Fresh:
    with tempfile.TemporaryDirectory() as folder:
        return _fresh(code, folder)


def _method(name: str, run: Callable[[], Fresh], target: Target | None = None, package: str = "") -> Method:
    return Method(
        name,
        lambda: run,
        lambda result: {"answer": np.array(result[1])},
        target=target,
        package=package,
        seconds=lambda wall, result: result[0],
        peak=lambda result: result[2],
    )


def _first_limit(n: int, quick: bool) -> list[Method]:
    auto, plain = (LIMIT.format(n=n, kernel=kernel) for kernel in ("auto", "numpy"))
    return [
        _method('limit, kernel="auto"', partial(_fresh, auto)),
        _method('limit, kernel="numpy"', partial(_fresh, plain), Target(0.9)),
    ]


def _first_layer(quick: bool) -> list[Method]:
    auto, plain = (LOAD.format(n=10_000, d=2, kernel=kernel) for kernel in ("auto", "numpy"))
    return [
        _method('kernel="auto"', partial(_fresh, auto), Target(0.5, "s")),
        _method('kernel="numpy"', partial(_fresh, plain)),
    ]


def _import(quick: bool) -> list[Method]:
    return [_method("import hardmax, seconds of the processor", partial(_fresh, IMPORT), Target(0.3, "s"))]


def _loading(kernel: str, d: int, quick: bool) -> list[Method]:
    compiled, plain = (LOAD.format(n=1000, d=d, kernel=name) for name in (kernel, "numpy"))
    named = f'kernel="{kernel}"'
    slow = [] if quick else [_method(f"{named}, compiled anew", partial(_empty, compiled), package="numba")]
    return [
        _method('kernel="numpy"', partial(_fresh, plain)),
        _method(f"{named}, loaded from its cache", partial(_fresh, compiled), package="numba"),
        *slow,
    ]


def _classifier(name: str, code: str, most: float, quick: bool) -> list[Method]:
    slow = [] if quick else [_method(FIRST_OF_ALL, partial(_empty, code), package="sklearn")]
    return [_method(name, partial(_fresh, code), Target(most, "s"), package="sklearn"), *slow]


def _attention(quick: bool) -> list[Method]:
    by_torch = "(lambda q, k, v: v.gather(1, (q @ k.mT).argmax(2, keepdim=True).expand(-1, -1, v.shape[2])))"
    ours, theirs = (ATTEND.format(attend=attend) for attend in ("hm.hardmax_attention", by_torch))
    return [
        _method("hardmax_attention", partial(_fresh, ours), Target(0.5, "s"), package="torch"),
        _method(f"hardmax_attention, {FIRST_OF_ALL}", partial(_empty, ours), package="torch"),
        _method("argmax and gather in torch", partial(_fresh, theirs), package="torch"),
    ]


CASES = (
    [
        Case("import", "The import, in a fresh process", _import, equal, WHY),
        Case(
            "first_layer",
            "First layer of a fresh process, Gaussian tokens, n = 10,000, d = 2, after the import",
            _first_layer,
            equal,
            WHY,
        ),
    ]
    + [
        Case(
            f"first_limit_{n}",
            f"First limit of a fresh process, Gaussian tokens, n = {n}, d = 2, alpha = 0.5",
            partial(_first_limit, n),
            equal,
            WHY,
        )
        for n in (100, 1000)
    ]
    + [
        Case(
            f"loading_{kernel}",
            f"First layer of a fresh process, Gaussian tokens, n = 1000, d = {d}",
            partial(_loading, kernel, d),
            equal,
            WHY,
        )
        for kernel, d in (("hull", 2), ("scan", 16), ("symmetric", 256))
    ]
    + [
        Case(
            "first_attention",
            "First hardmax_attention of a fresh process with its gradient, Gaussian tokens, 4 clouds of 64, d = 16",
            _attention,
            equal,
            WHY,
        ),
        Case(
            "first_answer",
            "First answer of the shipped model of film reviews in a fresh process, imports included",
            partial(_classifier, "pretrained and predict", ANSWER, 2.0),
            equal,
            WHY,
        ),
        Case(
            "first_model",
            "From the command to the model: 1,000 short made reviews, imports included",
            partial(_classifier, "hardmax train", TRAIN, 10.0),
            equal,
            WHY,
        ),
    ]
)
