"""What a trained model knows of its training: on what, when, with which scores; and its card, which says so."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from statistics import median
from typing import Any

from hardmax._display import progress_bar
from hardmax._errors import InputError
from hardmax._version import __version__
from hardmax.text.model import Epoch, Model
from hardmax.text.tokenizers import full_name

MOST_CLASSES = 20
Report = Callable[[int, int, Any, Any], object]  # steps done, steps in all, the loss, and after an epoch its `Epoch`


@dataclass(frozen=True)
class Record:
    """The training of a model, as plain data: what it was trained on, and when.

    Attributes
    ----------
    texts : int
        How many.
    classes : dict of str to int
        How many of each class.
    characters : float
        The median length of a text.
    sha256 : str
        Of all texts and labels, in their order.
    date : str
        The day, as 2025-01-31.
    version : str
        Of hardmax.
    about : str
        What a person wrote of the data.

    Examples
    --------
    >>> from hardmax.text.record import Record
    >>> record = Record.of(["good", "bad film"], ["pos", "neg"])
    >>> record.texts, dict(record.classes), record.characters
    (2, {'neg': 1, 'pos': 1}, 6.0)
    """

    texts: int
    classes: Mapping[str, int]  # how many texts have each label
    characters: float  # of a text, the median
    sha256: str  # of all texts and labels, in their order
    date: str  # year, month, day
    version: str = __version__  # of hardmax
    about: str = field(default="")  # what somebody wrote about it

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[Any]) -> "Record":
        """Of texts and labels that a model was trained on today."""
        digest = sha256()
        for text, label in zip(texts, labels, strict=True):
            for part in (text, str(label)):
                data = part.encode("utf-8", "surrogatepass")
                digest.update(len(data).to_bytes(8, "little") + data)
        counts = Counter(map(str, labels))
        today = datetime.now(UTC).date().isoformat()
        return cls(len(texts), dict(sorted(counts.items())), float(median(map(len, texts))), digest.hexdigest(), today)

    @classmethod
    def from_data(cls, data: Any, path: str) -> "Record":
        """As a file holds it; every part is checked."""
        kinds: dict[str, Any] = {
            "texts": int,
            "classes": dict,
            "characters": int | float,
            **dict.fromkeys(("sha256", "date", "version", "about"), str),
        }
        known = isinstance(data, dict) and all(isinstance(data.get(name), kind) for name, kind in kinds.items())
        if not known or not all(isinstance(count, int) for count in data["classes"].values()):
            raise InputError(f"`{path}` must say of its training what hardmax writes. It says something else. Copy it.")
        return cls(**{name: data[name] for name in kinds})


def model_card(model: Model, history: Sequence[Epoch], record: Record | None) -> str:
    """The card of a model in Markdown: what it answers, what it was trained on, its scores and its limits."""
    weights, classes = model.weights, list(map(str, model.classes.tolist()))
    shown = ", ".join(classes[:MOST_CLASSES]) + (f" and {len(classes) - MOST_CLASSES} more" if classes[20:] else "")
    lines = ["# A text classifier made by hardmax", "", f"It answers with one of {len(classes)} classes: {shown}."]
    lines += ["", "## Training", ""]
    if record is None:
        lines += ["Nothing is recorded of the texts that it was trained on."]
    else:
        many = ", ".join(f"{name}: {count:,}" for name, count in list(record.classes.items())[:MOST_CLASSES])
        lines += [*([record.about, ""] if record.about else [])]
        lines += [f"- {record.texts:,} texts, {record.characters:,.0f} characters each in the median ({many})"]
        lines += [f"- on {record.date}, by hardmax {record.version}"]
        lines += [f"- SHA-256 of texts and labels: {record.sha256}"]
    parts = (_counted(weights.heads, "head"), _counted(weights.d, "coordinate"), _counted(weights.layers, "layer"))
    lines += [f"- {parts[0]} of {parts[1]}, {parts[2]}"]
    lines += [f"- {len(model.vocabulary):,} tokens of up to {_counted(model.vocabulary.longest, 'word')}"]
    lines += ["", "## Scores", "", _scores(history), "", "## Limits", ""]
    lines += [
        "- It knows the words of its training and no others; a text without a known word gets the same answer always."
    ]
    lines += ["- It was measured on texts like those it was trained on. On others, measure it: hardmax evaluate."]
    if record is not None and min(record.classes.values()) < 30:
        rare = ", ".join(name for name, count in record.classes.items() if count < 30)
        lines += [f"- Of {rare} it has seen fewer than 30 texts."]
    own, explain = model.vocabulary.splitter.tokenizer, 'hardmax explain "a text" --model FOLDER'
    if own is not None:
        lines += [f"- It works in Python alone, with the tokenizer that it was trained with: {full_name(own)}."]
        explain = "HardmaxClassifier.load(FOLDER, tokenizer=...).explain(text)"
    lines += ["", f"Every answer is a sum over words: {explain}."]
    return "\n".join([*lines, ""])


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _scores(history: Sequence[Epoch]) -> str:
    kept = [epoch for epoch in history if epoch.kept and epoch.accuracy is not None]
    if not kept:
        return "No texts were held back, so no accuracy is known here: hardmax evaluate measures it."
    loss = f", loss {kept[-1].loss:.4f}" if kept[-1].loss is not None else ""
    return f"Accuracy {kept[-1].accuracy:.4f}{loss}, on texts that were held back from training."


@contextmanager
def training_bar(report: Report) -> Iterator[Report]:
    """Yield a `Report` that calls `report`, and shows the smoothed loss and the last accuracy."""
    smooth: float | None = None
    accuracy = ""

    with progress_bar("Training") as moved:

        def both(done: int, total: int, loss: Any, epoch: Any) -> None:
            nonlocal accuracy
            report(done, total, loss, epoch)
            if epoch is not None and epoch.accuracy is not None:
                accuracy = f"  validation accuracy {epoch.accuracy:.3f}"

            def known() -> str:
                nonlocal smooth
                smooth = float(loss) if smooth is None else 0.8 * smooth + 0.2 * float(loss)
                return f"loss {smooth:.3f}{accuracy}"

            moved(done, total, known)

        yield both
