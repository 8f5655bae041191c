"""`hardmax simulate`, `hardmax limit`, and `hardmax verify`, which checks theorems on a
simulation.
"""

from functools import partial
from typing import Annotated

import numpy as np
import typer

import hardmax as hm
from hardmax import HardmaxTrajectory, SelfAttention, SmoothTrajectory, draw
from hardmax._display import format_point
from hardmax._exact import format_down
from hardmax.cli import options, output
from hardmax.cli.check_certificate import ENDINGS, Certificate, write_certificate
from hardmax.cli.options import HardmaxOptions, RunOptions, option
from hardmax.draw.pages import POINTS, list_limit_points, trajectory_page
from hardmax.flows.classify import classify_rule
from hardmax.trajectories.limit import quick_radius
from hardmax.trajectories.storage import to_json

COLOURS = {
    "holds": "green",
    "fails": "bold red",
    "nothing to check": "dim",
}  # others are yellow
EXTRA_LAYERS = 12  # of a movie after the certified layer, to show the convergence
MAX_LAYERS = 100  # of a movie or page of a limit
LIMIT_ENDINGS = (*output.PICTURES, ".gif", ".mp4", ".json", ".csv", ".html")


@options.with_options
def simulate(
    run: RunOptions,
    k: Annotated[int | None, option("--layer", "Draw only this layer.")] = None,
    save: Annotated[
        str, option("--save", "Layers or times to keep: all or last.")
    ] = "all",
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Simulate tokens under a rule, layer by layer or in continuous time, and print
    leaders or clusters.

    --out writes a picture (.png, .svg, .pdf), a movie (.gif, .mp4), the whole
    trajectory (.npz, .json), a table of positions (.csv) or a page (.html). Exit code 1
    if the integration stops before the final time.
    """
    files = output.check_files(out, read=run.tokens)
    tokens = run.read_tokens(
        single=any(
            path.suffix.lower() not in (".npz", ".json", ".csv") for path in files
        )
    )
    rule = run.read_rule(tokens.shape[-1])
    is_drawn = not rule.continuous and any(
        path.suffix.lower() in output.PICTURES for path in files
    )
    options.check_needs(
        run.context,
        {
            "k": (
                "a rule that has layers, and a picture such as --out FILE.png",
                is_drawn,
            )
        },
    )
    with output.progress_bar("Times" if rule.continuous else "Layers") as progress:
        trajectory = run.simulate(tokens, rule, progress, save=save)
    page = (
        partial(trajectory_page, title=run.tokens)
        if run.rule == "hardmax"
        else draw.interactive
    )
    movie, plot = partial(draw.movie, trajectory), partial(trajectory.plot, k)
    output.write(
        files, trajectory, movie=movie, to_html=partial(page, trajectory), plot=plot
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
        _print_leaders(trajectory)
    elif isinstance(trajectory, SmoothTrajectory):
        _print_clusters(trajectory)
    output.say_written(files)
    if isinstance(trajectory, SmoothTrajectory) and trajectory.problem:
        raise typer.Exit(1)


def _print_leaders(trajectory: HardmaxTrajectory) -> None:
    """Print a table of the leaders; nothing if there is none."""
    rows = []
    for one in hm.leader_table(trajectory, most=output.MAX_ROWS):
        margin, followers = format_down(one.margin, 3), len(one.followers)
        rows.append(
            (
                str(one.index),
                format_point(one.position),
                str(one.emerged),
                margin,
                str(followers),
            )
        )
    name = "margin" if len(trajectory.saved) > 1 else "margin at the end"
    columns = ("token", "position", "since layer", name, "followers at the end")
    if rows:
        output.show_table("Leaders", *columns, rows=rows, total=len(trajectory.leaders))


def _print_clusters(trajectory: SmoothTrajectory) -> None:
    """Print a table of the final clusters and their leaders; nothing if every cluster
    is one token.
    """
    if trajectory.n > 1 and trajectory.clusters.max() + 1 >= trajectory.mask.sum():
        return
    where = "rescaled position" if trajectory.shows_rescaled else "position"
    if trajectory.gathering is not trajectory.drawn:
        where += " in the leading directions"
    labels, points = (
        trajectory.clusters,
        trajectory.gathering[max(trajectory.reached - 1, 0)],
    )
    sizes = np.bincount(labels[labels >= 0])
    rows = []
    for label in np.argsort(-sizes, kind="stable")[: output.MAX_ROWS]:
        members = np.flatnonzero(labels == label)
        lead = ", ".join(map(str, np.intersect1d(members, trajectory.leaders)[:6]))
        rows.append(
            (
                format_point(points[members].mean(axis=0)),
                str(len(members)),
                *([lead] if lead else []),
            )
        )
    columns = (where, "tokens", "led by token")[: 3 if len(trajectory.leaders) else 2]
    output.show_table("Clusters at the end", *columns, rows=rows, total=len(sizes))


@options.with_options
def limit(
    run: HardmaxOptions,
    max_layers: Annotated[
        int, option("--max-layers", "Maximum number of layers.")
    ] = 1000,
    json: options.Json = False,
    out: options.Out = None,
    certificate: Certificate = None,
) -> None:
    """Compute the limit of every token, with a certificate.

    --out writes a picture (.png, .svg, .pdf), a movie (.gif, .mp4), the result (.json),
    a table of limits (.csv) or a page (.html). Exit code 1 if the limit is not
    certified.
    """
    files = output.check_files(out, LIMIT_ENDINGS, read=run.tokens)
    output.check_files(
        [certificate] if certificate else [], ENDINGS, name="certificate"
    )
    tokens = run.read_tokens()
    rule = run.make_hardmax(tokens.shape[-1])
    with output.progress_bar("Decided tokens") as progress:
        result = hm.limit(
            tokens, rule, max_layers=max_layers, kernel=run.kernel, progress=progress
        )

    layers = min(result.layer, MAX_LAYERS)
    output.write(
        files,
        result,
        movie=lambda path, **more: draw.movie(
            hm.simulate(tokens, rule, layers=layers + EXTRA_LAYERS), path, **more
        ),
        to_html=lambda: trajectory_page(
            hm.simulate(tokens, rule, layers=max(30, layers)), run.tokens, result
        ),
    )
    if certificate is not None and result.certified:
        write_certificate(result, certificate)
        files.append(certificate)
    if json:
        print(result.to_json())
    else:
        output.say_status(result.status)
        radius = quick_radius(result)
        if 0 < radius < np.inf:
            output.say(
                f"Moving each token by less than {format_down(radius, 2)} changes no"
                " argmax set at any layer."
            )
        output.show_table(
            "Limit points", *POINTS, rows=list_limit_points(result, output.MAX_ROWS)
        )
        output.say_written(files)
    if not result.certified:
        raise typer.Exit(1)


@options.with_options
def verify(
    run: RunOptions, json: options.Json = False, out: options.Out = None
) -> None:
    """Check every lemma and theorem on a simulation.

    --out writes the verdicts (.json), a page with pictures (.html), or the simulation
    as a picture (.png, .svg, .pdf), a movie (.gif, .mp4), an archive (.npz) or a table
    of positions (.csv). Exit code 1 if a statement fails.
    """
    files = output.check_files(out, read=run.tokens)
    tokens = run.read_tokens()
    rule = run.read_rule(tokens.shape[-1])
    trajectory = run.simulate(tokens, rule)
    verdicts = hm.theorems.check(trajectory)
    text = to_json(
        "hardmax-verdicts-1", {"verdicts": [verdict.to_dict() for verdict in verdicts]}
    )
    page, movie = (
        partial(trajectory_page, trajectory, run.tokens),
        partial(draw.movie, trajectory),
    )
    output.write(files, trajectory, to_json=lambda: text, to_html=page, movie=movie)
    if json:
        print(text)
    else:
        output.say_status(trajectory.status)
        rows = []
        for verdict in (v for v in verdicts if v.applies):
            outcome = f"[{COLOURS.get(verdict.outcome, 'yellow')}]{verdict.outcome}[/]"
            rows.append(
                (
                    verdict.name,
                    outcome + (" (conjecture)" if verdict.conjecture else ""),
                    verdict.reason,
                )
            )
        if verdicts:
            output.show_table("Verdicts", "statement", "verdict", "reason", rows=rows)
        else:
            output.say(f"OPEN: no theorem covers {type(rule).__name__}.")
        if inapplicable := ", ".join(v.name for v in verdicts if not v.applies):
            output.say(
                "Not checked, because they require another spectrum of V:"
                f" {inapplicable}."
            )
        output.say_written(files)
    if any(verdict.holds is False and not verdict.conjecture for verdict in verdicts):
        raise typer.Exit(1)
