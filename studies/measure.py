"""`python -m studies.measure NAME`: measure a study again, record it, fill its table
and draw its picture.

`--quick` tries it with small sizes and writes nothing. `python -m studies.pages` fills
all tables from the records.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.machine import RESULTS, ROOT, machine
from benchmarks.registry import Progress

from studies import (
    app_load,
    clusterers,
    curves,
    flow_accuracy,
    hull_cache,
    imdb,
    rules,
    scale_costs,
)


@dataclass(frozen=True)
class Measured:
    """A measurement without a peer in turns: its rows, and where its table or its
    picture stands.
    """

    title: str
    measure: Callable[[bool, Progress], dict[str, Any]]  # given whether sizes are small
    table: Callable[[dict[str, Any]], str] | None = None
    page: str = ""  # of the table
    draw: Callable[[dict[str, Any]], Any] | None = None
    picture: str = ""


PEERS = "benchmarks/README.md"
STUDIES = {
    "scaling": Measured(
        "Seconds for one layer against n, for every kernel and FAISS",
        curves.measure_scaling,
        draw=curves.draw_scaling,
        picture="docs/images/scaling.png",
    ),
    "decided": Measured(
        "Layers until all tokens are decided against n",
        curves.measure_decided,
        draw=curves.draw_decided,
        picture="docs/images/decided.png",
    ),
    "sizes": Measured(
        "Every rule against n, and its formula in NumPy",
        rules.measure,
        rules.markdown,
        PEERS,
    ),
    "clustering": Measured(
        "Adjusted Rand index of clusterers on known clusters",
        clusterers.measure,
        clusterers.markdown,
        "docs/compare/clusterers.md",
    ),
    "unequal_clusters": Measured(
        "Adjusted Rand index of clusterers on clusters of unequal size",
        clusterers.measure_unequal,
        clusterers.unequal_markdown,
        "docs/compare/clusterers.md",
    ),
    "chance": Measured(
        "How often points without clusters are split",
        clusterers.measure_chance,
        clusterers.chance_markdown,
        "docs/compare/clusterers.md",
    ),
    "clustering_sizes": Measured(
        "Seconds and memory of clusterers on up to a million points",
        clusterers.measure_sizes,
        clusterers.sizes_markdown,
        "docs/compare/clusterers.md",
    ),
    "flow_accuracy": Measured(
        "Errors of flows against the tolerance",
        flow_accuracy.measure,
        flow_accuracy.markdown,
        "docs/flows.md",
    ),
    "hull_cache": Measured(
        "Appends and queries of `HullCache` per second, by the order of the keys",
        hull_cache.measure,
        hull_cache.markdown,
        "docs/how-to/torch.md",
    ),
    "app": Measured(
        "Speed and memory of the app", app_load.measure, app_load.markdown, PEERS
    ),
    "imdb": Measured(
        "Accuracy and seconds on the IMDb reviews",
        imdb.measure,
        imdb.markdown,
        "docs/compare/text-classifiers.md",
    ),
    "sweeps": Measured(
        "What a sweep costs beside its cells, and what a second worker gains",
        scale_costs.measure_sweeps,
        scale_costs.markdown,
        PEERS,
    ),
    "corpora": Measured(
        "What predicting files costs beside a plain loop, and what a second worker"
        " gains",
        scale_costs.measure_files,
        scale_costs.markdown,
        PEERS,
    ),
}


def mark(name: str) -> str:
    """Return the line of a page after which the table of a study stands."""
    return f"<!-- made by python -m studies.measure {name} -->"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.measure", description=__doc__
    )
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="Use small sizes, print the rows, and write nothing.",
    )
    given = parser.parse_args(arguments)
    study = STUDIES[given.study]
    found: dict[str, Any] = {"machine": machine()} | study.measure(
        given.quick, lambda text: print(text, flush=True)
    )
    print(report.table(found["rows"], {key: key for key in found["rows"][0]}))
    if given.quick:
        return
    report.write(found, RESULTS / f"{given.study}.json")
    if study.table is not None:
        report.fill_file(ROOT / study.page, study.table(found), mark(given.study))
    if study.draw is not None:
        study.draw(found).savefig(Path(ROOT / study.picture), dpi=150)


if __name__ == "__main__":
    main()
