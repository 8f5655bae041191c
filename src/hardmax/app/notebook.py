"""The playground and the explanation of a text as widgets of a notebook."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import hardmax as hm
from hardmax._errors import InputError, needed_for
from hardmax._types import FloatArray
from hardmax.app.api import Context, handle
from hardmax.app.problems import describe_problem
from hardmax.app.scene import Scene, describe_rule
from hardmax.draw.player import bundle_modules, read_viewer
from hardmax.rules.base import Rule
from hardmax.text.columns import RowText
from hardmax.text.encoder import VectorText
from hardmax.text.explanation import Explanation
from hardmax.trajectories.storage import rule_to_data

with needed_for("A widget in a notebook", "anywidget", "notebook"):
    import anywidget
    import traitlets

DRAWING = (
    "data",
    "dom",
    "picture",
    "tokens",
    "messages",
)  # modules, each importing only from those before it
PLAYGROUND = (
    *DRAWING,
    "svg",
    "scene",
    "shapes",
    "panels",
    "controls",
    "playground",
    "notebook-playground",
)
EXPLANATION = (*DRAWING, "charts", "player", "words", "reviews", "notebook-explanation")
STYLE = "\n".join(read_viewer(name) for name in ("viewer.css", "components.css"))


class Widget(anywidget.AnyWidget):
    """A module of the viewer that sends requests as messages, answered by the functions
    of the app.
    """

    _css = STYLE

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.context = Context()
        self.on_msg(self._receive)

    def _receive(self, _: Any, message: Any, buffers: Any) -> None:
        number = message.get("id") if isinstance(message, dict) else None
        try:
            reply = handle(str(message.get("path")), message.get("body"), self.context)
        except Exception as problem:
            self.send({"id": number, "error": describe_problem(problem)})
            return
        data = reply.to_bytes() if reply.file is None else reply.file
        self.send(
            {"id": number, "file": reply.file is not None, "type": reply.media_type},
            [data],
        )


class PlaygroundWidget(Widget):
    """Tokens to drag, the rule that moves them, and the proof of their limits.

    Attributes
    ----------
    tokens : (n, d) array
        The tokens after all edits.
    rule : Rule
        The rule after all changes.
    """

    _esm = bundle_modules(PLAYGROUND)
    scene = traitlets.Dict().tag(sync=True)

    @property
    def tokens(self) -> FloatArray:
        return Scene.from_data(self.scene).tokens

    @property
    def rule(self) -> Rule:
        return Scene.from_data(self.scene).make_rule()

    def __repr__(self) -> str:
        n, d = self.tokens.shape
        return (
            f"Playground of {n} tokens of dimension {d}; .tokens holds the tokens after"
            " all edits."
        )


class ExplanationWidget(Widget):
    """The explanation of a text whose words can be removed and replaced."""

    _esm = bundle_modules(EXPLANATION)
    text = traitlets.Unicode().tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)

    def __init__(self, explanation: Explanation) -> None:
        super().__init__(text=explanation.text, name="model")
        self.context = Context(models=("model",), loaded={"model": explanation.model})

    def __repr__(self) -> str:
        return f"<Explanation of a text of {len(self.text)} characters>"


def playground(
    tokens: ArrayLike | str = "triangle", rule: Rule | None = None, *, layers: int = 30
) -> PlaygroundWidget:
    """Show tokens that can be dragged in a notebook, with their leaders and limits.

    Parameters
    ----------
    tokens : (n, d) array, or the name of a configuration
        At most 20,000 tokens of at most 16 dimensions; tokens of more than two
        dimensions cannot be dragged.
    rule : Hardmax, Softmax, FrankWolfe, SelfAttention or Sphere, optional
        Hardmax(alpha=0.5) by default. A SelfAttention may have a V only, and a
        FrankWolfe one step size below 1.
    layers : int
        Number of layers.

    Returns
    -------
    PlaygroundWidget
        `widget.tokens` holds the tokens after all edits.

    Examples
    --------
    >>> widget = playground([[0.6, 0.8], [1.0, 0.0], [0.2, 0.1]])
    >>> widget
    Playground of 3 tokens of dimension 2; .tokens holds the tokens after all edits.
    """
    if isinstance(tokens, str):
        tokens = hm.configuration(tokens)
    data = {
        "tokens": np.asarray(tokens, np.float64).tolist(),
        "layers": layers,
        **({} if rule is None else describe_rule(rule_to_data(rule))),
    }
    Scene.from_data(data)
    return PlaygroundWidget(scene=data)


def explanation_widget(explanation: Explanation) -> ExplanationWidget:
    """Return the widget of an explanation."""
    if not explanation.text.strip():
        raise InputError(
            "An explanation must have a text to be shown. Got an empty text."
        )
    if isinstance(explanation.text, RowText | VectorText):
        must = (
            "An explanation must be that of a text alone, as words of the widget are"
            " edited."
        )
        raise InputError(f"{must} Got vectors, or a row with columns. Use `to_html`.")
    return ExplanationWidget(explanation)
