"""Live pictures: pages that play in the browser, made by Python, inside the pages of the site.

    ```{live} three_tokens
    ```

shows what `page()` of `docs/course/pictures/three_tokens.py` returns: a `hardmax.draw.pages.Page`, as `hm.interactive`
makes it, or as `shared.py` beside it does. Plotly's script, which such pages hold, is one file for all of them.
"""

import hashlib
import runpy
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from sphinx.util.docutils import SphinxDirective

from hardmax.draw.pages import Page

HEIGHT = 640  # pixels


class Live(SphinxDirective):
    """The directive `live`: a picture by its name, with its `title` for those who cannot see it."""

    required_arguments = 1
    option_spec = {"height": directives.nonnegative_int, "title": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Make the picture if its file has changed, and show it."""
        name, docs = self.arguments[0], Path(self.env.srcdir)
        source, parts = (docs / "course" / "pictures" / f"{stem}.py" for stem in (name, "shared"))
        for file in (source, parts):
            self.env.note_dependency(str(file))
        made = docs / "static" / "live" / f"{name}.html"
        mark = f"<!-- {hashlib.sha256(source.read_bytes() + parts.read_bytes()).hexdigest()} -->\n"
        if not (made.is_file() and made.read_text(encoding="utf-8").startswith(mark)):
            write(runpy.run_path(str(source))["page"](), made, mark)
        up = "../" * self.env.docname.count("/")
        title, height = self.options.get("title", name.replace("_", " ")), self.options.get("height", HEIGHT)
        return [nodes.raw("", frame(f"{up}_static/live/{name}.html", title, height), format="html")]


def frame(address: str, title: str, height: int = HEIGHT) -> str:
    """A page inside a page, and a link that shows it by itself."""
    return (
        f'<div class="live"><iframe src="{address}" title="{escape(title)}" height="{height}" loading="lazy"></iframe>'
        f'<p><a href="{address}">Open it by itself</a></p></div>'
    )


def write(page: Page, path: Path, mark: str = "") -> None:
    """Write a page beside Plotly's script, which it then loads from there instead of holding it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    script = get_plotlyjs()
    shared = path.parent / f"plotly-{get_plotlyjs_version()}.min.js"
    if not shared.is_file():
        shared.write_text(script, encoding="utf-8")
    before, found, after = str(page).partition(script)
    if found:  # whatever the attributes of its tag are
        before, after = before[: before.rindex("<script")], after.removeprefix("</script>")
        found = f'<script src="{shared.name}"></script>'
    path.write_text(f"{mark}{before}{found}{after}", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx of the directive."""
    app.add_directive("live", Live)
    return {"parallel_read_safe": True}
