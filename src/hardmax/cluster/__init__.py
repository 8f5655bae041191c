"""`HardmaxClustering`, a scikit-learn clusterer whose centres are points of the data.

Importing this package imports nothing optional.
"""

from importlib import import_module
from typing import Any

from hardmax._errors import needed_for

__all__ = ["HardmaxClustering"]


def __getattr__(name: str) -> Any:
    if name != "HardmaxClustering":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needed_for("`HardmaxClustering`", "scikit-learn", "cluster"):
        return import_module("hardmax.cluster.clustering").HardmaxClustering
