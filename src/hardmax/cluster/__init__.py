"""Scikit-learn clusterers of points and texts, whose centres are among them. Importing this loads nothing optional."""

from importlib import import_module
from typing import Any

from hardmax._errors import needed_for

MODULES = {"HardmaxClustering": "clustering", "HardmaxTopics": "topics"}
__all__ = ["HardmaxClustering", "HardmaxTopics"]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    extra = "cluster" if name == "HardmaxClustering" else "encoders"
    with needed_for(f"`{name}`", "scikit-learn", extra):
        return getattr(import_module(f"hardmax.cluster.{MODULES[name]}"), name)
