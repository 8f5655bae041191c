"""Studies: what has no turns on two cores. Curves, each with its picture, and what runs on a GPU."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks import (
    app,
    chance,
    cluster_sizes,
    clustering,
    corpora,
    decided,
    gpu,
    imdb,
    report,
    scaling,
    sizes,
    sweeps,
)


@dataclass(frozen=True)
class Study:
    """What is measured, and the name of the function of `plots` that draws it, if one does."""

    title: str
    measure: Callable[..., dict[str, Any]]
    picture: str = ""
    table: Callable[[dict[str, Any]], str] | None = None  # what --markdown writes
    mark: str = report.GPU  # and after which line


STUDIES = {
    "app": Study("How long visitors of the app wait, twenty at once", app.measure, table=app.markdown, mark=app.BEGIN),
    "clustering": Study(
        "Adjusted Rand index and seconds of clusterers on known clusters",
        clustering.measure,
        table=clustering.markdown,
        mark=clustering.BEGIN,
    ),
    "clustering_sizes": Study(
        "Seconds and memory of clusterers on up to a million points",
        cluster_sizes.measure,
        table=cluster_sizes.markdown,
        mark=cluster_sizes.BEGIN,
    ),
    "chance": Study(
        "How often points without clusters are said to have some",
        chance.measure,
        table=chance.markdown,
        mark=chance.BEGIN,
    ),
    "scaling": Study("Seconds for one layer against n, for every kernel and FAISS", scaling.measure, "draw_scaling"),
    "decided": Study("Layers until all tokens are decided against n", decided.measure, "draw_decided"),
    "sizes": Study(
        "Seconds of every rule against n, and of its formula in NumPy and SciPy",
        sizes.measure,
        table=sizes.markdown,
        mark=sizes.BEGIN,
    ),
    "sweeps": Study(
        "What a sweep costs beside its cells, and what a second worker gains",
        sweeps.measure,
        table=sweeps.markdown,
        mark=sweeps.BEGIN,
    ),
    "corpora": Study(
        "What scoring files in parts costs beside a plain loop, and what a second worker gains",
        corpora.measure,
        table=corpora.markdown,
        mark=corpora.BEGIN,
    ),
    "imdb": Study(
        "Accuracy and seconds on the IMDb reviews, ours and TF-IDF with logistic regression",
        imdb.measure,
        table=imdb.markdown,
        mark=imdb.BEGIN,
    ),
    "gpu": Study("Hardmax attention on a GPU against softmax attention", gpu.measure, table=gpu.markdown),
}
