"""What a study is: a sweep, the small table that is kept of it, a picture, and the
facts that its page states.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hardmax as hm

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

DOCS = Path(__file__).parents[1] / "docs"


@dataclass(frozen=True)
class Study:
    """One question."""

    name: str
    cell: str  # built-in cell of `hm.sweep`
    grid: Mapping[str, Any]
    keep: Callable[
        ["DataFrame"], "DataFrame"
    ]  # rows of the sweep to the table that is kept
    draw: Callable[["DataFrame"], "Figure"]
    facts: Callable[
        ["DataFrame"], list[str]
    ]  # sentences with the numbers that the page states

    @property
    def table(self) -> Path:
        return DOCS / "studies" / f"{self.name}.csv"

    @property
    def picture(self) -> Path:
        return DOCS / "images" / f"study-{self.name}.png"

    @property
    def page(self) -> Path:
        return DOCS / "studies" / f"{self.name}.md"

    @property
    def mark(self) -> str:
        """The line of the page after which the facts stand."""
        return f"<!-- made by python -m studies {self.name} -->"

    def run(self, out: Path, **options: Any) -> "DataFrame":
        """Return the table of a sweep that is started or continued in a folder."""
        rows = hm.sweep(self.cell, self.grid, out=out, **options).to_frame()
        return self.keep(rows[rows["error"].isna()])


def shares(rows: "DataFrame", by: list[str], column: str) -> "DataFrame":
    """How often each value of a column occurs, as shares of the runs with the same
    parameters, and their number.
    """
    import pandas as pd

    counted = pd.crosstab(
        [rows[name] for name in by], rows[column], normalize="index"
    ).round(5)
    counted.insert(0, "runs", rows.groupby(by).size())
    return counted.reset_index().rename_axis(columns=None)
