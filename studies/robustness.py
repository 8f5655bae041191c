"""How do limits change if the input is perturbed? Over the size of the perturbation, n,
d and the distribution.
"""

from typing import TYPE_CHECKING

import numpy as np

from studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

GRID = {
    "noise": [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1],
    "n": [10, 30, 100, 300],
    "d": [2, 3, 8],
    "tokens": ["gaussian", "ball"],
    "seed": range(700),
}
BY = ["noise", "n", "d", "tokens"]


def keep(rows: "DataFrame") -> "DataFrame":
    """Shares of runs whose leaders and clusters stay, the share of tokens that change,
    and a test of the radius.
    """
    inside = rows["largest_move"] < rows["radius"]
    rows = rows.assign(
        inside=inside, refuted=inside & ~rows["same_clusters"].astype(bool)
    )
    found = rows.groupby(BY).agg(
        runs=("cell", "size"),
        certified=("certified", "mean"),
        same_leaders=("same_leaders", "mean"),
        same_clusters=("same_clusters", "mean"),
        changed=("changed", "mean"),
        radius=("radius", "median"),
        inside=("inside", "mean"),
        refuted=("refuted", "sum"),
    )
    return found.reset_index().round(8)


def draw(table: "DataFrame") -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    figure, axes = plt.subplots(
        1, 3, figsize=(9.6, 3.6), layout="constrained", sharey=True
    )
    for ax, d in zip(axes, GRID["d"], strict=True):
        for number, n in enumerate(GRID["n"]):
            some = (
                table[(table["d"] == d) & (table["n"] == n)]
                .groupby("noise")[["same_clusters", "inside"]]
                .mean()
            )
            ax.plot(
                some.index,
                some["same_clusters"],
                "o-",
                ms=4,
                lw=1.3,
                color=COLOURS[number],
                label=f"n = {n}",
            )
            ax.plot(some.index, some["inside"], ":", lw=1.3, color=COLOURS[number])
        ax.set(
            xscale="log",
            xlabel="perturbation / mean norm",
            title=f"d = {d}",
            ylim=(-0.02, 1.02),
        )
    axes[0].set_ylabel("share of runs with the same clusters")
    axes[0].plot(
        [], [], ":", lw=1.3, color="0.4", label="proved by the certified radius"
    )
    lines, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        lines, labels, loc="outside upper center", ncols=5, fontsize=8, frameon=False
    )
    return figure


def find_half(table: "DataFrame", column: str) -> float:
    """Return the size of the perturbation at which a share falls to one half,
    interpolated in its logarithm.
    """
    shares = table.groupby("noise")[column].mean()
    return float(
        np.exp(np.interp(-0.5, -shares.to_numpy(), np.log(shares.index.to_numpy())))
    )


def facts(table: "DataFrame") -> list[str]:
    lines = [
        (
            f"{table['runs'].sum():,} pairs of runs, before and after the perturbation;"
            " both limits are certified in"
            f" {100 * np.average(table['certified'], weights=table['runs']):.1f} %."
        ),
        (
            f"In {table['refuted'].sum():.0f} pairs with all moves below the certified"
            " radius the clusters changed."
        ),
    ]
    for noise in GRID["noise"][2:]:
        some = table[table["noise"] == noise]
        same = ", ".join(
            f"{100 * some[some['n'] == n]['same_clusters'].mean():.1f} % (n = {n})"
            for n in GRID["n"]
        )
        lines.append(
            f"Perturbation {noise:g}: the same clusters in {same};"
            f" {100 * some['changed'].mean():.2f} % of the tokens have a limit at other"
            " leaders."
        )
    for n in (GRID["n"][0], GRID["n"][-1]):
        some = table[(table["n"] == n) & (table["d"] == 2)]
        kept, proved = find_half(some, "same_clusters"), find_half(some, "inside")
        lines.append(
            f"n = {n}, d = 2: half of the runs keep their clusters at a perturbation of"
            f" {kept:.1e}, and the radius proves it for half of them at {proved:.1e}: a"
            f" factor of {kept / proved:.0f}."
        )
        radius = table[(table["n"] == n)].groupby("d")["radius"].median()
        parts = ", ".join(f"{radius[d]:.1e} (d = {d})" for d in GRID["d"])
        lines.append(
            f"Median certified radius for n = {n}, relative to the mean norm: {parts}."
        )
    return lines


STUDY = Study("robustness", "robustness", GRID, keep, draw, facts)
