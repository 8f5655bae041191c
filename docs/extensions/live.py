"""Live pictures: pages with a player inside the pages of the site.

    ```{live} three_tokens
    ```

shows the page that `page()` of `docs/course/pictures/three_tokens.py` returns: a
`hardmax.draw.pages.Page`, made by `hm.interactive` or by `shared.py` in the same
folder.
"""

import hashlib
import runpy
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from hardmax.draw.pages import Page

HEIGHT = 640  # pixels


class Live(SphinxDirective):
    """The directive `live`: a picture by its name, with its `title` for screen readers."""

    required_arguments = 1
    option_spec = {
        "height": directives.nonnegative_int,
        "title": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Write the picture if its source has changed, and return its frame."""
        name, docs = self.arguments[0], Path(self.env.srcdir)
        source, parts = (
            docs / "course" / "pictures" / f"{stem}.py" for stem in (name, "shared")
        )
        for file in (source, parts):
            self.env.note_dependency(str(file))
        made = docs / "static" / "live" / f"{name}.html"
        mark = (
            "<!--"
            f" {hashlib.sha256(source.read_bytes() + parts.read_bytes()).hexdigest()}"
            " -->\n"
        )
        if not (made.is_file() and made.read_text(encoding="utf-8").startswith(mark)):
            write(runpy.run_path(str(source))["page"](), made, mark)
        up = "../" * self.env.docname.count("/")
        title, height = (
            self.options.get("title", name.replace("_", " ")),
            self.options.get("height", HEIGHT),
        )
        return [
            nodes.raw(
                "", frame(f"{up}_static/live/{name}.html", title, height), format="html"
            )
        ]


def frame(address: str, title: str, height: int = HEIGHT) -> str:
    """Return HTML that shows a page inside a page, and a link to it."""
    return (
        f'<div class="live"><iframe src="{address}" title="{escape(title)}"'
        f' height="{height}" loading="lazy"></iframe><p><a href="{address}">Open it by'
        " itself</a></p></div>"
    )


def write(page: Page, path: Path, mark: str = "") -> None:
    """Write a page to a file, after a comment that identifies its source."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{mark}{page}", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("live", Live)
    return {"parallel_read_safe": True}
