"""`hardmax evaluate`."""

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from hardmax._errors import InputError, ParameterError
from hardmax._types import IntArray
from hardmax.cli import options, output, texts

if TYPE_CHECKING:
    from hardmax.sentiment.classifier import HardmaxClassifier
    from hardmax.sentiment.faithfulness import Rationale
    from hardmax.sentiment.tables import Table

MOST_LED = 2000  # texts whose leaders are counted
MOST_COLUMNS = 10  # classes of a confusion table
EXPLAINED = 200  # texts to compare explanations on


def evaluate(
    context: typer.Context,
    path: texts.File = None,
    text: texts.TextColumn = None,
    label: texts.LabelColumn = None,
    data: texts.Data = None,
    source: texts.DataSource = None,
    encoding: texts.Encoding = "utf-8",
    model: texts.Model = "imdb",
    explanations: Annotated[
        bool, typer.Option("--explanations", help="Compare the explanations with those of LIME, SHAP and others.")
    ] = False,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method", help="Compare this one; may be given several times. Left out: all.", show_default=False
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="On so many texts, with --explanations.")] = EXPLAINED,
    rationales: Annotated[
        Path | None,
        typer.Option("--rationales", metavar="FILE", help="And on a Parquet file of words that people marked."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure a model on labelled texts: those of FILE, or the test reviews of --data imdb."""
    if not explanations and (methods or rationales is not None):
        raise ParameterError(("methods", "rationales"), "go with --explanations", "them alone", "Add it.")
    table, name = texts.read_labelled(context, "test"), texts.source_name(context.params)
    classifier = texts.load(model)
    from hardmax.sentiment.faithfulness import read_rationales

    marked = None if rationales is None else read_rationales(rationales)  # before the long work
    result = measured(classifier, table, name)
    if explanations:
        result["explanations"] = compared(classifier, texts.spread(table.texts, count), methods, marked)
    if table.note:
        output.note(table.note)
    if json:
        print(json_format.dumps(result, ensure_ascii=False))
        return
    _print(result, name)


def measured(classifier: "HardmaxClassifier", table: "Table", name: str) -> dict[str, Any]:
    """Accuracy, loss, what is confused with what, and leaders."""
    classes = [str(label) for label in classifier.classes_.tolist()]
    truth = _places(table.labels or [], classes, name)  # before the long work
    scores = texts.logits(classifier, table.texts)
    found = _places(map(str, classifier.model_.decide(scores).tolist()), classes, name)
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(confusion, (truth, found), 1)
    sure = classifier.model_.probabilities(scores)[np.arange(len(truth)), truth]
    return {
        "texts": len(truth),
        "skipped": table.skipped,
        "accuracy": float(np.mean(truth == found)),
        "loss": float(-np.log(np.maximum(sure, np.finfo(np.float64).tiny)).mean()),
        "classes": classes,
        "confusion": confusion.tolist(),
        "precision": _shares(confusion, confusion.sum(axis=0)),
        "recall": _shares(confusion, confusion.sum(axis=1)),
        "leaders": _leaders(classifier, texts.spread(table.texts, MOST_LED)),
    }


def _places(labels: Any, classes: list[str], name: str) -> IntArray:
    """The number of each label among the classes of the model."""
    found, known = list(labels), {label: place for place, label in enumerate(classes)}
    unknown = [label for label in found if label not in known]
    if unknown:
        some = ", ".join(map(repr, dict.fromkeys(unknown[: output.MOST_ROWS])))
        raise InputError(
            f"The labels of {name} must be those of the model: {', '.join(classes)}. "
            f"Got {some} in {len(unknown)} of {len(found)} rows. Rename them, or drop those rows."
        )
    return np.array([known[label] for label in found])


def _shares(confusion: IntArray, totals: IntArray) -> list[float | None]:
    """Right answers of each class among its total; None where that is 0."""
    right = np.diag(confusion).tolist()
    return [a / b if b else None for a, b in zip(right, totals.tolist(), strict=True)]


def _leaders(classifier: "HardmaxClassifier", some: list[str]) -> dict[str, float] | None:
    """How many leaders a text has in a head; None where no text has a known word."""
    found = classifier.leaders(some)
    return {"texts": len(some), **found.summary()} if found.leaders.size else None


def compared(
    classifier: "HardmaxClassifier", some: list[str], methods: list[str] | None, marked: "list[Rationale] | None"
) -> dict[str, Any]:
    """How faithful each way to explain is, ours and others, on the same texts."""
    from hardmax.sentiment.faithfulness import compare

    with output.progress_bar("Explanations") as progress:
        found = compare(classifier, some, methods=methods or None, progress=progress, rationales=marked)
    return found._asdict()


def _print(result: dict[str, Any], name: str) -> None:
    output.say(f"Accuracy {result['accuracy']:.4f} on {result['texts']:,} texts of {name}. Loss {result['loss']:.4f}.")
    output.console().print(classes_table(result))
    if (led := result["leaders"]) is not None:
        output.say(
            f"Leaders of a text in a head: {led['average']:.1f} ± {led['deviation']:.1f}, from {led['min']:.0f} to "
            f"{led['max']:.0f}; {led['initial']:.0%} of them lead from layer 0 on ({led['texts']:,} texts)."
        )
    if (found := result.get("explanations")) is not None:
        output.console().print(rows_table(f"Explanations of {found['texts']:,} texts", found["rows"]))
        if found["agreement"]:
            output.console().print(rows_table("Agreement with what people marked", found["agreement"]))


def classes_table(result: dict[str, Any]) -> object:
    """For each class its precision and recall, and where there is room, what it is taken for."""
    names = [escape(name) for name in result["classes"]]
    taken = [f"taken for {name}" for name in names] if len(names) <= MOST_COLUMNS else []
    grid = output.table("Classes", "label", "texts", "precision", "recall", *taken)
    for k, name in enumerate(names):
        row, shares = result["confusion"][k], (result["precision"][k], result["recall"][k])
        cells = ["-" if share is None else f"{share:.4f}" for share in shares]
        grid.add_row(name, str(sum(row)), *cells, *(str(cell) for cell in row[: len(taken)]))
    return grid


def rows_table(title: str, rows: Sequence[dict[str, Any]]) -> object:
    """Rows as they come, with short numbers."""
    grid = output.table(title, *(key.replace("_", " ") for key in rows[0]))
    for row in rows:
        grid.add_row(*(_cell(value) for value in row.values()))
    return grid


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else escape(str(value))
