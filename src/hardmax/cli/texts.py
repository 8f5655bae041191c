"""Options and functions that the commands on texts share."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax._errors import InputError, ParameterError
from hardmax.cli import output
from hardmax.cli.options import option
from hardmax.text.tables import TextTable, read_texts

if TYPE_CHECKING:
    from hardmax.text.classifier import HardmaxClassifier

Encoder = Annotated[
    str | None,
    option(
        "--encoder",
        "Folder of the encoder that the model was trained with; minilm is found.",
        metavar="FOLDER",
    ),
]

Model = Annotated[
    str,
    option(
        "--model",
        "Folder of a model, or the name of a shipped one: imdb or imdb-2d.",
        metavar="MODEL",
    ),
]


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Options for reading a file of texts."""

    text: Annotated[
        str | None,
        typer.Option(
            "--text",
            "--column",
            help="Column of texts; guessed if left out.",
            metavar="COLUMN",
        ),
    ] = None
    delimiter: Annotated[
        str | None, option("--delimiter", "One character or tab; detected if left out.")
    ] = None
    encoding: Annotated[
        str | None,
        option("--encoding", "Encoding, such as latin-1; detected if left out."),
    ] = None
    sheet: Annotated[
        str | None,
        option("--sheet", "Sheet of .xlsx; the first if left out.", metavar="NAME"),
    ] = None

    def read_file(self, path: str, **more: Any) -> TextTable:
        """Return the texts of a file."""
        how: dict[str, Any] = {
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "sheet": self.sheet,
        }
        return read_texts(path, text=self.text, **how, **more)


@dataclass(frozen=True, kw_only=True)
class LabelledOptions(FileOptions):
    """Options of texts with labels: a file, or a data set by its name."""

    path: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="A .csv, .tsv, .jsonl, .parquet or .xlsx file of texts.",
        ),
    ] = None
    label: Annotated[
        str | None,
        option("--label", "Column of labels; guessed if left out.", metavar="COLUMN"),
    ] = None
    labels: Annotated[
        str | None,
        option(
            "--labels",
            "Columns of 0 and 1, one per label, for several per text.",
            metavar="A,B,C",
        ),
    ] = None
    separator: Annotated[
        str | None,
        option(
            "--separator",
            "Character between several labels in a cell of --label.",
            metavar="TEXT",
        ),
    ] = None
    data: Annotated[
        str | None,
        option(
            "--data",
            "Data set instead of FILE: imdb, film reviews, downloaded once (84 MB).",
            metavar="NAME",
        ),
    ] = None
    source: Annotated[
        str | None,
        option("--data-source", "Archive or folder with --data.", metavar="PATH"),
    ] = None

    @property
    def name(self) -> str:
        return str(self.path or self.data)

    @property
    def label_columns(self) -> list[str]:
        """Return the columns of several labels per text."""
        return split_names(self.labels or "")

    def read(
        self, split: str, *, values: Collection[str] = (), **columns: str | None
    ) -> TextTable:
        """Return texts and labels of FILE, with further columns by their kinds, or of a
        split of --data.
        """
        # Raises for a missing extra before a download.
        from hardmax.text import HardmaxClassifier  # noqa: F401

        if (self.path is None) == (self.data is None):
            got = (
                "neither" if self.path is None else f"both, {self.path} and {self.data}"
            )
            raise InputError(
                f"Either FILE or --data must be given. Got {got}. Pass a .csv file, or"
                " --data imdb."
            )
        if self.data not in (None, "imdb"):
            raise ParameterError(
                "data", "be imdb", f"{self.data!r}", "Pass other data as FILE."
            )
        every = asdict(self) | columns | {"columns": ",".join(values) or None}
        others, owner = (
            ({"source"}, "--data")
            if self.data is None
            else (every.keys() - {"data", "source"}, "FILE")
        )
        for name, value in every.items():
            if value is not None and name in others:
                raise ParameterError(
                    name,
                    f"be used with {owner}",
                    f"{value!r} without it",
                    "Leave it out.",
                )
        if self.path is not None:
            columns |= {"label": self.label, "separator": self.separator}
            return self.read_file(
                self.path, values=values, labels=self.label_columns, **columns
            )
        from hardmax.text.datasets import load_imdb

        with output.progress_bar("Megabytes") as bar:
            splits = load_imdb(
                source=self.source,
                progress=lambda n, total: bar(n // 10**6, (total or n) // 10**6),
            )
        return splits[split]


def split_names(text: str) -> list[str]:
    """Return names that are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def load(model: str, encoder: str | None = None) -> "HardmaxClassifier":
    """Return a model from its folder, or one inside the package."""
    from hardmax.text import HardmaxClassifier

    return HardmaxClassifier.load(model, encoder=encoder)
