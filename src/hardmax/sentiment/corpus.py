"""Synthetic reviews in which it is known which words decide."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax import _checks
from hardmax._errors import ParameterError

# Sentiment words by strength, from weak to strong. Each is an adjective, so that each fits each template.
POSITIVE = (
    ("fine", "decent", "pleasant", "solid", "likeable", "tidy", "agreeable", "watchable"),
    ("good", "charming", "convincing", "funny", "clever", "touching", "gripping", "warm", "fresh"),
    ("superb", "brilliant", "wonderful", "dazzling", "magnificent", "flawless", "unforgettable", "masterful"),
)
NEGATIVE = (
    ("weak", "thin", "slow", "flat", "bland", "uneven", "forgettable", "clumsy"),
    ("bad", "boring", "dull", "silly", "tedious", "lifeless", "shallow", "messy", "stale"),
    ("awful", "terrible", "dreadful", "horrible", "unbearable", "disastrous", "abysmal", "insulting"),
)
WORDS = {"positive": POSITIVE, "negative": NEGATIVE}
OTHER = {"positive": "negative", "negative": "positive"}
NEGATIONS = ("not", "hardly")

ASPECTS = (
    *("acting", "story", "plot", "script", "camera work", "music", "ending", "opening", "dialogue", "cast"),
    *("pace", "editing", "score", "lighting", "direction", "sound", "humour", "romance", "finale", "second half"),
)
PEOPLE = ("detective", "sailor", "teacher", "widow", "pianist", "farmer", "thief", "nurse", "baker", "pilot")
PLACES = ("harbour", "village", "hotel", "city", "desert", "station", "theatre", "valley", "kitchen", "museum")
THINGS = ("letter", "map", "suitcase", "photograph", "ticket", "piano", "bicycle", "radio", "painting", "key")
TIMES = ("in winter", "at night", "one summer", "on a Sunday", "after the war", "in the seventies")
GAPS = {
    "aspect": ASPECTS,
    "first": ASPECTS[:10],  # two of one contrast never meet
    "second": ASPECTS[10:],
    "person": PEOPLE,
    "place": PLACES,
    "thing": THINGS,
    "time": TIMES,
}

PLAIN = (
    "the {aspect} is {word}",
    "I found the {aspect} {word}",
    "the {aspect} was {word} from start to end",
    "for me the {aspect} was {word}",
    "everyone around me said the {aspect} was {word}",
    "this time the {aspect} looks {word}",
)
CONTRASTS = (
    "the {first} is {lost} but the {second} is {word}",
    "the {second} was {lost} but {word} is what I call the {first}",
    "the film looks {lost} at first but {word} by the end",
    "I had heard that it was {lost} but {word} is what it is",
)
FILLERS = (
    "a {person} narrates",
    "it has subtitles",
    "we saw it {time}",
    "it opens in a {place}",
    "a {person} keeps a {thing}",
    "the {person} leaves the {place}",
    "the film runs for two hours",
    "it was shot in a {place} {time}",
    "a {person} finds a {thing} {time}",
    "the {person} waits near the {place} with a {thing}",
    "much of it takes place in a {place}",
    "there is a {person} and there is a {thing}",
)
OPENERS = {1: ("well,", "anyway,", "again,", "now,"), 2: ("in short,", "as always,", "of course,", "back then,")}
LONGEST = 15  # words in the longest sentence that decides
ROOM = 22  # words from which a review may decide twice
TWICE = 0.4  # how often it then does, unless it holds a contrast


@dataclass(frozen=True)
class Corpus:
    """Reviews, their labels, and the words that decide.

    Attributes
    ----------
    texts : list of str
    labels : list of str
        "negative" or "positive".
    planted : list of tuple of str
        For each text the words, or pairs such as "not good", that carry its label.
    """

    texts: list[str]
    labels: list[str]
    planted: list[tuple[str, ...]]


def reviews(
    n: int, *, seed: int = 0, negation: float = 0.2, contrast: float = 0.2, length: tuple[int, int] = (6, 30)
) -> Corpus:
    """Make short reviews whose sentiment hangs on known words.

    A sentiment word carries the label. A negation in front of it reverses it: "not good". In a contrast, what follows
    "but" wins: "the acting is fine but the story is awful". All other words are neutral. Use it to test a classifier
    and its explanations; for real text use `load_imdb`.

    Parameters
    ----------
    n : int
        How many reviews; half of them are positive, and one more if n is odd.
    seed : int
    negation, contrast : float
        How often a sentiment word is negated, and how often a review holds a contrast, in [0, 1].
    length : pair of int
        The fewest and the most words of a review. There must be room for 15.

    Returns
    -------
    Corpus
        The same for the same arguments.

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
    n = _checks.check_count(n, "n", least=1)
    rng = np.random.default_rng(_checks.check_count(seed, "seed", least=0))
    low, high = _check_length(length)
    negation, contrast = _check_share(negation, "negation"), _check_share(contrast, "contrast")
    labels = [("positive", "negative")[i % 2] for i in rng.permutation(n)]
    made = [_review(rng, label, negation, contrast, int(rng.integers(low, high + 1))) for label in labels]
    return Corpus([text for text, _ in made], labels, [words for _, words in made])


def _review(
    rng: np.random.Generator, label: str, negation: float, contrast: float, target: int
) -> tuple[str, tuple[str, ...]]:
    """Sentences that decide, amid neutral ones up to the target length; and the words that decide."""
    word = _phrase(rng, label, negation)
    if rng.random() < contrast:
        lost = _phrase(rng, OTHER[label], negation, strongest=1)
        sentences, planted = [_fill(rng, _one(rng, CONTRASTS), word=word, lost=lost)], [word]
    else:
        sentences, planted = [_fill(rng, _one(rng, PLAIN), word=word)], [word]
        if target >= ROOM and rng.random() < TWICE:
            planted.append(_phrase(rng, label, negation))
            sentences.append(_fill(rng, _one(rng, PLAIN), word=planted[-1]))
    sentences = _lengthened(rng, sentences, target)
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences), tuple(planted)


def _phrase(rng: np.random.Generator, label: str, negation: float, strongest: int = 3) -> str:
    """A word of that sentiment, or a negation and a word of the other; few would say "not superb"."""
    if rng.random() < negation:
        words = WORDS[OTHER[label]][: min(strongest, 2)]
        return f"{_one(rng, NEGATIONS)} {_one(rng, sum(words, ()))}"
    return _one(rng, sum(WORDS[label][:strongest], ()))


def _lengthened(rng: np.random.Generator, sentences: list[str], target: int) -> list[str]:
    """Add neutral sentences before and after, and an opener where one or two words are still wanting."""
    room = target - sum(len(sentence.split()) for sentence in sentences)
    while room > max(OPENERS):
        for i in rng.permutation(len(FILLERS)):
            filler = _fill(rng, FILLERS[i])
            if len(filler.split()) <= room:
                sentences.insert(int(rng.integers(len(sentences) + 1)), filler)
                room -= len(filler.split())
    return [f"{_one(rng, OPENERS[room])} {sentences[0]}", *sentences[1:]] if room > 0 else sentences


def _fill(rng: np.random.Generator, template: str, **given: str) -> str:
    """Fill each gap of a template with what is given for it, or with a word of its kind."""
    parts = [part.strip("{}") if part[0] == "{" else None for part in template.split()]
    words = zip(parts, template.split(), strict=True)
    return " ".join(word if gap is None else given.get(gap) or _one(rng, GAPS[gap]) for gap, word in words)


def _one(rng: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _check_share(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise ParameterError(name, "be a number between 0 and 1", f"{value!r}", "Try 0.2.")
    return float(value)


def _check_length(length: Any) -> tuple[int, int]:
    pair = tuple(length) if isinstance(length, tuple | list) else ()
    whole = all(isinstance(number, int | np.integer) and not isinstance(number, bool) for number in pair)
    if len(pair) != 2 or not whole or not 1 <= pair[0] <= pair[1] or pair[1] < LONGEST:
        raise ParameterError(
            "length",
            f"be two whole numbers, the fewest and the most words, the most at least {LONGEST}",
            f"{length!r}",
            "Try (6, 30).",
        )
    return int(pair[0]), int(pair[1])
