"""Results as files: JSON that keeps every number, and pages with tables between marks."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.results import Result
from hardmax._errors import ParameterError
from hardmax._files import written_whole

BEGIN, GPU, END = "<!-- made by python -m benchmarks -->", "<!-- made by python -m benchmarks gpu -->", "<!-- end -->"


def document(results: Iterable[Result]) -> dict[str, Any]:
    """Facts about the machine, and every case."""
    return {"machine": machine(), "cases": [result.to_dict() for result in results]}


def merged(results: list[Result], path: Path) -> dict[str, Any]:
    """The results, with those of cases that an earlier run on the same machine left in the file."""
    new = {result.name: result for result in results}
    old = read(path)["cases"] if path.exists() else []
    return document([new.pop(case["name"], Result.from_dict(case)) for case in old] + list(new.values()))


def check_same_machine(path: Path) -> None:
    """Refuse to mix the numbers of two machines, before any work is done."""
    if path.exists() and (before := read(path)["machine"]) != machine():
        here = machine()
        changed = [f"{key} {before.get(key, 'unknown')}" for key in here | before if before.get(key) != here.get(key)]
        raise ParameterError(
            "out",
            "be a new file, or one from this machine with these versions",
            f"{path}, measured with {', '.join(changed)}",
            "Name another file, or remove this one.",
        )


def read(path: Path) -> dict[str, Any]:
    """What `write` wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = {}
    if not isinstance(found, dict) or not {"machine", "cases"} <= found.keys():
        raise ParameterError(path, "be a file of python -m benchmarks", "something else", "Name another file.")
    return found


def write(values: dict[str, Any], path: Path) -> None:
    """Write JSON, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(values, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def fill(text: str, table: str, begin: str = BEGIN) -> str:
    """Text with the table between its marks."""
    if text.count(begin) != 1 or END not in text.partition(begin)[2]:
        raise ParameterError("markdown", f"be a file with the marks {begin} and {END}", "one without", "Add them.")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{table}\n{END}{rest.partition(END)[2]}"


def fill_all(text: str, tables: Mapping[str, Callable[[], str]], command: str) -> str:
    """Text with every table after the mark that has its name."""
    for name, table in tables.items():
        text = fill(text, table(), f"<!-- made by python -m {command}: {name} -->")
    return text
