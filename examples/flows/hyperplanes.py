"""
A simple leading eigenvalue presses tokens onto parallel planes
===============================================================

Many matrices have one positive eigenvalue that exceeds the modulus of all others. Theorem 4.2 of `arXiv 2305.05465
<https://arxiv.org/abs/2305.05465>`_ speaks of these: if the leading eigenvalue :math:`\\lambda_1` of :math:`V` is
simple, positive and larger than the modulus of all others, then along its left eigenvector :math:`\\varphi_1`

.. math:: \\langle \\varphi_1, z_i(t) \\rangle, \\qquad z_i(t) = e^{-tV} x_i(t),

tends to one of at most three values. In one direction tokens agree, in all others they are free: they end on at most
three parallel hyperplanes. ``hardmax reproduce hyperplanes`` draws the figure of the paper.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import cluster_colours, draw_plane

TIMES = np.linspace(0, 10, 201)
runs = {}
for name, seed in (("paper-2d", 5), ("paper-3d", 2), ("paper-3d-positive", 2)):
    V = hm.matrix(name)
    tokens = np.random.default_rng(seed).uniform(-5, 5, (20, len(V)))
    runs[name] = hm.simulate(tokens, hm.SelfAttention(V=V), times=TIMES)
    print(f"{name}: {hm.classify(V=V)}")

# %%
# The functional :math:`\varphi_1` is the first column of ``hm.classify(V=V).dual``. Above: tokens at the end, coloured
# by the hyperplane they are on, which in space is seen from the side. Below: :math:`\langle \varphi_1, z_i \rangle` in
# time, one curve a token.

figure = plt.figure(figsize=(13, 6.6), layout="constrained")
grid = figure.add_gridspec(2, 3, height_ratios=(1.7, 1))
for column, (name, run) in enumerate(runs.items()):
    V = run.rule.V
    values = run.rescaled @ hm.classify(V=V).dual[:, 0]  # (times, n)
    above = figure.add_subplot(grid[0, column], projection="3d" if len(V) == 3 else None)
    hm.draw.plot_flow(run, ax=above, clusters=run.clusters)
    above.set_title(name, fontsize=12)
    if len(V) == 3:
        phi = hm.classify(V=V).dual[:, 0]
        for c in set(run.clusters):
            middle, colour = run.rescaled[-1, run.clusters == c].mean(axis=0), cluster_colours(np.array([c]))[0]
            draw_plane(above, middle, phi, 9, facecolors=colour, edgecolors=colour, alpha=0.15)
        side = np.cross(phi, [0, 0, 1])
        above.view_init(elev=12, azim=np.degrees(np.arctan2(side[1], side[0])))  # nearly along the planes
        above.set_proj_type("ortho")
    below = figure.add_subplot(grid[1, column])
    for curve, colour in zip(values.T, cluster_colours(run.clusters), strict=True):
        below.plot(TIMES, curve, color=colour, lw=1.1)
    below.set(xlabel="t", ylabel=r"$\langle\varphi_1, z_i\rangle$" if column == 0 else "")
    below.spines[["top", "right"]].set_visible(False)
    levels = {c: values[-1, run.clusters == c] for c in set(run.clusters)}
    print(f"{name}: {run.n} tokens at {len(levels)} values")
    assert len(levels) <= 3
    assert all(np.ptp(level) < 1e-3 * np.ptp(values[-1]) for level in levels.values())
plt.show()

# %%
# The verdicts. The third matrix has three eigenvalues with a positive real part; for such a :math:`V` the paper
# conjectures more, namely subspaces of smaller dimension, and here rounding ends the run before one could see it.

for name, run in runs.items():
    assert hm.classify(V=run.rule.V).proved
    for verdict in hm.theorems.check(run):
        if verdict.name in ("hyperplanes", "codimension k"):
            print(f"{name}: {verdict.name}, {verdict.outcome}")
            assert verdict.holds or verdict.name == "codimension k"

# %%
# What to try
# -----------
# ``hm.matrix("positive", d=3, seed=4)`` has a simple positive leading eigenvalue, by Perron and Frobenius: any seed
# does. Look for a start with three planes instead of two: the third goes through 0, and few tokens stay on it.
