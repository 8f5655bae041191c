"""Answers of the playground: positions, leaders, colours, overlays, limit and verdicts
of a scene.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._errors import InputError, ParameterError
from hardmax._types import AnyArray, FloatArray, IntArray, Progress
from hardmax.app.scene import MAX_PAIRED_TOKENS, Scene
from hardmax.draw.pages import list_limit_points
from hardmax.draw.player import describe_axes, describe_hull, describe_sphere
from hardmax.draw.projection import Projection
from hardmax.draw.style import COLOURS, find_hue, hue_colour
from hardmax.flows.classify import classify_rule

MANY_TOKENS = 2000  # above this number a drag is answered when it ends
MAX_CHECKED = 60_000  # tokens times layers up to which theorems are checked
MAX_ROWS = 12  # of the table of limit points
MAX_MEMBERS = 200  # tokens of a limit point that are highlighted
MAX_SCORES = 12  # bars of the selected token
MAX_MATRIX = 80  # tokens of an attention matrix
MAX_HULLS = 2000  # tokens whose hulls are drawn
MAX_CONTROLLED = 500  # tokens for which A is chosen
MAX_CELLS = 2000  # tokens whose cells are drawn
MAX_CLASHES = 6
TIMES = 61  # saved times of a flow
RTOL = 1e-6  # of flows
MAX_SECONDS = 60.0  # of one answer
TEMPERATURES = (1.0, 0.3, 0.1, 0.0)  # of the small multiples

Answer = tuple[dict[str, Any], dict[str, AnyArray]]
Stopped = Callable[[], bool]


class Cancelled(Exception):
    """The client has gone, or has sent a newer request."""


def watch(stopped: Stopped) -> Progress:
    """Return a progress function that ends the work when the client has gone or the
    time is over.
    """
    began = time.monotonic()

    def progress(*_: int) -> None:
        if stopped():
            raise Cancelled
        if time.monotonic() - began > MAX_SECONDS:
            must = f"An answer must take at most {MAX_SECONDS:g} seconds."
            raise InputError(
                f"{must} This one takes longer. Use fewer tokens, or less time."
            )

    return progress


def run(scene: Scene, progress: Progress | None = None) -> Any:
    """Return the trajectory of a scene."""
    rule = scene.make_rule()
    if rule.continuous:
        times = np.linspace(0, scene.time, TIMES)
        return hm.simulate(scene.start, rule, times=times, rtol=RTOL, progress=progress)  # type: ignore[call-overload]
    return hm.simulate(scene.start, rule, layers=scene.layers, progress=progress)  # type: ignore[call-overload]


def answer(
    scene: Scene, *, quick: bool = False, stopped: Stopped = lambda: False
) -> Answer:
    """Return header and arrays for the viewer; `quick` leaves out verdicts, for use
    during a drag.
    """
    progress = watch(stopped)
    trajectory = run(scene, progress)
    shown = min(scene.shown, len(trajectory.saved) - 1)
    view = Projection.of_trajectory(trajectory)
    arrays: dict[str, AnyArray] = {
        "positions": view(trajectory.drawn.astype(np.float64)).astype(np.float32)
    }
    header: dict[str, Any] = {
        "layers": [trajectory.label(at) for at in range(len(trajectory.saved))],
        "shown": shown,
        "dimension": view.dimension,
        "axes": describe_axes(view),
        "equal": view.equal,
        "movable": (
            scene.d <= 2
            and view.basis is None
            and view.unit == 1
            and view.log_beyond is None
        ),
        "many": scene.n > MANY_TOKENS,
        "notes": [],
        "sphere": describe_sphere(scene.d) if scene.rule == "sphere" else [],
    }
    if view.basis is not None:
        header["notes"].append(
            f"The axes are {' and '.join(axis['label'] for axis in header['axes'])}."
        )
    add_colours(scene, trajectory, header, arrays)
    if isinstance(trajectory, hm.HardmaxTrajectory):
        _add_limit(scene, trajectory, header, arrays, progress)
    else:
        _add_simulation(trajectory, header)
    _add_overlays(scene, trajectory, shown, header, arrays)
    if 0 <= scene.selected < scene.n and (
        scores := score_token(scene, trajectory, shown)
    ):
        ends = view(np.array([[scores["from"]], [scores["to"]]]))[:, 0].tolist()
        header["scores"] = scores | {"from": ends[0], "to": ends[1]}
    if scene.V is not None and scene.d == 2:
        header["V"] = describe_values(scene.V)
    if quick:
        return header, arrays
    if scene.n * len(trajectory.saved) > MAX_CHECKED:
        header["notes"].append(
            "Theorems are not checked for this many tokens and layers."
        )
    else:
        found = hm.theorems.check(trajectory, progress=progress)
        header["verdicts"] = [
            {"name": v.name, "outcome": v.outcome, "reason": v.reason}
            for v in found
            if v.applies
        ]
    return header, arrays


def add_colours(
    scene: Scene, trajectory: Any, header: dict[str, Any], arrays: dict[str, AnyArray]
) -> None:
    """Add leaders and colours: under hardmax that of the followed token, else that of
    the cluster at the end.
    """
    leaders = header["leaders"] = np.asarray(trajectory.leaders).tolist()
    if isinstance(trajectory, hm.HardmaxTrajectory):
        record = trajectory.records[0]
        labels, first = record.classes.labels, record.classes.first
        of_layers = (record.sets(k) for k in trajectory.saved.tolist())
        follows = np.stack(
            [np.where(sets.sizes == 1, first[sets.targets], -1) for sets in of_layers]
        )[:, labels]
        arrays["follows"] = follows.astype(
            np.int32
        )  # (layers, n); -1 for several tokens
        arrays["emerged"] = trajectory.emerged.astype(np.int32)
        group, order = (
            np.arange(scene.n),
            [*leaders, *np.setdiff1d(follows[follows >= 0], leaders).tolist()],
        )
    else:  # the first token of a cluster represents it
        arrays["emerged"] = np.where(
            np.isin(np.arange(scene.n), leaders), 0, -1
        ).astype(np.int32)
        _, first, inverse = np.unique(
            trajectory.clusters, return_index=True, return_inverse=True
        )
        group, order = (
            first[inverse],
            first[np.argsort(-np.bincount(inverse), kind="stable")].tolist(),
        )
    _add_palette(scene, order, group, header, arrays)


def _add_limit(
    scene: Scene,
    trajectory: Any,
    header: dict[str, Any],
    arrays: dict[str, AnyArray],
    progress: Progress,
) -> None:
    """Add the limit of hardmax and the polytope."""
    leaders, points = trajectory.leaders, list[dict[str, Any]]()
    result = trajectory.limit()
    first, _, why = result.status.partition(". ")
    sentence = (
        f"{first}, by {why.rpartition('Proved by ')[2]}"
        if result.certified
        else f"{first}. {result.reason}"
    )
    header |= {
        "sentence": sentence,
        "details": [result.status],
        "certified": bool(result.certified),
    }
    header |= {
        "columns": ["leader", "coordinates", "since", "tokens"],
        "points": points,
    }
    written = _write_points(result.points[:MAX_ROWS])
    for p, (at, name, since, tokens) in enumerate(list_limit_points(result, MAX_ROWS)):
        is_point = p < len(
            written
        )  # later rows are remarks: the number of further points, and undecided tokens
        leader = (
            int(result.leaders[p]) if is_point and p < len(result.leaders) else None
        )
        members = np.flatnonzero(
            result.clusters == (p if is_point else -2 if at else -1)
        )[:MAX_MEMBERS].tolist()
        name = (
            f"■ {name}" if is_point and leader is None else name.removeprefix("leader ")
        )
        cells = [name, written[p] if is_point else "", since, tokens]
        points.append({"leader": leader, "cells": cells, "members": members})
    if "limit" in scene.overlays and scene.d <= 3:
        view = np.asarray(result.tokens, np.float64)
        arrays["limit"] = (
            view if scene.d > 1 else np.pad(view, ((0, 0), (0, 1)))
        ).astype(np.float32)
    if len(leaders) and scene.d in (2, 3):
        header["polytope"] = describe_hull(
            trajectory.array[-1, leaders].astype(np.float64)
        )


def _write_points(points: AnyArray) -> list[str]:
    """Write coordinates with two or three digits of the largest one; of more than three
    coordinates the first.
    """
    digits = int(
        np.clip(
            2 - np.round(np.log10(float(np.abs(points).max(initial=0.0)) or 1.0)), 0, 12
        )
    )
    shown = [
        ", ".join(f"{round(x, digits) + 0.0:.{digits}f}" for x in point[:3])
        for point in points.tolist()
    ]
    return [
        text.replace("-", "\N{MINUS SIGN}") + (", …" if points.shape[1] > 3 else "")
        for text in shown
    ]


def _add_simulation(trajectory: Any, header: dict[str, Any]) -> None:
    """Add the leaders at the end of a rule whose limit is not proved."""
    _, _, found = trajectory.status.partition(". ")
    header |= {
        "sentence": f"A simulation, not a proof: {found.partition('.')[0]}.",
        "details": [trajectory.status],
    }
    labels, end = (
        np.asarray(trajectory.clusters),
        trajectory.drawn[trajectory.reached - 1],
    )
    header["columns"], header["points"], leaders = (
        ["leader", "at the end", "tokens"],
        [],
        header["leaders"][:MAX_ROWS],
    )
    for i, place in zip(leaders, _write_points(end[leaders]), strict=True):
        members = np.flatnonzero(labels == labels[i]).tolist()
        cells = [str(i), place, str(len(members))]
        header["points"].append(
            {"leader": i, "cells": cells, "members": members[:MAX_MEMBERS]}
        )
    if isinstance(trajectory.rule, hm.SelfAttention):
        header["details"].append(repr(classify_rule(trajectory.rule, end.shape[1])))


def _add_palette(
    scene: Scene,
    tokens: list[int],
    group: IntArray,
    header: dict[str, Any],
    arrays: dict[str, AnyArray],
) -> None:
    """Add a palette and the index of each token's colour; -1 for tokens without one.

    A token keeps the colour that it has in the scene. Tokens without one get a colour
    that no other token has, then one of a token that leads no more, and beyond eight
    colours the hue of their angle. Colours from eight on are hues in degrees, so that
    they stay, too.
    """
    number, wanted = len(COLOURS), set(tokens)
    kept = {
        token: colour
        for token, colour in scene.colours
        if token < scene.n and colour < number + 360
    }
    former = [
        token
        for token, colour in kept.items()
        if token not in wanted and colour < number
    ]
    free = [colour for colour in range(number) if colour not in kept.values()]
    palette, of_token = list(COLOURS), np.full(scene.n, -1, np.int32)
    for token in tokens:
        if token not in kept:
            hue = number + find_hue(scene.tokens[token].tolist())
            kept[token] = (
                free.pop(0) if free else kept.pop(former.pop(0)) if former else hue
            )
        of_token[token] = kept[token]
        if kept[token] >= number:
            of_token[token] = len(palette)
            palette.append(hue_colour(kept[token] - number))
    header["palette"] = palette
    header["colours"] = sorted(kept.items())
    arrays["token_colours"] = of_token[group]


def _add_overlays(
    scene: Scene,
    trajectory: Any,
    shown: int,
    header: dict[str, Any],
    arrays: dict[str, AnyArray],
) -> None:
    """Add hulls, half-space, cells, ellipse and attention where the scene has them and
    they exist.
    """
    wanted, plane = scene.overlays, scene.d == 2
    is_hardmax = isinstance(trajectory, hm.HardmaxTrajectory)
    if "hulls" in wanted:
        if plane and scene.n <= MAX_HULLS:
            outlines = [
                describe_hull(points) for points in trajectory.array.astype(np.float64)
            ]
            header["hulls"] = [outline and outline["points"] for outline in outlines]
        else:
            header["notes"].append(
                f"Hulls are drawn in the plane, for up to {MAX_HULLS:,} tokens."
            )
    if "half-space" in wanted:
        if plane and is_hardmax and 0 <= scene.selected < scene.n:
            path = trajectory.array[:, scene.selected].astype(
                np.float64
            )  # a half-space in every layer
            arrays["normals"] = (path if scene.A is None else path @ scene.A.T).astype(
                np.float32
            )
        else:
            header["notes"].append(
                "The half-space is that of a selected token under hardmax in the plane."
            )
    if "cells" in wanted:
        if plane and is_hardmax and scene.n <= MAX_CELLS:
            radius = 4 * float(
                np.abs(trajectory.array).max() or 1.0
            )  # outside of the picture
            cells = hm.cells(trajectory.array[shown].astype(np.float64), scene.A)
            header["cells"] = [
                {"token": i, "points": cells.polygon(i, radius).tolist()}
                for i in cells.owners
            ]
        else:
            header["notes"].append(
                f"Cells are drawn for hardmax in the plane, for up to {MAX_CELLS:,}"
                " tokens."
            )
    if "ellipse" in wanted and plane and not trajectory.rule.continuous:
        header["ellipse"] = describe_ellipse(scene)
    if "attention" in wanted:
        if scene.n <= MAX_MATRIX:
            at = shown if trajectory.rule.continuous else int(trajectory.saved[shown])
            arrays["attention"] = np.asarray(trajectory.attention(at), np.float32)
        else:
            header["notes"].append(
                f"The attention matrix is shown for up to {MAX_MATRIX} tokens."
            )


def describe_ellipse(scene: Scene) -> dict[str, Any] | None:
    """Return the half-axes of a level set of x -> ⟨A x, x⟩, and their length where A is
    the identity.
    """
    A = np.eye(2) if scene.A is None else scene.A
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    if not (values > 0).all():
        return None
    radius = 0.5 * float(np.abs(scene.tokens).max() or 1.0)
    return {"axes": (vectors * (radius / np.sqrt(values))).T.tolist(), "radius": radius}


def pull_ellipse(scene: Scene, axis: int, end: FloatArray) -> FloatArray:
    """Return the A whose level set has half-axis `axis` ending at `end`; the other one
    keeps its length.
    """
    A = np.eye(2) if scene.A is None else scene.A
    values = np.linalg.eigvalsh((A + A.T) / 2)
    radius = 0.5 * float(np.abs(scene.tokens).max() or 1.0)
    length = float(np.linalg.norm(end))
    if not 1e-3 * radius <= length <= 1e3 * radius:
        raise InputError(
            "The handle must stay near the ellipse. Got a point too near or too far."
            " Drag it less."
        )
    direction = end / length
    frame = np.stack([direction, [-direction[1], direction[0]]], axis=1)
    A = frame @ np.diag([(radius / length) ** 2, float(values[1 - axis])]) @ frame.T
    return np.round((A + A.T) / 2, 6)


def describe_values(V: FloatArray) -> list[float] | None:
    """Return the eigenvalues of a symmetric V and the angle of the first eigenvector in
    degrees.
    """
    if not np.allclose(V, V.T, atol=1e-5):
        return None
    values, vectors = np.linalg.eigh((V + V.T) / 2)
    angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])) % 180
    return np.round([*values, angle], 4).tolist()


def score_token(scene: Scene, trajectory: Any, shown: int) -> dict[str, Any] | None:
    """Return the largest scores of the selected token, the margin, and its step; None
    beyond the range of floats.

    Scores are ⟨A z_i, z_j⟩, for flows ⟨x_i, x_j⟩. The step of a flow is that to the
    next saved time.
    """
    i, Z, flow = (
        scene.selected,
        trajectory.array[shown].astype(np.float64),
        trajectory.rule.continuous,
    )
    query = Z[i] if flow or scene.A is None else scene.A @ Z[i]
    visible = i + 1 if scene.causal else scene.n
    with np.errstate(all="ignore"):
        scores = Z[:visible] @ query
    weights = _weigh_keys(scene, trajectory, shown)[:visible]
    if not (np.isfinite(scores).all() and np.isfinite(weights).all()):
        return None
    followed = np.flatnonzero(weights == weights.max())
    others = np.setdiff1d(np.arange(visible), followed)
    next_ = int(others[scores[others].argmax()]) if len(others) else -1
    path = trajectory.drawn[shown : shown + 2, i].astype(np.float64)
    end = (
        path[-1]
        if flow
        else Z[i] + scene.alpha / (1 + scene.alpha) * (weights @ Z[:visible] - Z[i])
    )
    return {
        "token": i,
        "bars": [
            {"token": int(j), "score": float(scores[j]), "weight": float(weights[j])}
            for j in np.argsort(-scores, kind="stable")[:MAX_SCORES]
        ],
        "followed": followed[:MAX_SCORES].tolist(),
        "margin": float(scores[followed[0]] - scores[next_]) if len(others) else None,
        "next": next_,
        "from": path[0].tolist(),
        "to": end.tolist(),
        "step": float(np.linalg.norm(end - path[0])),
    }


def _weigh_keys(scene: Scene, trajectory: Any, shown: int) -> FloatArray:
    """Return the attention weights of the selected token."""
    i, at = (
        scene.selected,
        shown if trajectory.rule.continuous else int(trajectory.saved[shown]),
    )
    if not isinstance(trajectory, hm.HardmaxTrajectory):
        return np.asarray(trajectory.attention(at), np.float64)[i]
    record = trajectory.records[0]
    labels = record.classes.labels
    sets = record.sets(int(trajectory.saved[shown]))
    followed = np.isin(labels, sets[labels[i]])
    return followed / followed.sum()


def choose_matrix(scene: Scene, stopped: Stopped = lambda: False) -> dict[str, Any]:
    """Return an A under which the wanted tokens lead, or the reason why there is none."""
    if not scene.wanted:
        raise InputError(
            "At least one token must be chosen to lead. Got none. Select a token and"
            " press the button."
        )
    if scene.n > MAX_CONTROLLED:
        raise InputError(
            f"A is chosen for up to {MAX_CONTROLLED} tokens. Got {scene.n:,}. Use fewer"
            " tokens."
        )
    result = hm.control.choose_A(
        scene.tokens, leaders=list(scene.wanted), progress=watch(stopped)
    )
    clashes = result.conflict[:MAX_CLASHES]
    tokens = {
        *result.cannot_lead,
        *(i for clash in clashes for i in (clash.token, clash.target, clash.rival)),
    }
    A = None if result.A is None else np.asarray(result.A).tolist()
    return {
        "status": result.status,
        "A": A,
        "clashes": list(map(str, clashes)),
        "tokens": sorted(map(int, tokens)),
    }


def make_multiples(scene: Scene, stopped: Stopped = lambda: False) -> dict[str, Any]:
    """Return tokens at some layers and temperatures, for the view of small multiples."""
    if scene.n > MAX_PAIRED_TOKENS:
        must, got = (
            f"be at most {MAX_PAIRED_TOKENS:,} under the rule softmax",
            f"{scene.n:,}",
        )
        raise ParameterError("tokens", must, got, "Use fewer tokens.")
    progress, panels = watch(stopped), []
    for temperature in TEMPERATURES:
        trajectory = run(
            replace(scene, rule="softmax", temperature=temperature), progress
        )
        last = len(trajectory.saved) - 1
        at = sorted({0, min(1, last), min(3, last), last // 2, last})
        view = Projection.of_trajectory(trajectory)
        leaders = np.asarray(trajectory.leaders).tolist()
        points = view(trajectory.drawn.astype(np.float64))[at, :, :2].round(4)
        panels.append(
            {
                "temperature": temperature,
                "layers": at,
                "points": points.tolist(),
                "leaders": leaders,
            }
        )
    return {"panels": panels}


def list_tour() -> list[dict[str, Any]]:
    """Return the steps of the guided tour: title, text, scene, and the control that the
    step needs.
    """
    one = [[1.6, 1.2], [0.5, 0.3], [0.2, 0.7], [0.9, 0.1], [0.4, 0.9]]
    ball = Scene.of_configuration("ball", n=50).tokens.tolist()
    return [
        {
            "title": "One leader",
            "text": (
                "Each token attends to the token with the largest projection on its own"
                " direction. Here this is the star, for all tokens. Press Play. Then"
                " drag the star inwards until another token leads."
            ),
            "scene": {"tokens": one},
            "control": "play",
        },
        {
            "title": "A polytope",
            "text": (
                "Three leaders do not move, and the other tokens gather around them."
                " The shaded polygon is the convex hull of the leaders."
            ),
            "scene": {"tokens": hm.configuration("triangle").tolist()},
            "control": "play",
        },
        {
            "title": "A leader emerges",
            "text": (
                "One token becomes a leader after the first layer. Crosses mark the"
                " limit of each token. The panel names the theorem that proves it."
            ),
            "scene": {
                "tokens": hm.configuration("emerging-leader").tolist(),
                "overlays": ["trails", "polytope", "limit"],
            },
            "control": "play",
        },
        {
            "title": "Softmax becomes hardmax",
            "text": (
                "With softmax each token attends to all tokens a little. Decrease the"
                " temperature to 0: the tokens separate, because softmax at temperature"
                " 0 is hardmax."
            ),
            "scene": {
                "tokens": hm.configuration("square").tolist(),
                "rule": "softmax",
                "temperature": 0.6,
            },
            "control": "temperature",
        },
        {
            "title": "Choose A",
            "text": (
                "The leaders depend on the matrix A, drawn as an ellipse. Drag its"
                " handles. Or select a token, choose it as a leader, and press Find A."
            ),
            "scene": {"tokens": ball, "overlays": ["trails", "polytope", "ellipse"]},
            "control": "ellipse",
        },
    ]
