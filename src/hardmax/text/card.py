"""What a notebook shows of a trained classifier: what it knows, how good it was, which words lead in every text."""

from collections.abc import Sequence

import numpy as np

from hardmax.draw.pages import card
from hardmax.text.model import Epoch, Model

MOST_LEADERS, MOST_CLASSES = 8, 12


def classifier_card(model: Model, history: Sequence[Epoch]) -> str:
    """A piece of HTML about a model and the training that made it."""
    weights, classes = model.weights, model.classes.tolist()
    shown = ", ".join(map(str, classes[:MOST_CLASSES]))
    facts: dict[str, object] = {
        "classes": f"{shown}, ..." if len(classes) > MOST_CLASSES else shown,
        "vocabulary": f"{len(model.vocabulary):,} tokens",
        "heads": f"{weights.heads} of {weights.d} coordinates, {weights.layers} layers",
    }
    known = [epoch.accuracy for epoch in history if epoch.kept and epoch.accuracy is not None]
    if known:
        facts["accuracy"] = f"{known[0]:.1%} on texts that were held back"
    head = ("leads wherever it is", "speaks for")
    return card(
        "Classifies texts by the words that others gather around.", facts=facts, head=head, rows=_leading(model)
    )


def _leading(model: Model) -> list[list[object]]:
    """The longest token of each head: no other has a larger product with it, so it leads in every text that has it."""
    weights = model.weights
    z = weights.embedding.astype(np.float64)  # (tokens, heads, d)
    images = z if weights.A is None else np.einsum("hij,thj->thi", weights.A, z)
    longest = (images * z).sum(axis=2).argmax(axis=0)  # (heads,)
    scores = np.einsum("hd,ohd->ho", z[longest, np.arange(weights.heads)], weights.decoder)
    order = np.argsort(-np.abs(scores).max(axis=1), kind="stable")
    rows: dict[str, list[object]] = {}
    for h in order.tolist():
        word = model.vocabulary.name(int(longest[h]))
        rows.setdefault(word, [word, model.decide(scores[h][None])[0]])
    return list(rows.values())[:MOST_LEADERS]
