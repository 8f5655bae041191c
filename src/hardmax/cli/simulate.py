"""`hardmax simulate`."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax import HardmaxTrajectory, Limit, leader_table
from hardmax import simulate as run_simulation
from hardmax.cli import options, output
from hardmax.sentences import coordinates


def simulate(
    tokens: options.Input,
    layers: options.Layers = 30,
    alpha: options.Alpha = "0.5",
    A: options.A = None,
    n: options.N = None,
    d: options.D = None,
    seed: options.Seed = 0,
    cloud: options.Cloud = None,
    any_A: options.AnyA = False,
    exact: options.Exact = False,
    ties: options.Ties = "exact",
    normalize: options.Normalize = True,
    layer: Annotated[
        int | None, typer.Option("--layer", help="Draw this layer alone, not a row of them.", show_default=False)
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Run tokens through the layers of a hardmax transformer, and say who leads.

    --out writes a picture (.png, .svg, .pdf), a movie (.gif, .mp4), everything (.npz, .json) or a page (.html).
    """
    files = output.check_endings(out)
    single = any(path.suffix.lower() not in (".npz", ".json") for path in files)
    clouds = options.read_tokens(tokens, n=n, d=d, seed=seed, exact=exact, cloud=cloud, single=single)
    rule = options.read_rule(alpha, A, any_A=any_A, exact=exact, ties=ties, normalize=normalize)
    with output.progress_bar("Layers") as progress:
        trajectory = run_simulation(clouds, rule, layers=layers, progress=progress)
    for path in files:
        write(trajectory, path, tokens, layer)
    if json:
        print(trajectory.to_json())
        return
    output.say(trajectory.status)
    if not trajectory.batched and len(trajectory.leaders):
        output.console().print(leaders(trajectory))
    for path in files:
        output.say(f"Wrote {path}")


def leaders(trajectory: HardmaxTrajectory) -> object:
    """Who leads, since when, by what margin, and how many follow."""
    grid = output.table("Leaders", "token", "position", "since layer", "margin", "followers at the end")
    rows = leader_table(trajectory)
    for leader in rows[: output.MOST_ROWS]:
        followed = str(len(leader.followers))
        grid.add_row(
            str(leader.index), coordinates(leader.position), str(leader.emerged), f"{leader.margin:.3g}", followed
        )
    if len(rows) > output.MOST_ROWS:
        grid.add_row("...", f"and {len(rows) - output.MOST_ROWS} more", "", "", "")
    return grid


def write(trajectory: HardmaxTrajectory, path: Path, title: str, layer: int | None = None) -> None:
    """One file, by its ending."""
    ending = path.suffix.lower()
    if ending == ".npz":
        trajectory.to_npz(path)
    elif ending == ".json":
        output.save_text(trajectory.to_json(), path)
    elif ending in output.MOVIES:
        write_movie(trajectory, path)
    elif ending == ".html":
        write_page(trajectory, path, title)
    else:
        from hardmax.plotting import plot_layers, plot_tokens

        figure = plot_layers(trajectory) if layer is None else plot_tokens(trajectory, layer).figure
        output.save_figure(figure, path)


def write_movie(trajectory: HardmaxTrajectory, path: Path) -> None:
    """A movie, with a bar while it is drawn."""
    from hardmax.movies import movie

    with output.progress_bar("Frames") as progress:
        movie(trajectory, path, progress=progress)


def write_page(trajectory: HardmaxTrajectory, path: Path, title: str, end: Limit | None = None) -> None:
    """A page with pictures, limit and verdicts of one cloud."""
    from hardmax.report import Section, page

    section = Section.of(title, trajectory.status, trajectory, end)
    output.save_text(page(f"hardmax: {title}", f"{trajectory.rule!r}", [section]), path)
