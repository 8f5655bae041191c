"""Pages in headless Chromium: Debian's, driven by Playwright."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
# seconds: on a busy machine the first answer compiles; all waits together must not
# outlast a test's 300
LATE = 90
needed = pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="needs playwright and chromium: apt-get install chromium",
)


@contextmanager
def served(*options: str) -> Iterator[str]:
    """Start an app, and yield its address."""
    command = [
        sys.executable,
        "-u",
        "-m",
        "hardmax.cli.main",
        "app",
        "--port",
        "0",
        "--no-browser",
        *options,
    ]
    with (
        tempfile.TemporaryFile("w+") as log,  # a pipe that is not read would fill up
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True
        ) as server,
    ):
        late = threading.Timer(LATE, server.kill)
        late.start()
        line = server.stdout.readline()
        late.cancel()
        try:
            found = re.search(r"http://localhost:(\d+)/", line)
            assert found, f"the app did not start within {LATE} seconds: {line}"
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.communicate(timeout=LATE)
            except subprocess.TimeoutExpired:
                server.kill()
                raise
        log.seek(0)
        errors = log.read()
    assert "Traceback" not in errors, errors


@contextmanager
def jupyter(folder: Path) -> Iterator[str]:
    """Start JupyterLab in a folder, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        f"--ServerApp.root_dir={folder}",
        f"--port={port}",
        "--IdentityProvider.token=",
        "--allow-root",
    ]
    options += [
        "--no-browser",
        "--expose-app-in-browser",
        "--LabApp.news_url=None",
        "--ServerApp.port_retries=0",
    ]
    command = [sys.executable, "-m", "jupyterlab", *options]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as server,
    ):
        try:
            end = time.monotonic() + LATE
            while not _is_open(port):
                late = server.poll() is not None or time.monotonic() > end
                assert not late, (
                    f"JupyterLab did not start: {log.seek(0) or log.read()}"
                )
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


@contextmanager
def started() -> Iterator[Any]:
    """Start Chromium for many pages, with a profile: compiled scripts are cached, which
    halves the time of a page.
    """
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * LATE)
    how = {
        "executable_path": CHROMIUM,
        "args": ["--no-sandbox"],
        "timeout": 1000 * LATE,
    }
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch_persistent_context(profile, **how)
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def opened(
    chromium: Any, size: tuple[int, int] = (1280, 900), color_scheme: str = "light"
) -> Iterator[Any]:
    """Open a page that collects errors and requests to other hosts in `page.problems`."""
    page = chromium.new_page()
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=color_scheme)
    page.set_default_timeout(1000 * LATE)
    page.problems = []
    page.on(
        "console",
        lambda message: message.type == "error" and page.problems.append(message.text),
    )
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on(
        "request",
        lambda request: _is_foreign(request.url) and page.problems.append(request.url),
    )
    page.on(
        "websocket",
        lambda socket: _is_foreign(socket.url) and page.problems.append(socket.url),
    )
    try:
        yield page
    finally:
        if page.url.startswith(("http", "file")):
            page.evaluate(
                "() => localStorage.clear()"
            )  # the next page is another visitor's
        page.close()


def unfriendly(page: Any, *excluded: str) -> list[str]:
    """Return the serious and critical violations of WCAG that axe-core finds on a page,
    without excluded selectors.
    """
    from axe_playwright_python.sync_playwright import Axe

    options = {
        "preload": False,
        "resultTypes": ["violations"],
        "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    }
    context = {"exclude": [[selector] for selector in excluded]} if excluded else None
    found = Axe().run(page, context, options).response["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html']}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _is_foreign(url: str) -> bool:
    return url.startswith(("http", "ws")) and "//127.0.0.1:" not in url
