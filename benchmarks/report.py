"""Results as files: JSON that keeps every number, and Markdown tables between the marks
of a page.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.machine import machine, results_files
from benchmarks.registry import Result, Row
from hardmax._errors import ParameterError
from hardmax._files import written_whole

BEGIN, GPU, END = (
    "<!-- made by python -m benchmarks -->",
    "<!-- made by python -m benchmarks gpu -->",
    "<!-- end -->",
)
FLOWS = "<!-- made by python -m benchmarks flows -->"
COLUMNS = ("method", "best ms", "peak MB", "times as fast", "target", "reached?")
Document = dict[str, Any]  # the machine and its cases


def number(value: float) -> str:
    """Return three significant digits without an exponent: 0.0123, 1.23, 12,300."""
    if value == 0 or abs(value) < 1e-9:
        return f"{value:.3g}"
    return f"{float(f'{value:.3g}'):,.10f}".rstrip("0").rstrip(".")


def cell(value: Any) -> str:
    """Return a value as the text of a cell."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)


def lines(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], text: Sequence[str] = ()
) -> str:
    """Return a Markdown table. The first column and those named in `text` are
    left-aligned.
    """
    rule = "".join("---|" if name in text else "---:|" for name in columns[1:])
    return "\n".join(
        [
            f"| {' | '.join(columns)} |",
            f"|---|{rule}",
            *(f"| {' | '.join(map(cell, row))} |" for row in rows),
        ]
    )


def table(
    rows: Iterable[Any],
    columns: Mapping[str, str | Callable[[Any], Any]],
    text: Sequence[str] = (),
) -> str:
    """Return a Markdown table of rows; a column is a heading with a key of the rows, or
    a function of a row.
    """
    read = [
        value if callable(value) else lambda row, key=value: row.get(key)
        for value in columns.values()
    ]
    return lines(
        list(columns), ([function(row) for function in read] for row in rows), text
    )


def with_machine(found: Document, text: str) -> str:
    """Return a table below the facts of the machine and the date."""
    facts = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    date = f" on {found['date']}" if "date" in found else ""
    return f"Measured{date}: {facts}.\n\n{text}"


def read(path: Path) -> Document:
    """Read a file of cases."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = {}
    if not isinstance(found, dict) or not {"machine", "cases"} <= found.keys():
        raise ParameterError(
            path,
            "be a file of python -m benchmarks",
            "something else",
            "Name another file.",
        )
    return found


def write(values: Document, path: Path) -> None:
    """Write JSON, completely or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(
            json.dumps(values, indent=1, allow_nan=False) + "\n", encoding="utf-8"
        )


def merge(results: list[Result], path: Path) -> Document:
    """Return the results, with the other cases of the file."""
    new = {result.name: asdict(result) for result in results}
    old = read(path)["cases"] if path.exists() else []
    kept = [new.pop(case["name"], case) for case in old]
    return {"machine": machine(), "cases": [*kept, *new.values()]}


def check_same_machine(path: Path) -> None:
    """Raise an error if a file has results of another machine or of other versions."""
    if path.exists() and (before := read(path)["machine"]) != machine():
        here = machine()
        changed = [
            f"{key} {before.get(key, 'unknown')}"
            for key in here | before
            if before.get(key) != here.get(key)
        ]
        must = "be a new file, or one from this machine with these versions"
        raise ParameterError(
            "out",
            must,
            f"{path}, measured with {', '.join(changed)}",
            "Name another file.",
        )


def choose_mark(out: Path) -> str:
    """Return the mark of the table of a file of results."""
    return FLOWS if out.stem == "flows" else BEGIN


def fill(text: str, new: str, begin: str = BEGIN) -> str:
    """Return the text of a page with a table between its marks."""
    if text.count(begin) != 1 or END not in text.partition(begin)[2]:
        raise ParameterError(
            "markdown",
            f"be a file with the marks {begin} and {END}",
            "one without",
            "Add them.",
        )
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{new}\n{END}{rest.partition(END)[2]}"


def fill_file(path: Path, new: str, begin: str = BEGIN) -> None:
    """Write a table between the marks of a page."""
    text = fill(path.read_text(encoding="utf-8"), new, begin)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def documents(path: Path) -> list[Document]:
    """Read the results of each kind of machine."""
    return [read(each) for each in results_files(path)]


def kind(document: Document) -> str:
    """Return the vector instructions of a document in one word."""
    return str(document["machine"].get("instructions", "native").partition(" (")[0])


def cases_by_name(document: Document) -> dict[str, Result]:
    """Return the cases of a document."""
    return {case["name"]: Result.from_dict(case) for case in document["cases"]}


def milliseconds(row: Row | None) -> float | None:
    """Return the milliseconds of the best run."""
    return None if row is None or row.seconds is None else 1e3 * row.seconds


def times(row: Row | None) -> str | float | None:
    """Return how many times as fast ours is, or the text that stands in its place."""
    return None if row is None else row.measured or row.ratio


def verdict(reached: Mapping[str, bool | None]) -> str:
    """Return whether a target was reached, by kind of machine where they differ."""
    words = {True: "reached", False: "missed", None: "not measured"}
    values = set(reached.values())
    if len(values) == 1:
        return words[values.pop()] if values != {None} else ""
    return ", ".join(f"{words[each]} with {kind}" for kind, each in reached.items())


def row_cells(rows: Sequence[Row | None], kinds: Sequence[str]) -> list[Any]:
    """Return the cells of a method that was measured on each kind of machine."""
    there = [row for row in rows if row]
    peaks = [row.peak for row in there if row.peak is not None]
    return [
        " / ".join(dict.fromkeys(row.label for row in there)),
        *map(milliseconds, rows),
        f"{max(peaks):.0f}" if peaks else "",
        *map(times, rows),
        there[0].target,
        verdict(
            {
                each: row.reached if row else None
                for each, row in zip(kinds, rows, strict=True)
            }
        ),
    ]


def markdown(found: Sequence[Document]) -> str:
    """Return the table of all cases: a line for each case, and one for each of its
    methods.
    """
    kinds, by_kind = (
        [kind(document) for document in found],
        [cases_by_name(document) for document in found],
    )
    many = len(kinds) > 1
    best, ratio = (
        [f"{name}, {each}" if many else name for each in kinds]
        for name in (COLUMNS[1], COLUMNS[3])
    )
    head, body = ["method", *best, "peak MB", *ratio, *COLUMNS[4:]], list[list[Any]]()
    for name in dict.fromkeys(name for cases in by_kind for name in cases):
        measured = [cases.get(name) for cases in by_kind]
        title = next(case.title for case in measured if case)
        refused = [case.refused if case else "" for case in measured]
        body.append(
            [f"**`{name}`** {title}", *[""] * (len(kinds) + 1), *refused, "", ""]
        )
        rows = [
            {row.method: row for row in case.rows} if case else {} for case in measured
        ]
        for method in dict.fromkeys(method for each in rows for method in each):
            body.append(row_cells([each.get(method) for each in rows], kinds))
    before: dict[str, str] = {}
    facts = []
    for document in found:
        new = {
            key: value
            for key, value in document["machine"].items()
            if before.get(key) != value
        }
        dates = " and ".join(sorted({case["date"] for case in document["cases"]}))
        words = ", ".join(f"{key} {value}" for key, value in new.items())
        facts.append(
            f"{'Then measured' if before else 'Measured'} on {dates}: {words}."
        )
        before |= document["machine"]
    return "\n".join([*facts, "", lines(head, body, ("reached?",))])
