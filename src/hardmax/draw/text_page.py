"""An explanation as a page: the answer, the text in colour, words and sentences that count, then the leaders."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

if TYPE_CHECKING:
    from hardmax.text.explanation import Explanation

FOR, AGAINST = "0, 114, 178", "213, 94, 0"  # those of `draw.style`, which would load Matplotlib
MOST_WORDS, MOST_SENTENCES, MOST_TOKENS, MOST_LEADERS, MOST_FOLLOWERS, MOST_HEADS = 15, 40, 60, 10, 12, 4
LONGEST = 160  # characters of a sentence that are shown
FAINTEST = 0.02  # of the largest contribution: smaller ones have no background


class Bar(NamedTuple):
    """A part of the text, what it says for the answer, and where its bar begins and ends, in per cent."""

    name: str
    value: str
    left: float
    width: float
    side: str  # for or against
    run: str = ""  # of a word, the run of words in which it says most


def explanation_parts(
    explanation: "Explanation", *, words: int = MOST_WORDS, most_heads: int = MOST_HEADS
) -> dict[str, object]:
    """What the template shows of an explanation, in the order in which a reader asks."""
    e, written = explanation, explanation.as_written
    sentences = e.by_sentence()
    return {
        "sentence": sentence(e),
        "prediction": e.prediction,
        "rather": f", {e.prediction} rather than {e.second}" if len(e.classes) > 2 else "",
        "pieces": _pieces(e),
        "words": _word_bars(e, words),
        "has_runs": e.model.vocabulary.max_ngram > 1,
        "sentences": _bars(e, [(_short(part.text), part.value) for part in sentences], MOST_SENTENCES, "sentences")
        if len(sentences) > 1
        else [],
        "heads": len(e.leaders),
        "leading": [
            (written[row.word], row.heads, f"{row.share:.1%}", f"{row.followers:.0f}")
            for row in e.leading()[:MOST_LEADERS]
        ],
        "leaders": [
            (h, written[one.word], f"{one.share:.1%}", one.since, _names([written[name] for name in one.followers]))
            for h, leaders in enumerate(e.leaders[:most_heads], 1)
            for one in leaders
        ],
        "more_heads": len(e.leaders) - most_heads,
        "tokens": _tokens(e),
        "for_colour": FOR,
        "against_colour": AGAINST,
    }


def sentence(explanation: "Explanation") -> str:
    """The answer in words."""
    e, n = explanation, len(explanation.ids)
    known = f"{n} known token{'s' if n > 1 else ''}" if n else "no known word, so the bias alone decides"
    parts = f"logit {float(e.signed(e.logit)):.4f}, bias {float(e.signed(e.bias)):.4f}"
    other = f" rather than {e.second}" if len(e.classes) > 2 else ""
    return f"{e.prediction}{other} with probability {e.probability:.1%} ({parts}; {known})."


def _pieces(explanation: "Explanation") -> list[dict[str, str]]:
    """The text in pieces, words with a title and a shade: the darker, the larger their part of the logit."""
    text, marks = explanation.text, explanation.highlights
    towards = [float(explanation.signed(mark.contribution)) for mark in marks]
    largest = max(map(abs, towards), default=0.0) or 1.0
    pieces, at = [], 0
    for mark, value in zip(marks, towards, strict=True):
        strength = abs(value) / largest
        shade = f"{FOR if value > 0 else AGAINST}, {0.75 * strength:.3f}" if strength >= FAINTEST else ""
        pieces.append({"text": text[at : mark.start], "title": "", "shade": ""})
        pieces.append(
            {
                "text": text[mark.start : mark.end],
                "title": f"{text[mark.start : mark.end]}: {value:+.4f}",
                "shade": shade,
            }
        )
        at = mark.end
    return [*pieces, {"text": text[at:], "title": "", "shade": ""}]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _bars(explanation: "Explanation", parts: list[tuple[str, Any]], most: int, kind: str) -> list[Bar]:
    """The first parts as bars on one scale, and the sum of all others."""
    rows = [(name, float(explanation.signed(value))) for name, value in parts[:most]]
    if rest := parts[most:]:
        rows.append((f"{len(rest)} other {kind}", sum(float(explanation.signed(value)) for _, value in rest)))
    values = [value for _, value in rows]
    low, high = min([0.0, *values]), max([0.0, *values])
    scale = 100 / ((high - low) or 1.0)
    return [
        Bar(
            name,
            f"{value:+.2f}",
            (min(value, 0.0) - low) * scale,
            abs(value) * scale,
            "for" if value > 0 else "against",
        )
        for name, value in rows
    ]


def _word_bars(explanation: "Explanation", most: int) -> list[Bar]:
    """Words that count most, each with the run in which it says most, if it says more there than alone."""
    parts, runs = explanation.by_word(), explanation.strongest_runs()
    bars = _bars(explanation, [(part.named, part.value) for part in parts], most, "words")
    found = [bar._replace(run=runs.get(part.places[0], "")) for bar, part in zip(bars, parts[:most], strict=False)]
    return found + bars[most:]  # the sum of the others


def _tokens(explanation: "Explanation") -> list[tuple[object, ...]]:
    """The terms of the sum: tokens as they are written, those with the largest contributions, and all others."""
    e = explanation
    order = np.argsort(-np.abs(e.towards), kind="stable")
    largest, others = order[:MOST_TOKENS], order[MOST_TOKENS:]
    rows: list[tuple[object, ...]] = [(e.as_written[e.words[i]], f"{e.towards[i]:+.4f}") for i in largest]
    if len(others):
        rows.append((Markup(f"<small>{len(others)} others</small>"), f"{float(e.towards[others].sum()):+.4f}"))
    return [*rows, (Markup("<small>bias</small>"), f"{float(e.signed(e.bias)):+.4f}")]


def _names(followers: Sequence[str]) -> str:
    more = len(followers) - MOST_FOLLOWERS
    return ", ".join(followers[:MOST_FOLLOWERS]) + (f" and {more} more" if more > 0 else "")
