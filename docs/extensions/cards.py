"""Cards that link to pages, one line for each, which are also the hidden table of
contents.

    ```{cards}
    model | The model | The hardmax rule and its assumptions.
    ```

shows a grid of cards: the name of a page, the title and the description of its card.
"""

from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Cards(SphinxDirective):
    """The directive `cards`."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a grid of sphinx-design with one card for each line, and a toctree."""
        lines, pages = ["::::{grid} 1 2 3 3", ":gutter: 3", ""], list[str]()
        for line in filter(None, self.content):
            page, title, description = (part.strip() for part in line.split("|"))
            lines += [
                f":::{{grid-item-card}} {title}",
                f":link: {page}",
                ":link-type: doc",
                description,
                ":::",
            ]
            pages.append(page)
        return self.parse_text_to_nodes(
            "\n".join([*lines, "::::", "```{toctree}", ":hidden:", "", *pages, "```"])
        )


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("cards", Cards)
    return {"parallel_read_safe": True}
