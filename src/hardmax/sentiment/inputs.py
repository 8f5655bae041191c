"""Texts and labels as they come, refused in a sentence where they do not fit."""

from typing import Any

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._tensors import to_numpy
from hardmax._types import AnyArray


def check_texts(X: Any) -> list[str]:
    """A list of texts, or a sentence about what came instead."""
    if isinstance(X, str | bytes):
        raise ParameterError("X", "be a list of texts", "a single one", "Put it in brackets: [text].")
    if hasattr(X, "ndim") and X.ndim != 1:
        advice = "Reshape your data or pass a single column."
        raise ParameterError("X", "be one-dimensional, a text in each place", f"shape {tuple(X.shape)}", advice)
    if not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        raise ParameterError("X", "be a list of texts", type(X).__name__)
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            got = f"{type(text).__name__} at place {i}: {str(text)[:40]!r}"
            raise ParameterError("X", "hold texts alone", got, "Convert it to str, or leave that row out.")
    if not texts:
        raise ParameterError("X", "hold at least one text", "none: 0 sample(s) while a minimum of 1 is required")
    return texts


def check_labels(y: Any, texts: int) -> AnyArray:
    """Labels as an array of text, numbers or booleans, which a file can hold, whatever they came in."""
    if y is None:
        raise InputError("requires y to be passed, but the target y is None. Pass a label for each text.")
    y = to_numpy(y)
    try:
        shape = np.shape(y)
    except ValueError:
        shape = None
    if shape is None or len(shape) != 1 or shape[0] != texts:
        got = "rows of different lengths" if shape is None else f"shape {shape}"
        raise ParameterError("y", f"hold one label for each of the {texts} texts", got, "Match them.")
    if np.ma.isMaskedArray(y):
        _refuse_missing(np.flatnonzero(np.ma.getmaskarray(y)), y)
        y = y.data
    plain = isinstance(y, np.ndarray) and y.dtype.kind in "biufU"
    labels = y if plain else _of_one_kind(list(y), getattr(y, "dtype", None))
    if labels.dtype.kind == "f":
        _refuse_missing(np.flatnonzero(~np.isfinite(labels)), labels)
        labels = labels.astype(np.float64)
    return labels


def _of_one_kind(labels: list[Any], dtype: Any) -> AnyArray:
    """Python objects, such as those of a pandas column, as a plain array."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    # A missing value of pandas or Python is not equal to itself, or is nothing at all.
    missing = [i for i, label in enumerate(labels) if label is None or not _equals_itself(label)]
    _refuse_missing(missing, labels)
    numbers = [isinstance(label, int | float) and not isinstance(label, bool) for label in labels]  # are one kind
    kinds = {"float" if number else type(label).__name__ for number, label in zip(numbers, labels, strict=True)}
    made = np.array(labels) if len(kinds) == 1 and kinds <= {"str", "bool", "float"} else None
    whole = all(isinstance(label, int) for label in labels)
    if made is None or getattr(dtype, "kind", None) in ("m", "M") or (whole and made.dtype.kind not in "biu"):
        got = " and ".join(sorted({type(label).__name__ for label in labels}) if made is None else [str(made.dtype)])
        must = "hold labels of one kind: text, numbers or booleans"
        raise ParameterError("y", must, got, "Convert them, say with str.")
    if made.tolist() != labels:
        raise ParameterError("y", "hold texts that do not end in a NUL", "some that do", "Strip them.")
    return made


def _equals_itself(label: Any) -> bool:
    try:
        return bool(label == label)
    except TypeError:  # pandas.NA
        return False


def _refuse_missing(places: Any, labels: Any) -> None:
    if len(places):
        got = f"{labels[places[0]]} at place {places[0]}, {len(places)} such in all"
        raise ParameterError("y", "hold a label for every text", got, "Leave these rows out.")
