"""Files of the playground: pictures, a movie, tables, the scene, and the lines of Python that repeat it."""

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, cast

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import hardmax as hm
from hardmax.app.playground import RTOL, TIMES, run
from hardmax.app.scene import Scene
from hardmax.draw.movies import movie
from hardmax.draw.pages import trajectory_page
from hardmax.draw.tokens import plot_tokens

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
    """Return lines of Python that compute the result of a scene with the tolerances of the app."""
    tokens = 'np.loadtxt("hardmax.csv", delimiter=",", skiprows=1, ndmin=2)  # exported as CSV'
    if scene.tokens.size <= MAX_WRITTEN:
        tokens = f"np.array({json.dumps(scene.tokens.tolist())})"
    lines = ["import numpy as np", "import hardmax as hm", "", f"tokens = {tokens}"]
    if scene.rule == "sphere":
        lines.append("tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)")
    rule = scene.make_rule()
    lines.append(f"rule = {_write_rule(scene, type(rule).__name__)}")
    how = (
        f"times=np.linspace(0, {scene.time!r}, {TIMES}), rtol={RTOL!r}" if rule.continuous else f"layers={scene.layers}"
    )
    lines += [f"trajectory = hm.simulate(tokens, rule, {how})", "print(trajectory)"]
    if isinstance(rule, hm.Hardmax):
        lines.append("print(hm.limit(tokens, rule))")
    return "\n".join([*lines, "for verdict in hm.theorems.check(trajectory):", "    print(verdict)", ""])


def _write_rule(scene: Scene, name: str) -> str:
    parts: list[str] = []
    if name in ("Hardmax", "Softmax"):
        parts += [repr(scene.alpha), *([] if scene.A is None else [repr(scene.A.tolist())])]
        parts += [f"temperature={scene.temperature!r}"] if name == "Softmax" else []
    if name == "Sphere":
        parts.append(repr(scene.beta))
    if name == "SelfAttention" and scene.V is not None:
        parts.append(f"V={scene.V.tolist()!r}")
    parts += ["causal=True"] if scene.causal else []
    return f"hm.{name}({', '.join(parts)})"


def to_file(scene: Scene, kind: str) -> bytes:
    """Return the shown layer as a picture, the layers as a movie or page, tokens as CSV, the trajectory as JSON."""
    if kind == "py":
        return to_python(scene).encode()
    if kind == "csv":
        head = ",".join(f"x{r + 1}" for r in range(scene.d))
        return "\n".join([head, *(",".join(map(repr, row)) for row in scene.tokens.tolist()), ""]).encode()
    trajectory = run(scene)
    if kind == "json":
        return bytes(trajectory.to_json().encode())
    with DRAWING:
        if kind == "html":
            return trajectory_page(trajectory, "Tokens and their leaders").encode()
        return _make_movie(trajectory) if kind == "gif" else _draw(trajectory, scene.shown, kind)


def _make_movie(trajectory: Any) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "movie.gif")
        movie(trajectory, path, steps=max(1, min(4, MAX_FRAMES // len(trajectory.saved))))
        return path.read_bytes()


def _draw(trajectory: Any, shown: int, kind: str) -> bytes:
    at = min(shown, len(trajectory.saved) - 1)
    ax = plot_tokens(trajectory, at if trajectory.rule.continuous else int(trajectory.saved[at]))
    figure = cast(Figure, ax.figure)
    data = io.BytesIO()
    figure.savefig(data, format=kind, dpi=150)
    plt.close(figure)
    return data.getvalue()
