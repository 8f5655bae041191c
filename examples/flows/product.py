"""
A double leading eigenvalue: a polygon times a line
===================================================

Between :math:`V = I`, where tokens end on the vertices of a polytope, and a simple leading eigenvalue, where they end
on planes, there is a whole family. Theorem 5.2 of `arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_: if the
leading eigenvalue of :math:`V` is positive and has a whole eigenspace :math:`F`,

.. math:: \\mathbb{R}^d = F \\oplus G, \\qquad V|_F = \\lambda I,

then the parts of the tokens in :math:`F` tend to points of a polytope, while their parts in :math:`G` stay free. With
:math:`V = \\mathrm{diag}(1, 1, -1/2)` this is a polygon times a line, a prism without ends. ``hardmax reproduce
product`` draws the figure of the paper.
"""

import matplotlib.pyplot as plt
import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

import hardmax as hm
from hardmax.draw.style import EDGE, SHADE, SIZE, cluster_colours, shade_polytope

V = hm.matrix("paper-product")
expected = hm.classify(V=V)
print(expected)
assert expected.kind == "product"
assert expected.proved

times = np.linspace(0, 10, 201)
run = hm.simulate(np.random.default_rng(3).uniform(-5, 5, (25, 3)), hm.SelfAttention(V=V), times=times)
print(run)

# %%
# On the left the prism at time 3, while it forms: later the third coordinate, which grows like :math:`e^{t/2}`, is far
# away. On the right the two coordinates in :math:`F`, from the start to the end.

plane, solid = run.rescaled[..., :2], run.rescaled[60]
corners = hm.Polytope(plane[-1, run.leaders])
outline = corners.vertices[corners.outline]
colours = np.array(cluster_colours(run.clusters))

figure = plt.figure(figsize=(11.5, 5.2), layout="constrained")
ax = figure.add_subplot(1, 2, 1, projection="3d")
reach = 1.05 * np.abs(solid[:, 2]).max()
walls = [
    [(*a, -reach), (*b, -reach), (*b, reach), (*a, reach)]
    for a, b in zip(outline, np.roll(outline, -1, axis=0), strict=True)
]
ax.add_collection3d(Poly3DCollection(walls, facecolors=SHADE, edgecolors="#8899AA", alpha=0.2, linewidths=0.6))
ax.scatter(*solid.T, s=SIZE, c=colours, edgecolors=EDGE, linewidths=0.6, depthshade=False)
ax.set(xlabel="$z_1$", ylabel="$z_2$", zlabel="$z_3$", title=f"t = {times[60]:g}")
ax.view_init(elev=20, azim=-58)

ax = figure.add_subplot(1, 2, 2)
shade_polytope(ax, corners)
for way, colour in zip(plane.swapaxes(0, 1), colours, strict=True):
    ax.plot(*way.T, color=colour, lw=0.8, alpha=0.6)
ax.scatter(*plane[-1].T, s=SIZE, c=colours, edgecolors=EDGE, linewidths=0.6, zorder=3)
ax.set(xlabel="$z_1$", ylabel="$z_2$", title=f"the leading eigenspace, t = {times[-1]:g}", aspect="equal")
plt.show()

# %%
# The verdict, and what is left of twenty-five tokens in the plane.

(verdict,) = (v for v in hm.theorems.check(run) if v.name == "polytope times subspace")
print(verdict)
assert verdict.holds
places = len(set(run.clusters))
print(f"{run.n} tokens are at {places} places of the plane, and at {run.n} different heights.")
assert places == len(corners.vertices)
assert len(np.unique(run.rescaled[-1, :, 2].round(6))) == run.n

# %%
# What to try
# -----------
# ``V = np.diag([1, 1, 0.5])``: is the height still free? Or part the double eigenvalue, ``np.diag([1.1, 1, -0.5])``,
# and see the polygon become two lines: the theorem of the simple eigenvalue takes over.
