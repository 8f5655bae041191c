"""Why a text has its answer, in a notebook."""

from typing import Any

from hardmax._errors import InputError, needed_for
from hardmax.app.problems import in_words
from hardmax.app.review_html import CSS, answer_html, key, leading_html, paragraph, sentences_html, waterfall_html
from hardmax.app.review_texts import Text
from hardmax.app.reviews import answered
from hardmax.app.widgets import WordsWidget, styled
from hardmax.text.explanation import Explanation

with needed_for("`explanation.show()`", "ipywidgets", "notebook"):
    import ipywidgets


class ReviewWidget(ipywidgets.VBox):
    """Why a text has its answer; words can be struck and replaced, and the model answers again."""

    def __init__(self, explanation: Explanation) -> None:
        self.model, self.text = explanation.model, Text(explanation.text)
        self.answer, self.details, self.words = ipywidgets.HTML(), ipywidgets.HTML(), WordsWidget(label="Word by word")
        self.words.observe(self._asked, "request")
        super().__init__([self.answer, self.words, self.details])
        self._show()

    def _asked(self, change: Any) -> None:
        try:
            self.text = self.text.asked(change.new)
        except InputError as problem:
            self.answer.value = styled(CSS, paragraph(in_words(problem), "problem"))
            return
        self._show()

    def _show(self) -> None:
        found = answered(self.model, "", self.text)
        self.words.pieces = found.pieces
        head = answer_html(found.explanation, found.sentence) + paragraph(found.change, "change")
        self.answer.value = styled(CSS, head + f"<p>{key()} &nbsp; Click a word to strike it.</p>")
        if len(found.explanation.ids):
            parts = (waterfall_html(found.explanation), sentences_html(found.explanation))
            self.details.value = styled(CSS, "<br>".join([*parts, leading_html(found.explanation)]))
        else:
            self.details.value = ""

    def __repr__(self) -> str:
        return f"<Review of {len(self.text.typed)} characters>"


def explanation_widget(explanation: Explanation) -> ReviewWidget:
    """An explanation whose words can be struck."""
    return ReviewWidget(explanation)
