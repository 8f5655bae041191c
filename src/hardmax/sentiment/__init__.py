"""Text classifiers whose prediction is the hardmax dynamics, and which therefore explain themselves.

Importing this loads nothing optional: `HardmaxClassifier` needs scikit-learn, and torch to be trained.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardmax.sentiment.classifier import HardmaxClassifier
    from hardmax.sentiment.pretrained_models import pretrained

NAMES = {"HardmaxClassifier": "classifier", "pretrained": "pretrained_models"}

__all__ = ["HardmaxClassifier", "pretrained"]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f"hardmax.sentiment.{NAMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hardmax"):
            raise
        from hardmax._errors import MissingExtra

        raise MissingExtra(f"`hardmax.{name}`", str(error.name).split(".")[0], "text") from error
