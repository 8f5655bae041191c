"""What a stored trajectory must hold. Its arrays are indices into each other, so nothing is used unchecked."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from hardmax._types import AnyArray

Arrays: TypeAlias = Mapping[str, AnyArray]


def check_shared(file: Arrays, rule: Any, stats: Any) -> None:
    """Refuse tokens, layers or times that cannot be those of a run under the rule."""
    tokens, saved, batched = file["tokens"], file["saved"], file["batched"]
    _must(batched.shape == () and batched.dtype.kind == "b", "`batched` must be true or false")
    _must(tokens.dtype.kind == "f" and tokens.ndim == 3 + bool(batched) and tokens.size > 0, "`tokens` must be numbers")
    _must(saved.shape == tokens.shape[:1], "`saved` must name a layer or time for each of `tokens`")
    _must(saved.dtype.kind == ("f" if rule.continuous else "i"), "`saved` must be layers or times, as the rule has")
    _must(np.isfinite(saved).all() and saved[0] >= 0 and (np.diff(saved) > 0).all(), "`saved` must increase")
    _must(rule.dimension in (None, tokens.shape[-1]), "`tokens` must have the size of the rule's matrices")
    _must(isinstance(stats, dict), "`stats` must be names and values")


def check_clouds(file: Arrays) -> None:
    """Refuse classes and sets of `Hardmax` that do not fit the tokens or each other."""
    tokens, saved = file["tokens"], file["saved"]
    batch = tokens.shape[1] if bool(file["batched"]) else 1
    clouds = file["clouds"]
    _must(
        clouds.dtype.kind in "iu" and clouds.shape == () and clouds == batch, "`clouds` must be as many as `tokens` has"
    )
    _must(len(saved) == 1 or np.array_equal(saved, np.arange(len(saved))), "`saved` must be all layers, or the last")
    for b in range(batch):
        _check_cloud({name.partition("/")[2]: file[name] for name in file if name.startswith(f"{b}/")}, tokens, saved)


def _check_cloud(cloud: dict[str, AnyArray], tokens: AnyArray, saved: AnyArray) -> None:
    n, d = tokens.shape[-2:]
    rows, labels, sizes, members = (cloud[name] for name in ("rows", "labels", "sizes", "members"))
    _must(rows.ndim == 2 and rows.shape[1] == d and rows.dtype.kind in "fU" and len(rows) > 0, "`rows` must be tokens")
    _must(rows.dtype.kind == "U" or np.isfinite(rows).all(), "`rows` must be finite")
    m = len(rows)
    for name, length, least, most in (
        ("real", len(labels), 0, n - 1),
        ("labels", len(labels), 0, m - 1),
        ("first", m, 0, len(labels) - 1),
        ("emerged", m, -1, saved[-1]),
        ("settled", m, -1, saved[-1]),
        ("members", len(members), 0, m - 1),
    ):
        _check_indices(cloud[name], name, (length,), least, most)
    _check_indices(sizes, "sizes", (len(saved), m), 1, m)
    _must((np.diff(cloud["real"]) > 0).all(), "`real` must increase")
    _must(np.array_equal(labels[cloud["first"]], np.arange(m)), "`first` must be a token of each class")
    _must(sizes.sum() == len(members), "`members` must be as many as `sizes` says")
    starts = np.cumsum(sizes)[:-1]  # the first member of every set but the first: there the next may be smaller
    _must((np.delete(np.diff(members), starts - 1) > 0).all(), "`members` of a set must increase")


def check_smooth(file: Arrays, stats: dict[str, Any]) -> None:
    """Refuse arrays of a smooth trajectory that do not have the shape of its tokens."""
    shape = file["tokens"].shape
    real = file["real"]
    _must(real.dtype.kind == "b" and real.shape == shape[1:-1], "`real` must say of each token whether it is real")
    _must(real.any(axis=-1).all(), "`real` must leave a token in each cloud")
    _must(isinstance(stats.get("adaptive"), bool), "`stats` must say whether the method was adaptive")
    shapes = {"start": shape[1:], "rescaled": shape, "powers": (shape[0], shape[-1], shape[-1]), "logs": shape[:1]}
    for name, expected in shapes.items():
        if name in file:
            _must(file[name].dtype.kind == "f" and file[name].shape == expected, f"`{name}` must have shape {expected}")
    _must(("powers" in file) == ("logs" in file), "`powers` and `logs` must go together")
    for b, each in enumerate(np.atleast_2d(real)):
        if f"held/{b}/from" in file:
            P, since = file[f"held/{b}/attention"], file[f"held/{b}/from"]
            _must(since.shape == () and P.shape == (each.sum(), each.sum()), "`held` must be a time and attention")
            _must(P.dtype.kind == since.dtype.kind == "f", "`held` must be numbers")


def _check_indices(array: AnyArray, name: str, shape: tuple[int, ...], least: int, most: int) -> None:
    _must(array.dtype.kind in "iu" and array.shape == shape, f"`{name}` must be whole numbers of shape {shape}")
    _must(not array.size or (array.min() >= least and array.max() <= most), f"`{name}` must lie in [{least}, {most}]")


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)
