"""`hardmax predict`: texts, a file, lines of standard input, or files of any size into
a folder.
"""

import json as json_format
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax._errors import InputError, ParameterError
from hardmax.cli import options, output, texts
from hardmax.cli.options import option
from hardmax.cli.sweep import Engine, Workers, note_cluster
from hardmax.text.card import card_line, model_card
from hardmax.text.files import ENDINGS, WRITABLE, as_json_lines, as_numbers, write_frame
from hardmax.text.model import NOT_SURE
from hardmax.text.tables import TextTable

if TYPE_CHECKING:
    from pandas import DataFrame

    from hardmax.text.classifier import HardmaxClassifier

BATCH, ENCODED_BATCH = 500, 100  # texts between two updates of the progress bar
MAX_EXCERPT = 60  # characters of a text
INTO_FOLDER = "files or folders of texts, and a folder as --out"


@options.with_options
def predict(
    context: typer.Context,
    how: texts.FileOptions,
    engine: Engine = "local",
    workers: Workers = None,
    tokens: Annotated[
        Path | None,
        option(
            "--tokens",
            "Write the contributions of each token: .csv, .jsonl, .parquet.",
            metavar="FILE",
        ),
    ] = None,
    some: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Texts in quotes, or files with a folder as --out; - reads lines.",
        ),
    ] = None,
    path: Annotated[
        str | None,
        option(
            "--file",
            "A .csv, .tsv, .jsonl, .parquet or .xlsx file, or .txt with a text per"
            " line.",
            metavar="FILE",
        ),
    ] = None,
    model: texts.Model = "imdb",
    encoder: texts.Encoder = None,
    card: Annotated[
        bool, option("--card", "Print the card of the model, and classify nothing.")
    ] = False,
    keep: Annotated[
        bool, option("--keep", "Write all columns of --file before the predictions.")
    ] = False,
    json: Annotated[bool, option("--json", "Print one JSON object per line.")] = False,
    at_least: Annotated[
        float,
        option(
            "--at-least",
            'Write "not sure" below this probability.',
            metavar="P",
            min=0.0,
            max=1.0,
        ),
    ] = 0.0,
    stream: Annotated[
        bool,
        option(
            "--stream", "Print a prediction for each line of standard input, as JSON."
        ),
    ] = False,
    explain: Annotated[
        bool,
        option(
            "--explain", "With --stream or a folder, add the contributions of words."
        ),
    ] = False,
    out: options.Out = None,
) -> None:
    """Classify texts: print label, probability and the beginning of each text.

    --out writes row, prediction, its probability, that of every class, whether the text
    has no known word, and the strongest words, as .csv, .jsonl, .parquet or .xlsx. Row
    1 is the first text. A row of --file without text counts as an empty text.

    With a folder as --out, files and folders of any size are classified: hardmax
    predict big.parquet --out scored/ writes Parquet parts, on every core or on a
    cluster. The same command resumes after a stop.
    """
    if card:
        _print_card(texts.load(model, encoder), json=json)
        return
    inputs = None if stream else _find_inputs(some, path, out)
    into_folder = inputs is not None
    needs = dict.fromkeys(("engine", "workers", "tokens"), (INTO_FOLDER, into_folder))
    needs |= dict.fromkeys(("sheet", "keep"), ("a file as --out", not into_folder))
    options.check_needs(
        context,
        needs | {"explain": (f"--stream, or {INTO_FOLDER}", into_folder or stream)},
    )
    if inputs is not None and out:
        reading = {
            "text": how.text,
            "encoder": encoder,
            "delimiter": how.delimiter,
            "encoding": how.encoding,
        }
        work = {
            "explain": explain,
            "at_least": at_least,
            "engine": engine,
            "workers": workers,
        }
        _predict_into_folder(
            inputs, model, out[0], tokens, json=json, **reading, **work
        )
        return
    if stream:
        if some or path or out or keep:
            must = "be used alone, as texts come from standard input"
            raise ParameterError(
                "stream", must, "texts, --file, --out or --keep", "Leave it out."
            )
        _print_stream(texts.load(model, encoder), explain=explain, at_least=at_least)
        return
    files = output.check_files(out, WRITABLE, read=path)
    classifier = texts.load(model, encoder)
    table = _read(some, path, how, classifier.model_.columns.names)
    is_kept = table.frame is not None and bool(files or json)
    options.check_needs(
        context, {"keep": ("a table in --file, and --out or --json", is_kept)}
    )
    output.note(table.note)
    if not (json or files):
        output.note(
            f"Model {model}."
            f" {card_line(classifier.model_, classifier.history_, classifier.training_)}"
        )
    with output.warnings_as_notes():
        answers = _predict_texts(classifier, table.texts, at_least)
    written = (
        _join_columns(table.frame, answers)
        if keep and table.frame is not None
        else answers
    )
    for file in files:
        write_frame(written, file)
    if json:
        print(as_json_lines(written), end="")
        return
    if not files or path is None:
        _print(answers, table.texts)
    output.say_written(files)


def _print_card(classifier: "HardmaxClassifier", *, json: bool) -> None:
    if not json:
        output.say(
            model_card(
                classifier.model_, classifier.history_, classifier.training_
            ).rstrip()
        )
        return
    known = {
        "classes": classifier.classes_.tolist(),
        "tokens": len(classifier.model_.vocabulary),
    }
    known |= {
        "params": classifier.get_params(),
        "history": [asdict(epoch) for epoch in classifier.history_],
    }
    known["training"] = asdict(classifier.training_)
    print(json_format.dumps(known, ensure_ascii=False, default=str))


def _find_inputs(
    given: list[str] | None, path: str | None, out: list[Path] | None
) -> list[str] | str | None:
    """Return the input files if --out is a folder; None if the arguments are texts, or
    --out is a file.
    """
    targets = out or []
    if len(targets) != 1 or not (targets[0].is_dir() or not targets[0].suffix):
        return None
    if path is not None:
        return None if given else path
    if given and all(
        Path(one).is_dir() or one.lower().endswith(ENDINGS) for one in given
    ):
        return given[0] if len(given) == 1 else given
    return None


def _predict_into_folder(
    files: list[str] | str,
    model: str,
    out: Path,
    tokens: Path | None,
    *,
    json: bool,
    **more: Any,
) -> None:
    """Classify files into a folder with a progress bar, and print the number of rows."""
    from hardmax.scale import PredictedFiles, predict_files

    tables = output.check_files([tokens] if tokens else [], WRITABLE, name="tokens")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            with output.progress_bar("Rows") as moved:
                more |= {
                    "progress": output.with_speed(moved, "rows"),
                    "started": note_cluster,
                }
                result = predict_files(files, model, out=out, **more)
        except KeyboardInterrupt:
            try:
                output.note(
                    f"Stopped. {PredictedFiles.open(out).rows:,} rows are kept. The"
                    " same command continues."
                )
            except ParameterError:  # stopped before the first part
                output.note("Stopped. The same command continues.")
            raise
    for warning in caught:
        output.note(str(warning.message))
    for file in tables:
        write_frame(result.tokens(), file)
    parts = len(result.parts())
    if json:
        print(
            json_format.dumps(
                {"out": str(result.out), "rows": result.rows, "parts": parts}
            )
        )
        return
    output.say(
        f"{result.rows:,} rows have a prediction, in {parts:,} part{'s' * (parts != 1)}"
        f" in {result.out}."
    )
    output.say_written(tables)


def _print_stream(
    classifier: "HardmaxClassifier", *, explain: bool, at_least: float
) -> None:
    """Print a prediction for each line; a line that cannot be read gets an error, and
    the next line is read.
    """
    for row, line in enumerate(sys.stdin, 1):
        found: dict[str, Any] = {"row": row}
        try:
            found |= predict_text(
                classifier, parse_line(line.rstrip("\r\n")), explain=explain
            )
        except InputError as problem:
            found["error"] = str(problem)
        if found.get("probability", 1.0) < at_least:
            found["prediction"] = NOT_SURE
        print(json_format.dumps(found, ensure_ascii=False), flush=True)


def parse_line(line: str) -> str:
    """Return the text of a line: that of JSON if it begins with { or a quotation mark,
    else the line itself.
    """
    if not line.lstrip().startswith(("{", '"')):
        return line
    try:
        found = json_format.loads(line)
    except (ValueError, RecursionError) as problem:
        must, advice = (
            'be JSON where it begins with { or "',
            "Write such a text as a JSON string.",
        )
        raise ParameterError("line", must, f"{line[:60]} ({problem})", advice) from None
    text = found.get("text") if isinstance(found, dict) else found
    if not isinstance(text, str):
        raise ParameterError(
            "line", 'be a text, a JSON string, or an object with a "text"', line[:60]
        )
    return text


def predict_text(
    classifier: "HardmaxClassifier", text: str, *, explain: bool
) -> dict[str, Any]:
    """Return prediction and probabilities, with `explain` also the contributions of
    words.
    """
    result: dict[str, Any] = (
        classifier.answers([text]).drop(columns="strongest_words").to_dict("records")[0]
    )
    if explain:  # of several labels that of the most probable one
        found = classifier.explain(text)
        result["words"] = [
            [part.text, float(found.as_shown(part.value))] for part in found.by_word()
        ]
    return result


def _read(
    given: list[str] | None, path: str | None, how: texts.FileOptions, values: list[str]
) -> TextTable:
    if bool(given) == bool(path):
        got = "both" if path else "neither"
        raise InputError(
            f"Either TEXT or --file must be given. Got {got}. Pass a text in quotes, or"
            " --file FILE."
        )
    for name in ("text", "delimiter", "sheet"):
        if path is None and (value := getattr(how, name)) is not None:
            raise ParameterError(
                name,
                "be used with --file",
                f"{value!r} without a file",
                "Leave it out.",
            )
    for one in given or []:
        if Path(one).suffix.lower() in ENDINGS and " " not in one:
            advice = "Pass it as --file. Or write into a folder: --out scored/."
            raise ParameterError(
                "some", "be texts", f"{one!r}, the name of a file", advice
            )
    if given and given != ["-"]:
        return TextTable(given, None)
    return how.read_file(path or "-", labelled=False, values=values)


def _predict_texts(
    classifier: "HardmaxClassifier", given: list[str], at_least: float
) -> "DataFrame":
    """Return a row for each text, and print a note if some have no known word."""
    import pandas

    parts, size = [], BATCH if classifier.model_.context is None else ENCODED_BATCH
    with output.progress_bar("Texts") as progress:
        for start in range(0, len(given), size):
            parts.append(classifier.answers(given[start : start + size], at_least))
            progress(min(start + size, len(given)), len(given))
    answers = pandas.concat(parts, ignore_index=True)
    if count := int(answers["no_known_word"].sum()):
        which = (
            f"{count} of {len(given)} texts have" if len(given) > 1 else "The text has"
        )
        output.note(f"{which} no known word; the prediction is that of an empty text.")
    answers.insert(0, "row", range(1, len(given) + 1))
    return answers


def _join_columns(frame: "DataFrame", answers: "DataFrame") -> "DataFrame":
    """Return the columns of a file, then the predictions, with a prefix if the file has
    columns of the same name.

    Columns with one name get numbers: x, x becomes x, x_2.
    """
    import pandas

    added, kept = answers.drop(columns="row"), frame.reset_index(drop=True)
    if set(added) & set(frame):
        added = added.add_prefix("hardmax_")
    earlier = (
        kept.columns.to_frame().groupby(level=0).cumcount()
    )  # columns with the same name before each
    kept.columns = [
        f"{name}_{number + 1}" if number else name for name, number in earlier.items()
    ]
    return pandas.concat([kept.apply(as_numbers), added], axis=1)


def _print(answers: "DataFrame", given: list[str]) -> None:
    width = max(map(len, answers["prediction"].astype(str)))
    for row, text in zip(answers.itertuples(), given, strict=True):
        printable = "".join(
            one if one.isprintable() else " " for one in text[: 4 * MAX_EXCERPT]
        )
        excerpt = output.shorten(" ".join(printable.split()), MAX_EXCERPT)
        shown = (
            f"{excerpt}   (no known word)".lstrip() if row.no_known_word else excerpt
        )
        probability = (
            f"   {row.probability:.3f}" if hasattr(row, "probability") else ""
        )  # none with several labels
        print(f"{row.prediction!s:{width}}{probability}   {shown}".rstrip())
