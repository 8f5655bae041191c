"""Where do tokens of self-attention end, over the spectrum of V, the dimension and the
distribution of tokens?
"""

from typing import TYPE_CHECKING

import numpy as np

from studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

GRID = {
    "V": ["identity", "positive", "multiple", "complex", "jordan", "negative"],
    "B": ["identity", "gaussian"],
    "tokens": ["gaussian", "ball"],
    "d": [2, 3, 5],
    "t": [2.0, 4.0, 8.0],
    "n": [20],
    "seed": range(50),
}
BY = ["V", "B", "tokens", "d", "t"]


def keep(rows: "DataFrame") -> "DataFrame":
    """Mean number of clusters and leaders, mean Boolean distance, and shares of runs."""
    groups = rows.assign(few=rows["clusters"] <= 3).groupby(BY)
    found = groups.agg(
        runs=("cell", "size"),
        proved=("proved", "mean"),
        clusters=("clusters", "mean"),
        few=("few", "mean"),
        leaders=("leaders", "mean"),
        boolean_distance=("boolean_distance", "mean"),
        reached=("reached", "mean"),
    )
    return found.reset_index().round(5)


def select(table: "DataFrame", **where: object) -> "DataFrame":
    """Return the rows with given values of parameters."""
    for name, value in where.items():
        table = table[table[name] == value]
    return table


def draw(table: "DataFrame") -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    figure, axes = plt.subplots(
        1, len(GRID["d"]), figsize=(9.6, 3.6), layout="constrained", sharey=True
    )
    for ax, d in zip(axes, GRID["d"], strict=True):
        for number, V in enumerate(GRID["V"]):
            some = select(table, V=V, B="identity", d=d).groupby("t")["clusters"].mean()
            ax.plot(
                some.index, some, "o-", ms=4, lw=1.3, color=COLOURS[number], label=V
            )
        ax.set(xscale="log", xlabel="t", title=f"d = {d}", ylim=(0, 21))
        ax.set_xticks(GRID["t"], [f"{t:g}" for t in GRID["t"]])
        ax.minorticks_off()
    axes[0].set_ylabel("clusters of 20 tokens, mean")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=6,
        fontsize=8,
        frameon=False,
    )
    return figure


def facts(table: "DataFrame") -> list[str]:
    def mean(column: str, **where: object) -> float:
        some = select(table, **where)
        return float(np.average(some[column], weights=some["runs"]))

    last = GRID["t"][-1]
    lines = [
        f"{table['runs'].sum():,} runs of n = 20 tokens; {100 * mean('reached'):.1f} %"
        " were integrated to the end."
    ]
    for V in GRID["V"]:
        clusters = ", ".join(
            f"{mean('clusters', V=V, B='identity', t=last, d=d):.1f} (d = {d})"
            for d in GRID["d"]
        )
        lines.append(
            f"V {V}: clusters at t = {last:g} with Q^T K = I are {clusters}; at most"
            f" three in {100 * mean('few', V=V, B='identity', t=last):.0f} % of the"
            f" runs, and in {100 * mean('few', V=V, B='gaussian', t=last):.0f} % with"
            " Gaussian Q^T K."
        )
    ball, gaussian = (
        mean("clusters", V="identity", B="identity", t=last, tokens=kind)
        for kind in ("ball", "gaussian")
    )
    lines.append(
        f"Distribution of the tokens, V = I: {ball:.1f} clusters at t = {last:g} from a"
        f" ball, {gaussian:.1f} from a Gaussian distribution."
    )
    return lines


STUDY = Study("spectrum", "flows", GRID, keep, draw, facts)
