"""
How runs end outside the hypotheses of the theorems
===================================================

The theorems of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ require one head
and a symmetric positive definite A. Transformers have several heads, matrices without
any symmetry, and feed-forward parts. Their limits are open. Each rule below runs on
random sets of 20 tokens in dimension 3 until nothing moves, or for the most layers
allowed, and ends in one of three ways: several clusters, consensus (all tokens at one
point), or not settled. The counts are observations, not a law. ``python
outside_the_hypotheses.py 60`` makes 60 runs of each rule.
"""

import sys
from collections import Counter
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, REST

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
N, D, ALPHA, MOST_LAYERS, AT_A_TIME = 20, 3, 0.5, 600, 100

# %%
# The rules, and the theorems on each.


def definite(rng: np.random.Generator) -> np.ndarray:
    W = rng.normal(size=(D, D))
    return W @ W.T + 0.1 * np.eye(D)


def skewed(rng: np.random.Generator) -> np.ndarray:
    W = rng.normal(size=(D, D))
    return np.eye(D) + 3 * (W - W.T) / 2


def head(A: np.ndarray) -> hm.Hardmax:
    return hm.Hardmax(ALPHA, A, any_A=True)


def heads(*matrices: np.ndarray) -> hm.MultiHead:
    return hm.MultiHead([head(A) for A in matrices], shared=True)


def with_feed_forward(rng: np.random.Generator) -> hm.Compose:
    return hm.Compose(
        [
            hm.Hardmax(ALPHA),
            hm.FeedForward.random(D, gain=0.02, seed=int(rng.integers(1 << 30))),
        ]
    )


RULES: dict[str, tuple[str, Callable[[np.random.Generator], object]]] = {
    "A symmetric positive definite": ("proved", lambda rng: head(definite(rng))),
    "2 heads, all definite": ("OPEN", lambda rng: heads(definite(rng), definite(rng))),
    "4 heads, all definite": (
        "OPEN",
        lambda rng: heads(*(definite(rng) for _ in range(4))),
    ),
    "A = I + 3 (skew)": ("OPEN", lambda rng: head(skewed(rng))),
    "A Gaussian": ("OPEN", lambda rng: head(rng.normal(size=(D, D)))),
    "4 Gaussian heads": ("OPEN", lambda rng: heads(*rng.normal(size=(4, D, D)))),
    "A of rank 1": (
        "OPEN",
        lambda rng: head(np.outer(rng.normal(size=D), rng.normal(size=D))),
    ),
    "A = -I": ("OPEN", lambda rng: head(-np.eye(D))),
    "no normalisation": ("proved", lambda rng: hm.Hardmax(ALPHA, normalize=False)),
    "feed-forward, gain 0.02": ("OPEN", with_feed_forward),
}

# %%
# A run continues in blocks of layers until a block moves no token. Sizes are relative,
# so that growth does not count; and tokens that differ only by rounding are a
# consensus.


def outcome(rule: object, tokens: np.ndarray) -> str:
    first = np.ptp(tokens, axis=0).max()
    for _ in range(MOST_LAYERS // AT_A_TIME):
        array = hm.simulate(tokens, rule, layers=AT_A_TIME).array
        size = np.abs(array[-1]).max()
        before, after = array[-11] / np.abs(array[-11]).max(), array[-1] / size
        spread = np.ptp(after, axis=0).max()
        if spread * size < 1e-6 * first or spread < 1e-9:
            return "consensus"
        if np.abs(after - before).max() < 1e-6 * spread:
            return "clusters"
        tokens = after * first  # only directions and relative sizes matter to the sets
    return "not settled"


print(
    f"{RUNS} runs each, n = {N}, d = {D}, alpha = {ALPHA}, at most {MOST_LAYERS} layers"
)
print(
    f"{'rule':32s}{'theory':>8s}{'clusters':>10s}{'consensus':>11s}{'not settled':>13s}"
)
counts: dict[str, Counter[str]] = {}
for name, (theory, make) in RULES.items():
    ends = counts[name] = Counter()
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        tokens = rng.normal(size=(N, D))
        ends[outcome(make(rng), tokens)] += 1
    print(
        f"{name:32s}{theory:>8s}{ends['clusters']:10d}{ends['consensus']:11d}{ends['not settled']:13d}"
    )
assert all(
    counts[name]["clusters"] == RUNS
    for name, (theory, _) in RULES.items()
    if theory == "proved"
)

# %%
# Under the hypotheses runs end in clusters. Elsewhere the results are mixed.

figure, ax = plt.subplots(figsize=(9.5, 4.6), layout="constrained")
left = np.zeros(len(RULES))
for kind, colour in (
    ("clusters", COLOURS[0]),
    ("consensus", COLOURS[4]),
    ("not settled", REST),
):
    widths = np.array([counts[name][kind] for name in RULES])
    ax.barh(range(len(RULES)), widths, left=left, color=colour, label=kind)
    left += widths
labels = [
    f"{name} ({'proved' if theory == 'proved' else 'open'})"
    for name, (theory, _) in RULES.items()
]
ax.set(yticks=range(len(RULES)), yticklabels=labels, xlabel="runs", xlim=(0, RUNS))
ax.invert_yaxis()
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
plt.show()

# %%
# What to try
# -----------
# ``hm.sweep("endings", ...)`` counts the same for thousands of settings, and also
# detects cycles. A rule of your own is one more line of the table.
