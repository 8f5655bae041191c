"""arXiv 2407.01602: words of a positive and of a negative review gather around leaders, layer by layer."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax.draw.projection import Projection
from hardmax.draw.style import BESIDE_WORDS
from hardmax.draw.texts import draw_decision, name_leaders, plane_legend
from hardmax.draw.tokens import Palette, plot_tokens
from hardmax.text import pretrained

if TYPE_CHECKING:
    from hardmax.text.explanation import Explanation

TITLE = "arXiv 2407.01602: layers 0, 1, 2 and 8 of a positive and a negative review"
LAYERS = (0, 1, 2, 8)
REVIEWS = (
    "A wonderful film, beautiful and moving. The story of a teacher in a small village is simple, the acting is "
    "excellent, and the music stays with you. I loved the quiet ending and would see it again.",
    "A terrible film, dull and far too long. The plot makes no sense, the acting is awful, and the jokes are stupid. "
    "I wanted to leave after an hour, and the boring ending is a waste of time.",
)


def compute() -> list["Explanation"]:
    """Explain both reviews with the model of dimension 2."""
    classifier = pretrained("imdb-2d")
    return [classifier.explain(text) for text in REVIEWS]


def draw(explanations: list["Explanation"]) -> Figure:
    """Draw a row per review and a column per layer, with leaders named and the mean as a cross."""
    figure, axes = plt.subplots(
        len(explanations), len(LAYERS), figsize=(13.6, 3.3 * len(explanations) + 0.6), layout="constrained"
    )
    for row, (line, explanation) in enumerate(zip(axes, explanations, strict=True)):
        (trajectory,) = explanation.trajectory
        palette, projection = Palette(trajectory, colours=BESIDE_WORDS), Projection.of_trajectory(trajectory)
        for ax, k in zip(line, LAYERS, strict=True):
            plot_tokens(trajectory, k, ax=ax, palette=palette, projection=projection, tails=False)
            reach = 0.56 * max(np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim()))  # equal lengths, and room for the names
            x, y = np.mean(ax.get_xlim()), np.mean(ax.get_ylim())
            ax.set(xlim=(x - reach, x + reach), ylim=(y - reach, y + reach))
            draw_decision(explanation, ax, trajectory.array[trajectory.index(k)].mean(axis=0))
            name_leaders(explanation, ax, layer=k)
            ax.set(xlabel="", ylabel="", title=f"layer {k}" if row == 0 else "")
            ax.tick_params(labelsize=7)
        line[0].set_ylabel(f"{explanation.prediction}, probability {explanation.probability:.3f}", fontsize=11)
    figure.legend(handles=plane_legend(), loc="outside lower center", ncols=6, frameon=False)
    return figure
