"""What the commands on texts share: their options, labelled texts, models and answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray
from hardmax.cli import output

if TYPE_CHECKING:
    from hardmax.sentiment.classifier import HardmaxClassifier
    from hardmax.sentiment.tables import Table

AT_A_TIME = 500  # texts between two moves of the bar

File = Annotated[str | None, typer.Argument(metavar="FILE", help="A .csv, .tsv, .jsonl or .parquet file of texts.")]
TextColumn = Annotated[str | None, typer.Option("--text", metavar="COLUMN", help="Of the texts, if not guessed.")]
LabelColumn = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="Of the labels, if not guessed.")]
Encoding = Annotated[str, typer.Option("--encoding", help="How the file writes letters: utf-8, latin-1, utf-16.")]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="NAME", help="Instead of FILE: imdb, 50,000 film reviews, downloaded once (84 MB)."),
]
DataSource = Annotated[
    str | None, typer.Option("--data-source", metavar="PATH", help="A copy of --data: its archive, or a folder.")
]
Model = Annotated[
    str,
    typer.Option("--model", metavar="MODEL", help="A folder of hardmax train, or one at hand: imdb, imdb-2d."),
]


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


def read_labelled(context: typer.Context, split: str) -> "Table":
    """Texts and labels of FILE, or of a split of --data."""
    from hardmax.sentiment import HardmaxClassifier  # noqa: F401 (a missing extra is said before a download)
    from hardmax.sentiment.tables import read_texts

    given = context.params
    _check_one_source(given)
    if given["data"] is not None:
        return imdb(given["source"])[split]
    return read_texts(given["path"], text=given["text"], label=given["label"], encoding=given["encoding"])


def _check_one_source(given: dict[str, Any]) -> None:
    """Refuse none and two of FILE and --data, and options of the other one."""
    if (given["path"] is None) == (given["data"] is None):
        got = "neither" if given["path"] is None else f"both, {given['path']} and {given['data']}"
        raise InputError(f"Either FILE or --data must be given. Got {got}. Pass a .csv file, or --data imdb.")
    if given["data"] not in (None, "imdb"):
        raise ParameterError("data", "be imdb", f"{given['data']!r}", "Pass other data as FILE.")
    others, owner = (("text", "label"), "FILE") if given["path"] is None else (("source",), "--data")
    for name in others:
        if given[name] is not None:
            raise ParameterError(name, f"go with {owner}", f"{given[name]!r} without it", "Leave it out.")


def imdb(source: str | None) -> "dict[str, Table]":
    """Both splits of IMDb, with a bar while it is downloaded."""
    from hardmax.sentiment.imdb import load_imdb

    with output.progress_bar("Megabytes") as moved:
        return load_imdb(source=source, progress=lambda done, all_: moved(done // 10**6, (all_ or done) // 10**6))


def read_rows(path: str, *, text: str | None, encoding: str) -> list[str]:
    """A text for each row of a file; a missing one is empty, so that answers keep the numbers of their rows."""
    from hardmax.sentiment.tables import read_texts

    table = read_texts(path, text=text, labelled=False, encoding=encoding)
    if table.note:
        output.note(table.note)
    return table.texts


def logits(classifier: "HardmaxClassifier", texts: Sequence[str]) -> FloatArray:
    """(texts, outputs) logits, with a bar on a terminal."""
    parts = []
    with output.progress_bar("Texts") as moved:
        for start in range(0, len(texts), AT_A_TIME):
            parts.append(classifier.model_.logits(texts[start : start + AT_A_TIME]))
            moved(start + len(parts[-1]), len(texts))
    return np.concatenate(parts)


def spread(texts: Sequence[str], count: int) -> list[str]:
    """At most `count` texts, evenly from the whole: a file may be sorted by label."""
    return list(texts[:: max(1, -(-len(texts) // count))])
