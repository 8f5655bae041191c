"""How many clusters are there on the sphere, over beta and d, and for how long?"""

from typing import TYPE_CHECKING

import numpy as np

from studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

GRID = {
    "beta": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0],
    "d": [2, 3, 5, 10],
    "t": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0],
    "n": [32],
    "seed": range(470),
}
BY = ["beta", "d", "t"]


def keep(rows: "DataFrame") -> "DataFrame":
    """Mean number of clusters, its deviation, and how often there is one."""
    groups = rows.assign(one=rows["clusters"] == 1).groupby(BY)
    found = groups.agg(
        runs=("cell", "size"),
        clusters=("clusters", "mean"),
        deviation=("clusters", "std"),
        one=("one", "mean"),
        similarity=("similarity", "mean"),
    )
    return found.reset_index().round(5)


def draw(table: "DataFrame") -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    figure, axes = plt.subplots(
        1, len(GRID["d"]), figsize=(9.6, 3.4), layout="constrained", sharey=True
    )
    for ax, d in zip(axes, GRID["d"], strict=True):
        for number, beta in enumerate(GRID["beta"][::2]):
            some = table[(table["d"] == d) & (table["beta"] == beta)].sort_values("t")
            ax.plot(
                some["t"],
                some["clusters"],
                "o-",
                ms=4,
                lw=1.3,
                color=COLOURS[number],
                label=f"beta = {beta:g}",
            )
        ax.set(xscale="log", yscale="log", xlabel="t", title=f"d = {d}")
    axes[0].set_ylabel("clusters of 32 tokens, mean")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=5,
        fontsize=8,
        frameon=False,
    )
    return figure


def facts(table: "DataFrame") -> list[str]:
    lines = [f"{table['runs'].sum():,} runs of 32 tokens, uniform on the sphere."]
    for d in GRID["d"]:
        some = table[table["d"] == d]
        mean = some.pivot(index="beta", columns="t", values="clusters")
        met = some[some["t"] == 300].set_index("beta")["one"]
        parts = [
            f"{mean.loc[b, 10]:.1f}, {mean.loc[b, 30]:.1f}, {mean.loc[b, 300]:.1f}"
            f" (beta = {b:g})"
            for b in (4, 16, 64)
        ]
        together = ", ".join(
            f"{100 * met[b]:.0f} % (beta = {b:g})" for b in (1, 2, 4, 8)
        )
        lines.append(
            f"d = {d}: clusters at t = 10, 30, 300 are {', '.join(parts)}. "
            f"By t = 300 all have met in {together} of the runs."
        )
    fall = table.pivot(index=["beta", "d"], columns="t", values="clusters").loc[(16, 2)]
    lines.append(
        "Plateaus: for beta = 16 on the circle the mean number falls to"
        f" {100 * fall[10] / fall[3]:.0f} % from t = 3 to 10, and from t = 30 to 100,"
        f" as many times as long, to {100 * fall[100] / fall[30]:.0f} %."
    )
    kept = table.pivot(index=["d", "beta"], columns="t", values="clusters")
    kept = (kept[300] / kept[10])[kept[10] > 2]
    (fast_d, fast), (slow_d, slow) = kept.idxmin(), kept.idxmax()
    lines.append(
        "The number still falls after t = 10. Of the settings with more than two"
        f" clusters at t = 10 it falls most for d = {fast_d} and beta = {fast:g}, until"
        f" t = 300 to {100 * kept.min():.0f} % of what it was at t = 10, and least for"
        f" d = {slow_d} and beta = {slow:g}, to {100 * kept.max():.0f} %."
    )
    largest = table[(table["d"] == GRID["d"][-1]) & (table["t"] == 300)].set_index(
        "beta"
    )["clusters"]
    lines.append(
        f"d = {GRID['d'][-1]}: clusters at t = 300 are "
        f"{', '.join(f'{largest[b]:.1f} (beta = {b:g})' for b in (4, 8, 16, 32, 64))}."
    )
    at = table[(table["t"] == 10) & (table["d"] == 2) & table["beta"].between(4, 64)]
    slope = float(np.polyfit(np.log(at["beta"]), np.log(at["clusters"]), 1)[0])
    lines.append(
        f"On the circle the number of clusters at t = 10 grows like beta^{slope:.2f}"
        " from beta = 4 to 64; beta^0.5 is what tokens give that gather from a"
        " distance of beta^-0.5."
    )
    return lines


STUDY = Study("sphere", "sphere", GRID, keep, draw, facts)
