"""`hardmax simulate`."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hardmax import HardmaxTrajectory, Limit, SelfAttention, SmoothTrajectory, Trajectory, leader_table
from hardmax import simulate as run_simulation
from hardmax._errors import ParameterError
from hardmax.cli import options, output, rules
from hardmax.flows.spectrum import expectation_of
from hardmax.trajectories.sentences import coordinates


def simulate(
    context: typer.Context,
    tokens: options.Input,
    rule: rules.RuleName = "hardmax",
    layers: rules.Layers = rules.LAYERS,
    alpha: rules.Alpha = "0.5",
    A: rules.A = None,
    temperature: rules.Temperature = 1.0,
    Q: rules.Q = None,
    K: rules.K = None,
    V: rules.V = None,
    beta: rules.Beta = 9.0,
    unnormalized: rules.Unnormalized = False,
    time: rules.Time = None,
    method: rules.Method = "DOP853",
    dt: rules.Dt = None,
    rtol: rules.Rtol = None,
    max_steps: rules.MaxSteps = None,
    causal: rules.Causal = False,
    n: options.N = None,
    d: options.D = None,
    seed: options.Seed = 0,
    cloud: options.Cloud = None,
    any_A: rules.AnyA = False,
    exact: options.Exact = False,
    ties: rules.Ties = "exact",
    kernel: rules.Kernel = "auto",
    normalize: rules.Normalize = True,
    layer: Annotated[
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
    clouds = options.read_tokens(tokens, n=n, d=d, seed=seed, exact=exact, cloud=cloud, single=single)
    chosen = rules.read_rule(context, clouds.shape[-1])
    if chosen.continuous and layer is not None:
        raise ParameterError("--layer", "go with a rule that has layers", "it with a flow", "Use --time for the end.")
    with output.progress_bar("Times" if chosen.continuous else "Layers") as progress:
        run = rules.running(chosen, context.params, clouds.shape[-1])
        trajectory = run_simulation(clouds, chosen, **run, progress=progress)
    for path in files:
        write(trajectory, path, tokens, layer)
    if json:
        print(trajectory.to_json())
        return
    output.say(trajectory.status)
    if isinstance(chosen, SelfAttention):
        output.say(repr(expectation_of(chosen, clouds.shape[-1])))
    if not trajectory.batched and isinstance(trajectory, SmoothTrajectory):
        if trajectory.clusters.max() + 1 < trajectory.mask.sum() or trajectory.n == 1:  # else every token is alone
            output.console().print(clusters(trajectory))
    elif not trajectory.batched and len(trajectory.leaders):
        output.console().print(leaders(trajectory))
    if trajectory.batched:
        output.say("For the tokens of one cloud pass --cloud with its number.")
    for path in files:
        output.say(f"Wrote {path}")
    if isinstance(trajectory, SmoothTrajectory) and trajectory.problem:
        raise typer.Exit(1)


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


def clusters(trajectory: SmoothTrajectory) -> object:
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
    from hardmax.draw.report import trajectory_page

    output.save_text(trajectory_page(trajectory, title, end), path)


def write_smooth_page(trajectory: SmoothTrajectory, path: Path, title: str) -> None:
    """A page with pictures and verdicts of one cloud under a smooth rule."""
    from hardmax.draw.report import trajectory_page

    output.save_text(trajectory_page(trajectory, title), path)
