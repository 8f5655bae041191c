"""Answers that are kept back where the model is not sure, and what that costs."""

from typing import NamedTuple

import numpy as np

from hardmax._errors import ParameterError
from hardmax._types import AnyArray, BoolArray, FloatArray

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def sure(certainty: FloatArray, at_least: float) -> BoolArray:
    """(texts,) whether the answer's probability is large enough."""
    if not isinstance(at_least, int | float) or isinstance(at_least, bool) or not 0 <= at_least <= 1:
        raise ParameterError("at_least", "be a probability, 0 to 1", repr(at_least))
    return np.asarray(certainty >= at_least)


def sure_answers(answers: AnyArray, certainty: FloatArray, at_least: float) -> AnyArray:
    """(texts,) answers, None where the model is less sure."""
    found = answers.astype(object)
    found[~sure(certainty, at_least)] = None
    return found


class Coverage(NamedTuple):
    """A probability, the part of the texts whose answer has at least that, and the accuracy on these, if any."""

    at_least: float
    coverage: float
    accuracy: float | None


def coverage(certainty: FloatArray, right: BoolArray) -> list[Coverage]:
    """What it costs to answer only where the model is sure."""
    rows = []
    for level in LEVELS:
        kept = sure(certainty, level)
        rows.append(Coverage(level, float(kept.mean()), float(right[kept].mean()) if kept.any() else None))
    return rows
