"""How long does softmax stay near hardmax? Over temperature, depth, n and d, and
against a bound.
"""

from typing import TYPE_CHECKING

import numpy as np

from studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

GRID = {
    "temperature": [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001],
    "layers": [1, 2, 4, 8, 16, 32],
    "n": [10, 30, 100],
    "d": [2, 3, 8],
    "seed": range(210),
}
BY = ["temperature", "layers", "n", "d"]
NEAR = 0.01  # of the diameter


def keep(rows: "DataFrame") -> "DataFrame":
    """Median and high quantile of the distance, how often it is small, and the largest
    constant.
    """
    groups = rows.assign(
        near=rows["distance"] < NEAR,
        within=rows["one_layer"] <= rows["one_layer_bound"] * (1 + 1e-9) + 1e-12,
    ).groupby(BY)
    found = groups.agg(
        runs=("cell", "size"),
        median=("distance", "median"),
        high=("distance", lambda distance: distance.quantile(0.9)),
        near=("near", "mean"),
        within=("within", "mean"),
        constant=("constant", "max"),
    )
    return found.reset_index().round(6)


def draw(table: "DataFrame") -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
    some = table[(table["n"] == 30) & (table["d"] == 2)]
    for number, layers in enumerate(GRID["layers"]):
        one = some[some["layers"] == layers].sort_values("temperature")
        left.plot(
            one["temperature"],
            one["near"],
            "o-",
            ms=4,
            lw=1.3,
            color=COLOURS[number],
            label=f"{layers} layer{'s' * (layers > 1)}",
        )
        right.plot(
            one["temperature"], one["high"], "o-", ms=4, lw=1.3, color=COLOURS[number]
        )
    left.set(
        xscale="log",
        xlabel="temperature",
        ylabel="share of the runs",
        title="Runs within 1 % of the diameter",
    )
    right.set(
        xscale="log",
        xlabel="temperature",
        ylabel="diameters",
        title="90 % quantile of the distance to hardmax",
    )
    left.legend(fontsize=8)
    return figure


def facts(table: "DataFrame") -> list[str]:
    def near(**where: float) -> str:
        some = table
        for name, value in where.items():
            some = some[some[name] == value]
        return f"{100 * np.average(some['near'], weights=some['runs']):.0f} %"

    held = 100 * np.average(table["within"], weights=table["runs"])
    lines = [
        f"{table['runs'].sum():,} runs with alpha = 0.5 on Gaussian tokens.",
        f"The bound after one layer held in {held:.2f} % of the runs.",
    ]
    for layers in (1, 8, 32):
        parts = [
            f"{near(layers=layers, temperature=T)} at temperature {T:g}"
            for T in (0.1, 0.01, 0.001, 0.0001)
        ]
        lines.append(
            f"After {layers} layer{'s' * (layers > 1)} softmax is near hardmax in"
            f" {', '.join(parts)}."
        )
    for d in GRID["d"]:
        parts = [
            f"{near(layers=32, temperature=0.001, d=d, n=n)} (n = {n})"
            for n in GRID["n"]
        ]
        lines.append(f"d = {d}, 32 layers, temperature 0.001: {', '.join(parts)}.")
    some = table[
        (table["temperature"] == 0.01) & (table["n"] == 30) & (table["d"] == 2)
    ].sort_values("layers")
    lines.append(
        "Depth: at temperature 0.01 with n = 30 and d = 2, the 90 % quantile of the"
        f" distance is {', '.join(f'{high:.2f}' for high in some['high'])} diameters"
        f" after {', '.join(map(str, some['layers']))} layers."
    )
    largest = table[np.isfinite(table["constant"])].groupby("layers")["constant"].max()
    lines.append(
        "The largest C that a run needs in sqrt(log beta / beta) e^(Ct) is"
        f" {', '.join(f'{constant:.2f}' for constant in largest)} after"
        f" {', '.join(map(str, largest.index))} layers."
    )
    return lines


STUDY = Study("temperature", "temperature", GRID, keep, draw, facts)
