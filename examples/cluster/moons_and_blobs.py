"""
Clusters of any shape whose centres are points of the data
==========================================================

k-means finds round clusters, and its centres are means, which may look like no point at
all. HDBSCAN finds clusters of any shape, and needs no centres (scikit-learn adds means
or medoids if asked). ``HardmaxClustering`` runs the hardmax model of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ on the graph of neighbours: clusters may have any
shape, each is led by one of the points, and where every point ends is proved. Here are
the three side by side. A leader is a point of the data, so it can represent its cluster
where a mean cannot.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import hardmax as hm
from hardmax.draw.style import EDGE, cluster_colours

SETS = {
    "moons": make_moons(500, noise=0.05, random_state=0),
    "circles": make_circles(500, factor=0.5, noise=0.05, random_state=0),
    "blobs": make_blobs(500, centers=3, cluster_std=(1.0, 1.6, 0.6), random_state=8),
}

# %%
# k-means needs the number of clusters as a parameter. HDBSCAN and hardmax find it.

figure, axes = plt.subplots(3, 3, figsize=(10, 8.6), layout="constrained")
scores = {}
for row, (name, (X, truth)) in zip(axes, SETS.items(), strict=True):
    k_means = KMeans(len(set(truth)), n_init=10, random_state=0).fit(X)
    density = HDBSCAN(min_cluster_size=15, copy=True).fit(X)
    found = hm.HardmaxClustering().fit(X)
    centres = {
        "k-means": k_means.cluster_centers_,
        "HDBSCAN": np.empty((0, 2)),
        "hardmax": X[found.leaders_],
    }
    labels = {
        "k-means": k_means.labels_,
        "HDBSCAN": density.labels_,
        "hardmax": found.labels_,
    }
    for ax, method in zip(row, labels, strict=True):
        scores[name, method] = adjusted_rand_score(truth, labels[method])
        ax.scatter(*X.T, s=7, c=cluster_colours(labels[method]))
        marker = "*" if method == "hardmax" else "X"
        ax.scatter(
            *centres[method].T,
            s=260 if marker == "*" else 110,
            marker=marker,
            c="white",
            ec=EDGE,
            lw=1.2,
        )
        ax.set_title(
            f"{method}: agreement {round(scores[name, method], 2) + 0.0:.2f}",
            fontsize=11,
        )
        ax.set(xticks=[], yticks=[], ylabel=name if method == "k-means" else "")
    assert found.certified_
    assert (
        found.cluster_centers_ == X[found.leaders_]
    ).all()  # a centre is a point of the data
plt.show()

# %%
# Agreement with the truth is the adjusted Rand index: 1 is perfect, 0 is chance. White
# stars are leaders, white crosses means: in the moons and the circles these lie where
# no point is. Points that HDBSCAN gives to no cluster are grey.

for name in SETS:
    print(
        f"{name:8}"
        + "".join(f"{method:>9} {scores[name, method]:5.2f}" for method in labels)
    )
for name in ("moons", "circles"):
    assert scores[name, "hardmax"] > 0.99
    assert scores[name, "k-means"] < 0.5
assert scores["blobs", "hardmax"] > 0.9

# %%
# Nothing is drawn by chance, and the order of the points does not matter.

X, _ = SETS["moons"]
order = np.random.default_rng(0).permutation(len(X))
again = hm.HardmaxClustering().fit(X[order])
assert set(order[again.leaders_]) == set(hm.HardmaxClustering().fit(X).leaders_)
print("The same leaders in another order.")

# %%
# What to try
# -----------
# More noise in the moons, ``noise=0.12``: which method fails first?
# ``hm.HardmaxClustering(noise=20)`` leaves points out where it is 20 times emptier.
# ``features="points"`` runs the paper's model on the points: leaders are then extreme
# points.
