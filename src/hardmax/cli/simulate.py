"""`hardmax simulate`."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from hardmax import HardmaxTrajectory, Limit, SelfAttention, SmoothTrajectory, Trajectory, leader_table
from hardmax._errors import ParameterError
from hardmax.cli import options, output
from hardmax.cli.rules import RunOptions
from hardmax.flows.spectrum import expectation_of
from hardmax.trajectories.sentences import coordinates


@options.with_options
def simulate(
    run: RunOptions,
    k: Annotated[
        int | None, typer.Option("--layer", help="Draw this layer alone, not a row of them.", show_default=False)
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Run tokens under a rule, by layers or in time, and say who leads and who gathers.

    --out writes a picture (.png, .svg, .pdf), a movie (.gif, .mp4), everything (.npz, .json) or a page (.html).
    """
    files = output.check_endings(out)
    single = any(path.suffix.lower() not in (".npz", ".json") for path in files)
    tokens = run.read_tokens(single=single, exact=run.exact)
    rule = run.read_rule(tokens.shape[-1])
    if rule.continuous and k is not None:
        raise ParameterError("k", "go with a rule that has layers", "it with a flow", "Use --time for the end.")
    with output.progress_bar("Times" if rule.continuous else "Layers") as progress:
        trajectory = run.simulate(tokens, rule, progress)
    for path in files:
        write(trajectory, path, run.tokens, k)
    if json:
        print(trajectory.to_json())
        return
    output.say_status(trajectory.status)
    if isinstance(rule, SelfAttention):
        output.say(repr(expectation_of(rule, tokens.shape[-1])))
    if trajectory.batched:
        output.say("For the tokens of one cloud pass --cloud with its number.")
    elif isinstance(trajectory, SmoothTrajectory):
        if trajectory.clusters.max() + 1 < trajectory.mask.sum() or trajectory.n == 1:  # else every token is alone
            output.console().print(clusters(trajectory))
    elif isinstance(trajectory, HardmaxTrajectory) and len(trajectory.leaders):
        output.console().print(leaders(trajectory))
    output.say_written(files)
    if isinstance(trajectory, SmoothTrajectory) and trajectory.problem:
        raise typer.Exit(1)


def leaders(trajectory: HardmaxTrajectory) -> Table:
    """Who leads, since when, by what margin, and how many follow."""
    grid = output.table("Leaders", "token", "position", "since layer", "margin", "followers at the end")
    rows = leader_table(trajectory)
    for leader in rows[: output.MOST_ROWS]:
        where, followers = coordinates(leader.position), str(len(leader.followers))
        grid.add_row(str(leader.index), where, str(leader.emerged), f"{leader.margin:.3g}", followers)
    if len(rows) > output.MOST_ROWS:
        grid.add_row("...", f"and {len(rows) - output.MOST_ROWS} more", "", "", "")
    return grid


def clusters(trajectory: SmoothTrajectory) -> Table:
    """Who is together at the end, and who leads there."""
    what = "rescaled position" if trajectory.shows_rescaled else "position"
    if trajectory.gathering is not trajectory.drawn:
        what += " in the leading directions"
    grid = output.table("Clusters at the end", what, "how many tokens", "led by token")
    labels, points = trajectory.clusters, trajectory.gathering[max(trajectory.reached - 1, 0)]
    sizes = np.bincount(labels[labels >= 0])
    order = np.argsort(-sizes, kind="stable")
    for label in order[: output.MOST_ROWS].tolist():
        members = np.flatnonzero(labels == label)
        lead = ", ".join(map(str, np.intersect1d(members, trajectory.leaders)[:6]))
        grid.add_row(coordinates(points[members].mean(axis=0)), str(len(members)), lead)
    if len(order) > output.MOST_ROWS:
        grid.add_row(f"... and {len(order) - output.MOST_ROWS} more", "", "")
    return grid


def write(trajectory: Trajectory, path: Path, title: str, layer: int | None = None) -> None:
    """One file, by its ending."""
    ending = path.suffix.lower()
    if ending == ".npz":
        trajectory.to_npz(path)
    elif ending == ".json":
        output.save_text(trajectory.to_json(), path)
    elif ending in output.MOVIES:
        write_movie(trajectory, path)
    elif ending == ".html" and isinstance(trajectory, HardmaxTrajectory):
        write_page(trajectory, path, title)
    elif ending == ".html":
        from hardmax.draw.pages import interactive

        interactive(trajectory, path)
    else:
        from hardmax.draw.tokens import plot_layers, plot_tokens

        figure = plot_layers(trajectory) if layer is None else plot_tokens(trajectory, layer).figure
        output.save_figure(figure, path)


def write_movie(trajectory: Trajectory, path: Path) -> None:
    """A movie, with a bar while it is drawn."""
    from hardmax.draw.movies import movie

    with output.progress_bar("Frames") as progress:
        movie(trajectory, path, progress=progress)


def write_page(trajectory: HardmaxTrajectory, path: Path, title: str, end: Limit | None = None) -> None:
    """A page with pictures, limit and verdicts of one cloud."""
    from hardmax.draw.report import Section, page

    section = Section.of(title, trajectory.status, trajectory, end)
    output.save_text(page(f"hardmax: {title}", f"{trajectory.rule!r}", [section]), path)


def write_smooth_page(trajectory: SmoothTrajectory, path: Path, title: str) -> None:
    """A page with pictures and verdicts of one cloud under a smooth rule."""
    from hardmax.draw.report import SmoothSection, page

    output.save_text(page(f"hardmax: {title}", f"{trajectory.rule!r}", [SmoothSection(title, trajectory)]), path)
