"""Results as files: NumPy archives of named arrays, rules as plain data, JSON for other
programs. No pickle, no code.

Its array `format` names the content of an archive, with a version: "hardmax-smooth-1".
"""

import csv
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from hardmax import rules
from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax._types import AnyArray
from hardmax._validation import is_tensor, to_numpy
from hardmax.rules.base import Rule

Arrays: TypeAlias = Mapping[str, AnyArray]
Result = TypeVar("Result")
NAMES = set(rules.__all__) - {"Flow", "Layered", "Rule"}
CUSTOM = "custom"  # stands for the name of a rule that no file can hold
FRACTION = re.compile(r"-?\d+(/\d+)?")


class CustomCode(Exception):
    """A rule, or a matrix of a rule, that is Python code of the user."""


class UnreadableFile(ParameterError):
    """A file with another content than expected, or whose rule must be given, or must
    not be.
    """


def write_archive(path: str | PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write named arrays, numbers and texts to `path`, an .npz file."""
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def write_rows(path: str | PathLike[str], columns: Mapping[str, AnyArray]) -> None:
    """Write columns of equal length as CSV; floats as Python writes them, so that
    nothing is lost.
    """
    with (
        written_whole(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(
            zip(*(column.tolist() for column in columns.values()), strict=True)
        )


def coordinate_columns(points: AnyArray) -> dict[str, AnyArray]:
    """Return the last axis of points as columns x1, x2, ..."""
    return {f"x{k}": points[..., k - 1].ravel() for k in range(1, points.shape[-1] + 1)}


def read_archive(
    path: str | PathLike[str],
    must: str,
    kinds: Mapping[str, Callable[[Arrays], Result]],
) -> Result:
    """Return the result of the one of `kinds` that the format of an archive names;
    `must` describes it in errors.
    """
    if not Path(path).exists():
        raise FileNotFoundError(
            str(UnreadableFile(path, must, "no file by that name", "Check the path."))
        )
    if Path(path).is_dir() or not zipfile.is_zipfile(path):
        raise UnreadableFile(
            path,
            must,
            "another kind of file, or one that was cut short",
            "Save it again.",
        )
    try:
        with (
            Path(path).open("rb") as stream,
            np.load(stream, allow_pickle=False) as file,
        ):
            kind = str(file["format"]) if "format" in file else ""
            if kind.rpartition("-")[0] not in {
                known.rpartition("-")[0] for known in kinds
            }:
                raise UnreadableFile(
                    path, must, "another kind of archive", "Choose another file."
                )
            if kind not in kinds:
                raise UnreadableFile(
                    path,
                    must,
                    f"the format {kind!r}",
                    "A newer version of hardmax may read it.",
                )
            return kinds[kind]({name: file[name] for name in file.files})
    except UnreadableFile:
        raise
    except (
        Exception
    ) as error:  # NumPy, zipfile, zlib and JSON have a dozen kinds for wrong bytes
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UnreadableFile(
            path, must, f"a broken file ({what})", "Save it again."
        ) from None


def require(holds: Any, what: str) -> None:
    """Refuse the arrays of a file unless `holds`; `what` states the condition."""
    if not holds:
        raise InputError(what)


def check_array(
    file: Arrays, name: str, kind: str, shape: tuple[int | None, ...]
) -> None:
    """Refuse an array that is not of this dtype kind and shape; None is any length."""
    array = file[name]
    right = array.ndim == len(shape) and all(
        size in (None, got) for size, got in zip(shape, array.shape, strict=True)
    )
    require(
        right and array.dtype.kind in kind,
        f"`{name}` must have shape {shape} and dtype kind {kind!r}",
    )


def check_indices(
    file: Arrays, name: str, shape: tuple[int, ...], least: int, most: int
) -> None:
    """Refuse an array that does not hold integers between two bounds."""
    check_array(file, name, "iu", shape)
    inside = not file[name].size or (
        file[name].min() >= least and file[name].max() <= most
    )
    require(inside, f"`{name}` must lie in [{least}, {most}]")


def to_fraction(text: str) -> Fraction:
    """Read a Fraction as `str` writes it; an exponent would let a short file need
    memory without bound.
    """
    require(FRACTION.fullmatch(text), f"{text[:20]!r} is no fraction")
    return Fraction(text)


def rule_to_data(rule: Rule) -> dict[str, Any]:
    """Return a rule as plain data; a custom rule by its class and `repr` alone."""
    try:
        return json.loads(json.dumps(rule, default=_encode))
    except CustomCode:
        return {"rule": CUSTOM, "class": type(rule).__qualname__, "repr": repr(rule)}


def _encode(value: Any) -> Any:
    """Return a rule, or a value in one, as data that JSON has: exact numbers as text,
    so that nothing is lost.
    """
    if isinstance(value, Rule):
        name = type(value).__name__
        if name not in NAMES or type(value) is not getattr(rules, name):
            raise CustomCode
        return {"rule": name} | {
            item.name: getattr(value, item.name)
            for item in fields(value)  # type: ignore[arg-type]
        }
    if isinstance(value, Fraction):
        return str(value)
    if is_tensor(value) or isinstance(value, np.ndarray):
        return np.asarray(to_numpy(value)).tolist()
    if isinstance(value, np.number):
        return float(value)
    raise CustomCode


def restore_rule(data: dict[str, Any], given: Rule | None) -> Rule:
    """Return the rule of a file, or the `given` one where the file has a custom rule."""
    if data["rule"] != CUSTOM and given is None:
        return rule_from_data(data)
    if data["rule"] != CUSTOM:
        raise UnreadableFile(
            "rule",
            "be left out where the file has the rule",
            repr(given),
            "The result has it as `rule`.",
        )
    if given is None:
        must, got = (
            "be given: the file holds the trajectory of a custom rule, and no code",
            f"none for {data['repr']}",
        )
        raise UnreadableFile(
            "rule", must, got, f"Pass `rule` to from_npz, a {data['class']}."
        )
    if type(given).__qualname__ != data["class"]:
        raise UnreadableFile(
            "rule",
            f"be a {data['class']}, as in the file",
            repr(given),
            "Pass the rule of the run.",
        )
    return given


def rule_from_data(data: dict[str, Any]) -> Rule:
    """Return the rule that `rule_to_data` wrote; refuse names that are no rules."""
    name = data["rule"]
    require(name in NAMES, f"no rule is called {name!r}")
    return getattr(rules, name)(
        **{key: _restore(value) for key, value in data.items() if key != "rule"}
    )


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return [_restore(item) for item in value]
    if isinstance(value, str) and FRACTION.fullmatch(value):
        return Fraction(value)
    return rule_from_data(value) if isinstance(value, dict) else value


def to_json(kind: str, data: Mapping[str, Any]) -> str:
    """Return data and arrays as JSON with `kind` as its format; NaN and infinities,
    which JSON lacks, are null.
    """
    return json.dumps(
        {"format": kind} | _for_json(data), ensure_ascii=False, allow_nan=False
    )


def _for_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _for_json(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    return value if not isinstance(value, float) or np.isfinite(value) else None
