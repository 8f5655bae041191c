"""A scikit-learn clusterer whose centres are data points. Importing this loads nothing optional."""

from typing import Any

from hardmax._errors import needed_for

__all__ = ["HardmaxClustering"]


def __getattr__(name: str) -> Any:
    if name != "HardmaxClustering":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needed_for("`HardmaxClustering`", "scikit-learn", "cluster"):
        from hardmax.cluster.clustering import HardmaxClustering
    return HardmaxClustering
