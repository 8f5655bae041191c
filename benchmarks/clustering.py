"""The speed of clusterers on points whose clusters all of them find."""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.registry import Answer, Case, Method, Row, Target, growth, size
from hardmax._types import FloatArray, IntArray

D, CENTRES = 16, 10
SIZES = (1000, 2000, 5000, 10_000, 20_000)
MIN_SCORE = 0.99  # adjusted Rand index from which partitions count as the same
PARAMETERS: dict[str, dict[str, Any]] = {  # with which a method finds the clusters
    "HDBSCAN": {"min_cluster_size": 10},
    "AffinityPropagation": {"preference": -3000.0},
    "MeanShift": {"bandwidth": 12.0},
}
FAST: dict[str, Target | None] = dict.fromkeys(
    ("KMeans", "SpectralClustering", "HDBSCAN")
)


NEIGHBOURS = {"hardmax, 5 neighbours": 5, "hardmax, 20 neighbours": 20}
Settings = dict[str, Any]


def fit_labels(name: str, chosen: Settings, X: FloatArray) -> tuple[IntArray, float]:
    """Return labels and seconds of a method; warnings, such as of a graph in pieces,
    are ignored.
    """
    from sklearn import cluster

    from hardmax.cluster import HardmaxClustering

    defaults: dict[str, Settings] = {
        "KMeans": {"n_init": 10, "random_state": 0},
        "SpectralClustering": {"affinity": "nearest_neighbors", "random_state": 0},
        "HDBSCAN": {"copy": True},
        "AffinityPropagation": {
            "damping": 0.9,
            "max_iter": 500,
            "random_state": 0,
        },  # with these it converges
    }
    defaults |= {ours: {"n_neighbors": number} for ours, number in NEIGHBOURS.items()}
    kind = HardmaxClustering if name.startswith("hardmax") else getattr(cluster, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        labels = kind(**defaults.get(name, {}) | chosen).fit_predict(X)
        return labels, time.perf_counter() - start


def score(y: IntArray, labels: IntArray) -> float:
    """Return the adjusted Rand index; the noise of HDBSCAN is one cluster more."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(y, labels))


def _prepare(name: str, n: int) -> Callable[[], Any]:
    from sklearn.datasets import make_blobs

    X, _ = make_blobs(n, D, centers=CENTRES, random_state=0)
    chosen = PARAMETERS.get(name, {"n_clusters": CENTRES})
    fit_labels(name, chosen, X[:200])
    return lambda: fit_labels(name, chosen, X)[0]


def are_same_partitions(ours: Answer, theirs: Answer) -> bool:
    """Return True if two partitions are the same but for a few points."""
    return score(ours["labels"], theirs["labels"]) >= MIN_SCORE


def growth_row(rows: list[Row]) -> list[Row]:
    """Return a row with the exponent p of the fit: our seconds ~ n**p, where several
    sizes were measured.
    """
    smaller = [row for row in rows if row.method.startswith("hardmax, n = ")]
    if not smaller:
        return []
    sizes = [int(row.method.split("= ")[1].replace(",", "")) for row in smaller]
    p = growth(
        [*sizes, max(SIZES)], [row.seconds or 1.0 for row in (*smaller, rows[0])]
    )
    return [Row("growth of our seconds", measured=f"n^{p:.2f}")]


def _case(
    n: int, peers: dict[str, Target | None], smaller: tuple[int, ...] = ()
) -> Case:
    def method(
        name: str,
        base: str,
        points: int,
        target: Target | None = None,
        alone: bool = False,
    ) -> Method:
        return Method(
            name,
            partial(_prepare, base, points),
            lambda labels: {"labels": labels},
            target=target,
            package="sklearn",
            alone=alone,
            compared=not alone,
        )

    def methods(quick: bool) -> list[Method]:
        names = {"hardmax": Target(10, "s") if n == max(SIZES) else None} | peers
        return [
            *(
                method(name, name, size(n, quick), target)
                for name, target in names.items()
            ),
            *(
                method(f"hardmax, n = {m:,}", "hardmax", size(m, quick), alone=True)
                for m in smaller
            ),
        ]

    title = f"Cluster {n:,} points of {CENTRES} Gaussian clusters, d = {D}"
    return Case(
        f"clustering_{n}",
        title,
        methods,
        are_same_partitions,
        "finds other clusters",
        growth_row,
    )


CASES = [
    _case(
        5000, FAST | dict.fromkeys(("AffinityPropagation", "MeanShift"), Target(20.0))
    ),
    _case(20_000, FAST, tuple(n for n in SIZES if n not in (5000, 20_000))),
]
