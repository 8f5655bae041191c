"""What the library says of a scene: positions, leaders, colours, the limit, overlays and verdicts, for a picture."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._errors import InputError
from hardmax._types import AnyArray, FloatArray, Progress
from hardmax.app.scene import Scene
from hardmax.app.unshown import MOST_HULLS, MOST_MATRIX, unshown
from hardmax.draw.pages import list_limit_points
from hardmax.draw.projection import Projection
from hardmax.draw.style import COLOURS, REST
from hardmax.draw.tokens import Palette
from hardmax.flows.classify import classify_rule
from hardmax.polytope import Polytope
from hardmax.rules.base import Rule

MANY = 2000  # tokens beyond which a drag is answered at its end
MANY_SAID = "So many tokens: a drag is answered when it ends, and some trails are drawn."
MOST_CHECKED = 60_000  # tokens times layers on which theorems are checked
UNCHECKED_SAID = "Theorems are left out: so many tokens and layers take longer than one waits."
CELLS, COARSE = (256, 192), (96, 72)  # of the plane, across and up; and while a token is dragged
MANY_CELLS = 500  # tokens beyond which cells wait for the end of a drag
MOST_ROWS = 12  # of a table
TIMES = 61  # of a flow
LONGEST = 60.0  # seconds that an answer may take, for others wait as well
LONGEST_SAID = (
    f"An answer must take at most {LONGEST:g} seconds. This one takes longer. Take fewer tokens or less time."
)
WHITE = -2  # the number of no colour: follows several, or nobody; REST is -1

Answer = tuple[dict[str, Any], dict[str, AnyArray]]


class Cancelled(Exception):
    """Newer input came while this was computed."""


def rule_of(scene: Scene) -> Rule:
    """The rule that moves the tokens of a scene."""
    if scene.rule == "hardmax" or (scene.rule == "softmax" and scene.temperature == 0):
        return hm.Hardmax(scene.alpha, scene.A, causal=scene.causal)
    if scene.rule == "softmax":
        return hm.Softmax(scene.alpha, scene.A, temperature=scene.temperature, causal=scene.causal)
    if scene.rule == "sphere":
        return hm.Sphere(scene.beta, causal=scene.causal)
    return hm.SelfAttention(V=scene.V, causal=scene.causal)


def start_of(scene: Scene) -> FloatArray:
    """The tokens that are run: on the sphere, divided by their lengths."""
    if scene.rule != "sphere":
        return scene.tokens
    lengths = np.linalg.norm(scene.tokens, axis=1, keepdims=True)
    if not lengths.all():
        raise InputError("A token must have a direction to lie on the sphere. One of them is 0. Move it.")
    return np.asarray(scene.tokens / lengths)


def _until(stopped: Callable[[], bool]) -> Progress:
    """A report of progress that gives up the work when something newer was asked, or when it takes too long."""
    began = time.monotonic()

    def progress(*_: int) -> None:
        if stopped():
            raise Cancelled
        if time.monotonic() - began > LONGEST:
            raise InputError(LONGEST_SAID)

    return progress


def run(scene: Scene, stopped: Callable[[], bool] = lambda: False) -> hm.Trajectory:
    """The trajectory of a scene; given up with `Cancelled` as soon as `stopped` says so."""
    progress, rule = _until(stopped), rule_of(scene)
    if rule.continuous:
        times = np.linspace(0, scene.time, TIMES)
        return hm.simulate(start_of(scene), rule, times=times, rtol=1e-6, progress=progress)  # type: ignore[call-overload]
    return hm.simulate(start_of(scene), rule, layers=scene.layers, progress=progress)  # type: ignore[call-overload]


def answer(scene: Scene, *, quickly: bool = False, stopped: Callable[[], bool] = lambda: False) -> Answer:
    """Header and arrays for the plane. `quickly`, while a token is dragged, leaves out what takes longer to say."""
    trajectory = run(scene, stopped)
    shown = min(scene.shown, len(trajectory.saved) - 1)
    view = Projection.of_trajectory(trajectory)
    paths = view(trajectory.drawn.astype(np.float64))[..., :2].astype(np.float32)
    header: dict[str, Any] = {
        "n": scene.n,
        "d": scene.d,
        "layers": [trajectory.label(at) for at in range(len(trajectory.saved))],
        "shown": shown,
        "selected": scene.selected,
        "overlays": list(scene.overlays),
        "colours": COLOURS,
        "rest": REST,
        "axes": [label.replace("$", "").replace("{", "").replace("}", "") for label in view.labels[:2]],
        "status": trajectory.status,
        "movable": scene.d <= 2 and view.basis is None and view.unit == 1 and view.log_beyond is None,
        "many": scene.n > MANY,
    }
    arrays: dict[str, AnyArray] = {"paths": paths}
    if "hulls" in scene.overlays and scene.d > 1 and scene.n <= MOST_HULLS:
        arrays["hulls"], arrays["hull_ends"] = _hulls(paths.astype(np.float64))
    if view.basis is not None:
        header["axes_said"] = f"Seen along {' and '.join(header['axes'])}, of {scene.d} dimensions."
    if scene.n > MANY:
        header["many_said"] = MANY_SAID
    if isinstance(trajectory, hm.HardmaxTrajectory):
        _hardmax(scene, trajectory, shown, header, arrays, quickly)
    else:
        _smooth(trajectory, header, arrays)
    if stopped():
        raise Cancelled
    if "attention" in scene.overlays and scene.n <= MOST_MATRIX:
        arrays["attention"] = np.asarray(
            trajectory.attention(int(trajectory.saved[shown]) if not trajectory.rule.continuous else shown)
        ).astype(np.float32)
    if scene.d == 2 and scene.rule in ("hardmax", "softmax"):
        _ellipse(scene, header)
    if not quickly:
        header["unshown_said"] = unshown(scene, {*header, *arrays})
    if scene.n * scene.layers > MOST_CHECKED:
        header["unchecked_said"] = UNCHECKED_SAID
    elif not quickly:
        found = hm.theorems.check(trajectory, progress=_until(stopped))
        header["verdicts"] = [{"name": v.name, "outcome": v.outcome, "reason": v.reason} for v in found if v.applies]
    return header, arrays


def _hardmax(
    scene: Scene,
    trajectory: "hm.HardmaxTrajectory",
    shown: int,
    header: dict[str, Any],
    arrays: dict[str, AnyArray],
    quickly: bool,
) -> None:
    cloud, palette = trajectory.token_sets[0], Palette(trajectory)
    numbers = {colour: i for i, colour in enumerate(COLOURS)} | {REST: -1, "#FFFFFF": WHITE}
    labels = cloud.classes.labels
    arrays["colour"] = np.stack([[numbers[c] for c in palette.faces(sets).tolist()] for sets in cloud.sets])[
        :, labels
    ].astype(np.int8)
    arrays["own"] = np.array([numbers[c] for c in palette.of_class.tolist()])[labels].astype(np.int8)
    arrays["follows"] = np.stack([cloud.classes.first[sets.targets] for sets in cloud.sets])[:, labels].astype(np.int16)
    arrays["emerged"] = np.clip(trajectory.emerged, -1, 32000).astype(np.int16)
    header["leaders"] = trajectory.leaders.tolist()
    result = hm.limit(scene.tokens, trajectory.rule) if not scene.causal else None
    if result is not None:
        header["status"] = result.status
        header["points"] = [list(row) for row in list_limit_points(result, MOST_ROWS)]
        header["certified"] = result.certified
        if scene.d <= 2:
            arrays["limit"] = _flat(np.asarray(result.tokens)).astype(np.float32)
    if len(trajectory.leaders) and scene.d == 2:
        arrays["hull"] = _outline(trajectory.array[shown, trajectory.leaders].astype(np.float64))
    if scene.d == 2 and 0 <= scene.selected < scene.n and "half-space" in scene.overlays:
        path = trajectory.array[:, scene.selected].astype(np.float64)  # a half-space in every layer
        arrays["normals"] = (path if scene.A is None else path @ scene.A.T).astype(np.float32)
    if scene.d == 2 and "cells" in scene.overlays and not (quickly and scene.n > MANY_CELLS):
        header["cells"], arrays["cells"] = _cells(
            scene, trajectory, shown, palette, numbers, COARSE if quickly else CELLS
        )


def _smooth(trajectory: Any, header: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
    """Colours by who ends together, and stars for those who lead there."""
    labels = trajectory.clusters
    colour = np.where((labels >= 0) & (labels < len(COLOURS)), labels, -1).astype(np.int8)
    arrays["colour"] = np.broadcast_to(colour, (len(trajectory.saved), len(labels)))
    arrays["own"] = colour
    emerged = np.full(len(labels), -1, np.int16)
    emerged[trajectory.leaders] = 0
    arrays["emerged"] = emerged
    header["leaders"] = np.asarray(trajectory.leaders).tolist()
    if isinstance(trajectory.rule, hm.SelfAttention):
        header["expected"] = repr(classify_rule(trajectory.rule, trajectory.array.shape[-1]))


def _outline(points: FloatArray) -> AnyArray:
    """(corners, 2) the convex hull of points of the plane, in its order."""
    hull = Polytope(points)
    return np.asarray(hull.vertices[hull.outline] if hull.dimension == 2 else hull.vertices, np.float32)


def _hulls(paths: FloatArray) -> tuple[AnyArray, AnyArray]:
    """Corners of the hulls of all layers, one behind the other, and where each ends."""
    outlines = [_outline(points) for points in paths]
    return np.concatenate(outlines), np.cumsum([len(each) for each in outlines]).astype(np.int32)


def _flat(points: FloatArray) -> FloatArray:
    """(n, 2) of points of one or two coordinates."""
    return points if points.shape[1] == 2 else np.hstack([points, np.zeros_like(points)])


def _cells(
    scene: Scene,
    trajectory: "hm.HardmaxTrajectory",
    shown: int,
    palette: Palette,
    numbers: dict[str, int],
    counts: tuple[int, int],
) -> tuple[dict[str, Any], AnyArray]:
    """For a grid over the picture the colour of whom a token would follow that stood there."""
    keys = trajectory.array[shown].astype(np.float64)
    low, high = trajectory.array.min(axis=(0, 1)), trajectory.array.max(axis=(0, 1))
    pad = 0.25 * float((high - low).max() or 1.0)
    low, high = low - pad, high + pad
    across, up = (np.linspace(low[r], high[r], count) for r, count in enumerate(counts))
    places = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    found = hm.argmax_sets(places if scene.A is None else places @ scene.A.T, keys)
    colours = np.array([numbers[palette(j)] for j in range(scene.n)])
    colours[colours == WHITE] = numbers[REST]  # nobody follows it yet; who stood here would
    cells = np.where(found.sizes == 1, colours[found.targets], WHITE).astype(np.int8).reshape(counts[::-1])
    return {"low": low.tolist(), "high": high.tolist()}, cells


def _ellipse(scene: Scene, header: dict[str, Any]) -> None:
    """Half-axes of a level set of the inner product, and the radius they have where A is the identity."""
    A = np.eye(2) if scene.A is None else scene.A
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    if (values > 0).all():
        radius = 0.5 * float(np.abs(scene.tokens).max() or 1.0)
        axes = (vectors * (radius / np.sqrt(values))).T  # (2, 2), a row each
        header["ellipse"] = {"axes": axes.tolist(), "radius": radius}


def pulled(scene: Scene, axis: int, end: FloatArray) -> FloatArray:
    """The A whose level set has one half-axis ending there, and the other as long as before, at a right angle."""
    A = np.eye(2) if scene.A is None else scene.A
    values = np.linalg.eigvalsh((A + A.T) / 2)
    radius = 0.5 * float(np.abs(scene.tokens).max() or 1.0)
    length = float(np.linalg.norm(end))
    if not 1e-3 * radius <= length <= 1e3 * radius:
        raise InputError("The ellipse must keep its shape. This end is too near or too far. Pull it less.")
    direction = end / length
    frame = np.stack([direction, [-direction[1], direction[0]]], axis=1)
    kept = float(values[1 - axis])
    A = frame @ np.diag([(radius / length) ** 2, kept]) @ frame.T
    return np.round((A + A.T) / 2, 6)
