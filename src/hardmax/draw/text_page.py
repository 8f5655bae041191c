"""An explanation as a page of its own: highlighted text, words that count, leaders."""

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

if TYPE_CHECKING:
    from hardmax.sentiment.explanation import Explanation

FOR, AGAINST = "0, 114, 178", "213, 94, 0"  # those of `draw.style`, which would load Matplotlib
MOST_WORDS, MOST_FOLLOWERS, MOST_HEADS = 20, 12, 4
FAINTEST = 0.02  # of the largest contribution: smaller ones have no background


def explanation_parts(
    explanation: "Explanation", *, words: int = MOST_WORDS, most_heads: int = MOST_HEADS
) -> dict[str, object]:
    """What the template shows of an explanation."""
    heads = explanation.leaders
    return {
        "sentence": sentence(explanation),
        "prediction": explanation.prediction,
        "rather": f", {explanation.prediction} rather than {explanation.second}"
        if len(explanation.classes) > 2
        else "",
        "pieces": _pieces(explanation),
        "words": _words(explanation, words),
        "leaders": [
            (h, leader.word, f"{leader.share:.1%}", leader.since, _names(leader.followers))
            for h, leaders in enumerate(heads[:most_heads], 1)
            for leader in leaders
        ],
        "more_heads": len(heads) - most_heads,
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
        pieces.append({"text": text[mark.start : mark.end], "title": f"{mark.word}: {value:+.4f}", "shade": shade})
        at = mark.end
    return [*pieces, {"text": text[at:], "title": "", "shade": ""}]


def _words(explanation: "Explanation", most: int) -> list[tuple[object, ...]]:
    """Tokens with the largest contributions, and the sum of all others."""
    e = explanation
    order = np.argsort(-np.abs(e.towards), kind="stable")
    largest, others = order[:most], order[most:]
    rows: list[tuple[object, ...]] = [(e.words[i], f"{e.towards[i]:+.4f}") for i in largest]
    if len(others):
        rows.append((Markup(f"<small>{len(others)} others</small>"), f"{float(e.towards[others].sum()):+.4f}"))
    return rows


def _names(followers: tuple[str, ...]) -> str:
    more = len(followers) - MOST_FOLLOWERS
    return ", ".join(followers[:MOST_FOLLOWERS]) + (f" and {more} more" if more > 0 else "")
