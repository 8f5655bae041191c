"""Smooth trajectories and their rules as files: NumPy archives and JSON. No pickle, no code."""

import json
from fractions import Fraction
from os import PathLike
from typing import Any

import numpy as np

from hardmax import rules
from hardmax._errors import ParameterError
from hardmax._files import written_whole
from hardmax._tensors import is_tensor, to_numpy
from hardmax._types import AnyArray
from hardmax.rules.base import Rule
from hardmax.trajectories.smooth import SmoothTrajectory
from hardmax.trajectories.storage import finite, rule_from_dict, rule_to_dict
from hardmax.trajectories.stored_arrays import check_shared, check_smooth

FORMAT = "hardmax-smooth-1"
FIELDS = {
    "Softmax": ("alpha", "A", "temperature", "normalize", "causal"),
    "SelfAttention": ("Q", "K", "V", "causal"),
    "Sphere": ("beta", "normalized", "causal"),
    "FeedForward": ("W1", "W2", "b1", "b2", "activation", "gain"),
    "Normalize": ("kind",),
}
FAMILIES = {"MultiHead": ("heads", ("shared", "shares")), "Compose": ("parts", ("dt",))}


def describe(rule: Rule) -> dict[str, Any]:
    """A rule as plain data. Refused for weights that are Python functions, which no file can hold."""
    name = type(rule).__name__
    if isinstance(rule, rules.Hardmax):
        return {"rule": name} | rule_to_dict(rule)
    if name in FAMILIES:
        members, others = FAMILIES[name]
        inner = {members: [describe(one) for one in getattr(rule, members)]}
        return {"rule": name} | inner | {key: _plain(getattr(rule, key), key) for key in others}
    return {"rule": name} | {key: _plain(getattr(rule, key), key) for key in FIELDS[name]}


def _plain(value: Any, name: str) -> Any:
    if callable(value) and not is_tensor(value):
        raise ParameterError(
            name,
            "be numbers to be written to a file",
            "a Python function",
            "Save `trajectory.tokens` with np.save instead.",
        )
    value = np.asarray(to_numpy(value)).tolist() if is_tensor(value) or isinstance(value, np.ndarray) else value
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    is_number = isinstance(value, np.number) or (name == "alpha" and isinstance(value, Fraction))
    return float(value) if is_number else value


def rule_of(data: dict[str, Any]) -> Rule:
    """The rule that `describe` wrote; names that are no rules are refused."""
    name = data["rule"]
    if name == "Hardmax":
        return rule_from_dict(data)
    make = {**dict.fromkeys(FIELDS), **dict.fromkeys(FAMILIES)}
    if name not in make:
        raise ValueError(f"no rule is called {name!r}")
    options = {key: value for key, value in data.items() if key != "rule"}
    if name in FAMILIES:
        members = FAMILIES[name][0]
        options[members] = [rule_of(one) for one in options[members]]
    rule: Rule = getattr(rules, name)(**options)
    return rule


def save_smooth(trajectory: SmoothTrajectory, path: str | PathLike[str]) -> None:
    """Write a trajectory to `path`, an .npz file."""
    arrays: dict[str, AnyArray] = {
        "format": np.array(FORMAT),
        "tokens": trajectory.array,
        "saved": trajectory.saved,
        "real": trajectory.real,
        "batched": np.array(trajectory.batched),
        "rule": np.array(json.dumps(describe(trajectory.rule))),
        "stats": np.array(json.dumps(trajectory.stats)),
        "problem": np.array(trajectory.problem),
        "start": trajectory.array[0] if trajectory.start is None else np.asarray(trajectory.start),
    }
    for b, held in enumerate(trajectory.held):
        if held is not None:
            arrays |= {f"held/{b}/from": np.array(held[0]), f"held/{b}/attention": held[1]}
    if trajectory.frames:
        arrays["powers"] = np.stack([np.asarray(to_numpy(power)) for power, _ in trajectory.frames])
        arrays["logs"] = np.array([log for _, log in trajectory.frames])
    if trajectory.rescaled is not None:
        arrays["rescaled"] = np.asarray(to_numpy(trajectory.rescaled))
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_smooth(file: dict[str, AnyArray]) -> SmoothTrajectory:
    """The trajectory of arrays that `save_smooth` wrote. `heads` is empty: attention is found from the rule."""
    rule, stats = rule_of(json.loads(str(file["rule"]))), json.loads(str(file["stats"]))
    check_shared(file, rule, stats)
    check_smooth(file, stats)
    return SmoothTrajectory(
        file["tokens"],
        rule,
        file["saved"],
        file["real"],
        bool(file["batched"]),
        stats,
        file.get("rescaled"),
        problem=str(file["problem"]),
        start=file["start"],
        held=_read_held(file),
        frames=tuple(zip(file["powers"], file["logs"].tolist(), strict=True)) if "powers" in file else (),
    )


def _read_held(file: dict[str, AnyArray]) -> tuple[tuple[float, AnyArray] | None, ...]:
    clouds = len(file["real"]) if bool(file["batched"]) else 1
    found = [
        (float(file[f"held/{b}/from"]), file[f"held/{b}/attention"]) if f"held/{b}/from" in file else None
        for b in range(clouds)
    ]
    return tuple(found) if any(found) else ()


def smooth_json(trajectory: SmoothTrajectory) -> str:
    """Everything a program may want, as JSON text; null for NaN and infinities."""
    leaders = trajectory.leaders
    data = {
        "status": trajectory.status,
        "rule": describe(trajectory.rule),
        "saved": trajectory.saved.tolist(),
        "stats": trajectory.stats,
        "leaders": [each.tolist() for each in leaders] if trajectory.batched else leaders.tolist(),
        "clusters": trajectory.clusters.tolist(),
        "tokens": finite(trajectory.array.tolist()),
    }
    if trajectory.rescaled is not None:
        data["rescaled"] = finite(np.asarray(to_numpy(trajectory.rescaled)).tolist())
    return json.dumps(data, allow_nan=False)
