"""The page of the review explorer for one visitor: it shows what the store says, and passes on what is asked.

What is typed is answered off the event loop, one text at a time; of texts that came meanwhile only the last counts.
"""

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn

from hardmax._errors import InputError
from hardmax.app import review_exports
from hardmax.app.problems import in_words
from hardmax.app.review_card import ReviewCard
from hardmax.app.review_details import Details, account
from hardmax.app.review_export_view import ExportView
from hardmax.app.review_file_view import FileView
from hardmax.app.review_html import CSS, key, paragraph
from hardmax.app.reviews import MOST_TEXTS, Reviews, answer
from hardmax.app.work import Latest, off_the_loop
from hardmax.text.counterfactual import Flip
from hardmax.text.explanation import Explanation

EXTENSIONS = ("tabulator", "filedropper")  # of Panel, which the server must load
MODELS = {"imdb": "imdb, the most accurate", "imdb-2d": "imdb-2d, the paper's, one head in the plane"}


class ReviewPage:
    """The review explorer of one visitor.

    Attributes
    ----------
    view : Panel object
    state : dict
        What the visitor has typed, struck and chosen, as JSON can hold it; `set_state` brings it back.
    """

    def __init__(self, model: str = "imdb") -> None:
        self.reviews = Reviews(model)
        self.cards: list[ReviewCard] = []
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        self._flip: Flip | None = None
        self._setting = False  # widgets from here, so that they do not ask for what they are told
        self._answering, self._flipping, self._reading = (
            Latest(work) for work in (self._answer, self._find_flip, self._read_file)
        )
        self._file: tuple[str, bytes] | None = None
        self._make()
        self._show_cards()
        pn.state.onload(self._answering.ask)

    def _make(self) -> None:
        names = {MODELS.get(name, name): name for name in self.reviews.names}
        self.model = pn.widgets.Select(label="Model", options=names, value=self.reviews.name, width=300)
        self.more = pn.widgets.Button(label="Add a text beside", align="end")
        self.about = pn.widgets.RadioButtonGroup(label="Why", options={"Text 1": 0}, color="primary", variant="outline")
        self.problem = pn.pane.HTML("", stylesheets=[CSS], sizing_mode="stretch_width", css_classes=["hm-problem"])
        legend = (
            f"<p>{key()} &nbsp; Click a word to strike it. What all words and the bias add is the logit, exactly.</p>"
        )
        self.row = pn.FlexBox(gap="12px", sizing_mode="stretch_width", align_items="start")
        self.details = Details(on_head=self._choose_head, on_flip=self._ask_flip, on_strike=self._strike_flip)
        self.exports = ExportView(self._download)
        self.files = FileView(on_file=self._sent, on_open=self._open)
        self.model.param.watch(lambda event: self._choose_model(event.new), "value")
        self.about.param.watch(lambda event: self._choose_text(event.new), "value")
        self.more.on_click(lambda event: self._add())
        self.view = pn.Column(
            pn.FlexBox(self.model, self.more, gap="12px", align_items="end"),
            self.problem,
            pn.pane.HTML(legend, stylesheets=[CSS], sizing_mode="stretch_width"),
            self.row,
            pn.pane.HTML("<h2>Why</h2>", stylesheets=[CSS], margin=(10, 10, 0, 10)),
            self.about,
            self.details.view,
            pn.pane.HTML("<h2>Export</h2>", stylesheets=[CSS], margin=(10, 10, 0, 10)),
            self.exports.view,
            pn.pane.HTML("<h2>A file of texts</h2>", stylesheets=[CSS], margin=(10, 10, 0, 10)),
            self.files.view,
            sizing_mode="stretch_width",
            css_classes=["hm-reviews"],
        )

    @property
    def state(self) -> dict[str, Any]:
        return self.reviews.state

    def set_state(self, state: dict[str, Any]) -> None:
        """Bring back what `state` was; where it has no meaning, the page says so and stays as it is."""
        if self._try(lambda: self.reviews.set_state(state)):
            self._show_cards()
            self._answering.ask()

    def on_change(self, callback: Callable[[dict[str, Any]], None]) -> None:
        """Call with the state whenever the visitor has changed it."""
        self._listeners.append(callback)

    def _try(self, act: Callable[[], object]) -> bool:
        """Whether it could be done; if not, the page says why."""
        try:
            act()
        except InputError as problem:
            self.problem.object = paragraph(in_words(problem), "problem")
            return False
        self.problem.object = ""
        return True

    def _changed(self) -> None:
        self._flip = None
        self.details.show_flip("", strikes=False)
        self._answering.ask()
        for listener in self._listeners:
            listener(self.state)

    def _show_cards(self) -> None:
        """As many cards as texts, and widgets that say what is chosen."""
        while len(self.cards) < len(self.reviews.texts):
            card = ReviewCard("", on_type=self._type, on_request=self._request, on_remove=self._remove)
            self.cards.append(card)
        del self.cards[len(self.reviews.texts) :]
        several = len(self.cards) > 1
        for number, (card, text) in enumerate(zip(self.cards, self.reviews.texts, strict=True), 1):
            card.name(number)
            card.remove.visible = several
            if card.typed.value_input != text.typed or card.typed.value != text.typed:
                card.set_text(text.typed)
        self.row[:] = [card.view for card in self.cards]
        self.more.disabled = len(self.cards) >= MOST_TEXTS
        self._show_choices()

    def _show_choices(self) -> None:
        self._setting = True
        try:
            self.model.value = self.reviews.name
            options = {f"Text {number}": number - 1 for number in range(1, len(self.cards) + 1)}
            self.about.param.update(options=options, value=self.reviews.chosen, visible=len(options) > 1)
        finally:
            self._setting = False

    def _type(self, card: ReviewCard, typed: str) -> None:
        place = self.cards.index(card)
        try:
            self.reviews.type(place, typed)
        except InputError as problem:
            self.reviews.type(place, "")
            card.show_problem(in_words(problem))
            card.refused = True
        else:
            card.refused = False
        self.reviews.choose_text(place)
        self._show_choices()
        self._changed()

    def _request(self, card: ReviewCard, request: dict[str, Any]) -> None:
        """Strike, replace or restore a word, if it is still there."""
        place = self.cards.index(card)
        if self._try(lambda: self.reviews.ask(place, request)):
            self.reviews.choose_text(place)
            self._show_choices()
            self._changed()

    def _remove(self, card: ReviewCard) -> None:
        place = self.cards.index(card)
        if self._try(lambda: self.reviews.remove(place)):
            del self.cards[place]
            self._show_cards()
            self._changed()

    def _add(self) -> None:
        if self._try(self.reviews.add):
            self._show_cards()
            self._changed()

    def _open(self, row: int) -> None:
        if self._try(lambda: self.reviews.open(row)):
            self._show_cards()
            self._changed()

    def _choose_model(self, name: str) -> None:
        if not self._setting and self._try(lambda: self.reviews.choose_model(name)):
            self.files.show(None)
            self._changed()
            if self._file is not None:
                self._reading.ask()

    def _choose_text(self, place: int) -> None:
        if not self._setting and self._try(lambda: self.reviews.choose_text(place)):
            self._changed()

    def _choose_head(self, head: int) -> None:
        if not self._setting and self._try(lambda: self.reviews.choose_head(head)):
            self._changed()

    async def _answer(self) -> None:
        """Answer what has changed, the text that is chosen first; then show its details."""
        reviews, chosen = self.reviews, self.reviews.chosen
        for place in sorted(range(len(self.cards)), key=lambda place: place != chosen):
            if self._answering.asked:
                return
            card, text, name = self.cards[place], reviews.texts[place], reviews.name
            if card.refused or (card.shown is not None and (card.shown.text, card.shown.model) == (text, name)):
                continue
            try:
                found = await off_the_loop(partial(answer, name, text), long=False)
            except Exception as problem:
                card.show_problem(in_words(problem))
                continue
            if card in self.cards and (reviews.texts[self.cards.index(card)], reviews.name) == (text, name):
                card.show(found)
        shown = self.cards[chosen].shown
        if not self._answering.asked:
            await self._show_details(shown.explanation if shown is not None else None)

    async def _show_details(self, explanation: Explanation | None) -> None:
        self.details.view.visible = explanation is not None and len(explanation.ids) > 0
        text = self.reviews.texts[self.reviews.chosen]
        self.exports.code.value = review_exports.as_python(self.reviews.name, text.read)
        if explanation is None:
            return
        head = self.reviews.head
        found = await off_the_loop(partial(account, explanation, head), long=False)
        if not self._answering.asked:
            self._setting = True
            self.details.set_heads(explanation.model.weights.heads, head)
            self._setting = False
            self.details.show(found)

    def _ask_flip(self) -> None:
        self.details.show_flip("Striking words …", strikes=False)
        self._flipping.ask()

    async def _find_flip(self) -> None:
        before = self.reviews.chosen, self.reviews.name, self.reviews.texts[self.reviews.chosen]
        try:
            found = await off_the_loop(partial(self.reviews.flip, before[0]), long=True)
        except Exception as problem:
            self.details.show_flip(in_words(problem), strikes=False)
            return
        if before == (self.reviews.chosen, self.reviews.name, self.reviews.texts[self.reviews.chosen]):
            self._flip = found
            self.details.show_flip(str(found), strikes=found.flips)

    def _strike_flip(self) -> None:
        found, place = self._flip, self.reviews.chosen
        if found is not None:
            for start, end in found.places:
                self.reviews.strike(place, start, end)
            self._changed()

    async def _download(self, kind: str) -> io.BytesIO:
        reviews, text = self.reviews, self.reviews.texts[self.reviews.chosen].read
        try:
            if kind == "texts":
                return io.BytesIO(review_exports.as_state(self.state))
            work = partial(review_exports.as_file, reviews.name, text, reviews.head, kind)
            return io.BytesIO(await off_the_loop(work, long=True))
        except Exception as problem:
            self.exports.show_problem(in_words(problem))
            return io.BytesIO()

    def _sent(self, name: str, data: bytes) -> None:
        if name.lower().endswith(".json"):  # what this page wrote
            if self._try(lambda: self.reviews.set_state(review_exports.from_state(data))):
                self._show_cards()
                self._changed()
            return
        self._file = name, data
        self.files.show(None)
        self.files.show_status("Reading …", "dim")
        self._reading.ask()

    async def _read_file(self) -> None:
        if self._file is None:
            return
        name, data = self._file
        try:
            column = self.files.column.value or ""
            answers = await off_the_loop(partial(self.reviews.read, name, data, column), long=True)
        except Exception as problem:
            self.files.show_status(in_words(problem), "problem")
            return
        if not self._reading.asked:
            self.files.show(answers)
