"""
The tree of clusters, and where to cut it
=========================================

The number of clusters depends on the scale. The hardmax model has one parameter for it,
an exponent :math:`\\tau` on the length of the tokens, and the value at which a leader
stops leading and follows another one is known exactly:

.. math:: \\tau_i = \\min_{j:\\, r_j > r_i,\\ \\cos(u_i, u_j) > 0} \\frac{-\\log
   \\cos(u_i, u_j)}{\\log (r_j / r_i)} .

So all clusterings form one tree. It is computed once and cut anywhere, and long
branches show where a cut is stable.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import dendrogram
from sklearn.datasets import make_blobs

import hardmax as hm
from hardmax.draw.style import EDGE, cluster_colours

centres = [(-6, 0), (-3, 0.6), (3, 3), (6, 2.4), (4, -5), (7, -5.6)]  # three pairs
X, truth = make_blobs(480, centers=centres, cluster_std=0.3, random_state=3)
tree = hm.HardmaxClustering(n_clusters=3).fit(X).tree_
print(tree)

# %%
# The upper part of the tree, and two cuts. The height is :math:`\log(1 + \tau)`, on a
# logarithmic scale; clusters that join high up are far apart.

links = tree.linkage()
figure = plt.figure(figsize=(12, 6.6), layout="constrained")
grid = figure.add_gridspec(2, 2, height_ratios=(1, 1.2))
top = figure.add_subplot(grid[0, :])
dendrogram(
    links,
    p=14,
    truncate_mode="lastp",
    ax=top,
    no_labels=True,
    link_color_func=lambda node: EDGE,
)
top.set(yscale="log", ylim=(0.004, 10), ylabel=r"$\log(1 + \tau)$")
top.spines[["top", "right"]].set_visible(False)
heights = np.append(links[::-1, 2], 0)  # above heights[k - 1] there are k clusters
for column, k in enumerate((3, 6)):
    labels, leaders = tree.cut(k)
    level = np.sqrt(heights[k - 2] * heights[k - 1])
    top.axhline(level, color="#888", ls=":", lw=1.4)
    top.annotate(
        f"{k} clusters",
        (0.995, level),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
    )
    ax = figure.add_subplot(grid[1, column])
    ax.scatter(*X.T, s=9, c=cluster_colours(labels))
    ax.scatter(
        *X[leaders].T,
        s=260,
        marker="*",
        c=cluster_colours(labels[leaders]),
        ec=EDGE,
        lw=1,
    )
    ax.set_title(f"cut at {len(leaders)} clusters; stars: leaders", fontsize=11)
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# Cuts are nested: no cluster of six is in two clusters of three. And a leader of the
# coarse cut leads in the fine one.

coarse, few = tree.cut(3)
fine, many = tree.cut(6)
assert all(len(set(coarse[fine == c])) == 1 for c in set(fine))
assert set(few) <= set(many)
print(
    f"leaders of three clusters: {sorted(few.tolist())}; of six:"
    f" {sorted(many.tolist())}"
)
pairs = truth // 2  # the blobs were drawn in three pairs
assert all(len(set(pairs[coarse == c])) == 1 for c in set(coarse))

# %%
# Cut where the number of clusters is constant over a long range of tau. Here it is
# three, the pairs of blobs, and on a logarithmic scale also six, the blobs.

lengths = {k: heights[k - 2] - heights[k - 1] for k in range(2, 10)}
print(
    "how long each number lasts:",
    ", ".join(f"{k}: {length:.2f}" for k, length in lengths.items()),
)
longest = max(lengths, key=lengths.get)
print(f"longest: {longest} clusters")
assert longest == 3
assert len({*zip(truth, fine, strict=True)}) == 6

# %%
# What to try
# -----------
# ``tree.plot(3)`` and ``clustering.plot()`` draw the two parts of the figure, and
# ``hardmax cluster points.csv --tree tree.png`` draws the tree of a file.
# ``tree.cut(granularity=0.3)`` cuts at a granularity.
