"""An interactive plot of a trajectory for HTML pages: drag to rotate, a slider over time, a tooltip per token.

Plotly draws it, and its script is inside the page: nothing is loaded from another host.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from markupsafe import Markup

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax._validation import to_numpy
from hardmax.draw import flows
from hardmax.draw.movies import choose_frames
from hardmax.draw.projection import Projection
from hardmax.draw.style import EDGE, GREY, REST, SHADE, cluster_colours, thinned_line
from hardmax.draw.tokens import Palette, choose_shown_rows, is_leading_class
from hardmax.polytope import Polytope
from hardmax.rules.sphere import Sphere
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

MAX_FRAMES = 60
MAX_TOKENS = 3_000  # fewer than in a picture, because every frame contains them
MAX_TAIL_POINTS = 50_000  # over all frames, to keep the page at a few megabytes

Spec: TypeAlias = dict[str, Any]  # of a figure, a trace or an axis, as in the manual of Plotly


def make_player(trajectory: Trajectory) -> dict[str, str]:
    """Return the parts of a player for the templates: plot as HTML, legend, content of tooltips, effect of dragging."""
    import plotly.graph_objects as plotly

    figure = make_figure(trajectory)
    plot = plotly.Figure(figure).to_html(
        include_plotlyjs=True,
        include_mathjax=False,
        full_html=False,
        div_id="tokens",  # the same bytes on every run
        auto_play=False,
        default_height="clamp(470px, 110vw, 720px)",  # a tall plot would be cut on a narrow screen
        config={"displaylogo": False, "responsive": True, "plotlyServerURL": ""},
    )
    told = "its number, cluster and leader" if len(trajectory.leaders) else "its number and cluster"
    drag = "turn or zoom" if figure["data"][1]["type"] == "scatter3d" else "zoom"
    return {"plot": Markup(plot), "legend": _legend(trajectory, figure), "told": told, "drag": drag}


def _legend(trajectory: Trajectory, figure: Spec) -> str:
    """Return a legend of markers, colours and shading, as in pictures."""
    tokens, hull = figure["data"][1], any(trace.get("name") == "hull" for trace in figure["data"])
    markers = [frame["data"][1]["marker"] for frame in figure["frames"]]
    symbols, colours = ({value for marker in markers for value in marker[key]} for key in ("symbol", "color"))
    if isinstance(trajectory, SmoothTrajectory):
        clusters = flows.rank_clusters(trajectory)[trajectory.mask]
        line = flows.make_flow_legend(clusters, stars=len(symbols - {"circle"}) > 0, hull=hull)
    else:
        parts = ["stars lead", "colours: the leader of each token"]
        parts += ["white: several"] if "#FFFFFF" in colours else []
        parts += ["grey: beyond eight colours"] if REST in colours else []
        line = "; ".join([*parts, "shaded: hull of the leaders"] if hull else parts)
    line = line.replace("stars", "diamonds") if "diamond" in symbols else line
    sentences = f"{line[:1].upper()}{line[1:]}", thinned_line(len(tokens["x"]), int(trajectory.mask.sum()))
    return "".join(f"{sentence}. " for sentence in sentences if sentence)


def make_figure(trajectory: Trajectory) -> Spec:
    """Return data, layout and frames for Plotly, as a dictionary."""
    projection = Projection.of_trajectory(trajectory)
    real = np.flatnonzero(trajectory.mask)[choose_shown_rows(trajectory, projection, MAX_TOKENS)]
    look = (
        _hardmax_look(trajectory, real)
        if isinstance(trajectory, HardmaxTrajectory)
        else _smooth_look(cast(SmoothTrajectory, trajectory), real)
    )
    positions = choose_frames(look.last, MAX_FRAMES)
    Z = projection(trajectory.drawn[: look.last + 1, real].astype(np.float64)).astype(np.float32)
    frames: list[Spec] = [
        {"name": trajectory.label(at), "data": _moving(Z, positions, f, look, projection)}
        for f, at in enumerate(positions)
    ]
    data: list[Spec] = [{"showlegend": False, **trace} for trace in frames[0]["data"]]
    data[0] |= {"mode": "lines", "line": {"color": GREY, "width": 1.5}, "opacity": 0.6, "hoverinfo": "skip"}
    data[1] |= {"mode": "markers", "text": look.texts, "hovertemplate": "%{text}<extra></extra>"}
    corners = None if look.hull is None else projection(look.hull)
    if corners is not None and Polytope(corners).dimension > 1:  # a segment would look like a path
        data.append(_hull(corners) | {"opacity": 0.0})
        for f, frame in enumerate(frames):  # the hull is visible in the last frame only
            frame["data"].append({"type": data[-1]["type"], "opacity": 0.25 if f == len(frames) - 1 else 0.0})
    for frame in frames:
        frame["traces"] = list(range(len(data)))
    if isinstance(trajectory.rule, Sphere) and projection.source in (2, 3):
        data.append(_sphere(projection.source))
    return {"data": data, "layout": _layout(projection, [frame["name"] for frame in frames]), "frames": frames}


class Look(NamedTuple):
    """Appearance under a rule: colours, edges and stars by saved index, tooltips, and the hull at the end."""

    last: int
    colours: Callable[[int], list[str]]
    edges: Callable[[int], list[str]]
    leads: Callable[[int], BoolArray]
    texts: list[str]
    hull: FloatArray | None


def _hardmax_look(trajectory: HardmaxTrajectory, real: IntArray) -> Look:
    palette, cloud = Palette(trajectory), trajectory.token_sets[0]
    own = cloud.classes.labels[np.searchsorted(cloud.real, real)]  # class of each token
    end = trajectory.attention(-1, sparse=True)
    follows = [", ".join(map(str, end.indices[end.indptr[i] : end.indptr[i + 1]])) for i in real]
    numbers = {members: c for c, members in enumerate(dict.fromkeys(follows))}

    def colours(at: int) -> list[str]:
        return palette.faces(cloud.sets[at])[own].tolist()

    def edges(at: int) -> list[str]:
        return palette.edges(cloud, cloud.sets[at])[own].tolist()

    texts = [
        f"token {i}<br>cluster {numbers[members]}<br>{'leads' if star else f'follows {members}'}"
        for i, members, star in zip(
            real, follows, is_leading_class(trajectory, len(trajectory.saved) - 1)[own], strict=True
        )
    ]
    leaders = trajectory.leaders
    hull = trajectory.array[-1, leaders].astype(np.float64) if len(leaders) and trajectory.rule.normalize else None
    return Look(
        len(trajectory.saved) - 1, colours, edges, lambda at: is_leading_class(trajectory, at)[own], texts, hull
    )


def _smooth_look(trajectory: SmoothTrajectory, real: IntArray) -> Look:
    last = flows.find_index(trajectory, -1)
    colours, labels = cluster_colours(flows.rank_clusters(trajectory)[real]), trajectory.clusters[real]
    texts = [f"token {i}<br>cluster {c}" for i, c in zip(real, labels, strict=True)]
    if trajectory.rule.attends and len(trajectory.leaders):  # without leaders, weights are spread over all tokens
        P = np.asarray(to_numpy(trajectory.attention(last)), np.float64)
        P = P.mean(axis=0) if P.ndim == 3 else P
        followed, leaders = P.argmax(axis=-1), set(trajectory.leaders.tolist())
        texts = [
            f"{text}<br>{'leads' if i in leaders else f'follows {followed[i]} ({P[i, followed[i]]:.0%})'}"
            for i, text in zip(real, texts, strict=True)
        ]
    hull = None
    if flows.has_shrinking_hull(trajectory):
        Z = trajectory.drawn[last, real].astype(np.float64)
        hull = np.array([Z[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    edges = [EDGE] * len(real)
    return Look(
        last, lambda at: colours, lambda at: edges, lambda at: flows.is_leader(trajectory, at)[real], texts, hull
    )


def _trace(points: AnyArray, **style: Any) -> Spec:
    columns = {axis: np.ascontiguousarray(column) for axis, column in zip("xyz", points.T, strict=False)}
    return {"type": "scatter3d" if len(columns) == 3 else "scatter", **columns, **style}


def _moving(Z: AnyArray, positions: list[int], f: int, look: Look, projection: Projection) -> list[Spec]:
    """Return the paths up to a frame, and the tokens in it; tokens covered by a star have size 0."""
    at, (n, dimension) = positions[f], Z.shape[1:]
    step = max(1, -(-n * len(positions) ** 2 // (2 * MAX_TAIL_POINTS)))  # each tail has (f / step) points
    way = Z[[*positions[:f:step], at]]  # (points, n, dimension)
    gap = np.full((1, n, dimension), np.nan, np.float32)  # separates two paths
    tails = np.concatenate([way, gap]).swapaxes(0, 1).reshape(-1, dimension)
    stars = look.leads(at)
    hidden = ~stars & flows.is_covered(Z[at], stars, projection)
    symbol, large, small = ("diamond", 9, 7) if dimension == 3 else ("star", 15, 9)
    marker = {
        "color": look.colours(at),
        "symbol": [symbol if star else "circle" for star in stars],
        "size": np.where(stars, large, np.where(hidden, 0, small)).tolist(),
        "line": _outlines(look.edges(at), stars, solid=dimension == 3),
        "opacity": 1,
    }
    return [_trace(tails), _trace(Z[at], marker=marker)]


def _outlines(edges: list[str], stars: BoolArray, *, solid: bool) -> Spec:
    """Return marker edges: a ring for tokens that others follow, as in pictures; in 3-D Plotly has one width."""
    colours = [EDGE if star else edge for edge, star in zip(edges, stars, strict=True)]
    if all(colour == EDGE for colour in colours):
        return {"color": EDGE, "width": 1}
    widths = [1 if colour == EDGE else 2.5 for colour in colours]
    return {"color": colours, "width": 2 if solid else widths}


def _hull(points: FloatArray) -> Spec:
    hull, trace = Polytope(points), {"name": "hull", "hoverinfo": "skip", "showlegend": False}
    if hull.dimension == 3:
        corners = dict(zip("ijk", hull.facets.T, strict=True))
        return {**_trace(points), "type": "mesh3d", **corners, "color": SHADE, **trace}
    outline = points[np.append(hull.outline, hull.outline[:1])]
    filled = {} if points.shape[1] == 3 else {"fill": "toself", "fillcolor": SHADE}
    return _trace(outline, mode="lines", line={"color": SHADE, "width": 4}, **filled, **trace)


def _sphere(d: int) -> Spec:
    """Return the unit circle, or meridians and parallels of the unit sphere."""
    turn = np.linspace(0, 2 * np.pi, 61)
    lines = circle = np.column_stack([np.cos(turn), np.sin(turn)])
    if d == 3:
        gap, parts = np.full((1, 3), np.nan), []
        for angle in np.pi * np.arange(1, 6) / 6:
            parallel = np.column_stack([np.sin(angle) * circle, np.full(len(turn), np.cos(angle))])
            meridian = np.column_stack([np.outer(circle[:, 0], [np.cos(angle), np.sin(angle)]), circle[:, 1]])
            parts += [parallel, gap, meridian, gap]
        lines = np.vstack(parts).astype(np.float32)
    return _trace(lines, showlegend=False, mode="lines", line={"color": "#CCCCCC", "width": 1}, hoverinfo="skip")


def _layout(projection: Projection, names: list[str]) -> Spec:
    """Return axes as in pictures, a play button, and a slider over the frames."""
    solid = projection.dimension == 3
    top = 10 if solid else 62  # below the axis label
    at_once = {"mode": "immediate", "transition": {"duration": 0}}
    play = {"frame": {"duration": 80, "redraw": True}, "fromcurrent": True, **at_once}
    stop = {"frame": {"duration": 0, "redraw": False}, **at_once}
    show = {"frame": {"duration": 0, "redraw": True}, **at_once}
    buttons = [
        {"label": "Play", "method": "animate", "args": [None, play]},
        {"label": "Pause", "method": "animate", "args": [[None], stop]},
    ]
    steps = [{"label": name, "method": "animate", "args": [[name], show]} for name in names]
    menu = {"type": "buttons", "buttons": buttons, "direction": "right", "x": 0, "y": 0, "pad": {"t": top}}
    # Below the buttons, so that they do not overlap on a narrow screen.
    slider = {"steps": steps, "x": 0, "len": 1, "pad": {"t": top + 10, "b": 16}, "currentvalue": {"xanchor": "right"}}
    return {
        **_axes(projection),
        "template": "none",
        "margin": {"l": 10, "r": 10, "t": 0, "b": 40} if solid else {"l": 55, "r": 20, "t": 20, "b": 40},
        "updatemenus": [{**menu, "xanchor": "left", "yanchor": "top", "showactive": False}],
        "sliders": [slider],
    }


def _axes(projection: Projection) -> Spec:
    axes = {f"{letter}axis": _axis(projection, r) for r, letter in enumerate("xyz"[: projection.dimension])}
    if projection.dimension == 3:
        span = projection.high - projection.low
        ratio = span / span.max() if projection.equal else np.ones(3)
        camera = {"eye": {"x": 1.2, "y": -1.35, "z": 0.75}, "center": {"x": 0, "y": 0, "z": -0.15}}
        aspect = {"aspectmode": "manual", "aspectratio": dict(zip("xyz", ratio.tolist(), strict=True))}
        return {"scene": {**axes, **aspect, "camera": camera}}
    axes["yaxis"]["showticklabels"] = projection.source > 1
    if projection.equal and projection.source > 1:
        axes["yaxis"]["scaleanchor"] = "x"
    return {**axes, "hovermode": "closest"}


def _axis(projection: Projection, r: int) -> Spec:
    # Labels in HTML: formulas would need MathJax, which is not in the page.
    plain = re.sub(r"_\{(\d+)\}", r"<sub>\1</sub>", projection.labels[r]).replace("$", "")
    axis: Spec = {"title": {"text": plain}, "zeroline": False}
    axis["range"] = [float(projection.low[r]), float(projection.high[r])]
    ticks = projection.ticks(r)
    if ticks is not None:
        texts = [f"{x:.0e}".replace("e+0", "e") if x else "0" for x in ticks.values()]
        axis |= {"tickvals": list(ticks), "ticktext": texts}
    return axis
