"""Why one text has its answer: bars of words and sentences, leaders over all heads, one head in its plane."""

from collections.abc import Callable
from typing import NamedTuple

import panel as pn

from hardmax.app.review_accounts import plane
from hardmax.app.review_html import (
    CSS,
    head_html,
    leading_html,
    paragraph,
    phrases_html,
    sentences_html,
    waterfall_html,
)
from hardmax.app.review_plane import crosses, plane_svg
from hardmax.text.explanation import Explanation

NO_PLANE = "Only a head with two coordinates, of a model with two classes, has a plane to show."
PLANE = (
    "Stars lead; dots are words in the colour of the one that they follow in the end. The cross is the mean, which "
    "decides by its side of the dashed line: blue for the answer, orange against it."
)
OTHERS = " The line holds what the other heads say of this text."
FAR = " Here it lies outside of the picture: wherever among its words this head's mean lay, the answer is the same."


class Account(NamedTuple):
    """The details as HTML, made off the event loop."""

    waterfall: str
    sentences: str
    phrases: str
    leading: str
    head: str
    plane: str


def account(explanation: Explanation, head: int) -> Account:
    """All that is shown of an explanation."""
    if not len(explanation.ids):
        return Account(*[""] * len(Account._fields))
    found = plane(explanation, head)
    several = explanation.model.weights.heads > 1
    about = PLANE + (OTHERS if several else "") + ("" if found is None or crosses(found) else FAR)
    return Account(
        waterfall_html(explanation),
        sentences_html(explanation),
        phrases_html(explanation),
        leading_html(explanation),
        head_html(explanation, head),
        plane_svg(found) + paragraph(about, "dim") if found is not None else paragraph(NO_PLANE, "dim"),
    )


class Details:
    """The panes that show an `Account`."""

    def __init__(self, *, on_head: Callable[[int], None], on_flip: Callable[[], None], on_strike: Callable[[], None]):
        self.panes = [pn.pane.HTML("", stylesheets=[CSS], sizing_mode="stretch_width") for _ in Account._fields]
        bars, sentences, phrases, leaders, head, picture = self.panes
        self.head = pn.widgets.Select(label="Head", options={"1": 0}, width=90)
        self.flip = pn.widgets.Button(label="What would have to go for the answer to flip?")
        self.strike = pn.widgets.Button(label="Strike these words", visible=False)
        self.flipped = pn.pane.HTML("", stylesheets=[CSS], sizing_mode="stretch_width", css_classes=["hm-flip"])
        self.head.param.watch(lambda event: on_head(event.new), "value")
        self.flip.on_click(lambda event: on_flip())
        self.strike.on_click(lambda event: on_strike())
        self.view = pn.Column(
            pn.FlexBox(_part(bars), _part(pn.Column(sentences, phrases)), sizing_mode="stretch_width", gap="12px"),
            pn.FlexBox(self.flip, self.strike, align_items="center"),
            self.flipped,
            pn.FlexBox(_part(leaders), _part(pn.Column(self.head, head, sizing_mode="stretch_width")), gap="12px"),
            picture,
            sizing_mode="stretch_width",
        )

    def set_heads(self, heads: int, chosen: int) -> None:
        self.head.param.update(options={str(h + 1): h for h in range(heads)}, value=chosen)

    def show(self, found: Account) -> None:
        for pane, html in zip(self.panes, found, strict=True):
            pane.object = html

    def show_flip(self, sentence: str, *, strikes: bool) -> None:
        self.flipped.object = paragraph(sentence)
        self.strike.visible = strikes


def _part(content: pn.viewable.Viewable) -> pn.Column:
    return pn.Column(content, styles={"flex": "1 1 420px", "min-width": "min(300px, 100%)"})
