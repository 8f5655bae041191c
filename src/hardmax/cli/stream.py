"""`hardmax predict --stream`: one prediction per line of standard input, for use by another program."""

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hardmax._errors import InputError, ParameterError

if TYPE_CHECKING:
    from hardmax.text.classifier import HardmaxClassifier


def predict_lines(classifier: "HardmaxClassifier", lines: Iterable[str], *, explain: bool) -> Iterator[dict[str, Any]]:
    """Yield a prediction for each line; a line that cannot be read yields an error, and the next line is read."""
    for row, line in enumerate(lines, 1):
        try:
            yield {"row": row, **predict_text(classifier, parse_line(line.rstrip("\r\n")), explain=explain)}
        except InputError as problem:
            yield {"row": row, "error": str(problem)}


def parse_line(line: str) -> str:
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


def predict_text(classifier: "HardmaxClassifier", text: str, *, explain: bool) -> dict[str, Any]:
    """Return prediction and probabilities, with `explain` also the contributions of words."""
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
