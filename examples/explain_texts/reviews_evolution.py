"""
A positive and a negative review, layer by layer
================================================

`arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ interprets its classifier by
looking at it: with :math:`d = 2` every word of a review is a point of the plane, words
move to their leaders, and the mean of all points decides by the side of a line,

.. math:: v \\cdot \\frac1n \\sum_i z_i^K + \\beta > 0 .

The layers pull the mean towards the leaders. Here are two reviews, written for this
page, in the model ``imdb-2d`` that comes with the package. ``hardmax reproduce
reviews`` writes the figure to a file.
"""

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.figures.imdb import REVIEWS, draw_reviews, explain_reviews

good, bad = explain_reviews()
for review, why in zip(REVIEWS, (good, bad), strict=True):
    print(f"{review}\n    {why.prediction}, probability {why.probability:.3f}")
    print("    leaders: " + ", ".join(leader.word for leader in why.leaders[0]) + "\n")
assert (good.prediction, bad.prediction) == ("pos", "neg")

# %%
# Layers 0, 1, 2 and 8. Blue is the side of the predicted class. Stars are leaders, by
# name; circles are words, in the colour of the word they follow; the cross is the mean.

figure = draw_reviews([good, bad])
plt.show()

# %%
# The final mean is the sum of the leaders, each with its share. The theorems are
# checked on a review as on any other token set.

for why in (good, bad):
    (head,) = why.trajectory
    failed = [
        verdict.name for verdict in hm.theorems.check(head) if verdict.holds is False
    ]
    shares = sum(leader.share for leader in why.leaders[0])
    print(
        f"{why.prediction}: {len(why.leaders[0])} leaders of {head.n} words hold"
        f" {shares:.0%} of the mean"
    )
    assert not failed
    assert shares > 0.5

# %%
# The good one as a movie.

movie = good.movie()

# %%
# What to try
# -----------
# ``hm.pretrained("imdb-2d").explain`` with a review of your own. Write something good
# and something bad, and see which of the leaders has the larger share. ``hardmax app``
# has a page on which to type.
