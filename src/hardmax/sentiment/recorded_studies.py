"""Recorded studies of the classifier, and the tables of docs/classifier.md that are made from them.

`python -m hardmax.sentiment.tables_of_results docs/classifier.md` fills a page between its marks. Reading needs nothing
optional; the numbers come from `hardmax study`.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hardmax._files import written_whole

RESULTS = Path(__file__).with_name("results")
PAPER_BEST = {2: 0.791, 4: 0.823, 8: 0.851, 16: 0.882}  # Table 1 of arXiv 2407.01602
END = "<!-- end -->"

Row = dict[str, Any]


def read_results(name: str) -> Any:
    """What was recorded under a name: "paper" and "ablations" are lists of rows, "leaders" is one dictionary."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"The recorded results must be in {path.name}, beside the package's models. It is missing. Reinstall "
            "hardmax."
        )
    return json.loads(path.read_text(encoding="utf-8"))


def by_start(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of the paper's model by the alpha they started from, each in the order of d."""
    starts = dict.fromkeys(row["start"] for row in sorted(rows, key=lambda row: row["alpha"]))
    return {start: sorted((r for r in rows if r["start"] == start), key=lambda r: r["d"]) for start in starts}


def paper_cells(row: Row) -> list[str]:
    """One line of Table 1, with what the paper reports for that d and how long it takes until all is decided."""
    led = row["leaders"]
    return [
        str(row["d"]),
        f"{row['accuracy']:.4f}",
        f"{PAPER_BEST[row['d']]:.3f}",
        f"{row['alpha']:.3f}",
        f"{led['average']:.1f} ± {led['deviation']:.1f}",
        f"{led['min']:.0f} to {led['max']:.0f}",
        f"{led['initial']:.1%}",
        decided(row),
    ]


PAPER_COLUMNS = (
    *("d", "accuracy", "paper", "alpha after training", "leaders of a text", "from, to", "leaders since layer 0"),
    "layers until decided (median, most)",
)
EXPLANATION_COLUMNS = (
    *("method", "comprehensiveness", "sufficiency", "a text", "the same words again", "error of the sum"),
    "AUPRC, F1 with people",
)
ABLATION_COLUMNS = ("variant", "accuracy", "leaders of a text and head", "layers until decided (median, most)")


def paper_table(rows: Sequence[Row]) -> str:
    """Table 1 of arXiv 2407.01602 with our models, a part for each start of alpha."""
    lines = _head(PAPER_COLUMNS)
    for start, some in by_start(rows).items():
        lines.append(f"| **{start}** |{' |' * (len(PAPER_COLUMNS) - 1)}")
        lines += [_line(paper_cells(row)) for row in some]
    return "\n".join(lines)


def ablation_cells(row: Row) -> list[str]:
    """One line of the ablation table; leaders where the variant has any."""
    led = row.get("leaders")
    counts = "" if led is None else f"{led['average']:.1f} ± {led['deviation']:.1f}"
    return [row["variant"], f"{row['accuracy']:.4f}", counts, decided(row)]


def ablation_table(rows: Sequence[Row]) -> str:
    """What each part of the model is worth."""
    return "\n".join(_head(ABLATION_COLUMNS) + [_line(ablation_cells(row)) for row in rows])


def explanation_table(found: Row) -> str:
    """How faithful explanations are, ours and others."""
    people = {row["method"]: row for row in found["agreement"]}
    lines = _head(EXPLANATION_COLUMNS)
    for row in found["rows"]:
        marked = people.get(row["method"])
        cells = [
            row["method"],
            f"{row['comprehensiveness']:.3f}",
            f"{row['sufficiency']:.4f}",
            _milliseconds(row["seconds"]),
            f"{row['same_again']:.2f}",
            "" if row["exact"] is None else f"{row['exact']:.0e}",
            "" if marked is None else f"{marked['auprc']:.3f}, {marked['f1']:.3f}",
        ]
        lines.append(_line(cells))
    return "\n".join(lines)


def _milliseconds(seconds: float) -> str:
    """Three digits, without powers of ten."""
    value = 1000 * seconds
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.2g} ms"


def decided(row: Row) -> str:
    """The layer by which every token of a text has a single leader: the median and the most, where it was reached."""
    if row.get("decided_median") is None:
        return ""
    left = f"; {row['undecided']:.1%} never" if row["undecided"] > 0 else ""
    return f"{row['decided_median']:.0f}, {row['decided_most']}{left}"


TABLES: dict[str, Callable[[Any], str]] = {
    "paper": paper_table,
    "ablations": ablation_table,
    "explanations": explanation_table,
}


def mark(name: str) -> str:
    """The line of a page after which a table begins."""
    return f"<!-- made by hardmax.sentiment.tables_of_results: {name} -->"


def filled(text: str) -> str:
    """A page with each table between its mark and the next end mark."""
    for name, table in TABLES.items():
        before, found, rest = text.partition(mark(name))
        if not found or END not in rest:
            raise ValueError(f"The page must have the marks {mark(name)} and {END}. Got one without. Add them.")
        text = f"{before}{found}\n{table(read_results(name))}\n{END}{rest.partition(END)[2]}"
    return text


def _head(columns: Sequence[str]) -> list[str]:
    return [_line(columns), f"|---|{'---:|' * (len(columns) - 1)}"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    text = filled(page.read_text(encoding="utf-8"))
    with written_whole(page) as temporary:
        temporary.write_text(text, encoding="utf-8")
