"""Which words would have to go for the answer to be another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.text.model import Model

if TYPE_CHECKING:
    from hardmax.text.explanation import Explanation

TRIED = 8  # words that are struck by way of trial, the strongest first
MOST_STRUCK = 100  # words, after which the search gives up

Place = tuple[int, int]


@dataclass(frozen=True)
class Flip:
    """Words whose removal changes the answer, or why there are none. It prints as a sentence.

    Attributes
    ----------
    words : tuple of str
        As they stand in the text.
    places : tuple of (start, end)
        Where they stand.
    before, after : labels
        The answer with them and without.
    logits : (outputs,) array
        Without them.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> flip = explanation.minimal_flip()
    >>> flip.flips, str(flip.before), str(flip.after)
    (True, 'pos', 'neg')
    """

    words: tuple[str, ...]
    places: tuple[Place, ...]
    before: Any
    after: Any
    logits: Any

    @property
    def flips(self) -> bool:
        """Whether there are such words."""
        return bool(self.after != self.before)

    def __str__(self) -> str:
        if not self.places and not self.flips:
            return f"No word speaks for {self.before}, so there is none to strike: the bias alone decides."
        count = f"{len(self.places)} word{'s' if len(self.places) > 1 else ''}"
        if not self.flips:
            return f"No set of words was found: {count} struck one by one, and the answer is still {self.before}."
        quoted = ", ".join(f"“{word}”" for word in self.words)
        needed = " Each of them is needed." if len(self.places) > 1 else ""
        return f"Without {count}, {quoted}, the answer is {self.after}.{needed}"

    __repr__ = __str__


def minimal_flip(explanation: "Explanation", explain: Callable[[str], "Explanation"]) -> Flip:
    """A small set of words without which the answer is another; the model is run on every text on the way.

    Greedy: of the words that say most for the answer the one is struck whose loss costs it most, until it flips. Then
    words come back as long as it stays flipped, so that each one left is needed. A smaller set may exist.
    """
    model, text = explanation.model, explanation.text
    struck: list[Place] = []
    now = explanation
    while now.prediction == explanation.prediction and len(struck) < MOST_STRUCK:
        marks = now.highlighted(even=False)  # the words that the answer stands on
        marks = tuple(mark for mark in marks if now.text[mark.start : mark.end].strip())  # that can be struck
        values = {(mark.start, mark.end): float(explanation.signed(mark.contribution)) for mark in marks}
        strongest = [place for place in sorted(values, key=lambda place: -values[place])[:TRIED] if values[place] > 0]
        if not strongest:
            break
        scores = model.logits([without(text, [*struck, place]) for place in strongest])
        sides = scores[:, 0] if scores.shape[1] == 1 else scores
        struck.append(strongest[int(np.argmin(explanation.signed(sides)))])
        now = explain(without(text, struck))
    if now.prediction != explanation.prediction:
        struck = _needed(model, text, struck, explanation.prediction)
        now = explain(without(text, struck))
    places = tuple(sorted(struck))
    words = tuple(text[start:end] for start, end in places)
    return Flip(words, places, explanation.prediction, now.prediction, now.logits)


def without(text: str, places: list[Place]) -> str:
    """A text with spaces in the place of some words: what is left stays where it was."""
    letters = list(text)
    for start, end in places:
        letters[start:end] = " " * (end - start)
    return "".join(letters)


def _needed(model: Model, text: str, struck: list[Place], answer: object) -> list[Place]:
    """Those of the struck words that must stay away for the answer to stay flipped."""
    again = True
    while again:
        again = False
        for place in list(struck):
            fewer = [other for other in struck if other != place]
            if fewer and model.decide(model.logits([without(text, fewer)]))[0] != answer:
                struck, again = fewer, True
    return struck
