"""The HTTP server of the app: pages and modules of `viewer/`, and `POST /api/...`.

It has no session, no cookie and no state except loaded models. Requests are accepted
for known Host names only; a POST must be JSON from a page of the same origin.
"""

import asyncio
import contextlib
import json
import mimetypes
import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import matplotlib
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
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
from hardmax.app.api import FILE_PATHS, Context, choose_pool, handle
from hardmax.app.playground import Cancelled
from hardmax.app.problems import describe_problem
from hardmax.text.storage import shipped_models

# Escapes of JSON: a surrogate pair, a half of one, which no file can hold, or others.
ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."
)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
MAX_BODY_BYTES = 10_000_000  # the largest valid scene has 8.9 MB
MAX_FILE_BODY_BYTES = 30_000_000  # a file of 20 MB in base64
MAX_LISTS = 1_000_000  # lists and objects of a body; a scene has at most 40,003
MAX_QUICK_BYTES = 100_000  # of a body that is parsed within about 3 ms
MAX_BODY_SECONDS = 60.0  # of sending a body: 30 MB at 4 Mbit/s
LINGER_SECONDS = 1.0  # in which a client that still sends receives a refusal
THREADS = {
    "quick": 1,
    "long": 2,
    "files": 1,
    "large": 1,
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

        headers = Headers(scope=scope)
        is_chunked = "transfer-encoding" in headers
        is_unread = is_chunked or headers.get("content-length", "0") != "0"
        if is_chunked:  # uvicorn may have answered a malformed chunk, and is closing
            await asyncio.sleep(0)

        async def receive_watched() -> Message:
            nonlocal is_unread
            message = await receive()
            is_unread = is_unread and message.get("more_body", False)
            return message

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                added.update(SECURITY_HEADERS)
                added.setdefault("Cache-Control", "no-cache")
                if is_unread:  # else the server would read the body to its end
                    added["Connection"] = "close"
            elif is_unread and not is_chunked and not message.get("more_body", False):
                # A client that still sends loses the response if the connection is
                # closed at once. Browsers send no chunks, and for a malformed one
                # uvicorn would log a traceback.
                await send({**message, "more_body": True})
                await _drop_body(receive)
                message = {"type": "http.response.body"}
            await send(message)

        refused = self._find_problem(scope["method"], headers)
        app = (
            self.app
            if refused is None
            else PlainTextResponse(refused[1] + "\n", refused[0])
        )
        await app(scope, receive_watched, send_secured)

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
        return None


async def _drop_body(receive: Receive) -> None:
    """Read what a client sends within `LINGER_SECONDS`, at most one file."""
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while size <= MAX_FILE_BODY_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


class Viewer(StaticFiles):
    """Files of the viewer by name; a page needs no suffix."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        if not re.fullmatch(r"[\w.-]+", path):
            return "", None
        return super().lookup_path(path if "." in path else f"{path}.html")


class Server:
    """Requests of the API in thread pools."""

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
        path = request.path_params["path"]
        try:
            data = await _read_body(request, path)
        except HTTPException as refused:
            return _send_error(refused.status_code, refused.detail)
        except ClientDisconnect:
            return Response(status_code=499)
        gone = Event()
        context = Context(self.models, gone.is_set, self.loaded)
        watcher = asyncio.create_task(_wait_for_disconnect(request.receive, gone))
        try:
            return await self._compute(path, data, context)
        except Cancelled:
            return Response(status_code=499)
        except Exception as problem:
            return _send_problem(problem)
        finally:
            watcher.cancel()

    async def _compute(self, path: str, data: bytearray, context: Context) -> Response:
        if len(data) <= MAX_QUICK_BYTES:
            body = _parse_json(data)
            pool = choose_pool(path, body)
            work = partial(_handle, path, body, context)
        else:  # parsed where it is answered, so that one large value exists at once
            pool = "large"
            work = partial(_parse_and_handle, path, data, context)
        return await asyncio.get_running_loop().run_in_executor(self.pools[pool], work)


async def _read_body(request: Request, path: str) -> bytearray:
    """Return the body of a request; raise HTTPException if it is too large or slow, or
    has no length.
    """
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or "transfer-encoding" in request.headers:
        raise HTTPException(411, "The length of the content must be given.")
    most = MAX_FILE_BODY_BYTES if path in FILE_PATHS else MAX_BODY_BYTES
    if int(length) > most:
        got = f"Got {int(length):,}. Send less, or use the command line."
        raise HTTPException(413, f"The content must have at most {most:,} bytes. {got}")
    data = bytearray()
    try:
        async with asyncio.timeout(MAX_BODY_SECONDS):
            async for part in request.stream():
                data += part
    except TimeoutError:
        must = f"The content must arrive within {MAX_BODY_SECONDS:g} seconds."
        raise HTTPException(408, f"{must} Got a part of it. Try again.") from None
    return data


def _handle(path: str, body: Any, context: Context) -> Response:
    reply = handle(path, body, context)
    headers = {"Cache-Control": "no-store"}
    if reply.file is None:
        return Response(
            reply.to_bytes(), media_type="application/octet-stream", headers=headers
        )
    headers["Content-Disposition"] = f'attachment; filename="{reply.name}"'
    return Response(reply.file, media_type=reply.media_type, headers=headers)


def _parse_and_handle(path: str, data: bytearray, context: Context) -> Response:
    if context.stopped():  # while the request waited
        raise Cancelled
    body = _parse_json(data)
    data.clear()
    return _handle(path, body, context)


def _send_error(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)


def _send_problem(problem: Exception) -> Response:
    """Return an error as one sentence; a bug is logged, and its traceback stays on the
    server.
    """
    is_input = isinstance(problem, InputError | MissingExtra | OSError)
    return _send_error(400 if is_input else 500, describe_problem(problem))


async def _wait_for_disconnect(receive: Receive, gone: Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


def _parse_json(data: bytearray) -> Any:
    """Return the value of JSON in UTF-8; halves of surrogate pairs become U+FFFD."""
    if data.count(b"[") + data.count(b"{") > MAX_LISTS:
        must = f"A request must have at most {MAX_LISTS:,} lists and objects."
        raise InputError(f"{must} Got more. Send less, or use the command line.")
    try:
        text = ESCAPE.sub(_replace_half, data.decode())
        # The parser is C and does not release the GIL; calls of Python functions let
        # other threads run.
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=lambda digits: float(digits),
            parse_int=lambda digits: int(digits),
        )
    except (ValueError, RecursionError):
        must = "A request must be JSON in UTF-8 with finite numbers."
        raise InputError(f"{must} Got something else. Load the page again.") from None


def _replace_half(escape: re.Match[str]) -> str:
    return "\N{REPLACEMENT CHARACTER}" if escape["half"] else escape[0]


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


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

    quiet: Any = {"log_level": "error", "access_log": False, "server_header": False}
    Announced(
        uvicorn.Config(
            app, host=address, port=port, timeout_graceful_shutdown=1, **quiet
        )
    ).run()
