"""The modules of the app as widgets of a notebook, which have the same names for what is sent and shown."""

from pathlib import Path
from typing import Any

from hardmax._errors import needed_for

with needed_for("A widget in a notebook", "anywidget", "notebook"):
    import anywidget
    import traitlets

FOLDER = Path(__file__).parent


class PlaneWidget(anywidget.AnyWidget):
    """The plane: `request` comes from the browser, `answer` goes there. See `plane.js`."""

    _esm = FOLDER / "plane.js"
    request = traitlets.Dict().tag(sync=True)
    answer = traitlets.Bytes().tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)


class WordsWidget(anywidget.AnyWidget):
    """Words in colours, which can be struck and replaced. See `words.js`."""

    _esm = FOLDER / "words.js"
    pieces: Any = traitlets.List().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    request = traitlets.Dict().tag(sync=True)


def styled(css: str, html: str) -> str:
    """HTML whose stylesheet holds for it alone: a notebook's widgets have no shadow to live in."""
    return f"<style>.hm-notebook {{ {css.replace(':host', '&')} }}</style><div class='hm-notebook'>{html}</div>"
