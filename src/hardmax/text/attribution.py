"""Results of explanations: parts of the logit by word, sentence and phrase, leaders,
flips, comparisons of two texts.

Parts and the bias sum to the logit, and the changes of all tokens between two texts to
the change of the logit.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import category

import numpy as np

from hardmax._display import count
from hardmax._errors import ParameterError
from hardmax._types import FloatArray, IntArray, Progress
from hardmax.text.columns import replace_text
from hardmax.text.encoder import VectorText
from hardmax.text.tokenizer import Place

if TYPE_CHECKING:
    from pandas import DataFrame

    from hardmax.text.explanation import Explanation

MAX_SHOWN_TOKENS = 5  # in the sentence about a comparison
# words whose removal is tried in one step of `minimal_flip`, the largest contributions
# first
MAX_TRIED = 8
MAX_REMOVED = 100  # words, after which the search ends
MAX_READ = 100  # texts that an encoder reads in one search
FULL_STOPS, CLOSING = (
    r"\u3002\uff01\uff1f",
    r"\u300d\u300f\uff09",
)  # of scripts without spaces
UNSPACED_END = rf"(?<=[{FULL_STOPS}])[{CLOSING}]*(?![{FULL_STOPS}{CLOSING}])\s*"
SENTENCE = re.compile(
    rf"\n+|(?<=[.!?])[\"')\]]*\s+|{UNSPACED_END}"
)  # separators of sentences
CLAUSE = re.compile(
    rf"{SENTENCE.pattern}|(?<=[,;:])\s+|\s+(?=[(\[])|(?<=[)\]])\s+|(?<=[\u3001\uff0c\uff1b\uff1a])|\s[-\u2013\u2014]+\s"
)  # separators of phrases


class Part(NamedTuple):
    """A part of a text and its part of the logit.

    Attributes
    ----------
    text : str
        A word, phrase or sentence, as written; or a column with its value.
    value : float, or (classes,) array
        Its part of the logit.
    places : tuple of (start, end)
        Offsets of its occurrences: `text[start:end]`.

    Examples
    --------
    >>> import hardmax as hm
    >>> [part.text for part in hm.pretrained("imdb").explain("A wonderful film, but far too long.").by_phrase()]
    ['A wonderful film,', 'but far too long.']
    """

    text: str
    value: float | FloatArray
    places: tuple[Place, ...]

    @property
    def named(self) -> str:
        """Return the text, with the number of occurrences if there are several."""
        return (
            self.text
            if len(self.places) < 2
            else f"{self.text} ({len(self.places)} times)"
        )


class Highlight(NamedTuple):
    """A word of a text, lower-cased, with its offsets and its part of the logit, see
    `Explanation.highlighted`.
    """

    word: str
    start: int
    end: int
    contribution: float | FloatArray


def attribute_to_words(explanation: "Explanation", *, even: bool) -> FloatArray:
    """Return (words, outputs) parts of the logits for each word of the text; with
    `columns` they sum to the terms.
    """
    reading, terms = explanation.reading, explanation.terms.copy()
    if reading is not None:  # a vector belongs to one occurrence of its word
        np.subtract.at(terms, explanation.read_rows, reading.terms)
    total = np.zeros((len(explanation.spans), terms.shape[1]))
    for places, _, parts in share_ngrams(explanation, terms, even=even):
        np.add.at(total, places[:, None] + np.arange(parts.shape[1]), parts)
    if reading is not None:
        total[reading.rows] += reading.terms
    return total


def share_ngrams(
    explanation: "Explanation", terms: FloatArray, *, even: bool = True
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield the first words of n-grams of one size, their indices, and (m, size,
    outputs) parts of their words.

    A token that occurs several times is shared evenly by its occurrences. Erasing one
    word of an n-gram removes the whole n-gram, so its term goes to one word: the one
    whose own score v . z as a single token is largest for that class. With `even` the
    term is shared by all words and punctuation characters of the n-gram, where
    punctuation parts it only by the words on the side of that strongest word, which get
    the shares of the others, too.
    """
    weights, spans = explanation.model.weights, explanation.spans
    scores = np.zeros((len(spans), weights.outputs))
    is_word = np.array([any(map(str.isalnum, span.word)) for span in spans], bool)
    for size, places, rows, times in explanation.occurrences:  # single words first
        part = terms[rows] / times[:, None]  # (m, outputs)
        if size == 1:
            scores[places] = np.einsum(
                "mhd,ohd->mo", weights.tokens(explanation.ids[rows]), weights.decoder
            )
        window = places[:, None] + np.arange(size)  # (m, size)
        own, words = scores[window] * np.sign(part)[:, None], is_word[window]
        if even:
            sides, strongest = (
                np.cumsum(~words, axis=1),
                np.where(words[..., None], own, -np.inf).argmax(axis=1),
            )
            same_side = (
                sides[..., None]
                == np.take_along_axis(sides, strongest, axis=1)[:, None]
            )
            favoured = words[..., None] & same_side  # (m, size, outputs)
            factor = words.sum(axis=1)[:, None, None] / np.maximum(
                1, favoured.sum(axis=1, keepdims=True)
            )
            shares = (
                np.where(words[..., None], favoured * factor, 1.0) / size
            )  # they sum to 1
        else:
            shares = np.arange(size)[:, None] == own.argmax(axis=1)[:, None]
        yield places, rows, shares * part[:, None]


def find_phrases(
    explanation: "Explanation", phrases: Iterable[str], *, even: bool
) -> list[Part]:
    """Return the given phrases with all their offsets."""
    if isinstance(phrases, str):
        raise ParameterError(
            "phrases", "be a list of strings", "one string", "Put it into a list."
        )
    text, marks, parts = explanation.text, explanation.highlighted(even=even), []
    for phrase in phrases:
        if not isinstance(phrase, str) or not phrase.split():
            raise ParameterError("phrases", "hold phrases with words", repr(phrase))
        words = r"\s+".join(map(re.escape, phrase.split()))
        if (
            explanation.model.vocabulary.splitter.tokenizer is None
        ):  # other tokenizers may split texts without spaces
            words = rf"(?<!\w){words}(?!\w)"
        places = [match.span() for match in re.finditer(words, text, re.IGNORECASE)]
        if not places:
            raise ParameterError(
                "phrases", "occur in the text", repr(phrase), "Copy it from the text."
            )
        own = [
            mark
            for mark in marks
            if any(start <= mark.start < end for start, end in places)
        ]
        parts.append(
            Part(
                text[slice(*places[0])],
                sum_contributions(explanation, own),
                tuple(places),
            )
        )
    return parts


def split_parts(
    explanation: "Explanation", separator: re.Pattern[str], *, even: bool
) -> list[Part]:
    """Return the parts of the text between separators."""
    text, parts = explanation.text, []
    marks = explanation.highlighted(even=even)
    for (start, end), own in _group_marks(text, separator, marks):
        piece = text[start:end]
        left = end - len(piece.lstrip())
        place = left, left + len(piece.strip())
        parts.append(
            Part(" ".join(piece.split()), sum_contributions(explanation, own), (place,))
        )
    return parts


def _group_marks(
    text: str, separator: re.Pattern[str], marks: Sequence[Highlight]
) -> list[tuple[Place, list[Highlight]]]:
    """Return the pieces of the text between separators, each with its words; a word
    belongs to the piece in which it starts, or the last.
    """
    ends = [0, *(match.end() for match in separator.finditer(text)), len(text)]
    cuts = [(start, end) for start, end in pairwise(ends) if text[start:end].strip()]
    if not cuts and marks:
        cuts = [(0, len(text))]  # tokens without offsets, or tokens that are spaces
    owned: list[list[Highlight]] = [[] for _ in cuts]
    for mark in marks:
        owned[
            min(bisect_right(cuts, mark.start, key=itemgetter(1)), len(cuts) - 1)
        ].append(mark)
    return list(zip(cuts, owned, strict=True))


def fold_punctuation(
    explanation: "Explanation", marks: Sequence[Highlight]
) -> list[Highlight]:
    """Return the words without punctuation, whose parts are shared evenly by the words
    of its phrase.
    """
    phrases: list[list[Highlight]] = []
    for _, own in _group_marks(explanation.text, CLAUSE, marks):
        joins_previous = phrases and not (_has_word(own) and _has_word(phrases[-1]))
        if joins_previous:  # one of them is punctuation alone, such as "..."
            phrases[-1] += own
        else:
            phrases.append(own)
    folded = []
    for own in phrases:
        words = [mark for mark in own if not is_punctuation(mark.word)]
        others = [mark for mark in own if is_punctuation(mark.word)]
        if not words:  # the whole text is punctuation
            return list(marks)
        share = sum_contributions(explanation, others) / len(words)
        folded += [
            mark._replace(contribution=mark.contribution + share) for mark in words
        ]
    return folded


def _has_word(marks: Iterable[Highlight]) -> bool:
    return not all(is_punctuation(mark.word) for mark in marks)


def is_punctuation(word: str) -> bool:
    """Return whether a token has punctuation and spaces alone; an emoji is a word."""
    return all(
        character.isspace() or category(character).startswith("P") for character in word
    )


def sum_contributions(
    explanation: "Explanation", marks: Iterable[Highlight]
) -> float | FloatArray:
    """Return the sum of the parts of some words: a number, or (classes,) with more than
    two classes.
    """
    start: Any = (
        0.0 if len(explanation.logits) == 1 else np.zeros(len(explanation.logits))
    )
    return sum((mark.contribution for mark in marks), start)


@dataclass(frozen=True)
class LeadingWord:
    """A leader of one head, and the tokens that follow it after the last layer, see
    `Explanation.leaders`.
    """

    word: str
    since: int
    followers: tuple[str, ...]
    share: float


class Leading(NamedTuple):
    """A token that leads in some head, see `Explanation.leading`."""

    word: str
    heads: int
    share: float
    followers: float


@dataclass(frozen=True)
class Flip:
    """Words whose removal changes the prediction, or the reason why there are none. It
    prints as a sentence.

    Attributes
    ----------
    words : tuple of str
        The words, as written.
    places : tuple of (start, end)
        Their offsets: `text[start:end]`.
    before, after : labels
        The prediction with them and without.
    logits : (outputs,) array
        The logits without them.
    needed : bool
        Whether the prediction was found to be the first again with any one of them
        restored.

    Examples
    --------
    >>> import hardmax as hm
    >>> flip = hm.pretrained("imdb").explain("A wonderful film, but far too long.").minimal_flip()
    >>> flip.flips, str(flip.before), str(flip.after)
    (True, 'pos', 'neg')
    """

    words: tuple[str, ...]
    places: tuple[Place, ...]
    before: Any
    after: Any
    logits: Any
    needed: bool = True

    @property
    def flips(self) -> bool:
        """Return whether the prediction changes."""
        return bool(self.after != self.before)

    def __str__(self) -> str:
        if not self.places and not self.flips:
            return (
                f"No word contributes to {self.before}, so none can be removed: the"
                " bias alone decides."
            )
        removed = count(len(self.places), "word")
        if not self.flips:
            return (
                f"No such words were found: without {removed} the prediction is still"
                f" {self.before}."
            )
        quoted = ", ".join(f"“{word}”" for word in self.words)
        needed = (
            " Each of them is needed." if self.needed and len(self.places) > 1 else ""
        )
        return f"Without {removed}, {quoted}, the prediction is {self.after}.{needed}"

    __repr__ = __str__


def minimal_flip(
    explanation: "Explanation",
    explain: Callable[[str], "Explanation"],
    progress: Progress,
) -> Flip:
    """Return a small set of words without which the prediction is another; every step
    runs the model.

    Removed words are restored while the prediction stays changed, so that each one that
    is left is needed.
    """
    model, text = explanation.model, explanation.text
    reads, most = 0, MAX_READ if model.context is not None else None

    def changes(*sets: Sequence[Place]) -> list[bool]:
        nonlocal reads
        progress(min(reads, MAX_REMOVED), MAX_REMOVED)
        reads += len(sets)
        labels = model.decide(
            model.logits([remove_words(text, removed) for removed in sets])
        )
        return [bool(label != explanation.prediction) for label in labels]

    removed = (
        _find_words(explanation, explain, progress)
        if most is None
        else _find_first_words(explanation, changes)
    )
    changed = needed = bool(removed) and changes(removed)[0]
    while changed:
        changed = False
        for place in list(removed):
            if most is not None and reads >= most:
                changed = needed = False
                break
            fewer = [other for other in removed if other != place]
            if fewer and changes(fewer)[0]:
                removed, changed = fewer, True
    current = explain(remove_words(text, removed))
    places = tuple(sorted(removed))
    words = tuple(text[start:end] for start, end in places)
    return Flip(
        words,
        places,
        explanation.prediction,
        current.prediction,
        current.logits,
        needed,
    )


def _find_words(
    explanation: "Explanation",
    explain: Callable[[str], "Explanation"],
    progress: Progress,
) -> list[Place]:
    """Return words without which the prediction changes: in each step the one whose
    removal lowers the logit most.
    """
    removed, current = list[Place](), explanation
    while current.prediction == explanation.prediction and len(removed) < MAX_REMOVED:
        progress(len(removed), MAX_REMOVED)
        tried = _largest_first(explanation, current)[:MAX_TRIED]
        if not tried:
            break
        scores = explanation.model.logits(
            [remove_words(explanation.text, [*removed, place]) for place in tried]
        )
        logits = scores[:, 0] if scores.shape[1] == 1 else scores
        removed.append(tried[int(np.argmin(explanation.signed(logits)))])
        current = explain(remove_words(explanation.text, removed))
    return removed


def _find_first_words(
    explanation: "Explanation", changes: Callable[..., list[bool]]
) -> list[Place]:
    """Return the fewest words, the largest first, without which the prediction changes;
    the last ones come first.
    """
    order = _largest_first(explanation, explanation)[:MAX_REMOVED]
    sizes = sorted({min(2**k, len(order)) for k in range(len(order).bit_length() + 1)})
    found = changes(*(order[:size] for size in sizes)) if order else []
    if True not in found:
        return order[::-1]
    low, high = (0, *sizes)[found.index(True)], sizes[found.index(True)]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if changes(order[:middle])[0] else (middle, high)
    return order[:high][::-1]


def _largest_first(explanation: "Explanation", current: "Explanation") -> list[Place]:
    """Return the words with contributions to the prediction of `explanation`, the
    largest first.
    """
    marks = [
        mark
        for mark in current.highlighted(even=False)
        if current.text[mark.start : mark.end].strip()
    ]
    values = {
        (mark.start, mark.end): float(explanation.signed(mark.contribution))
        for mark in marks
    }
    return [
        place
        for place in sorted(values, key=lambda place: -values[place])
        if values[place] > 0
    ]


def remove_words(text: str, places: Sequence[Place]) -> str:
    """Return a text with spaces in place of some words, so that the offsets of the
    others stay the same.

    Of vectors in place of a text some rows are left out; the others do not change.
    """
    if isinstance(text, VectorText):
        rows = [text.count(" ", 0, start) for start, _ in places]
        return VectorText.of(np.delete(text.vectors, rows, axis=0))
    characters = list(text)
    for start, end in places:
        characters[start:end] = " " * (end - start)
    return replace_text(text, "".join(characters))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two texts under one model: the changes of all tokens add up to that of the logit.
    It prints as a sentence.

    The contribution of a token that both texts contain may differ, as it may follow
    other leaders.

    Attributes
    ----------
    first, second : Explanation
        The explanations of the two texts.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> comparison = explanation.counterfactual("A dreadful film, but far too long.")
    >>> bool(comparison.change < 0)
    True
    >>> bool(abs(comparison.changes["change"].sum() - comparison.change) < 1e-9)
    True
    """

    first: "Explanation"
    second: "Explanation"

    @property
    def change(self) -> Any:
        """Return the change of the logit."""
        return self.second.logit - self.first.logit

    @property
    def changes(self) -> "DataFrame":
        """Return a pandas DataFrame with a row for each token, the largest change
        first.

        `where` names the texts that contain it: "first", "second" or "both". `before`,
        `after` and `change` are its contributions to the two logits and their
        difference, towards the prediction for the first text.
        """
        import pandas

        first = self.first
        after = pandas.Series(first.signed(self.second.contributions), self.second.ids)
        table = pandas.DataFrame(
            {"before": pandas.Series(first.towards, first.ids), "after": after}
        ).sort_index()
        where = np.where(
            table["after"].isna(),
            "first",
            np.where(table["before"].isna(), "second", "both"),
        )
        table = table.fillna(0.0)
        table["change"] = table["after"] - table["before"]
        table.insert(0, "token", first.model.names(table.index.to_numpy()))
        table.insert(1, "where", where)
        return table.sort_values(
            "change", key=lambda change: -change.abs(), kind="stable", ignore_index=True
        )

    def __repr__(self) -> str:
        first, second = self.first, self.second
        verb = "stays" if first.prediction == second.prediction else "becomes"
        written, rows = (
            second.as_written | first.as_written,
            self.changes[:MAX_SHOWN_TOKENS].itertuples(),
        )
        parts = [f"{written[row.token]} {row.change:+.2f}" for row in rows]
        total = float(first.signed(self.change))
        most = f"; most by {', '.join(parts)}" if parts else ""
        return (
            f"The prediction {verb} {second.prediction}: {total:+.2f} for"
            f" {first.prediction}{most}."
        )
