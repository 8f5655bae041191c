"""What can be kept of a text: files, and lines of Python."""

from collections.abc import Awaitable, Callable
from functools import partial
from io import BytesIO

import panel as pn

from hardmax.app.controls import COPY
from hardmax.app.review_exports import KINDS
from hardmax.app.review_html import CSS, paragraph

TOO_LONG = (
    "These texts are too long for a link. Download them as a file instead: Texts. A file of texts opens it again."
)


class ExportView:
    """The widgets; the page makes what they ask for."""

    def __init__(self, download: Callable[[str], Awaitable[BytesIO]]) -> None:
        self.downloads = [
            pn.widgets.FileDownload(
                callback=partial(download, kind),
                filename=f"{'texts' if kind == 'texts' else 'explanation'}.{'json' if kind == 'texts' else kind}",
                label="Texts" if kind == "texts" else kind.upper(),
                width=96,
                margin=4,
            )
            for kind in (*KINDS, "texts")
        ]
        self.code = pn.widgets.TextAreaInput(label="As Python", rows=7, sizing_mode="stretch_width")
        self.copy = pn.widgets.Button(label="Copy", width=80)
        self.copy.js_on_click(args={"code": self.code, "button": self.copy}, code=COPY)
        self.said = pn.pane.HTML("", stylesheets=[CSS], sizing_mode="stretch_width", css_classes=["hm-said"])
        self.view = pn.Column(
            pn.FlexBox(*self.downloads), self.said, self.code, self.copy, sizing_mode="stretch_width", max_width=820
        )

    def show_link(self, fits: bool) -> None:
        """Say where the address cannot hold what was typed."""
        self.said.object = "" if fits else paragraph(TOO_LONG)

    def show_problem(self, sentence: str) -> None:
        self.said.object = paragraph(sentence, "problem")
