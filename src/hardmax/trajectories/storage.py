"""Trajectories as files: a NumPy archive that holds everything, and JSON for other programs. No pickle, no code."""

import json
import re
import zipfile
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._files import written_whole
from hardmax._tensors import to_numpy
from hardmax._types import AnyArray
from hardmax.kernels.classes import Classes
from hardmax.kernels.sets import Sets
from hardmax.limits import Limit, quick_radius
from hardmax.rules.hardmax import Hardmax
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import Cloud, HardmaxTrajectory
from hardmax.trajectories.stored_arrays import check_clouds, check_shared

FORMAT = "hardmax-trajectory-1"
FRACTION = re.compile(r"-?\d+(/\d+)?")
LIMIT_FIELDS = (
    *("status", "certified", "layer", "tokens", "leaders", "emerged", "clusters", "points", "weights"),
    *("pace", "reason"),
)


def save_trajectory(trajectory: HardmaxTrajectory, path: str | PathLike[str]) -> None:
    """Write a trajectory to `path`, an .npz file."""
    arrays: dict[str, AnyArray] = {
        "format": np.array(FORMAT),
        "tokens": trajectory.array,
        "saved": trajectory.saved,
        "batched": np.array(trajectory.batched),
        "rule": np.array(json.dumps(rule_to_dict(trajectory.rule))),
        "stats": np.array(json.dumps(trajectory.stats)),
        "clouds": np.array(len(trajectory.clouds)),
    }
    for b, cloud in enumerate(trajectory.clouds):
        parts = {
            "rows": _plain(cloud.classes.rows),
            "labels": cloud.classes.labels,
            "first": cloud.classes.first,
            "emerged": cloud.emerged,
            "settled": cloud.settled,
            "real": cloud.real,
            "sizes": np.stack([sets.sizes for sets in cloud.sets]),
            "members": np.concatenate([sets.members for sets in cloud.sets]),
        }
        arrays |= {f"{b}/{name}": part for name, part in parts.items()}
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def load_trajectory(path: str | PathLike[str]) -> Trajectory:
    """Read a trajectory of either kind."""
    from hardmax.trajectories.smooth_storage import FORMAT as SMOOTH
    from hardmax.trajectories.smooth_storage import read_smooth

    must = f"`{path}` must be a trajectory saved with to_npz."
    if not Path(path).exists():
        raise FileNotFoundError(f"{must} Got no file by that name. Check the path.")
    if Path(path).is_dir() or not zipfile.is_zipfile(path):
        raise ValueError(f"{must} Got another kind of file, or one that was cut short. Save it again.")
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            kind = str(file["format"]) if "format" in file else ""
            if not kind.startswith((FORMAT[:-1], SMOOTH[:-1])):
                raise ValueError(f"{must} Got another kind of archive. Choose another file.")
            if kind not in (FORMAT, SMOOTH):
                raise ValueError(f"{must} Got the format {kind!r}. A newer version of hardmax may read it.")
            arrays = {name: file[name] for name in file.files}
            return _read(arrays) if kind == FORMAT else read_smooth(arrays)
    except Exception as error:  # NumPy, zipfile, zlib and JSON have a dozen kinds for wrong bytes
        if str(error).startswith(must):
            raise
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"{must} Got a broken file ({what}). Save it again.") from None


def _read(file: dict[str, AnyArray]) -> HardmaxTrajectory:
    rule, stats = rule_from_dict(json.loads(str(file["rule"]))), json.loads(str(file["stats"]))
    check_shared(file, rule, stats)
    check_clouds(file)
    clouds = []
    for b in range(int(file["clouds"])):
        rows, labels, members = file[f"{b}/rows"], file[f"{b}/labels"], file[f"{b}/members"]
        classes = Classes(_exact(rows), labels, file[f"{b}/first"], np.bincount(labels))
        sets, start = [], 0
        for sizes in file[f"{b}/sizes"]:
            end = start + int(sizes.sum())
            sets.append(Sets(np.r_[0, np.cumsum(sizes)].astype(np.intp), members[start:end]))
            start = end
        clouds.append(Cloud(classes, tuple(sets), file[f"{b}/emerged"], file[f"{b}/settled"], file[f"{b}/real"]))
    return HardmaxTrajectory(file["tokens"], rule, file["saved"], tuple(clouds), bool(file["batched"]), stats)


def _plain(array: AnyArray) -> AnyArray:
    """Fractions as text, everything else as it is."""
    return array.astype(str) if array.dtype == object else array


def _exact(array: AnyArray) -> AnyArray:
    return np.vectorize(_fraction, otypes=[object])(array) if array.dtype.kind == "U" else array


def _fraction(text: str) -> Fraction:
    """A Fraction as `str` writes it; an exponent would let a short file ask for a number of any length."""
    if not FRACTION.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is no fraction")
    return Fraction(text)


def rule_to_dict(rule: Hardmax) -> dict[str, Any]:
    """A rule as plain data: numbers as exact text."""
    A = rule.matrix
    return {
        "alpha": [str(step) for step in rule.steps],
        "A": None if A is None else [[str(Fraction(x)) for x in row] for row in A.tolist()],
        "A_exact": A is not None and A.dtype == object,
        "normalize": rule.normalize,
        "ties": rule.ties,
        "exact": rule.exact,
        "any_A": rule.any_A,
        "causal": rule.causal,
    }


def rule_from_dict(data: dict[str, Any]) -> Hardmax:
    """The rule that `rule_to_dict` wrote."""
    A = data["A"]
    if A is not None:
        A = _exact(np.array(A))
        A = A if data["A_exact"] else A.astype(np.float64)
    steps = [_fraction(step) for step in data["alpha"]]
    options = {name: data[name] for name in ("normalize", "ties", "exact", "any_A")}
    options["causal"] = data.get("causal", False)  # older files have none
    return Hardmax(steps[0] if len(steps) == 1 else steps, A, **options)


def trajectory_json(trajectory: HardmaxTrajectory) -> str:
    """Status, tokens, leaders, layers of emergence and decision, and sets, as JSON text; no NaN or infinity in it."""
    single = not trajectory.batched
    clouds = [trajectory] if single else [trajectory[b] for b in range(len(trajectory.clouds))]
    items = [
        {
            "status": cloud.status,
            "leaders": cloud.leaders.tolist(),
            "emerged": cloud.emerged.tolist(),
            "decided": cloud.decided.tolist(),
            "tokens": finite(cloud.array.tolist()),
            "sets": [[members.tolist() for members in cloud.sets(int(k))] for k in cloud.saved],
        }
        for cloud in clouds
    ]
    head = {"rule": rule_to_dict(trajectory.rule), "saved": trajectory.saved.tolist(), "stats": trajectory.stats}
    return json.dumps(head | (items[0] if single else {"status": trajectory.status, "clouds": items}), allow_nan=False)


def finite(value: Any) -> Any:
    """The same nested lists with None for NaN and infinities, which JSON does not have."""
    if isinstance(value, list):
        return [finite(item) for item in value]
    return value if not isinstance(value, float) or np.isfinite(value) else None


def limit_json(limit: Limit) -> str:
    """Everything a program may want of a limit, as JSON text; null for NaN and infinities."""
    arrays = {name: finite(array.tolist()) for name, array in _arrays(limit).items()}
    return json.dumps(arrays | {"proofs": limit.proofs, "stats": limit.stats}, allow_nan=False)


def save_limit(limit: Limit, path: str | PathLike[str]) -> None:
    """Write the arrays of a limit to `path`, an .npz file."""
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **_arrays(limit))


def _arrays(limit: Limit) -> dict[str, AnyArray]:
    """What is written of a limit; the radius is NaN where it would take minutes."""
    fields = {name: np.asarray(to_numpy(getattr(limit, name))) for name in LIMIT_FIELDS}
    return fields | {"radius": np.asarray(quick_radius(limit))}
