"""The playground's page for one visitor: the plane, its controls, and the verdict. It holds no mathematics."""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import panel as pn

from hardmax._errors import InputError
from hardmax.app import control, exports, tour, verdict
from hardmax.app.address import Address
from hardmax.app.answers import Cancelled, answer, run
from hardmax.app.controls import MOST_BYTES, Controls
from hardmax.app.packing import packed
from hardmax.app.plane import Plane
from hardmax.app.problems import in_words
from hardmax.app.scene import Scene, values_matrix
from hardmax.app.store import Store
from hardmax.app.verdict import PARTS
from hardmax.app.work import off_the_loop, takes_long
from hardmax.configurations import RANDOM_CONFIGURATIONS
from hardmax.text.tables import parse_table

MOMENT = 0.3  # seconds
TOO_LONG = "This scene is too large for a link. Download it as a file instead: Export, scene."
SIDE = 320  # pixels
CARD: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": (0, 0, 8, 0)}
SCROLLED = {"max-height": "calc(100vh - 84px)", "overflow-y": "auto", "overflow-x": "hidden"}
MIDDLE = {"flex": "1 1 440px", "min-width": "320px"}
LAYOUT = """
@media (max-width: 1120px) {
  .hm-middle { order: -1; flex-basis: 100% !important; }
  .hm-side { max-height: none !important; }
  .hm-side, .hm-right { flex: 1 1 320px; }
}
"""


class Playground:
    """One visitor's playground."""

    def __init__(self, scene: Scene | None = None, problem: str = "") -> None:
        self.store = Store(scene or tour.steps()[1].scene)
        self.plane = Plane(sizing_mode="stretch_width")
        self._conflict: tuple[Scene, tuple[int, ...]] | None = None  # tokens for whom there is no A, and where that is
        self._turn = 0  # of what was asked: an answer to an older question is dropped
        self._seq = 0
        self._quiet = False  # while controls are set from the scene
        self._new = True  # whether the plane shall show everything
        self._problem = problem
        self.address = Address(parameter="s", dark=pn.config.theme == "dark")
        self.controls = Controls(on_file=lambda data: self._do(lambda: self._uploaded(data)), download=self._download)
        self.too_long = pn.pane.HTML(verdict.note(TOO_LONG), visible=False, margin=(4, 8))
        self.verdict = pn.pane.HTML("", sizing_mode="stretch_width", margin=(4, 8), stylesheets=[PARTS])
        self.space = pn.pane.Plotly(None, sizing_mode="stretch_width", height=560, visible=False)
        self._connect()
        self.plane.param.watch(self._asked, "request")
        self.view = self._assembled()

    def leave(self) -> None:
        """Give up what is computed for a visitor who has gone."""
        self._turn += 1

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
            if turn == self._turn:  # the verdict was that of an earlier scene
                self.verdict.object = verdict.note(in_words(problem))
            return
        if turn != self._turn:
            return
        header |= {"seq": seq, "can_undo": self.store.can_undo, "can_redo": self.store.can_redo}
        header |= {"wanted": scene.wanted, "conflict": self._conflicting(scene)}
        header |= {"rule_name": scene.rule, "refit": self._new, "error": self._problem}
        self._problem, self._new = "", False
        if final:
            self.verdict.object = verdict.verdict(header)
            self.controls.code.value = exports.as_python(scene)
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
        from hardmax.draw.player import make_figure

        try:
            figure = await off_the_loop(lambda: make_figure(run(scene, lambda: self._turn != turn)), long=True)
        except Cancelled:
            return
        except Exception as problem:
            self._say_problem(problem)
            return
        colour = "#e8ebef" if self.address.dark else "#1b1f24"
        figure["layout"] |= {"paper_bgcolor": "rgba(0, 0, 0, 0)", "font": {"color": colour}}
        if turn == self._turn:
            self.space.object = figure

    # Controls.

    def _connect(self) -> None:
        c = self.controls
        c.new.on_click(
            lambda _: self._do(
                lambda: self._set(
                    Scene.of_cloud(
                        c.cloud.value,
                        c.n.value,
                        c.d.value,
                        c.seed.value,
                    )
                )
            )
        )
        c.cloud.param.watch(self._on_cloud, "value")
        c.use.on_click(lambda _: self._do(lambda: self._read(c.paste.value, "what you pasted")))
        c.identity.on_click(lambda _: self._change(A=None))
        for widget, name in (
            (c.alpha, "alpha"),
            (c.temperature, "temperature"),
            (c.beta, "beta"),
            (c.layers, "layers"),
            (c.time, "time"),
            (c.rule, "rule"),
            (c.overlays, "overlays"),
        ):
            widget.param.watch(lambda event, name=name: self._change(**{name: event.new}), "value")
        c.causal.param.watch(lambda event: self._change(causal=bool(event.new)), "value")
        for widget in (c.a11, c.a12, c.a22):
            widget.param.watch(
                lambda _: self._change(
                    A=[
                        [c.a11.value, c.a12.value],
                        [c.a12.value, c.a22.value],
                    ]
                ),
                "value",
            )
        for widget in (c.first, c.second, c.angle):
            widget.param.watch(
                lambda _: self._change(V=values_matrix(c.first.value, c.second.value, c.angle.value)),
                "value",
            )
        for widget, name in ((c.rows_A, "A"), (c.rows_V, "V")):
            widget.param.watch(lambda event, name=name: self._change_rows(name, event.new), "value")
        c.lead.on_click(lambda _: self._do(self._want))
        c.forget.on_click(lambda _: self._change(wanted=()))
        c.find.on_click(self._find)
        for i, (button, step) in enumerate(zip(c.steps, tour.steps(), strict=True)):
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
        self._new = True
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
        if event.new not in RANDOM_CONFIGURATIONS and not self._quiet:
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
            self.store.scene.changed(
                tokens=parse_table(text, name)[0].astype(float), A=None, V=None, selected=-1, wanted=()
            )
        )

    def _want(self) -> None:
        chosen = self.store.scene.selected
        if chosen < 0:
            raise InputError("A token must be selected. None is. Click one, or press N in the plane.")
        self.store.change(wanted=[*self.store.scene.wanted, chosen])

    async def _find(self, _: Any) -> None:
        scene = self.store.scene
        try:
            found = await off_the_loop(lambda: control.find(scene), long=True)
        except Exception as problem:
            self.controls.found.object = verdict.note(in_words(problem))
            return
        self.controls.found.object = verdict.note(found.status, found.clashes)
        self._conflict = scene, found.tokens
        if not _asks_the_same(scene, self.store.scene):
            self.controls.found.object = verdict.note("The tokens have changed since. Find A again.")
        elif found.A is not None:
            self._change(A=found.A, rule="hardmax", overlays=[*self.store.scene.overlays, "ellipse"])
        else:
            pn.state.execute(self._answer)

    def _conflicting(self, scene: Scene) -> list[int]:
        """Tokens that no A satisfies, as long as the same is asked of the same tokens."""
        found = self._conflict
        return list(found[1]) if found is not None and _asks_the_same(found[0], scene) else []

    def _tour(self, i: int, step: tour.Step) -> None:
        self._set(step.scene)
        self.controls.told.object = verdict.note(step.text)

    def _show_controls(self) -> None:
        """Let the controls say what the scene is, whoever changed it."""
        scene, self._quiet = self.store.scene, True
        try:
            self.controls.show(scene)
            self.space.visible = scene.d == 3
            self.plane.styles = {"--hm-height": "420px"} if scene.d == 3 else {}  # what turns is seen first
        finally:
            self._quiet = False

    async def _download(self, kind: str) -> io.BytesIO:
        scene = self.store.scene
        try:
            with self._said_busy():
                return io.BytesIO(await off_the_loop(lambda: exports.as_file(scene, kind), long=True))
        except Exception as problem:
            self._say_problem(problem)
            return io.BytesIO()

    def _assembled(self) -> Any:
        cards, open_at_first = self.controls.cards, ("Tour", "Rule")
        side = [pn.Card(*cards[title], title=title, collapsed=title not in open_at_first, **CARD) for title in cards]
        self._show_controls()
        return pn.FlexBox(
            self.address,
            pn.Column(*side, width=SIDE, css_classes=["hm-side"], styles=SCROLLED),
            pn.Column(self.space, self.plane, sizing_mode="stretch_width", css_classes=["hm-middle"], styles=MIDDLE),
            pn.Column(self.too_long, self.verdict, width=SIDE, css_classes=["hm-right"]),
            gap="16px",
            sizing_mode="stretch_width",
            styles={"padding": "12px"},
            stylesheets=[LAYOUT],
        )


def _asks_the_same(one: Scene, other: Scene) -> bool:
    """Whether the same tokens shall lead, at the same places."""
    return one.wanted == other.wanted and one.tokens.tobytes() == other.tokens.tobytes()
