"""A scene as files, and as the lines of Python that make it."""

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.app.answers import rule_of, run
from hardmax.app.scene import Scene
from hardmax.draw.movies import movie
from hardmax.draw.tokens import plot_layers

KINDS = ("png", "svg", "gif", "csv", "json", "scene")
DRAWING = Lock()  # pyplot knows the figures of all threads
MOST_FRAMES = 60  # of a movie: some seconds of work
MOST_WRITTEN = 400  # numbers that are written out in Python


def as_python(scene: Scene) -> str:
    """Lines that make the result of a scene, and run as they are."""
    tokens = 'np.loadtxt("hardmax.csv", delimiter=",", skiprows=1, ndmin=2)  # Export, CSV'
    if scene.tokens.size <= MOST_WRITTEN:
        tokens = f"np.array({json.dumps(scene.tokens.tolist())})"
    lines = ["import numpy as np", "import hardmax as hm", "", f"tokens = {tokens}"]
    if scene.rule == "sphere":
        lines += ["tokens = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)"]
    rule = rule_of(scene)
    written = _written(scene, type(rule).__name__)
    lines += [f"rule = {written}"]
    if rule.continuous:
        lines += [f"trajectory = hm.simulate(tokens, rule, times=np.linspace(0, {scene.time!r}, 61))"]
    else:
        lines += [f"trajectory = hm.simulate(tokens, rule, layers={scene.layers})"]
    lines += ["print(trajectory)"]
    if isinstance(rule, hm.Hardmax) and not scene.causal:
        lines += ["print(hm.limit(tokens, rule))"]
    return "\n".join([*lines, "for verdict in hm.theorems.check(trajectory):", "    print(verdict)", ""])


def _written(scene: Scene, name: str) -> str:
    parts: list[str] = []
    if name in ("Hardmax", "Softmax"):
        parts += [repr(scene.alpha), *([] if scene.A is None else [repr(scene.A.tolist())])]
        parts += [f"temperature={scene.temperature!r}"] if name == "Softmax" else []
    if name == "Sphere":
        parts += [repr(scene.beta)]
    if name == "SelfAttention" and scene.V is not None:
        parts += [f"V={scene.V.tolist()!r}"]
    parts += ["causal=True"] if scene.causal else []
    return f"hm.{name}({', '.join(parts)})"


def as_file(scene: Scene, kind: str) -> bytes:
    """A picture, a movie, tokens as CSV, the trajectory as JSON, or the scene itself, which can be opened again."""
    if kind == "scene":
        return json.dumps(scene.to_data()).encode()
    if kind == "csv":
        head = ",".join(f"x{r + 1}" for r in range(scene.d))
        return "\n".join([head, *(",".join(map(repr, row)) for row in scene.tokens.tolist()), ""]).encode()
    trajectory = run(scene)
    if kind == "json":
        return trajectory.to_json().encode()
    with DRAWING:
        return _movie(trajectory) if kind == "gif" else _picture(trajectory, kind)


def _movie(trajectory: hm.Trajectory) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "movie.gif")
        movie(trajectory, path, steps=max(1, min(4, MOST_FRAMES // len(trajectory.saved))))
        return path.read_bytes()


def _picture(trajectory: hm.Trajectory, kind: str) -> bytes:
    figure = plot_layers(trajectory)
    data = io.BytesIO()
    figure.savefig(data, format=kind, dpi=150)
    plt.close(figure)
    return data.getvalue()
