"""Answers of the text explorer: a text with removed or replaced words, its explanation,
and tables of texts.
"""

import csv
import io
import json
import zipfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hardmax._errors import InputError, MissingExtra, ParameterError
from hardmax._types import Progress
from hardmax.app.exports import DRAWING
from hardmax.app.problems import describe_problem, describe_value, keep_followable
from hardmax.draw.text_page import CLASS_COLOURS, MIN_STRENGTH, percent, shorten
from hardmax.text import HardmaxClassifier
from hardmax.text.attribution import sum_contributions
from hardmax.text.explanation import Explanation, explain, explain_many
from hardmax.text.files import escape_formula, escape_formulas
from hardmax.text.model import Model, simulate_head
from hardmax.text.storage import FILE, shipped_models
from hardmax.text.tables import read_texts

MAX_CHARACTERS = 20_000  # of a text
MAX_REPLACEMENT = 200  # characters
MAX_EDITS = 5_000
MAX_UNPACKED_BYTES = 100_000_000  # of an Excel file
MAX_ROWS, ROWS_AT_ONCE = 5_000, 50  # of a table
# .json is an explanation that this app has exported
TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt", ".xlsx", ".json")
STRONGEST_WORDS = 3  # of a row of a table
STEPS = 8  # words of a waterfall
MAX_SENTENCES = 30
MAX_LEADERS, MAX_FOLLOWERS = 12, 12
MAX_CHANGES = 20  # rows of a comparison
READABLE = {"pos": "positive", "neg": "negative"}


@lru_cache(maxsize=8)
def load(name: str, encoder: str | None = None) -> Model:
    """Return a model by name or folder; it is read once."""
    model = HardmaxClassifier.load(name, encoder=encoder).model_
    if model.multilabel:
        raise ParameterError(
            "model", "have one label per text", name, "Use hardmax explain --label."
        )
    if len(model.columns):
        got = f"{name}, which reads the columns {', '.join(model.columns.names)}"
        raise ParameterError(
            "model", "read texts alone", got, "Use hardmax predict --file."
        )
    return name_classes(model)


def name_classes(model: Model) -> Model:
    """Return the model with class names that people read in place of its labels."""
    return replace(
        model,
        classes=np.array(
            [READABLE.get(str(label), str(label)) for label in model.classes.tolist()]
        ),
    )


@dataclass(frozen=True)
class Text:
    """A text as typed, and edits of its words, in the order of the text."""

    typed: str
    edits: tuple[
        tuple[int, int, str], ...
    ] = ()  # of typed[start:end]; the replacement of a removed word is empty

    @classmethod
    def from_data(cls, data: Any) -> "Text":
        """Return the text of a request, {"text": ..., "edits": [[start, end,
        replacement], ...]}, checked.
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("text"), str):
            got = data.get("text") if isinstance(data, Mapping) else data
            raise ParameterError("text", "be a string", describe_value(got))
        typed, edits, at = data["text"], data.get("edits") or [], 0
        if len(typed) > MAX_CHARACTERS:
            must = f"have at most {MAX_CHARACTERS:,} characters"
            raise ParameterError(
                "text",
                must,
                f"{len(typed):,}",
                "Shorten it, or use the command hardmax predict.",
            )
        if (
            not isinstance(edits, list)
            or len(edits) > MAX_EDITS
            or not all(map(_is_edit, edits))
        ):
            raise ParameterError(
                "edits", "be a list of [start, end, replacement]", describe_value(edits)
            )
        for start, end, _ in edits:
            if not at <= start < end <= len(typed):
                got = f"{start} to {end} in {len(typed)} characters"
                raise ParameterError(
                    "edits", "lie in the text, in its order, without overlap", got
                )
            at = end
        return cls(
            typed,
            tuple(
                (start, end, replacement.strip()) for start, end, replacement in edits
            ),
        )

    def segments(self) -> Iterator[tuple[int, int, str, str | None]]:
        """Yield (start, end, text that the model reads, replacement); replacements are
        surrounded by spaces.
        """
        at = 0
        for start, end, replacement in self.edits:
            yield at, start, self.typed[at:start], None
            yield start, end, f" {replacement} ", replacement
            at = end
        yield at, len(self.typed), self.typed[at:], None

    @property
    def read(self) -> str:
        """The text that the model reads."""
        return (
            "".join(read for _, _, read, _ in self.segments())
            if self.edits
            else self.typed
        )

    def find_typed(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets in `typed` of a word of `read`; of a replacement, those of
        the replaced word.
        """
        at = 0
        for first, last, read, replacement in self.segments():
            if start < at + len(read):
                return (
                    (start + first - at, end + first - at)
                    if replacement is None
                    else (first, last)
                )
            at += len(read)
        raise ParameterError("start", f"lie in a text of {at} characters", start)


def _is_edit(edit: Any) -> bool:
    shaped = (
        isinstance(edit, list)
        and len(edit) == 3
        and isinstance(edit[2], str)
        and len(edit[2]) <= MAX_REPLACEMENT
    )
    return shaped and all(
        isinstance(i, int) and not isinstance(i, bool) for i in edit[:2]
    )


def describe_model(name: str, model: Model) -> dict[str, Any]:
    """Return the classes of a model with their colours, and its number of heads."""
    labels = model.classes.tolist()
    classes = [
        {"name": label, "colour": CLASS_COLOURS[k % len(CLASS_COLOURS)]}
        for k, label in enumerate(labels)
    ]
    return {"model": name, "classes": classes, "heads": model.heads}


def answer(name: str, model: Model, text: Text, head: int = 0) -> dict[str, Any]:
    """Return the explanation of a text: sentence, coloured pieces, sums by word and
    sentence, and leaders.
    """
    found = explain(model, text.read)
    result = describe_model(name, model) | {
        "sentence": describe(found),
        "prediction": int(found._best[0]),
        "probability": found.probability,
        "logit": _along(found, found.logits),
        "known": found.known,
        "change": describe_change(model, text),
        "pieces": list_pieces(text, found),
    }
    if not found.known:
        return result
    sentences = found.by_sentence()
    rows = [(shorten(part.text), part.value) for part in sentences[:MAX_SENTENCES]]
    if rest := sentences[MAX_SENTENCES:]:
        rows.append((f"{len(rest)} more sentences", sum(part.value for part in rest)))
    written = found.as_written
    return result | {
        "waterfall": list_steps(found),
        "sentences": [{"name": title, **_value(found, value)} for title, value in rows],
        "leading": [
            {
                "word": written[one.word],
                "heads": one.heads,
                "share": one.share,
                "followers": one.followers,
            }
            for one in found.leading()[:MAX_LEADERS]
        ],
        "head": {
            "index": head,
            "leaders": list_leaders(found, head),
            "plane": describe_plane(found, head),
        },
    }


def describe(explanation: Explanation) -> str:
    """Return the prediction in one sentence."""
    if not explanation.text.strip():
        return "Type a text: it is classified while you type."
    unknown = "" if explanation.known else ": the text has no word that the model knows"
    return (
        f"{explanation.prediction.capitalize()}, probability"
        f" {percent(explanation.probability)}{unknown}."
    )


def describe_change(model: Model, text: Text) -> str:
    """Return the effect of removed and replaced words in one sentence; empty without
    edits.
    """
    if not text.edits:
        return ""
    before, after = explain(model, text.typed), explain(model, text.read)
    same = "still" if before.prediction == after.prediction else "now"
    count = (
        f"{len(text.edits)} word{'s' if len(text.edits) > 1 else ''} removed or"
        " replaced"
    )
    change = (
        f"the logit changes from {_along(before, before.logits):+.2f} to"
        f" {_along(after, after.logits):+.2f}"
    )
    return f"{count}: {change}, {same} {after.prediction}."


def _along(explanation: Explanation, value: Any) -> float:
    """Return a part of the logits as one number; with more than two classes that of the
    predicted class.
    """
    return float(
        np.ravel(value)[0 if len(explanation.logits) == 1 else explanation._best[0]]
    )


def _value(explanation: Explanation, value: Any) -> dict[str, Any]:
    """Return a contribution with the class that it supports.

    With two classes that is the sign of the logit; with more, the prediction or the
    second best class.
    """
    favoured, other = (1, 0) if len(explanation.logits) == 1 else explanation._best
    supports = explanation.as_shown(value).item() > 0
    return {
        "value": round(_along(explanation, value), 4),
        "class": favoured if supports else other,
    }


def list_pieces(text: Text, explanation: Explanation) -> list[dict[str, Any]]:
    """Return the text as typed in pieces: words with value, class and strength, and the
    characters between them.
    """
    marks = [mark for mark in explanation.highlights if mark.end > mark.start]
    starts = [mark.start for mark in marks]
    sizes = [abs(explanation.as_shown(mark.contribution).item()) for mark in marks]
    largest, pieces, at = max(sizes, default=0.0) or 1.0, list[dict[str, Any]](), 0

    def weigh(first: int, last: int) -> dict[str, Any]:
        strength = sum(sizes[first:last]) / largest
        shown = round(min(strength, 1.0), 3) if strength >= MIN_STRENGTH else 0
        return _value(
            explanation, sum_contributions(explanation, marks[first:last])
        ) | {"strength": shown}

    for first, last, read, replacement in text.segments():
        end, inside = at + len(read), at
        own = range(bisect_left(starts, at), bisect_left(starts, end))
        if replacement is not None:
            was = {"was": text.typed[first:last], "start": first, "end": last}
            pieces.append({"text": replacement, **was, **weigh(own.start, own.stop)})
        else:
            for k in own:
                mark = marks[k]
                place = {"start": first + mark.start - at, "end": first + mark.end - at}
                word = {
                    "text": text.read[mark.start : mark.end],
                    **place,
                    **weigh(k, k + 1),
                }
                pieces += [{"text": text.read[inside : mark.start]}, word]
                inside = mark.end
            pieces.append({"text": text.read[inside:end]})
        at = end
    return [piece for piece in pieces if piece["text"] or "was" in piece]


def list_steps(explanation: Explanation) -> list[dict[str, Any]]:
    """Return the steps from the bias over the strongest words to the logit; other words
    are one step.
    """
    words = explanation.by_word()
    parts = [
        ("bias", explanation.bias),
        *((part.named, part.value) for part in words[:STEPS]),
    ]
    if rest := words[STEPS:]:
        parts.append(
            (
                f"{len(rest)} other{'s' if len(rest) > 1 else ''}",
                sum(part.value for part in rest),
            )
        )
    steps, at = [], 0.0
    for name, value in parts:
        steps.append({"name": name, "start": at, **_value(explanation, value)})
        at += _along(explanation, value)
    return steps


def list_leaders(explanation: Explanation, head: int) -> list[dict[str, Any]]:
    """Return the leaders of a head with share, layer and followers."""
    written = explanation.as_written
    return [
        {
            "word": written[one.word],
            "share": one.share,
            "since": one.since,
            "followers": [written[word] for word in one.followers[:MAX_FOLLOWERS]],
            "more": max(0, len(one.followers) - MAX_FOLLOWERS),
        }
        for one in explanation.leaders[head][:MAX_LEADERS]
    ]


def describe_plane(explanation: Explanation, head: int) -> dict[str, Any] | None:
    """Return the words of a head in its plane, layer by layer, and its decision line;
    None if there is no plane.

    The contribution of the other heads is in the offset, so that the side of the mean
    is the prediction.
    """
    weights = explanation.model.weights
    if (
        weights.d != 2
        or weights.outputs != 1
        or not explanation.model.reads_ngrams_alone
    ):
        return None
    run = simulate_head(weights, explanation.ids, explanation.counts, head)
    first = (
        np.cumsum(explanation.counts) - explanation.counts
    )  # equal tokens stay together
    found = explanation.followers.find_leaders()
    factor = weights.decoder[0, head] * weights.pooling_factor(explanation.counts.sum())
    own = float(
        explanation.shares[head] @ weights.tokens(explanation.ids)[:, head] @ factor
    )
    return {
        "layers": [f"layer {k}" for k in range(len(run.array))],
        "positions": run.array[:, first].round(4).tolist(),
        "means": run.array.mean(axis=1).round(4).tolist(),
        "leads": (found.emerged[0, head] >= 0).tolist(),
        "follows": found.follows[0, head].tolist(),
        "words": [explanation.as_written[word] for word in explanation.words.tolist()],
        "normal": factor.tolist(),
        "offset": float(explanation.logits[0]) - own,
    }


def flip(model: Model, text: Text, progress: Progress) -> dict[str, Any]:
    """Return words whose removal changes the prediction, by their offsets in the text
    as typed.
    """
    found = explain(model, text.read).minimal_flip(progress=progress)
    places = dict.fromkeys(text.find_typed(start, end) for start, end in found.places)
    return {"sentence": str(found), "flips": found.flips, "places": list(places)}


def compare(model: Model, first: Text, second: Text) -> dict[str, Any]:
    """Return the changes of all tokens between two texts, which sum to the change of
    the logit.
    """
    found = explain(model, first.read).counterfactual(second.read)
    one, other = found.first, found.second
    changes = found.changes.replace({"token": other.as_written | one.as_written})
    rows, rest = changes[:MAX_CHANGES].to_dict("records"), changes[MAX_CHANGES:]
    if len(rest):
        rows.append(
            {
                "token": f"{len(rest)} others",
                "where": "",
                **rest[["before", "after", "change"]].sum(),
            }
        )
    label, total = str(one.prediction), float(one.signed(found.change))
    verb = (
        "Both texts are"
        if one.prediction == other.prediction
        else f"The first text is {label}, the second"
    )
    change = (
        f"From the first to the second, the logit for {label} changes by {total:+.2f}:"
        " the sum of the last column."
    )
    return {
        "sentence": f"{verb} {other.prediction}. {change}",
        "rows": rows,
        "towards": label,
    }


def read_table(
    name: str,
    model: Model,
    file: str,
    data: bytes,
    column: str | None = None,
    *,
    progress: Progress,
) -> dict[str, Any]:
    """Return the predictions for all texts of a file: row, text, class, probability and
    strongest words.
    """
    shown, ending = Path(file).name or "The file", Path(file).suffix.lower()
    if ending not in TABLE_ENDINGS:
        raise ParameterError(
            "file", f"end in {', '.join(TABLE_ENDINGS)}", repr(shown), "Save it as CSV."
        )
    if ending == ".xlsx":
        _check_unpacked_size(shown, data)
    with TemporaryDirectory() as folder:
        if ending == ".json":
            line = json.dumps({"text": _read_explanation(shown, data)})
            ending, data = ".jsonl", line.encode()
        path = Path(folder, f"texts{ending}")
        path.write_bytes(data)
        try:
            table = read_texts(
                path, text=(column or "").strip() or None, labelled=False
            )
        except (InputError, MissingExtra) as problem:
            raise InputError(
                describe_problem(problem).replace(str(path), shown)
            ) from None
    if len(table.texts) > MAX_ROWS:
        advice = "Split it, or use the command hardmax predict."
        raise ParameterError(
            "file", f"hold at most {MAX_ROWS:,} texts", f"{len(table.texts):,}", advice
        )
    rows = [
        _describe_row(number, found)
        for number, found in enumerate(_explain(model, table.texts, progress), 1)
    ]
    note = keep_followable(
        table.note.replace(str(path), shown), lambda name, value: None
    ).replace("`", "")
    return {"name": shown, "rows": rows, "note": note, **describe_model(name, model)}


def _explain(
    model: Model, texts: Sequence[str], progress: Progress
) -> Iterator[Explanation]:
    for at in range(0, len(texts), ROWS_AT_ONCE):
        progress(at, len(texts))
        yield from explain_many(model, texts[at : at + ROWS_AT_ONCE])


def _describe_row(number: int, found: Explanation) -> dict[str, Any]:
    words = found.by_word()[:STRONGEST_WORDS] if len(found.ids) else []
    return {
        "row": number,
        "text": found.text,
        "class": int(found._best[0]),
        "probability": found.probability,
        "words": [{"text": part.text, **_value(found, part.value)} for part in words],
    }


def _read_explanation(shown: str, data: bytes) -> str:
    """Return the text of an exported explanation."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if (
        not isinstance(document, Mapping)
        or document.get("format") != "hardmax-explanation-1"
        or not isinstance(document.get("text"), str)
    ):
        raise ParameterError(
            "file", "be an explanation if it ends in .json", repr(shown), "Use .jsonl."
        )
    return document["text"]


def _check_unpacked_size(shown: str, data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            size = sum(part.file_size for part in packed.infolist())
    except zipfile.BadZipFile:
        raise InputError(
            f"{shown} must be an Excel file. Got something else. Save it again as"
            " .xlsx."
        ) from None
    if size > MAX_UNPACKED_BYTES:
        must = f"have at most {MAX_UNPACKED_BYTES // 10**6} MB when unpacked"
        raise ParameterError(
            "file", must, f"{size / 1e6:.0f} MB", "Save it as CSV, in several files."
        )


def write_table(model: Model, rows: Any, progress: Progress) -> bytes:
    """Return rows of a table as CSV, with cells that a spreadsheet would run as
    formulas escaped.
    """
    if not isinstance(rows, list) or not all(
        isinstance(row, Mapping) and isinstance(row.get("text"), str) for row in rows
    ):
        raise ParameterError("rows", "be rows of a table", type(rows).__name__)
    texts = [row["text"] for row in rows[:MAX_ROWS]]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "text", "prediction", "probability", "strongest words"])
    for number, found in enumerate(_explain(model, texts, progress), 1):
        words = ", ".join(
            f"{part.text} {_along(found, part.value):+.2f}"
            for part in found.by_word()[:STRONGEST_WORDS]
        )
        cells = (
            number,
            found.text,
            str(found.prediction),
            f"{found.probability:.6f}",
            words,
        )
        writer.writerow(map(escape_formula, cells))
    return out.getvalue().encode()


def to_python(name: str, text: str) -> str:
    """Return lines of Python that compute the explanation of a text."""
    own = (Path(name) / FILE).is_file() and name not in shipped_models()
    made = f"hm.HardmaxClassifier.load({name!r})" if own else f"hm.pretrained({name!r})"
    lines = [
        "import hardmax as hm",
        "",
        f"classifier = {made}",
        f"explanation = classifier.explain({text!r})",
    ]
    return "\n".join(
        [*lines, "print(explanation)", "print(explanation.to_frame())", ""]
    )


def to_file(
    name: str, model: Model, text: Text, head: int, kind: str, progress: Progress
) -> bytes:
    """Return the explanation as a page, a picture, a movie of one head, a table of
    words, JSON, or Python.
    """
    if kind == "py":
        return to_python(name, text.read).encode()
    found = explain(model, text.read)
    if kind == "html":
        return str(found.to_html()).encode()
    if kind == "json":
        return found.to_json().encode()
    if kind == "csv":
        return bytes(escape_formulas(found.to_frame()).to_csv(index=False).encode())
    with DRAWING:
        if kind == "gif":
            return found.movie(head=head, progress=progress).data
        import matplotlib.pyplot as plt

        figure, data = found.plot(), io.BytesIO()
        figure.savefig(data, format=kind, dpi=150, bbox_inches="tight")
        plt.close(figure)
        return data.getvalue()
