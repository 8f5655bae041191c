"""The site that `make docs` built, in a browser: no other host, every link, search, two
colour schemes and widths, axe.

`make test-docs` builds it and runs these.
"""

import re
import threading
from collections.abc import Iterator
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest

pytest.importorskip("playwright")

from tests import browser

QUERIES = {  # a search, and a part of an address among its results
    "choose_A": "reference/control",
    "hyperplanes": "theorems",
    "exercise": "course/",
    "n-gram": "classifier",
    "hyperparameter": "notation",
    "Lyapunov function": "course/1-",
    "mean-field": "related-work",
    "tie": "course/4-",
    "interpretability": "notation",
    "attribution": "reference/",
    "fixed point": "course/",
    "metastability": "course/5-",
    "autocast": "reference/attention",
    "ONNX": "troubleshooting",
    "duplicates": "notation",
    "groups": "notation",
}
SITE = Path(__file__).parents[1] / "site"
PAGES = sorted(
    path for path in SITE.rglob("*.html") if not {"_static", "_modules"} & {*path.parts}
)
VIEWS = [(scheme, width) for scheme in ("light", "dark") for width in (800, 1280)]
REPEATED = (
    "tbody tr:nth-child(n+6)",
    "pre span:nth-of-type(n+60)",
)  # rows and code like those before them
MAX_REFERENCE_HEIGHT = 8000  # pixels, with folded entries
pytestmark = [pytest.mark.site, browser.needed]


class Links(HTMLParser):
    """What a page points to, and where one can point into it."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = {"", "top"}

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        given = dict(attributes)
        self.targets |= {
            value for name in ("href", "src") if (value := given.get(name))
        }
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}


@cache
def links(page: Path) -> Links:
    found = Links()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def test_the_site_is_there() -> None:
    assert len(PAGES) > 80, "make docs builds it"


def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in links(page).targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            path = path / "index.html" if path.is_dir() else path
            if not path.is_file() or (
                path.suffix == ".html"
                and SITE in path.parents
                and path in PAGES
                and unquote(parts.fragment) not in links(path).anchors
            ):
                broken.append(f"{page.relative_to(SITE)}: {target}")
    assert not broken


def test_formulas_are_drawn_by_a_file_of_the_site() -> None:
    pages = [
        page for page in PAGES if 'class="math' in page.read_text(encoding="utf-8")
    ]
    assert len(pages) > 8
    assert all(
        re.search(r"_static/mathjax/tex-svg\.js", page.read_text(encoding="utf-8"))
        for page in pages
    )


@pytest.mark.parametrize("start", range(len(VIEWS)))
def test_pages_fit_are_accessible_and_use_no_other_host(
    start: int, chromium: Any
) -> None:
    """Open each page in one view, in turn, for axe, and then in the other colours with
    the other width.
    """
    wide, found, views = [], {}, (VIEWS[start], VIEWS[-1 - start])
    with browser.opened(chromium) as page:
        for path in PAGES[start :: len(VIEWS)]:
            name = path.relative_to(SITE).as_posix()
            for view, (scheme, width) in enumerate(views):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 900})
                if view == 0:
                    page.goto(path.as_uri(), wait_until="load")
                    found[name] = browser.unfriendly(page, *REPEATED)
                page.wait_for_function(
                    "scheme => document.documentElement.dataset.theme === scheme",
                    arg=scheme,
                )
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    wide.append(f"{name} at {width}")
            height = page.evaluate("document.body.scrollHeight")
            if path.parent.name == "reference" and height > MAX_REFERENCE_HEIGHT:
                found[name].append(f"a height of {height} pixels")
        assert page.problems == []
    assert not wide
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The site as a server gives it, without words about each request."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=SITE)
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    "served", [True, False], ids=["served", "opened from the disk"]
)
def test_search_finds_a_name_a_theorem_and_a_word_of_the_course(
    served: bool, address: str, chromium: Any
) -> None:
    with browser.opened(chromium) as page:
        for query, found in QUERIES.items():
            page.goto(
                f"{address if served else SITE.as_uri()}/search.html?q={quote(query)}"
            )
            page.locator("#search-results li a").first.wait_for()
            page.wait_for_function(
                "() =>"
                " /found|matched/i.test(document.querySelector('#search-results').innerText)"
            )
            assert any(
                found in link.get_attribute("href")
                for link in page.locator("#search-results li a").all()
            ), query
        assert (
            page.problems == [] or not served
        )  # from the disk results have no excerpts: a page may not read others


def test_a_reader_chooses_light_or_dark(chromium: Any) -> None:
    with browser.opened(chromium, color_scheme="light") as page:
        page.goto((SITE / "index.html").as_uri())
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role(
            "button", name=re.compile("color mode|theme", re.IGNORECASE)
        ).first.click()
        page.get_by_text("Dark", exact=True).first.click()
        page.wait_for_function(
            "() => document.documentElement.dataset.theme === 'dark'"
        )
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        )


def test_an_address_opens_the_folded_entry(chromium: Any) -> None:
    with browser.opened(chromium) as page:
        page.goto(
            f"{(SITE / 'reference' / 'control.html').as_uri()}#hardmax.control.choose_A"
        )
        page.wait_for_function(
            "() =>"
            " document.getElementById('hardmax.control.choose_A').getClientRects().length > 0"
        )
        page.evaluate(
            "() => document.querySelectorAll('details').forEach(entry => entry.open ="
            " true)"
        )
        assert browser.unfriendly(page) == []


def test_every_example_shows_its_time() -> None:
    shown = [
        page
        for page in PAGES
        if "gallery" in page.parts
        and "sphx-glr-timing" in page.read_text(encoding="utf-8")
    ]
    assert len(shown) >= 30
    for page in shown:
        text = page.read_text(encoding="utf-8")
        assert "Total running time of the script" in text
        assert "_images/sphx_glr_" in text or "_static/live/" in text, page.name
