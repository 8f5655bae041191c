"""Speed and memory of the app: `python -m studies.measure app`.

It starts `hardmax app`, opens the playground in Chromium, drags a token, and lets HTTP
clients drag at the same time. A failed request or a wrong answer is an error, and
nothing is recorded.
"""

import base64
import json
import math
import shutil
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from benchmarks import report
from benchmarks.registry import Progress

import hardmax as hm

N = 200  # tokens
CLIENTS, SECONDS, PAGES = 20, 30.0, 100
MIN_EVENT_SECONDS = 0.033  # between two events of a client: 30 per second
MAX_SECONDS = 60.0  # until a page or an answer must have come
FIRST_PAGES = 10  # after which the memory must not grow
CHECKED = 20  # one answer of this many is compared with `hm.simulate`
READY = "() => window.playground && window.playground.answer ? performance.now() : 0"
POSITION = """token => {
  const [x, y] = playground.picture.project(playground.tokens.at(0, token));
  const box = playground.picture.canvas.getBoundingClientRect();
  return [x + box.x, y + box.y];
}"""


def make_link(scene: Mapping[str, Any]) -> str:
    """Return the hash of an address that shows a scene: base64url of raw-deflate JSON."""
    packed = zlib.compress(json.dumps(scene).encode(), wbits=-15)
    return "#s=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def make_tokens(seed: int = 0) -> list[list[float]]:
    return np.round(hm.configuration("gaussian", n=N, seed=seed), 4).tolist()


@contextmanager
def open_page(
    browser: Any, address: str, link: str = ""
) -> Iterator[tuple[Any, float]]:
    """Open the playground with an empty cache; yield the page and the seconds until the
    first answer was drawn.
    """
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.goto(f"{address}/playground{link}", wait_until="commit")
        end = time.monotonic() + MAX_SECONDS
        while not (
            milliseconds := page.evaluate(READY)
        ):  # the policy of the app forbids `wait_for_function`
            assert time.monotonic() < end, (
                f"The playground must be ready within {MAX_SECONDS:g} seconds."
            )
            time.sleep(0.005)
        yield page, milliseconds / 1e3


def drag_in_browser(browser: Any, address: str, seconds: float) -> list[float]:
    """Return the milliseconds from the event of each step of a drag in Chromium until
    its answer is drawn.
    """
    with open_page(browser, address, make_link({"tokens": make_tokens()})) as (page, _):
        x, y = page.evaluate(POSITION, 7)
        page.mouse.move(x, y)
        page.mouse.down()
        page.evaluate("() => { playground.delays = []; }")
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            page.mouse.move(x + 60 * math.sin(3 * left), y + 60 * math.cos(3 * left))
            time.sleep(1 / 60)
        return list(page.evaluate("() => playground.delays"))


def drag_as_client(
    address: str, seed: int, seconds: float
) -> tuple[list[float], list[str]]:
    """Drag a token in a circle; return the milliseconds until each answer, and a
    sentence for each error.
    """
    import httpx

    tokens, delays, errors, answers = make_tokens(seed), [], [], []
    (x, y), end = tokens[seed], time.perf_counter() + seconds
    with httpx.Client(
        base_url=address, headers={"Origin": address}, timeout=MAX_SECONDS
    ) as client:
        while (now := time.perf_counter()) < end:
            tokens[seed] = [
                round(x + math.cos(3 * now), 4),
                round(y + math.sin(3 * now), 4),
            ]
            try:
                reply = client.post(
                    "/api/scene",
                    json={"scene": {"tokens": tokens, "selected": seed}, "quick": True},
                )
                reply.raise_for_status()
                delays.append(1e3 * (time.perf_counter() - now))
                if len(delays) % CHECKED == 1:
                    answers.append((np.array(tokens), reply.content))
            except httpx.HTTPError as error:
                errors.append(f"{type(error).__name__}: {error}")
            time.sleep(max(0.0, now + MIN_EVENT_SECONDS - time.perf_counter()))
    for scene, data in answers:
        header = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
        if (
            header["leaders"]
            != hm.simulate(scene, hm.Hardmax(0.5), layers=30).leaders.tolist()
        ):
            errors.append("An answer has other leaders than hm.simulate.")
    return delays, errors


def make_row(
    measurement: str, unit: str, values: Sequence[float], errors: int | None = None
) -> dict[str, Any]:
    """Return a row of the table; a 95th percentile needs 20 values."""
    most = float(np.quantile(values, 0.95)) if len(values) >= 20 else None
    numbers = {
        "median": float(np.median(values)),
        "95th percentile": most,
        "samples": len(values),
    }
    return {"measurement": measurement, "unit": unit, **numbers, "errors": errors}


def measure(quick: bool, progress: Progress) -> dict[str, Any]:
    """Return all rows."""
    import psutil
    from playwright.sync_api import sync_playwright
    from tests.browser import served

    clients, seconds, pages = (
        (2, 2.0, FIRST_PAGES) if quick else (CLIENTS, SECONDS, PAGES)
    )
    progress(f"{pages} pages, and {clients} clients for {seconds:g} seconds")
    began = time.perf_counter()
    with served() as address:
        ready, times = time.perf_counter() - began, []
        (server,) = psutil.Process().children()
        memory = {"before the first page": server.memory_info().rss / 1e6}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for k in range(1, pages + 1):
                with open_page(browser, address) as (_, interactive):
                    times.append(interactive)
                if k in (FIRST_PAGES, pages):
                    memory[f"after {k} pages"] = server.memory_info().rss / 1e6
            dragged = drag_in_browser(browser, address, min(seconds, 10.0))
            browser.close()
        with ThreadPoolExecutor(clients) as pool:
            found = list(
                pool.map(
                    lambda seed: drag_as_client(address, seed, seconds), range(clients)
                )
            )
    delays, errors = (
        [value for values in column for value in values]
        for column in zip(*found, strict=True)
    )
    if errors:
        raise RuntimeError(" ".join(sorted(set(errors))))
    rows = [
        make_row("start of the server", "s", [ready]),
        make_row("playground interactive in Chromium", "s", times),
        make_row(
            f"drag in Chromium, from event to drawn answer, n = {N}", "ms", dragged
        ),
        make_row(f"step of a drag, {clients} HTTP clients, n = {N}", "ms", delays, 0),
        *(
            make_row(f"memory of the server {when}", "MB", [size])
            for when, size in memory.items()
        ),
    ]
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "rows": rows}


def markdown(found: dict[str, Any]) -> str:
    """Return the table of README.md."""
    facts = {
        key: found["machine"][key]
        for key in ("processor", "cores", "hardmax", "Python", "numpy")
    }
    columns = {key: key for key in found["rows"][0]}
    return report.with_machine(
        found | {"machine": facts}, report.table(found["rows"], columns, ("unit",))
    )
