"""`hardmax verify`."""

import json as json_format

import typer

from hardmax import simulate, theorems
from hardmax.cli import options, output
from hardmax.cli.simulate import write

COLOURS = {
    "holds": "green",
    "fails": "bold red",
    "hypotheses not met": "yellow",
    "undecided": "yellow",
    "nothing to check": "dim",
}


def verify(
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
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Test every lemma and theorem on a simulation. Exit code 1 when one fails.

    --out writes the verdicts (.json), a page with pictures (.html), or the simulation as a picture (.png, .svg, .pdf),
    a movie (.gif, .mp4) or an archive (.npz).
    """
    files = output.check_endings(out)
    points_in = options.read_tokens(tokens, n=n, d=d, seed=seed, exact=exact, cloud=cloud, single=True)
    rule = options.read_rule(alpha, A, any_A=any_A, exact=exact, ties=ties, normalize=normalize)
    trajectory = simulate(points_in, rule, layers=layers)
    verdicts = theorems.check(trajectory)
    text = json_format.dumps([verdict.to_dict() for verdict in verdicts], allow_nan=False)
    for path in files:
        if path.suffix.lower() == ".json":
            output.save_text(text, path)
        else:
            write(trajectory, path, tokens)
    if json:
        print(text)
    else:
        output.say(trajectory.status)
        grid = output.table("Verdicts", "statement", "verdict", "found")
        for verdict in verdicts:
            grid.add_row(verdict.name, f"[{COLOURS[verdict.outcome]}]{verdict.outcome}[/]", verdict.reason)
        output.console().print(grid)
        for path in files:
            output.say(f"Wrote {path}")
    if any(verdict.holds is False for verdict in verdicts):
        raise typer.Exit(1)
