"""What the live pictures of the course share: a figure of Plotly with frames and a slider, as one page.

Python has computed every frame. The browser shows them, and computes nothing.
"""

from html import escape
from textwrap import wrap
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import plotly.graph_objects as go

from hardmax.draw.pages import Page
from hardmax.draw.style import COLOURS, EDGE, GREY, SHADE
from hardmax.polytope import Polytope

Trace: TypeAlias = dict[str, Any]
HEIGHT = 515  # pixels of the plot
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: .6rem 1rem; color: #222; background: #fff; }
h1 { font-size: 1.1rem; margin: 0 0 .2rem; } p { margin: .2rem 0; color: #555; font-size: .9rem; }
"""
AT_ONCE = {"mode": "immediate", "transition": {"duration": 0}}


class Frame(NamedTuple):
    """One position of the slider: its label, the sentence above the plot, and all traces."""

    label: str
    sentence: str
    traces: list[Trace]


def page(frames: list[Frame], *, title: str, slider: str, legend: str, start: int = 0, **layout: Any) -> Page:
    """A page with a plot, a play button and a slider; `slider` is what stands before the label of a frame."""
    show = {"frame": {"duration": 0, "redraw": True}, **AT_ONCE}
    play = {"frame": {"duration": 350, "redraw": True}, "fromcurrent": True, **AT_ONCE}
    steps = [{"label": each.label, "method": "animate", "args": [[str(f)], show]} for f, each in enumerate(frames)]
    buttons = [
        {"label": "Play", "method": "animate", "args": [None, play]},
        {"label": "Pause", "method": "animate", "args": [[None], show]},
    ]
    margin, notes = {"l": 50, "r": 20, "t": 66, "b": 40} | layout.pop("margin", {}), layout.pop("annotations", [])

    def said(sentence: str) -> dict[str, Any]:
        corner = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "top"}
        off = {"xshift": -margin["l"], "yshift": margin["t"], "align": "left", "showarrow": False}
        return {"text": wrapped(sentence), "font": {"size": 13}, **corner, **off}

    below = {"x": 0, "y": 0, "pad": {"t": 48, "b": 8}}
    menu = {
        **below,
        "buttons": buttons,
        "type": "buttons",
        "direction": "right",
        "showactive": False,
        "xanchor": "left",
        "yanchor": "top",
    }
    bar = {"steps": steps, "active": start, "x": 0, "len": 1, "pad": {"t": 62, "b": 8}, "tickcolor": GREY}
    bar["currentvalue"] = {"prefix": slider, "xanchor": "right"}
    figure = {
        "data": [{"showlegend": False, **trace} for trace in frames[start].traces],
        "frames": [
            {
                "name": str(f),
                "data": each.traces,
                "traces": list(range(len(each.traces))),
                "layout": {"annotations": [said(each.sentence), *notes]},
            }
            for f, each in enumerate(frames)
        ],
        "layout": {
            "template": "none",
            "margin": margin,
            "annotations": [said(frames[start].sentence), *notes],
            "font": {"size": 12},
            "hovermode": "closest",
            "updatemenus": [menu],
            "sliders": [bar],
            **layout,
        },
    }
    plot = go.Figure(figure).to_html(
        include_plotlyjs=True,
        include_mathjax=False,
        full_html=False,
        div_id="picture",
        auto_play=False,
        default_height=f"{HEIGHT}px",
        config={"displaylogo": False, "displayModeBar": False, "responsive": True, "plotlyServerURL": ""},
    )
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = f"<h1>{escape(title)}</h1>{plot}<p>{escape(legend)}</p>"
    return Page(f'<!doctype html><html lang="en"><head>{head}{view}</head><body>{body}</body></html>')


def axes(low: Any, high: Any, names: tuple[str, str] = ("z<sub>1</sub>", "z<sub>2</sub>")) -> dict[str, Any]:
    """Two axes of one scale."""
    plain = {"zeroline": True, "zerolinecolor": "#DDDDDD", "showgrid": False, "showline": False}
    x, y = ({"title": {"text": name, "standoff": 4}, **plain} for name in names)
    ranges = [[float(a), float(b)] for a, b in zip(np.ravel(low), np.ravel(high), strict=True)]
    return {"xaxis": x | {"range": ranges[0]}, "yaxis": y | {"range": ranges[1], "scaleanchor": "x"}}


def dots(points: Any, *, colours: Any = COLOURS[0], stars: Any = (), texts: Any = None, **more: Any) -> Trace:
    """Tokens as circles, leaders as stars."""
    points = np.asarray(points, np.float64).reshape(-1, 2)
    leads = np.isin(np.arange(len(points)), list(stars))
    marker = {
        "color": colours,
        "symbol": ["star" if star else "circle" for star in leads],
        "size": np.where(leads, 17, 10).tolist(),
        "line": {"color": EDGE, "width": 1},
        "opacity": 1,
    }
    named = {} if texts is None else {"text": list(texts), "hovertemplate": "%{text}<extra></extra>"}
    return {"type": "scatter", **columns(points), "mode": "markers", "marker": marker, **named, **more}


def lines(ways: Any, colour: str = GREY, **more: Any) -> Trace:
    """Polylines, each an array of points (m, 2), as one trace."""
    parts = [np.vstack([np.asarray(way, np.float64), [[np.nan, np.nan]]]) for way in ways]
    points = np.vstack(parts) if parts else np.zeros((0, 2))
    style = {"mode": "lines", "line": {"color": colour, "width": 1.5}, "hoverinfo": "skip"}
    return {"type": "scatter", **columns(points), **style, **more}


def arrow(start: Any, end: Any, colour: str) -> Trace:
    """An arrow, or nothing where it would have no length."""
    way = np.array([start, end], np.float64)
    marker = {"symbol": "arrow", "angleref": "previous", "size": [0, 15], "color": colour}
    look = {"mode": "lines+markers", "marker": marker, "line": {"color": colour, "width": 2}, "hoverinfo": "skip"}
    return {"type": "scatter", **columns(way), **look, "visible": bool(np.abs(way[1] - way[0]).max() > 1e-9)}


def polygon(points: Any) -> Trace:
    """The hull of points in the plane, shaded."""
    hull = Polytope(np.asarray(points, np.float64))
    outline = hull.vertices[np.append(hull.outline, hull.outline[:1])] if hull.dimension == 2 else hull.vertices
    return lines([outline], SHADE, fill="toself", fillcolor="rgba(184, 196, 214, 0.35)")


def columns(points: Any) -> Trace:
    """x and y, rounded to what can be seen, which keeps pages small."""
    x, y = np.asarray(points, np.float64).T.round(4)
    return {"x": x.tolist(), "y": y.tolist()}


def wrapped(sentence: str) -> str:
    """A sentence in lines that a page of 620 pixels holds."""
    return "<br>".join(line for part in sentence.split("\n") for line in wrap(part, 78))


def listed(names: Any) -> str:
    """Names in a sentence: 0, 2 and 5."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last
