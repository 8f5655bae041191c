"""What an explanation says, as numbers to be shown: steps to the logit, leaders, a head in its plane, words to strike.

Pure functions of an `Explanation`. Of two classes the logit is positive for the second; of more it is the answer's.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardmax._errors import ParameterIndexError
from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.app.review_texts import along, towards
from hardmax.sentiment.explanation import Explanation, explain
from hardmax.sentiment.model import Model, following, simulated

STEPS = 8  # words of a waterfall
TRIED = 8  # words that are struck by way of trial, the strongest first
MOST_STRUCK = 100  # words, after which the search for a flip gives up
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
    sums: dict[str, float] = defaultdict(float)
    times: Counter[str] = Counter()
    for mark in explanation.highlights:
        sums[mark.word] += along(explanation, mark.contribution)
        times[mark.word] += 1
    order = sorted(sums, key=lambda word: -abs(sums[word]))
    names = {word: word if times[word] == 1 else f"{word} ({times[word]} times)" for word in order[:count]}
    rest = order[count:]
    parts = [("bias", along(explanation, explanation.bias)), *((names[word], sums[word]) for word in order[:count])]
    if rest:
        parts.append((f"{len(rest)} other{'s' if len(rest) > 1 else ''}", sum(sums[word] for word in rest)))
    ends = np.cumsum([value for _, value in parts]).tolist()
    return [Step(name, value, end - value) for (name, value), end in zip(parts, ends, strict=True)]


class Leading(NamedTuple):
    """A token that leads, over all heads."""

    name: str
    heads: int  # in how many it leads
    share: float  # of the mean in these, on average
    followers: float  # in these, on average


def leading(explanation: Explanation) -> list[Leading]:
    """Who leads in how many heads, those who lead in most first."""
    found = defaultdict(list)
    for leaders in explanation.leaders:
        for leader in leaders:
            found[leader.word].append((leader.share, len(leader.followers)))
    rows = [Leading(word, len(seen), *np.mean(seen, axis=0).tolist()) for word, seen in found.items()]
    return sorted(rows, key=lambda row: (-row.heads, -row.share))


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
    run = simulated(weights, explanation.ids, explanation.counts, head)
    first = np.cumsum(explanation.counts) - explanation.counts  # equal tokens stay together
    layers = tuple(sorted({0, 1, run.layers}))
    places = run.array[[run.index(k) for k in layers]]  # (layers, tokens, 2)
    found = following(weights, explanation.ids[None], explanation.counts[None])
    side = 1 if explanation.logits[0] > 0 else -1
    v = weights.decoder[0, head] * weights.loudness(explanation.counts.sum())
    own = float(explanation.shares[head] @ weights.tokens(explanation.ids)[:, head] @ v)
    return Plane(
        layers,
        places[:, first],
        places.mean(axis=1),
        found.emerged[0, head] >= 0,
        found.follows[0, head],
        tuple(explanation.words.tolist()),
        side * v,
        side * (float(explanation.logits[0]) - own),
    )


def check_head(model: Model, head: int) -> None:
    """Refuse a head that the model has not."""
    if not isinstance(head, int) or isinstance(head, bool) or not 0 <= head < model.weights.heads:
        must = f"be a whole number between 0 and {model.weights.heads - 1}"
        raise ParameterIndexError("head", must, repr(head), "Choose another.")


@dataclass(frozen=True)
class Flip:
    """Words whose removal changes the answer, or why there are none."""

    words: tuple[str, ...]  # as they stand in the text
    places: tuple[tuple[int, int], ...]  # where
    before: str
    after: str
    logit: float  # without them

    @property
    def flips(self) -> bool:
        return self.after != self.before

    def __str__(self) -> str:
        if not self.places and not self.flips:
            return f"No word speaks for {self.before}, so there is none to strike: the bias alone decides."
        count = f"{len(self.places)} word{'s' if len(self.places) > 1 else ''}"
        if not self.flips:
            return f"No set of words was found: {count} struck one by one, and the answer is still {self.before}."
        quoted = ", ".join(f"“{word}”" for word in self.words)
        needed = " Each of them is needed." if len(self.places) > 1 else ""
        return f"Without {count}, {quoted}, the answer is {self.after} (logit {self.logit:+.2f}).{needed}"


def flip(explanation: Explanation) -> Flip:
    """A small set of words without which the answer is another; the model is run on every text on the way.

    Greedy: of the words that say most for the answer the one is struck whose loss costs it most, until it flips. Then
    words come back as long as it stays flipped, so that each one left is needed. A smaller set may exist.
    """
    model, text = explanation.model, explanation.text
    struck: list[tuple[int, int]] = []
    now = explanation
    while now.prediction == explanation.prediction and len(struck) < MOST_STRUCK:
        values = {(mark.start, mark.end): towards(explanation, mark.contribution) for mark in now.highlights}
        strongest = [place for place in sorted(values, key=lambda place: -values[place])[:TRIED] if values[place] > 0]
        if not strongest:
            break
        scores = model.logits([without(text, [*struck, place]) for place in strongest])
        struck.append(strongest[int(np.argmin([towards(explanation, score) for score in scores]))])
        now = explain(model, without(text, struck))
    flipped = now.prediction != explanation.prediction
    struck = _needed(model, text, struck, explanation.prediction) if flipped else struck
    now = explain(model, without(text, struck))
    places = tuple(sorted(struck))
    words = tuple(text[start:end] for start, end in places)
    names = named(explanation.prediction), named(now.prediction)
    return Flip(words, places, *names, along(explanation, now.logits))


def without(text: str, places: list[tuple[int, int]]) -> str:
    """A text with spaces in the place of some words: what is left stays where it was."""
    letters = list(text)
    for start, end in places:
        letters[start:end] = " " * (end - start)
    return "".join(letters)


def _needed(model: Model, text: str, struck: list[tuple[int, int]], answer: object) -> list[tuple[int, int]]:
    """Those of the struck words that must stay away for the answer to stay flipped."""
    again = True
    while again:
        again = False
        for place in list(struck):
            fewer = [other for other in struck if other != place]
            if fewer and model.decide(model.logits([without(text, fewer)]))[0] != answer:
                struck, again = fewer, True
    return struck
