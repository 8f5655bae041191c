"""
The token that a new token would follow, by position
====================================================

Add one token x anywhere in the plane. By the rule of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ it follows the token with the largest
:math:`\\langle A x, z_j \\rangle`, which depends on the direction of x alone: the plane
is divided into cones with apex 0, one for each vertex of the convex hull. The new token
leads where it reaches farther in its own direction than all others,

.. math:: \\langle A x, x \\rangle > \\langle A x, z_j \\rangle \\quad \\text{for all }
   j.

For A = I and one token :math:`z_j` that is the outside of the circle with diameter from
0 to :math:`z_j`: by Thales the angle at x is a right one on the circle. So the new
token leads outside of all these circles.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Circle

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE

tokens = hm.configuration("gaussian", n=30, seed=7)
side = np.linspace(-3.6, 3.6, 400)
places = np.stack(np.meshgrid(side, side), axis=-1)  # (400, 400, 2)


def followed(A: np.ndarray) -> np.ndarray:
    """The token with the largest product for a newcomer at each place; -1 where that is
    the newcomer itself.
    """
    products, own = (
        places @ A @ tokens.T,
        np.einsum("xyi,ij,xyj->xy", places, A, places),
    )
    return np.where(own > products.max(axis=-1), -1, products.argmax(axis=-1))


# %%
# Each colour is the cone of one token, white is where a new token would lead. The
# circles on the left are those of Thales. With another A, on the right, circles become
# ellipses and the cones turn: each vertex of the hull still has one, since A x takes
# every direction.

matrices = {"A = I": np.eye(2), "A = (2 1; 1 1)": np.array([[2.0, 1.0], [1.0, 1.0]])}
cells = {name: followed(A) for name, A in matrices.items()}
seen = sorted({int(j) for cell in cells.values() for j in np.unique(cell) if j >= 0})
figure, axes = plt.subplots(1, 2, figsize=(10, 5.1), layout="constrained")
for ax, (name, cell) in zip(axes, cells.items(), strict=True):
    shown = np.where(cell < 0, -1, np.searchsorted(seen, cell))
    colours = ListedColormap(
        ["white", *(COLOURS[p % len(COLOURS)] for p in range(len(seen)))]
    )
    extent = (side[0], side[-1], side[0], side[-1])
    ax.imshow(
        shown,
        origin="lower",
        extent=extent,
        cmap=colours,
        vmin=-1,
        vmax=len(seen) - 1,
        alpha=0.45,
    )
    ax.scatter(*tokens.T, s=16, color=EDGE, zorder=3)
    for p, j in enumerate(seen):
        if (cell == j).any():
            ax.scatter(
                *tokens[j],
                s=130,
                marker="*",
                color=COLOURS[p % len(COLOURS)],
                edgecolors=EDGE,
                zorder=4,
            )
            if name == "A = I":
                ax.add_patch(
                    Circle(
                        tuple(tokens[j] / 2),
                        np.linalg.norm(tokens[j]) / 2,
                        fill=False,
                        ec=EDGE,
                        lw=0.5,
                    )
                )
    ax.scatter(0, 0, marker="+", s=60, color=EDGE)
    ax.set(title=name, aspect="equal")
    ax.set(xlabel="$z_1$", ylabel="$z_2$" if name == "A = I" else "")
plt.show()

# %%
# Comparison with simulations: new tokens at a hundred positions, one at a time, with
# exact sets. The tokens with a cone are the vertices of the hull of all tokens, for
# both matrices.

rng = np.random.default_rng(0)
for name, A in matrices.items():
    for row, column in rng.integers(0, len(side), (100, 2)):
        run = hm.simulate(
            np.vstack([tokens, places[row, column]]), hm.Hardmax(0.5, A), layers=0
        )
        expected = cells[name][row, column]
        assert run.sets(0)[-1].tolist() == [len(tokens) if expected < 0 else expected]
corners = set(hm.Polytope(tokens).outline.tolist())
assert all(set(np.unique(cell)) - {-1} == corners for cell in cells.values())
print(
    f"{len(tokens)} tokens, {len(corners)} corners of their hull; tokens that would be"
    f" followed somewhere: {seen}"
)

# %%
# What to try
# -----------
# Shift all tokens to one side of 0: the cones of the tokens behind remain, but contain
# no token. Add a token in the white region: it leads, gets a cone of its own, and
# others may lose theirs.
