"""`hardmax explain`."""

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hardmax.cli import options, output, texts

if TYPE_CHECKING:
    from hardmax.sentiment.explanation import Explanation

ENDINGS = (*output.PICTURES, *output.MOVIES, ".json", ".html")
MOST_WORDS, MOST_HEADS, MOST_LEADERS, MOST_FOLLOWERS = 15, 4, 3, 6


def explain(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="A text, in quotes; - reads standard input.", show_default=False)
    ],
    model: texts.Model = "imdb",
    leave_one_out: Annotated[
        bool, typer.Option("--leave-one-out", help="Add by how much the logit falls without each word.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the highlighted text.")
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Say why a text is classified as it is: words whose contributions add up to the logit, and who leads.

    --out writes a picture (.png, .svg, .pdf), a movie (.gif, .mp4; models with d = 2), everything (.json) or a page
    (.html).
    """
    files = output.check_endings(out, ENDINGS)
    explanation = texts.load(model).explain(sys.stdin.read() if text == "-" else text)
    without = explanation.leave_one_out() if leave_one_out else None
    document = _document(explanation, without)
    for path in files:
        write(explanation, document, path)
    if html is not None:
        explanation.to_html(html)
    if json:
        print(document)
        return
    _print(explanation, without)
    output.say_written([*files, *([] if html is None else [html])])


def _document(explanation: "Explanation", without: Any) -> str:
    """The explanation as JSON, with leave-one-out where it was asked for."""
    if without is None:
        return explanation.to_json()
    more = {"leave_one_out": without.tolist()}
    return json_format.dumps(json_format.loads(explanation.to_json()) | more, ensure_ascii=False)


def _print(explanation: "Explanation", without: Any) -> None:
    from hardmax.draw.text_page import sentence

    output.say(sentence(explanation))
    if not len(explanation.ids):
        return
    output.console().print(words(explanation, without))
    output.console().print(leaders(explanation))
    left = len(explanation.leaders) - MOST_HEADS
    if left > 0:
        output.say(f"{left} more heads are in --json.")


def words(explanation: "Explanation", without: Any = None) -> object:
    """The words that count most for the prediction, and the sum of the others."""
    e = explanation
    values = {f"for {_plain(str(e.prediction))}": e.towards}
    if without is not None:
        values["leave-one-out"] = e.signed(without)
    grid = output.table("Words that count most", "word", *values, "times")
    order = np.argsort(-np.abs(e.towards), kind="stable")
    for i in order[:MOST_WORDS]:
        grid.add_row(_plain(str(e.words[i])), *(f"{column[i]:+.4f}" for column in values.values()), str(e.counts[i]))
    rest = order[MOST_WORDS:]
    if len(rest):
        grid.add_row(f"and {len(rest)} more", f"{e.towards[rest].sum():+.4f}", *[""] * len(values))
    return grid


def leaders(explanation: "Explanation") -> object:
    """Leaders of the first heads, and who follows them."""
    grid = output.table("Leaders", "head", "leader", "share of the mean", "since layer", "followed by")
    for h, groups in enumerate(explanation.leaders[:MOST_HEADS], 1):
        for group in groups[:MOST_LEADERS]:
            more = len(group.followers) - MOST_FOLLOWERS
            names = ", ".join(group.followers[:MOST_FOLLOWERS]) + (f" and {more} more" if more > 0 else "")
            grid.add_row(str(h), _plain(group.word), f"{group.share:.1%}", str(group.since), _plain(names))
        if len(groups) > MOST_LEADERS:
            grid.add_row(str(h), f"and {len(groups) - MOST_LEADERS} more", "", "", "")
    return grid


def _plain(text: str) -> str:
    """Text that Rich prints as it stands."""
    from rich.markup import escape

    return escape(text)


def write(explanation: "Explanation", document: str, path: Path) -> None:
    """One file, by its ending."""
    ending = path.suffix.lower()
    if ending == ".json":
        output.save_text(document, path)
    elif ending == ".html":
        explanation.to_html(path)
    elif ending in output.MOVIES:
        with output.progress_bar("Frames") as progress:
            explanation.movie(path, progress=progress)
    else:
        output.save_figure(explanation.plot(), path)
