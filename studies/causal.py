"""How do leaders and limits differ between causal and full attention? Over n, d and
alpha, on the same tokens.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import hardmax as hm
from hardmax._types import Progress
from studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRID = {"alpha": [0.1, 0.5, 1.0, 5.0], "n": [8, 16, 32, 64, 128], "d": [2, 3, 4, 8]}
BY, DRAWS = ["alpha", "n", "d"], 626  # token sets per cell, each with both masks
MASKS = {"full": False, "causal": True}


def compare(alpha: float, n: int, d: int, draws: int = DRAWS) -> dict[str, Any]:
    """Return means over token sets of one cell; equal seeds give equal tokens for all
    alpha.
    """
    batch = np.random.default_rng([n, d]).normal(size=(draws, n, d))
    rules = {
        name: hm.Hardmax(Fraction(str(alpha)), causal=causal)
        for name, causal in MASKS.items()
    }
    limits = {name: hm.limit(batch, rule) for name, rule in rules.items()}
    row: dict[str, Any] = {"alpha": alpha, "n": n, "d": d, "runs": 2 * draws}
    leads = {name: np.zeros((draws, n), bool) for name in limits}
    for name, found in limits.items():
        for lead, limit in zip(leads[name], found, strict=True):
            lead[limit.leaders] = True
        layers = [limit.layer for limit in found]
        sizes = [
            np.bincount(limit.clusters[limit.clusters >= 0]).max() / n
            for limit in found
        ]
        row |= {
            f"certified_{name}": sum(limit.certified for limit in found),
            f"leaders_{name}": leads[name].sum(axis=1).mean(),
            f"median_layer_{name}": np.median(layers),
            f"latest_layer_{name}": max(layers),
            f"largest_{name}": np.mean(sizes),
        }
    # Each coordinate is rounded once from its exact value.
    same = [
        (full.tokens == causal.tokens).all(axis=1)
        for full, causal in zip(limits["full"], limits["causal"], strict=True)
    ]
    in_both = leads["full"] & leads["causal"]
    row |= {
        "same_limit": np.mean(same),
        "full_leaders_that_lead": in_both.sum() / leads["full"].sum(),
        "early_leaders": leads["causal"][:, : n // 2].sum() / leads["causal"].sum(),
    }
    return row


@dataclass(frozen=True)
class CausalStudy(Study):
    """A study that takes all token sets of a cell in two batches."""

    def run(
        self, out: Path, progress: Progress | None = None, **options: Any
    ) -> pd.DataFrame:
        """Write each cell into a folder, so that a run that was stopped can be
        continued.
        """
        out.mkdir(parents=True, exist_ok=True)
        cells, rows = (
            [
                (alpha, n, d)
                for n in GRID["n"]
                for d in GRID["d"]
                for alpha in GRID["alpha"]
            ],
            [],
        )
        for number, cell in enumerate(cells):
            file = out / "-".join(map(str, cell))
            if not file.exists():
                pd.Series(compare(*cell)).to_json(
                    file.with_suffix(".part"), double_precision=15
                )
                file.with_suffix(".part").rename(file)
            rows.append(pd.read_json(file, typ="series"))
            if progress is not None:
                progress(number + 1, len(cells))
        return self.keep(pd.DataFrame(rows))


def keep(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in order; counts are integers."""
    whole = {
        name: int
        for name in rows
        if name in ("n", "d", "runs") or name.startswith(("certified", "latest"))
    }
    return rows.astype(whole).sort_values(BY).round(5)


def draw(table: pd.DataFrame) -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
    for number, d in enumerate(GRID["d"]):
        some = table[(table["alpha"] == 0.5) & (table["d"] == d)]
        left.plot(
            some["n"],
            some["leaders_causal"],
            "o-",
            ms=4,
            lw=1.3,
            color=COLOURS[number],
            label=f"d = {d}",
        )
        left.plot(
            some["n"],
            some["leaders_full"],
            "s--",
            ms=4,
            lw=1.3,
            mfc="none",
            color=COLOURS[number],
        )
        right.plot(
            some["n"],
            100 * some["same_limit"],
            "o-",
            ms=4,
            lw=1.3,
            color=COLOURS[number],
            label=f"d = {d}",
        )
    left.set(
        xscale="log",
        yscale="log",
        xlabel="n",
        ylabel="leaders, mean",
        title="causal (solid), full (dashed)",
    )
    right.set(
        xscale="log",
        ylim=(0, 100),
        xlabel="n",
        ylabel="tokens, %",
        title="same limit under both masks",
    )
    left.legend(fontsize=8)
    return figure


def facts(table: pd.DataFrame) -> list[str]:
    half = table[table["alpha"] == 0.5]
    certified = table["certified_full"].sum() + table["certified_causal"].sum()
    latest = ", ".join(
        f"{table[f'latest_layer_{name}'].max()} ({name})" for name in MASKS
    )
    lines = [
        f"{table['runs'].sum():,} runs, {certified:,} of them certified. The latest"
        f" layer is {latest}."
    ]
    for d in GRID["d"]:
        some = half[half["d"] == d]
        pairs = zip(
            some["n"], some["leaders_full"], some["leaders_causal"], strict=True
        )
        lines.append(
            f"Leaders for d = {d}, alpha = 0.5, full and causal: "
            + ", ".join(
                f"{full:.1f} and {causal:.1f} (n = {n})" for n, full, causal in pairs
            )
            + "."
        )
    for d in GRID["d"]:
        some = half[half["d"] == d]
        parts = [
            f"{100 * share:.0f} % (n = {n})"
            for n, share in zip(some["n"], some["same_limit"], strict=True)
        ]
        lines.append(
            f"Tokens with the same limit under both masks, d = {d}, alpha = 0.5:"
            f" {', '.join(parts)}."
        )
    plane = table[(table["d"] == 2) & (table["n"] == GRID["n"][-1])]
    for name in MASKS:
        columns = (
            plane["alpha"],
            plane[f"leaders_{name}"],
            plane[f"median_layer_{name}"],
            plane[f"largest_{name}"],
        )
        parts = [
            f"{k:.1f}, {m:g}, {100 * s:.0f} % (alpha = {a:g})"
            for a, k, m, s in zip(*columns, strict=True)
        ]
        lines.append(
            f"Leaders, median layer and largest cluster, {name}, n = 128, d = 2:"
            f" {', '.join(parts)}."
        )
    kept, early = (
        table["full_leaders_that_lead"].min(),
        half[half["n"] == GRID["n"][-1]]["early_leaders"].mean(),
    )
    lines.append(
        f"In every cell at least {100 * kept:.1f} % of the leaders under full attention"
        " lead under the causal mask."
    )
    lines.append(
        f"For n = {GRID['n'][-1]}, alpha = 0.5, {100 * early:.0f} % of causal leaders"
        " are in the first half."
    )
    return lines


STUDY = CausalStudy("causal", "", GRID, keep, draw, facts)
