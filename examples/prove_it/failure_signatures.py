"""
Three symptoms of a wrong implementation, and their causes
==========================================================

No leaders emerge; tokens do not converge; clusters are unstable. These symptoms occur
in implementations of the model of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_. Possible causes are equal tokens or a wrong
normalisation, a step that is too large, and softmax in place of hardmax. Each is tested
here. Two of them turn out not to be causes, and the picture shows their effects.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY

tokens = np.random.default_rng(0).normal(size=(40, 2))
right = hm.simulate(tokens, hm.Hardmax(0.5), layers=60)

# %%
# **1. No leaders.** With every token twice, :math:`\mathcal{C}_i = \{i\}` holds for no
# token. Equal tokens stay equal, so the library treats them as one, and the leaders are
# those of the single tokens. A wrong normalisation, here by :math:`1 + 2 \alpha`,
# scales all tokens and so changes no set: leaders emerge, but they do not stand still.

double = hm.simulate(np.tile(tokens, (2, 1)), hm.Hardmax(0.5), layers=60)
alone = [i for i, members in enumerate(double.sets(0)) if members.tolist() == [i]]
print(f"Every token twice: C_i = {{i}} holds for {len(alone)} of 80 tokens. {double}")
print(hm.theorems.leaders(double))
assert not alone
assert len(double.leaders) == len(right.leaders)

shrinking = [tokens]
for _ in range(6):
    sets = hm.simulate(shrinking[-1], hm.Hardmax(0.5), layers=0)
    shrinking.append((shrinking[-1] + 0.5 * sets.attention(0) @ shrinking[-1]) / 2)
    assert (
        set(right.leaders)
        >= set(sets.leaders)
        >= set(hm.simulate(tokens, hm.Hardmax(0.5), layers=0).leaders)
    )

# %%
# **2. No convergence.** A large step is not a cause: the factor of a move is
# :math:`\alpha / (1 + \alpha)`, which is below 1 for every :math:`\alpha`. An A that is
# not positive definite is another matter: here all tokens meet at one point.

alphas = np.geomspace(0.01, 1e6, 17)
layers = [hm.limit(tokens, hm.Hardmax(float(alpha))).layer for alpha in alphas]
assert all(hm.limit(tokens, hm.Hardmax(float(alpha))).certified for alpha in alphas)
print(
    f"Certified for every alpha from {alphas[0]:g} to {alphas[-1]:g}, after"
    f" {min(layers)} to {max(layers)} layers."
)
for name, A in (
    ("-I", -np.eye(2)),
    ("I + 3 skew", np.array([[1.0, 3.0], [-3.0, 1.0]])),
):
    limit = hm.limit(tokens, hm.Hardmax(0.5, A, any_A=True), max_layers=200)
    print(f"A = {name}: {limit}")
    assert len(limit.points) == 1

# %%
# **3. Unstable clusters.** Softmax is a cause: no weight is ever 0, so every leader is
# attracted by all tokens, and drifts.

soft = hm.simulate(tokens, hm.Softmax(0.5, temperature=0.25), layers=60)
drift = np.linalg.norm(
    soft.array[:, right.leaders] - tokens[right.leaders], axis=-1
).max(axis=1)
print(f"With softmax the leaders drift by up to {drift[-1]:.2g}; with hardmax by 0.")
assert drift[-1] > 0.01
assert (right.array[-1, right.leaders] == tokens[right.leaders]).all()

# %%
# The three signatures. Left: leaders that shrink along their own direction mean a wrong
# normalisation. Middle: small steps need more layers, large ones fewer. Right: leaders
# that wander towards each other mean softmax.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
lead, ways = right.leaders, np.array(shrinking)
for ax, paths, title in (
    (axes[0], ways, "normalised wrongly"),
    (axes[2], soft.array, "softmax"),
):
    ax.scatter(*tokens.T, s=8, color=GREY)
    ax.plot(*np.moveaxis(paths[:, lead], -1, 0), ".-", ms=4, lw=0.9, color=COLOURS[1])
    ax.scatter(
        *tokens[lead].T, s=120, marker="*", color=COLOURS[0], edgecolors=EDGE, zorder=3
    )
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])
axes[1].semilogx(alphas, layers, "o-", color=COLOURS[0])
axes[1].set(
    xlabel=r"$\alpha$",
    ylabel="layer of the certificate",
    title="any step converges",
    ylim=(0, None),
)
plt.show()

# %%
# What to try
# -----------
# Other temperatures: how many layers does it take until a leader has drifted by a
# tenth? ``hm.theorems.check`` names the hypothesis that fails, which is faster than
# looking.
