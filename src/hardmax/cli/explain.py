"""`hardmax explain`."""

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from hardmax._files import check_writable
from hardmax._types import FloatArray
from hardmax.cli import options, output, texts
from hardmax.cli.options import option

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
        bool, option("--leave-one-out", "Add by how much the logit falls without each word.")
    ] = False,
    html: Annotated[Path | None, option("--html", "Write a page with the highlighted text.", metavar="FILE")] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Say why a text is classified as it is: words whose contributions add up to the logit, and who leads.

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
    _print(explanation, without)
    output.say_written([*files, *([] if html is None else [html])])


def _print(explanation: "Explanation", without: FloatArray | None) -> None:
    from hardmax.draw.text_page import sentence

    output.say(sentence(explanation))
    if not len(explanation.ids):
        return
    output.show(words(explanation, without))
    output.show(leaders(explanation))
    left = len(explanation.leaders) - MOST_HEADS
    if left > 0:
        output.say(f"{left} more heads are in --json.")


def words(explanation: "Explanation", without: FloatArray | None = None) -> Table:
    """The words that count most for the prediction, and the sum of the others."""
    e = explanation
    against = f", not {escape(str(e.second))}" if len(e.classes) > 2 else ""
    values = {f"for {escape(str(e.prediction))}{against}": e.towards}
    if without is not None:
        values["leave-one-out"] = e.signed(without)
    counted = [] if e.model.vocabulary.distinct else ["times"]  # else each counts once, however often it stands there
    times = [[str(count)] * len(counted) for count in e.counts]
    order = np.argsort(-np.abs(e.towards), kind="stable")
    rows = [
        [escape(str(e.words[i])), *(f"{column[i]:+.4f}" for column in values.values()), *times[i]]
        for i in order[:MOST_WORDS]
    ]
    rest = order[MOST_WORDS:]
    if len(rest):
        rows.append(
            [f"and {len(rest)} more", f"{e.towards[rest].sum():+.4f}", *[""] * (len(values) - 1 + len(counted))]
        )
    return output.table("Words that count most", "word", *values, *counted, rows=rows)


def leaders(explanation: "Explanation") -> Table:
    """Leaders of the first heads, and who follows them."""
    rows = []
    for h, found in enumerate(explanation.leaders[:MOST_HEADS], 1):
        for leader in found[:MOST_LEADERS]:
            more = len(leader.followers) - MOST_FOLLOWERS
            names = ", ".join(leader.followers[:MOST_FOLLOWERS]) + (f" and {more} more" if more > 0 else "")
            rows.append([str(h), escape(leader.word), f"{leader.share:.1%}", str(leader.since), escape(names)])
        if len(found) > MOST_LEADERS:
            rows.append([str(h), f"and {len(found) - MOST_LEADERS} more", "", "", ""])
    return output.table("Leaders", "head", "leader", "share of the mean", "since layer", "followed by", rows=rows)
