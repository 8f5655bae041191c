"""The peers of one layer: who else finds the largest product with every token, and how they are called."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks.agreement import choice, float_choice
from benchmarks.definition import loop_over_tokens, triple_loop
from benchmarks.machine import THREADS
from benchmarks.registry import Answer, Method, Target
from hardmax._types import AnyArray, FloatArray
from hardmax.search.dispatch import Search
from hardmax.search.sets import Sets

Make = Callable[[], FloatArray]
ROWS = 2048  # of a tile of torch's products; the best of 64 to 4096
SQUARE = 4096  # the matrices whose product gives the peak rate
WARM = 64  # tokens of the runs before the clock starts


def ours(make: Make, kernel: str = "auto", name: str = "") -> Method:
    """`hardmax.exact.argmax`."""

    def prepare() -> Callable[[], Sets]:
        tokens = make()
        if kernel == "auto":
            d, alone = tokens.shape[-1], tokens.ndim == 2
            more = ["hull"] * (alone and d == 2)
            for name in ["scan", "symmetric", *more] if alone else []:  # so that none is compiled while it is timed
                hm.argmax_sets(tokens[:WARM], kernel=name)
            if not alone:
                hm.argmax_sets(tokens)
        hm.argmax_sets(tokens[..., :WARM, :], kernel=kernel)
        return lambda: hm.argmax_sets(tokens, kernel=kernel)

    return Method(
        name or f'hardmax, kernel="{kernel}"',
        prepare,
        lambda sets: choice(sets.starts, sets.members, make()),
        facts=(lambda sets: {"kernel": what_runs(make())}) if kernel == "auto" else lambda sets: {},
    )


def what_runs(tokens: AnyArray) -> str:
    """Which kernel "auto" takes for these tokens."""
    if tokens.ndim == 3:
        return "scan"
    search, arguments = Search(), search_arguments(tokens)
    search.near_maxima(*arguments)
    return str(search)


def search_arguments(tokens: AnyArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Queries, keys and slack as `argmax_sets` passes them on."""
    from hardmax.exact.argmax import Scaled, slack_of

    scaled = Scaled.of(tokens)
    return scaled.values, scaled.values, slack_of(scaled.values, scaled.error, scaled.values, scaled.error)


def numpy_tiles(make: Make) -> Method:
    """All products in NumPy."""
    return ours(make, "numpy", "NumPy, matmul and argmax by tiles")


def loop(make: Make) -> Method:
    """The definition, token by token."""

    def prepare() -> Callable[[], Sets]:
        tokens = make()
        return lambda: loop_over_tokens(tokens)

    return Method(
        "loop over tokens", prepare, lambda sets: float_choice(sets.members, "float64", np.asarray(sets.starts))
    )


def triple(make: Make) -> Method:
    """The definition in plain Python."""

    def prepare() -> Callable[[], Sets]:
        tokens = make().tolist()
        return lambda: Sets.of(triple_loop(tokens, 1.0, 0)[0])

    def answer(sets: Sets) -> Answer:
        return float_choice(sets.members, "float64", np.asarray(sets.starts))

    return Method("triple loop in Python", prepare, answer, slow=True)


def torch_tiles(make: Make) -> Method:
    """Matrix product and argmax in torch; one product for all clouds of a batch."""

    def prepare() -> Callable[[], Any]:
        import torch

        tokens = torch.from_numpy(np.ascontiguousarray(make(), np.float32))

        def run() -> Any:
            if tokens.ndim == 3:
                return torch.bmm(tokens, tokens.mT).argmax(-1)
            return torch.cat([(tile @ tokens.T).argmax(-1) for tile in tokens.split(ROWS)])

        return in_turns(run, [partial(torch.set_num_threads, threads) for threads in (THREADS, 1)])

    return Method(
        "torch, matmul and argmax", prepare, lambda found: float_choice(found.numpy(), "float32"), package="torch"
    )


def faiss(make: Make) -> Method:
    """FAISS, exact search for the largest inner product.

    Matrix products are faster than its own loops, which it takes for n d < 128,000. Its threads wait for each other
    after each block of them, and then one thread is faster where another process has a core for a while. The OpenBLAS
    that comes with it knows no processors of today, and does best when it takes them for a Haswell.
    """

    def prepare() -> Callable[[], Any]:
        os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")  # NumPy has loaded its own by now
        import faiss

        tokens = np.ascontiguousarray(make(), np.float32)
        usual = faiss.cvar.distance_compute_blas_threshold

        def run(rows: int = len(tokens)) -> Any:
            index = faiss.IndexFlatIP(tokens.shape[1])
            index.add(tokens[:rows])
            return index.search(tokens[:rows], 1)[1]

        def choose(threads: int, products_from: int) -> None:
            faiss.omp_set_num_threads(threads)
            faiss.cvar.distance_compute_blas_threshold = products_from

        ways = [(THREADS, 1), (1, 1), (THREADS, usual)]
        for way in ways:
            choose(*way)
            run(WARM)
        return in_turns(run, [partial(choose, *way) for way in ways])

    return Method("FAISS IndexFlatIP", prepare, lambda found: float_choice(found, "float32"), package="faiss")


def in_turns(run: Callable[[], Any], ways: Sequence[Callable[[], None]]) -> Callable[[], Any]:
    """Run with one setting after another: since the best run counts, that is the best setting for this machine."""
    following = cycle(ways)

    def once() -> Any:
        next(following)()
        return run()

    return once


def keops(make: Make) -> Method:
    """KeOps, a symbolic matrix reduced by argmax."""

    def prepare() -> Callable[[], Any]:
        from pykeops.numpy import LazyTensor

        tokens = np.ascontiguousarray(make(), np.float32)

        def run(rows: int = len(tokens)) -> Any:
            return (LazyTensor(tokens[:rows, None]) | LazyTensor(tokens[None, :rows])).argmax(axis=1)

        run(WARM)  # compiles
        return run

    return Method("KeOps argmax", prepare, lambda found: float_choice(found, "float32"), package="pykeops")


def matmul_peak(make: Make) -> Method:
    """The same number of multiplications at the best rate of float32 matrix products: nobody is faster with them."""

    def prepare() -> Callable[[], float]:
        import torch

        torch.set_num_threads(THREADS)
        a = np.random.default_rng(0).normal(size=(SQUARE, SQUARE)).astype(np.float32)
        t = torch.from_numpy(a)
        return lambda: min(_seconds(lambda: a @ a), _seconds(lambda: t @ t))

    def seconds(wall: float, square: float) -> float:
        n, d = make().shape
        return square * n * n * d / SQUARE**3

    name = "its flop at the best float32 matmul rate"
    return Method(name, prepare, lambda square: {}, package="torch", compared=False, seconds=seconds)


def _seconds(run: Callable[[], Any]) -> float:
    from time import perf_counter

    start = perf_counter()
    run()
    return perf_counter() - start


PEERS: dict[str, Callable[[Make], Method]] = {
    "loop": loop,
    "triple": triple,
    "numpy": numpy_tiles,
    "torch": torch_tiles,
    "faiss": faiss,
    "keops": keops,
    "peak": matmul_peak,
}


def peer(name: str, make: Make, times: float | None) -> Method:
    """A peer by name, with how many times as fast ours is meant to be."""
    from dataclasses import replace

    return replace(PEERS[name](make), target=None if times is None else Target(times))
