"""The player of HTML pages: frames that the modules of `viewer/` draw, with a play
button and a slider.

Python computes every frame. A page contains the modules and the data: nothing is loaded
from another host.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, cast

import numpy as np
from markupsafe import Markup

from hardmax._errors import InputError
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax._validation import to_numpy
from hardmax.draw import flows
from hardmax.draw.movies import choose_frames
from hardmax.draw.projection import Projection
from hardmax.draw.style import EDGE, SIZE, describe_thinning, marker_size
from hardmax.draw.tokens import Palette, choose_shown_rows, is_leading_class
from hardmax.polytope import Polytope
from hardmax.rules.sphere import Sphere
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.limit import Limit
from hardmax.trajectories.smooth import SmoothTrajectory

MODULES = (
    "data",
    "picture",
    "charts",
    "tokens",
    "player",
)  # each imports only from those before it
MAX_FRAMES = 60
MAX_TOKENS = 3_000  # fewer than in a picture, because every frame contains them
MAX_TRAIL_POINTS = 60_000  # of all trails together
MAX_CERTIFIED = (
    4_000  # coordinates of tokens whose proof a page contains: a few hundred kB
)
CIRCLE, STAR, HIDDEN, RINGED = range(4)  # marks of tokens
THEME = {EDGE: "ink", "#FFFFFF": "paper"}  # colours that depend on light and dark
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def read_viewer(name: str) -> str:
    """Return a file of the viewer."""
    return (files("hardmax") / "viewer" / name).read_text(encoding="utf-8")


@cache
def bundle_modules(names: tuple[str, ...] = MODULES) -> str:
    """Return modules of the viewer as one script; each may import only from those
    before it.
    """
    joined = "\n".join(
        re.sub(r"^import .*\n", "", read_viewer(f"{name}.js"), flags=re.MULTILINE)
        for name in names
    )
    return re.sub(r"^export (?!default)", "", joined, flags=re.MULTILINE)


def embed(
    data: dict[str, Any], modules: tuple[str, ...] = MODULES, mount: str = "mount"
) -> Markup:
    """Return HTML that plays frames: style, data and script. `data` are the arguments
    of `mount` in player.js.
    """
    content = json.dumps(
        data, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).replace("<", "\\u003c")
    name = (  # the same bytes on every run
        f"hm-{sha256(content.encode()).hexdigest()[:8]}"
    )
    find = f"document.getElementById('{name}"
    script = f"{mount}({find}'), JSON.parse({find}-data').textContent));"
    return Markup(
        f'<style>{read_viewer("viewer.css")}</style><div id="{name}"></div>'
        f'<script type="application/json" id="{name}-data">{content}</script>'
        f'<script type="module">{bundle_modules(modules)}\n{script}</script>'
    )


def embed_certificate(limit: Limit) -> Markup | None:
    """Return HTML with a button that checks the proof of a limit in the browser; None
    if it is large or missing.
    """
    if limit.start.size > MAX_CERTIFIED or not limit.certified:
        return None
    try:
        document = limit.certificate()
    except InputError:  # its numbers are longer than the checkers accept
        return None
    return embed(document, ("certificate",), "mountCheck")


def make_player(trajectory: Trajectory, palette: Any = None) -> dict[str, str]:
    """Return the parts of a player for the templates: plot as HTML, legend, content of
    tooltips, effect of dragging.
    """
    data = make_frames(trajectory, palette)
    tooltip = (
        "its number, cluster and leader"
        if len(trajectory.leaders)
        else "its number and cluster"
    )
    drag = (
        "turn"
        if len(data["panels"][0]["axes"]) == 3
        else "pan, hold Ctrl and scroll to zoom"
    )
    return {
        "plot": embed(data),
        "legend": _legend(trajectory, data["tokens"]),
        "tooltip": tooltip,
        "drag": drag,
    }


def _legend(trajectory: Trajectory, tokens: dict[str, Any]) -> str:
    """Return a legend of markers, colours and shading, as in pictures."""
    hull, stars = tokens["hull"] is not None, STAR in b64decode(tokens["marks"])
    if isinstance(trajectory, SmoothTrajectory):
        line = flows.make_flow_legend(
            {*tokens["palette"]} - {"ink"}, stars=stars, hull=hull
        )
    else:
        parts = ["stars lead", "colours: the token followed"]
        parts += ["white: several"] if "paper" in tokens["palette"] else []
        line = "; ".join([*parts, "shaded: hull of the leaders"] if hull else parts)
    sentences = (
        f"{line[:1].upper()}{line[1:]}",
        *describe_thinning(len(tokens["texts"]), int(trajectory.mask.sum())),
    )
    return "".join(f"{sentence}. " for sentence in sentences)


def make_frames(trajectory: Trajectory, palette: Any = None) -> dict[str, Any]:
    """Return the arguments of `mount` for a trajectory of one token set; for `palette`
    see `movie`.
    """
    projection = Projection.of_trajectory(trajectory)
    real = np.flatnonzero(trajectory.mask)[
        choose_shown_rows(trajectory, projection, MAX_TOKENS)
    ]
    is_hardmax = isinstance(trajectory, HardmaxTrajectory)
    last = (
        len(trajectory.saved) - 1
        if is_hardmax
        else flows.find_index(cast(SmoothTrajectory, trajectory), -1)
    )
    positions = choose_frames(last, MAX_FRAMES)
    look = _hardmax_look if is_hardmax else _smooth_look
    faces, edges, stars, texts, hull = look(
        cast(Any, trajectory), real, positions, palette
    )
    Z = projection(trajectory.drawn[: last + 1, real].astype(np.float64))[
        positions
    ]  # (frames, n, 2 or 3)
    hidden = np.array(
        [~s & flows.is_covered(z, s, projection) for z, s in zip(Z, stars, strict=True)]
    )
    tokens = encode_tokens(
        Z, faces, edges, np.where(stars, STAR, np.where(hidden, HIDDEN, CIRCLE))
    )
    outline = None if hull is None else describe_hull(projection(hull))
    tokens |= {
        "texts": texts,
        "hull": (
            outline if outline and len(outline["points"]) > 2 else None
        ),  # a segment would look like a path
        "size": float(np.sqrt(marker_size(len(real)) / SIZE)),
        "trail_step": max(1, -(-Z.shape[0] * Z.shape[1] // MAX_TRAIL_POINTS)),
    }
    shapes = (
        describe_sphere(projection.source)
        if isinstance(trajectory.rule, Sphere)
        else []
    )
    panel = {
        "kind": "picture",
        "axes": describe_axes(projection),
        "equal": projection.equal and projection.source > 1,
    }
    panel |= {"label": "tokens", "shapes": shapes}
    frames = [{"label": trajectory.label(at)} for at in positions]
    return {"panels": [panel], "frames": frames, "tokens": tokens}


def encode_tokens(Z: FloatArray, faces: Any, edges: Any, marks: Any) -> dict[str, Any]:
    """Return positions (frames, n, 2 or 3), colours and marks (frames, n) as the viewer
    reads them.
    """
    palette: dict[str, int] = {}
    indices = {
        "faces": _find_indices(faces, palette),
        "edges": _find_indices(edges, palette),
    }
    kind = np.uint8 if len(palette) <= 256 else np.uint16
    encoded = {name: encode(array.astype(kind)) for name, array in indices.items()}
    encoded |= {
        "positions": encode(Z.astype(np.float32)),
        "marks": encode(np.asarray(marks, np.uint8)),
    }
    return encoded | {"dimension": Z.shape[-1], "palette": list(palette)}


# Colours, edges and stars of the tokens by frame, tooltips, and the hull at the end
Look = tuple[Any, Any, BoolArray, list[str], FloatArray | None]


def _hardmax_look(
    trajectory: HardmaxTrajectory,
    real: IntArray,
    positions: list[int],
    palette: Palette | None,
) -> Look:
    palette, record = palette or Palette(trajectory), trajectory.records[0]
    # Class of each token.
    own = record.classes.labels[np.searchsorted(record.real, real)]
    end = trajectory.attention(-1, sparse=True)
    follows = [
        ", ".join(map(str, end.indices[end.indptr[i] : end.indptr[i + 1]]))
        for i in real
    ]
    numbers = {members: c for c, members in enumerate(dict.fromkeys(follows))}
    texts = [
        f"token {i}\ncluster"
        f" {numbers[members]}\n{'leads' if star else f'follows {members}'}"
        for i, members, star in zip(
            real, follows, is_leading_class(trajectory, -1)[own], strict=True
        )
    ]
    sets = [record.sets(int(trajectory.saved[at])) for at in positions]
    leaders = trajectory.leaders
    stars = np.array(
        [is_leading_class(trajectory, at) for at in positions]
    )  # (frames, classes)
    faces = [palette.faces(one)[own] for one in sets]
    edges = np.where(stars, EDGE, [palette.edges(record, one) for one in sets])[:, own]
    has_hull = len(leaders) and trajectory.rule.normalize
    return (
        faces,
        edges,
        stars[:, own],
        texts,
        trajectory.array[-1, leaders].astype(np.float64) if has_hull else None,
    )


def _smooth_look(
    trajectory: SmoothTrajectory,
    real: IntArray,
    positions: list[int],
    palette: AnyArray | None,
) -> Look:
    last = positions[-1]
    colours, labels = (
        flows.choose_flow_colours(trajectory, palette)[real].tolist(),
        trajectory.clusters[real],
    )
    texts = [f"token {i}\ncluster {c}" for i, c in zip(real, labels, strict=True)]
    if trajectory.rule.attends and len(
        trajectory.leaders
    ):  # without leaders, weights are spread over all tokens
        P = np.asarray(to_numpy(trajectory.attention(last)), np.float64)
        P = P.mean(axis=0) if P.ndim == 3 else P
        followed, leaders = P.argmax(axis=-1), set(trajectory.leaders.tolist())
        texts = [
            f"{text}\n{'leads' if i in leaders else f'follows {followed[i]} ({P[i, followed[i]]:.0%})'}"
            for i, text in zip(real, texts, strict=True)
        ]
    hull = None
    if flows.has_shrinking_hull(trajectory):
        Z = trajectory.drawn[last, real].astype(np.float64)
        hull = np.array([Z[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    stars = np.array([flows.is_leader(trajectory, at)[real] for at in positions])
    return (
        [colours] * len(positions),
        [[EDGE] * len(real)] * len(positions),
        stars,
        texts,
        hull,
    )


def encode(array: AnyArray) -> str:
    """Return an array in base64."""
    return b64encode(
        np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    ).decode()


def _find_indices(rows: Sequence[Sequence[str]], palette: dict[str, int]) -> IntArray:
    """Return colours as indices of a palette, to which new ones are added."""
    names = [[THEME.get(colour, colour) for colour in row] for row in rows]
    return np.array(
        [[palette.setdefault(name, len(palette)) for name in row] for row in names]
    )


def describe_hull(points: FloatArray) -> dict[str, Any] | None:
    """Return the hull of points: corners in order, in space with facets; None for a
    single point.
    """
    hull = Polytope(points)
    if hull.dimension == 3:
        return {"points": points.tolist(), "facets": hull.facets.tolist()}
    corners = points[hull.outline] if hull.dimension == 2 else hull.vertices
    return {"points": corners.tolist(), "facets": None} if hull.dimension else None


def describe_sphere(d: int) -> list[dict[str, Any]]:
    """Return the unit circle, or meridians and parallels of the unit sphere."""
    turn = np.linspace(0, 2 * np.pi, 61)
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    if d not in (2, 3):
        return []
    paths = [circle]
    if d == 3:
        angles = np.pi * np.arange(1, 6) / 6
        paths = [
            np.column_stack([np.sin(a) * circle, np.full(len(turn), np.cos(a))])
            for a in angles
        ]
        paths += [
            np.column_stack(
                [np.outer(circle[:, 0], [np.cos(a), np.sin(a)]), circle[:, 1]]
            )
            for a in angles
        ]
    return [
        {
            "kind": "lines",
            "paths": [path.round(4).tolist() for path in paths],
            "colour": "line",
            "alpha": 1,
        }
    ]


def describe_axes(projection: Projection) -> list[dict[str, Any]]:
    """Return label, limits and ticks of each axis; None stands for ticks that the
    viewer chooses.
    """
    axes = []
    for r, label in enumerate(projection.labels):
        plain = re.sub(
            r"_\{(\d+)\}", lambda found: found[1].translate(SUBSCRIPTS), label
        ).replace("$", "")
        ticks: Any = projection.ticks(r)
        if ticks is not None:
            ticks = [
                [at, f"{x:.0e}".replace("e+0", "e") if x else "0"]
                for at, x in ticks.items()
            ]
        axis = {
            "label": plain,
            "low": float(projection.low[r]),
            "high": float(projection.high[r]),
            "ticks": ticks,
        }
        axes.append(axis | {"hidden": projection.source == 1 and r == 1})
    return axes
