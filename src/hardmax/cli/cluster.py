"""`hardmax cluster`."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hardmax._display import count, format_point
from hardmax._errors import InputError
from hardmax._types import AnyArray, FloatArray
from hardmax._validation import check_tokens
from hardmax.cli import options, output
from hardmax.cli.options import option, parse_indices
from hardmax.trajectories.storage import coordinate_columns, to_json, write_rows

if TYPE_CHECKING:
    from hardmax.cluster.clustering import HardmaxClustering

ENDINGS = (*output.PICTURES, ".json", ".csv", ".html")
PARAMETERS = (
    "n_clusters",
    "granularity",
    "features",
    "n_neighbors",
    "n_components",
    "center",
    "metric",
    "noise",
)
NEEDED_FEATURES = {"n_neighbors": "graph", "n_components": "graph", "center": "points"}


@options.with_options
def cluster(
    context: typer.Context,
    points: options.TokenOptions,
    n_clusters: Annotated[
        int | None,
        option("--clusters", "Number of clusters; estimated if left out.", min=1),
    ] = None,
    granularity: Annotated[
        float | None,
        option(
            "--granularity",
            "Instead of --clusters: 0 for few clusters, 1 for one per direction.",
        ),
    ] = None,
    features: Annotated[
        str,
        option(
            "--features",
            "graph: eigenvectors of the graph of nearest neighbours; points: the"
            " points.",
        ),
    ] = "graph",
    n_neighbors: Annotated[
        int, option("--neighbors", "Neighbours of each point in the graph.")
    ] = 10,
    n_components: Annotated[
        int | None,
        option("--components", "Number of eigenvectors; chosen if left out."),
    ] = None,
    metric: Annotated[
        str,
        option(
            "--metric",
            "euclidean, cosine, or precomputed: TOKENS is a matrix of distances.",
        ),
    ] = "euclidean",
    noise: Annotated[
        float | None,
        option(
            "--noise",
            "Noise threshold (density ratio), such as 20: points in sparser places"
            " get -1.",
        ),
    ] = None,
    center: Annotated[
        bool,
        option(
            "--center/--no-center", "Use the mean as origin, for --features points."
        ),
    ] = True,
    whiten: Annotated[
        bool, option("--whiten", "Measure distances by the inverse covariance.")
    ] = False,
    must_lead: Annotated[
        str,
        option("--must-lead", "Indices of points that have to lead.", metavar="0,5"),
    ] = "",
    tree: Annotated[
        list[Path] | None,
        option(
            "--tree",
            "Draw the tree of nested clusters: .png, .svg or .pdf.",
            metavar="FILE",
        ),
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Cluster points around leaders, which are points of the data.

    TOKENS holds one point per row. Without --clusters and --granularity the number of
    clusters is estimated; an estimate of 1 means that no clusters were found. --out
    writes the points with their labels (.csv), the result (.json), a figure (.png,
    .svg, .pdf), or a page with the tree of clusters and a slider that cuts it (.html).
    """
    files = output.check_files(out, ENDINGS, read=points.tokens)
    trees = output.check_files(tree, output.PICTURES, read=points.tokens, name="tree")
    from hardmax.cluster import HardmaxClustering

    needs = {
        name: (f"--features {kind}", features == kind)
        for name, kind in NEEDED_FEATURES.items()
    }
    options.check_needs(context, needs, f"--features {features}")
    X = np.asarray(check_tokens(points.read_tokens())[0], np.float64)
    parameters = {
        name: context.params[name]
        for name in PARAMETERS
        if options.was_given(context, name)
    }
    parameters |= {"A": "whiten"} if whiten else {}
    parameters |= (
        {"must_lead": parse_indices(must_lead, "must_lead")} if must_lead else {}
    )
    with output.warnings_as_notes():
        found = _fit(HardmaxClustering(**parameters, verbose=True), X)
    result = {
        "clusters": found.n_clusters_,
        "certified": bool(found.certified_),
        "granularity": float(found.granularity_),
        "layers": found.n_iter_,
        "leaders": found.leaders_,
        "labels": found.labels_,
        "strengths": found.strengths_.round(6),
    }
    indices = np.arange(len(X))
    columns: dict[str, AnyArray] = {"point": indices} | (
        {} if metric == "precomputed" else coordinate_columns(X)
    )
    columns |= {
        "cluster": found.labels_,
        "strength": found.strengths_,
        "leads": np.isin(indices, found.leaders_),
    }
    text = to_json("hardmax-clusters-1", result)

    def page() -> str:
        from hardmax.draw.clusters import clusters_page

        return clusters_page(
            found,
            found.tokens_ if metric == "precomputed" else X,
            Path(points.tokens).name,
        )

    output.write(
        files,
        found,
        to_json=lambda: text,
        to_csv=partial(write_rows, columns=columns),
        to_html=page,
    )
    output.write(trees, found.tree_, plot=partial(found.tree_.plot, found.n_clusters_))
    if json:
        print(text)
        return
    _print(found, result, X)
    output.say_written([*files, *trees])


def _fit(clustering: "HardmaxClustering", X: FloatArray) -> "HardmaxClustering":
    try:
        return clustering.fit(X)
    except InputError:
        raise
    except ValueError as problem:  # name the option in the errors of scikit-learn
        sentence = re.sub(
            r"The '(\w+)' parameter of \w+", r"`\1`", str(problem)
        ).replace(" or None.", ".")
        raise InputError(sentence) from None


def _print(found: "HardmaxClustering", result: dict[str, Any], X: FloatArray) -> None:
    sizes = np.bincount(found.labels_[found.labels_ >= 0], minlength=found.n_clusters_)
    numbers = (
        f"{count(len(sizes), 'cluster')} of {count(len(X), 'point')}, at granularity"
        f" {result['granularity']:.3g}"
    )
    proof = (
        "The limit of every point is proved"
        if result["certified"]
        else "Not every limit is proved"
    )
    output.say(f"{numbers}. {proof} (layer {result['layers']}).")
    if n_noise := int((found.labels_ < 0).sum()):
        output.say(f"Noise: {count(n_noise, 'point')}.")
    if (
        found.n_clusters_ == 1
        and found.n_clusters is None
        and found.granularity is None
    ):
        output.say("No clusters: the density of the points has no peaks beyond chance.")
    order = np.argsort(-sizes, kind="stable")[: output.MAX_ROWS]
    rows = [
        (
            str(c),
            str(sizes[c]),
            str(found.leaders_[c]),
            format_point(X[found.leaders_[c]]),
        )
        for c in order
    ]
    columns = ("cluster", "points", "leader", "position of the leader")
    output.show_table("Clusters", *columns, rows=rows, total=len(sizes))
