"""`hardmax app`."""

import os
import socket
import sys
from typing import Annotated

from hardmax._errors import ParameterError, needed_for
from hardmax.cli import output
from hardmax.cli.options import UNSAID, option
from hardmax.cli.texts import Model, load

MAX_PORT = 65_535


def app(
    port: Annotated[int, option("--port", "Port; 0 chooses a free one.")] = 5006,
    address: Annotated[str, option("--address", "Address to listen on; by default this machine only.")] = "127.0.0.1",
    origins: Annotated[
        list[str] | None,
        option(
            "--allow-websocket-origin",
            "Further host:port of pages. May be repeated.",
            metavar="HOST",
            **UNSAID,
        ),
    ] = None,
    browser: Annotated[bool, option("--browser/--no-browser", "Open the app in a browser.")] = True,
    model: Model = "imdb",
) -> None:
    """Start the web app: move tokens and see their leaders, type a text and see its explanation, cluster points.

    It runs on this machine, needs no network, and stops with Ctrl-C.
    """
    if not 0 <= port <= MAX_PORT:
        raise ParameterError("port", f"be a number from 0 to {MAX_PORT}", port)
    if any("*" in origin for origin in origins or []):
        raise ParameterError("origins", "name hosts, such as talk.example.org:5006", "a *", "Name each.")
    with needed_for("`hardmax app`", "Panel", "app"):
        from hardmax.app.app import serve
    if model != "imdb":
        load(model)  # an invalid folder is an error before the server starts
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
        os._exit(0)  # without waiting for threads that still compute


def _free_port(address: str, port: int) -> int:
    """Return the port if it is free; for 0 a free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            got = f"{port}: {error.strerror}"
            raise ParameterError("port", "be free", got, "Choose another port, or 0 for any free one.") from None
        return int(probe.getsockname()[1])
