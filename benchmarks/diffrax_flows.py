"""`python -m benchmarks.diffrax_flows`: flows against diffrax and torchdiffeq, in turns, in one process each.

Each row has the best wall time, its processor time and the error, max |x - x_ref| / max |x_ref| at the last time.
Peers that are not installed are left out. Our methods and diffrax's have rtol 1e-6; ours with our `atol`, theirs with
1e-9. Everything is compiled before it is timed.
"""

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._types import FloatArray

RTOL, PEER_ATOL, END, BETA = 1e-6, 1e-9, 5.0, 4.0
TURNS, MIN_SECONDS = 5, 0.2
Run = Callable[[], FloatArray]


def ours(tokens: FloatArray, on_sphere: bool, method: str) -> Run:
    rule = hm.Sphere(BETA) if on_sphere else hm.SelfAttention()

    def run() -> FloatArray:
        return np.asarray(hm.simulate(tokens, rule, times=[END], method=method, rtol=RTOL).array[-1])

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
            term, solver, 0.0, END, None, x, stepsize_controller=control, saveat=diffrax.SaveAt(t1=True), max_steps=4096
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

    return lambda: np.asarray(odeint(velocity, start, times, rtol=RTOL, atol=PEER_ATOL, method=name)[-1])


PEERS = {
    "diffrax Tsit5": ("diffrax", diffrax_run, "Tsit5"),
    "diffrax Dopri8": ("diffrax", diffrax_run, "Dopri8"),
    "torchdiffeq dopri5": ("torchdiffeq", torch_run, "dopri5"),
}


def problem(n: int, d: int, batch: int, on_sphere: bool) -> FloatArray:
    tokens = np.random.default_rng(0).normal(size=(batch, n, d) if batch else (n, d))
    if on_sphere:
        return np.asarray(tokens / np.linalg.norm(tokens, axis=-1, keepdims=True))
    return np.asarray(np.random.default_rng(0).uniform(-1, 1, tokens.shape))


def measure(runs: dict[str, Run], exact: FloatArray) -> dict[str, tuple[float, float, float]]:
    """Return wall and processor seconds of the best of several turns, and the error."""
    best: dict[str, tuple[float, float, float]] = {}
    for run in runs.values():
        run()
    for _ in range(TURNS):
        for name, run in runs.items():
            spent = 0.0
            while spent < MIN_SECONDS:
                wall, processor = time.perf_counter(), time.process_time()
                found = run()
                wall, processor = time.perf_counter() - wall, time.process_time() - processor
                spent += wall
                if name not in best or wall < best[name][0]:
                    best[name] = wall, processor, float(np.abs(found - exact).max() / np.abs(exact).max())
    return best


def main(names: list[str]) -> None:
    """Print the table; `names` may hold sizes such as 100 or 1000x40."""
    from hardmax.search import dispatch

    dispatch.is_loaded = lambda kernel: True
    print("| flow | n | d | method | wall s | processor s | error | ours is faster |\n" + "|---|" + "---:|" * 7)
    for size in names or ["1000x40", "100", "300", "1000", "3000"]:
        batch, n = (int(part) for part in size.split("x")) if "x" in size else (0, int(size))
        for d in (2, 3):
            for on_sphere in (False, True):
                tokens = problem(n, d, batch, on_sphere)
                rule = hm.Sphere(BETA) if on_sphere else hm.SelfAttention()
                exact = hm.simulate(tokens, rule, times=[END], method="DOP853", rtol=1e-11, atol=1e-14).array[-1]
                runs = {f"hardmax {name}": ours(tokens, on_sphere, name) for name in ("RK45", "DOP853")}
                for name, (package, make, method) in PEERS.items():
                    if find_spec(package) and not (package == "torchdiffeq" and n > 1000):
                        runs[name] = make(tokens, on_sphere, method)
                found = measure(runs, exact)
                fastest = min(found[name][0] for name in list(found)[:2])
                for name, (wall, processor, error) in found.items():
                    words = [
                        "sphere" if on_sphere else "self-attention",
                        size,
                        d,
                        name,
                        f"{wall:.2g}",
                        f"{processor:.2g}",
                        f"{error:.0e}",
                    ]
                    print("| " + " | ".join(map(str, [*words, f"{wall / fastest:.2g}"])) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
