"""What is written of each text: prediction, probabilities, and whether there was a word to go by."""

from typing import Any

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.sentiment.abstention import sure
from hardmax.sentiment.model import Model

NOT_SURE = "not sure"


def answer_columns(model: Model, scores: FloatArray, known: IntArray, at_least: float) -> dict[str, Any]:
    """Columns with an answer for each text, from (texts, outputs) logits and (texts,) numbers of known tokens."""
    decided, probabilities, shares = model.decide(scores), model.probabilities(scores), model.certainty(scores)
    return {
        "prediction": np.where(sure(shares, at_least), decided.astype(object), NOT_SURE).tolist(),
        "probability": shares,
        **{f"probability_{label}": probabilities[:, i] for i, label in enumerate(model.classes.tolist())},
        "no_known_word": known == 0,
    }
