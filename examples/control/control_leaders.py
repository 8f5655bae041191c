"""
Choose who leads in the end: a programme, a search, and luck
============================================================

A practitioner wants chosen tokens to lead, and no others. At layer 0 that is a semidefinite programme in A, since
every demand :math:`\\langle A z_i, z_t - z_j \\rangle > 0` is linear in A. At the limit more is possible, as leaders
may emerge later, but no programme is known: ``steer`` searches, and answers only what ``hm.limit`` certifies. How
often does each succeed? Each task asks for the leaders of a hidden A and no others, so that an answer exists. Random
matrices get as many limits as ``steer`` may compute. ``python control_leaders.py 20`` does 20 tasks of each kind.
"""

import sys
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, GREY

TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
LIMITS, ALPHA = 200, 0.5

# %%
# First one wish, seen. These are 40 tokens in the plane; with A = I others lead.

tokens = hm.configuration("gaussian", n=40, seed=1)
able = np.flatnonzero(hm.control.can_lead(tokens))
idle = [int(i) for i in able if i not in hm.limit(tokens, hm.Hardmax(ALPHA)).leaders]
wish = hm.control.choose_A(tokens, leaders=idle[:1], prefer="identity")
print(wish)
assert wish.found
assert idle[0] in hm.limit(tokens, hm.Hardmax(ALPHA, wish.A)).leaders
hm.draw.plot_control(wish, alpha=ALPHA)
plt.show()

# %%
# The tasks: tokens on a sphere, whose leaders under a hidden A are wanted; with ``late``, not all of them lead at layer
# 0.


def definite(rng: np.random.Generator, d: int) -> np.ndarray:
    B = rng.normal(size=(d, d))
    return B @ B.T


def tasks(n: int, d: int, late: bool) -> Iterator[tuple[np.ndarray, np.ndarray, np.random.Generator]]:
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


# %%
# What ``steer`` finds is right, whatever the counts: the leaders of the certified limit are those that were wanted.

print(f"{TASKS} tasks each, at most {LIMITS} limits a task, alpha = {ALPHA}")
print(f"{'leaders':22}{'n':>4}{'d':>4}{'choose_A(only=True)':>22}{'steer':>8}{'random A':>11}{'limits of steer':>18}")
rows = {}
for late, n, d in ((False, 15, 3), (False, 20, 4), (True, 12, 2), (True, 15, 3)):
    layer_0 = steered = chance = limits = 0
    for _, (cloud, leaders, rng) in zip(range(TASKS), tasks(n, d, late), strict=False):
        layer_0 += hm.control.choose_A(cloud, leaders=leaders, only=True).found
        result = hm.control.steer(cloud, leaders=leaders, alpha=ALPHA, evaluations=LIMITS)
        steered += result.found
        limits += result.stats["limits"]
        chance += by_chance(cloud, leaders, rng)
        if result.found:
            assert set(hm.limit(cloud, hm.Hardmax(result.alpha, result.A)).leaders) == set(leaders)
    name = "some emerge later" if late else "all at layer 0"
    rows[f"{name}\nn = {n}, d = {d}"] = layer_0, steered, chance
    print(f"{name:22}{n:4}{d:4}{layer_0:22}{steered:8}{chance:11}{limits / TASKS:18.0f}")

figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
for k, (label, colour) in enumerate((("choose_A(only=True)", COLOURS[0]), ("steer", COLOURS[2]), ("random A", GREY))):
    ax.bar(np.arange(len(rows)) + 0.27 * (k - 1), [row[k] for row in rows.values()], 0.25, color=colour, label=label)
ax.set(xticks=range(len(rows)), xticklabels=rows, ylabel=f"tasks done, of {TASKS}", yticks=range(TASKS + 1))
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
plt.show()

# %%
# What to try
# -----------
# More tasks tell more: the table for 20 of each kind is in the guide to control. Several values of alpha may be given,
# ``steer(..., alpha=[0.2, 0.5, 2])``, and are searched, too.
