"""Shared parts of the course's live pictures: frames of shapes for the player in
`hardmax.draw.player`, as one page.

Python computes every frame; the browser only draws.
"""

from html import escape
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from hardmax.draw.pages import Page
from hardmax.draw.player import embed
from hardmax.draw.style import COLOURS
from hardmax.polytope import Polytope

Shape: TypeAlias = dict[str, Any]
INTERVAL = 350  # milliseconds between two frames
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: .6rem 1rem; color: var(--hm-ink); background: var(--hm-paper); }
h1 { font-size: 1.1rem; margin: 0 0 .2rem; } .legend { margin: .2rem 0; color: var(--hm-muted); font-size: .9rem; }
.hm-picture canvas { height: 25rem; }
@media (min-width: 36rem) { /* the slider beside a single picture */
  .hm-player:not(:has(.hm-stage > :nth-child(2))) { display: grid; grid-template: auto 1fr / minmax(0, 1fr) 12rem;
    gap: 0 1rem; align-items: start; }
  .hm-player:not(:has(.hm-stage > :nth-child(2))) .hm-stage { grid-area: 1 / 1 / 3 / 2; }
  .hm-player:not(:has(.hm-stage > :nth-child(2))) .hm-controls { flex-direction: column; align-items: stretch; }
  .hm-player:not(:has(.hm-stage > :nth-child(2))) .hm-controls output { text-align: left; }
}
"""


class Frame(NamedTuple):
    """One position of the slider: its label, the sentence above the picture, and the
    content of each panel.
    """

    label: str
    sentence: str
    panels: list[Any]  # shapes of a picture, values of a chart


def page(
    frames: list[Frame],
    *panels: Shape,
    title: str,
    slider: str,
    legend: str,
    start: int = 0,
) -> Page:
    """Return a page with panels, a play button and a slider; the text `slider` precedes
    the label of a frame.
    """
    data = {
        "panels": list(panels),
        "frames": [frame._asdict() for frame in frames],
        "start": start,
        "slider": slider,
        "interval": INTERVAL,
    }
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = (
        f'<h1>{escape(title)}</h1>{embed(data)}<p class="legend">{escape(legend)}</p>'
    )
    return Page(
        "<!doctype html><html"
        f' lang="en"><head>{head}{view}</head><body>{body}</body></html>'
    )


def plane(low: Any, high: Any, *, label: str, hidden: bool = False) -> Shape:
    """Return a panel with two axes of one scale."""
    names = ("", "") if hidden else ("z₁", "z₂")
    ranges = zip(names, np.ravel(low).tolist(), np.ravel(high).tolist(), strict=True)
    axes = [
        {"label": name, "low": a, "high": b, "hidden": hidden} for name, a, b in ranges
    ]
    return {"kind": "picture", "axes": axes, "label": label}


def dots(
    points: Any,
    *,
    colours: Any = COLOURS[0],
    stars: Any = (),
    texts: Any = None,
    **more: Any,
) -> Shape:
    """Return tokens as circles, and leaders as stars."""
    points = np.asarray(points, np.float64).reshape(-1, 2)
    leads = np.isin(np.arange(len(points)), list(stars)).astype(int).tolist()
    named = {} if texts is None else {"texts": list(texts)}
    return {
        "kind": "points",
        "points": rounded(points),
        "colours": colours,
        "stars": leads,
        **named,
        **more,
    }


def lines(paths: Any, colour: str = "muted", **more: Any) -> Shape:
    """Return polylines, each an array of points (m, 2)."""
    return {
        "kind": "lines",
        "paths": [rounded(path) for path in paths],
        "colour": colour,
        **more,
    }


def arrow(start: Any, end: Any, colour: str) -> Shape:
    """Return an arrow; one without length is not drawn."""
    return {
        "kind": "arrow",
        "from": rounded([start])[0],
        "to": rounded([end])[0],
        "colour": colour,
    }


def polygon(points: Any) -> Shape:
    """Return the hull of points in the plane, shaded."""
    hull = Polytope(np.asarray(points, np.float64))
    outline = hull.vertices[hull.outline] if hull.dimension == 2 else hull.vertices
    return {"kind": "polygon", "points": rounded(outline)}


def rounded(points: Any) -> list[list[float]]:
    """Return points rounded to visible digits, which keeps pages small."""
    return np.asarray(points, np.float64).round(4).tolist()


def listed(names: Any) -> str:
    """Return names as in a sentence: 0, 2 and 5."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last
