"""
Tokens that can lead, and pairs that cannot lead together
=========================================================

Which tokens lead depends on the matrix A, but not every choice of leaders has an A. The
reasons are geometric. Token i leads at layer 0 for some symmetric positive definite A
if and only if :math:`z_i` is a vertex of the convex hull of all tokens and 0 (Theorem 5
of this project). Tokens that can lead one by one may still conflict: if weights
:math:`\\lambda \\ge 0`, not all 0, make

.. math:: S = \\sum \\lambda_{ij}\\, \\mathrm{sym}\\big( z_i (z_i - z_j)^\\top \\big)

negative semidefinite, the products :math:`\\langle A z_i, z_i - z_j \\rangle` with
these weights add up to :math:`\\langle S, A \\rangle \\le 0` for every A, so they
cannot all be positive. Such weights are a proof, and name the tokens that conflict.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Polygon

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY, SHADE

tokens = hm.configuration("gaussian", n=12, seed=1) + np.array([0.4, 0.9])
able = np.flatnonzero(hm.control.can_lead(tokens))
leading = hm.limit(tokens, hm.Hardmax(1)).leaders
print(f"{len(able)} of {len(tokens)} tokens can lead for some A: {able.tolist()}")
print(f"With A = I these do: {leading.tolist()}")

# %%
# For each of them, the A that gives it the largest margin, checked by simulation. For
# the others a proof.

for i in able:
    assert hm.control.choose_A(tokens, leaders=[int(i)]).found
inside = next(i for i in range(len(tokens)) if i not in able)
refused = hm.control.choose_A(tokens, leaders=[inside])
print(refused)
assert refused.proved

# %%
# Pairs of tokens that can lead together.

pairs = {
    (int(i), int(j)): hm.control.choose_A(tokens, leaders=[i, j])
    for i in able
    for j in able
    if i < j
}
blocked = {pair: result for pair, result in pairs.items() if not result.found}
print(
    f"{len(pairs) - len(blocked)} of {len(pairs)} pairs can lead together;"
    f" {len(blocked)} cannot."
)
assert blocked
assert all(result.proved for result in blocked.values())
pair, result = next(iter(blocked.items()))
print(result)
for clash in result.conflict:
    print(" ", clash)

# %%
# Left: the hull of the tokens and 0, and the pairs that cannot lead together, joined.
# Right: which pairs can.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.9), layout="constrained")
hull = np.vstack([tokens, [[0, 0]]])
left.add_patch(
    Polygon(hull[hm.Polytope(hull).outline], closed=True, color=SHADE, alpha=0.45, lw=0)
)
left.scatter(*tokens.T, s=18, color=GREY)
for i, j in blocked:
    left.plot(*tokens[[i, j]].T, color=COLOURS[1], lw=1, alpha=0.8)
left.scatter(
    *tokens[able].T, s=150, marker="*", color=COLOURS[0], edgecolors=EDGE, zorder=3
)
for i in able:
    outwards = (
        13
        * (tokens[i] - tokens.mean(axis=0))
        / np.linalg.norm(tokens[i] - tokens.mean(axis=0))
    )
    left.annotate(
        str(i),
        tokens[i],
        outwards,
        textcoords="offset points",
        ha="center",
        va="center",
    )
left.scatter(0, 0, marker="+", s=90, color=EDGE, zorder=4)
left.margins(0.12)
left.set(
    aspect="equal",
    title="stars can lead; joined ones not together",
    xlabel="$z_1$",
    ylabel="$z_2$",
)
table = np.ones((len(able), len(able)))
for i, j in blocked:
    a, b = np.searchsorted(able, [i, j])
    table[a, b] = table[b, a] = 0
right.imshow(table, cmap=ListedColormap([COLOURS[1], SHADE]), vmin=0, vmax=1)
right.set(
    xticks=range(len(able)), xticklabels=able, yticks=range(len(able)), yticklabels=able
)
right.set_title("orange: proved that no A lets both lead")
plt.show()

# %%
# The proof of one conflict, by hand: the weighted sum S has no positive eigenvalue. The
# weights are those of products of unit vectors, so lengths are divided out. The
# solver's floats are corrected to rational weights inside the library before a proof is
# reported; here they are printed rounded.

S = np.zeros((2, 2))
for clash in result.conflict:
    z, ahead = tokens[clash.token], tokens[clash.target] - tokens[clash.rival]
    product = np.outer(z, ahead) / (np.linalg.norm(z) * np.linalg.norm(ahead))
    S += clash.weight * (product + product.T) / 2
print("eigenvalues of S:", np.linalg.eigvalsh(S).round(6))
assert np.linalg.eigvalsh(S).max() < 1e-6

# %%
# What to try
# -----------
# In ``d=8`` conflicts are rare, and with no more tokens than dimensions there are none
# (Theorem 6). Ask for followers, ``hm.control.choose_A(tokens, leaders=[i],
# followers={5: i})``, and see how soon it becomes impossible.
