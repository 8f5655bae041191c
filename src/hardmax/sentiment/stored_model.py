"""What a stored model must hold. Compiled code trusts its arrays, so nothing reaches it unchecked."""

from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from hardmax._checks import is_positive_definite
from hardmax._errors import InputError
from hardmax._types import AnyArray
from hardmax.sentiment.model import Epoch
from hardmax.sentiment.text import Splitter

KINDS: dict[str, Any] = {
    **dict.fromkeys(("weights", "sha256", "classes_dtype"), str),
    **dict.fromkeys(("classes", "history", "words"), list),
    **dict.fromkeys(("text", "params"), dict),
    "layers": int,
    "distinct": bool,
}
TEXT = [each.name for each in fields(Splitter)]
EPOCH = {each.name for each in fields(Epoch)}
MOST_LAYERS = 10_000


def check_about(about: dict[str, Any], file: Path) -> None:
    """Refuse a description in which something is missing or of another kind."""
    for name, kind in KINDS.items():
        if not isinstance(about.get(name), kind) or (kind is int and isinstance(about[name], bool)):
            _refuse(file, f"`{name}` must be there, as {kind.__name__}")
    words, classes = about["words"], about["classes"]
    if not all(isinstance(word, str) and word for word in words) or len(set(words)) < len(words):
        _refuse(file, "`words` must be different texts")
    if not 0 <= about["layers"] <= MOST_LAYERS:
        _refuse(file, f"`layers` must lie between 0 and {MOST_LAYERS:,}")
    if set(about["text"]) != set(TEXT) or not all(isinstance(e, dict) and set(e) == EPOCH for e in about["history"]):
        _refuse(file, "`text` and `history` must have their own names alone")
    try:
        made = np.array(classes, dtype=np.dtype(about["classes_dtype"]))
    except (TypeError, ValueError, OverflowError):
        _refuse(file, "`classes` must fit their type")
    if made.ndim != 1 or made.dtype.hasobject or made.tolist() != classes or not 2 <= len(set(classes)) == len(classes):
        _refuse(file, "`classes` must be at least two different labels of one kind")


def check_numbers(about: dict[str, Any], numbers: dict[str, AnyArray], file: Path) -> None:
    """Refuse arrays whose kind, shape or values cannot be those of a model."""
    for name in ("embedding", "alpha", "decoder", "bias", "runs"):
        if name not in numbers:
            _refuse(file, f"`{name}` must be there")
    embedding, outputs = numbers["embedding"], 1 if len(about["classes"]) == 2 else len(about["classes"])
    if embedding.ndim != 3 or embedding.dtype not in (np.float32, np.int8) or 0 in embedding.shape:
        _refuse(file, "`embedding` must be (tokens, heads, d) numbers of 1 or 4 bytes")
    tokens, heads, d = embedding.shape
    shapes = {"alpha": (heads,), "decoder": (outputs, heads, d), "bias": (outputs,)}
    if embedding.dtype == np.int8:
        shapes["grid"] = (heads, d)
    if "A" in numbers:
        shapes["A"] = (heads, d, d)
    for name, shape in shapes.items():
        kind = np.float32 if name == "grid" else np.float64
        if name not in numbers or numbers[name].shape != shape or numbers[name].dtype != kind:
            _refuse(file, f"`{name}` must have the shape {shape} and the type {kind.__name__}")
    for name in ("embedding", *shapes):
        if not np.isfinite(numbers[name]).all():
            _refuse(file, f"`{name}` must be finite")
    if not (numbers["alpha"] > 0).all():
        _refuse(file, "`alpha` must be positive")
    if "A" in numbers and not all(np.array_equal(A, A.T) and is_positive_definite(A) for A in numbers["A"]):
        _refuse(file, "`A` must be symmetric positive definite")
    _check_runs(numbers["runs"], tokens, len(about["words"]), file)


def _check_runs(runs: AnyArray, tokens: int, words: int, file: Path) -> None:
    """Each token must be a run of known words, none twice."""
    known = runs >= 0
    if runs.dtype != np.int64 or runs.ndim != 2 or len(runs) != tokens or not runs.shape[1]:
        _refuse(file, "`runs` must be (tokens, longest) whole numbers")
    if runs.max(initial=0) >= words or not known[:, 0].all() or (known[:, 1:] > known[:, :-1]).any():
        _refuse(file, "`runs` must be made of the words there are")
    if words ** runs.shape[1] >= 2**62 or len(np.unique(runs, axis=0)) < tokens:
        _refuse(file, "`runs` must be different, and short enough")


def _refuse(file: Path, what: str) -> NoReturn:
    raise InputError(
        f"`{file}` must be a part of a model as it was written: {what}. It is not so. Copy the folder again."
    )
