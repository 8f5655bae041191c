"""A self-contained HTML page that plays a trajectory: drag to turn, slide through time, point at a token.

Plotly draws it, and its script is inside the page: nothing is loaded from anywhere.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import Any, overload

import numpy as np

from hardmax._errors import MissingExtra, ParameterTypeError
from hardmax._files import check_ending, written_whole
from hardmax._tensors import to_numpy
from hardmax._types import AnyArray, FloatArray
from hardmax.draw import flows as flow_pictures
from hardmax.draw.projection import Projection
from hardmax.draw.tokens import EDGE, GREY, SHADE, Palette
from hardmax.flows.spectrum import expectation_of
from hardmax.polytope import Polytope
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

SUFFIXES = (".html", ".htm")
MOST_FRAMES = 60
MOST_TAIL_POINTS = 50_000  # over all frames: tails are thinned to keep the page at a few megabytes
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 1.5rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; line-height: 1.2; } .status { background: #eef3f8; padding: .6rem .9rem;
border-left: 4px solid #0072b2; overflow-wrap: anywhere; } small { color: #666; }
"""


@overload
def interactive(trajectory: Trajectory, path: None = None, *, title: str = "") -> str: ...
@overload
def interactive(trajectory: Trajectory, path: str | PathLike[str], *, title: str = "") -> None: ...
def interactive(trajectory: Trajectory, path: str | PathLike[str] | None = None, *, title: str = "") -> str | None:
    """Make a page that plays one cloud in the browser.

    It has a play button and a slider over at most 60 saved layers or times, tails, and the hull at the end for rules
    whose hull never grows. Pointing at a token shows its number, its cluster and whom it follows at the end. Leaders
    are stars, in 3-D diamonds. Above stands what happened and, for self-attention, what `classify` expects.

    Parameters
    ----------
    trajectory : Trajectory
        Of one cloud, under any rule.
    path : path ending in .html or .htm, optional
        Where to write the page, whole or not at all.
    title : str
        Heading; the rule if not given.

    Returns
    -------
    str or None
        The page if no path is given; it has some megabytes.

    Raises
    ------
    TypeError
        If `trajectory` is not one.
    ValueError
        If it is that of a batch, or `path` has another ending.
    ImportError
        If Plotly is not installed, with the command that helps.
    """
    try:
        import plotly.graph_objects as plotly
    except ImportError:
        raise MissingExtra("`hardmax.interactive`", "Plotly", "app") from None
    if not isinstance(trajectory, Trajectory):
        raise ParameterTypeError("trajectory", "be a Trajectory from hm.simulate", type(trajectory).__name__)
    if path is not None:
        check_ending(path, SUFFIXES)
    trajectory.single("interactive(trajectory[b])")
    heading = escape(title or repr(trajectory.rule))
    figure = figure_of(trajectory)
    plot = plotly.Figure(figure).to_html(
        include_plotlyjs=True,
        include_mathjax=False,
        full_html=False,
        div_id="tokens",  # the same bytes on every run
        auto_play=False,
        default_height="clamp(470px, 110vw, 720px)",  # on a narrow screen a tall scene would be cut at its sides
        config={"displaylogo": False, "responsive": True, "plotlyServerURL": ""},
    )
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f'<body><h1>{heading}</h1><p class="status">{_sentences(trajectory)}</p>\n{plot}\n'
        f"<p><small>{escape(_legend(trajectory, figure))}"
        "Drag to turn or zoom, point at a token for its number, cluster and leader.</small></p>"
        "</body></html>\n"
    )
    if path is None:
        return page
    with written_whole(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return None


def _sentences(trajectory: Trajectory) -> str:
    """What happened, and what the spectrum of V lets one expect."""
    said, rule = [trajectory.status], trajectory.rule
    if isinstance(rule, SelfAttention) and not any(map(callable, (rule.Q, rule.K, rule.V))):
        said.append(repr(expectation_of(rule, trajectory.array.shape[-1])))
    return "<br>".join(map(escape, said))


def _legend(trajectory: Trajectory, figure: dict[str, Any]) -> str:
    """What markers, colours and shading of a flow mean, as in its pictures."""
    if not isinstance(trajectory, SmoothTrajectory):
        return ""
    symbols = {symbol for frame in figure["frames"] for symbol in frame["data"][1]["marker"]["symbol"]}
    groups = flow_pictures.color_groups(trajectory)[trajectory.mask]
    hull = any(trace.get("name") == "hull" for trace in figure["data"])
    line = flow_pictures.legend_line(groups, stars=len(symbols - {"circle"}) > 0, hull=hull)
    line = line.replace("stars", "diamonds") if "diamond" in symbols else line
    return f"{line[:1].upper()}{line[1:]}. " if line else ""


def _positions(last: int) -> list[int]:
    """At most 60 positions, evenly chosen."""
    return [int(k) for k in np.unique(np.linspace(0, last, min(last + 1, MOST_FRAMES)).round())]


def figure_of(trajectory: Trajectory) -> dict[str, Any]:
    """Data, layout and frames for Plotly, as a dictionary."""
    projection, look = Projection.of_trajectory(trajectory), _look_of(trajectory)
    positions = _positions(look.last)
    Z = projection(trajectory.drawn[: look.last + 1, trajectory.mask].astype(np.float64)).astype(np.float32)
    frames = [
        _frame(Z, positions, f, look, projection) | {"name": trajectory.label(at)} for f, at in enumerate(positions)
    ]
    moving: list[dict[str, Any]] = [
        {"mode": "lines", "line": {"color": GREY, "width": 1.5}, "opacity": 0.6, "hoverinfo": "skip"},
        {"mode": "markers", "text": look.texts, "hovertemplate": "%{text}<extra></extra>"},
    ]
    data = [{"showlegend": False, **trace, **now} for trace, now in zip(moving, frames[0]["data"], strict=True)]
    corners = None if look.hull is None else projection(look.hull)
    if corners is not None and Polytope(corners).dimension > 1:  # a segment would look like a tail
        hull = _hull(corners, projection.dimension)
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
    raise ParameterTypeError("trajectory", "come from hm.simulate", type(trajectory).__name__)


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
    hull = None
    if flow_pictures.has_shrinking_hull(trajectory):
        ends = trajectory.drawn[last, real].astype(np.float64)
        labels = trajectory.clusters[real]
        hull = np.array([ends[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    return Look(last, lambda at: own, lambda at: flow_pictures.leads(trajectory, at)[real], texts, hull)


def _frame(Z: AnyArray, positions: list[int], f: int, look: Look, projection: Projection) -> dict[str, Any]:
    """Tails up to a position, and the tokens there; those under a star have no size."""
    at, (n, dimension) = positions[f], Z.shape[1:]
    step = max(1, -(-n * len(positions) ** 2 // (2 * MOST_TAIL_POINTS)))  # each tail has (f / step) points
    way = Z[[*positions[:f:step], at]]  # (points, n, dimension)
    gap = np.full((1, n, dimension), np.nan, np.float32)  # parts one tail from the next
    tails = np.concatenate([way, gap]).swapaxes(0, 1).reshape(-1, dimension)
    stars = look.leads(at)
    hidden = ~stars & flow_pictures.is_under(Z[at], stars, projection)
    symbol, large, small = ("diamond", 9, 7) if dimension == 3 else ("star", 15, 9)
    marker = {
        "color": look.colours(at),
        "symbol": [symbol if star else "circle" for star in stars],
        "size": np.where(stars, large, np.where(hidden, 0, small)).tolist(),
        "line": {"color": EDGE, "width": 1},
        "opacity": 1,
    }
    kind = _kind(dimension)
    return {"data": [{**kind, **_along(tails)}, {**kind, **_along(Z[at]), "marker": marker}]}


def _kind(dimension: int) -> dict[str, Any]:
    """The type of a trace of points or lines."""
    return {"type": "scatter3d" if dimension == 3 else "scatter"}


def _along(points: AnyArray) -> dict[str, AnyArray]:
    """Points as columns x, y and, in 3-D, z."""
    return {axis: np.ascontiguousarray(column) for axis, column in zip("xyz", points.T, strict=False)}


def _hull(points: AnyArray, dimension: int) -> dict[str, Any]:
    """The hull of points, at least a polygon, as a trace."""
    hull, about = Polytope(points), {"name": "hull", "hoverinfo": "skip", "showlegend": False}
    if dimension == 3 and hull.dimension == 3:
        corners = dict(zip("ijk", hull.facets.T, strict=True))
        return {"type": "mesh3d", **_along(points), **corners, "color": SHADE, **about}
    outline = points[np.append(hull.outline, hull.outline[:1])]
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
    axes: list[dict[str, Any]] = [
        {"title": {"text": name}, "range": [low, high], "zeroline": False}
        for name, low, high in zip(names, projection.low.tolist(), projection.high.tolist(), strict=True)
    ]
    for r, axis in enumerate(axes):
        ticks = projection.ticks(r)
        if ticks is not None:
            axis |= {
                "tickvals": list(ticks),
                "ticktext": [f"{x:.0e}".replace("e+0", "e") if x else "0" for x in ticks.values()],
            }
    if projection.dimension == 3:
        ratio = span / span.max() if projection.equal else np.ones(3)
        scene = {f"{letter}axis": axis for letter, axis in zip("xyz", axes, strict=True)}
        view: dict[str, Any] = {
            "scene": {
                **scene,
                "aspectmode": "manual",
                "aspectratio": dict(zip("xyz", ratio.tolist(), strict=True)),
                "camera": {"eye": {"x": 1.2, "y": -1.35, "z": 0.75}, "center": {"x": 0, "y": 0, "z": -0.15}},
            }
        }
    else:
        across: dict[str, Any] = {"showticklabels": projection.source > 1}
        if projection.equal and projection.source > 1:
            across["scaleanchor"] = "x"
        view = {"xaxis": axes[0], "yaxis": {**axes[1], **across}, "hovermode": "closest"}
    solid = projection.dimension == 3
    top = 10 if solid else 62  # below the name of the axis
    at_once = {"mode": "immediate", "transition": {"duration": 0}}
    play = {"frame": {"duration": 80, "redraw": True}, "fromcurrent": True, **at_once}
    stop = {"frame": {"duration": 0, "redraw": False}, **at_once}
    show = {"frame": {"duration": 0, "redraw": True}, **at_once}
    buttons = [
        {"label": "Play", "method": "animate", "args": [None, play]},
        {"label": "Pause", "method": "animate", "args": [[None], stop]},
    ]
    steps = [{"label": f["name"], "method": "animate", "args": [[f["name"]], show]} for f in frames]
    menu = {"type": "buttons", "buttons": buttons, "direction": "right", "x": 0, "y": 0, "pad": {"t": top}}
    # Below the buttons, so that they do not meet on a narrow screen.
    slider = {"steps": steps, "x": 0, "len": 1, "pad": {"t": top + 10, "b": 16}, "currentvalue": {"xanchor": "right"}}
    return {
        **view,
        "template": "none",
        "margin": {"l": 10, "r": 10, "t": 0, "b": 40} if solid else {"l": 55, "r": 20, "t": 20, "b": 40},
        "updatemenus": [{**menu, "xanchor": "left", "yanchor": "top", "showactive": False}],
        "sliders": [slider],
    }


def _plain(match: re.Match[str]) -> str:
    """A symbol with its index, in HTML: formulas would need a script that is not in the page."""
    return f"{match[1]}<sub>{match[2]}</sub>" if match[2] else match[1]
