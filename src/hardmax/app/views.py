"""The playground's page for one visitor: the plane, its controls, and the verdict. It holds no mathematics."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import panel as pn

from hardmax._errors import InputError
from hardmax._tables import parse_table
from hardmax.app import control, exports, tour, verdict
from hardmax.app.address import Address
from hardmax.app.answers import Cancelled, answer, run
from hardmax.app.dropper import dropper
from hardmax.app.packing import packed
from hardmax.app.plane import Plane
from hardmax.app.problems import in_words
from hardmax.app.scene import BOUNDS, MOST_DIMENSIONS, MOST_TOKENS, OVERLAYS, RULES, Scene, values_matrix
from hardmax.app.slider import Slider
from hardmax.app.store import Store
from hardmax.app.verdict import PARTS
from hardmax.app.work import off_the_loop, takes_long
from hardmax.inputs import CONFIGURATIONS, RANDOM_CLOUDS

MOST_BYTES = 5_000_000  # of an upload
MOMENT = 0.3  # seconds
TOO_LONG = "This scene is too large for a link. Download it as a file instead: Export, scene."
SIDE = 320  # pixels
CARD: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": (0, 0, 8, 0)}
SCROLLED = {"max-height": "calc(100vh - 84px)", "overflow-y": "auto", "overflow-x": "hidden"}
MIDDLE = {"flex": "1 1 440px", "min-width": "320px"}
CAUSAL = "Causal: each token sees itself and those before it"
TYPED = {"stylesheets": [".bk-spin-btn { display: none !important; }"]}  # they have no name; arrow keys count, too
COPY = """
const said = (word) => { button.label = word; setTimeout(() => { button.label = "Copy"; }, 1500); };
if (navigator.clipboard) navigator.clipboard.writeText(code.value).then(() => said("Copied"), () => said("Select it"));
else said("Select it");  // browsers copy for pages of this machine, and for encrypted ones
"""
LAYOUT = """
@media (max-width: 1120px) {
  .hm-middle { order: -1; flex-basis: 100% !important; }
  .hm-side, .hm-right { max-height: none !important; }
}
"""


class Playground:
    """One visitor's playground."""

    def __init__(self, scene: Scene | None = None, problem: str = "") -> None:
        self.store = Store(scene or tour.steps()[1].scene)
        self.plane = Plane(sizing_mode="stretch_width")
        self.wanted: list[int] = []
        self._turn = 0  # of what was asked: an answer to an older question is dropped
        self._seq = 0
        self._quiet = False  # while controls are set from the scene
        self._new = True  # whether the plane shall show everything
        self._problem = problem
        self.address = Address(parameter="s", dark=pn.config.theme == "dark")
        self._make_controls()
        self.plane.param.watch(self._asked, "request")
        self.view = self._assembled()

    # Questions and answers.

    def _asked(self, event: Any) -> None:
        """Change the scene at once, so that whatever comes next sees it; answer when that is computed."""
        message = event.new if isinstance(event.new, dict) else {}
        seq = message.get("seq", 0)
        self._seq = seq if isinstance(seq, int) else 0
        try:
            final = self.store.handle(message)
        except Exception as problem:
            self._say_problem(problem)
            return
        pn.state.execute(partial(self._answer, final=final))

    async def _answer(self, *, final: bool = True) -> None:
        """Compute off the event loop, and send; give up as soon as something newer is asked."""
        self._turn += 1
        turn, seq, scene = self._turn, self._seq, self.store.scene
        try:
            with self._said_busy():
                header, arrays = await off_the_loop(
                    lambda: answer(scene, quickly=not final, stopped=lambda: self._turn != turn),
                    long=takes_long(scene, final=final),
                )
        except Cancelled:
            return
        except Exception as problem:
            self._say_problem(problem)
            return
        if turn != self._turn:
            return
        header |= {"seq": seq, "can_undo": self.store.can_undo, "can_redo": self.store.can_redo, "wanted": self.wanted}
        header |= {"rule_name": scene.rule, "refit": self._new, "error": self._problem}
        self._problem, self._new = "", False
        if final:
            self.verdict.object = verdict.verdict(header)
            self.code.value = exports.as_python(scene)
            self.too_long.visible = not (scene.to_link() and self.address.say(scene.to_data()))
            self._show_controls()
        self._send(header, arrays)
        if final and scene.d == 3:
            await self._turn_it(scene, turn)

    @contextmanager
    def _said_busy(self) -> Iterator[None]:
        """Let the plane say that something is computed, where that takes longer than a moment."""
        said = asyncio.get_running_loop().call_later(MOMENT, lambda: self.plane.param.update(busy=True))
        try:
            yield
        finally:
            said.cancel()
            if self.plane.busy:
                self.plane.busy = False

    def _say_problem(self, problem: Exception) -> None:
        self._send({"error": in_words(problem), "seq": self._seq}, {})

    def _send(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.plane.answer = packed(header, arrays)

    async def _turn_it(self, scene: Scene, turn: int) -> None:
        """Three dimensions are turned by Plotly."""
        from hardmax.draw.pages import figure_of

        figure = await off_the_loop(lambda: figure_of(run(scene)), long=True)
        colour = "#e8ebef" if self.address.dark else "#1b1f24"
        figure["layout"] |= {"paper_bgcolor": "rgba(0, 0, 0, 0)", "font": {"color": colour}}
        if turn == self._turn:
            self.space.object = figure

    # Controls.

    def _make_controls(self) -> None:
        wide = {"sizing_mode": "stretch_width", "margin": (4, 8)}
        w: Any = pn.widgets  # whose types say that every value may be None
        self.cloud = w.Select(label="Cloud", options=list(CONFIGURATIONS), value="triangle", **wide)
        self.n = w.IntInput(label="n", value=40, start=1, end=MOST_TOKENS, width=84, **TYPED)
        self.d = w.IntInput(label="d", value=2, start=1, end=MOST_DIMENSIONS, width=70, **TYPED)
        self.seed = w.IntInput(label="Seed", value=0, start=0, width=84, **TYPED)
        self.new = w.Button(label="New cloud", color="primary", **wide)
        self.upload = dropper(MOST_BYTES, lambda _, data: self._do(lambda: self._uploaded(data)), margin=(4, 8))
        self.paste = w.TextAreaInput(
            label="Or paste rows of numbers", placeholder="0.6, 0.8\n1, 0", rows=3, max_length=MOST_BYTES, **wide
        )
        self.use = w.Button(label="Use these", **wide)
        self.rule = w.RadioButtonGroup(
            label="Rule", options=list(RULES), value="hardmax", color="primary", variant="outline", **wide
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
        self.too_long = pn.pane.HTML(verdict.note(TOO_LONG), visible=False, margin=(4, 8))
        self.verdict = pn.pane.HTML("", sizing_mode="stretch_width", margin=(4, 8), stylesheets=[PARTS])
        self.space = pn.pane.Plotly(None, sizing_mode="stretch_width", height=560, visible=False)
        self.downloads = [
            pn.widgets.FileDownload(
                callback=self._download(kind),
                filename=f"hardmax.{'json' if kind == 'scene' else kind}",
                label=kind.upper() if kind != "scene" else "Scene",
                width=96,
                margin=4,
            )
            for kind in exports.KINDS
        ]
        self.steps = [w.Button(label=f"{i}. {step.title}", **wide) for i, step in enumerate(tour.steps(), 1)]
        self.told = pn.pane.HTML("", sizing_mode="stretch_width", margin=(4, 8), stylesheets=[PARTS])
        self._connect()

    def _connect(self) -> None:
        self.new.on_click(
            lambda _: self._do(
                lambda: self._set(Scene.of_cloud(self.cloud.value, self.n.value, self.d.value, self.seed.value))
            )
        )
        self.cloud.param.watch(self._on_cloud, "value")
        self.use.on_click(lambda _: self._do(lambda: self._read(self.paste.value, "what you pasted")))
        self.identity.on_click(lambda _: self._change(A=None))
        for widget, name in (
            (self.alpha, "alpha"),
            (self.temperature, "temperature"),
            (self.beta, "beta"),
            (self.layers, "layers"),
            (self.time, "time"),
            (self.rule, "rule"),
            (self.overlays, "overlays"),
        ):
            widget.param.watch(lambda event, name=name: self._change(**{name: event.new}), "value")
        self.causal.param.watch(lambda event: self._change(causal=bool(event.new)), "value")
        for widget in (self.a11, self.a12, self.a22):
            widget.param.watch(
                lambda _: self._change(A=[[self.a11.value, self.a12.value], [self.a12.value, self.a22.value]]), "value"
            )
        for widget in (self.first, self.second, self.angle):
            widget.param.watch(
                lambda _: self._change(V=values_matrix(self.first.value, self.second.value, self.angle.value)), "value"
            )
        for widget, name in ((self.rows_A, "A"), (self.rows_V, "V")):
            widget.param.watch(lambda event, name=name: self._change_rows(name, event.new), "value")
        self.lead.on_click(lambda _: self._do(self._want))
        self.forget.on_click(lambda _: self._do(lambda: self.wanted.clear()))
        self.find.on_click(self._find)
        for i, (button, step) in enumerate(zip(self.steps, tour.steps(), strict=True)):
            button.on_click(lambda _, i=i, step=step: self._do(lambda: self._tour(i, step)))

    def _do(self, act: Callable[[], Any]) -> None:
        """Do something, and answer; what is wrong with it is said in the plane."""
        try:
            act()
        except Exception as problem:
            self._say_problem(problem)
            return
        pn.state.execute(self._answer)

    def _set(self, scene: Scene) -> None:
        """Go on with other tokens, which are seen whole."""
        self.wanted, self._new = [], True
        self.store.set(scene)

    def _change(self, **values: Any) -> None:
        if not self._quiet:
            self._do(lambda: self.store.change(**values))

    def _change_rows(self, name: str, rows: str) -> None:
        """A matrix as rows of numbers; none means the identity."""
        if not self._quiet:
            self._do(
                lambda: self.store.change(**{name: parse_table(rows, name)[0].astype(float) if rows.strip() else None})
            )

    def _on_cloud(self, event: Any) -> None:
        if event.new not in RANDOM_CLOUDS and not self._quiet:
            self._do(lambda: self._set(Scene.of_cloud(event.new)))

    def _uploaded(self, sent: bytes) -> None:
        if len(sent) > MOST_BYTES:
            raise InputError(
                f"A file must have at most {MOST_BYTES // 10**6} MB. This has {len(sent) // 10**6}. Take fewer rows."
            )
        text = sent.decode("utf-8", errors="replace")
        if text.lstrip().startswith("{"):
            try:
                data = json.loads(text)
            except (ValueError, RecursionError):
                raise InputError("The file must be a scene. It is cut or something else. Export it again.") from None
            self._set(Scene.from_data(data))
        else:
            self._read(text, "the file")

    def _read(self, text: str, name: str) -> None:
        if len(text) > MOST_BYTES:
            raise InputError("There must be less text than that. Take fewer rows.")
        self._set(
            self.store.scene.changed(tokens=parse_table(text, name)[0].astype(float), A=None, V=None, selected=-1)
        )

    def _want(self) -> None:
        chosen = self.store.scene.selected
        if chosen < 0:
            raise InputError("A token must be selected. None is. Click one, or press N in the plane.")
        self.wanted = sorted({*self.wanted, chosen})

    async def _find(self, _: Any) -> None:
        scene = self.store.scene
        try:
            found = await off_the_loop(lambda: control.find(scene, self.wanted), long=True)
        except Exception as problem:
            self.found.object = verdict.note(in_words(problem))
            return
        self.found.object = verdict.note(found.status, found.clashes)
        if scene.tokens is not self.store.scene.tokens:
            self.found.object = verdict.note("The tokens have changed since. Find A again.")
        elif found.A is not None:
            self._change(A=found.A, rule="hardmax", overlays=[*self.store.scene.overlays, "ellipse"])

    def _tour(self, i: int, step: tour.Step) -> None:
        self._set(step.scene)
        self.told.object = verdict.note(step.text)

    def _show_controls(self) -> None:
        """Let the controls say what the scene is, whoever changed it."""
        scene, self._quiet = self.store.scene, True
        try:
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
            self.matrix_V.visible = rule == "self-attention" and plane
            self.rows_A.visible = rule in ("hardmax", "softmax") and not plane
            self.rows_V.visible = rule == "self-attention" and not plane
            for widget, matrix in ((self.rows_A, scene.A), (self.rows_V, scene.V)):
                widget.value = "" if matrix is None else "\n".join(", ".join(map(repr, row)) for row in matrix.tolist())
            self.beta.visible, self.time.visible = rule == "sphere", rule in ("sphere", "self-attention")
            self.space.visible = scene.d == 3
            self.plane.styles = {"--hm-height": "420px"} if scene.d == 3 else {}  # what turns is seen first
            names = ", ".join(map(str, self.wanted))
            self.lead.label = f"Selected token shall lead (so far: {names})" if names else "Selected token shall lead"
        finally:
            self._quiet = False

    def _download(self, kind: str) -> Callable[[], Awaitable[io.BytesIO]]:
        async def made() -> io.BytesIO:
            try:
                with self._said_busy():
                    scene = self.store.scene
                    return io.BytesIO(await off_the_loop(lambda: exports.as_file(scene, kind), long=True))
            except Exception as problem:
                self._say_problem(problem)
                return io.BytesIO()

        return made

    def _assembled(self) -> Any:
        self.matrix_A = pn.Column(pn.Row(self.a11, self.a12, self.a22), self.identity, sizing_mode="stretch_width")
        self.matrix_V = pn.Column(pn.Row(self.first, self.second), self.angle, sizing_mode="stretch_width")
        cards = {
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
        open_at_first = ("Tour", "Rule")
        side = [pn.Card(*cards[title], title=title, collapsed=title not in open_at_first, **CARD) for title in cards]
        self._show_controls()
        return pn.FlexBox(
            self.address,
            pn.Column(*side, width=SIDE, css_classes=["hm-side"], styles=SCROLLED),
            pn.Column(self.space, self.plane, sizing_mode="stretch_width", css_classes=["hm-middle"], styles=MIDDLE),
            pn.Column(self.too_long, self.verdict, width=SIDE, css_classes=["hm-right"], styles=SCROLLED),
            gap="16px",
            sizing_mode="stretch_width",
            styles={"padding": "12px"},
            stylesheets=[LAYOUT],
        )
