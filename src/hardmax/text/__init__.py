"""Text classifiers whose prediction is the hardmax dynamics, and which therefore explain themselves.

Importing this loads nothing optional: `HardmaxClassifier` needs scikit-learn, and torch to be trained.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax._errors import ParameterError, needed_for

if TYPE_CHECKING:
    from hardmax.text.classifier import HardmaxClassifier

__all__ = ["HardmaxClassifier", "pretrained"]

MODELS = Path(__file__).with_name("models")


def __getattr__(name: str) -> Any:
    if name != "HardmaxClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needed_for(f"`hardmax.{name}`", None, "text"):
        from hardmax.text.classifier import HardmaxClassifier
    return HardmaxClassifier


def pretrained(name: str = "imdb") -> "HardmaxClassifier":
    """A trained `HardmaxClassifier` from inside the package; no network.

    Parameters
    ----------
    name : str
        "imdb": sentiment of film reviews, the most accurate. "imdb-2d": the paper's model with one head in the plane,
        for pictures. Their cards, with recipe, data, metrics and limits, lie beside them.

    Returns
    -------
    HardmaxClassifier
        Already fitted.

    Raises
    ------
    ParameterError
        If there is no such model.
    MissingExtra
        If scikit-learn or what reads the files is not installed.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.pretrained("imdb").predict(["A wonderful film, moving and funny."]).tolist()
    ['pos']
    """
    from hardmax.text import HardmaxClassifier  # or the extra that it needs

    names = sorted(path.parent.name for path in MODELS.glob("*/model.json"))
    if name not in names:
        advice = "For a folder use HardmaxClassifier.load."
        raise ParameterError("name", f"be one of {', '.join(names)}", f"{name!r}", advice)
    return HardmaxClassifier.load(MODELS / name)
