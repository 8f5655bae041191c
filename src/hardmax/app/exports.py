"""Files of the playground: a page, a movie, tables, the scene, and the lines of Python
that repeat it.
"""

import json
from dataclasses import fields
from fractions import Fraction
from threading import Lock
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, Progress
from hardmax.app.playground import RTOL, TIMES, add_colours, run
from hardmax.app.scene import Scene
from hardmax.draw.movies import movie
from hardmax.draw.pages import trajectory_page
from hardmax.draw.tokens import Palette

MEDIA_TYPES = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "gif": "image/gif",
    "csv": "text/csv",
    "json": "application/json",
    "html": "text/html",
    "py": "text/x-python",
}
DRAWING = Lock()  # pyplot has one list of figures for all threads
MAX_FRAMES = 60  # of a movie: some seconds of work
MAX_WRITTEN = 400  # numbers that are written into Python code


def to_python(scene: Scene) -> str:
    """Return lines of Python that compute the result of a scene with the tolerances of
    the app.
    """
    tokens = (
        'np.loadtxt("hardmax.csv", delimiter=",", skiprows=1, ndmin=2)  # exported as'
        " CSV at layer 0"
    )
    if scene.tokens.size <= MAX_WRITTEN:
        tokens = f"np.array({json.dumps(scene.tokens.tolist())})"
    lines = ["import numpy as np", "import hardmax as hm", "", f"tokens = {tokens}"]
    if scene.rule == "sphere":
        lines.append("tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)")
    rule = scene.make_rule()
    lines.append(f"rule = {_write_rule(rule)}")
    times = f"times=np.linspace(0, {scene.time!r}, {TIMES}), rtol={RTOL!r}"
    how = times if rule.continuous else f"layers={scene.layers}"
    lines += [f"trajectory = hm.simulate(tokens, rule, {how})", "print(trajectory)"]
    if isinstance(rule, hm.Hardmax):
        lines.append("print(hm.limit(tokens, rule))")
    return "\n".join(
        [
            *lines,
            "for verdict in hm.theorems.check(trajectory):",
            "    print(verdict)",
            "",
        ]
    )


def _write_rule(rule: Any) -> str:
    """Return the call that makes a rule; unlike its `repr`, with all digits of matrices
    and no Fractions.
    """
    parts = []
    for each in fields(rule):
        value = getattr(rule, each.name)
        if value is not each.default:
            value = value.tolist() if isinstance(value, np.ndarray) else value
            parts.append(
                f"{each.name}={float(value) if isinstance(value, Fraction) else value!r}"
            )
    return f"hm.{type(rule).__name__}({', '.join(parts)})"


def to_file(scene: Scene, kind: str, progress: Progress | None = None) -> bytes:
    """Return the shown layer as CSV, the layers as a movie or page, the trajectory as
    JSON, or Python.

    The viewer itself makes PNG and SVG, of what it shows.
    """
    if kind in ("png", "svg"):
        raise ParameterError("kind", "be py, csv, json, html or gif", repr(kind))
    if kind == "py":
        return to_python(scene).encode()
    if kind == "csv" and scene.shown == 0 and scene.rule != "sphere":
        return _write_rows(scene.tokens)
    trajectory = run(scene, progress)
    if kind == "csv":
        return _write_rows(
            trajectory.array[min(scene.shown, len(trajectory.saved) - 1)]
        )
    if kind == "json":
        return bytes(trajectory.to_json().encode())
    palette, steps = (
        choose_palette(scene, trajectory),
        max(1, min(4, MAX_FRAMES // len(trajectory.saved))),
    )
    with DRAWING:
        if kind == "html":
            return trajectory_page(
                trajectory, "Tokens and their leaders", palette=palette
            ).encode()
        return movie(trajectory, steps=steps, progress=progress, palette=palette).data


def choose_palette(scene: Scene, trajectory: Any) -> Any:
    """Return the colours of the tokens on the screen, for movies and pages."""
    header, arrays = dict[str, Any](), dict[str, AnyArray]()
    add_colours(scene, trajectory, header, arrays)
    colours = [
        header["palette"][k] if k >= 0 else None
        for k in arrays["token_colours"].tolist()
    ]
    if not isinstance(trajectory, hm.HardmaxTrajectory):
        return np.array(colours)
    return Palette(
        trajectory, chosen={i: colour for i, colour in enumerate(colours) if colour}
    )


def _write_rows(tokens: AnyArray) -> bytes:
    head = ",".join(f"x{r + 1}" for r in range(tokens.shape[1]))
    return "\n".join(
        [head, *(",".join(map(repr, row)) for row in tokens.tolist()), ""]
    ).encode()
