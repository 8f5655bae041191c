"""
With a simple leading eigenvalue tokens converge to parallel planes
===================================================================

Many matrices have one positive eigenvalue that exceeds the modulus of all others.
Theorem 4.2 of `arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_ applies to these:
if the leading eigenvalue :math:`\\lambda_1` of :math:`V` is simple, positive and larger
than the modulus of all others, then along its left eigenvector :math:`\\varphi_1`

.. math:: \\langle \\varphi_1, z_i(t) \\rangle, \\qquad z_i(t) = e^{-tV} x_i(t),

tends to one of at most three values. All other directions are free: tokens end on at
most three parallel hyperplanes. ``hardmax reproduce hyperplanes`` writes the figure to
a file.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.figures.value_spectrum import (
    MATRICES,
    compute_hyperplanes,
    draw_hyperplanes,
)

panels = compute_hyperplanes()
for name, V in MATRICES.items():
    print(f"{name}: {hm.classify(V=V)}")

# %%
# Above: tokens at the end, coloured by the hyperplane they are on, which in space is
# seen from the side. Below: :math:`\langle \varphi_1, z_i \rangle` in time, one curve
# per token.

figure = draw_hyperplanes(panels)
plt.show()
for name, panel in panels.items():
    print(f"{name}: {panel.trajectory.n} tokens at {len(panel.levels)} values")
    assert len(panel.levels) <= 3
    assert np.abs(panel.values[-1] - panel.levels[panel.planes]).max() < 1e-3 * np.ptp(
        panel.values[-1]
    )

# %%
# The verdicts. The third matrix has three eigenvalues with a positive real part; for
# such a :math:`V` the paper conjectures more, namely subspaces of smaller dimension,
# and here rounding ends the run before one could see it.

for name, panel in panels.items():
    run = panel.trajectory
    assert hm.classify(V=run.rule.V).proved
    for verdict in hm.theorems.check(run):
        if verdict.name in ("hyperplanes", "codimension k"):
            print(f"{name}: {verdict.name}, {verdict.outcome}")
            assert verdict.holds or verdict.name == "codimension k"

# %%
# What to try
# -----------
# ``hm.matrix("positive", d=3, seed=4)`` has a simple positive leading eigenvalue, by
# Perron and Frobenius: any seed does. ``boolean_limit_and_three_hyperplanes.py`` has a
# start with three planes instead of two.
