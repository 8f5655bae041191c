"""The controls of the playground: what they are, how they are grouped, and how they say what a scene is."""

from collections.abc import Awaitable, Callable
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
import panel as pn

from hardmax._types import FloatArray
from hardmax.app import exports, tour
from hardmax.app.dropper import dropper
from hardmax.app.scene import BOUNDS, MOST_DIMENSIONS, MOST_TOKENS, OVERLAYS, RULES, Scene, values_matrix, values_of
from hardmax.app.slider import Slider
from hardmax.app.verdict import PARTS
from hardmax.configurations import CONFIGURATIONS

MOST_BYTES = 5_000_000  # of an upload
CAUSAL = "Causal: a token sees itself and earlier ones"
TYPED = {"stylesheets": [".bk-spin-btn { display: none !important; }"]}  # they have no name; arrow keys count, too
COPY = """
const said = (word) => { button.label = word; setTimeout(() => { button.label = "Copy"; }, 1500); };
if (navigator.clipboard) navigator.clipboard.writeText(code.value).then(() => said("Copied"), () => said("Select it"));
else said("Select it");  // browsers copy for pages of this machine, and for encrypted ones
"""


class Controls:
    """Widgets; whoever makes them listens to them."""

    def __init__(self, *, on_file: Callable[[bytes], None], download: Callable[[str], Awaitable[BytesIO]]) -> None:
        wide = {"sizing_mode": "stretch_width", "margin": (4, 8)}
        w: Any = pn.widgets  # whose types say that every value may be None
        self.cloud = w.Select(label="Cloud", options=list(CONFIGURATIONS), value="triangle", **wide)
        self.n = w.IntInput(label="n", value=40, start=1, end=MOST_TOKENS, width=84, **TYPED)
        self.d = w.IntInput(label="d", value=2, start=1, end=MOST_DIMENSIONS, width=70, **TYPED)
        self.seed = w.IntInput(label="Seed", value=0, start=0, width=84, **TYPED)
        self.new = w.Button(label="New cloud", color="primary", **wide)
        self.upload = dropper(MOST_BYTES, lambda _, data: on_file(data), margin=(4, 8))
        self.paste = w.TextAreaInput(
            label="Or paste rows of numbers", placeholder="0.6, 0.8\n1, 0", rows=3, max_length=MOST_BYTES, **wide
        )
        self.use = w.Button(label="Use these", **wide)
        self.rule = w.RadioButtonGroup(
            label="Rule",
            options=list(RULES),
            value="hardmax",
            color="primary",
            variant="outline",
            stylesheets=[".bk-btn { padding: 6px 7px !important; }"],  # else the last is cut
            **wide,
        )
        self.alpha = Slider(label="alpha, the step", start=0.05, end=5, step=0.05, value=0.5, **wide)
        self.temperature = Slider(label="Temperature (0 is hardmax)", start=0, end=2, step=0.02, value=0.5, **wide)
        self.beta = Slider(label="beta", start=0.5, end=60, step=0.5, value=9, **wide)
        self.layers = Slider(label="Layers", start=1, end=BOUNDS["layers"][1], step=1, value=30, **wide)
        self.time = Slider(label="Time", start=0.5, end=40, step=0.5, value=10, **wide)
        self.causal = w.CheckBoxGroup(label="Causal", options={CAUSAL: True}, value=[], **wide)
        self.a11, self.a12, self.a22 = (
            w.FloatInput(label=name, step=0.1, width=84, **TYPED) for name in ("A11", "A12", "A22")
        )
        self.identity = w.Button(label="A = identity", **wide)
        self.rows_A, self.rows_V = (
            w.TextAreaInput(
                label=f"{name}, rows of numbers",
                placeholder="1, 0, 0\n0, 1, 0\n0, 0, 1",
                rows=3,
                max_length=MOST_BYTES,
                **wide,
            )
            for name in ("A", "V")
        )
        self.first = w.FloatInput(label="1st eigenvalue", value=1.0, step=0.1, width=110, **TYPED)
        self.second = w.FloatInput(label="2nd eigenvalue", value=1.0, step=0.1, width=110, **TYPED)
        self.angle = Slider(label="Angle of the first eigenvector", start=0, end=180, step=1, value=0, **wide)
        self.overlays = w.CheckBoxGroup(
            label="Overlays",
            options={said: name for name, said in OVERLAYS.items()},
            value=["trails", "polytope"],
            **wide,
        )
        self.lead = w.Button(label="Selected token shall lead", **wide)
        self.forget = w.Button(label="Forget them", **wide)
        self.find = w.Button(label="Find A", color="primary", **wide)
        self.found = pn.pane.HTML("", sizing_mode="stretch_width", margin=(4, 8), stylesheets=[PARTS])
        self.code = w.TextAreaInput(
            label="As Python", rows=8, sizing_mode="stretch_width", margin=(4, 8), disabled=False
        )
        self.copy = w.Button(label="Copy", width=80, margin=(4, 8))
        self.copy.js_on_click(args={"code": self.code, "button": self.copy}, code=COPY)
        self.downloads = [
            pn.widgets.FileDownload(
                callback=partial(download, kind),
                filename=f"hardmax.{'json' if kind == 'scene' else kind}",
                label=kind.upper() if kind != "scene" else "Scene",
                width=96,
                margin=4,
            )
            for kind in exports.KINDS
        ]
        self.steps = [w.Button(label=f"{i}. {step.title}", **wide) for i, step in enumerate(tour.steps(), 1)]
        self.told = pn.pane.HTML("", sizing_mode="stretch_width", margin=(4, 8), stylesheets=[PARTS])
        self.matrix_A = pn.Column(pn.Row(self.a11, self.a12, self.a22), self.identity, sizing_mode="stretch_width")
        self.matrix_V = pn.Column(pn.Row(self.first, self.second), self.angle, sizing_mode="stretch_width")

    @property
    def cards(self) -> dict[str, list[Any]]:
        """Titles, and what is under them."""
        return {
            "Tour": [*self.steps, self.told],
            "Tokens": [self.cloud, pn.Row(self.n, self.d, self.seed), self.new, self.upload, self.paste, self.use],
            "Rule": [
                self.rule,
                self.alpha,
                self.temperature,
                self.matrix_A,
                self.matrix_V,
                self.rows_A,
                self.rows_V,
                self.beta,
                self.layers,
                self.time,
                self.causal,
            ],
            "Show": [self.overlays],
            "Choose who leads": [self.lead, self.forget, self.find, self.found],
            "Export": [pn.FlexBox(*self.downloads), self.code, self.copy],
        }

    def _says(self, V: FloatArray | None) -> bool:
        """Whether the eigenvalues are those of V, in whichever order they were typed."""
        said = values_matrix(self.first.value, self.second.value, self.angle.value)
        return bool(np.abs(said - (np.eye(2) if V is None else V)).max() <= 1e-5)

    def show(self, scene: Scene) -> None:
        """Let the controls say what a scene is."""
        for widget, value in (
            (self.rule, scene.rule),
            (self.alpha, scene.alpha),
            (self.temperature, scene.temperature),
            (self.beta, scene.beta),
            (self.layers, scene.layers),
            (self.time, scene.time),
            (self.causal, [True] if scene.causal else []),
            (self.overlays, list(scene.overlays)),
        ):
            if widget.value != value:
                widget.value = value
        plane = scene.d == 2
        A = [[1.0, 0.0], [0.0, 1.0]] if scene.A is None or not plane else scene.A.tolist()
        self.a11.value, self.a12.value, self.a22.value = A[0][0], A[0][1], A[1][1]
        rule = scene.rule
        self.alpha.visible = self.layers.visible = rule in ("hardmax", "softmax")
        self.temperature.visible = rule == "softmax"
        self.matrix_A.visible = rule in ("hardmax", "softmax") and plane
        values = values_of(scene.V) if plane else None
        self.matrix_V.visible = rule == "self-attention" and values is not None
        if values is not None and not self._says(scene.V):
            self.first.value, self.second.value, self.angle.value = values
        self.rows_A.visible = rule in ("hardmax", "softmax") and not plane
        self.rows_V.visible = rule == "self-attention" and values is None
        for widget, matrix in ((self.rows_A, scene.A), (self.rows_V, scene.V)):
            widget.value = "" if matrix is None else "\n".join(", ".join(map(repr, row)) for row in matrix.tolist())
        self.beta.visible, self.time.visible = rule == "sphere", rule in ("sphere", "self-attention")
        names = ", ".join(map(str, scene.wanted))
        self.lead.label = f"Selected token shall lead (so far: {names})" if names else "Selected token shall lead"
