"""Screenshots of the app: `make screenshots` writes those of the docs.

`python -m studies.screenshots FOLDER` writes every page in light and dark, wide, narrow
and small.
"""

import sys
import time
from pathlib import Path
from typing import Any

from tests import browser

import hardmax as hm
from hardmax.draw.pages import trajectory_page
from studies.app_load import make_link

DOCS = Path(__file__).parents[1] / "docs" / "images"
SIZES = {"": (1280, 800), "-narrow": (800, 1000), "-small": (800, 600)}


def make_scene(
    name: str, overlays: tuple[str, ...] = ("trails", "polytope"), **values: Any
) -> dict[str, Any]:
    """Return a scene of a configuration; `n`, `d` and `seed` are those of random
    tokens.
    """
    random = {key: values.pop(key) for key in ("n", "d", "seed") if key in values}
    return {
        "tokens": hm.configuration(name, **random).round(4).tolist(),
        "overlays": list(overlays),
        **values,
    }


PAGES = {  # with the hash of the address; "page" is an exported one
    "playground": make_link(
        make_scene("ball", ("trails", "polytope", "cells"), n=60, seed=3, shown=2)
    ),
    "attention": make_link(
        make_scene(
            "gaussian",
            ("trails", "hulls", "half-space", "attention", "numbers"),
            n=24,
            seed=4,
            shown=1,
            selected=3,
        )
    ),
    "turning": make_link(make_scene("ball", n=60, d=3, seed=1)),
    "softmax": make_link(
        make_scene("square", rule="softmax", temperature=0.3, shown=4)
    ),
    "presenter": make_link(make_scene("emerging-leader", shown=3)),
    "page": "",
    "reviews": "",
}


def take(
    chromium: Any,
    address: str,
    folder: Path,
    name: str,
    size: str = "",
    scheme: str = "light",
) -> None:
    """Write one screenshot of one page."""
    path = f"{address}/{'reviews' if name == 'reviews' else 'playground'}{PAGES[name]}"
    if name == "page":
        exported = folder / "page.html"
        run = hm.simulate(
            hm.configuration("ball", n=60, d=3), hm.Hardmax(0.5), layers=30
        )
        exported.write_text(trajectory_page(run, "ball"), encoding="utf-8")
        path = exported.resolve().as_uri()
    with browser.opened(chromium, SIZES[size], scheme) as page:
        page.goto(path)
        page.locator(".hm-word, .hm-verdict h2, .hm-player .hm-play").first.wait_for()
        if name == "presenter":
            page.keyboard.press("f")
        time.sleep(0.5)  # until the picture is drawn
        if name == "attention":
            page.locator(".hm-attention canvas").scroll_into_view_if_needed()
        page.screenshot(
            path=folder / f"app-{name}{size}{'-dark' if scheme == 'dark' else ''}.png"
        )


def main(folder: Path | None) -> None:
    """Write the screenshots of the docs, or every page to a folder."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        shots = [
            (name, size, scheme)
            for name in PAGES
            for size in SIZES
            for scheme in ("light", "dark")
        ]
    else:
        shots = [
            ("playground", "", "light"),
            ("attention", "", "dark"),
            ("reviews", "", "light"),
        ]
    with browser.served() as address, browser.started() as chromium:
        for shot in shots:
            take(chromium, address, folder or DOCS, *shot)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
