"""`hardmax app`."""

import os
import socket
import sys
from typing import Annotated

from hardmax._errors import ParameterError, needed_for
from hardmax.cli import output
from hardmax.cli.options import UNSAID, option
from hardmax.cli.texts import Model, load

LAST_PORT = 65_535


def app(
    port: Annotated[int, option("--port", "Where to listen; 0 takes a free one.")] = 5006,
    address: Annotated[str, option("--address", "Which network to listen to: this machine alone.")] = "127.0.0.1",
    origins: Annotated[
        list[str] | None,
        option(
            "--allow-websocket-origin", "A host:port that pages may come from; several times.", metavar="HOST", **UNSAID
        ),
    ] = None,
    browser: Annotated[bool, option("--browser/--no-browser", "Open the page.")] = True,
    model: Model = "imdb",
) -> None:
    """Open the app: drag a token and watch the leaders change; type a review and see why.

    It runs on this machine, asks no other, and stops with Ctrl-C.
    """
    if not 0 <= port <= LAST_PORT:
        raise ParameterError("port", f"be a number from 0 to {LAST_PORT}", port)
    if any("*" in origin for origin in origins or []):
        raise ParameterError("origins", "name hosts, such as talk.example.org:5006", "a *", "Name each.")
    with needed_for("`hardmax app`", "Panel", "app"):
        from hardmax.app.app import serve
    if model != "imdb":
        load(model)  # a wrong folder is said before anything opens
    port = _free_port(address, port)
    allowed = [f"{address}:{port}", f"localhost:{port}", *(origins or [])]
    server = serve(address=address, port=port, origins=allowed, model=model)
    url = f"http://{'localhost' if address == '127.0.0.1' else address}:{port}/playground"
    server.start()
    output.say(f"hardmax is at {url}. Stop it with Ctrl-C.")
    if browser:
        import webbrowser

        server.io_loop.call_later(0.1, webbrowser.open, url)
    try:
        server.io_loop.start()
    except KeyboardInterrupt:
        server.stop()
        output.say("Stopped.")
        sys.stdout.flush()
        os._exit(0)  # what is still computed has nobody to answer, and Python would wait for it


def _free_port(address: str, port: int) -> int:
    """That port if it is free; for 0 one that is."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            got = f"{port}: {error.strerror}"
            raise ParameterError("port", "be one that is free", got, "Choose another one, or 0 for any.") from None
        return int(probe.getsockname()[1])
