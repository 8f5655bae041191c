"""Clusters of unequal size: adjusted Rand index of hardmax and of scikit-learn's clusterers, five draws of each set.

`python -m benchmarks.unequal_clusters` prints the table. With `--record` it also writes the results file and the table
of docs/clustering.md.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import clustering, report
from benchmarks.machine import machine
from hardmax._files import written_whole
from hardmax._types import FloatArray, IntArray

BEGIN = "<!-- made by python -m benchmarks.unequal_clusters -->"
ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "unequal_clusters.json"
PAGE = ROOT / "docs" / "clustering.md"
SEEDS = 5
TREE = "hardmax, tree_.cut"
PEERS = ("KMeans", "SpectralClustering", "HDBSCAN")
METHODS = ("hardmax", TREE, clustering.UNTOLD, *PEERS)
# sizes of unit Gaussian clusters in the plane, and their centres
SETS: dict[str, tuple[tuple[int, ...], tuple[tuple[float, float], ...]]] = {
    "9,500 and 500, 7 apart": ((9500, 500), ((0, 0), (7, 0))),
    "950 and 50, 7 apart": ((950, 50), ((0, 0), (7, 0))),
    "980 and 20, 10 apart": ((980, 20), ((0, 0), (10, 0))),
    "900, 60 and 40, 7 from the first": ((900, 60, 40), ((0, 0), (7, 0), (0, 7))),
    "9,980 and 20, 10 apart": ((9980, 20), ((0, 0), (10, 0))),
    "800 and 200, 5 apart": ((800, 200), ((0, 0), (5, 0))),
    "1,900 and 100, 5 apart": ((1900, 100), ((0, 0), (5, 0))),
}


def draw(name: str, seed: int) -> tuple[FloatArray, IntArray]:
    """Return the points of a set, and the cluster of each."""
    sizes, centres = SETS[name]
    random = np.random.default_rng(seed)
    points = [random.normal(size=(n, 2)) + centre for n, centre in zip(sizes, centres, strict=True)]
    return np.concatenate(points), np.repeat(np.arange(len(sizes)), sizes)


def measure_draw(name: str, seed: int) -> dict[str, Any]:
    """Return the adjusted Rand index of every method on one draw.

    Methods but the default of hardmax and HDBSCAN get the number of clusters. HDBSCAN gets the best of the sizes
    `clustering.SMALLEST`, chosen by the true labels.
    """
    from sklearn.exceptions import ConvergenceWarning

    from hardmax.cluster import HardmaxClustering

    X, y = draw(name, seed)
    k = len(SETS[name][0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        ours = HardmaxClustering(k).fit(X)
    untold = HardmaxClustering().fit(X)
    labels = {"hardmax": ours.labels_, TREE: ours.tree_.cut(k)[0], clustering.UNTOLD: untold.labels_}
    scores = {method: clustering.score(y, found) for method, found in labels.items()}
    for method in PEERS:
        tried = (clustering.found(method, chosen, X)[0] for chosen in clustering.settings(method, X, k))
        scores[method] = max(clustering.score(y, found) for found in tried)
    return {
        "data": name,
        "seed": seed,
        "warned": bool(caught),
        "found": untold.n_clusters_,
        "ARI": {method: round(value, 4) for method, value in scores.items()},
    }


def measure(sets: tuple[str, ...] = tuple(SETS), progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Measure every method on every draw of some sets."""
    rows = []
    for name in sets:
        for seed in range(SEEDS):
            if progress is not None:
                progress(f"unequal_clusters: {name}, seed {seed}")
            rows.append(measure_draw(name, seed))
    return {"rows": rows}


def markdown(values: dict[str, Any]) -> str:
    """Return a table with a line for each set; a cell has one adjusted Rand index per seed."""
    heads = ("points", *METHODS, "number found", "warnings")
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---|" * (len(METHODS) + 2)]
    for name in dict.fromkeys(row["data"] for row in values["rows"]):
        rows = [row for row in values["rows"] if row["data"] == name]
        cells = [" ".join(f"{row['ARI'][method]:.2f}" for row in rows) for method in METHODS]
        cells.append(" ".join(str(row["found"]) for row in rows))
        cells.append(f"{sum(row['warned'] for row in rows)} of {len(rows)}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, and record it where that is asked for."""
    parser = argparse.ArgumentParser(description="Compare clusterers on clusters of unequal size.")
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name} and the table of {PAGE.name}")
    record = parser.parse_args().record
    values = {"machine": machine()} | measure()
    print(markdown(values))
    if record:
        report.write(values, RESULTS)
        page = report.fill(PAGE.read_text(encoding="utf-8"), markdown(values), BEGIN)
        with written_whole(PAGE) as temporary:
            temporary.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
