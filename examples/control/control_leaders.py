"""
Choose who leads
================

Choose who leads: at layer 0 by a semidefinite programme, at the limit by a search; and how often that succeeds.

Each task asks for the leaders of a hidden A and no others, so that an answer exists. `choose_A(only=True)` wants every
other token to follow them at layer 0, which is more than was asked for. `steer` searches from there. Random matrices
get as many limits as `steer` may compute. A found A is always verified by `hm.limit`.

    python examples/control/control_leaders.py [TASKS]
"""

import sys

import numpy as np

import hardmax as hm

TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
LIMITS, ALPHA = 200, 0.5


def definite(rng: np.random.Generator, d: int) -> np.ndarray:
    B = rng.normal(size=(d, d))
    return B @ B.T


def tasks(n: int, d: int, late: bool):
    """Tokens on the sphere, whose leaders under a hidden A are wanted; with `late`, not all of them lead at layer 0."""
    for seed in range(1, 100_000):
        rng = np.random.default_rng(seed)
        tokens = rng.normal(size=(n, d))
        tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
        wanted = hm.limit(tokens, hm.Hardmax(ALPHA, definite(rng, d)))
        if wanted.certified and (wanted.emerged.max() > 0) == late:
            yield tokens, wanted.leaders, rng


def by_chance(tokens: np.ndarray, leaders: np.ndarray, rng: np.random.Generator) -> bool:
    draws = (definite(rng, tokens.shape[1]) for _ in range(LIMITS))
    return any(set(hm.limit(tokens, hm.Hardmax(ALPHA, A)).leaders) == set(leaders) for A in draws)


print(f"{TASKS} tasks each, at most {LIMITS} limits a task, alpha = {ALPHA}")
print(f"{'leaders':22}{'n':>4}{'d':>4}{'choose_A(only=True)':>22}{'steer':>8}{'random A':>11}{'limits of steer':>18}")
for late, n, d in ((False, 15, 3), (False, 20, 4), (True, 12, 2), (True, 15, 3)):
    layer_0 = steered = chance = limits = 0
    for _, (tokens, leaders, rng) in zip(range(TASKS), tasks(n, d, late), strict=False):
        layer_0 += hm.control.choose_A(tokens, leaders=leaders, only=True).found
        result = hm.control.steer(tokens, leaders=leaders, alpha=ALPHA, evaluations=LIMITS)
        steered += result.found
        limits += result.stats["limits"]
        chance += by_chance(tokens, leaders, rng)
    name = "some emerge later" if late else "all at layer 0"
    print(f"{name:22}{n:4}{d:4}{layer_0:22}{steered:8}{chance:11}{limits / TASKS:18.0f}")
