"""`hardmax app`."""

import errno
import os
import socket
import sys
from contextlib import suppress
from typing import Annotated

from hardmax._errors import ParameterError, needed_for
from hardmax.cli import output
from hardmax.cli.options import option
from hardmax.cli.texts import Encoder, Model

MAX_PORT, MAX_TRIED_PORTS = 65_535, 20


def app(
    port: Annotated[
        int, option("--port", "Port; 0 chooses a free one.", min=0, max=MAX_PORT)
    ] = 5006,
    address: Annotated[
        str, option("--address", "Address to listen on; by default this machine only.")
    ] = "127.0.0.1",
    hosts: Annotated[
        list[str] | None,
        option(
            "--allow-host",
            "Further Host name in the address of the app; repeatable.",
            metavar="NAME",
        ),
    ] = None,
    browser: Annotated[
        bool, option("--browser/--no-browser", "Open the app in a browser.")
    ] = True,
    model: Model = "imdb",
    encoder: Encoder = None,
) -> None:
    """Start the web app: move tokens and see their leaders, type a text and see its
    explanation.

    It runs on this machine, needs no network, and stops with Ctrl-C.
    """
    if any("*" in host for host in hosts or []):
        raise ParameterError(
            "hosts",
            "be names, such as talk.example.org",
            "a *",
            "Repeat --allow-host for each name.",
        )
    with needed_for("`hardmax app`", "Starlette", "app"):
        from hardmax.app.server import make_app, serve
    if model != "imdb" or encoder is not None:
        from hardmax.app.texts import load

        load(model, encoder)  # an invalid folder is an error before the server starts
    port = find_free_port(address, port)
    shown = f"[{address}]" if ":" in address else address
    url = f"http://{'localhost' if address == '127.0.0.1' else shown}:{port}/playground"

    def announce() -> None:
        output.say(f"hardmax is at {url}. Stop it with Ctrl-C.")
        sys.stdout.flush()
        if browser:
            import webbrowser

            webbrowser.open(url)

    with suppress(KeyboardInterrupt):
        made = make_app(hosts=[shown, *(hosts or [])], model=model, encoder=encoder)
        serve(made, address=address, port=port, started=announce)
    output.say("Stopped.")
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads that still compute


def find_free_port(address: str, port: int) -> int:
    """Return the port if it is free; for 0 a free port. The error for a busy port names
    the next free one.
    """
    problem, advice = "", "Use --port 0 for any free port."
    for tried in range(port, min(port + MAX_TRIED_PORTS, MAX_PORT) + 1):
        with socket.socket(
            socket.AF_INET6 if ":" in address else socket.AF_INET
        ) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, tried))
            except OSError as error:
                if error.errno != errno.EADDRINUSE and not isinstance(
                    error, PermissionError
                ):
                    must = "be an address of this machine"
                    raise ParameterError(
                        "address", must, f"{address}: {error.strerror}"
                    ) from None
                problem = problem or str(error.strerror)
                continue
            if tried == port:
                return int(probe.getsockname()[1])
            advice = f"Port {tried} is free: --port {tried}"
            break
    raise ParameterError("port", "be free", f"{port}: {problem}", advice)
