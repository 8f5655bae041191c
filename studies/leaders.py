"""How many leaders emerge, and after how many layers are all limits proved? Over n, d,
alpha and the distribution.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

GRID = {
    "tokens": ["gaussian", "ball"],
    "n": [10, 30, 100, 300, 1000],
    "d": [2, 3, 4, 8, 16],
    "alpha": [0.05, 0.2, 0.5, 1.0, 3.0],
    "seed": range(400),
}
BY = ["tokens", "n", "d", "alpha"]


@cache
def expected(tokens: str, n: int, d: int) -> float:
    """The expected number of leaders in the input, for A = I.

    A token at distance r from the middle leads if all n - 1 others have <z, x> < r^2,
    so the number is n times the mean over r of P(<e, x> < r)^(n - 1), with any unit
    vector e.
    """
    from scipy.integrate import quad
    from scipy.special import betainc
    from scipy.stats import chi, norm

    if tokens == "gaussian":
        return (
            n
            * quad(
                lambda r: norm.cdf(r) ** (n - 1) * chi.pdf(r, d),
                0,
                12,
                limit=500,
                epsabs=1e-12,
            )[0]
        )

    def beyond(
        r: float,
    ) -> float:  # part of the ball on the other side of a plane at distance r
        return 0.5 * float(betainc((d + 1) / 2, 0.5, 1 - r * r))

    return (
        n
        * quad(
            lambda r: (1 - beyond(r)) ** (n - 1) * d * r ** (d - 1),
            0,
            1,
            limit=500,
            epsabs=1e-12,
        )[0]
    )


def keep(rows: "DataFrame") -> "DataFrame":
    """Means with standard errors, and how often leaders emerged after the input."""
    groups = rows.assign(late=rows["last_emerged"] > 0).groupby(BY)
    found = groups.agg(
        runs=("cell", "size"),
        leaders=("leaders", "mean"),
        deviation=("leaders", "std"),
        layer=("layer", "mean"),
        longest=("layer", "max"),
        certified=("certified", "mean"),
        late=("late", "mean"),
    )
    return found.round(5).reset_index()


def compared(table: "DataFrame") -> "DataFrame":
    """Leaders against their expected number in the input, over all alpha."""
    groups = table.groupby(["tokens", "n", "d"], sort=False)
    found = groups.agg(
        leaders=("leaders", "mean"),
        runs=("runs", "sum"),
        deviation=("deviation", "mean"),
    ).reset_index()
    found["expected"] = [
        expected(row.tokens, row.n, row.d) for row in found.itertuples()
    ]
    return found


def law(table: "DataFrame") -> tuple[float, float]:
    """p and R^2 of layers = a / log(1 + alpha)^p, where each n, d and distribution has
    its own a.

    Fitted in logarithms, over cells where something moves at all.
    """
    some = table[table["layer"] >= 1]
    cells = [some[name] for name in ("tokens", "n", "d")]
    logs = [np.log(np.log1p(some["alpha"])), np.log(some["layer"])]
    x, y = (each - each.groupby(cells).transform("mean") for each in logs)
    slope = float((x * y).sum() / (x * x).sum())
    return -slope, 1 - float(((y - slope * x) ** 2).sum() / (y**2).sum())


def draw(table: "DataFrame") -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
    found = compared(table)
    for number, d in enumerate(GRID["d"]):
        for tokens, style in (("gaussian", "-"), ("ball", ":")):
            some = found[(found["d"] == d) & (found["tokens"] == tokens)]
            sizes = np.geomspace(10, 1000, 30).round().astype(int)
            left.plot(
                sizes,
                [expected(tokens, int(n), d) for n in sizes],
                style,
                color=COLOURS[number],
                lw=1.2,
            )
            marker, label = ("o", f"d = {d}") if tokens == "gaussian" else ("s", None)
            left.plot(
                some["n"],
                some["leaders"],
                marker,
                ms=4,
                color=COLOURS[number],
                label=label,
            )
    left.set(xscale="log", yscale="log", xlabel="n", ylabel="leaders, mean of the runs")
    left.legend(fontsize=8, title="circles: Gaussian, squares: ball", title_fontsize=8)
    gaussian = table[(table["tokens"] == "gaussian") & (table["n"] == 300)]
    for number, d in enumerate(GRID["d"]):
        some = gaussian[gaussian["d"] == d]
        right.plot(
            some["alpha"],
            some["layer"],
            "o-",
            ms=4,
            lw=1.2,
            color=COLOURS[number],
            label=f"d = {d}",
        )
    right.set(xscale="log", xlabel="alpha", ylabel="layers until certified, n = 300")
    return figure


def facts(table: "DataFrame") -> list[str]:
    found, runs = compared(table), table["runs"]
    off = (found["leaders"] - found["expected"]).abs()
    within = 100 * (off <= 2 * found["deviation"] / np.sqrt(found["runs"])).mean()
    worst = found.loc[(off / found["expected"]).idxmax()]
    where, longest = (
        table.loc[table["late"].idxmax()],
        table.loc[table["longest"].idxmax()],
    )
    power, fit = law(table)
    return [
        (
            f"{runs.sum():,} runs;"
            f" {100 * np.average(table['certified'], weights=runs):.2f} % were proved"
            " in 1,000 layers."
        ),
        (
            "The expected number at layer 0 predicts the mean final number to within"
            f" the error of these runs: {within:.0f} % of the {len(found)} means are"
            " within two standard errors of it. The largest deviation is"
            f" {worst['leaders']:.2f} instead of {worst['expected']:.2f}"
            f" ({_setting(worst)})."
        ),
        (
            "It is a lower bound, and a strict one if leaders can emerge later. They"
            f" do in {100 * np.average(table['late'], weights=runs):.2f} % of the runs,"
            f" and at most in {100 * where['late']:.1f} % of the runs of a setting"
            f" ({_setting(where)}, alpha = {where['alpha']})."
        ),
        (
            "Layers until the limit is certified fall like 1 / log(1 +"
            f" alpha)^{power:.2f}; this exponent explains {100 * fit:.0f} % of the"
            " variance of their logarithms over alpha."
        ),
        f"They grow with n and, once most tokens lead, fall with d: {_grown(table)}.",
        (
            f"The longest run took {longest['longest']} layers ({_setting(longest)},"
            f" alpha = {longest['alpha']})."
        ),
    ]


def _grown(table: "DataFrame") -> str:
    """Mean layers over n at one alpha, for each d."""
    some = table[
        (table["tokens"] == "gaussian")
        & (table["alpha"] == 0.5)
        & table["n"].isin([10, 100, 1000])
    ]
    layers = some.pivot(index="d", columns="n", values="layer")
    each = [
        f"{', '.join(f'{layer:.1f}' for layer in row)} (d = {d})"
        for d, row in layers.iterrows()
    ]
    return (
        "for Gaussian tokens, alpha = 0.5 and n = 10, 100, 1,000 they are"
        f" {', '.join(each)}"
    )


def _setting(row: Any) -> str:
    return f"{row['tokens']}, n = {row['n']}, d = {row['d']}"


STUDY = Study("leaders", "leaders", GRID, keep, draw, facts)
