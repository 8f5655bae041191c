"""The Markdown table of recorded cases: one kind of machine, or two side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import report, vectors
from benchmarks.results import COLUMNS, Result, Row, verdict

Document = dict[str, Any]  # of one kind of machine, as `report.read` finds it


def recorded(path: Path) -> list[Document]:
    """What the file holds, and the file of the other kind of machine beside it."""
    return [report.read(each) for each in vectors.files(path)]


def kind(document: Document) -> str:
    """The instructions that were allowed, in a word."""
    return str(document["machine"].get("instructions", "native").partition(" (")[0])


def markdown(documents: Sequence[Document]) -> str:
    """A line for each case, and one for each of its methods."""
    kinds = [kind(document) for document in documents]
    columns = COLUMNS if len(kinds) == 1 else _columns(kinds)
    numbers = len(columns) - 2
    lines = [*_measured(documents), "", f"| {' | '.join(columns)} |", f"|---|{numbers * '---:|'}---|"]
    for cases in _by_name(documents).values():
        title = next(case for case in cases if case)
        refused = " | ".join(case.refused if case else "" for case in cases)
        lines.append(f"| **`{title.name}`** {title.title} |{' |' * (len(kinds) + 1)} {refused} | | |")
        lines += [_line(_cells(rows, kinds)) for rows in _by_method(cases)]
    return "\n".join(lines)


def _columns(kinds: Sequence[str]) -> list[str]:
    best, times = ([f"{name}, {each}" for each in kinds] for name in ("best ms", "times as fast"))
    return ["method", *best, "peak MB", *times, "target", "reached?"]


def _measured(documents: Sequence[Document]) -> list[str]:
    """When and where; of the second kind what is different."""
    lines, before = [], dict[str, str]()
    for document in documents:
        facts = {key: value for key, value in document["machine"].items() if before.get(key) != value}
        dates = sorted({case["date"] for case in document["cases"]})
        words = ", ".join(f"{key} {value}" for key, value in facts.items())
        lines.append(f"{'Then measured' if before else 'Measured'} on {' and '.join(dates)}: {words}.")
        before |= document["machine"]
    return lines


def _by_name(documents: Sequence[Document]) -> dict[str, list[Result | None]]:
    """The cases of each name, one for each document."""
    found = [{case["name"]: Result.from_dict(case) for case in document["cases"]} for document in documents]
    return {name: [cases.get(name) for cases in found] for name in dict.fromkeys(name for one in found for name in one)}


def _by_method(cases: Sequence[Result | None]) -> list[list[Row | None]]:
    """The rows of each method, one for each case."""
    found = [{row.method: row for row in case.rows} if case else {} for case in cases]
    return [[rows.get(name) for rows in found] for name in dict.fromkeys(name for one in found for name in one)]


def _cells(rows: Sequence[Row | None], kinds: Sequence[str]) -> list[str]:
    there = [row for row in rows if row]
    if len(rows) == 1:
        return there[0].cells
    peaks = [row.peak for row in there if row.peak is not None]
    return [
        " / ".join(dict.fromkeys(row.label for row in there)),
        *(row.milliseconds if row else "" for row in rows),
        f"{max(peaks):.0f}" if peaks else "",
        *(row.times if row else "" for row in rows),
        there[0].target,
        verdict({each: row.reached if row else None for each, row in zip(kinds, rows, strict=True)}),
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
