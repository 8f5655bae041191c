"""Pieces of HTML for the review explorer: bars, tables and sentences. Whatever a person typed is escaped here.

Blue is for the answer that was given and orange against it, as in every picture of words. The colours are variables of
the page's stylesheet, so that light and dark pages have their own.
"""

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from hardmax.app.review_accounts import named, waterfall
from hardmax.app.review_texts import along
from hardmax.app.reviews import logit, percent
from hardmax.draw.style import AGAINST, FOR
from hardmax.text.attribution import Part
from hardmax.text.explanation import Explanation

MOST_FOLLOWERS, MOST_LEADERS, MOST_PARTS = 8, 12, 40
LONGEST_SENTENCE = 240  # characters that are shown

CSS = f"""
:host {{ color: var(--hm-text, #1a1a1a); font-size: 0.9375rem; }}
h2 {{ font-size: 1.25rem; margin: 0.6rem 0 0; }}
h3 {{ font-size: 1rem; margin: 0.2rem 0 0.3rem; }}
p {{ margin: 0.2rem 0 0.5rem; }}
small, .dim {{ opacity: 0.75; }}
.answer {{ font-size: 1.05rem; margin: 0; }}
.problem {{ border-left: 4px solid var(--hm-against, {AGAINST}); padding: 0.3rem 0.7rem;
  background: var(--hm-panel, #f3f4f6); margin: 0; overflow-wrap: anywhere; }}
.key {{ display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; vertical-align: -0.05em; }}
.for {{ background: var(--hm-for, {FOR}); }}
.against {{ background: var(--hm-against, {AGAINST}); }}
.bars {{ display: grid; grid-template-columns: minmax(6rem, max-content) 1fr max-content; gap: 0.2rem 0.6rem;
  align-items: center; }}
.bars.long {{ grid-template-columns: minmax(10rem, 3fr) 2fr max-content; gap: 0.45rem 0.6rem; }}
.bars > .name {{ overflow-wrap: anywhere; max-width: 28rem; }}
.bars.long > .name {{ font-size: 0.875rem; max-width: none; }}
.bars > .number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.bars > .sum {{ font-weight: 600; }}
.track {{ position: relative; height: 0.95rem; background: var(--hm-panel, #f3f4f6); border-radius: 3px; }}
.track i {{ position: absolute; top: 0; bottom: 0; min-width: 2px; border-radius: 2px; }}
.track b {{ position: absolute; top: -0.12rem; bottom: -0.12rem; width: 1px; background: var(--hm-text, #1a1a1a);
  opacity: 0.55; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: 0.2rem 0.7rem 0.2rem 0; border-bottom: 1px solid var(--hm-line, #d0d4da);
  vertical-align: top; }}
td.number, th.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
td.number:last-child, th.number:last-child {{ padding-right: 0; }}
"""


def paragraph(text: str, kind: str = "") -> str:
    """A sentence, if there is one."""
    return str(Markup('<p class="{}">{}</p>').format(kind, text)) if text else ""


def key() -> str:
    """What the colours say."""
    box = Markup('<span class="key {}"></span> {}')
    return str(box.format("for", "for the answer ") + Markup("&nbsp; ") + box.format("against", "against it"))


def waterfall_html(explanation: Explanation) -> str:
    """From the bias, word by word, to the logit and its probability."""
    steps = waterfall(explanation)
    total = along(explanation, explanation.logits)
    rows = [(step.name, step.start, step.end, f"{step.value:+.2f}", "") for step in steps]
    answer = f"logit: {named(explanation.prediction)}, {percent(explanation.probability)}"
    rows.append((answer, 0.0, total, logit(explanation), " sum"))
    return _heading("How the words add up", _sides(explanation)) + _bars(explanation, rows, "")


def sentences_html(explanation: Explanation) -> str:
    """Sums by sentence, which add up to the logit with the bias."""
    return _parts("Sentence by sentence", "sentences", explanation.by_sentence(), explanation)


def phrases_html(explanation: Explanation) -> str:
    """The same between commas and the like."""
    return _parts("Phrase by phrase", "phrases", explanation.by_phrase(), explanation)


def _parts(title: str, name: str, parts: Sequence[Part], explanation: Explanation) -> str:
    rows = [("bias", along(explanation, explanation.bias))]
    rows += [(_short(part.text), along(explanation, part.value)) for part in parts[:MOST_PARTS]]
    if rest := parts[MOST_PARTS:]:
        rows.append((f"{len(rest)} more {name}", sum(along(explanation, part.value) for part in rest)))
    bars = [(name, 0.0, value, f"{value:+.2f}", "") for name, value in rows]
    bars.append(("logit, the sum", 0.0, along(explanation, explanation.logits), logit(explanation), " sum"))
    return _heading(title, _sides(explanation)) + _bars(explanation, bars, " long")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SENTENCE else f"{text[: LONGEST_SENTENCE - 1]}…"


def _sides(explanation: Explanation) -> str:
    """Which class lies on which side of 0."""
    if len(explanation.logits) > 1:
        return f"to the right: for {named(explanation.prediction)}"
    first, second = map(named, explanation.classes.tolist())
    return f"left of the line: {first}; right of it: {second}"


def _heading(title: str, about: str) -> str:
    return str(Markup("<h3>{}</h3><p><small>{}</small></p>").format(title, about))


def _bars(explanation: Explanation, rows: Iterable[tuple[str, float, float, str, str]], kind: str) -> str:
    """Bars (name, start, end, number, class of the row) on one scale, each in the colour of the side it speaks for."""
    rows = list(rows)
    ends = [end for row in rows for end in row[1:3]]
    low, high = min(0.0, *ends), max(0.0, *ends)
    scale = 100 / ((high - low) or 1.0)
    sign = 1 if len(explanation.logits) > 1 or explanation.logits[0] > 0 else -1
    cell = Markup(
        '<span class="name{}">{}</span><span class="track" aria-hidden="true"><i class="{}" '
        'style="left:{:.2f}%;width:{:.2f}%"></i><b style="left:{:.2f}%"></b></span><span class="number{}">{}</span>'
    )
    cells = (
        cell.format(
            extra,
            name,
            "for" if (end - start) * sign > 0 else "against",
            (min(start, end) - low) * scale,
            abs(end - start) * scale,
            -low * scale,
            extra,
            number.replace("-", "\u2212"),
        )
        for name, start, end, number, extra in rows
    )
    return f'<div class="bars{escape(kind)}">{"".join(cells)}</div>'


def leading_html(explanation: Explanation) -> str:
    """Who leads, over all heads."""
    rows, heads = explanation.leading(), explanation.model.weights.heads
    if not rows:
        return _heading("Who leads", "No known word, so nobody leads.")
    about = (
        "In each head words follow the one with the largest projection. A leader is a word, or a run of words that the "
        "model knows as one; its share is the part of the head's mean that it has in the end."
    )
    more, written = len(rows) - MOST_LEADERS, explanation.as_written
    table = _table(
        ("leader", f"leads in, of {heads}", "mean share", "mean followers"),
        (
            (_quoted(written[row.word]), row.heads, f"{row.share:.1%}", f"{row.followers:.0f}")
            for row in rows[:MOST_LEADERS]
        ),
    )
    return _heading("Who leads", about) + table + paragraph(f"and {more} more" if more > 0 else "", "dim")


def head_html(explanation: Explanation, head: int) -> str:
    """The leaders of one head."""
    written = explanation.as_written
    rows = (
        (_quoted(written[one.word]), f"{one.share:.1%}", one.since, _names([written[name] for name in one.followers]))
        for one in explanation.leaders[head]
    )
    return _heading(f"Head {head + 1}", "Who leads, since which layer, and who follows.") + _table(
        ("leader", "share", "since layer", "followed by"), rows, numbers=(1, 2)
    )


def _quoted(name: str) -> str:
    return f"“{name}”"


def _names(followers: Sequence[str]) -> str:
    more = len(followers) - MOST_FOLLOWERS
    names = ", ".join(map(_quoted, followers[:MOST_FOLLOWERS])) or "nobody"
    return f"{names} and {more} more" if more > 0 else names


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = (1, 2, 3)) -> str:
    kinds = ["number" if place in numbers else "" for place in range(len(head))]

    def row(tag: str, cells: Sequence[object]) -> Markup:
        one = Markup(f'<{tag} class="{{}}">{{}}</{tag}>')
        return Markup("").join(one.format(kind, cell) for kind, cell in zip(kinds, cells, strict=True))

    body = Markup("").join(Markup("<tr>{}</tr>").format(row("td", cells)) for cells in rows)
    top = row("th", head)
    return str(
        Markup('<div class="wide"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>').format(top, body)
    )


def answer_html(explanation: Explanation, sentence: str) -> str:
    """The answer, with a dot in the colour of answers where there is one."""
    kind = "for" if len(explanation.ids) else ""
    dot = Markup('<span class="key {}"></span> ').format(kind) if kind else ""
    return str(Markup('<p class="answer" role="status">{}{}</p>').format(dot, sentence))
