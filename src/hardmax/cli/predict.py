"""`hardmax predict`."""

import json as json_format
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax._errors import InputError, ParameterError
from hardmax.cli import options, output, texts
from hardmax.cli.options import option

if TYPE_CHECKING:
    from hardmax.sentiment.classifier import HardmaxClassifier

ENDINGS = (".csv", ".jsonl")
BEGINNING = 60  # characters of a text


def predict(
    some: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts, each in quotes; - reads one a line from standard input."),
    ] = None,
    path: Annotated[
        str | None,
        option("--file", "A .csv, .tsv, .jsonl or .parquet file, or .txt with one a line.", metavar="FILE"),
    ] = None,
    text: texts.TextColumn = None,
    model: texts.Model = "imdb",
    encoding: texts.Encoding = "utf-8",
    json: Annotated[bool, option("--json", "Print a JSON object a line.")] = False,
    out: options.Out = None,
) -> None:
    """Classify texts: a line for each, with label, probability and how the text begins.

    --out writes row, prediction and probability as .csv or .jsonl. Row 1 is the first text, and each row of --file has
    its line: a row without text is answered as an empty text.
    """
    files = output.check_endings(out, ENDINGS)
    given = _read(some, path, text, encoding)
    rows = _answers(texts.load(model), given)
    import pandas

    for file in files:
        table = pandas.DataFrame(rows).to_csv(index=False, lineterminator="\n")
        output.save_text(table if file.suffix.lower() == ".csv" else _as_jsonl(rows), file)
    if json:
        print(_as_jsonl(rows), end="")
        return
    if not files or path is None:
        _print(rows, given)
    output.say_written(files)


def _read(given: list[str] | None, path: str | None, text: str | None, encoding: str) -> list[str]:
    if bool(given) == bool(path):
        got = "both" if path else "neither"
        raise InputError(f"Either TEXT or --file must be given. Got {got}. Pass a text in quotes, or --file FILE.")
    if path is None and text is not None:
        raise ParameterError("text", "go with --file, whose column it names", f"{text!r} alone", "Leave it out.")
    if given and given != ["-"]:
        return given
    from hardmax.sentiment.tables import read_texts

    table = read_texts(path or "-", text=text, labelled=False, encoding=encoding)
    if table.note:
        output.note(table.note)
    return table.texts


def _answers(classifier: "HardmaxClassifier", given: list[str]) -> list[dict[str, Any]]:
    scores = texts.logits(classifier, given)
    labels = classifier.model_.decide(scores).tolist()
    sure = classifier.model_.probabilities(scores).max(axis=1).tolist()
    pairs = enumerate(zip(labels, sure, strict=True), 1)
    return [{"row": row, "prediction": label, "probability": p} for row, (label, p) in pairs]


def _print(rows: list[dict[str, Any]], given: list[str]) -> None:
    width = max(len(str(row["prediction"])) for row in rows)
    for row, text in zip(rows, given, strict=True):
        print(f"{row['prediction']!s:{width}}   {row['probability']:.3f}   {_beginning(text)}".rstrip())


def _beginning(text: str) -> str:
    """The first words on one line, without signs that would move a terminal's cursor."""
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 4 * BEGINNING]).split())
    return plain if len(plain) <= BEGINNING else f"{plain[: BEGINNING - 3]}..."


def _as_jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(f"{json_format.dumps(row, ensure_ascii=False)}\n" for row in rows)
