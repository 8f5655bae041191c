"""Telling words: those by which the texts of one topic can be told from all others. No list of stop words is needed.

Texts are counted, not occurrences: one that says a word ten times says it once, and equal texts are one. Of the n texts
of a topic a hold the word, of the m others b. The score is the root of Dunning's likelihood ratio (1993),

    G^2 = 2 sum over the four cells of  observed log(observed / expected),

with cells a, n - a, b, m - b, and what is expected if both kinds of texts held the word equally often. A word tells if
its score is at least 2, which chance gives to one word in twenty; if two texts of the topic hold it; and if it is
twice as common there as elsewhere, a / n >= 2 b / m: so one that more than half of the other texts hold never tells,
however many there are. Of words with equal scores longer ones come first, for in every language the words that are
everywhere are short (Zipf).
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import rel_entr

from hardmax._types import FloatArray, IntArray
from hardmax.text.tokenizer import Splitter

LEAST, BEYOND_CHANCE = 2, 2.0  # texts of the topic that hold it, and its score
TIMES = 2.0  # as common in the topic as elsewhere


class TellingWord(NamedTuple):
    """A word and its score: how much better than by chance it tells the topic from the others.

    Attributes
    ----------
    word : str
        A word of the texts.
    score : float
        Larger tells more; 0 is what chance makes.

    Examples
    --------
    >>> from hardmax import HardmaxTopics
    >>> texts = [f"{taste} {fruit}" for fruit in ("apple", "pear") for taste in ("sweet", "sour", "ripe", "green")]
    >>> ends = [[4 * ("apple" in text), 4 * ("pear" in text), len(text) / 10] for text in texts]
    >>> topic = HardmaxTopics(2, n_neighbors=3).fit(texts, vectors=ends).topics_[0]
    >>> topic.words[0].word, round(topic.words[0].score, 2)
    ('apple', 3.33)
    """

    word: str
    score: float


def telling_words(
    texts: Sequence[str], labels: IntArray, n_topics: int, splitter: Splitter, most: int
) -> list[tuple[TellingWord, ...]]:
    """For each topic its words with the largest scores; -1 is no topic.

    A single topic has none: there is nothing to tell it from.

    Examples
    --------
    >>> texts = ["the cat sat", "the cat ran", "the cat ate", "the dog ran", "the dog ate"]
    >>> telling_words(texts, np.array([0, 0, 0, 1, 1]), 2, Splitter(), 1)
    [(TellingWord(word='cat', score=2.5942...),), (TellingWord(word='dog', score=2.5942...),)]
    """
    inside: list[Counter[str]] = [Counter() for _ in range(n_topics)]
    everywhere: Counter[str] = Counter()
    sizes = [0] * n_topics
    distinct = set(zip(texts, labels.tolist(), strict=True))
    for text, label in distinct:
        words = set(splitter.words(text))
        everywhere.update(words)
        if label >= 0:
            inside[label].update(words)
            sizes[label] += 1
    return [_best(inside[c], everywhere, sizes[c], len(distinct), most) for c in range(n_topics)]


def _best(
    inside: Counter[str], everywhere: Counter[str], size: int, n_texts: int, most: int
) -> tuple[TellingWord, ...]:
    words = sorted((word for word, held in inside.items() if held >= LEAST), key=lambda word: (-len(word), word))
    if not words or size == n_texts:
        return ()
    a = np.array([inside[word] for word in words], np.float64)
    b = np.array([everywhere[word] for word in words]) - a
    n, m = float(size), float(n_texts - size)
    score = np.round(np.where(a / n >= TIMES * b / m, scores(a, b, n, m), 0.0), 9)  # so that equal counts are equal
    best = np.argsort(-score, kind="stable")[:most]
    return tuple(TellingWord(words[i], float(score[i])) for i in best if score[i] >= BEYOND_CHANCE)


def scores(a: FloatArray, b: FloatArray, n: float, m: float) -> FloatArray:
    """G of words that a of n texts hold, and b of m others."""
    share = (a + b) / (n + m)
    cells = ((a, n * share), (n - a, n * (1 - share)), (b, m * share), (m - b, m * (1 - share)))
    return np.sqrt(np.maximum(2 * sum(rel_entr(observed, expected) for observed, expected in cells), 0.0))
