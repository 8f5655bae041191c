"""Text classifiers whose prediction is the hardmax dynamics, so that the words it
follows explain it exactly.

Importing this loads nothing optional: `HardmaxClassifier` needs scikit-learn, and torch
to be trained after a random start or with an encoder.
"""

from typing import TYPE_CHECKING, Any

from hardmax._errors import ParameterError, needed_for

if TYPE_CHECKING:
    from hardmax.text.classifier import HardmaxClassifier

__all__ = ["HardmaxClassifier", "pretrained"]


def __getattr__(name: str) -> Any:
    if name != "HardmaxClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needed_for(f"`hardmax.{name}`", None, "text"):
        from hardmax.text.classifier import HardmaxClassifier
    return HardmaxClassifier


def pretrained(name: str = "imdb") -> "HardmaxClassifier":
    """Return a trained `HardmaxClassifier` from inside the package, without the
    network.

    Parameters
    ----------
    name : str
        "imdb": sentiment of film reviews, the most accurate. "imdb-2d": the paper's
        model with one head in the plane, for figures. The README.md in each folder
        states recipe, data, metrics and limits.

    Returns
    -------
    HardmaxClassifier
        Already fitted.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.pretrained("imdb").predict(["A wonderful film, moving and funny."]).tolist()
    ['pos']
    """
    from hardmax.text import (
        HardmaxClassifier,
    )  # or the error that names the missing extra
    from hardmax.text.storage import MODELS, shipped_models

    if name not in shipped_models():
        advice = "For a folder use HardmaxClassifier.load."
        raise ParameterError(
            "name", f"be one of {', '.join(shipped_models())}", f"{name!r}", advice
        )
    return HardmaxClassifier.load(MODELS / name)
