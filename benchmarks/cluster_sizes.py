"""Clustering of very many points: seconds and memory against MiniBatchKMeans and HDBSCAN, each in its own process.

Sentences are those of film reviews, as MiniLM embeds them, where `IMDB` names a Parquet file with a column `text`.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hardmax._types import AnyArray

BEGIN = "<!-- made by python -m benchmarks clustering_sizes -->"
D, CENTRES = 64, 10
OURS = "hardmax, number not given"
SIZES = {OURS: (10_000, 30_000, 100_000, 300_000, 1_000_000), "MiniBatchKMeans": (10_000, 100_000, 1_000_000)}
SIZES |= {"hardmax, told 10": (10_000, 100_000), "HDBSCAN": (10_000, 30_000)}
SENTENCES = 10_000
FROM = 100_000  # points from which growth is measured: those before are found another way
LIMIT = 1800  # seconds that one may take


def gaussian(n: int) -> tuple[AnyArray, Any]:
    """Well separated clusters, in float32."""
    from sklearn.datasets import make_blobs

    X, y = make_blobs(n, D, centers=CENTRES, random_state=0)
    return X.astype(np.float32), y


def sentences(n: int) -> tuple[AnyArray, Any]:
    """Sentences of reviews, by MiniLM; nobody knows their clusters."""
    import pyarrow.parquet

    from hardmax.transformers import embed

    reviews = pyarrow.parquet.read_table(os.environ["IMDB"], columns=["text"])["text"][:2000].to_pylist()
    cut = [part.strip() for text in reviews for part in text.replace("<br />", " ").split(". ")]
    return embed([part for part in dict.fromkeys(cut) if 20 < len(part) < 200][:n]), None


def fitted(method: str, data: str, n: int) -> dict[str, Any]:
    """One fit in this process: seconds, of the processor too, memory beyond the data, and the clusters."""
    from sklearn import cluster
    from sklearn.metrics import adjusted_rand_score

    from hardmax.cluster import HardmaxClustering

    X, y = gaussian(n) if data == "Gaussian" else sentences(n)
    metric = {} if data == "Gaussian" else {"metric": "cosine"}
    model = {
        OURS: lambda: HardmaxClustering(**metric),
        "hardmax, told 10": lambda: HardmaxClustering(CENTRES, **metric),
        "MiniBatchKMeans": lambda: cluster.MiniBatchKMeans(CENTRES, n_init=3, random_state=0),
        "HDBSCAN": lambda: cluster.HDBSCAN(min_cluster_size=10, copy=True),
    }[method]()
    type(model)(**model.get_params()).fit(X[:2000])  # loads what it needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock, processor = time.perf_counter(), time.process_time()
    labels = model.fit(X).labels_
    row = {"seconds": time.perf_counter() - clock, "processor": time.process_time() - processor}
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6
    score = None if y is None else round(float(adjusted_rand_score(y, labels)), 4)
    return row | {"peak": peak, "data_mb": X.nbytes / 1e6, "found": len(set(labels.tolist()) - {-1}), "ARI": score}


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Every method at every size."""
    asked = [("Gaussian", method, n) for method, sizes in SIZES.items() for n in sizes[: 1 if quick else None]]
    asked += [("sentences", method, SENTENCES) for method in SIZES] if "IMDB" in os.environ and not quick else []
    rows = []
    for data, method, n in asked:
        if progress is not None:
            progress(f"clustering_sizes: {data}, {method}, {n:,} points")
        command = [sys.executable, "-m", "benchmarks.cluster_sizes", method, data, str(n // 10 if quick else n)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
        rows.append({"data": data, "method": method, "n": n} | json.loads(done.stdout.splitlines()[-1]))
    return {"rows": rows, "growth": growth(rows)}


def growth(rows: list[dict[str, Any]]) -> float | None:
    """The exponent p of the fit: our seconds ~ n**p."""
    ours = [row for row in rows if row["method"] == OURS and row["data"] == "Gaussian" and row["n"] >= FROM]
    if len(ours) < 2:
        return None
    return float(np.polyfit(np.log([row["n"] for row in ours]), np.log([row["seconds"] for row in ours]), 1)[0])


def markdown(values: dict[str, Any]) -> str:
    """A line for each method at each size."""
    lines = [
        "| points | method | seconds | processor | MB beside the data | clusters | ARI |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in values["rows"]:
        points = f"{row['n']:,} {row['data']}"
        score = "" if row["ARI"] is None else f"{row['ARI']:.3f}"
        numbers = f"{row['seconds']:.3g} | {row['processor']:.3g} | {row['peak']:,.0f} | {row['found']} | {score}"
        lines.append(f"| {points} | {row['method']} | {numbers} |")
    if values["growth"] is not None:
        lines.append(f"| growth from {FROM:,} on | {OURS} | n^{values['growth']:.2f} | | | | |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(fitted(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
