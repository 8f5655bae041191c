"""`hardmax predict --stream`: texts as they come, each answered at once, so that another program can ask."""

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hardmax._errors import InputError, ParameterError

if TYPE_CHECKING:
    from hardmax.text.classifier import HardmaxClassifier


def answers(classifier: "HardmaxClassifier", lines: Iterable[str], *, explain: bool) -> Iterator[dict[str, Any]]:
    """An answer for each line; one that cannot be read is answered by a sentence, and the next one is read."""
    for row, line in enumerate(lines, 1):
        try:
            yield {"row": row, **answer(classifier, text_of(line.rstrip("\r\n")), explain=explain)}
        except InputError as problem:
            yield {"row": row, "error": str(problem)}


def text_of(line: str) -> str:
    """Return the text of a line: of a JSON string, or of an object with a "text".

    A line that begins with { or a quotation mark must be JSON; any other line is the text itself.
    """
    if not line.lstrip().startswith(("{", '"')):
        return line
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as problem:
        must, advice = 'be JSON where it begins with { or "', "Write such a text as a JSON string."
        raise ParameterError("line", must, f"{line[:60]} ({problem})", advice) from None
    text = found.get("text") if isinstance(found, dict) else found
    if not isinstance(text, str):
        raise ParameterError("line", 'be a text, a JSON string, or an object with a "text"', line[:60])
    return text


def answer(classifier: "HardmaxClassifier", text: str, *, explain: bool) -> dict[str, Any]:
    """Prediction and probabilities, and what each word says for the answer if that is asked for."""
    found = classifier.explain(text)
    shares = found.model.probabilities(found.logits[None])[0].tolist()
    result = {
        "prediction": found.prediction.item(),
        "probability": found.probability,
        **{f"probability_{label}": share for label, share in zip(found.classes.tolist(), shares, strict=True)},
        "no_known_word": not len(found.ids),
    }
    if explain:
        result["words"] = [[part.text, float(found.signed(part.value))] for part in found.by_word()]
    return result
