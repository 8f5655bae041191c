"""Parts of a text and what they add to the logit: words, sentences, phrases; all of them and the bias sum to it."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hardmax._errors import ParameterError
from hardmax._types import FloatArray

if TYPE_CHECKING:
    from hardmax.text.explanation import Explanation, Highlight

STOPS, CLOSING = r"\u3002\uff01\uff1f", r"\u300d\u300f\uff09"  # of scripts without spaces
FULL = rf"(?<=[{STOPS}])[{CLOSING}]*(?![{STOPS}{CLOSING}])\s*"
SENTENCE = re.compile(rf"\n+|(?<=[.!?])[\"')\]]*\s+|{FULL}")  # what lies between two sentences
CLAUSE = re.compile(
    rf"{SENTENCE.pattern}|(?<=[,;:])\s+|\s+(?=[(\[])|(?<=[)\]])\s+|(?<=[\u3001\uff0c\uff1b\uff1a])|\s[-\u2013\u2014]+\s"
)  # and two phrases


class Part(NamedTuple):
    """A part of a text, as it stands there, and what it adds to the logit.

    Attributes
    ----------
    text : str
        A word, phrase or sentence as it stands there.
    value : float, or (classes,) array
        What it adds to the logit.
    places : tuple of (start, end)
        Where it stands.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> explanation.by_word()[0].text
    'wonderful'
    >>> [part.text for part in explanation.by_phrase()]
    ['A wonderful film,', 'but far too long.']
    """

    text: str
    value: float | FloatArray  # a number, or an array with one for each class
    places: tuple[tuple[int, int], ...]  # where it stands: text[start:end]

    @property
    def named(self) -> str:
        """The text, and how often it stands there if more than once."""
        return self.text if len(self.places) == 1 else f"{self.text} ({len(self.places)} times)"


def by_word(explanation: "Explanation", *, even: bool) -> list[Part]:
    """Distinct words, each with all its places; those that say most first."""
    found: dict[str, list[Highlight]] = defaultdict(list)
    for mark in explanation.highlighted(even=even):
        found[mark.word].append(mark)
    parts = [_part(explanation, marks) for marks in found.values()]
    return sorted(parts, key=lambda part: -abs(float(explanation.signed(part.value))))


def strongest_runs(explanation: "Explanation") -> dict[tuple[int, int], str]:
    """For words that say most in a run: the run as written, by the first place of the word."""
    spans = explanation.model.vocabulary.splitter.spans(explanation.text)
    words, order = [span.word for span in spans], np.argsort(explanation.ids)
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))  # by word, and by word or run
    for size, places, tokens in explanation.model.vocabulary.occurrences(words):
        at = order[np.searchsorted(explanation.ids[order], tokens)]
        parts = explanation.towards[at] / np.bincount(at, minlength=len(order))[at]
        for place, i, part in zip(places.tolist(), at.tolist(), parts.tolist(), strict=True):
            run = words[place : place + size]
            taking = [word for word in run if any(map(str.isalnum, word))] or run
            for word in taking:  # with its signs a word is by itself
                sums[word][str(explanation.words[i]) if len(taking) > 1 else word] += part / len(taking)
    first = {span.word: (span.start, span.end) for span in reversed(spans)}
    most = {word: max(of, key=lambda name: abs(of[name])) for word, of in sums.items()}
    return {first[word]: explanation.as_written[name] for word, name in most.items() if name != word}


def by_sentence(explanation: "Explanation", *, even: bool) -> list[Part]:
    """Sentences in their order."""
    return _cut(explanation, SENTENCE, even)


def by_phrase(explanation: "Explanation", phrases: Iterable[str] | None, *, even: bool) -> list[Part]:
    """Phrases that were asked for, each with all its places, or what lies between commas and the like."""
    if phrases is None:
        return _cut(explanation, CLAUSE, even)
    if isinstance(phrases, str):
        raise ParameterError("phrases", "be a list of texts", "one text", "Put it into a list.")
    marks = explanation.highlighted(even=even)
    return [_phrase(explanation, marks, phrase) for phrase in phrases]


def _cut(explanation: "Explanation", between: re.Pattern[str], even: bool) -> list[Part]:
    """The text in pieces; a word belongs to the piece in which it begins, or to the last one behind all of them."""
    text, marks = explanation.text, explanation.highlighted(even=even)
    ends = [match.end() for match in between.finditer(text)] + [len(text)]
    cuts = [(start, end) for start, end in zip([0, *ends], ends, strict=False) if text[start:end].strip()]
    if not cuts and marks:
        cuts = [(0, len(text))]  # words that stand nowhere, or blanks that are words
    parts, at = [], 0
    for start, end in cuts:
        own = []
        while at < len(marks) and (marks[at].start < end or end == cuts[-1][1]):
            own.append(marks[at])
            at += 1
        left = start + len(text[start:end]) - len(text[start:end].lstrip())
        right = left + len(text[left:end].rstrip())
        parts.append(Part(" ".join(text[left:right].split()), _sum(explanation, own), ((left, right),)))
    return parts


def _phrase(explanation: "Explanation", marks: "Sequence[Highlight]", phrase: str) -> Part:
    if not isinstance(phrase, str) or not phrase.split():
        raise ParameterError("phrases", "hold words", repr(phrase))
    words = r"\s+".join(map(re.escape, phrase.split()))
    if explanation.model.vocabulary.splitter.tokenizer is None:  # else words may have no spaces between them
        words = rf"(?<!\w){words}(?!\w)"
    places = [match.span() for match in re.finditer(words, explanation.text, re.IGNORECASE)]
    if not places:
        raise ParameterError("phrases", "stand in the text", repr(phrase), "Copy it from there.")
    own = [mark for mark in marks if any(start <= mark.start < end for start, end in places)]
    return Part(explanation.text[slice(*places[0])], _sum(explanation, own), tuple(places))


def _part(explanation: "Explanation", marks: "Sequence[Highlight]") -> Part:
    places = tuple((mark.start, mark.end) for mark in marks)
    return Part(explanation.text[slice(*places[0])] or marks[0].word, _sum(explanation, marks), places)


def _sum(explanation: "Explanation", marks: "Sequence[Highlight]") -> float | FloatArray:
    if len(explanation.logits) == 1:
        return float(sum(float(mark.contribution) for mark in marks))
    return (
        np.sum([np.asarray(mark.contribution) for mark in marks], axis=0)
        if marks
        else np.zeros(len(explanation.logits))
    )


class Leading(NamedTuple):
    """A token that leads, over all heads.

    Attributes
    ----------
    word : str
        The token.
    heads : int
        In how many heads it leads.
    share : float
        Its part of the means, over all heads.
    followers : float
        How many tokens follow it, on average over the heads in which it leads.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> leading = explanation.leading()
    >>> leading[0].heads >= leading[-1].heads
    True
    """

    word: str
    heads: int  # in how many it leads
    share: float  # of the mean in these, on average
    followers: float  # in these, on average


def leading(explanation: "Explanation") -> list[Leading]:
    """Who leads in how many heads, those who lead in most first."""
    found = defaultdict(list)
    for leaders in explanation.leaders:
        for leader in leaders:
            found[leader.word].append((leader.share, len(leader.followers)))
    rows = [Leading(word, len(seen), *np.mean(seen, axis=0).tolist()) for word, seen in found.items()]
    return sorted(rows, key=lambda row: (-row.heads, -row.share))


def as_written(explanation: "Explanation") -> dict[str, str]:
    """Tokens as they stand in the text where they come first: "wonderful . i" may be written "wonderful. I"."""
    vocabulary, text = explanation.model.vocabulary, explanation.text
    spans = vocabulary.splitter.spans(text)
    found: dict[str, str] = {}
    for size, places, tokens in vocabulary.occurrences([span.word for span in spans]):
        for place, token in zip(places.tolist(), tokens.tolist(), strict=True):
            name, run = vocabulary.name(token), spans[place : place + size]
            written = text[run[0].start : run[-1].end] if all(span.end > span.start for span in run) else name
            found.setdefault(name, " ".join(written.split()) or name)
    return found
