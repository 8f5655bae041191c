"""`hardmax explain`."""

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hardmax._files import check_writable
from hardmax._types import FloatArray
from hardmax.cli import options, output, texts
from hardmax.cli.options import option
from hardmax.draw import text_page

if TYPE_CHECKING:
    from hardmax.text.explanation import Explanation

ENDINGS = (*output.PICTURES, *output.MOVIES, ".json", ".html")
MOST_WORDS, MOST_SENTENCES, MOST_TERMS, MOST_LEADING = 15, 12, 40, 8
MOST_HEADS, MOST_LEADERS, MOST_FOLLOWERS = 4, 3, 6
FOR, AGAINST = (f"rgb({colour.replace(' ', '')})" for colour in (text_page.FOR, text_page.AGAINST))
BAR, EXCERPT = 16, 70  # letters
FAINT, STRONG = 0.15, 0.5  # of the largest contribution: words below have no colour, words above a full one


def explain(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="A text, in quotes; - reads standard input.", show_default=False)
    ],
    model: texts.Model = "imdb",
    leave_one_out: Annotated[
        bool, option("--leave-one-out", "Add every term, and by how much the logit falls without it.")
    ] = False,
    terms: Annotated[bool, option("--terms", "Add every term of the sum: words and runs of words.")] = False,
    heads: Annotated[bool, option("--heads", "Add the leaders head by head.")] = False,
    html: Annotated[Path | None, option("--html", "Write a page with the highlighted text.", metavar="FILE")] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Say why a text is classified as it is: words and sentences that add up to the logit, and who leads.

    --out writes a picture (.png, .svg, .pdf), a movie (.gif, .mp4; models with d = 2), everything (.json) or a page
    (.html).
    """
    files = output.check_files(out, ENDINGS)
    if html is not None:
        check_writable(html)
    explanation = texts.load(model).explain(sys.stdin.read() if text == "-" else text)
    without = explanation.leave_one_out() if leave_one_out else None
    document = explanation.to_json()
    if without is not None:
        more = {"leave_one_out": without.tolist()}
        document = json_format.dumps(json_format.loads(document) | more, ensure_ascii=False)
    output.write(
        files, text=lambda: document, figure=explanation.plot, film=explanation.movie, page=explanation.to_html
    )
    if html is not None:
        explanation.to_html(html)
    if json:
        print(document)
        return
    _print(explanation, without, terms=terms, heads=heads)
    output.say_written([*files, *([] if html is None else [html])])


def _print(explanation: "Explanation", without: FloatArray | None, *, terms: bool, heads: bool) -> None:
    output.say(text_page.sentence(explanation))
    if not len(explanation.ids):
        return
    output.console().print(coloured(explanation))
    output.show(words(explanation))
    if len(explanation.by_sentence()) > 1:
        output.show(sentences(explanation))
    if terms or without is not None:
        output.show(tokens(explanation, without))
    output.show(leading(explanation))
    if heads:
        output.show(leaders(explanation))
        left = len(explanation.leaders) - MOST_HEADS
        if left > 0:
            output.say(f"{left} more heads are in --json.")


def coloured(explanation: "Explanation") -> Text:
    """The text; words for the answer are blue and those against it orange, the strongest on a full ground."""
    text, marks = Text(explanation.text), explanation.highlights
    values = [float(explanation.signed(mark.contribution)) for mark in marks]
    largest = max(map(abs, values), default=0.0)
    for mark, value in zip(marks, values, strict=True):
        if abs(value) >= FAINT * largest > 0:
            colour = FOR if value > 0 else AGAINST
            strong = abs(value) >= STRONG * largest
            text.stylize(f"bold white on {colour}" if strong else f"bold {colour}", mark.start, mark.end)
    return text


def words(explanation: "Explanation") -> Table:
    """The words that count most for the prediction, with all their places, and the sum of the others."""
    parts = explanation.by_word()
    names, values = [part.named for part in parts], [part.value for part in parts]
    return _bars("Words that count most", "word", names, values, explanation, MOST_WORDS)


def sentences(explanation: "Explanation") -> Table:
    """Sentences in their order."""
    parts = explanation.by_sentence()
    names = [part.text if len(part.text) <= EXCERPT else f"{part.text[: EXCERPT - 3]}..." for part in parts]
    values = [part.value for part in parts]
    return _bars("Sentence by sentence", "sentence", names, values, explanation, MOST_SENTENCES)


def _bars(title: str, kind: str, names: list[str], values: list[Any], e: "Explanation", most: int) -> Table:
    numbers = [float(e.signed(value)) for value in values]
    if len(numbers) > most:
        names, numbers = [*names[:most], f"and {len(names) - most} more"], [*numbers[:most], sum(numbers[most:])]
    largest = max(map(abs, numbers)) or 1.0
    block = "#" if output.console().options.ascii_only else "\u2588"
    rows = [
        [escape(name), f"{number:+.4f}", _bar(block * round(BAR * abs(number) / largest), number)]
        for name, number in zip(names, numbers, strict=True)
    ]
    return output.table(title, kind, _for(e), "", rows=rows)


def _bar(blocks: str, number: float) -> str:
    return f"[{FOR if number > 0 else AGAINST}]{blocks}[/]" if blocks else ""


def _for(e: "Explanation") -> str:
    against = f", not {escape(str(e.second))}" if len(e.classes) > 2 else ""
    return f"for {escape(str(e.prediction))}{against}"


def tokens(explanation: "Explanation", without: FloatArray | None = None) -> Table:
    """The terms of the sum: tokens that count most for the prediction, and the sum of the others."""
    e = explanation
    values = {_for(e): e.towards}
    if without is not None:
        values["leave-one-out"] = e.signed(without)
    counted = [] if e.model.vocabulary.distinct else ["times"]  # else each counts once, however often it stands there
    times = [[str(count)] * len(counted) for count in e.counts]
    order = np.argsort(-np.abs(e.towards), kind="stable")
    rows = [
        [escape(e.as_written[e.words[i]]), *(f"{column[i]:+.4f}" for column in values.values()), *times[i]]
        for i in order[:MOST_TERMS]
    ]
    rest = order[MOST_TERMS:]
    if len(rest):
        rows.append(
            [f"and {len(rest)} more", f"{e.towards[rest].sum():+.4f}", *[""] * (len(values) - 1 + len(counted))]
        )
    return output.table("Every term of the sum", "token", *values, *counted, rows=rows)


def leading(explanation: "Explanation") -> Table:
    """Leaders over all heads."""
    found, written, heads = explanation.leading(), explanation.as_written, len(explanation.leaders)
    rows = [
        [escape(written[row.word]), str(row.heads), f"{row.share:.1%}", f"{row.followers:.0f}"]
        for row in found[:MOST_LEADING]
    ]
    title = "Leaders" if heads == 1 else f"Leaders, over {heads} heads"
    columns = "leader", "leads in", "mean share", "mean followers"
    return output.table(title, *columns, rows=rows, total=len(found))


def leaders(explanation: "Explanation") -> Table:
    """Leaders of the first heads, and who follows them."""
    rows, written = [], explanation.as_written
    for h, found in enumerate(explanation.leaders[:MOST_HEADS], 1):
        for leader in found[:MOST_LEADERS]:
            more = len(leader.followers) - MOST_FOLLOWERS
            names = ", ".join(written[name] for name in leader.followers[:MOST_FOLLOWERS])
            names += f" and {more} more" if more > 0 else ""
            rows.append([str(h), escape(written[leader.word]), f"{leader.share:.1%}", str(leader.since), escape(names)])
        if len(found) > MOST_LEADERS:
            rows.append([str(h), f"and {len(found) - MOST_LEADERS} more", "", "", ""])
    return output.table("Head by head", "head", "leader", "share of the mean", "since layer", "followed by", rows=rows)
