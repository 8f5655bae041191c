"""`hardmax evaluate`."""

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from rich.markup import escape

from hardmax._errors import InputError
from hardmax.cli import options, output, texts
from hardmax.cli.options import option
from hardmax.draw.pages import render
from hardmax.draw.text_page import view_explanation
from hardmax.text.files import WRITABLE, write_frame
from hardmax.text.model import coverage
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
    given: texts.LabelledOptions,
    model: texts.Model = "imdb",
    encoder: texts.Encoder = None,
    tokens: Annotated[
        Path | None, option("--tokens", "Write the contributions of tokens, by class and correctness.", metavar="FILE")
    ] = None,
    mistakes: Annotated[
        Path | None, option("--mistakes", "Write a page that explains the most confident errors.", metavar="FILE")
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Measure a model on labelled texts: those of FILE, or the test reviews of --data imdb.

    --out writes all results (.json) or the table of classes (.csv, .jsonl, .parquet, .xlsx), --tokens a table of the
    same formats, and --mistakes a page (.html).
    """
    files = output.check_files(out, (".json", *WRITABLE), read=given.path)
    token_files = output.check_files([tokens] if tokens else [], WRITABLE, read=given.path, name="tokens")
    pages = output.check_files([mistakes] if mistakes else [], (".html",), read=given.path, name="mistakes")
    classifier = texts.load(model, encoder)
    if classifier.model_.multilabel:
        raise InputError("`model` must have one label per text. It has several. Use `HardmaxClassifier.score`.")
    table = given.read("test", values=classifier.model_.columns.names)
    texts.note_what_was_read(table)
    result = measure(classifier, table, given.name)
    text = json_format.dumps(result, ensure_ascii=False)
    for path in files:
        if path.suffix.lower() == ".json":
            output.save_text(text, path)
        else:
            write_frame(_frame_classes(result), path)
    # CSV holds strings only; these labels have the types of the model's labels.
    by_name = {str(label): label for label in classifier.classes_.tolist()}
    labels = [by_name[str(label)] for label in table.labels or []]
    for path in token_files:
        write_frame(classifier.contributions(table.texts, labels), path)
    for path in pages:
        output.save_text(_explain_mistakes(classifier, table.texts, labels, given.name), path)
    if json:
        print(text)
    else:
        _print(result, given.name)
        output.say_written([*files, *token_files, *pages])


def _explain_mistakes(classifier: "HardmaxClassifier", given: list[str], labels: list[Any], name: str) -> str:
    """Return a page that explains the errors with the highest probability."""
    probabilities, classes = classifier.predict_proba(given), classifier.classes_.tolist()
    answers = classifier.predict(given).tolist()
    wrong = [i for i, (answer, label) in enumerate(zip(answers, labels, strict=True)) if answer != label]
    surest = sorted(wrong, key=lambda i: probabilities[i, classes.index(labels[i])])[:MAX_MISTAKES]
    found = classifier.explain_many([given[i] for i in surest]) if surest else []
    sections = [
        (f"Text {i + 1:,}: label {labels[i]}, predicted {each.prediction}", view_explanation(each, heads=1))
        for i, each in zip(surest, found, strict=True)
    ]
    about = f"{len(wrong):,} of {len(labels):,} predictions for {name} are wrong."
    about += f" These are the {len(sections)} with the highest probability." if sections else ""
    return render("mistakes", title="Mistakes", about=about, sections=sections)


def measure(classifier: "HardmaxClassifier", table: TextTable, name: str) -> dict[str, Any]:
    """Return accuracy, loss, confusion matrix, coverage and leaders."""
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    from hardmax.text.linear_init import class_logits, cross_entropy

    classes, labels = [str(label) for label in classifier.classes_.tolist()], table.labels or []
    _check_labels(labels, classes, name)  # before the long work
    scores, known = texts.score_texts(classifier, table.texts)
    found = [str(label) for label in classifier.model_.decide(scores).tolist()]
    shares = precision_recall_fscore_support(labels, found, labels=classes, zero_division=np.nan)[:3]
    precision, recall, f1 = ([None if np.isnan(share) else float(share) for share in each] for each in shares)
    truth = np.array([classes.index(label) for label in labels])
    right = np.array(found) == np.array(labels)
    some = table.texts[:: -(-len(labels) // MAX_LEADER_TEXTS)]  # from the whole file, which may be sorted by label
    led = classifier.leaders(some)
    return {
        "texts": len(labels),
        "skipped": table.skipped,
        "accuracy": float(accuracy_score(labels, found)),
        "loss": cross_entropy(class_logits(classifier.model_.remove_offset(scores)), truth, np.ones(len(truth))),
        "classes": classes,
        "confusion": confusion_matrix(labels, found, labels=classes).tolist(),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "macro_f1": float(np.mean([share or 0.0 for name, share in zip(classes, f1, strict=True) if name in labels])),
        "no_known_word": int((known == 0).sum()),
        "coverage": coverage(classifier.model_.certainty(scores), right),
        "leaders": {"texts": len(some), **led.summary()} if led.leaders.size else None,
    }


def _check_labels(labels: Sequence[str], classes: Sequence[str], name: str) -> None:
    unknown = [label for label in labels if label not in classes]
    if unknown:
        some = ", ".join(map(repr, dict.fromkeys(unknown[: output.MAX_ROWS])))
        raise InputError(
            f"The labels of {name} must be those of the model: {', '.join(classes)}. "
            f"Got {some} in {len(unknown)} of {len(labels)} rows. Rename them, or drop those rows."
        )


def _print(result: dict[str, Any], name: str) -> None:
    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.4f}"

    measures = f"F1 {result['macro_f1']:.4f}, averaged over classes. Loss {result['loss']:.4f}."
    output.say(f"Accuracy {result['accuracy']:.4f} on {result['texts']:,} texts of {name}. {measures}")
    classes, confusion = [escape(label) for label in result["classes"]], result["confusion"]
    table = zip(classes, confusion, *(result[key] for key in SHARES), strict=True)
    rows = [[label, str(sum(row)), *map(share, shares)] for label, row, *shares in table]
    output.show(output.table("Classes", "label", "texts", "precision", "recall", "F1", rows=rows))
    if len(classes) <= MAX_COLUMNS:
        rows = [[label, *map(str, row)] for label, row in zip(classes, confusion, strict=True)]
        title = "Confusion matrix: labels in rows, predictions in columns"
        output.show(output.table(title, "label", *classes, rows=rows))
    rows = [[f"{row['at_least']:g}", f"{row['coverage']:.1%}", share(row["accuracy"])] for row in result["coverage"]]
    title = "Accuracy of confident predictions"
    output.show(output.table(title, "probability at least", "texts", "accuracy", rows=rows))
    if result["no_known_word"]:
        output.say(f"{result['no_known_word']:,} texts have no known word.")
    if (led := result["leaders"]) is not None:
        output.say(
            f"Leaders per text and head: mean {led['average']:.1f} (standard deviation {led['deviation']:.1f}), range "
            f"{led['min']:.0f} to {led['max']:.0f}. {led['initial']:.0%} lead at layer 0 ({led['texts']:,} texts)."
        )


def _frame_classes(result: dict[str, Any]) -> "DataFrame":
    """Return precision, recall, F1 and the confusion matrix as a table for files."""
    import pandas

    confusion = np.array(result["confusion"])
    columns = {"label": result["classes"], "texts": confusion.sum(axis=1)} | {key: result[key] for key in SHARES}
    taken = {f"taken_for_{name}": confusion[:, i] for i, name in enumerate(result["classes"])}
    return pandas.DataFrame(columns | taken)
