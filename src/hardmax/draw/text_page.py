"""The view model of an explanation, which the page, the notebook card and the terminal
show.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hardmax.text.explanation import Explanation

# Of the classes in their order, as in `draw.style`, which would load Matplotlib;
# further classes repeat them.
CLASS_COLOURS = (
    "#D55E00",
    "#0072B2",
    "#009E73",
    "#CC79A7",
    "#882255",
    "#F0E442",
    "#332288",
)
MAX_TOKENS, MAX_FOLLOWERS = 60, 12
MAX_SENTENCE = 160  # characters
MIN_STRENGTH = 0.02  # of the largest contribution: smaller ones have no background

EXAMPLES = {  # texts of the demo and the app, written for them
    "A review that praises": (
        "I went in expecting very little and came out smiling: wonderful leads, lovely"
        " music, and a last scene that moved me to tears. It is slow at first, but"
        " worth the wait. I loved these characters, even the unpleasant ones."
    ),
    "A review that does not": (
        "The lead does her best, with beautiful photography, but the plot makes no"
        " sense: awful dialogue, jokes that are not funny, dull characters. After ten"
        " promising minutes it becomes predictable, wasting a good cast."
    ),
}
Row = tuple[object, ...]


class Piece(NamedTuple):
    """A word of the text, or the characters between two words."""

    text: str
    value: float | None = None  # part of the logit; None between words
    strength: float = 0.0  # |value| divided by the largest; 0 for small ones


class Bar(NamedTuple):
    """A part of the text, its part of the logit, and the left end and the width of its
    bar in per cent.
    """

    name: str
    value: float
    left: float
    width: float
    ngram: str = ""  # in which a word contributes most, if not alone


@dataclass(frozen=True)
class ExplanationView:
    """What every rendering of an explanation shows; positive values support the class
    `favoured`.
    """

    sentence: str
    favoured: str  # the second of two classes; of more classes the prediction
    other: str  # the first of two classes; of more classes the second best
    for_colour: str  # RGB of `favoured`
    against_colour: str  # and of `other`
    pieces: list[Piece]
    words: list[Bar]
    sentences: list[Bar]  # empty for a single sentence
    has_ngrams: bool
    heads: int
    leading: list[Row]  # leader, number of heads, mean share, mean number of followers
    more_leaders: int
    leaders: list[Row]  # head, leader, share, layer, followers
    more_heads: int
    tokens: list[
        tuple[str, float]
    ]  # terms of the sum, the sum of the remaining terms, and the bias


def view_explanation(
    explanation: "Explanation",
    *,
    words: int = 15,
    sentences: int = 40,
    leaders: int = 10,
    heads: int = 4,
) -> ExplanationView:
    """Return the view model of an explanation, with at most the given number of rows."""
    e, written = explanation, explanation.as_written
    cut, leading = e.by_sentence(), e.leading()
    rgb = [
        ", ".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
        for colour in class_colours(e)
    ]
    return ExplanationView(
        sentence=describe_prediction(e),
        favoured=str(e.sides[0]),
        other=str(e.sides[1]),
        for_colour=rgb[0],
        against_colour=rgb[1],
        pieces=_split_into_pieces(e),
        words=_make_word_bars(e, words),
        sentences=(
            _make_bars(
                e,
                [(shorten(part.text), part.value) for part in cut],
                sentences,
                "sentences",
            )
            if len(cut) > 1
            else []
        ),
        has_ngrams=e.model.vocabulary.max_ngram > 1,
        heads=len(e.leaders),
        leading=[
            (written[row.word], row.heads, f"{row.share:.1%}", f"{row.followers:.0f}")
            for row in leading[:leaders]
        ],
        more_leaders=max(0, len(leading) - leaders),
        leaders=[
            (
                h,
                written[one.word],
                f"{one.share:.1%}",
                one.since,
                _join_names([written[n] for n in one.followers]),
            )
            for h, found in enumerate(e.leaders[:heads], 1)
            for one in found
        ],
        more_heads=len(e.leaders) - heads,
        tokens=_list_tokens(e),
    )


def describe_prediction(explanation: "Explanation") -> str:
    """Return the prediction, its probability and the logit in one sentence."""
    e, n = explanation, explanation.known
    known = (
        f"{n} known token{'s' if n > 1 else ''}"
        if n
        else "no known word, so the bias alone decides"
    )
    other, of = (
        (f" rather than {e.second}", "")
        if len(e.classes) > 2
        else ("", f" of {e.sides[0]}")
    )
    parts = (
        f"logit{of} {float(e.as_shown(e.logit)):+.4f}, bias"
        f" {float(e.as_shown(e.bias)):+.4f}"
    )
    return (
        f"{e.prediction}{other} with probability {percent(e.probability)} ({parts};"
        f" {known})."
    )


def percent(probability: float) -> str:
    """Return a probability below 1 in per cent, never rounded to 100 %."""
    return f"{probability:.1%}" if probability < 0.9995 else "over 99.9%"


def class_colours(explanation: "Explanation") -> tuple[str, str]:
    """Return the colours of the two classes of `explanation.sides`."""
    labels = list(explanation.classes)
    first, second = (
        labels.index(label) % len(CLASS_COLOURS) for label in explanation.sides
    )
    return CLASS_COLOURS[first], CLASS_COLOURS[second]


def _split_into_pieces(explanation: "Explanation") -> list[Piece]:
    text, marks = explanation.text, explanation.highlights
    values = [float(explanation.as_shown(mark.contribution)) for mark in marks]
    largest = max(map(abs, values), default=0.0) or 1.0
    pieces, at = [], 0
    for mark, value in zip(marks, values, strict=True):
        strength = abs(value) / largest if abs(value) >= MIN_STRENGTH * largest else 0.0
        pieces += [
            Piece(text[at : mark.start]),
            Piece(text[mark.start : mark.end], value, strength),
        ]
        at = mark.end
    return [*pieces, Piece(text[at:])]


def shorten(text: str) -> str:
    """Return a sentence with at most 160 characters."""
    return text if len(text) <= MAX_SENTENCE else f"{text[: MAX_SENTENCE - 1]}…"


def _make_bars(
    explanation: "Explanation", parts: list[tuple[str, Any]], count: int, kind: str
) -> list[Bar]:
    """Return the first parts as bars on one scale, and the sum of all others."""
    rows = [(name, float(explanation.as_shown(value))) for name, value in parts[:count]]
    if rest := parts[count:]:
        rows.append(
            (
                f"{len(rest)} other {kind}",
                sum(float(explanation.as_shown(value)) for _, value in rest),
            )
        )
    values = [value for _, value in rows]
    low, high = min([0.0, *values]), max([0.0, *values])
    scale = 100 / ((high - low) or 1.0)
    return [
        Bar(name, value, (min(value, 0.0) - low) * scale, abs(value) * scale)
        for name, value in rows
    ]


def _make_word_bars(explanation: "Explanation", count: int) -> list[Bar]:
    """Return the words with the largest parts, each with the n-gram in which it
    contributes most.
    """
    parts, ngrams = explanation.by_word(), explanation.strongest_ngrams()
    bars = _make_bars(
        explanation, [(part.named, part.value) for part in parts], count, "words"
    )
    pairs = zip(bars, parts[:count], strict=False)
    found = [
        bar._replace(ngram=ngrams.get((part.places or ((0, 0),))[0], ""))
        for bar, part in pairs
    ]
    return found + bars[count:]  # the sum of the others


def _list_tokens(explanation: "Explanation") -> list[tuple[str, float]]:
    e, values = explanation, explanation.as_shown(explanation.contributions)
    rows, others = (
        e.top(MAX_TOKENS),
        np.argsort(-np.abs(values), kind="stable")[MAX_TOKENS:],
    )
    if len(others):
        rows.append((f"({len(others)} other tokens)", float(values[others].sum())))
    return [*rows, ("(bias)", float(e.as_shown(e.bias)))]


def _join_names(followers: list[str]) -> str:
    more = len(followers) - MAX_FOLLOWERS
    return ", ".join(followers[:MAX_FOLLOWERS]) + (
        f" and {more} more" if more > 0 else ""
    )
