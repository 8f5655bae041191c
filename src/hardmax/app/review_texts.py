"""A text with words struck or replaced: how it reads then, and where each word of it stands in what was typed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hardmax._errors import ParameterError
from hardmax.text.explanation import Explanation

MOST_CHARACTERS = 20_000  # of a text: some 3,500 words, the longest review of IMDb has 2,500
MOST_REPLACED = 200  # characters in the place of a word
FAINTEST = 0.02  # of the largest contribution: smaller ones have no colour


class Edit(NamedTuple):
    """A word of the text as typed, `text[start:end]`, and what stands in its place: nothing where it is struck."""

    start: int
    end: int
    replacement: str = ""


class Segment(NamedTuple):
    """A part of the text as typed, and what the model reads in its place."""

    start: int
    end: int
    read: str
    edit: Edit | None


@dataclass(frozen=True)
class Text:
    """What a person typed, and which words of it are struck or replaced."""

    typed: str
    edits: tuple[Edit, ...] = ()  # in the order of the text; no two overlap

    def __post_init__(self) -> None:
        check_length(self.typed)
        at = 0
        for start, end, replacement in self.edits:
            if not at <= start < end <= len(self.typed):
                must, got = "lie in the text, one behind the other", f"{start} to {end} in {len(self.typed)} characters"
                raise ParameterError("edits", must, got, "Type the text anew.")
            if len(replacement) > MOST_REPLACED:
                must, got = f"have at most {MOST_REPLACED} characters", f"{len(replacement):,}"
                raise ParameterError("replacement", must, got, "Type it into the text instead.")
            at = end

    def segments(self) -> Iterator[Segment]:
        """The text in parts. Spaces around what is struck or replaced keep its neighbours words of their own."""
        at = 0
        for edit in self.edits:
            yield Segment(at, edit.start, self.typed[at : edit.start], None)
            yield Segment(edit.start, edit.end, f" {edit.replacement} ", edit)
            at = edit.end
        yield Segment(at, len(self.typed), self.typed[at:], None)

    @property
    def read(self) -> str:
        """What the model reads."""
        return "".join(segment.read for segment in self.segments()) if self.edits else self.typed

    def place(self, start: int, end: int) -> tuple[int, int]:
        """A word of `read`, as a place of `typed`: itself, or the word in whose place it stands."""
        at = 0
        for segment in self.segments():
            if start < at + len(segment.read):
                shift = segment.start - at
                return (start + shift, end + shift) if segment.edit is None else (segment.start, segment.end)
            at += len(segment.read)
        raise ParameterError("start", f"lie in a text of {at} characters", start)

    def edited(self, start: int, end: int, replacement: str) -> "Text":
        """With another word in the place of one, or none if it is empty."""
        others = (edit for edit in self.edits if edit.start != start)
        return replace(self, edits=tuple(sorted((*others, Edit(start, end, replacement.strip())))))

    def restored(self, start: int) -> "Text":
        """With the word that was typed."""
        return replace(self, edits=tuple(edit for edit in self.edits if edit.start != start))

    def asked(self, request: Any) -> "Text":
        """As a request of the words says: strike, replace or restore a word, if it is still there.

        A request may be forged, or older than the text: then it changes nothing.
        """
        wanted = request if isinstance(request, Mapping) else {}
        kind, start, end = (wanted.get(name) for name in ("kind", "start", "end"))
        if not isinstance(start, int) or not isinstance(end, int) or self.typed[start:end] != wanted.get("word"):
            return self
        if kind == "restore":
            return self.restored(start)
        if kind not in ("strike", "replace"):
            return self
        return self.edited(start, end, str(wanted.get("replacement", "")) if kind == "replace" else "")


def check_length(text: Any) -> None:
    """Refuse what is no text, or too long a one."""
    if not isinstance(text, str):
        raise ParameterError("text", "be a text", type(text).__name__)
    if len(text) > MOST_CHARACTERS:
        must, advice = f"have at most {MOST_CHARACTERS:,} characters", "Leave some of it out."
        raise ParameterError("text", must, f"{len(text):,}", advice)


def pieces(text: Text, explanation: Explanation) -> list[dict[str, Any]]:
    """The text as typed, in pieces to be shown: what lies between words, words, struck words, replaced words.

    `explanation` is that of `text.read`. A word has its `value`, the part of the logit for the answer, and `strength`,
    between -1 and 1, beside the largest of the text. A word that stands nowhere in the text has no piece.
    """
    shown = [mark for mark in explanation.highlights if mark.end > mark.start]
    marks = [(mark.start, mark.end, towards(explanation, mark.contribution)) for mark in shown]
    largest = max((abs(value) for *_, value in marks), default=0.0) or 1.0
    found: list[dict[str, Any]] = []
    at, first = 0, 0  # in what is read, and the first mark that is not used up
    for segment in text.segments():
        behind, last = at + len(segment.read), first
        while last < len(marks) and marks[last][0] < behind:
            last += 1
        inside = [(start - at, end - at, value) for start, end, value in marks[first:last]]
        if segment.edit is None:
            found += _plain(segment, inside, largest)
        else:
            found.append(_edited(text.typed, segment.edit, sum(value for _, _, value in inside), largest))
        at, first = behind, last
    return found


def _plain(segment: Segment, marks: Sequence[tuple[int, int, float]], largest: float) -> Iterator[dict[str, Any]]:
    at = 0
    for start, end, value in marks:
        if start > at:
            yield {"text": segment.read[at:start]}
        word = {"text": segment.read[start:end], "start": segment.start + start, "end": segment.start + end}
        yield word | _valued(value, largest)
        at = end
    if at < len(segment.read):
        yield {"text": segment.read[at:]}


def _edited(typed: str, edit: Edit, value: float, largest: float) -> dict[str, Any]:
    was = {"was": typed[edit.start : edit.end], "start": edit.start, "end": edit.end}
    return was | {"text": edit.replacement} | _valued(value, largest)


def _valued(value: float, largest: float) -> dict[str, float]:
    strength = max(-1.0, min(1.0, value / largest))
    return {"value": round(value, 4), "strength": round(strength, 3) if abs(strength) >= FAINTEST else 0.0}


def along(explanation: Explanation, value: Any) -> float:
    """A part of the logits, or logits of another text, as one number: with more than two classes the answer's."""
    return float(np.ravel(value)[0 if len(explanation.logits) == 1 else int(explanation.logits.argmax())])


def towards(explanation: Explanation, value: Any) -> float:
    """The same, positive where it is for the answer that was given."""
    return float(np.ravel(explanation.signed(value))[0])
