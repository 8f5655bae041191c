"""Refuse requests whose Host header names another host: DNS rebinding makes a foreign page reach this server.

A browser sends the name that the page's author chose, although it resolves to this machine; the Origin is the same
name, so a check of the Origin against the Host does not see it.
"""

import re
from collections.abc import Iterable
from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.web import Application, RequestHandler

LOCAL_HOSTS = ("localhost", "127.0.0.1")


class Refused(RequestHandler):
    """Answer with status 403, whatever the method."""

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish("Host not allowed. Start the app with --allow-websocket-origin HOST:PORT.\n")


def host_name(host: str) -> str:
    """Return the name in NAME or NAME:PORT, in lower case; an empty string for anything else.

    Examples
    --------
    >>> host_name("Talk.Example.org:5006"), host_name("[::1]:80"), host_name("localhost."), host_name("localhost:1, a")
    ('talk.example.org', '[::1]', 'localhost', '')
    """
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^\s,:\[\]]+?)\.?(:\d+)?", host.lower())
    return found[1] if found else ""


def allow_hosts(application: Application, hosts: Iterable[str]) -> None:
    """Let an application answer requests to this machine's local names and to `hosts`, pages and sockets alike."""
    allowed, find = {*LOCAL_HOSTS, *filter(None, map(host_name, hosts))}, application.find_handler

    def find_handler(request: HTTPServerRequest, **options: Any) -> Any:
        if host_name(request.host) in allowed:
            return find(request, **options)
        return application.get_handler_delegate(request, Refused)

    application.find_handler = find_handler  # type: ignore[method-assign]
