"""`hardmax verify`."""

import json as json_format

import typer

from hardmax import SelfAttention, SmoothTrajectory, simulate, theorems
from hardmax.cli import options, output, rules
from hardmax.cli.simulate import write, write_smooth_page

COLOURS = {
    "holds": "green",
    "fails": "bold red",
    "hypotheses not met": "yellow",
    "undecided": "yellow",
    "nothing to check": "dim",
}


def verify(
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
    normalize: rules.Normalize = True,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Test every lemma and theorem on a simulation. Exit code 1 when one fails.

    --out writes the verdicts (.json), a page with pictures (.html), or the simulation as a picture (.png, .svg, .pdf),
    a movie (.gif, .mp4) or an archive (.npz).
    """
    files = output.check_endings(out)
    points_in = options.read_tokens(tokens, n=n, d=d, seed=seed, exact=exact, cloud=cloud, single=True)
    chosen = rules.read_rule(context, points_in.shape[-1])
    trajectory = simulate(points_in, chosen, **rules.running(chosen, context.params, points_in.shape[-1]))
    verdicts = theorems.check(trajectory)
    text = json_format.dumps([verdict.to_dict() for verdict in verdicts], allow_nan=False)
    for path in files:
        if path.suffix.lower() == ".json":
            output.save_text(text, path)
        elif path.suffix.lower() == ".html" and isinstance(trajectory, SmoothTrajectory):
            write_smooth_page(trajectory, path, tokens)
        else:
            write(trajectory, path, tokens)
    if json:
        print(text)
    else:
        output.say(trajectory.status)
        grid = output.table("Verdicts", "statement", "verdict", "found")
        of_others = [v for v in verdicts if not v.applies]
        for verdict in (v for v in verdicts if v.applies):
            outcome = f"[{COLOURS[verdict.outcome]}]{verdict.outcome}[/]"
            grid.add_row(verdict.name, outcome + (" (conjecture)" if verdict.conjecture else ""), verdict.reason)
        if verdicts:
            output.console().print(grid)
        else:
            output.say(f"OPEN: no theorem speaks of {type(chosen).__name__}.")
        if isinstance(chosen, SelfAttention):
            output.say("Limits are tested at lambda t = 15, 30 or 60, from the same tokens by DOP853.")
        if of_others:
            output.say(f"For other spectra of V: {', '.join(v.name for v in of_others)}.")
        for path in files:
            output.say(f"Wrote {path}")
    if any(verdict.holds is False and not verdict.conjecture for verdict in verdicts):
        raise typer.Exit(1)
