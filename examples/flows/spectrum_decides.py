"""
The spectrum of V decides where self-attention ends
===================================================

The spectrum of V decides where self-attention ends: each theorem of arXiv 2305.05465 answers for itself.

Writes spectrum.png, or the file named: the same tokens under four value matrices.
"""

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.flows import clusters_by_size
from hardmax.draw.style import EDGE, cluster_colours

mpl.use("Agg")
tokens = np.random.default_rng(3).uniform(-3, 3, (30, 2))
MATRICES = {
    "V = I": np.eye(2),
    "V with positive entries": hm.matrix("paper-2d"),
    "V = -I": -np.eye(2),
    "V rotates and grows": np.array([[1.0, -2.0], [2.0, 1.0]]),
}

figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
for ax, (name, V) in zip(axes, MATRICES.items(), strict=True):
    trajectory = hm.simulate(tokens, hm.SelfAttention(V=V), times=15 / abs(np.linalg.eigvals(V).real).max())
    print(f"{name}: {hm.classify(V=V)}")
    for verdict in hm.theorems.check(trajectory):
        if verdict.outcome != "hypotheses not met":
            print(f"    {verdict}")
            assert verdict.outcome in ("holds", "nothing to check")
    collapses = name == "V = -I"
    shown = trajectory.array if collapses else trajectory.drawn  # with V = -I it is x that has a limit
    colours = cluster_colours(clusters_by_size(trajectory) * (not collapses))
    for i, colour in enumerate(colours):
        ax.plot(*shown[:, i].T, color=colour, lw=0.7, alpha=0.6, zorder=1)
    ax.scatter(*shown[-1].T, s=34, c=colours, edgecolors=EDGE, lw=0.6, zorder=3)
    ax.set_title(f"{name}: {'x' if collapses else 'z'}", fontsize=10)
    ax.set(aspect="equal", adjustable="datalim", xticks=[], yticks=[])
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "spectrum.png", dpi=110)
plt.close(figure)
