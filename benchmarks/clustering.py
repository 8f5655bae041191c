"""Clustering against scikit-learn's: how well known clusters are found, and how fast.

Peers are told the number of clusters where they take it. The others get the best of a small grid of their own knob,
chosen by the labels that are to be found, which no user has: their row is the best they could do.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.memory import with_peak
from benchmarks.registry import Answer, Case, Method, Target, size
from benchmarks.results import Row
from hardmax._types import FloatArray, IntArray

D, CENTRES = 16, 10  # of the blobs whose number grows
AGREES = 0.99  # adjusted Rand index from which partitions count as the same
SIZES = (1000, 2000, 5000, 10_000, 20_000)
QUANTILES = (0.02, 0.05, 0.1, 0.2, 0.3)  # of the distances, for the bandwidth of MeanShift
PREFERENCES = (1, 3, 10, 30, 100)  # times the median of minus the squared distances, for AffinityPropagation
SMALLEST = (5, 10, 15, 25, 50)  # min_cluster_size of HDBSCAN
ROWS, SEEDS = 500, 5  # of a toy set, and how often it is drawn
UNTOLD = "hardmax, number not given"
NEIGHBOURS = {"hardmax, 5 neighbours": 5, "hardmax, 20 neighbours": 20}  # what the knob that is left does
METHODS = (
    "hardmax",
    *NEIGHBOURS,
    UNTOLD,
    "KMeans",
    "SpectralClustering",
    "HDBSCAN",
    "AffinityPropagation",
    "MeanShift",
)

BEGIN = "<!-- made by python -m benchmarks clustering -->"  # where the table goes in docs/clustering.md

Settings = dict[str, Any]


def data_sets(quick: bool = False) -> Iterator[tuple[str, FloatArray, IntArray]]:
    """Name, points and true labels: scikit-learn's toy sets, drawn several times, its digits and iris, and texts.

    The seeds are the first ones: those of scikit-learn's gallery make clusters that are easy to tell apart.
    """
    from sklearn import datasets

    from benchmarks.topics import SHORT, WAYS, sentences
    from hardmax.transformers import embed

    n = 300 if quick else ROWS
    for seed in range(1 if quick else SEEDS):
        yield "moons", *datasets.make_moons(n, noise=0.05, random_state=seed)
        yield "circles", *datasets.make_circles(n, factor=0.5, noise=0.05, random_state=seed)
        yield "blobs", *datasets.make_blobs(n, random_state=seed)
        yield "varied", *datasets.make_blobs(n, cluster_std=[1.0, 2.5, 0.5], random_state=seed)
        X, y = datasets.make_blobs(n, random_state=seed)
        yield "aniso", X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), y
        yield "no structure", np.random.default_rng(seed).random((n, 2)), np.zeros(n, np.intp)
    yield "iris", *datasets.load_iris(return_X_y=True)
    if not quick:
        yield "digits", *datasets.load_digits(return_X_y=True)
        for name, ways in (("phrases", SHORT), ("sentences", WAYS)):
            texts, topics = sentences(ways)
            yield name, embed(texts).astype(np.float64), topics


def settings(name: str, X: FloatArray, k: int) -> list[Settings]:
    """What a method is tried with."""
    from sklearn.cluster import estimate_bandwidth
    from sklearn.metrics import euclidean_distances

    if name == "HDBSCAN":
        return [{"min_cluster_size": least} for least in SMALLEST]
    if name == "AffinityPropagation":
        median = float(np.median(-euclidean_distances(X, squared=True)))
        return [{"preference": times * median} for times in PREFERENCES]
    if name == "MeanShift":
        widths = [float(estimate_bandwidth(X, quantile=q, n_samples=500, random_state=0)) for q in QUANTILES]
        return [{"bandwidth": width} for width in widths if width > 0]
    return [{}] if name == UNTOLD else [{"n_clusters": k}]


def clusterer(name: str, chosen: Settings) -> Any:
    """An estimator with what makes it deterministic, and AffinityPropagation converge."""
    from sklearn import cluster

    from hardmax.cluster import HardmaxClustering

    usual: dict[str, Settings] = {
        "KMeans": {"n_init": 10, "random_state": 0},
        "SpectralClustering": {"affinity": "nearest_neighbors", "random_state": 0},
        "HDBSCAN": {"copy": True},
        "AffinityPropagation": {"damping": 0.9, "max_iter": 500, "random_state": 0},
    }
    usual |= {ours: {"n_neighbors": number} for ours, number in NEIGHBOURS.items()}
    kind = HardmaxClustering if name.startswith("hardmax") else getattr(cluster, name)
    return kind(**usual.get(name, {}) | chosen)


def found(name: str, chosen: Settings, X: FloatArray) -> tuple[IntArray, float]:
    """Labels and seconds; what scikit-learn warns of, such as a graph in pieces, is part of the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = perf_counter()
        labels = clusterer(name, chosen).fit_predict(X)
        return labels, perf_counter() - start


def score(y: IntArray, labels: IntArray) -> float:
    """Adjusted Rand index; what HDBSCAN calls noise is one cluster more."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(y, labels))


def row(data: str, X: FloatArray, y: IntArray, name: str) -> dict[str, Any]:
    """The best of a method on one data set. Seconds are those of the best setting, the better of two runs.

    The peak of memory is that of a run of its own, so that what it costs to get memory anew is in no seconds.
    """
    k = len(np.unique(y))
    best: tuple[float, float, IntArray, Settings] | None = None
    for chosen in settings(name, X, k):
        labels, seconds = found(name, chosen, X)
        if best is None or score(y, labels) > best[0]:
            best = score(y, labels), seconds, labels, chosen
    assert best is not None
    if best[1] < 10:
        best = best[0], min(best[1], found(name, best[3], X)[1]), *best[2:]
    _, peak = with_peak(lambda: found(name, best[3], X), afresh=True)
    knob = ", ".join(f"{key}={value:.3g}" for key, value in best[3].items())
    return {
        "data": data,
        "n": len(X),
        "d": X.shape[1],
        "clusters": k,
        "method": name,
        "with": knob,
        "found": len(set(best[2].tolist()) - {-1}),
        "ARI": round(best[0], 3),
        "seconds": float(f"{best[1]:.3g}"),
        "peak": peak,
    }


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Every method on every data set."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for data, X, y in data_sets(quick):
        for name in METHODS:
            if progress is not None:
                progress(f"clustering: {data}, {name}")
            rows.setdefault((data, name), []).append(row(data, X, y, name))
    return {"rows": [mean_of(drawn) for drawn in rows.values()]}


def mean_of(drawn: list[dict[str, Any]]) -> dict[str, Any]:
    """One row for a data set that was drawn several times: means, and the highest peak."""
    means = {key: float(np.mean([one[key] for one in drawn])) for key in ("ARI", "seconds")}
    peaks = [one["peak"] for one in drawn if one["peak"] is not None]
    known = " / ".join(dict.fromkeys(str(one["with"]) for one in drawn))
    return drawn[0] | {
        "drawn": len(drawn),
        "with": known,
        "found": float(np.mean([one["found"] for one in drawn])),
        "ARI": round(means["ARI"], 3),
        "seconds": float(f"{means['seconds']:.3g}"),
        "peak": max(peaks, default=None),
    }


def markdown(values: dict[str, Any]) -> str:
    """A line for each data set, a column for each method: adjusted Rand index, seconds, and MB where known."""
    rows = values["rows"]
    sets = {row["data"]: row for row in rows}
    cells = {(row["data"], row["method"]): _cell(row) for row in rows}
    lines = [f"| points | n, d, clusters | {' | '.join(METHODS)} |", "|---|---|" + "---:|" * len(METHODS)]
    for data, one in sets.items():
        shape = f"{one['n']:,}, {one['d']}, {one['clusters']}"
        lines.append(f"| {data} | {shape} | {' | '.join(cells[data, name] for name in METHODS)} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    peak = row.get("peak")
    return f"{row['ARI']:.3f} ({row['seconds']:.2g} s{'' if peak is None else f', {peak:,.0f} MB'})"


def blobs(n: int) -> tuple[FloatArray, IntArray]:
    """Gaussian clusters that are well apart, so that all methods find the same."""
    from sklearn.datasets import make_blobs

    X, y = make_blobs(n, D, centers=CENTRES, random_state=0)
    return X, y


def fitting(name: str, n: int) -> Callable[[], Any]:
    """A method with the setting that finds the blobs."""
    X, _ = blobs(n)
    known: dict[str, Settings] = {
        "HDBSCAN": {"min_cluster_size": 10},
        "AffinityPropagation": {"preference": -3000.0},
        "MeanShift": {"bandwidth": 12.0},
    }
    chosen = known.get(name, {"n_clusters": CENTRES})
    found(name, chosen, X[:200])
    return lambda: found(name, chosen, X)[0]


def same(ours: Answer, theirs: Answer) -> bool:
    """Whether two partitions are the same but for a few points."""
    return score(ours["labels"], theirs["labels"]) >= AGREES


def growth(rows: list[Row]) -> list[Row]:
    """The exponent p of the fit: our seconds ~ n**p, where several sizes were measured."""
    ours = [row for row in rows if row.method.startswith("hardmax, n = ") and row.seconds is not None]
    if not ours or rows[0].seconds is None:
        return []
    n = [int(row.method.split("= ")[1].replace(",", "")) for row in ours] + [max(SIZES)]
    exponent = np.polyfit(np.log(n), np.log([*(row.seconds or 1.0 for row in ours), rows[0].seconds]), 1)[0]
    return [Row("growth of our seconds", measured=f"n^{exponent:.2f}")]


def _methods(n: int, peers: dict[str, Target | None], alone: tuple[int, ...], quick: bool) -> list[Method]:
    def answer(labels: Any) -> Answer:
        return {"labels": labels}

    names = {"hardmax": Target(10, "s") if n == max(SIZES) else None} | peers
    rows = [
        Method(name, partial(fitting, name, size(n, quick)), answer, target=target, package="sklearn")
        for name, target in names.items()
    ]
    smaller = [(f"hardmax, n = {m:,}", partial(fitting, "hardmax", size(m, quick))) for m in alone]
    return rows + [Method(name, run, answer, package="sklearn", alone=True, compared=False) for name, run in smaller]


def _case(n: int, peers: dict[str, Target | None], alone: tuple[int, ...] = ()) -> Case:
    title = f"Cluster {n:,} points of {CENTRES} Gaussian clusters, d = {D}"
    return Case(f"clustering_{n}", title, partial(_methods, n, peers, alone), same, "finds other clusters", growth)


FAST: dict[str, Target | None] = dict.fromkeys(("KMeans", "SpectralClustering", "HDBSCAN"))
CASES = [
    _case(5000, FAST | dict.fromkeys(("AffinityPropagation", "MeanShift"), Target(20.0))),
    _case(20_000, FAST, tuple(n for n in SIZES if n not in (5000, 20_000))),
]
