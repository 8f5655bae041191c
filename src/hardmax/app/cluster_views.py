"""The page of the clusters for one visitor: the plane, its controls, and the clusters in words."""

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn

from hardmax.app import cluster_exports, cluster_html, cluster_points
from hardmax.app.cluster_controls import OWN, ClusterControls
from hardmax.app.cluster_plane import ClusterPlane, Drawing
from hardmax.app.cluster_settings import USUAL_NOISE
from hardmax.app.clusters import Clusters, ClusterStore
from hardmax.app.links import LONGEST_LINK
from hardmax.app.problems import in_words
from hardmax.app.verdict import PARTS, note
from hardmax.app.views import CARD, LAYOUT, MIDDLE, SCROLLED, SIDE
from hardmax.app.work import Latest, off_the_loop

MANY = 20_000  # numbers beyond which a fit may take more than a moment
TOO_LONG = "These points are too many for a link: whoever opens it needs the file. Export, CSV."
RIGHT = 380  # pixels
OPEN = ("Points", "Clusters")  # cards, at first


class ClusterPage:
    """The clusters of one visitor.

    Attributes
    ----------
    view : Panel object
    state : dict
        Points and settings, as JSON can hold them; `set_state` brings them back.
    """

    def __init__(self, *, dark: bool = False) -> None:
        self.store = ClusterStore()
        self.found: Clusters | None = None
        self._document = pn.state.curdoc  # none without a server
        self._dark, self._setting, self._anew = dark, False, True
        self._sent: tuple[str | bytes, str] | None = None  # points that wait to be read
        self._listeners: list[Callable[[dict[str, Any] | None], bool]] = []
        self._answering = Latest(self._answer)
        self.controls = ClusterControls(on_file=lambda name, data: self._send(data, name), download=self._download)
        self.plane = ClusterPlane(self._click, dark=dark)
        self.problem, self.status, self.followed, self.table, self.tree, self.link = (
            pn.pane.HTML("", sizing_mode="stretch_width", margin=(2, 8), stylesheets=[PARTS, cluster_html.CSS])
            for _ in range(6)
        )
        self._connect()
        self.view = self._assembled()
        self._show_controls()
        pn.state.onload(self._answering.ask)

    @property
    def state(self) -> dict[str, Any]:
        return self.store.state

    def set_state(self, state: Any) -> None:
        """Bring back what `state` was."""
        self.store.set_state(state)
        self._changed()

    def on_change(self, callback: Callable[[dict[str, Any] | None], bool]) -> None:
        """Call with the state whenever it changes, None where it is large; it says whether a link can hold it."""
        self._listeners.append(callback)

    def say_problem(self, sentence: str) -> None:
        self.problem.object = note(sentence) if sentence else ""

    # Controls.

    def _connect(self) -> None:
        c = self.controls
        c.example.param.watch(lambda event: self._do(lambda: self._take(event.new)), "value")
        c.use.on_click(lambda _: self._send(c.paste.value or "", "what you pasted"))
        for widget, name, made in (
            (c.how, "how", str),
            (c.number, "number", int),
            (c.neighbours, "neighbours", int),
            (c.metric, "metric", str),
            (c.noisy, "noise", lambda value: float(c.noise.value or USUAL_NOISE) if value else 0.0),
            (c.noise, "noise", float),
            (c.across, "across", int),
            (c.up, "up", int),
            (c.apart, "apart", bool),
        ):
            widget.param.watch(
                lambda event, name=name, made=made: self._do(lambda: self.store.change(**{name: made(event.new)})),
                "value",
            )
        c.follow.param.watch(lambda event: self._do(lambda: self._follow(event.new)), "value")
        c.whole.js_on_click(args={"figure": self.plane.figure}, code="figure.reset.emit()")

    def _do(self, act: Callable[[], Any]) -> None:
        """Do what a visitor asks for, and answer; what is wrong with it is said."""
        if self._setting:
            return
        try:
            act()
        except Exception as problem:
            self.say_problem(in_words(problem))
            return
        self.say_problem("")
        self._changed()

    def _take(self, name: str) -> None:
        if name != OWN:
            noise = USUAL_NOISE if "noise" in name else 0.0
            self.store.set_points(cluster_points.example(name), noise=noise)
            self._anew = True

    def _send(self, sent: str | bytes, name: str) -> None:
        self._sent = sent, name
        self._answering.ask()

    def _follow(self, label: int) -> None:
        if self.found is not None:
            self.store.choose(int(self.found.leaders[label]) if 0 <= label < len(self.found.leaders) else -1)

    def _click(self, point: int) -> None:
        self._do(lambda: self.store.choose(point))

    def _changed(self) -> None:
        self._show_controls()
        self._answering.ask()

    def _show_controls(self) -> None:
        self._setting = True
        try:
            self.controls.show(self.store.points, self.store.settings)
        finally:
            self._setting = False

    # Answers.

    async def _answer(self) -> None:
        """Read what was sent, cluster, and show it; off the event loop, and of several questions only the last."""
        store, sent = self.store, self._sent
        try:
            if sent is not None:
                self._sent = None
                store.set_points(await off_the_loop(partial(cluster_points.read, *sent), long=True))
                self._anew = True
                self.say_problem("")
                self._show_controls()
            if many := store.points.X.size > MANY:
                self.status.object = note(f"Clustering {len(store.points.X):,} points …")
            found = await off_the_loop(store.clusters, long=many)
            if self._answering.asked or found.points is not store.points:
                return
            drawn = await off_the_loop(partial(self.plane.drawing, found, store.chosen), long=many)
            if self._answering.asked:
                return
            self._show(found, drawn)
            tree = partial(cluster_exports.tree_picture, found, dark=self._dark)
            picture = await off_the_loop(tree, long=False)
            if not self._answering.asked:
                self.tree.object = cluster_html.tree(found, picture)
        except Exception as problem:
            self.say_problem(in_words(problem))
            if self.found is not None:
                self.status.object = cluster_html.status(self.found)

    def _show(self, found: Clusters, drawn: Drawing) -> None:
        chosen = self.store.chosen
        self.found = found
        self._draw(partial(self.plane.show, drawn, anew=self._anew))
        self._anew = False
        self.status.object, self.table.object = cluster_html.status(found), cluster_html.table(found)
        self.followed.object = cluster_html.followed(found, chosen)
        self.controls.code.value = cluster_exports.as_python(found)
        self._setting = True
        try:
            self.controls.show_found(found, chosen)
        finally:
            self._setting = False
        small = bool(found.points.example) or found.points.X.size <= LONGEST_LINK
        fits = [listener(self.state if small else None) for listener in self._listeners]
        self.link.object = "" if all(fits) else note(TOO_LONG)

    def _draw(self, act: Callable[[], None]) -> None:
        """Change the figure when its turn has come: Bokeh's own models may not be touched in between."""
        if self._document is None:
            act()
        else:
            self._document.add_next_tick_callback(act)

    async def _download(self, kind: str) -> io.BytesIO:
        if self.found is None:
            return io.BytesIO()
        try:
            return io.BytesIO(await off_the_loop(partial(cluster_exports.as_file, self.found, kind), long=True))
        except Exception as problem:
            self.say_problem(in_words(problem))
            return io.BytesIO()

    def _assembled(self) -> Any:
        cards = self.controls.cards
        side = [pn.Card(*cards[title], title=title, collapsed=title not in OPEN, **CARD) for title in cards]
        picture = pn.pane.Bokeh(self.plane.figure, sizing_mode="stretch_width", css_classes=["hm-clusters"])
        middle = [
            pn.FlexBox(self.controls.follow, self.controls.whole, align_items="end"),
            picture,
            self.followed,
        ]
        return pn.FlexBox(
            pn.Column(*side, width=SIDE, css_classes=["hm-side"], styles=SCROLLED),
            pn.Column(self.problem, *middle, sizing_mode="stretch_width", css_classes=["hm-middle"], styles=MIDDLE),
            pn.Column(self.link, self.status, self.table, self.tree, width=RIGHT, css_classes=["hm-right"]),
            gap="16px",
            sizing_mode="stretch_width",
            styles={"padding": "12px"},
            stylesheets=[LAYOUT],
        )
