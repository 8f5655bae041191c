"""arXiv 2407.01602: the words that lead most often in film reviews, coloured by what they say."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hardmax.draw.style import BLUE, ORANGE
from hardmax.figures.shared import read_results

TITLE = "arXiv 2407.01602: the words that lead in most reviews of IMDb"
SHOWN = 30


def compute() -> dict[str, Any]:
    """Recorded counts of leaders: reviews themselves do not come with the package."""
    return read_results("leaders")


def draw(counts: dict[str, Any]) -> Figure:
    """A bar for each word: in which part of the reviews it leads."""
    words, scores = counts["words"][:SHOWN], counts["scores"][:SHOWN]
    shares = [100 * led / counts["texts"] for led in counts["texts_led"][:SHOWN]]
    figure, ax = plt.subplots(figsize=(10.5, 4.6), layout="constrained")
    ax.bar(range(len(words)), shares, color=[BLUE if score > 0 else ORANGE for score in scores])
    ax.set_xticks(range(len(words)), words, rotation=55, ha="right", rotation_mode="anchor", parse_math=False)
    ax.set(ylabel="reviews in which it leads (%)", xlim=(-0.7, len(words) - 0.3))
    ax.set_title(
        f"the {len(words)} most frequent leaders of {counts['texts']:,} reviews, model {counts['model']}", fontsize=11
    )
    ax.spines[["top", "right"]].set_visible(False)
    handles = [Patch(color=BLUE, label="speaks for positive"), Patch(color=ORANGE, label="speaks for negative")]
    ax.legend(handles=handles, frameon=False)
    return figure
