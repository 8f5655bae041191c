"""
Figure 1: a token follows whoever reaches farthest in its direction
===================================================================

What does attention look at? In a hardmax transformer token :math:`z_i` looks along the direction :math:`A z_i` and
follows the tokens that reach farthest there. Figure 1 of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ draws
the consequence: whatever attracts :math:`z_i` lies in the half-space

.. math:: \\mathcal{H}_i = \\{z : \\langle A z_i, z - z_i \\rangle \\ge 0\\}.

Everything else in the theory starts here. A token only moves forwards, so its norm grows, and one with nothing in
front of it leads. ``hardmax reproduce fig1`` draws the same figure.
"""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY

# %%
# Six tokens, in exact tenths: the second and the third project equally far on the first, and that tie is meant.

tenths = [(10, 5), (13, 12), (19, 0), (5, 27), (-16, 10), (-6, -12)]
tokens = [[Fraction(x, 10) for x in row] for row in tenths]
matrices = {"A = I": np.eye(2), "A = (2 1; 1 1)": np.array([[2.0, 1.0], [1.0, 1.0]])}
runs = {name: hm.simulate(tokens, hm.Hardmax(Fraction(1, 2), A), layers=1) for name, A in matrices.items()}
for name, run in runs.items():
    print(f"{name}: z1 follows", " and ".join(f"z{j + 1}" for j in run.sets(0)[0]))

# %%
# Shaded is the half-space of the first token. The dotted lines project all tokens onto the direction :math:`A z_1`, the
# arrow; those that reach farthest are orange. Another A turns the direction, and so the choice.

figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.9), layout="constrained")
for ax, (name, A) in zip(axes, matrices.items(), strict=True):
    Z, chosen = runs[name].array[0], runs[name].sets(0)[0]
    along = A @ Z[0] / np.linalg.norm(A @ Z[0])
    ax.set(xlim=(-2.2, 3), ylim=(-2.2, 3), aspect="equal", title=name, xticks=[], yticks=[])
    hm.draw.plot_half_space(ax, Z[0], A)
    ax.axline((0, 0), along, color=GREY, lw=0.8, ls="--", zorder=0)
    for j, z in enumerate(Z):
        ax.plot(*np.stack([z, (z @ along) * along]).T, color=GREY, lw=0.8, ls=":", zorder=1)
        ax.scatter(*z, s=60, color=EDGE if j == 0 else COLOURS[1] if j in chosen else COLOURS[0], zorder=3)
        ax.annotate(f"$z_{j + 1}$", z, (-12, 9) if j == 0 else (7, 5), textcoords="offset points", fontsize=12)
    ax.scatter(0, 0, s=14, color=EDGE, zorder=3)
    ax.annotate("0", (0, 0), (4, -13), textcoords="offset points", fontsize=11)
    ax.text(0.97, 0.93, r"$\mathcal{H}_1$", transform=ax.transAxes, fontsize=14, ha="right", color=COLOURS[0])
plt.show()

# %%
# The statement as a verdict: for every token and every layer, the smallest :math:`\langle A z_i, z_j - z_i \rangle`
# over the tokens j that i follows. It is never negative, because i itself was a candidate and did not win.

assert runs["A = I"].sets(0)[0].tolist() == [1, 2]
assert runs["A = (2 1; 1 1)"].sets(0)[0].tolist() == [3]
for run in runs.values():
    verdict = hm.theorems.half_space(run)
    print(verdict)
    assert verdict.holds

# %%
# What to try
# -----------
# Make the tie a near miss, ``(13, 11)`` instead of ``(13, 12)``, and one of the two is left. Give A a second eigenvalue
# close to 0: the direction A z then hardly depends on z. In ``hardmax app`` the half-space of a token moves with it.
