"""A self-contained HTML page that plays a trajectory: drag to turn, slide through time, point at a token.

Plotly draws it, and its script is inside the page: nothing is loaded from anywhere.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import Any

import numpy as np

from hardmax import flow_pictures
from hardmax._checks import missing_extra
from hardmax._files import written_whole
from hardmax._tensors import to_numpy
from hardmax._types import AnyArray, FloatArray
from hardmax.hardmax_trajectory import HardmaxTrajectory
from hardmax.plotting import EDGE, GREY, SHADE, Palette
from hardmax.polytope import Polytope
from hardmax.projection import Projection
from hardmax.rules.sphere import Sphere
from hardmax.smooth_trajectory import SmoothTrajectory
from hardmax.trajectory import Trajectory

MOST_FRAMES = 60
MOST_TAIL_POINTS = 50_000  # over all frames: tails are thinned to keep the page at a few megabytes
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 1.5rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; line-height: 1.2; } .status { background: #eef3f8; padding: .6rem .9rem;
border-left: 4px solid #0072b2; } small { color: #666; }
"""


def interactive(trajectory: Trajectory, path: str | PathLike[str] | None = None, *, title: str = "") -> str:
    """Make a page that plays one cloud in the browser.

    It has a play button and a slider over at most 60 saved layers or times, tails, and the hull at the end for rules
    whose hull never grows. Pointing at a token shows its number, its cluster and whom it follows at the end. Leaders
    are stars, in 3-D diamonds.

    Parameters
    ----------
    trajectory : Trajectory
        Of one cloud, under any rule.
    path : path, optional
        Where to write the page, whole or not at all.
    title : str
        Heading; the rule if not given.

    Returns
    -------
    str
        The page.

    Raises
    ------
    ImportError
        If Plotly is not installed, with the command that helps.
    """
    try:
        import plotly.graph_objects as plotly
    except ImportError:
        raise missing_extra("`hardmax.interactive`", "Plotly", "app") from None
    trajectory.single("interactive(trajectory[b])")
    heading = escape(title or repr(trajectory.rule))
    plot = plotly.Figure(figure_of(trajectory)).to_html(
        include_plotlyjs=True,
        include_mathjax=False,
        full_html=False,
        div_id="tokens",  # the same bytes on every run
        auto_play=False,
        config={"displaylogo": False, "responsive": True, "plotlyServerURL": ""},
    )
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f'<body><h1>{heading}</h1><p class="status">{escape(trajectory.status)}</p>\n{plot}\n'
        "<p><small>Drag to turn or zoom, point at a token for its number, cluster and leader.</small></p>"
        "</body></html>\n"
    )
    if path is not None:
        with written_whole(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
    return page


def figure_of(trajectory: Trajectory) -> dict[str, Any]:
    """Data, layout and frames for Plotly, as a dictionary."""
    projection, look = Projection.of_trajectory(trajectory), _look_of(trajectory)
    positions = np.unique(np.linspace(0, look.last, min(look.last + 1, MOST_FRAMES)).round().astype(int)).tolist()
    Z = projection(trajectory.drawn[: look.last + 1, trajectory.mask].astype(np.float64)).astype(np.float32)
    frames = [_frame(Z, positions, f, look, trajectory.label(at)) for f, at in enumerate(positions)]
    moving: list[dict[str, Any]] = [
        {"mode": "lines", "line": {"color": GREY, "width": 1.5}, "opacity": 0.6, "hoverinfo": "skip"},
        {"mode": "markers", "text": look.texts, "hovertemplate": "%{text}<extra></extra>"},
    ]
    data = [{"showlegend": False, **trace, **now} for trace, now in zip(moving, frames[0]["data"], strict=True)]
    if look.hull is not None:
        hull = _hull(projection(look.hull), projection.dimension)
        data.append({**hull, "opacity": 0.0})
        for f, frame in enumerate(frames):  # it comes with the last frame
            frame["data"].append({"type": hull["type"], "opacity": 0.25 if f == len(frames) - 1 else 0.0})
    for frame in frames:
        frame["traces"] = list(range(len(data)))
    return {
        "data": [*data, *_sphere(trajectory, projection.source)],
        "layout": _layout(projection, frames),
        "frames": frames,
    }


@dataclass(frozen=True, eq=False)
class Look:
    """What a rule decides: colours and stars at a position, words for each token, and the hull at the end."""

    last: int
    colours: Callable[[int], list[str]]
    leads: Callable[[int], AnyArray]
    texts: list[str]
    hull: FloatArray | None


def _look_of(trajectory: Trajectory) -> Look:
    if isinstance(trajectory, HardmaxTrajectory):
        return _hardmax_look(trajectory)
    if isinstance(trajectory, SmoothTrajectory):
        return _smooth_look(trajectory)
    raise TypeError(f"`trajectory` must come from hm.simulate. Got {type(trajectory).__name__}.")


def _hardmax_look(trajectory: HardmaxTrajectory) -> Look:
    palette, real = Palette(trajectory), np.flatnonzero(trajectory.mask)
    layers = [int(k) for k in trajectory.saved]
    sets = trajectory.sets(-1)
    follows = [", ".join(map(str, sets[i])) for i in real]
    numbers = {members: c for c, members in enumerate(dict.fromkeys(follows))}

    def colours(at: int) -> list[str]:
        chosen = trajectory.sets(layers[at])
        return [palette(int(chosen[i][0])) if len(palette.distinct(chosen[i])) == 1 else "#FFFFFF" for i in real]

    def leads(at: int) -> AnyArray:
        chosen = trajectory.sets(layers[at])
        return np.array([chosen[i].tolist() == [i] for i in real])

    texts = [
        f"token {i}<br>cluster {numbers[members]}<br>{'leads' if members == str(i) else f'follows {members}'}"
        for i, members in zip(real, follows, strict=True)
    ]
    leaders = trajectory.leaders
    hull = trajectory.array[-1, leaders].astype(np.float64) if len(leaders) and trajectory.rule.normalize else None
    return Look(len(layers) - 1, colours, leads, texts, hull)


def _smooth_look(trajectory: SmoothTrajectory) -> Look:
    last, real = flow_pictures.position(trajectory, -1), np.flatnonzero(trajectory.mask)
    own = flow_pictures.group_colours(flow_pictures.color_groups(trajectory)[real])
    texts = [f"token {i}<br>cluster {c}" for i, c in zip(real, trajectory.clusters[real], strict=True)]
    if trajectory.rule.attends:
        P = np.asarray(to_numpy(trajectory.attention(last)), np.float64)
        P = P.mean(axis=0) if P.ndim == 3 else P
        heard = P.argmax(axis=-1)
        texts = [
            f"{text}<br>{'leads' if P[i, i] > 0.5 else f'follows {heard[i]} ({P[i, heard[i]]:.0%})'}"
            for i, text in zip(real, texts, strict=True)
        ]
    hull = trajectory.drawn[last, real] if flow_pictures.has_shrinking_hull(trajectory) else None
    return Look(last, lambda at: own, lambda at: flow_pictures.leads(trajectory, at)[real], texts, hull)


def _frame(Z: AnyArray, positions: list[int], f: int, look: Look, name: str) -> dict[str, Any]:
    """Tails up to a position, and the tokens there."""
    at, (n, dimension) = positions[f], Z.shape[1:]
    step = max(1, -(-n * len(positions) ** 2 // (2 * MOST_TAIL_POINTS)))  # each tail has (f / step) points
    way = Z[[*positions[:f:step], at]]  # (points, n, dimension)
    gap = np.full((1, n, dimension), np.nan, np.float32)  # parts one tail from the next
    tails = np.concatenate([way, gap]).swapaxes(0, 1).reshape(-1, dimension)
    stars = look.leads(at)
    symbol, large = ("diamond", 7) if dimension == 3 else ("star", 15)
    marker = {
        "color": look.colours(at),
        "symbol": [symbol if star else "circle" for star in stars],
        "size": [large if star else (5 if dimension == 3 else 9) for star in stars],
        "line": {"color": EDGE, "width": 1},
        "opacity": 1,
    }
    kind = _kind(dimension)
    return {"name": name, "data": [{**kind, **_along(tails)}, {**kind, **_along(Z[at]), "marker": marker}]}


def _kind(dimension: int) -> dict[str, Any]:
    """The type of a trace of points or lines."""
    return {"type": "scatter3d" if dimension == 3 else "scatter"}


def _along(points: AnyArray) -> dict[str, AnyArray]:
    """Points as columns x, y and, in 3-D, z."""
    return {axis: np.ascontiguousarray(column) for axis, column in zip("xyz", points.T, strict=False)}


def _hull(points: AnyArray, dimension: int) -> dict[str, Any]:
    """The hull of points as a trace."""
    hull, about = Polytope(points), {"hoverinfo": "skip", "showlegend": False}
    if dimension == 3 and hull.dimension == 3:
        corners = dict(zip("ijk", hull.facets.T, strict=True))
        return {"type": "mesh3d", **_along(points), **corners, "color": SHADE, **about}
    outline = points[hull.facets[:, 0]] if hull.dimension == 1 else points[np.append(hull.outline, hull.outline[:1])]
    filled = {} if dimension == 3 else {"fill": "toself", "fillcolor": SHADE}
    line = {"mode": "lines", "line": {"color": SHADE, "width": 4}}
    return {**_kind(dimension), **_along(outline), **line, **filled, **about}


def _sphere(trajectory: Trajectory, d: int) -> list[dict[str, Any]]:
    """The unit circle, or meridians and parallels of the unit sphere, for rules on it."""
    if not isinstance(trajectory.rule, Sphere) or d not in (2, 3):
        return []
    about: dict[str, Any] = {"mode": "lines", "line": {"color": "#CCCCCC", "width": 1}, "hoverinfo": "skip"}
    turn = np.linspace(0, 2 * np.pi, 61)
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    if d == 2:
        return [{**_kind(2), **_along(circle), "showlegend": False, **about}]
    gap = np.full((1, 3), np.nan)
    lines = []
    for angle in np.pi * np.arange(1, 6) / 6:
        parallel = np.column_stack([np.sin(angle) * circle, np.full(len(turn), np.cos(angle))])
        meridian = np.column_stack([np.outer(circle[:, 0], [np.cos(angle), np.sin(angle)]), circle[:, 1]])
        lines += [parallel, gap, meridian, gap]
    return [{**_kind(3), **_along(np.vstack(lines).astype(np.float32)), "showlegend": False, **about}]


def _layout(projection: Projection, frames: list[dict[str, Any]]) -> dict[str, Any]:
    """Axes as in the pictures, a play button and a slider."""
    names = [re.sub(r"\$(\w)(?:_\{(\d+)\})?\$", _plain, label) for label in projection.labels]
    span = projection.high - projection.low
    axes = [
        {"title": {"text": name}, "range": [low, high], "zeroline": False}
        for name, low, high in zip(names, projection.low.tolist(), projection.high.tolist(), strict=True)
    ]
    if projection.dimension == 3:
        ratio = span / span.max() if projection.equal else np.ones(3)
        scene = {f"{letter}axis": axis for letter, axis in zip("xyz", axes, strict=True)}
        view: dict[str, Any] = {
            "scene": {
                **scene,
                "aspectmode": "manual",
                "aspectratio": dict(zip("xyz", ratio.tolist(), strict=True)),
                "camera": {"eye": {"x": 1.25, "y": -1.4, "z": 0.8}},
            }
        }
    else:
        across: dict[str, Any] = {"showticklabels": projection.source > 1}
        if projection.equal and projection.source > 1:
            across["scaleanchor"] = "x"
        view = {"xaxis": axes[0], "yaxis": {**axes[1], **across}, "hovermode": "closest"}
    at_once = {"mode": "immediate", "transition": {"duration": 0}}
    play = {"frame": {"duration": 80, "redraw": True}, "fromcurrent": True, **at_once}
    stop = {"frame": {"duration": 0, "redraw": False}, **at_once}
    show = {"frame": {"duration": 0, "redraw": True}, **at_once}
    buttons = [
        {"label": "Play", "method": "animate", "args": [None, play]},
        {"label": "Pause", "method": "animate", "args": [[None], stop]},
    ]
    steps = [{"label": f["name"], "method": "animate", "args": [[f["name"]], show]} for f in frames]
    menu = {"type": "buttons", "buttons": buttons, "direction": "right", "x": 0, "y": 0, "pad": {"t": 62}}
    slider = {"steps": steps, "x": 0.2, "len": 0.8, "pad": {"t": 40}, "currentvalue": {"xanchor": "right"}}
    return {
        **view,
        "template": "none",
        "height": 680,
        "margin": {"l": 50, "r": 20, "t": 20, "b": 40},
        "updatemenus": [{**menu, "xanchor": "left", "yanchor": "top", "showactive": False}],
        "sliders": [slider],
    }


def _plain(match: re.Match[str]) -> str:
    """A symbol with its index, in HTML: formulas would need a script that is not in the page."""
    return f"{match[1]}<sub>{match[2]}</sub>" if match[2] else match[1]
