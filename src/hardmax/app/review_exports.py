"""A text and its answer as files, and as the lines of Python that make them."""

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.pyplot as plt

from hardmax._errors import InputError
from hardmax.app.exports import DRAWING
from hardmax.app.reviews import loaded
from hardmax.text.explanation import Explanation, explain
from hardmax.text.files import escape_formulas
from hardmax.text.storage import FILE

KINDS = ("html", "png", "svg", "gif", "csv", "json")


def as_python(model: str, text: str) -> str:
    """Lines that explain a text as the page does, and run as they are."""
    own = Path(model, FILE).is_file()
    made = f"hm.HardmaxClassifier.load({model!r})" if own else f"hm.pretrained({model!r})"
    lines = ["import hardmax as hm", "", f"classifier = {made}", f"explanation = classifier.explain({text!r})"]
    return "\n".join([*lines, "print(explanation)", "print(explanation.to_frame())", ""])


def as_file(model: str, text: str, head: int, kind: str) -> bytes:
    """A page, a picture, a movie of one head, a table of words, or everything as JSON."""
    found = explain(loaded(model), text)
    if kind == "html":
        return str(found.to_html()).encode()
    if kind == "csv":
        return bytes(escape_formulas(found.to_frame()).to_csv(index=False).encode())
    if kind == "json":
        return found.to_json().encode()
    with DRAWING:
        return _movie(found, head) if kind == "gif" else _picture(found, kind)


def _movie(explanation: Explanation, head: int) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "movie.gif")
        explanation.movie(path, head=head)
        return path.read_bytes()


def _picture(explanation: Explanation, kind: str) -> bytes:
    figure, data = explanation.plot(), io.BytesIO()
    figure.savefig(data, format=kind, dpi=150, bbox_inches="tight")
    plt.close(figure)
    return data.getvalue()


def from_state(data: bytes) -> Any:
    """What `as_state` wrote; its meaning is checked by whoever takes it."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(
            "The file must hold texts of this page. It is cut or something else. Export it again."
        ) from None


def as_state(state: dict[str, Any]) -> bytes:
    """What was typed, struck and chosen, which the page opens again."""
    return json.dumps(state).encode()
