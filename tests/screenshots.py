"""Pictures of the app for the docs: `make screenshots` writes them to docs/images, or to a folder that is named."""

import sys
from pathlib import Path
from typing import Any

from hardmax.app.links import to_link
from hardmax.app.scene import Scene
from tests import browser

DOCS = Path(__file__).parents[1] / "docs" / "images"
SIZES = {"": (1280, 800), "-narrow": (800, 1000)}
PLAYGROUNDS = {
    "playground": Scene.of_cloud("ball", n=60, seed=3).changed(shown=2, overlays=["trails", "polytope", "cells"]),
    "attention": Scene.of_cloud("gaussian", n=24, seed=4).changed(
        shown=1, selected=3, overlays=["trails", "hulls", "half-space", "attention", "numbers"]
    ),
    "turning": Scene.of_cloud("ball", n=60, d=3, seed=1),
    "softmax": Scene.of_cloud("square").changed(rule="softmax", temperature=0.3, shown=4),
}
PATHS = {
    "reviews": "reviews?",
    "clusters": f"clusters?c={to_link({'example': 'moons', 'settings': {}, 'chosen': 113})}",
}


def shoot(chromium: Any, address: str, folder: Path, name: str, size: str, theme: str) -> None:
    """One picture of one page."""
    path = f"playground?s={PLAYGROUNDS[name].to_link()}" if name in PLAYGROUNDS else PATHS[name]
    with browser.opened(chromium, SIZES[size]) as page:
        page.goto(f"{address}/{path}&theme={theme}")
        page.locator(".hm-status, .word").first.wait_for()
        if name not in PLAYGROUNDS:
            page.locator(".bars, img").first.wait_for()
        page.wait_for_timeout(3000 if name == "turning" else 1200)  # fonts, and what Plotly turns in
        page.screenshot(path=folder / f"app-{name}{size}{'-dark' if theme == 'dark' else ''}.png")


def main(folder: Path, *, everything: bool) -> None:
    """Those of the docs; or every page, light and dark, wide and narrow, to look at."""
    folder.mkdir(parents=True, exist_ok=True)
    some = [("playground", "", "default"), ("attention", "", "dark"), ("reviews", "", "default")]
    some += [("clusters", "", "default")]
    names = [*PLAYGROUNDS, *PATHS]
    every = [(name, size, theme) for name in names for size in SIZES for theme in ("default", "dark")]
    with browser.served() as address, browser.started() as chromium:
        for name, size, theme in every if everything else some:
            shoot(chromium, address, folder, name, size, theme)


if __name__ == "__main__":
    elsewhere = sys.argv[1:]
    main(Path(elsewhere[0]) if elsewhere else DOCS, everything=bool(elsewhere))
