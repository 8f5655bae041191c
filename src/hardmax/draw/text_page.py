"""An explanation as a page of its own: highlighted text, words that count, leaders."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from hardmax.draw.html import shell, table

if TYPE_CHECKING:
    from hardmax.sentiment.explanation import Explanation

FOR, AGAINST = "0, 114, 178", "213, 94, 0"  # blue and vermilion: told apart by everyone
MOST_WORDS, MOST_FOLLOWERS, MOST_HEADS = 20, 12, 4
LEADERS = "<p>In each head words follow the one with the largest projection, and gather around those that lead.</p>"


def explanation_page(explanation: "Explanation") -> str:
    """The whole page."""
    return shell("Why this answer", explanation_section(explanation))


def explanation_section(explanation: "Explanation", *, level: int = 2) -> str:
    """The body of the page, to be put into another; `level` is that of its headings."""
    e = explanation
    legend = (
        f'<p><span style="background: rgba({FOR}, .35)">Blue</span> words speak for the answer, '
        f'<span style="background: rgba({AGAINST}, .35)">orange</span> ones against it. The contributions of all words '
        "and the bias add up to the logit exactly.</p>"
    )
    parts = [f'<p class="status">{escape(sentence(e))}</p>', legend, f'<p class="text">{highlighted(e)}</p>']
    if len(e.ids):
        parts += [f"<h{level}>Words that count most</h{level}>", words_table(e)]
        parts += [f"<h{level}>Leaders</h{level}>", LEADERS, leaders_table(e)]
    return "\n".join(parts)


def sentence(explanation: "Explanation") -> str:
    """The answer in words."""
    e = explanation
    count = len(e.ids)
    known = f"{count} known token{'s' if count > 1 else ''}" if count else "no known word, so the bias alone decides"
    logit = f"logit {e.logit:.4f}, bias {e.bias:.4f}; " if isinstance(e.logit, float) else ""
    return f"{e.prediction} with probability {e.probability:.1%} ({logit}{known})."


def highlighted(explanation: "Explanation") -> str:
    """The text with a background for each word: the darker, the larger its part of the logit."""
    e = explanation
    towards = [float(e.signed(mark.contribution)) for mark in e.highlights]
    largest = max((abs(value) for value in towards), default=0.0) or 1.0
    parts, at = [], 0
    for mark, value in zip(e.highlights, towards, strict=True):
        parts.append(escape(e.text[at : mark.start]))
        strength = abs(value) / largest
        colour = FOR if value > 0 else AGAINST
        word = escape(e.text[mark.start : mark.end])
        title = f"{mark.word}: {value:+.4f}"
        shade = f' style="background: rgba({colour}, {0.75 * strength:.3f})"' if strength >= 0.02 else ""
        parts.append(f'<span title="{escape(title)}"{shade}>{word}</span>')
        at = mark.end
    return "".join([*parts, escape(e.text[at:])])


def words_table(explanation: "Explanation") -> str:
    """Tokens with the largest contributions, and the sum of all others."""
    e = explanation
    order = np.argsort(-np.abs(e.towards), kind="stable")
    shown = order[:MOST_WORDS]
    rows = [[escape(str(e.words[i])), f"{e.towards[i]:+.4f}", str(e.counts[i])] for i in shown]
    if len(order) > len(shown):
        rest = float(e.towards[order[len(shown) :]].sum())
        rows.append([f"<small>{len(order) - len(shown)} others</small>", f"{rest:+.4f}", ""])
    return table(["token", f"for {escape(str(e.prediction))}", "times"], rows)


def leaders_table(explanation: "Explanation") -> str:
    """Leaders of the first heads and who follows them."""
    rows = []
    heads = explanation.leaders
    for h, groups in enumerate(heads[:MOST_HEADS]):
        for group in groups:
            more = len(group.followers) - MOST_FOLLOWERS
            names = ", ".join(group.followers[:MOST_FOLLOWERS]) + (f" and {more} more" if more > 0 else "")
            rows.append([str(h + 1), escape(group.word), f"{group.share:.1%}", str(group.since), escape(names)])
    left = len(heads) - MOST_HEADS
    note = f"<p><small>{left} more heads are in the JSON.</small></p>" if left > 0 else ""
    return table(["head", "leader", "share of the mean", "since layer", "followed by"], rows) + note
