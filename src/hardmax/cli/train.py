"""`hardmax train`. Its options are the parameters of the classifier, with their defaults and descriptions."""

import json as json_format
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax._errors import ParameterError
from hardmax._files import check_writable
from hardmax.app.problems import respell
from hardmax.cli import options, output, texts
from hardmax.cli.options import UNSAID, option
from hardmax.text.parameters import Parameters, check_parameters
from hardmax.text.storage import CHECKPOINT, FILE

if TYPE_CHECKING:
    from hardmax.text.classifier import HardmaxClassifier
    from hardmax.text.tables import TextTable

MIN_LARGE_SHARE = 0.6  # share of the largest class from which on it is printed beside the accuracy
PYTHON_ONLY = ("checkpoint", "verbose", "tokenizer", "text_column")  # the command has --out, --quiet and --text
FLAGS = {  # that differ from the name of the parameter
    "random_state": ["--seed"],
    "class_weight": ["--balanced"],
    "trained_A": ["--trained-a", "--trained-A"],
    "distinct": ["--distinct/--all-occurrences"],
    "punctuation": ["--punctuation/--no-punctuation"],
}
HELP = {"class_weight": "Give rare classes the same total weight as frequent ones."}
TYPES = {"ngram_range": str | None, "class_weight": bool, "stop_words": str | None}


def _parameter_options() -> Iterator[Parameter]:
    """Yield an option for each parameter, as Typer reads them from a signature."""

    def flags(name: str) -> list[str]:
        return FLAGS.get(name, [f"--{name.replace('_', '-')}"])

    def mentioned(name: str, value: str | None) -> str:
        return " ".join([flags(name)[0], *([] if value is None else [value])])

    for each in fields(Parameters):
        if each.name in PYTHON_ONLY:
            continue
        about = HELP.get(each.name) or respell(each.metadata["about"], mentioned).replace('"', "")
        described = typer.Option(*flags(each.name), help=about, rich_help_panel=each.metadata["group"])
        form: Any = Annotated[TYPES.get(each.name, each.type), described]
        default = False if each.name == "class_weight" else each.default
        default = ",".join(map(str, default)) if isinstance(default, tuple) else default
        yield Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=form)


@dataclass(frozen=True, kw_only=True)
class GroupedOptions(texts.LabelledOptions):
    """Options of texts with labels and groups."""

    group: Annotated[
        str | None,
        option(
            "--group", "Column of groups, such as authors: rows of one group are held out together.", metavar="COLUMN"
        ),
    ] = None

    @property
    def of_file(self) -> tuple[str, ...]:
        return (*super().of_file, "group")

    def columns(self) -> dict[str, str | None]:
        return super().columns() | {"group": self.group}


def train(
    context: typer.Context,
    out: Annotated[Path, option("--out", "Folder for the model.", metavar="FOLDER", **UNSAID)],
    given: GroupedOptions,
    paper: Annotated[
        bool, option("--paper", "Use the parameters of arXiv 2407.01602 as defaults: 1 head, 8 layers.")
    ] = False,
    force: Annotated[bool, option("--force", "Replace the model or the unfinished run in the folder.")] = False,
    compact: Annotated[bool, option("--compact", "Round the embedding to one byte per coordinate.")] = False,
    quiet: Annotated[bool, option("--quiet", "Print only notes and errors.")] = False,
    json: options.Json = False,
    **settings: Any,
) -> None:
    """Train a text classifier on FILE, or on --data imdb, save it in a folder, and print its card.

    --resume continues a run that was stopped or killed, with the same result. Several processes train together under
    torchrun --nproc-per-node 2 -m hardmax.cli.main train ...
    """
    check_writable(out, folder=True)
    _check_folder(out, resume=settings["resume"], force=force)
    from hardmax.text.card import model_card
    from hardmax.text.tables import class_counts

    classifier = configured(context, checkpoint=out / CHECKPOINT)
    check_parameters(classifier)  # before reading or downloading data
    table = given.read("train")
    counts = class_counts(table.labels or [])
    from hardmax.text.training import join_processes
    from hardmax.text.validation import find_duplicates, number_texts

    duplicates = find_duplicates(number_texts(table.texts)).tolist()
    with join_processes(settings["device"]) as process:
        classifier.set_params(verbose=process.is_first and not quiet)
        prints = process.is_first and not (quiet or json)
        if process.is_first:
            texts.note_what_was_read(table)
            _notes(counts, out, balanced=settings["class_weight"], resume=settings["resume"])
            _note_duplicates(duplicates, table)
            if force and not settings["resume"]:
                (out / CHECKPOINT).unlink(missing_ok=True)
        if prints:
            output.say(_describe_data(table, counts, given.name))
        try:
            with _warnings_as_notes(process.is_first):
                classifier.fit(table.texts, table.labels or [], groups=table.groups)
        except KeyboardInterrupt:
            if process.is_first:
                output.note(_describe_stop(out))
            raise typer.Exit(output.INTERRUPTED) from None
        if process.is_first:
            classifier.save(out, compact=compact)
            # with the model saved, the checkpoint and temporary files of a killed run are deleted
            for path in (out / CHECKPOINT, *out.glob(f".{CHECKPOINT}-*")):
                path.unlink(missing_ok=True)
        kept = next(epoch for epoch in classifier.history_ if epoch.kept)
        done = {
            "model": str(out),
            "rows": len(table.texts),
            "skipped": table.skipped,
            "duplicates": len(duplicates),
            "classes": counts,
            "epochs": classifier.n_iter_,
            "kept_epoch": kept.number + 1,
            "validation_accuracy": kept.accuracy,
            "start": classifier.start_,
            "vocabulary": len(classifier.model_.vocabulary),
        }
        if process.is_first and json:
            print(json_format.dumps(done, ensure_ascii=False))
        if prints:
            _print_result(done, model_card(classifier.model_, classifier.history_, classifier.training_))


_own = [each for each in signature(train).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
train.__signature__ = signature(train).replace(parameters=[*_own, *_parameter_options()])  # type: ignore[attr-defined]
train = options.with_options(train)


def configured(context: typer.Context, **more: Any) -> "HardmaxClassifier":
    """Return the classifier of the given options; others keep their default, or that of the paper."""
    from hardmax.text import HardmaxClassifier

    known = HardmaxClassifier().get_params()
    given = {
        name: value for name, value in context.params.items() if name in known and options.was_given(context, name)
    }
    if "class_weight" in given:
        given["class_weight"] = "balanced"
    sizes = given.get("ngram_range", "").split(",")
    if all(size.strip().isdecimal() for size in sizes):
        given["ngram_range"] = tuple(map(int, sizes))  # else the check of the parameter raises an error
    return (HardmaxClassifier.paper if context.params["paper"] else HardmaxClassifier)(**given, **more)


def _check_folder(out: Path, *, resume: bool, force: bool) -> None:
    """Raise an error for a folder with a model or an unfinished run, unless an option decides what to do."""
    if force or (resume and (out / CHECKPOINT).exists()):
        return
    if (out / CHECKPOINT).exists():
        got, advice = (
            f"{out}, which holds an unfinished run",
            "Pass --resume to continue it, or --force to start again.",
        )
    elif (out / FILE).exists():
        got, advice = f"{out}, which holds a model", "Choose another name, or pass --force to replace it."
    else:
        return
    raise ParameterError("out", "be a folder without a model", got, advice)


def _describe_stop(out: Path) -> str:
    if not (out / CHECKPOINT).exists():
        return "Stopped before the end of the first epoch. Nothing is saved."
    return f"Stopped. {out / CHECKPOINT} holds the last complete epoch. Add --resume to the same command to continue."


def _notes(counts: dict[str, int], out: Path, *, balanced: bool, resume: bool) -> None:
    """Print notes about uneven classes and about a missing run."""
    from hardmax.text.tables import imbalance_note

    if uneven := imbalance_note(counts):
        output.note(uneven + ("" if balanced else " Pass --balanced to give rare classes the same weight."))
    if resume and not (out / CHECKPOINT).exists():
        output.note(f"{out} holds no unfinished run. Training starts from the beginning.")


def _note_duplicates(duplicates: list[int], table: "TextTable") -> None:
    """Print the number of duplicates, and the first of their row numbers in the file."""
    from hardmax.text.validation import duplicate_note

    if duplicates:
        rows = [table.rows[i] if table.rows else i + 1 for i in duplicates]
        output.note(duplicate_note(rows, len(rows), len(table.texts), "rows"))


@contextmanager
def _warnings_as_notes(shown: bool) -> Iterator[None]:
    """Print warnings as notes, except that of duplicates, as its row numbers are not those of the file."""
    from hardmax.text.validation import DuplicateWarning

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if shown:
            output.note(respell(str(message), output.spell))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", DuplicateWarning)
        warnings.showwarning = show
        yield


def _describe_data(table: "TextTable", counts: dict[str, int], name: str) -> str:
    listed = [f"{label}: {count:,}" for label, count in counts.items()]
    more = f" and {len(listed) - output.MOST_ROWS} more" if len(listed) > output.MOST_ROWS else ""
    columns = f"texts from column {table.text_column}, labels from column {table.label_column}"
    return f"Read {len(table.texts):,} rows of {name}, {columns}: {', '.join(listed[: output.MOST_ROWS])}{more}."


def _print_result(done: dict[str, Any], card: str) -> None:
    accuracy = done["validation_accuracy"] or 0.0
    share = max(done["classes"].values()) / sum(done["classes"].values())
    if done["start"] == "linear":
        trained, kept = "Trained from a linear start.", f"Accuracy {accuracy:.3f} in cross-validation."
    else:
        trained = f"Trained {done['epochs']} epoch{'s' if done['epochs'] > 1 else ''}."
        kept = f"Validation accuracy {accuracy:.3f} in epoch {done['kept_epoch']}, which is kept."
    kept += f" (The largest class has {share:.3f} of the rows.)" if share > MIN_LARGE_SHARE else ""
    output.say(f"{trained} {kept if accuracy else 'No texts were held out.'}")
    output.say(f"\n{card}")
    output.say(f"The model is in {done['model']}.")
    output.say(f'Next: hardmax explain "a text" --model {shlex.quote(done["model"])}')
