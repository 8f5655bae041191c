"""Synthetic reviews in which it is known which words decide."""

import tomllib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._errors import ParameterError
from hardmax._validation import check_count

with Path(__file__).with_name("corpus.toml").open("rb") as _file:
    LANGUAGE = tomllib.load(_file)
GAPS = LANGUAGE["gaps"] | {"aspect": LANGUAGE["gaps"]["first"] + LANGUAGE["gaps"]["second"]}
OTHER = {"positive": "negative", "negative": "positive"}
LONGEST = 15  # words in the longest sentence that decides
ROOM = 22  # words from which a review may decide twice
TWICE = 0.4  # how often it then does, unless it holds a contrast
MAX_DRAWS = 100  # of a review that equals an earlier one


class Corpus(NamedTuple):
    """Reviews, their labels, and the words that decide."""

    texts: list[str]
    labels: list[str]  # "negative" or "positive"
    planted: list[tuple[str, ...]]  # for each text the words, or pairs such as "not good", that carry its label


def reviews(
    n: int, *, seed: int = 0, negation: float = 0.2, contrast: float = 0.2, length: tuple[int, int] = (6, 30)
) -> Corpus:
    """Make short reviews whose sentiment hangs on known words, the same for the same arguments.

    A sentiment word carries the label. A negation in front of it reverses it: "not good". In a contrast, what follows
    "but" wins: "the acting is fine but the story is awful". All other words are neutral. No two reviews are equal. Use
    it to test a classifier and its explanations; for real text use `load_imdb`.

    Parameters
    ----------
    n : int
        How many reviews; half of them are positive, and one more if n is odd.
    seed : int
        0 or larger.
    negation, contrast : float
        How often a sentiment word is negated, and how often a review holds a contrast, in [0, 1].
    length : pair of int
        The fewest and the most words of a review. There must be room for 15.

    Returns
    -------
    Corpus
        `texts`, `labels` and `planted`, the words that decide each: lists of n.

    Raises
    ------
    ParameterError
        If a number is out of range.

    Examples
    --------
    >>> corpus = reviews(4, seed=3, length=(6, 15))
    >>> for label, words, text in zip(corpus.labels, corpus.planted, corpus.texts):
    ...     print(label, words, text)
    negative ('horrible',) The score was likeable but horrible is what I call the story.
    positive ('hardly clumsy',) The dialogue was hardly clumsy from start to end. It has subtitles.
    negative ('hardly funny',) Again, this time the camera work looks hardly funny.
    positive ('clever',) Again, a pianist narrates. Everyone around me said the lighting was clever.
    """
    n = check_count(n, "n", least=1)
    rng = np.random.default_rng(check_count(seed, "seed", least=0))
    low, high = _check_length(length)
    negation, contrast = _check_share(negation, "negation"), _check_share(contrast, "contrast")
    labels = [("positive", "negative")[i % 2] for i in rng.permutation(n)]
    made = [_review(rng, label, negation, contrast, int(rng.integers(low, high + 1))) for label in labels]
    known, again = set[str](), np.random.default_rng([seed, 1])  # of its own: other texts stay as they are
    for i, label in enumerate(labels):
        for _ in range(MAX_DRAWS):
            if made[i][0] not in known:
                break
            made[i] = _review(again, label, negation, contrast, int(again.integers(low, high + 1)))
        known.add(made[i][0])
    return Corpus([text for text, _ in made], labels, [words for _, words in made])


def _review(
    rng: np.random.Generator, label: str, negation: float, contrast: float, target: int
) -> tuple[str, tuple[str, ...]]:
    """Sentences that decide, amid neutral ones up to the target length; and the words that decide."""
    word = _phrase(rng, label, negation)
    if rng.random() < contrast:
        lost = _phrase(rng, OTHER[label], negation, strongest=1)
        sentences, planted = [_fill(rng, _one(rng, LANGUAGE["contrasts"]), word=word, lost=lost)], [word]
    else:
        sentences, planted = [_fill(rng, _one(rng, LANGUAGE["plain"]), word=word)], [word]
        if target >= ROOM and rng.random() < TWICE:
            planted.append(_phrase(rng, label, negation))
            sentences.append(_fill(rng, _one(rng, LANGUAGE["plain"]), word=planted[-1]))
    sentences = _lengthened(rng, sentences, target)
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences), tuple(planted)


def _phrase(rng: np.random.Generator, label: str, negation: float, strongest: int = 3) -> str:
    """A word of that sentiment, or a negation and a word of the other; few would say "not superb"."""
    if rng.random() < negation:
        denied = LANGUAGE["words"][OTHER[label]][: min(strongest, 2)]
        return f"{_one(rng, LANGUAGE['negations'])} {_one(rng, list(chain(*denied)))}"
    return _one(rng, list(chain(*LANGUAGE["words"][label][:strongest])))


def _lengthened(rng: np.random.Generator, sentences: list[str], target: int) -> list[str]:
    """Add neutral sentences before and after, and an opener where one or two words are still wanting."""
    room = target - sum(len(sentence.split()) for sentence in sentences)
    fillers, openers = LANGUAGE["fillers"], LANGUAGE["openers"]
    while room > len(openers):
        for i in rng.permutation(len(fillers)):
            filler = _fill(rng, fillers[i])
            if len(filler.split()) <= room:
                sentences.insert(int(rng.integers(len(sentences) + 1)), filler)
                room -= len(filler.split())
    return [f"{_one(rng, openers[room - 1])} {sentences[0]}", *sentences[1:]] if room > 0 else sentences


def _fill(rng: np.random.Generator, template: str, **given: str) -> str:
    """Fill each gap of a template with what is given for it, or with a word of its kind."""

    def filled(word: str) -> str:
        return (given.get(word[1:-1]) or _one(rng, GAPS[word[1:-1]])) if word[0] == "{" else word

    return " ".join(map(filled, template.split()))


def _one(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _check_share(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise ParameterError(name, "be a number between 0 and 1", f"{value!r}", "Try 0.2.")
    return float(value)


def _check_length(length: Any) -> tuple[int, int]:
    pair = tuple(length) if isinstance(length, tuple | list) else ()
    whole = all(isinstance(number, int | np.integer) and not isinstance(number, bool) for number in pair)
    if len(pair) != 2 or not whole or not 1 <= pair[0] <= pair[1] or pair[1] < LONGEST:
        must = f"be two whole numbers, the fewest and the most words, the most at least {LONGEST}"
        raise ParameterError("length", must, f"{length!r}", "Try (6, 30).")
    return int(pair[0]), int(pair[1])
