"""Studies of the classifier as `hardmax study` recorded them, for figures and docs. They need nothing optional."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
PAPER_BEST = {2: 0.791, 4: 0.823, 8: 0.851, 16: 0.882}  # Table 1 of arXiv 2407.01602

Row = dict[str, Any]


def read_results(name: str) -> Any:
    """What was recorded under a name: "paper" and "ablations" are lists of rows, "leaders" is one dictionary."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"The results must be in {path.name}, beside the models. It is missing. Reinstall hardmax."
        )
    return json.loads(path.read_text(encoding="utf-8"))


def by_start(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of the paper's model by the alpha they started from, each in the order of d."""
    starts = dict.fromkeys(row["start"] for row in sorted(rows, key=lambda row: row["alpha"]))
    return {start: sorted((r for r in rows if r["start"] == start), key=lambda r: r["d"]) for start in starts}
