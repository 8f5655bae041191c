"""What is written of each text: prediction, probabilities, and whether there was a word to go by."""

from typing import Any

from hardmax._types import FloatArray, IntArray
from hardmax.text.abstention import sure
from hardmax.text.model import Model

NOT_SURE = "not sure"


def answer_columns(model: Model, scores: FloatArray, known: IntArray, at_least: float) -> dict[str, Any]:
    """Return columns with an answer for each text, from (texts, outputs) logits and (texts,) numbers of known tokens.

    With `at_least` above 0 all predictions are texts, also of labels that are numbers: a column has one type.
    """
    decided, probabilities, shares = model.decide(scores), model.probabilities(scores), model.certainty(scores)
    labels = decided.tolist()
    if at_least > 0:
        certain = sure(shares, at_least).tolist()
        labels = [str(label) if given else NOT_SURE for label, given in zip(labels, certain, strict=True)]
    return {
        "prediction": labels,
        "probability": shares,
        **{f"probability_{label}": probabilities[:, i] for i, label in enumerate(model.classes.tolist())},
        "no_known_word": known == 0,
    }
