"""`hardmax predict`."""

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardmax._errors import InputError, ParameterError
from hardmax.cli import options, output, texts
from hardmax.cli.corpus import CorpusOptions, corpus_files, predict_corpus
from hardmax.cli.options import option

if TYPE_CHECKING:
    from pandas import DataFrame

    from hardmax.text.classifier import HardmaxClassifier
    from hardmax.text.tables import Table

BEGINNING = 60  # characters of a text
NOTHING_KNOWN = "(no known word)"


@options.with_options
def predict(
    how: texts.FileOptions,
    chosen: CorpusOptions,
    some: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts in quotes, or files for a folder as --out; - reads a text a line."),
    ] = None,
    path: Annotated[
        str | None,
        option("--file", "A .csv, .tsv, .jsonl, .parquet or .xlsx file, or .txt with one a line.", metavar="FILE"),
    ] = None,
    model: texts.Model = "imdb",
    at_least: Annotated[
        float,
        option("--at-least", 'Answer "not sure" where the probability is smaller.', metavar="P", min=0.0, max=1.0),
    ] = 0.0,
    keep: Annotated[bool, option("--keep", "Write all columns of --file in front of the answers.")] = False,
    json: Annotated[bool, option("--json", "Print a JSON object a line.")] = False,
    stream: Annotated[
        bool, option("--stream", "Answer each line of standard input as it comes, in JSON, until it ends.")
    ] = False,
    explain: Annotated[bool, option("--explain", "With --stream or a folder, add what each word says.")] = False,
    out: options.Out = None,
) -> None:
    """Classify texts: a line for each, with label, probability and how the text begins.

    --out writes row, prediction, its probability, that of every class, and whether the text has no word that the model
    knows, as .csv, .jsonl, .parquet or .xlsx. Row 1 is the first text, and each row of --file has its line: a row
    without text is answered as an empty text.

    A folder as --out takes files, and folders of files, of any size: hardmax predict big.parquet --out scored/ writes
    Parquet parts, on every core or on a cluster. The same command goes on after a stop.
    """
    files_meant = None if stream else corpus_files(some, path, out)
    if files_meant is not None and out:
        predict_corpus(
            files_meant,
            out=out[0],
            model=model,
            how=how,
            chosen=chosen,
            explain=explain,
            at_least=at_least,
            keep=keep,
            json=json,
        )
        return
    chosen.refuse_alone()
    if explain and not stream:
        must = "go with --stream, or with files and a folder as --out"
        raise ParameterError("explain", must, "it alone", "Use hardmax explain for one text.")
    if stream:
        if some or path or out or keep:
            raise ParameterError("stream", "stand alone: texts come from standard input", "more", "Leave it out.")
        _stream(texts.load(model), explain=explain, at_least=at_least)
        return
    from hardmax.text.files import WRITABLE, as_json_lines, write_frame

    files = output.check_files(out, WRITABLE, read=path)
    table = _read(some, path, how)
    if keep and (table.frame is None or not (files or json)):
        must, got = "go with a table in --file, and with --out or --json", "no table" if files or json else "neither"
        raise ParameterError("keep", must, got, "Leave it out.")
    texts.note_what_was_read(table)
    answers = _answers(texts.load(model), table.texts, at_least)
    _note_unknown(answers)
    written = _beside(table.frame, answers) if keep and table.frame is not None else answers
    for file in files:
        write_frame(written, file)
    if json:
        print(as_json_lines(written), end="")
        return
    if not files or path is None:
        _print(answers, table.texts)
    output.say_written(files)


def _stream(classifier: "HardmaxClassifier", *, explain: bool, at_least: float) -> None:
    from hardmax.cli.stream import answers
    from hardmax.text.model import NOT_SURE

    for found in answers(classifier, sys.stdin, explain=explain):
        if found.get("probability", 1.0) < at_least:
            found["prediction"] = NOT_SURE
        print(json_format.dumps(found, ensure_ascii=False), flush=True)


def _read(given: list[str] | None, path: str | None, how: texts.FileOptions) -> "Table":
    from hardmax.text.files import ENDINGS
    from hardmax.text.tables import Table

    if bool(given) == bool(path):
        got = "both" if path else "neither"
        raise InputError(f"Either TEXT or --file must be given. Got {got}. Pass a text in quotes, or --file FILE.")
    for name in ("text", "delimiter", "sheet"):
        if path is None and (said := getattr(how, name)) is not None:
            raise ParameterError(name, "go with --file, of which it speaks", f"{said!r} alone", "Leave it out.")
    for one in given or []:
        if Path(one).suffix.lower() in ENDINGS and " " not in one:
            advice = "Pass it as --file. Or write into a folder: --out scored/."
            raise ParameterError("some", "be texts", f"{one!r}, the name of a file", advice)
    if given and given != ["-"]:
        return Table(given, None)
    return how.read_file(path or "-", labelled=False)


def _answers(classifier: "HardmaxClassifier", given: list[str], at_least: float) -> "DataFrame":
    """A row for each text."""
    import pandas

    from hardmax.text.model import answer_columns

    scores, known = texts.answered(classifier, given)
    columns = answer_columns(classifier.model_, scores, known, at_least)
    return pandas.DataFrame({"row": range(1, len(given) + 1), **columns})


def _beside(frame: "DataFrame", answers: "DataFrame") -> "DataFrame":
    """The columns of a file, then the answers; under other names, where the file has theirs."""
    import pandas

    from hardmax.text.files import as_numbers

    added, kept = answers.drop(columns="row"), frame.reset_index(drop=True)
    if set(added) & set(frame):
        added = added.add_prefix("hardmax_")
    kept.columns = _told_apart(kept.columns.tolist())
    return pandas.concat([kept.apply(as_numbers), added], axis=1)


def _told_apart(names: list[str]) -> list[str]:
    """Names of columns, each once: x, x becomes x, x_2."""
    count: dict[str, int] = {}
    apart = []
    for name in names:
        count[name] = count.get(name, 0) + 1
        apart.append(name if count[name] == 1 else f"{name}_{count[name]}")
    return apart


def _note_unknown(answers: "DataFrame") -> None:
    count, several = int(answers["no_known_word"].sum()), len(answers) > 1
    if count:
        which = f"{count} of {len(answers)} texts have" if several else "The text has"
        output.note(f"{which} no word that the model knows; the answer is that of an empty text.")


def _print(answers: "DataFrame", given: list[str]) -> None:
    width = max(map(len, answers["prediction"].astype(str)))
    for row, text in zip(answers.itertuples(), given, strict=True):
        begins = f"{_beginning(text)}   {NOTHING_KNOWN}".lstrip() if row.no_known_word else _beginning(text)
        print(f"{row.prediction!s:{width}}   {row.probability:.3f}   {begins}".rstrip())


def _beginning(text: str) -> str:
    """The first words on one line, without signs that would move a terminal's cursor."""
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 4 * BEGINNING]).split())
    return plain if len(plain) <= BEGINNING else f"{plain[: BEGINNING - 3]}..."
