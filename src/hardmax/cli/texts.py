"""What the commands on texts share: their options, labelled texts, models and answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray
from hardmax.cli import output
from hardmax.cli.options import option

if TYPE_CHECKING:
    from hardmax.sentiment.classifier import HardmaxClassifier
    from hardmax.sentiment.tables import Table

AT_A_TIME = 500  # texts between two moves of the bar

TextColumn = Annotated[str | None, option("--text", "Of the texts, if not guessed.", metavar="COLUMN")]
Encoding = Annotated[str, option("--encoding", "How the file writes letters: utf-8, latin-1, utf-16.")]
DataSource = Annotated[
    str | None, option("--data-source", "A copy of --data: its archive, or a folder.", metavar="PATH")
]
Model = Annotated[str, option("--model", "A folder of hardmax train, or one at hand: imdb, imdb-2d.", metavar="MODEL")]


@dataclass(frozen=True, kw_only=True)
class LabelledOptions:
    """Texts with labels: a file, or a data set by its name."""

    path: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A .csv, .tsv, .jsonl or .parquet file of texts.")
    ] = None
    text: TextColumn = None
    label: Annotated[str | None, option("--label", "Of the labels, if not guessed.", metavar="COLUMN")] = None
    data: Annotated[
        str | None,
        option("--data", "Instead of FILE: imdb, 50,000 film reviews, downloaded once (84 MB).", metavar="NAME"),
    ] = None
    source: DataSource = None
    encoding: Encoding = "utf-8"

    @property
    def name(self) -> str:
        return str(self.path or self.data)

    def read(self, split: str) -> "Table":
        """Texts and labels of FILE, or of a split of --data; not of both, nor with options of the other one."""
        from hardmax.sentiment import HardmaxClassifier  # noqa: F401 (a missing extra is said before a download)
        from hardmax.sentiment.tables import read_texts

        if (self.path is None) == (self.data is None):
            got = "neither" if self.path is None else f"both, {self.path} and {self.data}"
            raise InputError(f"Either FILE or --data must be given. Got {got}. Pass a .csv file, or --data imdb.")
        if self.data not in (None, "imdb"):
            raise ParameterError("data", "be imdb", f"{self.data!r}", "Pass other data as FILE.")
        others, owner = (("text", "label"), "FILE") if self.path is None else (("source",), "--data")
        for name in others:
            if getattr(self, name) is not None:
                raise ParameterError(name, f"go with {owner}", f"{getattr(self, name)!r} without it", "Leave it out.")
        if self.path is None:
            return imdb(self.source)[split]
        return read_texts(self.path, text=self.text, label=self.label, encoding=self.encoding)


def load(model: str) -> "HardmaxClassifier":
    """A model from its folder, or one that comes with the package."""
    from hardmax.sentiment import HardmaxClassifier, pretrained
    from hardmax.sentiment.storage import FILE

    if (Path(model) / FILE).is_file():
        return HardmaxClassifier.load(model)
    try:
        return pretrained(model)
    except ParameterError as problem:
        must = f"be a folder that hardmax train wrote, or {problem.must.removeprefix('be ')}"
        raise ParameterError("model", must, problem.got, "Check the path.") from None


def imdb(source: str | None) -> "dict[str, Table]":
    """Both splits of IMDb, with a bar while it is downloaded."""
    from hardmax.sentiment.imdb import load_imdb

    with output.progress_bar("Megabytes") as progress:
        return load_imdb(source=source, progress=lambda done, all_: progress(done // 10**6, (all_ or done) // 10**6))


def logits(classifier: "HardmaxClassifier", texts: Sequence[str]) -> FloatArray:
    """(texts, outputs) logits, with a bar on a terminal."""
    parts = []
    with output.progress_bar("Texts") as progress:
        for start in range(0, len(texts), AT_A_TIME):
            parts.append(classifier.model_.logits(texts[start : start + AT_A_TIME]))
            progress(start + len(parts[-1]), len(texts))
    return np.concatenate(parts)


def spread(texts: Sequence[str], count: int) -> list[str]:
    """At most `count` texts, evenly from the whole: a file may be sorted by label."""
    return list(texts[:: max(1, -(-len(texts) // count))])
