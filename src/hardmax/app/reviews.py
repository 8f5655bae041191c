"""The store of the review explorer: what one visitor has typed, struck and chosen, and what the library says of it.

It draws nothing and knows no server. Only models are shared between visitors, and nothing changes those.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from hardmax._errors import InputError, ParameterError
from hardmax.app import review_files
from hardmax.app.review_accounts import check_head, named
from hardmax.app.review_files import Answers
from hardmax.app.review_texts import Edit, Text, pieces
from hardmax.figures.demo import REVIEWS
from hardmax.text import HardmaxClassifier
from hardmax.text.counterfactual import Flip
from hardmax.text.explanation import Explanation, explain
from hardmax.text.model import Model
from hardmax.text.storage import shipped_models

MOST_TEXTS = 6  # side by side
EXAMPLES = tuple(REVIEWS.values())


@lru_cache(maxsize=8)
def loaded(name: str) -> Model:
    """A model by its name or folder, read once for all visitors."""
    return HardmaxClassifier.load(name).model_


def model_names(first: str) -> list[str]:
    """What a visitor may choose from: the model that the app was started with, and those of the package."""
    return list(dict.fromkeys([first, *shipped_models()]))


class Reviews:
    """Texts side by side, one of them chosen, under one model; and a file of texts.

    Examples
    --------
    >>> reviews = Reviews("imdb-2d")
    >>> reviews.type(0, "a dreadful waste of a wonderful cast")
    >>> reviews.explanation(0).prediction.item()
    'neg'
    >>> reviews.strike(0, 2, 10)
    >>> reviews.texts[0].read
    'a   waste of a wonderful cast'
    """

    def __init__(self, model: str = "imdb") -> None:
        self.names = model_names(model)
        self.name = model
        self.texts = [Text(text) for text in EXAMPLES]
        self.chosen = 0
        self.head = 0
        self.answers: Answers | None = None

    @property
    def model(self) -> Model:
        return loaded(self.name)

    def choose_model(self, name: str) -> None:
        if name not in self.names:
            raise ParameterError("model", f"be one of {', '.join(self.names)}", repr(name), "Choose one of them.")
        self.name, self.head = name, 0

    def choose_head(self, head: int) -> None:
        check_head(self.model, head)
        self.head = head

    def choose_text(self, place: int) -> None:
        self.chosen = self._checked(place)

    def type(self, place: int, typed: str) -> None:
        """Another text in one place; what was struck there is forgotten."""
        self.texts[self._checked(place)] = Text(typed)

    def add(self, typed: str = "") -> None:
        if len(self.texts) >= MOST_TEXTS:
            must = f"be at most {MOST_TEXTS} side by side"
            raise ParameterError("texts", must, f"{len(self.texts) + 1}", "Remove one first.")
        self.texts.append(Text(typed))
        self.chosen = len(self.texts) - 1

    def remove(self, place: int) -> None:
        if len(self.texts) == 1:
            raise ParameterError("texts", "be at least one", "none", "Clear it instead.")
        del self.texts[self._checked(place)]
        self.chosen = min(self.chosen, len(self.texts) - 1)

    def strike(self, place: int, start: int, end: int) -> None:
        self.put(place, start, end, "")

    def put(self, place: int, start: int, end: int, replacement: str) -> None:
        """Another word in the place of one, or none."""
        self.texts[place] = self.texts[self._checked(place)].edited(start, end, replacement)

    def restore_word(self, place: int, start: int) -> None:
        self.texts[place] = self.texts[self._checked(place)].restored(start)

    def ask(self, place: int, request: Any) -> None:
        """What the words in the browser ask for."""
        self.texts[place] = self.texts[self._checked(place)].asked(request)

    def _checked(self, place: int) -> int:
        if not 0 <= place < len(self.texts):
            raise ParameterError("place", f"be below {len(self.texts)}", place, "Choose one of the texts.")
        return place

    def explanation(self, place: int) -> Explanation:
        """Of a text as the model reads it, without what is struck."""
        return explain(self.model, self.texts[self._checked(place)].read)

    def flip(self, place: int) -> Flip:
        """Words without which the answer is another; their places are those of the text as typed."""
        text = self.texts[self._checked(place)]
        found = explain(self.model, text.read).minimal_flip()
        places = dict.fromkeys(text.place(start, end) for start, end in found.places)
        return replace(found, places=tuple(places), before=named(found.before), after=named(found.after))

    def read(self, name: str, data: bytes, column: str = "") -> Answers:
        """Answers to all texts of a file."""
        self.answers = None
        self.answers = review_files.answered(self.model, name, review_files.texts_of(name, data, column))
        return self.answers

    def open(self, row: int) -> None:
        """A text of the file beside the others, or in the place of the last where there is no room."""
        if self.answers is None or not 0 <= row < len(self.answers.rows):
            raise ParameterError("row", "be one of the file's", row, "Read a file, and choose one of its rows.")
        text = self.answers.rows[row].text
        if len(self.texts) < MOST_TEXTS:
            self.add(text)
        else:
            self.type(len(self.texts) - 1, text)
            self.chosen = len(self.texts) - 1

    @property
    def state(self) -> dict[str, Any]:
        """Everything but the file, as JSON can hold it."""
        texts = [{"text": text.typed, "edits": [list(edit) for edit in text.edits]} for text in self.texts]
        return {"model": self.name, "head": self.head, "chosen": self.chosen, "texts": texts}

    def set_state(self, state: Any) -> None:
        """As `state` was once; refused as a whole where something in it has no meaning."""
        new = Reviews(self.names[0])
        try:
            new.choose_model(state["model"])
            new.texts = [Text(one["text"], tuple(Edit(*edit) for edit in one["edits"])) for one in state["texts"]]
            if not 1 <= len(new.texts) <= MOST_TEXTS:
                raise ParameterError("texts", f"be between 1 and {MOST_TEXTS}", len(new.texts), "Remove some.")
            new.choose_head(state["head"])
            new.choose_text(state["chosen"])
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            if isinstance(problem, InputError):
                raise
            raise InputError("The address must hold a state of this page. It holds something else.") from None
        self.name, self.texts, self.head, self.chosen = new.name, new.texts, new.head, new.chosen


@dataclass(frozen=True)
class Answer:
    """What a model says of a text, ready to be shown."""

    text: Text
    model: str
    explanation: Explanation
    sentence: str
    change: str
    pieces: list[dict[str, Any]]


def answer(name: str, text: Text) -> Answer:
    """What a model says of a text; slow where the model is not loaded yet."""
    return answered(loaded(name), name, text)


def answered(model: Model, name: str, text: Text) -> Answer:
    """The same of a model that is at hand."""
    found = explain(model, text.read)
    return Answer(text, name, found, sentence(found), change(model, text), pieces(text, found))


def change(model: Model, text: Text) -> str:
    """What striking and replacing has done to the answer, in a sentence; nothing where nothing was."""
    if not text.edits:
        return ""
    before, after = explain(model, text.typed), explain(model, text.read)
    same = before.prediction == after.prediction
    count = f"{len(text.edits)} word{'s' if len(text.edits) > 1 else ''} struck or replaced"
    answer = f"{'still' if same else 'now'} {named(after.prediction)}"
    return f"{count}: the logit went from {logit(before)} to {logit(after)}, {answer}."


def logit(explanation: Explanation) -> str:
    """The logit as it is written; with more than two classes, that of the answer."""
    value = explanation.logit
    return f"{value:+.2f}" if isinstance(value, float) else f"{float(value.max()):+.2f}"


def percent(probability: float) -> str:
    """A probability as it is written: no answer is certain."""
    return f"{probability:.1%}" if probability < 0.9995 else "over 99.9%"


def sentence(explanation: Explanation) -> str:
    """The answer in words."""
    answer = named(explanation.prediction)
    if not explanation.text.strip():
        return "Type a text: it is answered word by word."
    if not len(explanation.ids):
        return f"No known word, so the bias alone decides: {answer}, probability {percent(explanation.probability)}."
    known = f"{len(explanation.ids)} known token{'s' if len(explanation.ids) > 1 else ''}"
    return f"{answer}, probability {percent(explanation.probability)}: logit {logit(explanation)} of {known}."
