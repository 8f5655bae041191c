"""arXiv 2407.01602: the words that lead most often in film reviews, coloured by the sign of their score."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hardmax.draw.style import CLASSES
from hardmax.figures.shared import read_results

TITLE = "arXiv 2407.01602: the words that lead in most reviews of IMDb"
SHOWN = 30


def compute() -> dict[str, Any]:
    """Read the recorded counts of `pretrained("imdb-2d").leaders(texts)` on the test reviews of IMDb."""
    return read_results("leaders")


def draw(counts: dict[str, Any]) -> Figure:
    """Draw one bar per word: the part of the reviews in which it leads."""
    words, scores = counts["words"][:SHOWN], counts["scores"][:SHOWN]
    shares = [100 * led / counts["texts"] for led in counts["texts_led"][:SHOWN]]
    figure, ax = plt.subplots(figsize=(10.5, 4.6), layout="constrained")
    ax.bar(range(len(words)), shares, color=[CLASSES[int(score > 0)] for score in scores])
    ax.set_xticks(range(len(words)), words, rotation=55, ha="right", rotation_mode="anchor", parse_math=False)
    ax.set(ylabel="reviews in which it leads (%)", xlim=(-0.7, len(words) - 0.3))
    ax.set_title(
        f"the {len(words)} most frequent leaders of {counts['texts']:,} reviews, model {counts['model']}", fontsize=11
    )
    ax.spines[["top", "right"]].set_visible(False)
    names = zip(CLASSES[::-1], ("positive", "negative"), strict=True)
    handles = [Patch(color=colour, label=f"speaks for {name}") for colour, name in names]
    ax.legend(handles=handles, frameon=False)
    return figure
