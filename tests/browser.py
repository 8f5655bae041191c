"""Pages in headless Chromium: Debian's, driven by Playwright."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
LATE = 90  # seconds: on a busy machine the first answer compiles; all waits together must not outlast a test's 300
needed = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")


@contextmanager
def served(*options: str) -> Iterator[str]:
    """The address of an app of its own."""
    command = [sys.executable, "-u", "-m", "hardmax.cli.main", "app", "--port", "0", "--no-browser", *options]
    with (
        tempfile.TemporaryFile("w+") as said,  # not a pipe, which nobody would empty
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as server,
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
        said.seek(0)
        errors = said.read()
    assert "Traceback" not in errors, errors


@contextmanager
def started() -> Iterator[Any]:
    """Chromium, for many pages: it takes seconds to start.

    With a profile, as a person has one: what it has compiled of the scripts of a page it keeps for the next, which
    takes half as long.
    """
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * LATE)
    how = {"executable_path": CHROMIUM, "args": ["--no-sandbox"], "timeout": 1000 * LATE}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, sync_playwright() as playwright:
        chromium = playwright.chromium.launch_persistent_context(profile, **how)
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def opened(chromium: Any, size: tuple[int, int] = (1280, 900), color_scheme: str = "light") -> Iterator[Any]:
    """A page that notes what goes wrong on it in `page.problems`: errors, and requests to other hosts."""
    page = chromium.new_page()
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=color_scheme)
    page.set_default_timeout(1000 * LATE)
    page.problems = []
    page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: _is_foreign(request.url) and page.problems.append(request.url))
    page.on("websocket", lambda socket: _is_foreign(socket.url) and page.problems.append(socket.url))
    try:
        yield page
    finally:
        if page.url.startswith(("http", "file")):
            page.evaluate("() => localStorage.clear()")  # the next page is another visitor's
        page.close()


def unfriendly(page: Any) -> list[str]:
    """What axe-core finds on a page that keeps people out, of serious and critical weight."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]


def tab_to(page: Any, name: str, most: int = 60) -> None:
    """Press Tab until what has the focus is called so, as somebody would who has no mouse."""
    seen = []
    for _ in range(most):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
        if seen[-1].startswith(name):
            return
    raise AssertionError(f"Tab does not come to {name}, but to {seen}")


FOCUSED = """() => {
  let at = document.activeElement;
  while (at && at.shadowRoot && at.shadowRoot.activeElement) at = at.shadowRoot.activeElement;
  const label = at.id && at.getRootNode().querySelector(`label[for="${at.id}"]`);
  return at.getAttribute("aria-label") || (label ? label.textContent : "") || at.textContent.trim() || at.value || "";
}"""


def _is_foreign(url: str) -> bool:
    return url.startswith(("http", "ws")) and "//127.0.0.1:" not in url
