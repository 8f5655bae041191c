"""One layer: exact argmax sets against the float argmax of other libraries, and the
cost of ties and of plain numba.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks.machine import THREADS
from benchmarks.registry import Answer, Case, Method, Target, size
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.exact.argmax import Scaled, slack_of
from hardmax.search.dispatch import Search
from hardmax.sets import Sets

Make = Callable[[], FloatArray]
TILE_ROWS = 2048  # of torch's products; the best of 64 to 4096
SQUARE = 4096  # size of the matrices whose product gives the peak rate
PANELS, LANES = 256, 16  # panels of keys, and keys of a panel
WARM_TOKENS = 64  # of the runs before timing
ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
KINDS = {
    "gaussian": "Gaussian tokens",
    "ball": "Tokens in a ball",
    "sphere": "Tokens on a sphere",
    "clustered": "10 clusters of width 1e-3",
    "duplicated": "Gaussian tokens, each 10 times",
}
WHY = (
    "chooses tokens that are not in the exact sets, by more than the rounding of its"
    " type"
)


def draw_tokens(kind: str, n: int, d: int) -> FloatArray:
    """Draw n tokens in d dimensions."""
    rng = np.random.default_rng(0)
    if kind == "clustered":
        return np.asarray(
            rng.normal(size=(10, d))[rng.integers(10, size=n)]
            + 1e-3 * rng.normal(size=(n, d))
        )
    if kind == "duplicated":
        return np.asarray(
            rng.permutation(
                np.repeat(hm.configuration("gaussian", n=-(-n // 10), d=d), 10, axis=0)[
                    :n
                ]
            )
        )
    return hm.configuration(kind, n=n, d=d)


def describe(kind: str, n: int, d: int) -> str:
    """Return the tokens as a title says them."""
    return (
        f"{'Tokens on a circle' if (kind, d) == ('sphere', 2) else KINDS[kind]}, n ="
        f" {n:,}, d = {d}"
    )


def choice(
    starts: IntArray, members: IntArray, tokens: AnyArray | None = None
) -> Answer:
    """Return exact sets, and the tokens they belong to if float methods are compared
    with them.
    """
    sets = {"starts": np.asarray(starts), "members": np.asarray(members)}
    return sets if tokens is None else sets | {"tokens": tokens}


def float_choice(
    chosen: IntArray, dtype: str, starts: IntArray | None = None
) -> Answer:
    """Return one index per row, or sets with their starts, found with products of a
    float type.
    """
    chosen = np.asarray(chosen).ravel()
    starts = np.arange(len(chosen) + 1) if starts is None else starts
    return choice(starts, chosen) | {"roundoff": np.array(ROUNDOFF[dtype])}


def same_sets(ours: Answer, theirs: Answer) -> bool:
    """Return True if an answer agrees with exact sets of (n, d) or (batch, n, d)
    tokens.

    A product in a float type of unit roundoff u, of tokens rounded to that type, has an
    error of at most (d + 4) u |z_i| |z_j|. A member that a float method chose must be
    in the exact set, or have an exact product within twice that distance of the
    largest.
    """
    if "roundoff" not in theirs:
        return all(
            np.array_equal(ours[key], theirs[key]) for key in ("starts", "members")
        )
    tokens = ours["tokens"].astype(np.float64)
    n, d = tokens.shape[-2:]
    rows, flat = len(ours["starts"]) - 1, tokens.reshape(-1, d)
    sizes = np.diff(theirs["starts"])
    if (
        len(sizes) != rows
        or sizes.min() < 1
        or not ((theirs["members"] >= 0) & (theirs["members"] < n)).all()
    ):
        return False
    owner = np.repeat(np.arange(rows), sizes)
    best = ours["members"][ours["starts"][:-1]][owner]
    other = np.flatnonzero(
        best != theirs["members"]
    )  # members of a tie differ, too, but not their products
    owner, first = owner[other], owner[other] // n * n
    differences = flat[first + best[other]] - flat[first + theirs["members"][other]]
    loss = np.einsum("ij,ij->i", flat[owner], differences)
    lengths = np.linalg.norm(tokens, axis=-1)
    largest = np.broadcast_to(
        lengths.max(axis=-1, keepdims=True), lengths.shape
    ).ravel()[owner]
    return bool(
        (
            loss <= 2 * (d + 4) * theirs["roundoff"] * lengths.ravel()[owner] * largest
        ).all()
    )


def triple_loop(
    tokens: list[list[float]], alpha: float, layers: int
) -> list[list[list[int]]]:
    """Run hardmax as the paper defines it: three nested loops, ties by equality. Return
    the sets of all layers.
    """
    n, d = len(tokens), len(tokens[0])
    b = alpha / (1 + alpha)
    z = [list(row) for row in tokens]
    history = []
    for k in range(layers + 1):
        sets = []
        for i in range(n):
            best, chosen = -float("inf"), []
            for j in range(n):
                product = 0.0
                for r in range(d):
                    product += z[i][r] * z[j][r]
                if product > best:
                    best, chosen = product, [j]
                elif product == best:
                    chosen.append(j)
            sets.append(chosen)
        history.append(sets)
        if k < layers:
            means = [
                [sum(z[j][r] for j in chosen) / len(chosen) for r in range(d)]
                for chosen in sets
            ]
            z = [
                [z[i][r] + b * (means[i][r] - z[i][r]) for r in range(d)]
                for i in range(n)
            ]
    return history


def loop_over_tokens(tokens: FloatArray) -> Sets:
    """Find one layer of sets: for each token all products, their maximum, and the
    tokens that attain it.
    """
    rows = []
    for token in tokens:
        products = tokens @ token  # (n,)
        rows.append(np.flatnonzero(products == products.max()))
    return Sets.of(rows)


def search_arguments(tokens: AnyArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return queries, keys and slack as `argmax_sets` passes them on."""
    scaled = Scaled.of(tokens)
    return (
        scaled.values,
        scaled.values,
        slack_of(scaled.values, scaled.error, scaled.values, scaled.error),
    )


def ours(make: Make, kernel: str = "auto", name: str = "") -> Method:
    """Return the method `hardmax.argmax_sets`."""

    def prepare() -> Callable[[], Sets]:
        tokens = make()
        if kernel == "auto" and tokens.ndim == 2:
            for each in ("scan", "symmetric", "hull")[
                : 3 if tokens.shape[1] == 2 else 2
            ]:  # compiled before timing
                hm.argmax_sets(tokens[:WARM_TOKENS], kernel=each)
        elif kernel == "auto":
            hm.argmax_sets(tokens)
        hm.argmax_sets(tokens[..., :WARM_TOKENS, :], kernel=kernel)
        return lambda: hm.argmax_sets(tokens, kernel=kernel)

    def facts(sets: Sets) -> dict[str, str]:
        if kernel != "auto":
            return {}
        tokens, search = make(), Search()
        if tokens.ndim == 3:
            return {"kernel": "scan"}
        search.near_maxima(*search_arguments(tokens))
        return {"kernel": str(search)}

    answer: Callable[[Sets], Answer] = lambda sets: choice(  # noqa: E731
        sets.starts, sets.members, make()
    )
    return Method(name or f'hardmax, kernel="{kernel}"', prepare, answer, facts=facts)


def _loops(
    name: str, run: Callable[[FloatArray], Sets], slow: bool, make: Make
) -> Method:
    """Return the definition as a method."""

    def answer(sets: Sets) -> Answer:
        return float_choice(sets.members, "float64", np.asarray(sets.starts))

    return Method(name, lambda: partial(run, make()), answer, slow=slow)


def _torch(make: Make) -> Method:
    """Return the method of a matrix product and argmax in torch; one product for a
    whole batch.
    """

    def prepare() -> Callable[[], Any]:
        import torch

        tokens = torch.from_numpy(np.ascontiguousarray(make(), np.float32))

        def run() -> Any:
            if tokens.ndim == 3:
                return torch.bmm(tokens, tokens.mT).argmax(-1)
            return torch.cat(
                [(tile @ tokens.T).argmax(-1) for tile in tokens.split(TILE_ROWS)]
            )

        return _in_turns(
            run, [partial(torch.set_num_threads, threads) for threads in (THREADS, 1)]
        )

    answer: Callable[[Any], Answer] = lambda found: float_choice(  # noqa: E731
        found.numpy(), "float32"
    )
    return Method("torch, matmul and argmax", prepare, answer, package="torch")


def faiss(make: Make) -> Method:
    """Return the method of FAISS: exact search for the largest inner product.

    It runs with three settings in turn: its matrix products are faster than its own
    loops, which it takes for n d < 128,000, and one thread is faster than two where
    another process uses a core. Its OpenBLAS does not recognise recent processors and
    is fastest when set to run on a Haswell.
    """

    def prepare() -> Callable[[], Any]:
        os.environ.setdefault(
            "OPENBLAS_CORETYPE", "Haswell"
        )  # NumPy has loaded its own by now
        import faiss

        tokens = np.ascontiguousarray(make(), np.float32)
        usual = faiss.cvar.distance_compute_blas_threshold

        def run(rows: int = len(tokens)) -> Any:
            index = faiss.IndexFlatIP(tokens.shape[1])
            index.add(tokens[:rows])
            return index.search(tokens[:rows], 1)[1]

        def choose(threads: int, threshold: int) -> None:
            faiss.omp_set_num_threads(threads)
            faiss.cvar.distance_compute_blas_threshold = threshold

        settings = [(THREADS, 1), (1, 1), (THREADS, usual)]
        for setting in settings:
            choose(*setting)
            run(WARM_TOKENS)
        return _in_turns(run, [partial(choose, *setting) for setting in settings])

    return Method(
        "FAISS IndexFlatIP",
        prepare,
        lambda found: float_choice(found, "float32"),
        package="faiss",
    )


def _in_turns(
    run: Callable[[], Any], settings: Sequence[Callable[[], None]]
) -> Callable[[], Any]:
    """Run with one setting after another: the best run counts, and so the best setting
    for this machine.
    """
    following = cycle(settings)

    def once() -> Any:
        next(following)()
        return run()

    return once


def _keops(make: Make) -> Method:
    """Return the method of KeOps: a symbolic matrix reduced by argmax."""

    def prepare() -> Callable[[], Any]:
        from pykeops.numpy import LazyTensor

        tokens = np.ascontiguousarray(make(), np.float32)

        def run(rows: int = len(tokens)) -> Any:
            return (
                LazyTensor(tokens[:rows, None]) | LazyTensor(tokens[None, :rows])
            ).argmax(axis=1)

        run(WARM_TOKENS)  # compiles
        return run

    return Method(
        "KeOps argmax",
        prepare,
        lambda found: float_choice(found, "float32"),
        package="pykeops",
    )


def _matmul_peak(make: Make) -> Method:
    """Return the time of the same number of multiplications at the best rate of float32
    matrix products.
    """

    def prepare() -> Callable[[], float]:
        import torch

        torch.set_num_threads(THREADS)
        a = np.random.default_rng(0).normal(size=(SQUARE, SQUARE)).astype(np.float32)
        t = torch.from_numpy(a)

        def seconds(run: Callable[[], Any]) -> float:
            start = time.perf_counter()
            run()
            return time.perf_counter() - start

        return lambda: min(seconds(lambda: a @ a), seconds(lambda: t @ t))

    def scaled(wall: float, square: float) -> float:
        n, d = make().shape
        return square * n * n * d / SQUARE**3

    name = "its flop at the best float32 matmul rate"
    return Method(
        name,
        prepare,
        lambda square: {},
        package="torch",
        compared=False,
        seconds=scaled,
    )


PEERS: dict[str, Callable[[Make], Method]] = {
    "loop": partial(_loops, "loop over tokens", loop_over_tokens, False),
    "triple": partial(
        _loops,
        "triple loop in Python",
        lambda z: Sets.of(triple_loop(z.tolist(), 1.0, 0)[0]),
        True,
    ),
    "numpy": lambda make: ours(make, "numpy", "NumPy, matmul and argmax by tiles"),
    "torch": _torch,
    "faiss": faiss,
    "keops": _keops,
    "peak": _matmul_peak,
}


def _case(
    name: str, kind: str, n: int, d: int, peers: dict[str, float | None], batch: int = 0
) -> Case:
    """Return a case of (n, d) float64 tokens, or of (batch, n, d) float32 tokens; peers
    have their targets.
    """

    def draw(quick: bool) -> FloatArray:
        if not batch:
            return draw_tokens(kind, size(n, quick), d)
        count = size(
            batch, quick
        )  # a small batch has fewer token sets, not smaller ones
        return np.asarray(
            draw_tokens(kind, count * n, d).reshape(count, n, d), np.float32
        )

    def methods(quick: bool) -> list[Method]:
        make = partial(draw, quick)
        theirs = [
            replace(PEERS[peer](make), target=times and Target(times))
            for peer, times in peers.items()
        ]
        return [ours(make), *theirs]

    title = f"{f'{batch} clouds: ' if batch else ''}{describe(kind, n, d)}, one layer"
    return Case(name, title, methods, same_sets, WHY)


def _ties(kernel: str, n: int, d: int) -> Case:
    """Return a case: a kernel with the slack that finds every tie against the same
    kernel without slack.
    """

    def method(name: str, exact: bool, make: Make) -> Method:
        def prepare() -> Callable[[], Any]:
            queries, keys, _ = search_arguments(make())
            nothing = np.zeros(len(queries))
            hm.argmax_sets(queries[:WARM_TOKENS], kernel=kernel)

            def run() -> Any:
                slack = slack_of(queries, 0.0, keys, 0.0) if exact else nothing
                sets, _ = Search(kernel).near_maxima(queries, keys, slack)
                assert not (exact and len(sets.tied)), "these tokens have ties"
                return sets

            return run

        target = None if exact else Target(0.95)  # exactness costs at most 5 %
        return Method(
            name, prepare, lambda sets: choice(sets.starts, sets.members), target=target
        )

    def methods(quick: bool) -> list[Method]:
        make, name = (
            partial(draw_tokens, "gaussian", size(n, quick), d),
            f'kernel="{kernel}"',
        )
        return [method(name, True, make), method(f"{name} without slack", False, make)]

    title = (
        f"{describe('gaussian', n, d)}, one layer: exact ties against a plain argmax"
    )
    return Case(f"ties_{kernel}", title, methods, same_sets, "chooses other tokens")


def _panel_search(vectors: bool) -> Callable[..., None]:
    """Return a compiled search of panels with vector instructions, or with loops over
    lanes, which LLVM vectorises.
    """
    from numba import njit

    from hardmax.search.simd import FLAGS, panel_maxima

    def by_vectors(
        queries: AnyArray,
        keys: AnyArray,
        d: int,
        out: AnyArray,
        best: AnyArray,
        sums: AnyArray,
    ) -> None:
        for panel in range(PANELS):
            panel_maxima(queries, keys, panel * d * LANES, d, out, panel * LANES, best)

    def by_loops(
        queries: AnyArray,
        keys: AnyArray,
        d: int,
        out: AnyArray,
        best: AnyArray,
        sums: AnyArray,
    ) -> None:
        for panel in range(PANELS):
            start = panel * d * LANES
            for lane in range(LANES):
                out[panel * LANES + lane] = -np.inf
            for key in range(LANES):
                sums[:] = 0.0
                for r in range(d):
                    number = keys[start + r * LANES + key]
                    for lane in range(LANES):
                        sums[lane] += queries[r * LANES + lane] * number
                for lane in range(LANES):
                    out[panel * LANES + lane] = max(
                        out[panel * LANES + lane], sums[lane]
                    )
            for lane in range(LANES):
                best[lane] = max(best[lane], out[panel * LANES + lane])

    return njit(by_vectors) if vectors else njit(fastmath=FLAGS)(by_loops)


def _vectors(d: int) -> Case:
    """Return a case: the largest product of 16 queries with each panel of 16 keys, by
    vectors and by plain numba.
    """

    def prepare(vectors: bool) -> Callable[[], AnyArray]:
        rng, run = np.random.default_rng(0), _panel_search(vectors)
        queries, keys = (
            rng.normal(size=panels * d * LANES).astype(np.float32)
            for panels in (1, PANELS)
        )
        out, best, sums = (
            np.full(number, -np.inf, np.float32)
            for number in (PANELS * LANES, LANES, LANES)
        )
        run(queries, keys, d, out, best, sums)  # compiles it
        return lambda: run(queries, keys, d, out, best, sums) or out

    def methods(quick: bool) -> list[Method]:
        names = {"vector instructions": True, "plain numba": False}
        return [
            Method(name, partial(prepare, v), lambda out: {"maxima": out})
            for name, v in names.items()
        ]

    def agrees(ours: Answer, theirs: Answer) -> bool:
        return np.allclose(ours["maxima"], theirs["maxima"], rtol=1e-4, atol=1e-4)

    return Case(
        f"vectors_{d}",
        f"16 queries, 256 panels of 16 keys, d = {d}",
        methods,
        agrees,
        "differs",
    )


ALL: dict[str, float | None] = dict.fromkeys(
    ("loop", "triple", "numpy", "torch", "faiss", "keops")
)
THREE: dict[str, float | None] = dict.fromkeys(("faiss", "keops", "torch"))
PEAK: dict[str, float | None] = dict.fromkeys(("faiss", "torch", "peak"))
CASES = [
    _case(
        "plane_gaussian",
        "gaussian",
        10_000,
        2,
        ALL | {"triple": 5000.0, "faiss": 50.0, "keops": 60.0},
    ),
    _case("plane_circle", "sphere", 10_000, 2, ALL),
    _case("plane_clustered", "clustered", 10_000, 2, ALL),
    _case("plane_duplicated", "duplicated", 10_000, 2, ALL),
    _case("space_gaussian", "gaussian", 100_000, 3, {"faiss": 500.0, "keops": None}),
    _case("space_ball", "ball", 100_000, 3, {"faiss": None}),
    _case("space_sphere", "sphere", 100_000, 3, {"faiss": 20.0}),
    _case("space_clustered", "clustered", 100_000, 3, {"faiss": None}),
    _case(
        "d16_gaussian",
        "gaussian",
        10_000,
        16,
        {"faiss": 3.0, "keops": 10.0, "torch": None},
    ),
    _case("d16_sphere", "sphere", 10_000, 16, THREE),
    _case("d16_clustered", "clustered", 10_000, 16, THREE),
    _case(
        "d16_gaussian_large",
        "gaussian",
        100_000,
        16,
        {"faiss": 4.0, "keops": 10.0, "torch": None},
    ),
    _case("d16_sphere_large", "sphere", 100_000, 16, {"faiss": None, "torch": None}),
    _case(
        "d16_clustered_large", "clustered", 100_000, 16, {"faiss": None, "torch": None}
    ),
    _case(
        "d128_gaussian",
        "gaussian",
        10_000,
        128,
        {"faiss": 2.5, "torch": None, "peak": 0.7},
    ),
    _case(
        "d128_gaussian_large",
        "gaussian",
        30_000,
        128,
        {"faiss": 1.3, "torch": None, "peak": 0.7},
    ),
    _case("d128_sphere", "sphere", 10_000, 128, PEAK),
    _case("d128_clustered", "clustered", 10_000, 128, PEAK),
    _case(
        "d768_gaussian",
        "gaussian",
        20_000,
        768,
        {"faiss": 1.1, "torch": None, "peak": 0.7},
    ),
    _case("batch_plane", "gaussian", 256, 2, {"torch": 25.0}, batch=256),
    _case("batch_d16", "gaussian", 256, 16, {"torch": 6.0}, batch=256),
    _ties("hull", 100_000, 2),
    _ties("scan", 10_000, 16),
    _ties("symmetric", 10_000, 256),
    *map(_vectors, (2, 16, 128)),
]
