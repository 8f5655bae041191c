"""
The spectrum of V determines the limit of self-attention
========================================================

The same thirty tokens under four value matrices :math:`V` have four different kinds of
limits. By `arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_ the eigenvalues of
:math:`V` determine the kind. So the spectrum predicts the limit before any layer is
run, and is the first quantity to compute for a model.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.flows import rank_clusters
from hardmax.draw.style import EDGE, cluster_colours

tokens = np.random.default_rng(3).uniform(-3, 3, (30, 2))
MATRICES = {
    "V = I": np.eye(2),
    "V with positive entries": hm.matrix("paper-2d"),
    "V = -I": -np.eye(2),
    "V rotates and grows": np.array([[1.0, -2.0], [2.0, 1.0]]),
}

# %%
# Tokens obey :math:`\dot x_i = \sum_j P_{ij} V x_j`, with :math:`P` the softmax of
# :math:`\langle Q x_i, K x_j\rangle`, here with :math:`Q = K = I`. They grow like
# :math:`e^{tV}`, so the limit is about :math:`z = e^{-tV} x`.
#
# ``hm.classify`` returns the limit expected from the spectrum alone. Then each theorem
# that applies is checked on the run.

trajectories = {}
for name, V in MATRICES.items():
    time = 15 / abs(np.linalg.eigvals(V).real).max()
    trajectories[name] = hm.simulate(tokens, hm.SelfAttention(V=V), times=time)
    print(f"{name}: {hm.classify(V=V)}")
    for verdict in hm.theorems.check(trajectories[name]):
        if verdict.outcome != "hypotheses not met":
            print(f"    {verdict.name}: {verdict.outcome}")
            assert verdict.outcome in ("holds", "nothing to check")

# %%
# The path of every token: to the vertices of a polygon; to two parallel lines; with
# :math:`V = -I` the tokens :math:`x` themselves fall to 0; and with a complex pair of
# eigenvalues to points of the plane, which is a conjecture. Colours: final clusters;
# grey: single tokens.

figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
for ax, (name, trajectory) in zip(axes, trajectories.items(), strict=True):
    collapses = name == "V = -I"
    shown = (
        trajectory.array if collapses else trajectory.drawn
    )  # with V = -I it is x that has a limit
    colours = cluster_colours(rank_clusters(trajectory) * (not collapses))
    for i, colour in enumerate(colours):
        ax.plot(*shown[:, i].T, color=colour, lw=0.7, alpha=0.6, zorder=1)
    ax.scatter(*shown[-1].T, s=34, c=colours, edgecolors=EDGE, lw=0.6, zorder=3)
    ax.set_title(f"{name}: {'x' if collapses else 'z'}", fontsize=11)
    ax.set(aspect="equal", adjustable="datalim", xticks=[], yticks=[])
plt.show()

# %%
# What to try
# -----------
# A matrix of your own: ``hm.matrix("random", d=2, seed=1)``, or ``V`` with one positive
# and one negative eigenvalue. Predict the picture from ``hm.classify`` first.
# ``hm.draw.movie(trajectory)`` plays any of them.
