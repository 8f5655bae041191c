"""Options and functions that the commands on texts share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray, IntArray
from hardmax.app.problems import respell
from hardmax.cli import output
from hardmax.cli.options import option

if TYPE_CHECKING:
    from hardmax.text.classifier import HardmaxClassifier
    from hardmax.text.tables import TextTable

BATCH = 500  # texts between two updates of the progress bar

DataSource = Annotated[str | None, option("--data-source", "Archive or folder with a copy of --data.", metavar="PATH")]
Model = Annotated[
    str, option("--model", "Folder of a model, or the name of a shipped one: imdb or imdb-2d.", metavar="MODEL")
]


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Options for reading a file of texts."""

    text: Annotated[
        str | None,
        typer.Option("--text", "--column", help="Column of texts; guessed if left out.", metavar="COLUMN"),
    ] = None
    delimiter: Annotated[
        str | None, option("--delimiter", "Delimiter of CSV, one character or tab; detected if left out.")
    ] = None
    encoding: Annotated[
        str | None, option("--encoding", "Encoding, such as utf-8 or latin-1; detected if left out.")
    ] = None
    sheet: Annotated[str | None, option("--sheet", "Sheet of an .xlsx file; the first by default.", metavar="NAME")] = (
        None
    )

    def read_file(self, path: str, **more: Any) -> "TextTable":
        """Return the texts of a file."""
        from hardmax.text.tables import read_texts

        how: dict[str, Any] = {"delimiter": self.delimiter, "encoding": self.encoding, "sheet": self.sheet}
        return read_texts(path, text=self.text, **how, **more)


@dataclass(frozen=True, kw_only=True)
class LabelledOptions(FileOptions):
    """Options of texts with labels: a file, or a data set by its name."""

    path: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A .csv, .tsv, .jsonl, .parquet or .xlsx file of texts.")
    ] = None
    label: Annotated[str | None, option("--label", "Column of labels; guessed if left out.", metavar="COLUMN")] = None
    data: Annotated[
        str | None,
        option(
            "--data", "Data set instead of FILE: imdb, 50,000 film reviews, downloaded once (84 MB).", metavar="NAME"
        ),
    ] = None
    source: DataSource = None

    @property
    def of_file(self) -> tuple[str, ...]:
        """Return the names of the options that go with FILE."""
        return ("text", "label", "delimiter", "encoding", "sheet")

    @property
    def name(self) -> str:
        return str(self.path or self.data)

    def read(self, split: str) -> "TextTable":
        """Return texts and labels of FILE, or of a split of --data."""
        from hardmax.text import HardmaxClassifier  # noqa: F401 (raises for a missing extra before a download)

        if (self.path is None) == (self.data is None):
            got = "neither" if self.path is None else f"both, {self.path} and {self.data}"
            raise InputError(f"Either FILE or --data must be given. Got {got}. Pass a .csv file, or --data imdb.")
        if self.data not in (None, "imdb"):
            raise ParameterError("data", "be imdb", f"{self.data!r}", "Pass other data as FILE.")
        others, owner = (self.of_file, "FILE") if self.path is None else (("source",), "--data")
        for name in others:
            if getattr(self, name) is not None:
                raise ParameterError(
                    name, f"be used with {owner}", f"{getattr(self, name)!r} without it", "Leave it out."
                )
        if self.path is None:
            return imdb(self.source)[split]
        return self.read_file(self.path, **self.columns())

    def columns(self) -> dict[str, str | None]:
        """Return the columns that are read beside the texts."""
        return {"label": self.label}


def note_what_was_read(table: "TextTable") -> None:
    """Print what was guessed or left out when reading a table."""
    if table.note:
        output.note(respell(table.note, output.spell))


def load(model: str) -> "HardmaxClassifier":
    """Return a model from its folder, or one inside the package."""
    from hardmax.text import HardmaxClassifier

    return HardmaxClassifier.load(model)


def imdb(source: str | None) -> "dict[str, TextTable]":
    """Return both splits of IMDb, with a progress bar for the download."""
    from hardmax.text.datasets import load_imdb

    with output.progress_bar("Megabytes") as progress:

        def moved(done: int, total: int | None) -> None:
            progress(done // 10**6, (total or done) // 10**6)

        return load_imdb(source=source, progress=moved)


def score_texts(classifier: "HardmaxClassifier", texts: Sequence[str]) -> tuple[FloatArray, IntArray]:
    """Return (texts, outputs) logits and (texts,) counts of known tokens, with a progress bar."""
    parts = []
    with output.progress_bar("Texts") as progress:
        for start in range(0, len(texts), BATCH):
            parts.append(classifier.model_.score(texts[start : start + BATCH]))
            progress(min(start + BATCH, len(texts)), len(texts))
    logits, known = zip(*parts, strict=True)
    return np.concatenate(logits), np.concatenate(known)


def sample_texts(texts: Sequence[str], count: int) -> list[str]:
    """Return at most `count` texts at regular distances, as a file may be sorted by label."""
    return list(texts[:: max(1, -(-len(texts) // count))])
