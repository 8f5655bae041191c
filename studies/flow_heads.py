"""Self-attention in time with several heads: do clusters survive?"""

from typing import TYPE_CHECKING

import numpy as np

from studies.spectrum import select
from studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

GRID = {
    "heads": [1, 2, 4, 8],
    "B": ["identity", "definite", "gaussian"],
    "d": [2, 4],
    "t": [2.0, 4.0, 8.0],
    "V": ["identity"],
    "n": [20],
    "seed": range(50),
}
BY = ["heads", "B", "d", "t"]


def keep(rows: "DataFrame") -> "DataFrame":
    """Mean number of clusters, and shares of runs with one cluster and with several."""
    groups = rows.assign(
        one=rows["clusters"] == 1, still=rows["clusters"] == rows["clusters_before"]
    ).groupby(BY)
    found = groups.agg(
        runs=("cell", "size"),
        clusters=("clusters", "mean"),
        one=("one", "mean"),
        still=("still", "mean"),
        leaders=("leaders", "mean"),
        reached=("reached", "mean"),
    )
    return found.reset_index().round(5)


def draw(table: "DataFrame") -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    figure, axes = plt.subplots(
        1, 3, figsize=(9.6, 3.4), layout="constrained", sharey=True
    )
    for ax, B in zip(axes, GRID["B"], strict=True):
        for number, heads in enumerate(GRID["heads"]):
            some = select(table, B=B, heads=heads).groupby("t")["clusters"].mean()
            label = f"{heads} head{'s' * (heads > 1)}"
            ax.plot(
                some.index, some, "o-", ms=4, lw=1.3, color=COLOURS[number], label=label
            )
        ax.set(xscale="log", xlabel="t", title=f"$Q^T K$ {B}", ylim=(0, 21))
        ax.set_xticks(GRID["t"], [f"{t:g}" for t in GRID["t"]])
        ax.minorticks_off()
    axes[0].set_ylabel("clusters of 20 tokens, mean")
    axes[0].legend(fontsize=8, loc="lower left")
    return figure


def facts(table: "DataFrame") -> list[str]:
    last = GRID["t"][-1]
    end = table[table["t"] == last]
    lines = [
        f"{table['runs'].sum():,} runs of n = 20 tokens with V = I/heads in each head."
        f" In {100 * np.average(table['reached'], weights=table['runs']):.1f} % the"
        " integration reached the last time."
    ]
    for B in GRID["B"]:
        clusters, one = (
            select(end, B=B).groupby("heads")[column].mean()
            for column in ("clusters", "one")
        )
        numbers = ", ".join(
            f"{clusters[heads]:.1f} with {heads}" for heads in GRID["heads"]
        )
        lines.append(
            f"Q^T K {B}: clusters at t = {last:g} by number of heads: {numbers}. One"
            f" cluster in {100 * one[1]:.0f} % of the runs with one head, and in"
            f" {100 * one[8]:.0f} % with eight."
        )
    return lines


STUDY = Study("flow_heads", "flows", GRID, keep, draw, facts)
