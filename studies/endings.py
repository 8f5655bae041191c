"""What happens where A is not symmetric, or not definite? Shares of clusters,
consensus, cycles.
"""

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from studies.study import Study, shares

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

KINDS = [
    "identity",
    "definite",
    "skew",
    "indefinite",
    "gaussian",
    "rank-one",
    "minus-identity",
]
GRID = {
    "A": KINDS,
    "d": [2, 3, 8],
    "n": [2, 3, 5, 10, 20, 50],
    "alpha": [0.1, 0.5, 2.0],
    "seed": range(270),
}
BY = ["A", "d", "n", "alpha"]
CONSENSUS = [
    ([[-1]], [[-1], [1]]),
    ([[1, -2], [2, 1]], [[1, 0], [0, 1]]),
]  # A, and two tokens
ENDINGS = ["clusters", "consensus", "cycle", "unsettled"]


def keep(rows: "DataFrame") -> "DataFrame":
    """Return the shares of the endings, and the final number of clusters."""
    found = shares(rows, BY, "ending").reindex(
        columns=[*BY, "runs", *ENDINGS], fill_value=0.0
    )
    return found.merge(
        rows.groupby(BY)["clusters"]
        .mean()
        .round(4)
        .rename("mean_clusters")
        .reset_index(),
        on=BY,
    )


def smallest_cycle() -> tuple[int, list[list[int]], list[list[int]], int]:
    """The first cycle among small integers: n, A, tokens, and its length, with alpha =
    1 and exact arithmetic.

    Positions are doubled in every layer, which changes no set, so that they stay whole:
    z + c in place of (z + c) / 2. A cycle is one of directions: positions that come
    back up to a positive factor.
    """
    values = (-1, 0, 1)
    for n in (1, 2, 3):
        for A in product(values, repeat=4):
            matrix = np.array(A, dtype=object).reshape(2, 2)
            for tokens in product(values, repeat=2 * n):
                length = _cycle(matrix, np.array(tokens, dtype=object).reshape(n, 2))
                if length:
                    return (
                        n,
                        matrix.tolist(),
                        np.array(tokens).reshape(n, 2).tolist(),
                        length,
                    )
    raise LookupError


def _cycle(A: np.ndarray, z: np.ndarray, layers: int = 24) -> int:
    """The length of a cycle of directions that a run enters within some layers; 0 for
    none, or a tie on the way.
    """
    seen: list[tuple[int, ...]] = []
    for _ in range(layers):
        products = (z @ A.T) @ z.T
        best = products == products.max(axis=1, keepdims=True)
        if (best.sum(axis=1) > 1).any():
            return 0
        z = z + z[best.argmax(axis=1)]
        factor = int(np.gcd.reduce(z.ravel()))
        if factor == 0:
            return 0
        shape = tuple((z // factor).ravel().tolist())
        if shape in seen:
            return (
                len(seen) - seen.index(shape)
                if len(seen) - seen.index(shape) > 1
                else 0
            )
        seen.append(shape)
    return 0


def draw(table: "DataFrame") -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    seen = [ending for ending in ENDINGS if table[ending].any()]
    figure, axes = plt.subplots(
        1, 3, figsize=(9.6, 3.8), layout="constrained", sharey=True
    )
    for ax, d in zip(axes, GRID["d"], strict=True):
        some = (
            table[(table["d"] == d) & (table["n"] == 20)]
            .groupby("A")[ENDINGS]
            .mean()
            .reindex(KINDS)
        )
        bottom = np.zeros(len(KINDS))
        for number, ending in enumerate(seen):
            ax.bar(
                range(len(KINDS)),
                some[ending],
                bottom=bottom,
                color=COLOURS[number],
                label=ending,
                width=0.8,
            )
            bottom += some[ending].to_numpy()
        ax.set_xticks(range(len(KINDS)), KINDS, rotation=60, ha="right", fontsize=8)
        ax.set_title(f"d = {d}", fontsize=10)
    axes[0].set_ylabel("share of the runs, n = 20")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=len(seen),
        fontsize=8,
        frameon=False,
    )
    return figure


def facts(table: "DataFrame") -> list[str]:
    def mean(kind: str, column: str) -> float:
        some = table[table["A"] == kind]
        return float(np.average(some[column], weights=some["runs"]))

    n, A, tokens, length = smallest_cycle()
    lines = [f"{table['runs'].sum():,} runs of up to 600 layers."]
    for kind in KINDS:
        found = {ending: 100 * mean(kind, ending) for ending in ENDINGS}
        parts = ", ".join(
            f"{share:.1f} % {ending}"
            for ending, share in found.items()
            if share >= 0.05
        )
        lines.append(
            f"{kind}: {parts}; {mean(kind, 'mean_clusters'):.1f} clusters on average."
        )
    cycles, unsettled = (
        float((table[name] * table["runs"]).sum()) for name in ("cycle", "unsettled")
    )
    lines.append(
        f"{cycles:,.0f} of the runs end in a cycle, {unsettled:,.0f} are unsettled."
        " Cycles exist: the smallest without a tie among integers -1, 0, 1 has n ="
        f" {n}, A = {A}, tokens {tokens} and alpha = 1. The tokens shrink to 0, and"
        f" their directions come back every {length} layers."
    )
    (pushes, apart), (turns, across) = CONSENSUS
    lines.append(
        "Two tokens that both lead for the identity may reach consensus: for A ="
        f" {pushes} the tokens {apart} converge to 0, and for A = {turns} the tokens"
        f" {across} converge to the second."
    )
    return lines


STUDY = Study("endings", "endings", GRID, keep, draw, facts)
