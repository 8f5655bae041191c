"""`hardmax limit`."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from hardmax import Hardmax, Limit, simulate
from hardmax import limit as find_limit
from hardmax._types import AnyArray
from hardmax.cli import options, output
from hardmax.cli.rules import HardmaxOptions
from hardmax.cli.simulate import write_movie, write_page
from hardmax.limits import quick_radius
from hardmax.trajectories.sentences import limit_points

AFTERWARDS = 12  # layers that a movie goes on after the certificate, to be seen arriving
LONGEST = 100  # layers of a movie or page at the most, where nothing is certified for long


@options.with_options
def limit(
    run: HardmaxOptions,
    max_layers: Annotated[int, typer.Option("--max-layers", help="Give up after so many layers.")] = 1000,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Find where every token ends, with a proof.

    Exit code 1 when the limit is not certified. --out writes a picture (.png, .svg, .pdf), a movie of the way there
    (.gif, .mp4), the result (.npz, .json) or a page (.html).
    """
    files = output.check_endings(out)
    tokens = run.read_tokens(exact=run.exact)
    rule = run.hardmax(tokens.shape[-1])
    with output.progress_bar("Tokens decided") as progress:
        result = find_limit(tokens, rule, max_layers=max_layers, kernel=run.kernel, progress=progress)
    for path in files:
        write(result, tokens, rule, path, run.tokens)
    if json:
        print(result.to_json())
    else:
        output.say_status(result.status)
        radius = quick_radius(result)
        if 0 < radius < np.inf:
            output.say(f"Moving each token by less than {radius:.2g} changes no set at any layer.")
        output.console().print(points(result))
        output.say_written(files)
    if not result.certified:
        raise typer.Exit(1)


def points(result: Limit) -> Table:
    """The set S: each point, what it is, and how many tokens end there."""
    grid = output.table("Limit points", "point", "what it is", "since layer", "tokens")
    for row in limit_points(result, output.MOST_ROWS):
        grid.add_row(*row)
    return grid


def write(result: Limit, tokens: AnyArray, rule: Hardmax, path: Path, title: str) -> None:
    """One file, by its ending."""
    ending = path.suffix.lower()
    if ending == ".json":
        output.save_text(result.to_json(), path)
    elif ending == ".npz":
        result.to_npz(path)
    elif ending in output.MOVIES:
        write_movie(simulate(tokens, rule, layers=min(result.layer, LONGEST) + AFTERWARDS), path)
    elif ending == ".html":
        write_page(simulate(tokens, rule, layers=max(30, min(result.layer, LONGEST))), path, title, result)
    else:
        from hardmax.draw.tokens import plot_limit

        output.save_figure(plot_limit(result, tokens).figure, path)
