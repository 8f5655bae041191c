"""A file of texts that a visitor sends: checked, read, answered, and given back as CSV."""

import csv
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hardmax._errors import InputError, MissingExtra, ParameterError
from hardmax.app.problems import in_words, keep_followable
from hardmax.app.review_accounts import named
from hardmax.app.review_texts import towards
from hardmax.text.explanation import Explanation, explain_many
from hardmax.text.files import escape_formula
from hardmax.text.model import Model
from hardmax.text.tables import TextTable, read_texts

MOST_BYTES = 20_000_000
MOST_UNPACKED = 100_000_000  # bytes of an Excel file without its packing
MOST_ROWS = 5_000
TAKEN = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt", ".xlsx")  # the others unpack to any size
STRONGEST = 3  # words of a row
AT_A_TIME = 200  # texts, after which others have their turn
HEAD = ("row", "text", "answer", "probability", "strongest words", "known")


class Row(NamedTuple):
    """What the model says of one text of a file."""

    number: int
    text: str
    label: str  # as the model has it
    probability: float
    strongest: tuple[tuple[str, float], ...]  # words with their part of the logit for the answer
    known: bool  # whether it has a known word; without one the bias alone decides

    @property
    def words(self) -> str:
        return ", ".join(f"{word} {value:+.2f}" for word, value in self.strongest) if self.known else "no known word"


@dataclass(frozen=True)
class Answers:
    """Answers to all texts of a file."""

    name: str
    rows: tuple[Row, ...]
    note: str = ""  # on what was guessed to read it

    def __str__(self) -> str:
        counts = {label: sum(row.label == label for row in self.rows) for label in sorted({r.label for r in self.rows})}
        answers = ", ".join(f"{count:,} {named(label)}" for label, count in counts.items())
        unknown = sum(not row.known for row in self.rows)
        blank = f" {unknown:,} of them have no known word." if unknown else ""
        plural = "s" if len(self.rows) > 1 else ""
        return f"{self.name} holds {len(self.rows):,} text{plural}: {answers}.{blank} {self.note}".rstrip()

    def to_csv(self) -> str:
        """A line for each text."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEAD)
        for row in self.rows:
            known = "yes" if row.known else "no"
            cells = (row.number, row.text, row.label, f"{row.probability:.6f}", row.words, known)
            writer.writerow(map(escape_formula, cells))
        return out.getvalue()


def texts_of(name: str, data: bytes, column: str = "") -> TextTable:
    """The texts of a file that was sent, in the column named, or a sentence that calls the file as its owner does."""
    shown, ending = Path(name).name or "The file", Path(name).suffix.lower()
    if ending not in TAKEN:
        raise ParameterError("file", f"end in {', '.join(TAKEN)}", repr(shown), "Save it as CSV.")
    if len(data) > MOST_BYTES:
        must, got = f"have at most {MOST_BYTES // 10**6} MB", f"{len(data) / 1e6:.1f} MB"
        raise ParameterError("file", must, got, "Split it, or use the command hardmax predict.")
    if ending == ".xlsx":
        _check_unpacked(shown, data)
    with TemporaryDirectory() as folder:
        path = Path(folder, f"texts{ending}")
        path.write_bytes(data)
        try:
            table = read_texts(path, text=column.strip() or None, labelled=False)
        except InputError as problem:
            raise InputError(in_words(problem).replace(str(path), shown)) from None
        except MissingExtra as problem:
            raise InputError(str(problem)) from None
    table = replace(table, guessed=table.guessed.replace(str(path), shown))
    if len(table.texts) > MOST_ROWS:
        got, advice = f"{len(table.texts):,}", "Split it, or use the command hardmax predict."
        raise ParameterError("file", f"hold at most {MOST_ROWS:,} texts", got, advice)
    return table


def _check_unpacked(shown: str, data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            size = sum(part.file_size for part in packed.infolist())
    except zipfile.BadZipFile:
        raise InputError(f"{shown} must be an Excel file. It is something else. Save it again as .xlsx.") from None
    if size > MOST_UNPACKED:
        must = f"have at most {MOST_UNPACKED // 10**6} MB when unpacked"
        raise ParameterError("file", must, f"{size / 1e6:.0f} MB", "Save it as CSV, in several files.")


def answered(model: Model, name: str, table: TextTable, progress: Callable[[int, int], None] | None = None) -> Answers:
    """Answers to the texts of a table; `progress` is called with how many are done of how many."""
    rows: list[Row] = []
    for start in range(0, len(table.texts), AT_A_TIME):
        rows += _rows(explain_many(model, table.texts[start : start + AT_A_TIME]), start + 1)
        if progress is not None:
            progress(len(rows), len(table.texts))
    note = keep_followable(table.note, lambda name, value: None).replace("`", "")
    return Answers(Path(name).name, tuple(rows), note)


def _rows(explanations: list[Explanation], first: int) -> Iterator[Row]:
    for number, found in enumerate(explanations, first):
        values = [(mark.word, towards(found, mark.contribution)) for mark in found.highlights]
        strongest = tuple(sorted(values, key=lambda pair: -abs(pair[1]))[:STRONGEST])
        known = bool(len(found.ids))
        yield Row(number, found.text, str(found.prediction), found.probability, strongest if known else (), known)
