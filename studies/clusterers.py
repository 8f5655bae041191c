"""Clusterers on known clusters: adjusted Rand index, seconds and memory of hardmax and
of scikit-learn's.

Peers get the number of clusters where they take it. The others get the best of a small
grid of their parameter, chosen by the true labels, which no user has: their row is the
best they could do.

`python -m studies.clusterers METHOD DATA N` prints one fit of the study of sizes, in a
process of its own. Its sentences are those of film reviews, as MiniLM embeds them, if
`IMDB` names a Parquet file with a column `text`.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from benchmarks import report
from benchmarks.clustering import NEIGHBOURS, fit_labels, score
from benchmarks.machine import with_peak
from benchmarks.registry import Progress, growth

from hardmax._types import AnyArray, FloatArray, IntArray

QUANTILES = (
    0.02,
    0.05,
    0.1,
    0.2,
    0.3,
)  # of the distances, for the bandwidth of MeanShift
PREFERENCES = (
    1,
    3,
    10,
    30,
    100,
)  # times the median of minus the squared distances, for AffinityPropagation
MIN_CLUSTER_SIZES = (5, 10, 15, 25, 50)  # of HDBSCAN
ROWS, SEEDS = 500, 5  # of a toy data set, and how often it is drawn
NO_NUMBER = "hardmax, number not given"
PEERS = ("KMeans", "SpectralClustering", "HDBSCAN", "AffinityPropagation", "MeanShift")
METHODS = ("hardmax", *NEIGHBOURS, NO_NUMBER, *PEERS)
Settings = dict[str, Any]


def data_sets(quick: bool = False) -> Iterator[tuple[str, FloatArray, IntArray]]:
    """Yield name, points and true labels: scikit-learn's toy sets, drawn several times,
    its digits and iris, and texts.

    The seeds are the first ones: those of scikit-learn's gallery make clusters that are
    easy to separate.
    """
    from sklearn import datasets

    from hardmax.transformers import embed
    from studies.topics import SHORT, WAYS, sentences

    n = 300 if quick else ROWS
    for seed in range(1 if quick else SEEDS):
        yield "moons", *datasets.make_moons(n, noise=0.05, random_state=seed)
        yield (
            "circles",
            *datasets.make_circles(n, factor=0.5, noise=0.05, random_state=seed),
        )
        yield "blobs", *datasets.make_blobs(n, random_state=seed)
        yield (
            "varied",
            *datasets.make_blobs(n, cluster_std=[1.0, 2.5, 0.5], random_state=seed),
        )
        X, y = datasets.make_blobs(n, random_state=seed)
        yield "aniso", X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y
        yield (
            "no structure",
            np.random.default_rng(seed).random((n, 2)),
            np.zeros(n, np.intp),
        )
    yield "iris", *datasets.load_iris(return_X_y=True)
    if not quick:
        yield "digits", *datasets.load_digits(return_X_y=True)
        for name, ways in (("phrases", SHORT), ("sentences", WAYS)):
            texts, topics = sentences(ways)
            yield name, embed(texts).astype(np.float64), topics


def settings(name: str, X: FloatArray, k: int) -> list[Settings]:
    """Return the parameters with which a method is tried."""
    from sklearn.cluster import estimate_bandwidth
    from sklearn.metrics import euclidean_distances

    if name == "HDBSCAN":
        return [{"min_cluster_size": least} for least in MIN_CLUSTER_SIZES]
    if name == "AffinityPropagation":
        median = float(np.median(-euclidean_distances(X, squared=True)))
        return [{"preference": times * median} for times in PREFERENCES]
    if name == "MeanShift":
        widths = [
            float(estimate_bandwidth(X, quantile=q, n_samples=500, random_state=0))
            for q in QUANTILES
        ]
        return [{"bandwidth": width} for width in widths if width > 0]
    return [{}] if name == NO_NUMBER else [{"n_clusters": k}]


def best_row(data: str, X: FloatArray, y: IntArray, name: str) -> dict[str, Any]:
    """Return the best of a method on one data set; memory is that of a run of its own."""
    k = len(np.unique(y))
    tried = [(*fit_labels(name, chosen, X), chosen) for chosen in settings(name, X, k)]
    labels, seconds, chosen = max(tried, key=lambda each: score(y, each[0]))
    if seconds < 10:
        seconds = min(seconds, fit_labels(name, chosen, X)[1])
    _, peak = with_peak(lambda: fit_labels(name, chosen, X), afresh=True)
    return {
        "data": data,
        "n": len(X),
        "d": X.shape[1],
        "clusters": k,
        "method": name,
        "with": ", ".join(f"{key}={value:.3g}" for key, value in chosen.items()),
        "found": len(set(labels.tolist()) - {-1}),
        "ARI": round(score(y, labels), 3),
        "seconds": float(f"{seconds:.3g}"),
        "peak": peak,
    }


def mean_row(drawn: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one row for a data set that was drawn several times: means, and the
    largest peak.
    """
    ari, seconds, found = (
        float(np.mean([row[key] for row in drawn]))
        for key in ("ARI", "seconds", "found")
    )
    peaks = [row["peak"] for row in drawn if row["peak"] is not None]
    return drawn[0] | {
        "drawn": len(drawn),
        "with": " / ".join(dict.fromkeys(row["with"] for row in drawn)),
        "found": found,
        "ARI": round(ari, 3),
        "seconds": float(f"{seconds:.3g}"),
        "peak": max(peaks, default=None),
    }


def measure(quick: bool, progress: Progress) -> dict[str, Any]:
    """Measure every method on every data set."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for data, X, y in data_sets(quick):
        for name in METHODS:
            progress(f"clustering: {data}, {name}")
            rows.setdefault((data, name), []).append(best_row(data, X, y, name))
    return {"rows": [mean_row(drawn) for drawn in rows.values()]}


def markdown(found: dict[str, Any]) -> str:
    """Return a line for each data set, a column for each method: adjusted Rand index,
    seconds and MB.
    """

    def cell(row: dict[str, Any]) -> str:
        memory = "" if row.get("peak") is None else f", {row['peak']:,.0f} MB"
        return f"{row['ARI']:.3f} ({row['seconds']:.2g} s{memory})"

    rows = {(row["data"], row["method"]): row for row in found["rows"]}
    columns: dict[str, Callable[[Any], Any]] = {
        "points": lambda data: data,
        "n, d, clusters": lambda data: shape(rows[data, "hardmax"]),
    }
    columns |= {
        name: lambda data, name=name: cell(rows[data, name]) for name in METHODS
    }
    return report.table(
        dict.fromkeys(data for data, _ in rows), columns, ["n, d, clusters"]
    )


def shape(row: dict[str, Any]) -> str:
    """Return the size of a data set."""
    return f"{row['n']:,}, {row['d']}, {row['clusters']}"


TREE = "hardmax, tree_.cut"
UNEQUAL_METHODS = (
    "hardmax",
    TREE,
    NO_NUMBER,
    "KMeans",
    "SpectralClustering",
    "HDBSCAN",
)
# sizes of unit Gaussian clusters in the plane, and their centres
UNEQUAL: dict[str, tuple[tuple[int, ...], tuple[tuple[float, float], ...]]] = {
    "9,500 and 500, 7 apart": ((9500, 500), ((0, 0), (7, 0))),
    "950 and 50, 7 apart": ((950, 50), ((0, 0), (7, 0))),
    "980 and 20, 10 apart": ((980, 20), ((0, 0), (10, 0))),
    "900, 60 and 40, 7 from the first": ((900, 60, 40), ((0, 0), (7, 0), (0, 7))),
    "9,980 and 20, 10 apart": ((9980, 20), ((0, 0), (10, 0))),
    "800 and 200, 5 apart": ((800, 200), ((0, 0), (5, 0))),
    "1,900 and 100, 5 apart": ((1900, 100), ((0, 0), (5, 0))),
}


def measure_unequal(quick: bool, progress: Progress) -> dict[str, Any]:
    """Measure the adjusted Rand index of every method on draws of clusters of unequal
    size.
    """
    from sklearn.exceptions import ConvergenceWarning

    from hardmax.cluster import HardmaxClustering

    rows = []
    for name, (sizes, centres) in (
        list(UNEQUAL.items())[1:2] if quick else UNEQUAL.items()
    ):
        y, k = np.repeat(np.arange(len(sizes)), sizes), len(sizes)
        for seed in range(2 if quick else SEEDS):
            progress(f"unequal_clusters: {name}, seed {seed}")
            random = np.random.default_rng(seed)
            X = np.concatenate(
                [
                    random.normal(size=(n, 2)) + c
                    for n, c in zip(sizes, centres, strict=True)
                ]
            )
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                ours = HardmaxClustering(k).fit(X)
            default = HardmaxClustering().fit(X)
            ari = {
                "hardmax": score(y, ours.labels_),
                TREE: score(y, ours.tree_.cut(k)[0]),
            }
            ari[NO_NUMBER] = score(y, default.labels_)
            for method in UNEQUAL_METHODS[3:]:
                ari[method] = max(
                    score(y, fit_labels(method, chosen, X)[0])
                    for chosen in settings(method, X, k)
                )
            scores = {method: round(value, 4) for method, value in ari.items()}
            row = {
                "data": name,
                "seed": seed,
                "warned": bool(caught),
                "found": default.n_clusters_,
            }
            rows.append(row | {"ARI": scores})
    return {"rows": rows}


def unequal_markdown(found: dict[str, Any]) -> str:
    """Return a line for each data set; a cell has one adjusted Rand index per seed."""
    by_data: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        by_data.setdefault(row["data"], []).append(row)
    columns = ["points", *UNEQUAL_METHODS, "number found", "warnings"]
    body = [
        [
            name,
            *(
                " ".join(f"{row['ARI'][method]:.2f}" for row in rows)
                for method in UNEQUAL_METHODS
            ),
            " ".join(str(row["found"]) for row in rows),
            f"{sum(row['warned'] for row in rows)} of {len(rows)}",
        ]
        for name, rows in by_data.items()
    ]
    return report.lines(columns, body, columns)


def _arc(random: np.random.Generator, n: int) -> FloatArray:
    angle = np.pi * random.random(n)
    return np.asarray(
        np.c_[np.cos(angle), np.sin(angle)] + 0.05 * random.standard_normal((n, 2))
    )


CHANCE_SIZES, CHANCE_DRAWS = (100, 300, 1000, 3000), 40
WITHOUT_CLUSTERS: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "uniform, d = 1": lambda random, n: random.random((n, 1)),
    "half a ring with noise": _arc,
    "uniform, d = 2": lambda random, n: random.random((n, 2)),
    "Gaussian, d = 2": lambda random, n: random.standard_normal((n, 2)),
    "Gaussian, d = 5": lambda random, n: random.standard_normal((n, 5)),
    "Gaussian, d = 5, one axis eight times as long": lambda random, n: (
        random.standard_normal((n, 5)) * [8, 1, 1, 1, 1]
    ),
    "Gaussian, d = 20": lambda random, n: random.standard_normal((n, 20)),
    "Gaussian, d = 100": lambda random, n: random.standard_normal((n, 100)),
}


def measure_chance(quick: bool, progress: Progress) -> dict[str, Any]:
    """Count the draws without clusters in which the default finds several."""
    from hardmax.cluster import HardmaxClustering

    draws, rows = (2 if quick else CHANCE_DRAWS), []
    for index, (kind, draw) in enumerate(WITHOUT_CLUSTERS.items()):
        for n in CHANCE_SIZES[: 2 if quick else None]:
            progress(f"chance: {kind}, {n:,} points")
            random = np.random.default_rng([n, index])
            several = sum(
                HardmaxClustering().fit(draw(random, n)).n_clusters_ > 1
                for _ in range(draws)
            )
            rows.append({"kind": kind, "n": n, "draws": draws, "several": several})
    return {"rows": rows}


def chance_markdown(found: dict[str, Any]) -> str:
    """Return a line for each kind of points, a column for each size."""
    share = {
        (row["kind"], row["n"]): f"{row['several'] / row['draws']:.0%}"
        for row in found["rows"]
    }
    sizes = sorted({n for _, n in share})
    body = [
        [kind, *(share[kind, n] for n in sizes)]
        for kind in dict.fromkeys(kind for kind, _ in share)
    ]
    return report.lines(
        ["points without clusters", *(f"n = {n:,}" for n in sizes)], body
    )


D, CENTRES, SENTENCES = 64, 10, 10_000
SIZES = {
    NO_NUMBER: (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "MiniBatchKMeans": (10_000, 100_000, 1_000_000),
}
SIZES |= {"hardmax, 10 given": (10_000, 100_000), "HDBSCAN": (10_000, 30_000)}
GROWTH_FROM = 100_000  # points; smaller inputs are clustered by another method


def _points(data: str, n: int) -> tuple[AnyArray, Any]:
    """Return separated Gaussian clusters with their labels, or sentences of film
    reviews without.
    """
    if data == "Gaussian":
        from sklearn.datasets import make_blobs

        X, y = make_blobs(n, D, centers=CENTRES, random_state=0)
        return X.astype(np.float32), y
    import pyarrow.parquet

    from hardmax.transformers import embed

    reviews = pyarrow.parquet.read_table(os.environ["IMDB"], columns=["text"])["text"][
        :2000
    ].to_pylist()
    cut = [
        part.strip()
        for text in reviews
        for part in text.replace("<br />", " ").split(". ")
    ]
    return (
        embed([part for part in dict.fromkeys(cut) if 20 < len(part) < 200][:n]),
        None,
    )


def fit_many(method: str, data: str, n: int) -> dict[str, Any]:
    """Fit once in this process: seconds, processor seconds, memory beyond the data, and
    the clusters.
    """
    from sklearn import cluster

    from hardmax.cluster import HardmaxClustering

    X, y = _points(data, n)
    metric = {} if data == "Gaussian" else {"metric": "cosine"}
    model = {
        NO_NUMBER: lambda: HardmaxClustering(**metric),
        "hardmax, 10 given": lambda: HardmaxClustering(CENTRES, **metric),
        "MiniBatchKMeans": lambda: cluster.MiniBatchKMeans(
            CENTRES, n_init=3, random_state=0
        ),
        "HDBSCAN": lambda: cluster.HDBSCAN(min_cluster_size=10, copy=True),
    }[method]()
    type(model)(**model.get_params()).fit(X[:2000])  # loads compiled code
    clock, processor = time.perf_counter(), time.process_time()
    labels, peak = with_peak(lambda: model.fit(X).labels_, afresh=True)
    row = {
        "seconds": time.perf_counter() - clock,
        "processor": time.process_time() - processor,
    }
    ari = None if y is None else round(score(y, labels), 4)
    return row | {
        "peak": peak,
        "data_mb": X.nbytes / 1e6,
        "found": len(set(labels.tolist()) - {-1}),
        "ARI": ari,
    }


def measure_sizes(quick: bool, progress: Progress) -> dict[str, Any]:
    """Measure every method at every size, each in its own process."""
    runs = [
        ("Gaussian", method, n)
        for method, sizes in SIZES.items()
        for n in sizes[: 1 if quick else None]
    ]
    runs += (
        [("sentences", method, SENTENCES) for method in SIZES]
        if "IMDB" in os.environ and not quick
        else []
    )
    rows = []
    for data, method, n in runs:
        progress(f"clustering_sizes: {data}, {method}, {n:,} points")
        command = [
            sys.executable,
            "-m",
            "studies.clusterers",
            method,
            data,
            str(n // 10 if quick else n),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=1800, check=True
        )
        rows.append(
            {"data": data, "method": method, "n": n}
            | json.loads(done.stdout.splitlines()[-1])
        )
    ours = [
        row
        for row in rows
        if (row["method"], row["data"]) == (NO_NUMBER, "Gaussian")
        and row["n"] >= GROWTH_FROM
    ]
    p = (
        growth([row["n"] for row in ours], [row["seconds"] for row in ours])
        if len(ours) > 1
        else None
    )
    return {"rows": rows, "growth": p}


def sizes_markdown(found: dict[str, Any]) -> str:
    """Return a line for each method at each size."""
    columns = [
        "points",
        "method",
        "seconds",
        "processor",
        "MB beside the data",
        "clusters",
        "ARI",
    ]
    keys = ("method", "seconds", "processor", "peak", "found")
    body = [
        [
            f"{row['n']:,} {row['data']}",
            *(row[key] for key in keys),
            "" if row["ARI"] is None else f"{row['ARI']:.3f}",
        ]
        for row in found["rows"]
    ]
    if found["growth"] is not None:
        words = f"growth from {GROWTH_FROM:,} on"
        body.append([words, NO_NUMBER, f"n^{found['growth']:.2f}", *[None] * 4])
    return report.lines(columns, body, ["method"])


if __name__ == "__main__":
    print(json.dumps(fit_many(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
