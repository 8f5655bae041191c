"""`python -m studies.pictures`: draw the pictures of the README and the start page."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from benchmarks.machine import ROOT
from matplotlib.figure import Figure

import hardmax as hm
from hardmax.draw.style import BLUE, EDGE, ORANGE

SIZE = (5.4, 3.6)  # inches; three of them fill a row
REVIEW = "A dull plot but wonderful actors."
FOLDER = ROOT / "docs" / "images"


def draw_limit() -> Figure:
    """Draw sixty tokens, their paths, their leaders and the polytope."""
    tokens = hm.configuration("ball", n=60, seed=54) * [1.3, 1.0]
    figure, ax = plt.subplots(figsize=SIZE, layout="constrained")
    hm.draw.plot_tokens(hm.simulate(tokens, hm.Hardmax(0.2), layers=9), 9, ax=ax)
    ax.set(
        title="60 tokens after 9 layers",
        xlabel="stars: leaders; colour: the leader followed; shaded: polytope",
    )
    ax.set_ylabel("")
    return figure


def draw_explanation() -> Figure:
    """Draw the contribution of each word of a review to the logit, its parts of n-grams
    included.
    """
    why = hm.pretrained("imdb").explain(REVIEW)
    parts = sorted(why.by_word(), key=lambda part: abs(part.value))[-7:]
    values = [part.value for part in parts]
    figure, ax = plt.subplots(figsize=SIZE, layout="constrained")
    ax.barh(
        [part.text for part in parts],
        values,
        color=[BLUE if value > 0 else ORANGE for value in values],
    )
    ax.axvline(0, color=EDGE, lw=0.8)
    ax.spines[["top", "right"]].set_visible(False)
    title = f"Contributions to the logit {why.logit:+.2f} of “positive”"
    ax.set(
        title=title,
        xlabel="← negative      sum over n-grams of each word      positive →",
    )
    return figure


def draw_attention() -> Figure:
    """Draw the attention weights of six tokens, softmax and hardmax, one token tied."""
    square = np.array(
        [[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0], [0.5, 0.0], [0.2, 0.6]]
    )
    figure, axes = plt.subplots(1, 2, figsize=SIZE, layout="constrained")
    rules = {"softmax": hm.Softmax(0.5, temperature=1), "hardmax": hm.Hardmax(0.5)}
    for ax, (name, rule) in zip(axes, rules.items(), strict=True):
        weights = hm.simulate(square, rule, layers=0).attention(0)
        ax.imshow(
            weights,
            cmap=mpl.colors.LinearSegmentedColormap.from_list("blue", ["white", BLUE]),
            vmin=0,
            vmax=1,
        )
        for i, j in np.ndindex(weights.shape):
            if weights[i, j] >= 0.05:
                shade = "white" if weights[i, j] > 0.6 else EDGE
                ax.text(
                    j,
                    i,
                    f"{weights[i, j]:.1f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color=shade,
                )
        ax.set(title=name, xticks=[], yticks=[])
        ax.set_xlabel("key")
    axes[0].set_ylabel("query")
    return figure


PICTURES = {
    "start-limit.png": draw_limit,
    "start-explanation.png": draw_explanation,
    "start-attention.png": draw_attention,
}

if __name__ == "__main__":
    mpl.use("Agg")
    for name, draw in PICTURES.items():
        draw().savefig(Path(FOLDER / name), dpi=100)
