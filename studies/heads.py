"""Several heads and feed-forward parts: when do clusters survive?"""

from typing import TYPE_CHECKING

import numpy as np

from studies.endings import ENDINGS
from studies.study import Study, shares

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

GRID = {
    "heads": [1, 2, 4, 8],
    "gain": [0.0, 0.1, 0.3, 1.0, 3.0],
    "A": ["identity", "definite", "gaussian"],
    "d": [2, 4],
    "n": [20],
    "layers": [150],
    "seed": range(840),
}
BY = ["heads", "gain", "A", "d"]


def keep(rows: "DataFrame") -> "DataFrame":
    """Return the shares of the endings, the final number of clusters, and the share of
    runs with several.
    """
    found = shares(rows, BY, "ending").reindex(
        columns=[*BY, "runs", *ENDINGS], fill_value=0.0
    )
    several = rows.assign(
        several=(rows["ending"] == "clusters") & (rows["clusters"] > 1)
    ).groupby(BY)
    more = (
        several.agg(several=("several", "mean"), mean_clusters=("clusters", "mean"))
        .round(5)
        .reset_index()
    )
    return found.merge(more, on=BY)


def draw(table: "DataFrame") -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    figure, axes = plt.subplots(
        1, 3, figsize=(9.6, 3.6), layout="constrained", sharey=True
    )
    for ax, A in zip(axes, GRID["A"], strict=True):
        for number, heads in enumerate(GRID["heads"]):
            some = (
                table[(table["A"] == A) & (table["heads"] == heads)]
                .groupby("gain")["several"]
                .mean()
            )
            ax.plot(
                range(len(some)),
                some,
                "o-",
                ms=4,
                lw=1.3,
                color=COLOURS[number],
                label=f"{heads} head{'s' * (heads > 1)}",
            )
        ax.set_xticks(range(len(GRID["gain"])), [f"{gain:g}" for gain in GRID["gain"]])
        ax.set(
            title=f"A {A}", xlabel="gain of the feed-forward part", ylim=(-0.02, 1.02)
        )
    axes[0].set_ylabel("share that settles in several clusters")
    axes[0].legend(fontsize=8)
    return figure


def facts(table: "DataFrame") -> list[str]:
    def mean(column: str, **where: object) -> float:
        some = table
        for name, value in where.items():
            some = some[some[name] == value]
        return float(np.average(some[column], weights=some["runs"]))

    lines = [f"{table['runs'].sum():,} runs of n = 20 tokens, up to 150 layers."]
    for A in GRID["A"]:
        several, clusters = (
            [mean(column, A=A, heads=heads, gain=0.0) for heads in (1, 8)]
            for column in ("several", "mean_clusters")
        )
        lines.append(
            f"A {A}, without a feed-forward part: {100 * several[0]:.1f} % of the runs"
            f" with one head settle in several clusters, and {100 * several[1]:.1f} %"
            f" of those with eight; {clusters[0]:.1f} and {clusters[1]:.1f} clusters on"
            " average."
        )
    for gain in GRID["gain"][1:]:
        alone, many = (
            100 * mean("several", gain=gain, heads=heads) for heads in (1, 8)
        )
        consensus, cycle, unsettled = (
            100 * mean(name, gain=gain) for name in ("consensus", "cycle", "unsettled")
        )
        lines.append(
            f"Gain {gain:g}: {alone:.1f} % with one head and {many:.1f} % with eight"
            f" settle in several clusters; of all runs {consensus:.1f} % end in"
            f" consensus, {cycle:.1f} % in a cycle, {unsettled:.1f} % are unsettled."
        )
    return lines


STUDY = Study("heads", "endings", GRID, keep, draw, facts)
