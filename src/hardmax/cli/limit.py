"""`hardmax limit`."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import Limit, simulate
from hardmax import limit as find_limit
from hardmax.cli import options, output, rules
from hardmax.cli.simulate import write_movie, write_page
from hardmax.limits import limit_points, quick_radius

AFTERWARDS = 12  # layers that a movie goes on after the certificate, to be seen arriving
LONGEST = 100  # layers of a movie or page at the most, where nothing is certified for long


def limit(
    context: typer.Context,
    tokens: options.Input,
    alpha: rules.Alpha = "0.5",
    A: rules.A = None,
    max_layers: Annotated[int, typer.Option("--max-layers", help="Give up after so many layers.")] = 1000,
    n: options.N = None,
    d: options.D = None,
    seed: options.Seed = 0,
    cloud: options.Cloud = None,
    any_A: rules.AnyA = False,
    exact: options.Exact = False,
    ties: rules.Ties = "exact",
    kernel: rules.Kernel = "auto",
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Find where every token ends, with a proof.

    Exit code 1 when the limit is not certified. --out writes a picture (.png, .svg, .pdf), a movie of the way there
    (.gif, .mp4), the result (.npz, .json) or a page (.html).
    """
    files = output.check_endings(out)
    points_in = options.read_tokens(tokens, n=n, d=d, seed=seed, exact=exact, cloud=cloud, single=True)
    rule = rules.read_rule(context, points_in.shape[-1])
    with output.progress_bar("Tokens decided") as progress:
        result = find_limit(points_in, rule, max_layers=max_layers, kernel=kernel, progress=progress)
    for path in files:
        write(result, points_in, rule, path, tokens)
    if json:
        print(result.to_json())
    else:
        output.say(result.status)
        radius = quick_radius(result)
        if 0 < radius < np.inf:
            output.say(f"Moving each token by less than {radius:.2g} changes no set at any layer.")
        output.console().print(points(result))
        for path in files:
            output.say(f"Wrote {path}")
    if not result.certified:
        raise typer.Exit(1)


def points(result: Limit) -> object:
    """The set S: each point, what it is, and how many tokens end there."""
    grid = output.table("Limit points", "point", "what it is", "since layer", "tokens")
    for row in limit_points(result, output.MOST_ROWS):
        grid.add_row(*row)
    return grid


def write(result: Limit, cloud: Any, rule: Any, path: Path, title: str) -> None:
    """One file, by its ending."""
    ending = path.suffix.lower()
    if ending == ".json":
        output.save_text(result.to_json(), path)
    elif ending == ".npz":
        result.to_npz(path)
    elif ending in output.MOVIES:
        write_movie(simulate(cloud, rule, layers=min(result.layer, LONGEST) + AFTERWARDS), path)
    elif ending == ".html":
        write_page(simulate(cloud, rule, layers=max(30, min(result.layer, LONGEST))), path, title, result)
    else:
        from hardmax.draw.tokens import plot_limit

        output.save_figure(plot_limit(result, cloud).figure, path)
