"""`hardmax simulate`."""

from typing import Annotated

import numpy as np
import typer

from hardmax import HardmaxTrajectory, SelfAttention, SmoothTrajectory, draw, leader_table
from hardmax._display import format_point
from hardmax._errors import ParameterError
from hardmax._exact import format_down
from hardmax.cli import options, output
from hardmax.cli.options import UNSAID, RunOptions, option
from hardmax.flows.classify import classify_rule


@options.with_options
def simulate(
    run: RunOptions,
    k: Annotated[int | None, option("--layer", "Draw only this layer.", **UNSAID)] = None,
    save: Annotated[str, option("--save", "Layers or times to keep: all or last.")] = "all",
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Simulate tokens under a rule, layer by layer or in continuous time, and print leaders or clusters.

    --out writes a picture (.png, .svg, .pdf), a movie (.gif, .mp4), the whole trajectory (.npz, .json), a table of
    positions (.csv) or a page (.html). Exit code 1 if the integration stops before the final time.
    """
    files = output.check_files(out, read=run.tokens)
    single = any(path.suffix.lower() not in (".npz", ".json", ".csv") for path in files)
    tokens = run.read_tokens(single=single)
    rule = run.read_rule(tokens.shape[-1])
    if rule.continuous and k is not None:
        raise ParameterError("k", "go with a rule that has layers", "it with a flow", "Use --time instead.")
    if k is not None and not any(path.suffix.lower() in output.PICTURES for path in files):
        raise ParameterError("k", "go with a picture in --out", "none", "Add --out FILE.png, or leave it out.")
    with output.progress_bar("Times" if rule.continuous else "Layers") as progress:
        trajectory = run.simulate(tokens, rule, progress, save=save)
    output.write(
        files,
        text=trajectory.to_json,
        archive=trajectory.to_npz,
        rows=trajectory.to_csv,
        film=lambda path, **more: draw.movie(trajectory, path, **more),
        page=lambda: (
            draw.trajectory_page(trajectory, run.tokens) if run.rule == "hardmax" else draw.interactive(trajectory)
        ),
        figure=lambda: draw.plot_layers(trajectory) if k is None else draw.plot_tokens(trajectory, k).figure,
    )
    if json:
        print(trajectory.to_json())
        return
    output.say_status(trajectory.status)
    if isinstance(rule, SelfAttention):
        output.say(f"Expected limit: {classify_rule(rule, tokens.shape[-1])!r}")
    if trajectory.batched:
        output.say("Use --batch-index to print the tokens of one token set.")
    elif isinstance(trajectory, HardmaxTrajectory):
        print_leaders(trajectory)
    elif isinstance(trajectory, SmoothTrajectory):
        print_clusters(trajectory)
    output.say_written(files)
    if isinstance(trajectory, SmoothTrajectory) and trajectory.problem:
        raise typer.Exit(1)


def print_leaders(trajectory: HardmaxTrajectory) -> None:
    """Print a table of the leaders; nothing if there is none."""
    rows = [
        (
            str(one.index),
            format_point(one.position),
            str(one.emerged),
            format_down(one.margin, 3),
            str(len(one.followers)),
        )
        for one in leader_table(trajectory, most=output.MOST_ROWS)
    ]
    margin = "margin" if len(trajectory.saved) > 1 else "margin at the end"
    columns = ("token", "position", "since layer", margin, "followers at the end")
    if rows:
        output.show(output.table("Leaders", *columns, rows=rows, total=len(trajectory.leaders)))


def print_clusters(trajectory: SmoothTrajectory) -> None:
    """Print a table of the final clusters and their leaders; nothing if every cluster is one token."""
    if trajectory.n > 1 and trajectory.clusters.max() + 1 >= trajectory.mask.sum():
        return
    where = "rescaled position" if trajectory.shows_rescaled else "position"
    if trajectory.gathering is not trajectory.drawn:
        where += " in the leading directions"
    labels, points = trajectory.clusters, trajectory.gathering[max(trajectory.reached - 1, 0)]
    sizes = np.bincount(labels[labels >= 0])
    rows = []
    for label in np.argsort(-sizes, kind="stable")[: output.MOST_ROWS]:
        members = np.flatnonzero(labels == label)
        lead = ", ".join(map(str, np.intersect1d(members, trajectory.leaders)[:6]))
        rows.append((format_point(points[members].mean(axis=0)), str(len(members)), *([lead] if lead else [])))
    columns = (where, "tokens", "led by token")[: 3 if len(trajectory.leaders) else 2]
    output.show(output.table("Clusters at the end", *columns, rows=rows, total=len(sizes)))
