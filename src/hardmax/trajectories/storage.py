"""Results as files: NumPy archives of named arrays, and JSON for other programs. No pickle, no code.

An archive is written whole or not at all. Its array `format` names what it holds, with a version: "hardmax-smooth-1".
"""

import json
import re
import zipfile
from collections.abc import Callable, Mapping
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from hardmax._errors import ParameterError
from hardmax._files import written_whole
from hardmax._types import AnyArray

Arrays: TypeAlias = Mapping[str, AnyArray]
Result = TypeVar("Result")
FRACTION = re.compile(r"-?\d+(/\d+)?")


class UnreadableFile(ParameterError):
    """A file that is not what it should be."""


def write_archive(path: str | PathLike[str], arrays: Arrays) -> None:
    """Write named arrays to `path`, an .npz file."""
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_archive(path: str | PathLike[str], must: str, kinds: Mapping[str, Callable[[Arrays], Result]]) -> Result:
    """What an archive holds, made of its arrays by the one of `kinds` that its format names; `must` says what it is."""
    if not Path(path).exists():
        raise FileNotFoundError(str(UnreadableFile(path, must, "no file by that name", "Check the path.")))
    if Path(path).is_dir() or not zipfile.is_zipfile(path):
        raise UnreadableFile(path, must, "another kind of file, or one that was cut short", "Save it again.")
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            kind = str(file["format"]) if "format" in file else ""
            if kind.rpartition("-")[0] not in {known.rpartition("-")[0] for known in kinds}:
                raise UnreadableFile(path, must, "another kind of archive", "Choose another file.")
            if kind not in kinds:
                raise UnreadableFile(path, must, f"the format {kind!r}", "A newer version of hardmax may read it.")
            return kinds[kind]({name: file[name] for name in file.files})
    except UnreadableFile:
        raise
    except Exception as error:  # NumPy, zipfile, zlib and JSON have a dozen kinds for wrong bytes
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UnreadableFile(path, must, f"a broken file ({what})", "Save it again.") from None


def require(holds: Any, what: str) -> None:
    """Refuse arrays of a file, with what must hold of them."""
    if not holds:
        raise ValueError(what)


def to_text(array: AnyArray) -> AnyArray:
    """Fractions as text, everything else as it is."""
    return array.astype(str) if array.dtype == object else array


def from_text(array: AnyArray) -> AnyArray:
    """The array that `to_text` wrote."""
    return np.vectorize(to_fraction, otypes=[object])(array) if array.dtype.kind == "U" else array


def to_fraction(text: str) -> Fraction:
    """A Fraction as `str` writes it; an exponent would let a short file ask for a number of any length."""
    require(FRACTION.fullmatch(text), f"{text[:20]!r} is no fraction")
    return Fraction(text)


def to_json(data: Mapping[str, Any]) -> str:
    """Plain data and arrays as JSON text, with null for NaN and infinities, which JSON does not have."""
    return json.dumps(_plain(data), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if not isinstance(value, float) or np.isfinite(value) else None
