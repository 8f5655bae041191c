"""The record of a training, and the card of a model: classes, training data, scores and
limits.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from statistics import median
from typing import Any

import numpy as np

from hardmax._display import count
from hardmax._version import __version__
from hardmax.draw.pages import card
from hardmax.text.encoder import PACKAGED
from hardmax.text.files import join_names
from hardmax.text.model import Epoch, Model
from hardmax.text.tokenizer import full_name

MAX_LEADERS = 8
MIN_TEXTS_PER_CLASS = 30  # below it the card warns
TRAINED_ON = (
    "The model was trained on these texts, so they do not show how accurate it is."
    " Measure it on other texts."
)


@dataclass(frozen=True)
class Record:
    """The training data of a model, as plain data, and the date of the training.

    Attributes
    ----------
    texts : int
        Number of texts.
    classes : dict of str to int
        Number of texts of each class.
    characters : float
        Median length of a text.
    sha256 : str
        Hash of all texts and labels, in their order.
    date : str
        Date of the training, as 2025-01-31.
    version : str
        Version of hardmax.
    about : str
        Description of the data, if a person wrote one.

    Examples
    --------
    >>> from hardmax.text.card import Record
    >>> record = Record.of(["good", "bad film"], ["pos", "neg"])
    >>> record.texts, dict(record.classes), record.characters
    (2, {'neg': 1, 'pos': 1}, 6.0)
    """

    texts: int
    classes: Mapping[str, int]
    characters: float
    sha256: str
    date: str
    version: str = __version__
    about: str = ""

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[Any]) -> "Record":
        """Return the record of texts and labels that a model was trained on today."""
        digest = sha256()
        for text, label in zip(texts, labels, strict=True):
            for part in (text, str(label)):
                data = part.encode("utf-8", "surrogatepass")
                digest.update(len(data).to_bytes(8, "little") + data)
        own = (label if isinstance(label, tuple) else (label,) for label in labels)
        counts = Counter(map(str, chain.from_iterable(own)))
        today = datetime.now(UTC).date().isoformat()
        return cls(
            len(texts),
            dict(sorted(counts.items())),
            float(median(map(len, texts))),
            digest.hexdigest(),
            today,
        )

    def describes(self, texts: Sequence[str], labels: Sequence[Any]) -> bool:
        """Return whether a model was trained on exactly these rows, in this order."""
        if len(texts) != self.texts:
            return False
        # several labels of a text are in the order of the classes there
        ordered = [tuple(sorted(x)) if isinstance(x, tuple) else x for x in labels]
        return Record.of(texts, ordered).sha256 == self.sha256


def model_card(model: Model, history: Sequence[Epoch], record: Record) -> str:
    """Return the card of a model in Markdown: classes, training data, scores and
    limits.
    """
    weights, vocabulary = model.weights, model.vocabulary
    counts = join_names(
        [f"{name}: {texts:,}" for name, texts in record.classes.items()]
    )
    heads = (
        f"{count(weights.heads, 'head')} of {count(weights.d, 'coordinate')},"
        f" {count(weights.layers, 'layer')}"
    )
    seen = (
        "- It uses the words of its training texts only; every text without such a word"
        " gets the same prediction."
    )
    if model.context is not None:
        seen = (
            "- A word's contribution is that of its vector, which already depends on"
            " the words around it."
        )
        heads = (
            f"vectors of {model.context.encoder.identity['name']},"
            f" {count(model.context.heads, 'head')} on a line"
        )
        heads += (
            "; n-grams:"
            f" {'used' if weights.layers else 'not used, as they did not help in cross-validation'}"
        )
    limits = [
        seen,
        (
            "- Its accuracy holds for texts like those it was trained on. Measure it on"
            " others: hardmax evaluate."
        ),
    ]
    rare = [
        name for name, texts in record.classes.items() if texts < MIN_TEXTS_PER_CLASS
    ]
    if rare:
        limits.append(
            f"- It was trained on fewer than {MIN_TEXTS_PER_CLASS} texts of"
            f" {', '.join(rare)}."
        )
    if vocabulary.splitter.tokenizer is not None:
        name = full_name(vocabulary.splitter.tokenizer)
        limits.append(
            "- It works in Python only, with the tokenizer that it was trained with:"
            f" {name}."
        )
    terms = "words and columns" if len(model.columns) else "words"
    lines = [
        "# A text classifier made by hardmax",
        (
            f"\n{'Labels, several per text' if model.multilabel else 'Classes'}:"
            f" {_list_classes(model)}."
        ),
        "\n## Training\n",
        *([f"{record.about}\n"] if record.about else []),
        (
            f"- {record.texts:,} texts, median length {record.characters:,.0f}"
            f" characters ({counts})"
        ),
        f"- on {record.date}, by hardmax {record.version}",
        f"- SHA-256 of texts and labels: {record.sha256}",
        f"- {heads}",
        f"- {len(vocabulary):,} tokens of up to {count(vocabulary.max_ngram, 'word')}",
        *(
            [f"- columns: {join_names(model.columns.names)}"]
            if len(model.columns)
            else []
        ),
        (
            "\n##"
            f" Scores\n\n{_describe_scores(history)}{' Mean over labels.' if model.multilabel else ''}"
        ),
        f"\nDecision: {_describe_threshold(model)}",
        "\n## Limits\n",
        *limits,
        f"\nEvery prediction is a sum over {terms}: {explain_command(model)}.\n",
    ]
    return "\n".join(lines)


def explain_command(model: Model) -> str:
    """Return the command that explains predictions of a model in FOLDER, or a call in
    Python where no command can.
    """
    encoder = None if model.context is None else model.context.encoder
    if model.vocabulary.splitter.tokenizer is not None:
        return "HardmaxClassifier.load(FOLDER, tokenizer=...).explain(text)"
    if encoder is not None and encoder.source is None:
        return "HardmaxClassifier.load(FOLDER).explain(vectors)"
    if encoder is not None and not encoder.is_transformer:
        return "HardmaxClassifier.load(FOLDER, encoder=...).explain(text)"
    more = "" if encoder is None or encoder.source == PACKAGED else " --encoder ENCODER"
    if len(model.columns):
        return f"hardmax predict --file FILE --out predictions.csv --model FOLDER{more}"
    return f'hardmax explain "a text" --model FOLDER{more}'


def card_line(model: Model, history: Sequence[Epoch], record: Record) -> str:
    """Return the card of a model in one sentence."""
    return (
        f"Classes: {_list_classes(model)}. Trained on {record.texts:,} texts."
        f" {_describe_scores(history)}"
    )


def _list_classes(model: Model) -> str:
    return join_names(list(map(str, model.classes.tolist())))


def _describe_scores(history: Sequence[Epoch]) -> str:
    for epoch in history:
        if epoch.kept and epoch.accuracy is not None:
            loss = f", loss {epoch.loss:.4f}" if epoch.loss is not None else ""
            return f"Accuracy {epoch.accuracy:.4f}{loss}, on held-out texts."
    return "No texts were held out; hardmax evaluate measures the accuracy."


def _describe_threshold(model: Model) -> str:
    """Return how predictions follow from probabilities."""
    names, threshold = list(map(str, model.classes.tolist())), model.threshold
    if model.multilabel:
        above = [
            f"{name} above {value:.3f}"
            for name, value in zip(names, np.ravel(threshold).tolist(), strict=True)
        ]
        return (
            "every label whose probability is above its `threshold_`:"
            f" {join_names(above)}."
        )
    if isinstance(threshold, float):
        return (
            f"{names[1]} if its probability is above {threshold:.3f}, else {names[0]}"
            " (`threshold_`)."
        )
    if model.weights.decision_offset is None:
        return "the class with the largest probability."
    parts = join_names(
        [
            f"{name} {value:.3f}"
            for name, value in zip(names, threshold.tolist(), strict=True)
        ]
    )
    return (
        "the class with the largest ratio of its probability to its `threshold_`:"
        f" {parts}."
    )


def notebook_card(model: Model, history: Sequence[Epoch]) -> str:
    """Return HTML about a model and its training."""
    weights, about = (
        model.weights,
        "Classifies texts by the words that others gather around.",
    )
    facts: dict[str, object] = {
        "classes": _list_classes(model),
        "vocabulary": f"{len(model.vocabulary):,} tokens",
        "heads": (
            f"{weights.heads} of {count(weights.d, 'coordinate')},"
            f" {count(weights.layers, 'layer')}"
        ),
    }
    for epoch in history:
        if epoch.kept and epoch.accuracy is not None:
            facts["accuracy"] = f"{epoch.accuracy:.1%} on held-out texts"
    return card(
        about,
        facts=facts,
        head=("leads in every text that has it", "counts for"),
        rows=_find_leaders(model),
    )


def _find_leaders(model: Model) -> list[list[object]]:
    """Return the longest token of each head and its class: no product with it is
    larger, so it always leads.
    """
    weights = model.weights
    if model.context is not None or model.multilabel:
        return []
    z = weights.embedding.astype(np.float64)  # (tokens, heads, d)
    images = z if weights.A is None else np.einsum("hij,thj->thi", weights.A, z)
    longest = (images * z).sum(axis=2).argmax(axis=0)  # (heads,)
    scores = np.einsum(
        "hd,ohd->ho", z[longest, np.arange(weights.heads)], weights.decoder
    )
    order = np.argsort(-np.abs(scores).max(axis=1), kind="stable")
    rows: dict[str, list[object]] = {}
    for word, label in zip(
        model.vocabulary.names(longest[order]), model.decide(scores[order]), strict=True
    ):
        rows.setdefault(word, [word, label])
    return list(rows.values())[:MAX_LEADERS]
