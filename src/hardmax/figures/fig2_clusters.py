"""Figure 2 of arXiv 2407.01602: four inputs gathering around their leaders."""

from fractions import Fraction

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from hardmax import Hardmax, HardmaxTrajectory, configuration, simulate
from hardmax.configurations import PAPER_CONFIGURATIONS
from hardmax.draw.projection import Projection
from hardmax.draw.style import LAYERS
from hardmax.draw.tokens import Palette, plot_tokens

TITLE = "Figure 2: layers 0, 1, 2, 5 and 30 of four inputs, alpha = 0.5, A = I"


def compute() -> dict[str, HardmaxTrajectory]:
    """Simulate the four configurations through 30 layers."""
    rule = Hardmax(Fraction(1, 2))
    return {name: simulate(configuration(name), rule, layers=LAYERS[-1]) for name in PAPER_CONFIGURATIONS}


def draw(rows: dict[str, HardmaxTrajectory]) -> Figure:
    """Draw a row per configuration and a column per layer, with the hull of the leaders in the last column."""
    figure, axes = plt.subplots(len(rows), len(LAYERS), figsize=(13, 10.6), layout="constrained")
    for row, (line, (name, trajectory)) in enumerate(zip(axes, rows.items(), strict=True)):
        palette, projection = Palette(trajectory), Projection.of_trajectory(trajectory)
        for ax, k in zip(line, LAYERS, strict=True):
            plot_tokens(trajectory, k, ax=ax, palette=palette, projection=projection, tails=False)
            ax.set(xlabel="", ylabel="", title=f"layer {k}" if row == 0 else "")
            ax.tick_params(labelsize=7)
        line[0].set_ylabel(name)
    return figure
