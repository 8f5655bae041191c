"""`hardmax evaluate`."""

import json as json_format
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from hardmax._errors import InputError, ParameterError
from hardmax.cli import options, output, texts
from hardmax.cli.options import option
from hardmax.draw.pages import render
from hardmax.draw.text_page import view_explanation
from hardmax.text.card import TRAINED_ON
from hardmax.text.files import WRITABLE, write_frame
from hardmax.text.model import coverage, predicted_classes
from hardmax.text.tables import TextTable

if TYPE_CHECKING:
    from pandas import DataFrame

    from hardmax.text.classifier import HardmaxClassifier

MAX_LEADER_TEXTS = 2000  # texts whose leaders are counted
MAX_COLUMNS = 10  # classes of a printed confusion matrix
MAX_MISTAKES = 20  # explained errors
SHARES = ("precision", "recall", "f1")


@options.with_options
def evaluate(
    context: typer.Context,
    given: texts.LabelledOptions,
    model: texts.Model = "imdb",
    encoder: texts.Encoder = None,
    tokens: Annotated[
        Path | None,
        option(
            "--tokens",
            "Write the contributions of tokens, by class and correctness.",
            metavar="FILE",
        ),
    ] = None,
    mistakes: Annotated[
        Path | None,
        option(
            "--mistakes",
            "Write a page that explains the most confident errors.",
            metavar="FILE",
        ),
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Measure a model on labelled texts: those of FILE, or the test reviews of --data
    imdb.

    --out writes all results (.json) or the table of classes (.csv, .jsonl, .parquet,
    .xlsx), --tokens a table of the same formats, and --mistakes a page (.html).
    """
    files = output.check_files(out, (".json", *WRITABLE), read=given.path)
    token_files = output.check_files(
        [tokens] if tokens else [], WRITABLE, read=given.path, name="tokens"
    )
    pages = output.check_files(
        [mistakes] if mistakes else [], (".html",), read=given.path, name="mistakes"
    )
    classifier = texts.load(model, encoder)
    if several := bool(classifier.model_.multilabel):
        options.check_needs(
            context,
            dict.fromkeys(
                ("tokens", "mistakes"), ("a model of one label per text", False)
            ),
        )
    if several != bool(given.labels or given.separator):
        must = "be given for a model of several labels per text, and for no other one"
        raise ParameterError(
            ("labels", "separator"), must, "neither" if several else "one of them"
        )
    table = given.read("test", values=classifier.model_.columns.names)
    output.note(table.note)
    if classifier.training_.describes(table.texts, table.labels or []):
        output.note(f"Warning for {given.name}: {TRAINED_ON}")
    for sentence in classifier.model_.columns.find_notes(table.texts):
        output.note(sentence)
    result = measure(classifier, table, given.name)
    text = json_format.dumps(result, ensure_ascii=False)
    for path in files:
        if path.suffix.lower() == ".json":
            output.save_text(text, path)
        else:
            write_frame(_frame_classes(result), path)
    if token_files or pages:
        # CSV holds strings only; these labels have the types of the model's labels.
        by_name = {str(label): label for label in classifier.classes_.tolist()}
        labels = [by_name[str(label)] for label in table.labels or []]
        for path in token_files:
            write_frame(classifier.contributions(table.texts, labels), path)
        for path in pages:
            output.save_text(
                _explain_mistakes(classifier, table.texts, labels, given.name), path
            )
    if json:
        print(text)
    else:
        _print(result, given.name)
        output.say_written([*files, *token_files, *pages])


def _explain_mistakes(
    classifier: "HardmaxClassifier", given: list[str], labels: list[Any], name: str
) -> str:
    """Return a page that explains the errors with the highest probability."""
    probabilities, classes = (
        classifier.predict_proba(given),
        classifier.classes_.tolist(),
    )
    answers = classifier.predict(given).tolist()
    wrong = [
        i
        for i, (answer, label) in enumerate(zip(answers, labels, strict=True))
        if answer != label
    ]
    surest = sorted(wrong, key=lambda i: probabilities[i, classes.index(labels[i])])[
        :MAX_MISTAKES
    ]
    found = classifier.explain_many([given[i] for i in surest]) if surest else []
    sections = [
        (
            f"Text {i + 1:,}: label {labels[i]}, predicted {each.prediction}",
            view_explanation(each, heads=1),
        )
        for i, each in zip(surest, found, strict=True)
    ]
    about = f"{len(wrong):,} of {len(labels):,} predictions for {name} are wrong."
    about += (
        f" These are the {len(sections)} with the highest probability."
        if sections
        else ""
    )
    return render("mistakes", title="Mistakes", about=about, sections=sections)


def measure(
    classifier: "HardmaxClassifier", table: TextTable, name: str
) -> dict[str, Any]:
    """Return accuracy, measures of every class, and leaders; with one label per text
    also confusion and coverage.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    from hardmax.text.linear_init import class_logits, cross_entropy

    model, labels = classifier.model_, table.labels or []
    classes = [str(label) for label in model.classes.tolist()]
    sets = labels if model.multilabel else [(label,) for label in labels]
    _check_labels(sets, classes, name)  # before the long work
    truth = np.array([[label in own for label in classes] for own in sets], np.intp)
    with output.progress_bar("Texts") as progress:
        scores, known = model.score(table.texts, progress)
    answers = (
        scores > 0
        if model.multilabel
        else np.eye(len(classes))[predicted_classes(scores)]
    )
    found = answers.astype(np.intp)  # (texts, classes), as `truth`
    right = (found == truth).all(axis=1)
    measures = precision_recall_fscore_support(truth, found, zero_division=np.nan)
    shares = [
        [None if np.isnan(share) else float(share) for share in each]
        for each in measures[:3]
    ]
    some = table.texts[
        :: -(-len(labels) // MAX_LEADER_TEXTS)
    ]  # from the whole file, which may be sorted by label
    led = classifier.leaders(some)
    result = {
        "texts": len(labels),
        "skipped": table.skipped,
        "accuracy": float(right.mean()),
        "classes": classes,
    }
    result |= dict(zip(SHARES, shares, strict=True)) | {"support": measures[3].tolist()}
    occurring = [
        share or 0.0 for share, rows in zip(shares[2], measures[3], strict=True) if rows
    ]
    result |= {
        "macro_f1": float(np.mean(occurring or [0.0])),
        "no_known_word": int((known == 0).sum()),
    }
    result["leaders"] = (
        {"texts": len(some), **led.summary()}
        if led.leaders.size and model.has_heads
        else None
    )
    if model.multilabel:
        return result
    index, logits = truth.argmax(axis=1), class_logits(model.remove_offset(scores))
    return result | {
        "loss": cross_entropy(logits, index, np.ones(len(index))),
        "confusion": (
            confusion_matrix(
                index, found.argmax(axis=1), labels=range(len(classes))
            ).tolist()
        ),
        "coverage": coverage(model.certainty(scores), right),
    }


def _check_labels(
    sets: Sequence[Sequence[str]], classes: Sequence[str], name: str
) -> None:
    """Raise an error for labels that the model does not have."""
    unknown = [
        others
        for own in sets
        if (others := [label for label in own if label not in classes])
    ]
    if unknown:
        some = ", ".join(
            map(repr, dict.fromkeys(chain.from_iterable(unknown[: output.MAX_ROWS])))
        )
        raise InputError(
            f"The labels of {name} must be those of the model: {', '.join(classes)}."
            f" Got {some} in {len(unknown)} of {len(sets)} rows. Rename them, or drop"
            " those rows."
        )


def _print(result: dict[str, Any], name: str) -> None:
    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.4f}"

    mean = f"F1 {result['macro_f1']:.4f}, averaged over classes."
    ending = (
        f"Loss {result['loss']:.4f}."
        if "loss" in result
        else "A prediction is right if all its labels are."
    )
    output.say(
        f"Accuracy {result['accuracy']:.4f} on {result['texts']:,} texts of {name}."
        f" {mean} {ending}"
    )
    classes = [escape(label) for label in result["classes"]]
    table = zip(
        classes, result["support"], *(result[key] for key in SHARES), strict=True
    )
    rows = [
        [label, str(number), *map(share, shares)] for label, number, *shares in table
    ]
    output.show_table(
        "Classes", "label", "texts", "precision", "recall", "F1", rows=rows
    )
    if "confusion" in result and len(classes) <= MAX_COLUMNS:
        rows = [
            [label, *map(str, row)]
            for label, row in zip(classes, result["confusion"], strict=True)
        ]
        title = "Confusion matrix: labels in rows, predictions in columns"
        output.show_table(title, "label", *classes, rows=rows)
    if "coverage" in result:
        levels = result["coverage"]
        rows = [
            [f"{row['at_least']:g}", f"{row['coverage']:.1%}", share(row["accuracy"])]
            for row in levels
        ]
        title = "Accuracy of confident predictions"
        output.show_table(title, "probability at least", "texts", "accuracy", rows=rows)
    if result["no_known_word"]:
        output.say(f"{result['no_known_word']:,} texts have no known word.")
    if (led := result["leaders"]) is not None:
        output.say(
            f"Leaders per text and head: mean {led['average']:.1f} (standard deviation"
            f" {led['deviation']:.1f}), range {led['min']:.0f} to {led['max']:.0f}."
            f" {led['initial']:.0%} lead at layer 0 ({led['texts']:,} texts)."
        )


def _frame_classes(result: dict[str, Any]) -> "DataFrame":
    """Return precision, recall, F1 and, with one label per text, the confusion matrix
    as a table for files.
    """
    import pandas

    columns = {"label": result["classes"], "texts": result["support"]} | {
        key: result[key] for key in SHARES
    }
    taken = zip(*result["confusion"], strict=True) if "confusion" in result else ()
    names = [f"taken_for_{name}" for name in result["classes"]]
    return pandas.DataFrame(columns | dict(zip(names, taken, strict=False)))
