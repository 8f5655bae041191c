"""Assemble the pages and serve them, to this machine alone unless told otherwise."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import panel as pn
from markupsafe import Markup
from panel.io.notifications import NotificationArea
from tornado.web import RedirectHandler
from tornado.websocket import WebSocketClosedError

from hardmax._errors import InputError, MissingExtra
from hardmax.app.address import Address
from hardmax.app.cluster_views import ClusterPage
from hardmax.app.controls import MOST_BYTES
from hardmax.app.hosts import allow_hosts
from hardmax.app.links import from_link
from hardmax.app.problems import in_words
from hardmax.app.review_views import EXTENSIONS, ReviewPage
from hardmax.app.scene import Scene
from hardmax.app.verdict import PARTS, note
from hardmax.app.views import Playground

FOLDER = Path(__file__).parent
STYLE = FOLDER / "app.css"
TITLE = "hardmax"
PAGES = {"playground": "Playground", "reviews": "Reviews", "clusters": "Clusters"}
LOST = (
    "The app has stopped, or cannot be reached. Start it again and load this page anew: its address knows what you see."
)
TOGGLE = """
const url = new URL(window.location.href);
if (url.searchParams.get("theme") === "dark") url.searchParams.delete("theme");
else url.searchParams.set("theme", "dark");
window.location.replace(url);
"""


def playground_page() -> Any:
    """A new visitor's playground, as the link says."""
    scene, problem, given = None, "", _given("s")
    if given:
        try:
            scene = Scene.from_link(given)
        except InputError as error:
            problem = str(error)
    playground = Playground(scene, problem)
    pn.state.on_session_destroyed(lambda _: playground.leave())
    return page("playground", playground.view)


def reviews_page(model: str) -> Any:
    """A new visitor's review explorer, as the link says."""
    explorer = ReviewPage(model)
    address = Address(parameter="r", dark=pn.config.theme == "dark")
    problem = pn.pane.HTML("", sizing_mode="stretch_width", stylesheets=[PARTS])
    if given := _given("r"):
        try:
            explorer.set_state(from_link(given))
        except InputError as error:
            problem.object = note(str(error))
    explorer.on_change(lambda state: explorer.exports.show_link(address.say(state)))
    return page("reviews", pn.Column(address, problem, explorer.view, sizing_mode="stretch_width", margin=(0, 12)))


def clusters_page() -> Any:
    """A new visitor's clusters, as the link says; without scikit-learn what to install."""
    dark = pn.config.theme == "dark"
    address = Address(parameter="c", dark=dark)
    try:
        clusters = ClusterPage(dark=dark)
    except MissingExtra as problem:
        return page("clusters", pn.Column(address, pn.pane.HTML(note(in_words(problem)), stylesheets=[PARTS])))
    if given := _given("c"):
        try:
            clusters.set_state(from_link(given))
        except InputError as error:
            clusters.say_problem(in_words(error))
    clusters.on_change(address.say)
    return page("clusters", pn.Column(address, clusters.view, sizing_mode="stretch_width"))


def _given(name: str) -> str:
    """What the address says of something."""
    values = (pn.state.session_args or {}).get(name, [b""])
    return values[0].decode("ascii", "replace")


def page(name: str, content: Any) -> Any:
    """A page with its head, light or dark as the address says."""
    dark = pn.config.theme == "dark"  # as the address says
    ending = "?theme=dark" if dark else ""
    links = Markup("").join(
        Markup('<a href="{}{}"{}>{}</a>').format(
            path, ending, Markup(' aria-current="page"') if path == name else "", title
        )
        for path, title in PAGES.items()
    )
    head = Markup('<div class="hm-head"><h1>hardmax</h1><nav aria-label="Pages">{}</nav></div>').format(links)
    theme = pn.widgets.Button(label="Light" if dark else "Dark", width=80, margin=(6, 12))
    theme.js_on_click(code=TOGGLE)
    top = pn.Row(
        pn.pane.HTML(str(head), sizing_mode="stretch_width", margin=0, stylesheets=[PARTS]),
        theme,
        sizing_mode="stretch_width",
        styles={"background": "var(--hm-panel)", "border-bottom": "1px solid var(--hm-line)"},
    )
    pn.state.on_session_destroyed(_forget)
    return pn.Column(top, content, sizing_mode="stretch_width", css_classes=["hm-app"])


def _forget(session: Any) -> None:
    """Let go of a page that nobody sees: Panel keeps the notes of each, and with them all that was on it."""
    views = pn.state._views
    for ref in [ref for ref, (view, _, document, _) in views.items() if document is session._document]:
        if isinstance(views[ref][0], NotificationArea):
            del views[ref]


def serve(
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    origins: Sequence[str] = (),
    model: str = "imdb",
    show: bool = False,
    lingering: float = 15.0,
) -> Any:
    """Start the server in this thread's event loop; returns it, not yet running.

    What a visitor leaves behind is forgotten after so many seconds of `lingering`, in case they come back.
    """
    matplotlib.use("Agg")  # pictures are files here, drawn off the main thread
    style = STYLE.read_text(encoding="utf-8")
    pn.extension("plotly", *EXTENSIONS, raw_css=[style], inline=True, notifications=True, disconnect_notification=LOST)
    server = pn.io.server.get_server(
        {"playground": playground_page, "reviews": lambda: reviews_page(model), "clusters": clusters_page},
        address=address,
        port=port,
        websocket_origin=list(origins) or None,
        show=show,
        start=False,
        title=TITLE,
        session_token_expiration=3600,
        unused_session_lifetime_milliseconds=round(1000 * lingering),
        check_unused_sessions_milliseconds=round(1000 * lingering),
        websocket_max_message_size=2 * MOST_BYTES,
        extra_patterns=[("/", RedirectHandler, {"url": "/playground", "permanent": False})],
    )
    allow_hosts(server._tornado, [f"[{address}]" if ":" in address else address, *origins])
    server.io_loop.asyncio_loop.set_exception_handler(_heard)  # type: ignore[attr-defined]
    return server


def _heard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody caught: that a visitor has left while an answer was on its way is no news."""
    if not isinstance(context.get("exception"), WebSocketClosedError):
        loop.default_exception_handler(context)
