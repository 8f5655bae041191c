"""One text of the review explorer: where it is typed, what the answer is, and its words in colours."""

from collections.abc import Callable
from typing import Any

import panel as pn

from hardmax.app.review_html import CSS, answer_html, paragraph
from hardmax.app.review_texts import MOST_CHARACTERS
from hardmax.app.reviews import Answer
from hardmax.app.words import Words

WIDTH = 330  # pixels, at least


class ReviewCard:
    """A card: it draws, and passes on what is typed, struck and asked for."""

    def __init__(
        self,
        typed: str,
        *,
        on_type: Callable[["ReviewCard", str], None],
        on_request: Callable[["ReviewCard", dict[str, Any]], None],
        on_remove: Callable[["ReviewCard"], None],
    ) -> None:
        self._quiet = False  # while the text is set from here
        self.shown: Answer | None = None
        self.refused = False  # whether what is typed here is no text to answer
        self.typed = pn.widgets.TextAreaInput(
            value=typed,
            placeholder="Type a review, or paste one.",
            rows=5,
            auto_grow=True,
            max_rows=12,
            max_length=10 * MOST_CHARACTERS,  # so that too long a text is counted, not cut
            sizing_mode="stretch_width",
            css_classes=["hm-typed"],
        )
        self.answer = pn.pane.HTML(
            paragraph("Reading the model …", "dim"), stylesheets=[CSS], sizing_mode="stretch_width", margin=(0, 10)
        )
        self.words = Words(sizing_mode="stretch_width", margin=(0, 10))
        self.change = pn.pane.HTML("", stylesheets=[CSS], sizing_mode="stretch_width", margin=(0, 10))
        self.remove = pn.widgets.Button(label="Remove", width=80, align="end")
        self.view = pn.Column(
            self.typed,
            self.answer,
            self.words,
            self.change,
            self.remove,
            css_classes=["hm-card"],
            styles={"flex": f"1 1 {WIDTH}px", "min-width": f"min({WIDTH}px, 100%)", "align-self": "start"},
        )
        self._on_type = on_type
        self.typed.param.watch(self._heard, "value_input")
        self.words.param.watch(lambda event: on_request(self, event.new), "request")
        self.remove.on_click(lambda event: on_remove(self))

    def _heard(self, event: Any) -> None:
        if not self._quiet:
            self._on_type(self, event.new)

    def set_text(self, typed: str) -> None:
        """Show a text that was not typed here."""
        self._quiet, self.refused = True, False
        try:
            self.typed.param.update(value=typed, value_input=typed)
        finally:
            self._quiet = False

    def name(self, number: int) -> None:
        self.typed.label = f"Text {number}"

    def show(self, shown: Answer) -> None:
        self.shown = shown
        self.answer.object = answer_html(shown.explanation, shown.sentence)
        self.words.label = f"{self.typed.label}, word by word"
        self.words.pieces = shown.pieces
        self.change.object = paragraph(shown.change, "change")

    def show_problem(self, sentence: str) -> None:
        """A sentence in the place of the answer; the colours of another text would mislead."""
        self.shown = None
        self.answer.object = paragraph(sentence, "problem")
        self.words.pieces = []
        self.change.object = ""
