"""
Tokens gather around their leaders
==================================

Sixty tokens in the plane, and one rule: at every layer each token takes a step towards
the token that reaches farthest in its own direction. After twelve layers the tokens
form one cluster per leader, except for tokens with two nearly equal products. This is
the clustering of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ in one picture.
"""

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.draw.projection import Projection
from hardmax.draw.tokens import Palette, plot_tokens

tokens = hm.configuration("ball", n=60, seed=54) * [1.3, 1.0]
trajectory = hm.simulate(tokens, hm.Hardmax(alpha=0.5), layers=12)
print(trajectory)

# %%
# Stars are leaders. A circle has the colour of the token it follows, grey if few follow
# that one, and a ring of its own colour if others follow it. Shaded is the polytope K,
# whose vertices are the leaders.

figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
palette, projection = Palette(trajectory), Projection.of_trajectory(trajectory)
for ax, k in zip(axes.flat, (0, 1, 3, 12), strict=True):
    plot_tokens(
        trajectory, k, ax=ax, palette=palette, projection=projection, polytope=k == 12
    )
    ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
plt.show()

# %%
# A picture is no proof. ``hm.limit`` computes where every token ends, with a proof at a
# finite layer.

limit = hm.limit(tokens, hm.Hardmax(alpha=0.5))
print(limit)
assert limit.certified
assert set(trajectory.leaders) == set(limit.leaders)

# %%
# The same as a movie.

movie = hm.draw.movie(trajectory, steps=2, fps=6)

# %%
# What to try
# -----------
# Another ``seed``, or ``hm.configuration("gaussian", n=60)``: the number of leaders
# changes, that there are few does not. Put ``A=[[2, 1], [1, 1]]`` into the rule, and
# other tokens lead. ``hardmax app`` lets you drag them.
