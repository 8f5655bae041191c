"""What is given to `HardmaxTopics`: texts, and vectors of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from hardmax._errors import ParameterError
from hardmax._types import AnyArray
from hardmax._validation import refuse_gaps, shortened
from hardmax.text.tables import is_missing


def check_texts(texts: Any) -> list[str]:
    """A list of texts, a missing one as an empty one; or a sentence about what came instead."""
    if isinstance(texts, str | bytes):
        raise ParameterError("texts", "be a list of texts", "a single one", "Put it in brackets: [text].")
    if hasattr(texts, "columns"):
        raise ParameterError("texts", "be a list of texts", "a table", "Pass its column of texts.")
    if getattr(texts, "ndim", 1) != 1 or not hasattr(texts, "__len__") or not hasattr(texts, "__iter__"):
        got = f"shape {tuple(texts.shape)}" if hasattr(texts, "shape") else type(texts).__name__
        raise ParameterError("texts", "be a list of texts", got, "Pass one text in each place.")
    found = [text if isinstance(text, str) else "" if is_missing(text) else text for text in texts]
    for i, text in enumerate(found):
        if not isinstance(text, str):
            got = f"{type(text).__name__} {shortened(text)} at place {i}"
            raise ParameterError("texts", "hold texts", got, "Convert it with str.")
    return found


def check_vectors(vectors: Any, n: int, *, name: str = "vectors") -> AnyArray:
    """(n, d) finite floats, float32 as they came and others as float64; zeros are a text that says nothing."""
    if sparse.issparse(vectors):
        advice = "Reduce it with TruncatedSVD, or cluster it with HardmaxClustering."
        raise ParameterError(name, "be an array", "a sparse matrix", advice)
    refuse_gaps(vectors, name)
    try:
        found = np.asarray(vectors)
        found = found if found.dtype == np.float32 else found.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError(name, "hold numbers", type(vectors).__name__, "Pass an array of floats.") from None
    if found.ndim != 2 or len(found) != n or not found.shape[1]:
        advice = "Pass a row for each text." if name == "vectors" else "It is given a list of texts."
        raise ParameterError(name, f"be one vector for each text, of shape ({n}, d)", f"shape {found.shape}", advice)
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
        raise ParameterError(name, "be finite", f"NaN or infinity in row {row}", "Leave that text out.")
    return found


def said(texts: Sequence[str], vectors: AnyArray) -> AnyArray:
    """(n,) whether a text says anything: it is not empty, and its vector has a direction."""
    return np.array([bool(text.strip()) for text in texts], bool) & vectors.any(axis=1)
