"""Parts of the logit that belong to words, sentences and phrases of a text; with the bias they sum to the logit."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hardmax._errors import ParameterError
from hardmax._types import FloatArray, IntArray
from hardmax.text.model import Model

if TYPE_CHECKING:
    from hardmax.text.explanation import Explanation, Highlight

FULL_STOPS, CLOSING = r"\u3002\uff01\uff1f", r"\u300d\u300f\uff09"  # of scripts without spaces
UNSPACED_END = rf"(?<=[{FULL_STOPS}])[{CLOSING}]*(?![{FULL_STOPS}{CLOSING}])\s*"
SENTENCE = re.compile(rf"\n+|(?<=[.!?])[\"')\]]*\s+|{UNSPACED_END}")  # separators of sentences
CLAUSE = re.compile(
    rf"{SENTENCE.pattern}|(?<=[,;:])\s+|\s+(?=[(\[])|(?<=[)\]])\s+|(?<=[\u3001\uff0c\uff1b\uff1a])|\s[-\u2013\u2014]+\s"
)  # separators of phrases


class Part(NamedTuple):
    """A part of a text and its part of the logit.

    Attributes
    ----------
    text : str
        A word, phrase or sentence, as written.
    value : float, or (classes,) array
        Its part of the logit.
    places : tuple of (start, end)
        Offsets of its occurrences: `text[start:end]`.

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
    value: float | FloatArray
    places: tuple[tuple[int, int], ...]

    @property
    def named(self) -> str:
        """Return the text, with the number of occurrences if there are several."""
        return self.text if len(self.places) == 1 else f"{self.text} ({len(self.places)} times)"


def attribute_to_words(
    model: Model, words: Sequence[str], ids: IntArray, terms: FloatArray, *, even: bool = False
) -> FloatArray:
    """Return (words, outputs) parts of the logits for each word of a text; they have the same sum as `terms`.

    The text is split into `words`; its distinct tokens are `ids`, (n,), with the contributions `terms`, (n, outputs).
    A token that occurs several times is shared evenly by its occurrences. Erasing one word of an n-gram removes the
    whole n-gram, so its term goes to one word: the one whose own score v . z as a single token is largest for that
    class. With `even` the term is shared by the words of the n-gram, or by its punctuation if it has no word.
    """
    parts, scores = np.zeros((2, len(words), terms.shape[1]))
    order, columns = np.argsort(ids), np.arange(terms.shape[1])
    is_word = np.array([any(map(str.isalnum, word)) for word in words], bool)
    for size, places, tokens in model.vocabulary.occurrences(words):
        if not len(places):
            continue
        place = order[np.searchsorted(ids[order], tokens)]  # indices of the tokens in ids
        times = np.bincount(place, minlength=len(ids))[place]
        part = terms[place] / times[:, None]  # (m, outputs)
        if size == 1:
            scores[places] = np.einsum("mhd,ohd->mo", model.weights.tokens(tokens), model.weights.decoder)
        window = places[:, None] + np.arange(size)  # (m, size)
        if even:
            receives = is_word[window]
            receives[~receives.any(axis=1)] = True
            np.add.at(parts, window, part[:, None] * (receives / receives.sum(axis=1, keepdims=True))[..., None])
            continue
        chosen = (scores[window] * np.sign(part)[:, None]).argmax(axis=1)  # (m, outputs)
        np.add.at(parts, (places[:, None] + chosen, columns), part)
    return parts


def by_word(explanation: "Explanation", *, even: bool) -> list[Part]:
    """Return distinct words with all their offsets, the largest parts first."""
    found: dict[str, list[Highlight]] = defaultdict(list)
    for mark in explanation.highlighted(even=even):
        found[mark.word].append(mark)
    parts = [_part(explanation, marks) for marks in found.values()]
    return sorted(parts, key=lambda part: -abs(float(explanation.signed(part.value))))


def strongest_runs(explanation: "Explanation") -> dict[tuple[int, int], str]:
    """Return the n-gram, as written, in which a word contributes most, by offsets of the word."""
    spans = explanation.model.vocabulary.splitter.spans(explanation.text)
    words, order = [span.word for span in spans], np.argsort(explanation.ids)
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))  # by word, then by token
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
    """Return the sentences in their order."""
    return _cut(explanation, SENTENCE, even)


def by_phrase(explanation: "Explanation", phrases: Iterable[str] | None, *, even: bool) -> list[Part]:
    """Return the given phrases with all their offsets, or the parts between punctuation."""
    if phrases is None:
        return _cut(explanation, CLAUSE, even)
    if isinstance(phrases, str):
        raise ParameterError("phrases", "be a list of strings", "one string", "Put it into a list.")
    marks = explanation.highlighted(even=even)
    return [_phrase(explanation, marks, phrase) for phrase in phrases]


def _cut(explanation: "Explanation", between: re.Pattern[str], even: bool) -> list[Part]:
    """Split the text; a word belongs to the piece in which it begins, or to the last piece."""
    text, marks = explanation.text, explanation.highlighted(even=even)
    ends = [match.end() for match in between.finditer(text)] + [len(text)]
    cuts = [(start, end) for start, end in zip([0, *ends], ends, strict=False) if text[start:end].strip()]
    if not cuts and marks:
        cuts = [(0, len(text))]  # tokens without offsets, or tokens that are spaces
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
        raise ParameterError("phrases", "hold phrases with words", repr(phrase))
    words = r"\s+".join(map(re.escape, phrase.split()))
    if (
        explanation.model.vocabulary.splitter.tokenizer is None
    ):  # words of other tokenizers may have no spaces between them
        words = rf"(?<!\w){words}(?!\w)"
    places = [match.span() for match in re.finditer(words, explanation.text, re.IGNORECASE)]
    if not places:
        raise ParameterError("phrases", "occur in the text", repr(phrase), "Copy it from the text.")
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
    """A token that leads in some head.

    Attributes
    ----------
    word : str
        The token.
    heads : int
        Number of heads in which it leads.
    share : float
        Mean of its share of these heads' means.
    followers : float
        Mean number of its followers in these heads.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> leading = explanation.leading()
    >>> leading[0].heads >= leading[-1].heads
    True
    """

    word: str
    heads: int
    share: float
    followers: float


def leading(explanation: "Explanation") -> list[Leading]:
    """Return the leaders, sorted by the number of heads in which they lead."""
    found = defaultdict(list)
    for leaders in explanation.leaders:
        for leader in leaders:
            found[leader.word].append((leader.share, len(leader.followers)))
    rows = [Leading(word, len(seen), *np.mean(seen, axis=0).tolist()) for word, seen in found.items()]
    return sorted(rows, key=lambda row: (-row.heads, -row.share))


def as_written(explanation: "Explanation") -> dict[str, str]:
    """Return tokens as first written in the text: "wonderful . i" may be written "wonderful. I"."""
    vocabulary, text = explanation.model.vocabulary, explanation.text
    spans = vocabulary.splitter.spans(text)
    found: dict[str, str] = {}
    for size, places, tokens in vocabulary.occurrences([span.word for span in spans]):
        for place, token in zip(places.tolist(), tokens.tolist(), strict=True):
            name, run = vocabulary.name(token), spans[place : place + size]
            written = text[run[0].start : run[-1].end] if all(span.end > span.start for span in run) else name
            found.setdefault(name, " ".join(written.split()) or name)
    return found
