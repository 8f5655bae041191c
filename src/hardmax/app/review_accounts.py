"""What an explanation says, as numbers to be shown: steps to the logit, a head in its plane.

Pure functions of an `Explanation`. Of two classes the logit is positive for the second; of more it is the answer's.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardmax._errors import ParameterIndexError
from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.app.review_texts import along
from hardmax.text.explanation import Explanation
from hardmax.text.model import Model, simulate_head

STEPS = 8  # words of a waterfall
READABLE = {"pos": "positive", "neg": "negative"}


def named(label: object) -> str:
    """A class as one reads it."""
    return READABLE.get(str(label), str(label))


class Step(NamedTuple):
    """A step from one logit to the next."""

    name: str
    value: float
    start: float

    @property
    def end(self) -> float:
        return self.start + self.value


def waterfall(explanation: Explanation, count: int = STEPS) -> list[Step]:
    """From the bias over the strongest words to the logit; a word counts with all its places, others together."""
    words = explanation.by_word()
    parts = [("bias", along(explanation, explanation.bias))]
    for part in words[:count]:
        parts.append((part.named, along(explanation, part.value)))
    if rest := words[count:]:
        name = f"{len(rest)} other{'s' if len(rest) > 1 else ''}"
        parts.append((name, sum(along(explanation, part.value) for part in rest)))
    ends = np.cumsum([value for _, value in parts]).tolist()
    return [Step(name, value, end - value) for (name, value), end in zip(parts, ends, strict=True)]


@dataclass(frozen=True, eq=False)
class Plane:
    """One head of a text in its plane, layer by layer, and the line on which the mean's logit is 0."""

    layers: tuple[int, ...]
    points: FloatArray  # (layers, n, 2) distinct tokens
    means: FloatArray  # (layers, 2) of all tokens: in the end its side of the line is the answer
    leads: BoolArray  # (n,)
    follows: IntArray  # (n,) whom each token follows in the end
    words: tuple[str, ...]
    normal: FloatArray  # (2,) of the line; it points to the side of the answer
    offset: float  # normal . z + offset is positive on the side of the answer


def plane(explanation: Explanation, head: int) -> Plane | None:
    """A head in its plane; None where there is no plane: d is not 2, more than two classes, or no known word.

    What the other heads say of this text is in the offset, so that the side of the mean is still the answer.
    """
    weights = explanation.model.weights
    check_head(explanation.model, head)
    if weights.d != 2 or weights.outputs != 1 or not len(explanation.ids):
        return None
    run = simulate_head(weights, explanation.ids, explanation.counts, head)
    first = np.cumsum(explanation.counts) - explanation.counts  # equal tokens stay together
    layers = tuple(sorted({0, 1, run.layers}))
    places = run.array[[run.index(k) for k in layers]]  # (layers, tokens, 2)
    found = explanation.followers.find_leaders()
    side = 1 if explanation.logits[0] > 0 else -1
    v = weights.decoder[0, head] * weights.pooling_factor(explanation.counts.sum())
    own = float(explanation.shares[head] @ weights.tokens(explanation.ids)[:, head] @ v)
    return Plane(
        layers,
        places[:, first],
        places.mean(axis=1),
        found.emerged[0, head] >= 0,
        found.follows[0, head],
        tuple(explanation.as_written[word] for word in explanation.words.tolist()),
        side * v,
        side * (float(explanation.logits[0]) - own),
    )


def check_head(model: Model, head: int) -> None:
    """Refuse a head that the model has not."""
    if not isinstance(head, int) or isinstance(head, bool) or not 0 <= head < model.weights.heads:
        must = f"be a whole number between 0 and {model.weights.heads - 1}"
        raise ParameterIndexError("head", must, repr(head), "Choose another.")
