"""`hardmax limit`."""

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import Limit, simulate
from hardmax import limit as find_limit
from hardmax._files import written_whole
from hardmax.cli import options, output
from hardmax.cli.simulate import write_movie, write_page
from hardmax.storage import finite

AFTERWARDS = 12  # layers that a movie goes on after the certificate, to be seen arriving


def limit(
    tokens: options.Input,
    alpha: options.Alpha = "0.5",
    A: options.A = None,
    max_layers: Annotated[int, typer.Option("--max-layers", help="Give up after so many layers.")] = 1000,
    n: options.N = 100,
    d: options.D = 2,
    seed: options.Seed = 0,
    any_A: options.AnyA = False,
    exact: options.Exact = False,
    ties: options.Ties = "exact",
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Find where every token ends, with a proof.

    Exit code 1 when the limit is not certified. --out writes a picture (.png, .svg, .pdf), a movie of the way there
    (.gif, .mp4), the result (.npz, .json) or a page (.html).
    """
    files = output.check_endings(out)
    cloud = options.read_tokens(tokens, n=n, d=d, seed=seed, exact=exact)
    rule = options.read_rule(alpha, A, any_A=any_A, exact=exact, ties=ties, normalize=True)
    with output.progress_bar("Tokens decided") as progress:
        result = find_limit(cloud, rule, max_layers=max_layers, progress=progress)
    for path in files:
        write(result, cloud, rule, path, tokens)
    if json:
        print(json_format.dumps(as_dict(result), allow_nan=False))
    else:
        output.say(result.status)
        if result.radius:
            output.say(f"Moving each token by less than {result.radius:.2g} changes no set at any layer.")
        output.console().print(points(result))
        for path in files:
            output.say(f"Wrote {path}")
    if not result.certified:
        raise typer.Exit(1)


def points(result: Limit) -> object:
    """The set S: each point, what it is, and how many tokens end there."""
    grid = output.table("Limit points", "point", "what it is", "since layer", "tokens")
    for p, point in enumerate(result.points[: output.MOST_ROWS]):
        ends = np.flatnonzero(result.clusters == p)
        if p < len(result.leaders):
            what, since = f"leader {result.leaders[p]}", str(result.emerged[p])
        else:
            weights = result.weights[ends[0]]
            terms = [f"{w:.3g} x leader {i}" for w, i in zip(weights, result.leaders, strict=True) if w]
            what, since = " + ".join(terms), ""
        grid.add_row(output.numbers(point), what, since, str(len(ends)))
    if len(result.points) > output.MOST_ROWS:
        grid.add_row("...", f"and {len(result.points) - output.MOST_ROWS} more", "", "")
    return grid


def as_dict(result: Limit) -> dict[str, Any]:
    """Everything a program may want, without NaN."""
    return {
        "status": result.status,
        "certified": result.certified,
        "layer": result.layer,
        "tokens": result.tokens.tolist(),
        "leaders": result.leaders.tolist(),
        "emerged": result.emerged.tolist(),
        "clusters": result.clusters.tolist(),
        "points": result.points.tolist(),
        "weights": finite(result.weights.tolist()),
        "radius": result.radius if np.isfinite(result.radius) else None,
        "proofs": result.proofs,
        "stats": result.stats,
    }


def write(result: Limit, cloud: Any, rule: Any, path: Path, title: str) -> None:
    """One file, by its ending."""
    ending = path.suffix.lower()
    if ending == ".json":
        output.save_text(json_format.dumps(as_dict(result), allow_nan=False), path)
    elif ending == ".npz":
        names = (
            "tokens",
            "leaders",
            "emerged",
            "clusters",
            "points",
            "weights",
            "certified",
            "layer",
            "radius",
            "status",
        )
        with written_whole(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **{name: np.asarray(getattr(result, name)) for name in names})
    elif ending in output.MOVIES:
        write_movie(simulate(cloud, rule, layers=result.layer + AFTERWARDS), path)
    elif ending == ".html":
        write_page(simulate(cloud, rule, layers=max(30, result.layer)), path, title)
    else:
        from hardmax.plotting import plot_limit

        output.save_figure(plot_limit(result, cloud).figure, path)
