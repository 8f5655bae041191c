"""What would change an answer: words to remove, and the token by token difference to another text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._errors import ParameterError
from hardmax.text.model import Model

if TYPE_CHECKING:
    from pandas import DataFrame

    from hardmax.text.explanation import Explanation

SAID = 5  # tokens that the sentence names
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


class Change(NamedTuple):
    """A token, what it adds to the logit of the first text and of the second, and which of them have it.

    Attributes
    ----------
    token : str
        A word or a run of words.
    before, after : float, or (classes,) array
        What it adds to the logit of the first text and of the second.
    where : str
        Which of them have it.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> changes = explanation.counterfactual("A wonderful film, and short.").changes
    >>> {change.where for change in changes if change.token == "wonderful"}
    {'both'}
    """

    token: str
    before: Any
    after: Any
    where: str  # "first", "second" or "both"

    @property
    def change(self) -> Any:
        """`after` less `before`."""
        return self.after - self.before


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two texts under one model: the changes of all tokens add up to that of the logit. It prints as a sentence.

    A token that both texts have may count more or less in the second, as others lead there.

    Attributes
    ----------
    first, second : Explanation
        Of each text.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> comparison = explanation.counterfactual("A dreadful film, but far too long.")
    >>> bool(comparison.change < 0)
    True
    >>> bool(abs(sum(one.change for one in comparison.changes) - comparison.change) < 1e-9)
    True
    """

    first: "Explanation"
    second: "Explanation"

    @property
    def change(self) -> Any:
        """Of the logit."""
        return self.second.logit - self.first.logit

    @property
    def changes(self) -> list[Change]:
        """Of every token, the largest first, seen from the answer to the first text."""
        first, second = self.first, self.second
        ids = np.union1d(first.ids, second.ids)
        shape = (len(ids), *first.contributions.shape[1:])
        before, after = np.zeros(shape), np.zeros(shape)
        before[np.searchsorted(ids, first.ids)] = first.contributions
        after[np.searchsorted(ids, second.ids)] = second.contributions
        here, there = np.isin(ids, first.ids), np.isin(ids, second.ids)
        order = np.argsort(-np.abs(first.signed(after - before)), kind="stable").tolist()
        names = first.model.vocabulary.names(ids)
        where = np.where(here & there, "both", np.where(here, "first", "second")).tolist()
        return [Change(names[i], before[i], after[i], where[i]) for i in order]

    def __repr__(self) -> str:
        first, second = self.first, self.second
        same = "the answer stays" if first.prediction == second.prediction else "the answer becomes"
        written = second.as_written | first.as_written
        parts = [f"{written[each.token]} {float(first.signed(each.change)):+.2f}" for each in self.changes[:SAID]]
        total = float(first.signed(self.change))
        most = f"; most by {', '.join(parts)}" if parts else ""
        return f"{same.capitalize()} {second.prediction}: {total:+.2f} for {first.prediction}{most}."

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame with a row for each token."""
        import pandas

        first = self.first
        rows = [
            (each.token, each.where, *(float(first.signed(part)) for part in (each.before, each.after, each.change)))
            for each in self.changes
        ]
        return pandas.DataFrame(rows, columns=["token", "where", "before", "after", "change"])


def compare(model: Model, first: "Explanation", second: "Explanation") -> Comparison:
    """Two explanations of one model."""
    if second.model is not model:
        raise ParameterError("text", "be a text, or explained by the same model", "one of another model")
    return Comparison(first, second)
