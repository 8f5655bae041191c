"""The HTTP server of the app: pages and modules of `viewer/`, and `POST /api/...`.

It has no session, no cookie and no state except loaded models. Requests are accepted
for known Host names only; a POST must be JSON from a page of the same origin.
"""

import asyncio
import json
import mimetypes
import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import matplotlib
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hardmax._errors import InputError, MissingExtra
from hardmax.app.api import Context, choose_pool, handle
from hardmax.app.playground import Cancelled
from hardmax.app.problems import describe_problem
from hardmax.text.storage import shipped_models

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
MAX_BODY_BYTES = 30_000_000  # a file of 20 MB in base64
THREADS = {
    "quick": 1,
    "long": 2,
    "files": 1,
}  # Python computes in one thread at a time: more only take turns
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:"
        " blob:; connect-src 'self'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def host_name(host: str) -> str:
    """Return the name in NAME or NAME:PORT, in lower case; an empty string for anything
    else.

    Examples
    --------
    >>> host_name("Talk.Example.org:5006"), host_name("[::1]:80"), host_name("localhost."), host_name("localhost:1, a")
    ('talk.example.org', '[::1]', 'localhost', '')
    """
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^\s,:\[\]/@]+?)\.?(:\d+)?", host.lower())
    return found[1] if found else ""


class Guard:
    """Refuse requests to other hosts and from other origins, and add security headers
    to every response.

    With DNS rebinding a foreign page reaches this server under its own name, which is
    then Host and Origin alike: only the list of Host names detects that.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self.app, self.hosts = app, {*LOCAL_HOSTS, *filter(None, map(host_name, hosts))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # without a route for websockets they are closed
            await self.app(scope, receive, send)
            return

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        refused = self._find_problem(scope["method"], Headers(scope=scope))
        app = (
            self.app
            if refused is None
            else PlainTextResponse(refused[1] + "\n", refused[0])
        )
        await app(scope, receive, send_secured)

    def _find_problem(self, method: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or host_name(host) not in self.hosts:
            return 403, "Host not allowed. Start the app with --allow-host NAME."
        if method in ("GET", "HEAD"):
            return None
        if method != "POST":
            return 405, "Only GET, HEAD and POST are allowed."
        if (
            headers.get("content-type", "").split(";")[0].strip().lower()
            != "application/json"
        ):
            return 415, "The content type must be application/json."
        if headers.get("origin", "").lower() not in (
            f"http://{host}".lower(),
            f"https://{host}".lower(),
        ):
            return 403, "The request must come from a page of this server."
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return 411, "The length of the content must be given."
        if int(length) > MAX_BODY_BYTES:
            return 413, f"The content must have at most {MAX_BODY_BYTES:,} bytes."
        return None


class Viewer(StaticFiles):
    """Files of the viewer by name; a page needs no suffix."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        if not re.fullmatch(r"[\w.-]+", path):
            return "", None
        return super().lookup_path(path if "." in path else f"{path}.html")


class Server:
    """Requests of the API in three thread pools."""

    def __init__(self, models: tuple[str, ...], loaded: Mapping[str, Any]) -> None:
        self.models, self.loaded = models, loaded
        self.pools = {
            name: ThreadPoolExecutor(number, f"hardmax-{name}")
            for name, number in THREADS.items()
        }

    async def answer(self, request: Request) -> Response:
        """Answer a request of the API off the event loop; stop its work if the client
        disconnects.
        """
        path, gone = request.path_params["path"], Event()
        try:
            body = _parse_json(await request.body())
        except InputError as problem:
            return _send_problem(problem)
        context = Context(self.models, gone.is_set, self.loaded)
        pool = self.pools[choose_pool(path, body)]
        work = asyncio.get_running_loop().run_in_executor(
            pool, handle, path, body, context
        )
        watcher = asyncio.create_task(_wait_for_disconnect(request.receive, gone))
        try:
            reply = await work
        except Cancelled:
            return Response(status_code=499)
        except Exception as problem:
            return _send_problem(problem)
        finally:
            watcher.cancel()
        headers = {"Cache-Control": "no-store"}
        if reply.file is None:
            return Response(
                reply.to_bytes(), media_type="application/octet-stream", headers=headers
            )
        headers["Content-Disposition"] = f'attachment; filename="{reply.name}"'
        return Response(reply.file, media_type=reply.media_type, headers=headers)


def _send_problem(problem: Exception) -> Response:
    """Return an error as one sentence; a bug is logged, and its traceback stays on the
    server.
    """
    is_input = isinstance(problem, InputError | MissingExtra | OSError)
    return JSONResponse({"error": describe_problem(problem)}, 400 if is_input else 500)


async def _wait_for_disconnect(receive: Receive, gone: Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


def _parse_json(data: bytes) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    try:
        body = json.loads(data, parse_constant=refuse)
        if (
            b"\\ud" in data.lower()
        ):  # half of a character, which cannot be written to a file
            text = json.dumps(body, ensure_ascii=False).encode(
                "utf-16", "surrogatepass"
            )
            body = json.loads(text.decode("utf-16", "replace"))
        return body
    except (ValueError, RecursionError):
        must = "A request must be JSON with finite numbers."
        raise InputError(f"{must} Got something else. Load the page again.") from None


def make_app(
    *, hosts: Iterable[str] = (), model: str = "imdb", encoder: str | None = None
) -> ASGIApp:
    """Return the ASGI application; `hosts` are further Host names, `model` is the
    default model of texts.

    `encoder` is the folder of the encoder that this model was trained with, if it is
    not found by its name.
    """
    matplotlib.use(
        "Agg"
    )  # exports are drawn without a window, outside of the main thread
    mimetypes.add_type(
        "text/javascript", ".js"
    )  # the registry of Windows may have another one
    loaded = {}
    if encoder is not None:
        from hardmax.app.texts import load

        loaded[model] = load(model, encoder)
    server = Server(tuple(dict.fromkeys([model, *shipped_models()])), loaded)
    viewer = Viewer(packages=[("hardmax", "viewer")], follow_symlink=True)
    routes = [
        Route("/", RedirectResponse("/playground")),
        Route("/api/{path}", server.answer, methods=["POST"]),
        Mount("/viewer", viewer),
        Mount("/", viewer),
    ]
    return Guard(Starlette(routes=routes), hosts)


def serve(
    app: ASGIApp, *, address: str, port: int, started: Callable[[], object]
) -> None:
    """Serve an application until Ctrl-C; `started` is called when the port is open."""
    import uvicorn

    class Announced(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                started()

    quiet: Any = {"log_level": "warning", "access_log": False, "server_header": False}
    Announced(
        uvicorn.Config(
            app, host=address, port=port, timeout_graceful_shutdown=1, **quiet
        )
    ).run()
