"""Self-attention in time against the published method, at an accuracy that is no worse."""

from typing import Any

import numpy as np

import hardmax as hm
from benchmarks.definition import euler_loop
from benchmarks.registry import Peer, benchmark
from hardmax._types import FloatArray

TIME = 15.0


def no_worse(error: float, first: float) -> bool:
    return error <= first


def _peers(V: FloatArray, dt: float) -> list[Peer]:
    tokens = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    rule = hm.SelfAttention(V=V)
    exact = hm.simulate(tokens, rule, times=TIME, save="last", rtol=1e-12, atol=1e-14).rescaled[-1]

    def error(rescaled: Any) -> float:
        return float(np.abs(np.asarray(rescaled) - exact).max())

    ours = {
        "simulate, as it is": {"times": TIME},
        "simulate, rtol=1e-3": {"times": TIME, "rtol": 1e-3, "atol": 1e-4},
        "simulate, the same Euler steps": {"times": TIME, "method": "euler", "dt": dt},
    }
    same = [
        Peer(name, lambda options=options: hm.simulate(tokens, rule, **options), lambda run: error(run.rescaled[-1]), 5)
        for name, options in ours.items()
    ]
    loop = Peer(f"loops, steps of {dt:g}", lambda: euler_loop(tokens.tolist(), V.tolist(), TIME, dt), error, 1)
    return [loop, *same]


WHY = "is less accurate than the loops"


@benchmark("Self-attention, V = I, n = 40, d = 3, T = 15", agrees=no_worse, why=WHY)
def polytope_flow() -> list[Peer]:
    return _peers(np.eye(3), 0.01)


@benchmark("Self-attention, V with positive entries, n = 40, d = 3, T = 15", agrees=no_worse, why=WHY)
def hyperplane_flow() -> list[Peer]:
    return _peers(hm.matrix("paper-3d"), 0.01)
