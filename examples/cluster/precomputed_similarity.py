"""
Cluster words by spelling with a precomputed similarity
=======================================================

Names, molecules and programs have no coordinates, but a similarity.
``HardmaxClustering`` accepts such a matrix. Here the data are misspelled words from a
form, and the similarity of two words is the share of their common letter pairs,

.. math:: s(a, b) = \\frac{2\\, |P(a) \\cap P(b)|}{|P(a)| + |P(b)|} .

Each cluster is led by one of the spellings, which represents it; a mean of words would
not exist.
"""

from collections import Counter
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS

WRITTEN = """
Barcelona Barcelonna Barzelona Barcellona Barcelon Bacelona Barcelona. Barcelone
Frankfurt Frankfurtt Frankfort Francfurt Frankfut Frankurt Frankfurt-M Frankfurth
Stockholm Stokholm Stockholmm Stockhol Stockolm Sotckholm Stockholms Stockhom
Edinburgh Edinburg Edinborough Edinburh Edinbrugh Endinburgh Edingburgh Edinburghh
"""
words = WRITTEN.split()


def pairs(word: str) -> Counter:
    """The pairs of neighbouring letters, with those at the ends of the word."""
    padded = f" {word.lower()} "
    return Counter(pairwise(padded))


def similarity(a: str, b: str) -> float:
    """Dice's: 1 for equal words, 0 for words without a common pair of letters."""
    return 2 * (pairs(a) & pairs(b)).total() / (pairs(a).total() + pairs(b).total())


S = np.array([[similarity(a, b) for b in words] for a in words])

# %%
# ``affinity="precomputed"`` takes the matrix. Each word is connected to its five most
# similar words; the number of clusters follows from the gap of the eigenvalues.

found = hm.HardmaxClustering(affinity="precomputed", n_neighbors=5).fit(S)
for c, leader in enumerate(found.leaders_):
    print(
        f"{words[leader]}: "
        + ", ".join(words[i] for i in np.flatnonzero(found.labels_ == c) if i != leader)
    )
assert found.n_clusters_ == 4
assert all(len(set(found.labels_[8 * k : 8 * k + 8])) == 1 for k in range(4))
assert found.certified_

# %%
# The matrix in the order of the clusters. The frame of each is in its colour, and so is
# the name of its leader.

order = np.argsort(found.labels_, kind="stable")
figure, ax = plt.subplots(figsize=(8.4, 7.4), layout="constrained")
image = ax.imshow(S[np.ix_(order, order)], cmap="cividis", vmin=0, vmax=1)
figure.colorbar(image, ax=ax, shrink=0.8, label="similarity")
ax.set_yticks(range(len(words)), [words[i] for i in order], fontsize=8)
ax.set_xticks([])
ends = np.cumsum(np.bincount(found.labels_))
for c, (end, size) in enumerate(zip(ends, np.bincount(found.labels_), strict=True)):
    box = plt.Rectangle(
        (end - size - 0.5, end - size - 0.5),
        size,
        size,
        fill=False,
        ec=COLOURS[c],
        lw=3,
    )
    ax.add_patch(box)
for label, i in zip(ax.get_yticklabels(), order, strict=True):
    if i in found.leaders_:
        label.set(color=COLOURS[found.labels_[i]], weight="bold", fontsize=10)
plt.show()

# %%
# A new spelling needs its similarities to the words that were fitted, and nothing else.

new = ["Stogholm", "Edimburgh", "Barcalona"]
for word, label in zip(
    new,
    found.predict(np.array([[similarity(a, b) for b in words] for a in new])),
    strict=True,
):
    print(f"{word} -> {words[found.leaders_[label]]}")
    assert words[found.leaders_[label]][0] == word[0]

# %%
# What to try
# -----------
# ``metric="precomputed"`` takes distances instead, and has a density, so that ``noise``
# works. For vectors of texts or images ``metric="cosine"`` needs no matrix at all.
# ``must_lead=[0]`` requests a leader.
