"""A scikit-learn clusterer whose centres are data points. Importing this loads nothing optional."""

from typing import Any

__all__ = ["HardmaxClustering"]


def __getattr__(name: str) -> Any:
    if name != "HardmaxClustering":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from hardmax.cluster.clustering import HardmaxClustering
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        from hardmax._errors import MissingExtra

        raise MissingExtra("`HardmaxClustering`", "scikit-learn", "cluster") from error
    return HardmaxClustering
