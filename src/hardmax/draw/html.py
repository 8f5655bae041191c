"""Self-contained HTML pages, made from the templates in `templates/`: nothing in them is loaded from anywhere."""

import base64
import io
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._types import AnyArray
from hardmax._version import __version__
from hardmax.limit import Limit

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure


MOST_SHAPES = 3_000  # of a collection, beyond which its SVG would be megabytes
DOTS = 200  # an inch, of an image in its place


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    space: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    return Environment(loader=PackageLoader("hardmax.draw"), autoescape=True, undefined=StrictUndefined, **space)


def render(template: str, *, title: str, **values: object) -> str:
    """A whole page: a template, its heading and what it says; strings are escaped, save those marked as HTML."""
    return _templates().get_template(f"{template}.html.j2").render(title=title, version=__version__, **values)


class Picture(NamedTuple):
    """A picture inside a page: its bytes as an address, words for those who cannot see it, and a caption."""

    source: str
    alternative: str
    caption: str
    width: int = 0  # in rem; as wide as fits if 0

    @classmethod
    def of(cls, figure: "Figure", alternative: str, caption: str, *, width: int = 0) -> "Picture":
        """A figure as SVG, in which very many markers or lines are one image; the figure is closed."""
        import matplotlib.pyplot as plt

        for collection in (drawn for ax in figure.axes for drawn in ax.collections):
            if max(len(collection.get_paths()), len(np.asarray(collection.get_offsets()))) > MOST_SHAPES:
                collection.set_rasterized(True)
        buffer = io.BytesIO()
        with plt.rc_context({"svg.hashsalt": "hardmax"}):  # the same bytes on every run
            figure.savefig(buffer, format="svg", dpi=DOTS, metadata={"Date": None})
        plt.close(figure)
        data = base64.b64encode(buffer.getvalue()).decode()
        return cls(f"data:image/svg+xml;base64,{data}", alternative, caption, width)


def coordinates(point: AnyArray) -> str:
    """Return a point as text, shortened beyond six coordinates."""
    shown = ", ".join(f"{float(x):.4g}" for x in point[:6])
    return f"({shown}, ...)" if len(point) > 6 else f"({shown})"


def limit_points(limit: Limit, most: int) -> list[tuple[str, str, str, str]]:
    """Return rows of a table of the set S: the point, what it is, since which layer, how many tokens tend to it."""
    rows = []
    for p, point in enumerate(limit.points[:most]):
        tokens = np.flatnonzero(limit.clusters == p)
        if p < len(limit.leaders):
            what, since = f"leader {limit.leaders[p]}", str(limit.emerged[p])
        else:
            weights = limit.weights[tokens[0]]
            terms = [f"{w:.3g} x leader {i}" for w, i in zip(weights, limit.leaders, strict=True) if w > 0]
            what, since = " + ".join(terms) or "no combination of leaders", ""
        rows.append((coordinates(point), what, since, str(len(tokens))))
    if len(limit.points) > most:
        rows.append(("...", f"and {len(limit.points) - most} more", "", ""))
    if (limit.clusters < 0).any():
        rows.append(("", "undecided", "", str(int((limit.clusters < 0).sum()))))
    return rows
