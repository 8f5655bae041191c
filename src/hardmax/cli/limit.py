"""`hardmax limit`."""

from typing import Annotated

import numpy as np
import typer

from hardmax import HardmaxTrajectory, draw, simulate
from hardmax import limit as find_limit
from hardmax._exact import format_down
from hardmax.cli import options, output
from hardmax.cli.options import HardmaxOptions, option
from hardmax.limit import quick_radius

EXTRA_LAYERS = 12  # of a movie after the certified layer, to show the convergence
MAX_LAYERS = 100  # of a movie or page


@options.with_options
def limit(
    run: HardmaxOptions,
    max_layers: Annotated[int, option("--max-layers", "Maximum number of layers.")] = 1000,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Compute the limit of every token, with a certificate.

    --out writes a picture (.png, .svg, .pdf), a movie (.gif, .mp4), the result (.npz, .json), a table of limits (.csv)
    or a page (.html). Exit code 1 if the limit is not certified.
    """
    files = output.check_files(out, read=run.tokens)
    tokens = run.read_tokens()
    rule = run.make_hardmax(tokens.shape[-1])
    with output.progress_bar("Decided tokens") as progress:
        result = find_limit(tokens, rule, max_layers=max_layers, kernel=run.kernel, progress=progress)

    def run_layers(least: int, extra: int = 0) -> HardmaxTrajectory:
        """Simulate up to the certified layer, at most MAX_LAYERS, and some layers more."""
        return simulate(tokens, rule, layers=max(least, min(result.layer, MAX_LAYERS)) + extra)

    output.write(
        files,
        text=result.to_json,
        archive=result.to_npz,
        rows=result.to_csv,
        film=lambda path, **more: draw.movie(run_layers(0, EXTRA_LAYERS), path, **more),
        page=lambda: draw.trajectory_page(run_layers(30), run.tokens, result),
        figure=lambda: draw.plot_limit(result, tokens).figure,
    )
    if json:
        print(result.to_json())
    else:
        output.say_status(result.status)
        radius = quick_radius(result)
        if 0 < radius < np.inf:
            output.say(f"Moving each token by less than {format_down(radius, 2)} changes no argmax set at any layer.")
        from hardmax.draw.pages import POINTS, list_limit_points

        output.show(output.table("Limit points", *POINTS, rows=list_limit_points(result, output.MOST_ROWS)))
        output.say_written(files)
    if not result.certified:
        raise typer.Exit(1)
