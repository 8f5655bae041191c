"""The playground in a notebook."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import hardmax as hm
from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._types import FloatArray
from hardmax.app.answers import answer, rule_of
from hardmax.app.packing import packed
from hardmax.app.problems import in_words
from hardmax.app.scene import OVERLAYS, RULES, Scene
from hardmax.app.store import Store
from hardmax.app.verdict import PARTS, verdict
from hardmax.app.widgets import PlaneWidget, styled
from hardmax.rules.base import Rule

with needed_for("`hm.playground`", "ipywidgets", "notebook"):
    import ipywidgets

LINE = ipywidgets.Layout(display="flex", flex_flow="row wrap", width="100%")


class PlaygroundWidget(ipywidgets.VBox):
    """Tokens that can be dragged, the rule that moves them, and what is proved of where they end.

    Attributes
    ----------
    tokens : (n, d) array
        As they are now, after all that was dragged, added and deleted.
    rule : Rule
    """

    def __init__(self, scene: Scene) -> None:
        self.store = Store(scene)
        self.plane, self.verdict = PlaneWidget(), ipywidgets.HTML()
        self._quiet = False  # while controls are set from the scene
        self._controls = self._made()
        self.plane.observe(self._asked, "request")
        rule = ipywidgets.Box(list(self._controls.values()), layout=LINE)
        shown = ipywidgets.Box(list(self._overlays.values()), layout=LINE)
        super().__init__([rule, shown, self.plane, self.verdict])
        self._answer(0)

    @property
    def tokens(self) -> FloatArray:
        return self.store.scene.tokens.copy()

    @property
    def rule(self) -> Rule:
        return rule_of(self.store.scene)

    def __repr__(self) -> str:
        n, d = self.store.scene.tokens.shape
        return f"Playground of {n} tokens of dimension {d}; .tokens are those that one sees."

    def _made(self) -> dict[str, Any]:
        scene, w = self.store.scene, ipywidgets
        slider = partial(w.FloatSlider, continuous_update=True)
        controls = {
            "rule": w.Dropdown(options=RULES, value=scene.rule, description="Rule"),
            "alpha": slider(value=scene.alpha, min=0.05, max=5, step=0.05, description="alpha"),
            "temperature": slider(value=scene.temperature, min=0, max=2, step=0.02, description="Temperature"),
            "beta": slider(value=scene.beta, min=0.5, max=60, step=0.5, description="beta"),
            "causal": w.Checkbox(value=scene.causal, description="causal", indent=False, layout={"width": "auto"}),
        }
        self._overlays = {
            name: w.Checkbox(value=name in scene.overlays, description=said, indent=False, layout={"width": "auto"})
            for name, said in OVERLAYS.items()
        }
        for name, control in controls.items():
            control.observe(lambda change, name=name: self._change(**{name: change.new}), "value")
        for box in self._overlays.values():
            box.observe(
                lambda _: self._change(overlays=[name for name, each in self._overlays.items() if each.value]), "value"
            )
        return controls

    def _change(self, **values: Any) -> None:
        if not self._quiet:
            self.store.change(**values)
            self._answer(0)

    def _asked(self, change: Any) -> None:
        message = change.new
        seq = message.get("seq", 0)
        try:
            final = self.store.handle(message)
        except InputError as problem:
            self.plane.answer = packed({"error": in_words(problem), "seq": seq}, {})
            return
        self._answer(seq, final=final)

    def _answer(self, seq: int, *, final: bool = True) -> None:
        scene, store = self.store.scene, self.store
        try:
            header, arrays = answer(scene, quickly=not final)
        except Exception as problem:
            self.plane.answer = packed({"error": in_words(problem), "seq": seq}, {})
            return
        header |= {"seq": seq, "can_undo": store.can_undo, "can_redo": store.can_redo, "rule_name": scene.rule}
        self.plane.answer = packed(header, arrays)
        if final:
            self.verdict.value = styled(PARTS, verdict(header))
            self._show_controls()

    def _show_controls(self) -> None:
        scene, self._quiet = self.store.scene, True
        try:
            for name, control in self._controls.items():
                control.value = getattr(scene, name)
            for name, box in self._overlays.items():
                box.value = name in scene.overlays
            needed = {"temperature": ("softmax",), "beta": ("sphere",), "alpha": ("hardmax", "softmax")}
            for name, rules in needed.items():
                self._controls[name].layout.display = None if scene.rule in rules else "none"
        finally:
            self._quiet = False


def playground(tokens: ArrayLike | str = "triangle", rule: Rule | None = None, *, layers: int = 30) -> PlaygroundWidget:
    """Drag tokens in a notebook, and watch who leads.

    Parameters
    ----------
    tokens : (n, d) array, or the name of a configuration
        Up to 20,000 of up to 16 dimensions; beyond the plane they are seen along principal axes, and not dragged.
    rule : Hardmax, Softmax, SelfAttention or Sphere, optional
        Hardmax(alpha=0.5) if not given. Of SelfAttention, one with V alone.
    layers : int
        How many layers are shown.

    Returns
    -------
    PlaygroundWidget
        `widget.tokens` are the tokens as they are now.

    Raises
    ------
    ParameterError
        If tokens, layers or the rule are beyond what the widget shows.
    MissingExtra
        If ipywidgets or anywidget is not installed.

    Examples
    --------
    >>> widget = playground([[0.6, 0.8], [1.0, 0.0], [0.2, 0.1]])
    >>> widget
    Playground of 3 tokens of dimension 2; .tokens are those that one sees.
    """
    if isinstance(tokens, str):
        tokens = hm.configuration(tokens)
    return PlaygroundWidget(Scene.checked(tokens=np.asarray(tokens), layers=layers, **_values(rule)))


def _values(rule: Rule | None) -> dict[str, Any]:
    """What of a scene says the same as a rule."""
    if rule is None:
        return {}
    if isinstance(rule, hm.Softmax | hm.Hardmax):
        values = {"rule": type(rule).__name__.lower(), "alpha": rule.alpha, "A": rule.A, "causal": rule.causal}
        return values | ({"temperature": rule.temperature} if isinstance(rule, hm.Softmax) else {})
    if isinstance(rule, hm.Sphere) and rule.normalized:
        return {"rule": "sphere", "beta": rule.beta, "causal": rule.causal}
    if isinstance(rule, hm.SelfAttention) and rule.Q is None and rule.K is None and not callable(rule.V):
        return {"rule": "self-attention", "V": rule.V, "causal": rule.causal}
    must = "be Hardmax, Softmax, SelfAttention with a V alone, or a normalised Sphere"
    raise ParameterError("rule", must, repr(rule), "Use `hm.simulate` and `hm.interactive` for others.")
