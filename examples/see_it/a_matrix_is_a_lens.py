"""
The matrix A determines which tokens lead
=========================================

The matrix A of the rule determines which of the given tokens lead. Writing :math:`A = L
L^\\top` and :math:`y = L^\\top z`, the products become :math:`\\langle A z_i, z_j
\\rangle = \\langle y_i, y_j \\rangle`: the model of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ with A is the model with the identity on tokens
seen through :math:`L^\\top`. So A stretches the tokens, the dynamics run there, and the
result is transformed back.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

import hardmax as hm
from hardmax.draw.style import EDGE

tokens = hm.configuration("gaussian", n=60, seed=4)
matrices = {
    "A = I": np.eye(2),
    "A = (2 1; 1 1)": np.array([[2.0, 1.0], [1.0, 1.0]]),
    "A = (1 0; 0 1/25)": np.diag([1.0, 0.04]),
}
limits = {name: hm.limit(tokens, hm.Hardmax(0.5, A)) for name, A in matrices.items()}
for name, limit in limits.items():
    print(f"{name}: tokens {limit.leaders.tolist()} lead. {limit}")

# %%
# Lines join every token with its limit. The dashed ellipse is a level of :math:`\langle
# A z, z \rangle`, so it is short in the directions that count most. In the last picture
# almost nothing but the first coordinate counts, and the two tokens at its ends lead
# all others.

figure, axes = plt.subplots(1, 3, figsize=(11, 4.2), layout="constrained")
for ax, (name, A) in zip(axes, matrices.items(), strict=True):
    hm.draw.plot_limit(limits[name], ax=ax)
    values, vectors = np.linalg.eigh(A)
    angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
    lengths = 3.6 * np.sqrt(values[0] / values)
    ax.add_patch(
        Ellipse(
            (0, 0),
            *lengths,
            angle=angle,
            fill=False,
            ec=EDGE,
            ls="--",
            lw=1.2,
            zorder=5,
        )
    )
    ax.set(title=f"{name}: {len(limits[name].leaders)} leaders", xlabel="", ylabel="")
plt.show()

# %%
# The tokens y with the identity have the same leaders. And whatever A is, only corners
# of the hull of all tokens and 0 can lead at layer 0 (Theorem 5 of this project).

for name, A in matrices.items():
    through = tokens @ np.linalg.cholesky(A)
    assert (
        hm.limit(through, hm.Hardmax(0.5)).leaders.tolist()
        == limits[name].leaders.tolist()
    )
able = np.flatnonzero(hm.control.can_lead(tokens))
for limit in limits.values():
    assert set(limit.leaders[limit.emerged == 0]) <= set(able)
assert len({tuple(limit.leaders) for limit in limits.values()}) == 3
print(f"Tokens that can lead at layer 0 for some A: {able.tolist()}")

# %%
# What to try
# -----------
# ``hm.control.choose_A(tokens, leaders=[...])`` goes the other way: it finds the A for
# which the tokens that you name lead, or proves that there is none. A = I times any
# number changes nothing; try ``np.diag([1.0, 1e-4])`` for two leaders.
