"""The picture at the top of the README: tokens gathering around their leaders."""

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.draw.projection import Projection
from hardmax.draw.tokens import Palette, plot_tokens

mpl.use("Agg")
tokens = hm.configuration("ball", n=60, seed=54) * [1.3, 1.0]
trajectory = hm.simulate(tokens, hm.Hardmax(alpha=0.5), layers=12)
print(trajectory)
figure, axes = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
palette, projection = Palette(trajectory), Projection.of_trajectory(trajectory)
for ax, k in zip(axes, (0, 1, 3, 12), strict=True):
    plot_tokens(trajectory, k, ax=ax, palette=palette, projection=projection, polytope=k == 12)
    ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "gathering.png", dpi=110)
