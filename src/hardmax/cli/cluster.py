"""`hardmax cluster`."""

import json as json_format
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hardmax._display import count, format_point
from hardmax._errors import InputError, ParameterError, did_you_mean
from hardmax._types import FloatArray
from hardmax._validation import check_tokens
from hardmax.cli import options, output
from hardmax.cli.options import UNSAID, option, parse_indices
from hardmax.trajectories.storage import coordinate_columns, write_rows

if TYPE_CHECKING:
    from hardmax.cluster.clustering import HardmaxClustering

ENDINGS = (*output.PICTURES, ".json", ".csv")
FEATURES = ("graph", "points")
METRICS = ("euclidean", "cosine", "precomputed")
SETTINGS = ("n_clusters", "granularity", "features", "n_neighbors", "n_components", "center", "metric", "noise")


@options.with_options
def cluster(
    context: typer.Context,
    cloud: options.TokenOptions,
    n_clusters: Annotated[int | None, option("--clusters", "How many to look for.", min=1, **UNSAID)] = None,
    granularity: Annotated[
        float | None,
        option(
            "--granularity",
            "Instead of --clusters: from 0, few, to 1, one for each direction.",
            **UNSAID,
        ),
    ] = None,
    features: Annotated[
        str, option("--features", "graph: of nearest neighbours; points: as they are, the paper's model.")
    ] = "graph",
    n_neighbors: Annotated[int, option("--neighbors", "How many nearest points each is joined with.")] = 10,
    n_components: Annotated[int | None, option("--components", "Eigenvectors of the graph.", **UNSAID)] = None,
    metric: Annotated[
        str, option("--metric", "euclidean, cosine, or precomputed: TOKENS are distances, a row for each point.")
    ] = "euclidean",
    noise: Annotated[
        float | None,
        option(
            "--noise",
            "Put points in no cluster where they are so many times sparser than its densest part: 20.",
            **UNSAID,
        ),
    ] = None,
    center: Annotated[bool, option("--center/--no-center", "Take the mean as origin of --features points.")] = True,
    whiten: Annotated[bool, option("--whiten", "Measure distances by the inverse covariance.")] = False,
    must_lead: Annotated[str, option("--must-lead", "Points that have to lead.", metavar="0,5")] = "",
    tree: Annotated[
        list[Path] | None,
        option("--tree", "Draw how clusters join as the granularity falls.", metavar="FILE", **UNSAID),
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Cluster points around leaders, which are points of the data; where each ends is proved.

    TOKENS are the points, one a row. Without --clusters or --granularity their number is found, and may be one: no
    clusters. --out writes the points with their clusters (.csv), everything (.json) or a picture (.png, .svg, .pdf).
    """
    files = output.check_files(out, ENDINGS, read=cloud.tokens)
    trees = output.check_files(tree, output.PICTURES, read=cloud.tokens)
    from hardmax.cluster import HardmaxClustering

    if features not in FEATURES:
        advice = did_you_mean(features, FEATURES)
        raise ParameterError("features", f"be {' or '.join(FEATURES)}", f"{features!r}", advice)
    if metric not in METRICS:
        raise ParameterError("metric", f"be {' or '.join(METRICS)}", f"{metric!r}", did_you_mean(metric, METRICS))
    for name, needed in (("n_neighbors", "graph"), ("n_components", "graph"), ("center", "points")):
        if options.was_given(context, name) and features != needed:
            flag = f"center={center}" if name == "center" else name
            raise ParameterError(flag, f"go with --features {needed}", f"it with {features}", "Leave it out.")
    X = np.asarray(check_tokens(cloud.read_tokens())[0], np.float64)
    given = {name: context.params[name] for name in SETTINGS if options.was_given(context, name)}
    given |= {"A": "whiten"} if whiten else {}
    given |= {"must_lead": parse_indices(must_lead, "must_lead")} if must_lead else {}
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = HardmaxClustering(**given, verbose=True).fit(X)
    except InputError:
        raise
    except ValueError as problem:  # scikit-learn's own sentences
        sentence = re.sub(r"The '(\w+)' parameter of \w+", r"`\1`", str(problem)).replace(" or None.", ".")
        raise InputError(sentence) from None
    for warning in said:
        output.note(str(warning.message))
    result = {
        "clusters": found.n_clusters_,
        "certified": bool(found.certified_),
        "granularity": float(found.granularity_),
        "layers": found.n_iter_,
        "leaders": found.leaders_.tolist(),
        "labels": found.labels_.tolist(),
        "strengths": found.strengths_.round(6).tolist(),
    }
    columns = {} if metric == "precomputed" else coordinate_columns(X)
    columns |= {"cluster": found.labels_, "strength": found.strengths_}
    columns |= {"leads": np.isin(np.arange(len(X)), found.leaders_)}
    output.write(
        files,
        text=lambda: json_format.dumps(result),
        rows=lambda path: write_rows(path, {"point": np.arange(len(X))} | columns),
        figure=found.plot,
    )
    output.write(trees, figure=lambda: found.tree_.plot(found.n_clusters_))
    if json:
        print(json_format.dumps(result))
        return
    _print(found, result, X)
    output.say_written([*files, *trees])


def _print(found: "HardmaxClustering", result: dict[str, Any], X: FloatArray) -> None:
    sizes = np.bincount(found.labels_[found.labels_ >= 0], minlength=found.n_clusters_)
    proved = "It is proved where every point ends" if result["certified"] else "Not every point is proved to end there"
    found_so = f"{count(len(sizes), 'cluster')} of {count(len(X), 'point')}, at granularity {result['granularity']:.3g}"
    output.say(f"{found_so}. {proved} (layer {result['layers']}).")
    if nowhere := int((found.labels_ < 0).sum()):
        output.say(f"{count(nowhere, 'point')} in no cluster.")
    if found.n_clusters_ == 1 and found.n_clusters is None and found.granularity is None:
        output.say("No clusters: the points are denser in places, but not more than chance makes them.")
    order = np.argsort(-sizes, kind="stable")[: output.MOST_ROWS]
    rows = [(str(c), str(sizes[c]), str(found.leaders_[c]), format_point(X[found.leaders_[c]])) for c in order]
    columns = ("cluster", "points", "led by point", "its position")
    output.show(output.table("Clusters", *columns, rows=rows, total=len(sizes)))
