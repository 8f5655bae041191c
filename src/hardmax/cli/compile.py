"""`hardmax compile`."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import active_children, get_context
from signal import SIG_IGN, SIGINT, signal
from typing import Annotated

import numpy as np

from hardmax._errors import MissingExtra
from hardmax.cli import output
from hardmax.cli.options import option
from hardmax.exact.argmax import argmax_sets
from hardmax.hull_cache import HullCache
from hardmax.search.dispatch import LAST_COMPILED, has_numba


def compile(
    workers: Annotated[
        int | None, option("--workers", "Processes. Default: one per core.", min=1)
    ] = None,
) -> None:
    """Compile the numba and Triton kernels ahead of time, once per machine.

    This is optional: small inputs need no compiled code, and large inputs compile what
    they need at the first call, in up to half a minute per kernel. Use it when you
    build a container image, or before a talk. With a GPU, the attention kernels for all
    data types and the usual widths are compiled, too.
    """
    processes, gpu = workers or os.cpu_count() or 1, _has_gpu()
    if not (has_numba() or gpu):
        raise MissingExtra("`hardmax compile`", "numba", "fast")
    if has_numba():
        _compile_for_cpu(min(processes, len(RUNS)))
    if gpu:
        _compile_for_gpu()


def _compile_for_cpu(processes: int) -> None:
    """Compile in several processes, because numba compiles in one thread at a time."""
    with (
        output.progress_bar("Kernels") as progress,
        ProcessPoolExecutor(
            processes, get_context("spawn"), signal, (SIGINT, SIG_IGN)
        ) as pool,
    ):
        runs = [pool.submit(_compile_one, kernel) for kernel in RUNS]
        try:
            for done, run in enumerate(as_completed(runs), 1):
                output.say(run.result())
                progress(done, len(runs))
        except BaseException:  # such as Ctrl-C, which the child processes ignore
            for process in active_children():
                process.terminate()
            raise
    output.say("Compiled code is in the cache of numba.")


def _has_gpu() -> bool:
    """Return whether torch, Triton and a GPU are available."""
    if not (find_spec("torch") and find_spec("triton")):
        return False
    import torch

    return torch.cuda.is_available()


def _compile_for_gpu() -> None:
    """Run attention and its gradient once per type, width and number of tokens for
    which kernels are compiled.
    """
    start = time.perf_counter()
    try:
        from hardmax.attention.gpu_compile import compile_ahead
    except ImportError as problem:
        output.say(
            "GPU kernels: not compiled, because this version of Triton is not"
            f" supported ({problem})"
        )
        return
    with output.progress_bar("GPU kernels") as progress:
        compile_ahead(progress)
    output.say(f"GPU kernels: {time.perf_counter() - start:.1f} s")


def _compile_one(kernel: str) -> str:
    """Compile one kernel in a child process, and return a line with the time it took."""
    start = time.perf_counter()
    RUNS[kernel]()
    module, function = f"hardmax.{LAST_COMPILED[kernel]}".rsplit(".", 1)
    made = sum(getattr(import_module(module), function).stats.cache_misses.values())
    return (
        f"{kernel}:"
        f" {f'{time.perf_counter() - start:.1f} s' if made else 'already compiled'}"
    )


def _search(kernel: str, d: int) -> None:
    argmax_sets(_tokens(1, 64, d)[0].astype(np.float64), kernel=kernel)


def _search_batch(kernel: str, d: int, **options: bool) -> None:
    module = import_module(f"hardmax.search.{kernel}")
    for number in (np.float32, np.float64):
        tokens = _tokens(2, 20, d).astype(number)
        module.near_maxima_of_batch(tokens, tokens, **options)


def _scan() -> None:
    _search("scan", 3)
    _search_batch("scan", 3, causal=True)


def _growing() -> None:
    from hardmax.search.growing import near_maxima

    tokens = _tokens(1, 64, 2)[0].astype(np.float64)
    near_maxima(tokens, tokens, np.zeros(64), np.arange(1, 65))


def _hull_cache() -> None:
    tokens, cache = _tokens(2, 20, 2), HullCache()
    cache.append(tokens, tokens)
    cache.sets(tokens)
    cache.attend(tokens, tokens, tokens)


def _attention() -> None:
    from hardmax.attention.layers_compiled import attend, spread

    tokens, found = _tokens(2, 20, 4), np.empty((2, 40), np.int32)
    attend(tokens, tokens, tokens, None, np.empty_like(tokens), found)
    for number in (np.float32, np.float64):
        gradients = tokens.astype(number)
        spread(gradients, found, np.empty_like(gradients))


def _layers() -> None:
    from hardmax.attention.layers_compiled import run_layers

    for number, d in ((np.float32, 4), (np.float64, 2)):
        tokens, step = _tokens(2, 20, d).astype(number), np.full(2, 0.5, number)
        run_layers(tokens, step, 2, None, None, True).back(tokens, step)


def _flows(batch: int, n: int) -> None:
    from hardmax._simulate import simulate
    from hardmax.rules.self_attention import SelfAttention

    simulate(
        _tokens(batch, n, 2), SelfAttention(), times=[1e-6], method="RK45", rtol=0.1
    )  # enough for compiled code


def _contributions() -> None:
    from hardmax.attention.layers_compiled import contributions_of_texts

    ids, starts, counts = np.arange(20), np.array([0, 10, 20]), np.ones(20, np.intp)
    for number in (np.float32, np.float64):
        embedding = _tokens(20, 3, 2).astype(number)
        contributions_of_texts(
            (ids, starts, counts), embedding, np.full(3, 0.5), np.ones((1, 3, 2)), 2
        )


def _tokens(
    batch: int, n: int, d: int
) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    return np.random.default_rng(0).normal(size=(batch, n, d)).astype(np.float32)


# Every kernel of `LAST_COMPILED` on all its data types, the slowest to compile first.
RUNS: dict[str, Callable[[], object]] = {
    "flows": partial(_flows, 2000, 50),
    "flow_rows": partial(_flows, 1, 2200),
    "layers": _layers,
    "hull_cache": _hull_cache,
    "growing": _growing,
    "scan": _scan,
    "small": partial(_search_batch, "small", 2),
    "hull": partial(_search, "hull", 2),
    "contributions": _contributions,
    "symmetric": partial(_search, "symmetric", 16),
    "attention": _attention,
}
