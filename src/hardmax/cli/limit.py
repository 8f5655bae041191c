"""`hardmax limit`."""

from typing import Annotated

import numpy as np
import typer

from hardmax import HardmaxTrajectory, draw, simulate
from hardmax import limit as find_limit
from hardmax._exact import format_down
from hardmax.cli import options, output
from hardmax.cli.rules import HardmaxOptions
from hardmax.limit import quick_radius

AFTERWARDS = 12  # layers that a movie goes on after the certificate, to be seen arriving
LONGEST = 100  # layers of a movie or page at the most, where nothing is certified for long


@options.with_options
def limit(
    run: HardmaxOptions,
    max_layers: Annotated[int, options.option("--max-layers", "Give up after so many layers.")] = 1000,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Find where every token ends, with a proof.

    Exit code 1 when the limit is not certified. --out writes a picture (.png, .svg, .pdf), a movie of the way there
    (.gif, .mp4), the result (.npz, .json), a table of limits (.csv) or a page (.html).
    """
    files = output.check_files(out, read=run.tokens)
    tokens = run.read_tokens()
    rule = run.hardmax(tokens.shape[-1])
    with output.progress_bar("Tokens decided") as progress:
        result = find_limit(tokens, rule, max_layers=max_layers, kernel=run.kernel, progress=progress)

    def way(least: int, beyond: int = 0) -> HardmaxTrajectory:
        """The way to the limit, or the beginning of a long one."""
        return simulate(tokens, rule, layers=max(least, min(result.layer, LONGEST)) + beyond)

    output.write(
        files,
        text=result.to_json,
        archive=result.to_npz,
        rows=result.to_csv,
        film=lambda path, **more: draw.movie(way(0, AFTERWARDS), path, **more),
        page=lambda: draw.trajectory_page(way(30), run.tokens, result),
        figure=lambda: draw.plot_limit(result, tokens).figure,
    )
    if json:
        print(result.to_json())
    else:
        output.say_status(result.status)
        radius = quick_radius(result)
        if 0 < radius < np.inf:
            output.say(f"Moving each token by less than {format_down(radius, 2)} changes no set at any layer.")
        from hardmax.draw.pages import POINTS, limit_points

        output.show(output.table("Limit points", *POINTS, rows=limit_points(result, output.MOST_ROWS)))
        output.say_written(files)
    if not result.certified:
        raise typer.Exit(1)
