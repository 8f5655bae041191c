"""`hardmax explain`."""

import sys
from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from hardmax._errors import ParameterError
from hardmax.cli import options, output, texts
from hardmax.cli.options import option
from hardmax.draw.text_page import Bar, ExplanationView, view_explanation

ENDINGS = (*output.PICTURES, ".gif", ".mp4", ".json", ".html")
MAX_SENTENCES, MAX_LEADERS = 12, 8
MAX_BAR, MAX_EXCERPT = 16, 70  # characters
MIN_COLOURED, MIN_FILLED = 0.15, 0.5  # fractions of the largest contribution


def explain(
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="A text in quotes; - reads standard input."
        ),
    ],
    model: texts.Model = "imdb",
    encoder: texts.Encoder = None,
    label: Annotated[
        str | None,
        option(
            "--label",
            "Label to explain, of several per text; the most probable if left out.",
        ),
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Explain the prediction for a text: words and sentences whose contributions add up
    to the logit, and leaders.

    --out writes a page (.html) or JSON (.json) with every term and the leaders of every
    head, a figure (.png, .svg, .pdf), or a movie (.gif, .mp4; models with d = 2).
    """
    files = output.check_files(out, ENDINGS)
    text = sys.stdin.read() if text == "-" else text
    if not text.strip():
        raise ParameterError(
            "text",
            "contain a word",
            "an empty text",
            'Pass a text in quotes, such as "A fine film."',
        )
    classifier = texts.load(model, encoder)
    chosen = {str(each): each for each in classifier.classes_.tolist()}.get(
        label or "", label
    )
    explanation = classifier.explain(text, chosen)
    output.write(files, explanation)
    if json:
        print(explanation.to_json())
        return
    _print(view_explanation(explanation, sentences=MAX_SENTENCES, leaders=MAX_LEADERS))
    output.say_written(files)


def _print(view: ExplanationView) -> None:
    output.say(view.sentence)
    if len(view.tokens) == 1:  # the bias only
        return
    output.console().print(_colour_text(view))
    _print_bars("Words with the largest contributions", "word", view.words, view)
    if view.sentences:
        _print_bars("Sentences", "sentence", view.sentences, view)
    if not view.leading:
        output.say(
            "No leaders: no head is kept, as none helped in cross-validation. The mean"
            " of vectors decides."
        )
        return
    title = "Leaders" if view.heads == 1 else f"Leaders, over {view.heads} heads"
    rows = [[escape(str(cell)) for cell in row] for row in view.leading]
    columns = "leader", "leads in", "mean share", "mean followers"
    output.show_table(title, *columns, rows=rows, total=len(rows) + view.more_leaders)


def _colour_text(view: ExplanationView) -> Text:
    """Return the text with each word in the colour of the class it supports."""
    text = Text()
    for piece in view.pieces:
        style = ""
        if piece.strength >= MIN_COLOURED:
            colour = _rgb(
                view.for_colour if (piece.value or 0) > 0 else view.against_colour
            )
            style = (
                f"bold white on {colour}"
                if piece.strength >= MIN_FILLED
                else f"bold {colour}"
            )
        text.append(piece.text, style)
    return text


def _print_bars(title: str, kind: str, bars: list[Bar], view: ExplanationView) -> None:
    largest = max(abs(bar.value) for bar in bars) or 1.0
    block = "#" if output.console().options.ascii_only else "\u2588"
    rows = []
    for bar in bars:
        blocks = block * round(MAX_BAR * abs(bar.value) / largest)
        drawn = (
            f"[{_rgb(view.for_colour if bar.value > 0 else view.against_colour)}]{blocks}[/]"
            if blocks
            else ""
        )
        rows.append(
            [escape(output.shorten(bar.name, MAX_EXCERPT)), f"{bar.value:+.4f}", drawn]
        )
    output.show_table(
        title, kind, f"+ {escape(view.favoured)}, - {escape(view.other)}", "", rows=rows
    )


def _rgb(colour: str) -> str:
    return f"rgb({colour.replace(' ', '')})"
