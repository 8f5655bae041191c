"""Flows: self-attention against the loops that were published, and `python -m
benchmarks flows` against diffrax.

Against diffrax and torchdiffeq the error is max |x - x_ref| / max |x_ref| at the last
time. All have rtol 1e-6, peers `atol` 1e-9 and ours the usual one. Of 1,000 flows it is
the error that 99 % do not exceed: some random tokens start near a separatrix, where
every method errs. Everything is compiled before it is timed. All run in one process, so
that each case has one reference.
"""

import math
import time
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.linalg import expm

import hardmax as hm
from benchmarks.registry import Answer, Case, Method, Target, size
from hardmax._types import FloatArray
from hardmax.search import dispatch

END_TIME, STEP = 15.0, 0.01  # of the loops
OURS: dict[str, dict[str, Any]] = {
    "simulate, as it is": {},
    "simulate, rtol=1e-3": {"rtol": 1e-3, "atol": 1e-4},
    "simulate, Euler steps of 0.01": {"method": "euler", "dt": STEP},
}
RTOL, PEER_ATOL, END, BETA = 1e-6, 1e-9, 5.0, 4.0
MAX_ERROR, ERROR_SHARE = 100 * RTOL, 0.99
WARM_RUNS = 200  # at most, until the compiled kernel is loaded
SIZES = {
    "1000x40": 1.3,
    "3000": 1.3,
    "1000": 1.3,
    "300": 1.3,
    "100": 1.0,
}  # and the target; torch loads for the last
MAX_TORCH_TOKENS = 300  # beyond it torchdiffeq takes seconds
Run = Callable[[], FloatArray]


def euler_loop(
    tokens: list[list[float]], V: list[list[float]], end: float, dt: float
) -> list[list[float]]:
    """Integrate rescaled self-attention with Q^T K = I as the script of the paper does:
    loops, and steps of order 1.

    The script computes e^{tV} for every pair of tokens and each entry of P in O(n);
    here once per step and in O(1).
    """
    n, d = len(tokens), len(tokens[0])
    z = [list(row) for row in tokens]
    for step in range(round(end / dt)):
        E = expm(step * dt * np.array(V)).tolist()
        x = [[sum(E[r][s] * row[s] for s in range(d)) for r in range(d)] for row in z]
        moved = []
        for i in range(n):
            scores = [sum(x[i][r] * x[j][r] for r in range(d)) for j in range(n)]
            largest = max(scores)
            weights = [math.exp(score - largest) for score in scores]
            total = sum(weights)
            mean = [
                sum(weights[j] * z[j][r] for j in range(n)) / total - z[i][r]
                for r in range(d)
            ]
            moved.append(
                [
                    z[i][r] + dt * sum(V[r][s] * mean[s] for s in range(d))
                    for r in range(d)
                ]
            )
        z = moved
    return z


def is_no_worse(ours: Answer, theirs: Answer) -> bool:
    """Return True if our error is at most theirs."""
    return bool(ours["error"] <= theirs["error"])


def _loop_case(name: str, words: str, V: FloatArray) -> Case:
    """Return a case: the flow with different tolerances against loops of a fixed step."""

    def methods(quick: bool) -> list[Method]:
        tokens = np.random.default_rng(0).uniform(-1, 1, (40, 3))
        end, rule = END_TIME / 10 if quick else END_TIME, hm.SelfAttention(V=V)

        @cache
        def exact() -> FloatArray:
            return np.asarray(
                hm.simulate(
                    tokens, rule, times=end, save="last", rtol=1e-12, atol=1e-14
                ).rescaled[-1]
            )

        def method(
            name: str,
            run: Callable[[], Any],
            read: Callable[[Any], Any],
            alone: bool = False,
        ) -> Method:
            def error(result: Any) -> Answer:
                return {"error": np.abs(np.asarray(read(result)) - exact()).max()}

            facts = lambda result: {"error": f"error {error(result)['error']:.0e}"}  # noqa: E731
            return Method(
                name, lambda: run, error, alone=alone, compared=not alone, facts=facts
            )

        flow, loops = (
            partial(hm.simulate, tokens, rule, times=end),
            partial(euler_loop, tokens.tolist(), V.tolist(), end),
        )
        first, *others = (
            method(
                name,
                partial(flow, **options),
                lambda run: run.rescaled[-1],
                alone=bool(options),
            )
            for name, options in OURS.items()
        )
        return [first, method(f"loops, steps of {STEP:g}", loops, np.asarray), *others]

    title = f"Self-attention, {words}, uniform tokens, n = 40, d = 3, T = 15"
    return Case(name, title, methods, is_no_worse, "is more accurate than ours")


def ours(tokens: FloatArray, on_sphere: bool, method: str, rtol: float = RTOL) -> Run:
    rule = hm.Sphere(BETA) if on_sphere else hm.SelfAttention()

    def run() -> FloatArray:
        return np.asarray(
            hm.simulate(tokens, rule, times=[END], method=method, rtol=rtol).array[-1]
        )

    return run


def diffrax_run(tokens: FloatArray, on_sphere: bool, name: str) -> Run:
    import jax

    jax.config.update("jax_enable_x64", True)
    import diffrax
    import jax.numpy as jnp

    def velocity(t: Any, x: Any, _: Any) -> Any:
        P = jax.nn.softmax(x @ x.T * (BETA if on_sphere else 1.0), axis=-1)
        pull = P @ x
        return pull - (x * pull).sum(-1, keepdims=True) * x if on_sphere else pull

    control = diffrax.PIDController(rtol=RTOL, atol=PEER_ATOL)
    term, solver = diffrax.ODETerm(velocity), getattr(diffrax, name)()

    def solve(x: Any) -> Any:
        found = diffrax.diffeqsolve(
            term,
            solver,
            0.0,
            END,
            None,
            x,
            stepsize_controller=control,
            saveat=diffrax.SaveAt(t1=True),
            max_steps=4096,
        )
        return found.ys[0]

    compiled = jax.jit(jax.vmap(solve) if tokens.ndim == 3 else solve)
    start = jnp.asarray(tokens)
    return lambda: np.asarray(compiled(start).block_until_ready())


def torch_run(tokens: FloatArray, on_sphere: bool, name: str) -> Run:
    import torch
    from torchdiffeq import odeint

    start, times = torch.tensor(tokens), torch.tensor([0.0, END], dtype=torch.float64)

    def velocity(t: Any, x: Any) -> Any:
        P = (x @ x.swapaxes(-1, -2) * (BETA if on_sphere else 1.0)).softmax(-1)
        pull = P @ x
        return pull - (x * pull).sum(-1, keepdim=True) * x if on_sphere else pull

    return lambda: np.asarray(
        odeint(velocity, start, times, rtol=RTOL, atol=PEER_ATOL, method=name)[-1]
    )


PEERS: dict[str, tuple[str, Callable[..., Run], str]] = {
    "diffrax Tsit5": ("diffrax", diffrax_run, "Tsit5"),
    "diffrax Dopri8": ("diffrax", diffrax_run, "Dopri8"),
    "torchdiffeq dopri5": ("torchdiffeq", torch_run, "dopri5"),
}


def problem(batch: int, n: int, d: int, on_sphere: bool) -> FloatArray:
    """Draw tokens: uniform in a cube, or on the sphere."""
    rng, shape = np.random.default_rng(0), (batch, n, d) if batch else (n, d)
    tokens = rng.normal(size=shape) if on_sphere else rng.uniform(-1, 1, shape)
    return np.asarray(
        tokens / np.linalg.norm(tokens, axis=-1, keepdims=True) if on_sphere else tokens
    )


def _methods(name: str, d: int, on_sphere: bool, quick: bool) -> list[Method]:
    batch, n = (
        (size(int(part), quick) for part in name.split("x"))
        if "x" in name
        else (0, size(int(name), quick))
    )
    tokens = problem(batch, n, d, on_sphere)

    @cache
    def exact() -> FloatArray:
        return ours(tokens, on_sphere, "DOP853", 1e-10)()

    def method(
        title: str, make: Callable[[], Run], package: str = "", **options: Any
    ) -> Method:
        seconds = [np.inf]

        def prepare() -> Run:
            solve = make()
            small, left = ours(problem(0, 100, 2, False), False, "RK45"), WARM_RUNS
            while left and not package and not dispatch.is_loaded("flows"):
                small()
                left -= 1
            solve()

            def run() -> FloatArray:
                start = time.process_time()
                found = solve()
                seconds[0] = min(seconds[0], time.process_time() - start)
                return found

            return run

        def error(found: FloatArray) -> Answer:
            each = np.abs(found - exact()).max((-1, -2)) / np.abs(exact()).max(
                (-1, -2)
            )  # of every flow
            return {"error": float(np.quantile(each, ERROR_SHARE))}

        def facts(found: FloatArray) -> dict[str, Any]:
            words = {
                "error": f"error {error(found)['error']:.0e}",
                "processor": f"processor {1e3 * seconds[0]:.3g} ms",
            }
            return words | ({"version": version(package)} if package else {})

        return Method(title, prepare, error, package=package, facts=facts, **options)

    rows = [
        method("hardmax RK45", partial(ours, tokens, on_sphere, "RK45")),
        method(
            "hardmax DOP853", partial(ours, tokens, on_sphere, "DOP853"), alone=True
        ),
    ]
    for title, (package, make, each) in PEERS.items():
        slow = package == "torchdiffeq" and max(batch, n) > MAX_TORCH_TOKENS
        target = Target(SIZES[name]) if package == "diffrax" else None
        rows.append(
            method(
                title,
                partial(make, tokens, on_sphere, each),
                package,
                target=target,
                slow=slow,
            )
        )
    return rows


def _case(name: str, d: int, on_sphere: bool) -> Case:
    kind, words = (
        ("sphere", "Sphere, beta = 4")
        if on_sphere
        else ("attention", "Self-attention, V = I")
    )
    count = "1,000 flows of n = 40" if "x" in name else f"n = {int(name):,}"
    title = f"{words}, {count}, d = {d}, T = {END:g}, rtol = {RTOL:g}"
    agrees = lambda ours, theirs: max(ours["error"], theirs["error"]) < MAX_ERROR  # noqa: E731
    methods, why = partial(_methods, name, d, on_sphere), "has an error above 100 rtol"
    return Case(
        f"flow_{kind}_{name}_{d}", title, methods, agrees, why, in_one_process=True
    )


CASES = [
    _loop_case("polytope_flow", "V = I", np.eye(3)),
    _loop_case("hyperplane_flow", "V with positive entries", hm.matrix("paper-3d")),
    *(
        _case(name, d, on_sphere)
        for name in SIZES
        for d in (2, 3)
        for on_sphere in (False, True)
    ),
]
