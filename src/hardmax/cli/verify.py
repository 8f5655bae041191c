"""`hardmax verify`."""

import json as json_format

import typer

from hardmax import draw, theorems
from hardmax.cli import options, output
from hardmax.cli.options import RunOptions

COLOURS = {
    "holds": "green",
    "fails": "bold red",
    "hypotheses not met": "yellow",
    "undecided": "yellow",
    "nothing to check": "dim",
}


@options.with_options
def verify(run: RunOptions, json: options.Json = False, out: options.Out = None) -> None:
    """Check every lemma and theorem on a simulation.

    --out writes the verdicts (.json), a page with pictures (.html), or the simulation as a picture (.png, .svg, .pdf),
    a movie (.gif, .mp4), an archive (.npz) or a table of positions (.csv). Exit code 1 if a statement fails.
    """
    files = output.check_files(out, read=run.tokens)
    tokens = run.read_tokens()
    rule = run.read_rule(tokens.shape[-1])
    trajectory = run.simulate(tokens, rule)
    verdicts = theorems.check(trajectory)
    text = json_format.dumps([verdict.to_dict() for verdict in verdicts], allow_nan=False)
    output.write(
        files,
        text=lambda: text,
        archive=trajectory.to_npz,
        rows=trajectory.to_csv,
        film=lambda path, **more: draw.movie(trajectory, path, **more),
        page=lambda: draw.trajectory_page(trajectory, run.tokens),
        figure=lambda: draw.plot_layers(trajectory),
    )
    if json:
        print(text)
    else:
        output.say_status(trajectory.status)
        grid = output.table("Verdicts", "statement", "verdict", "reason")
        inapplicable = [v for v in verdicts if not v.applies]
        for verdict in (v for v in verdicts if v.applies):
            outcome = f"[{COLOURS[verdict.outcome]}]{verdict.outcome}[/]"
            grid.add_row(verdict.name, outcome + (" (conjecture)" if verdict.conjecture else ""), verdict.reason)
        if verdicts:
            output.show(grid)
        else:
            output.say(f"OPEN: no theorem covers {type(rule).__name__}.")
        if inapplicable:
            output.say(
                f"Not checked, because they require another spectrum of V: {', '.join(v.name for v in inapplicable)}."
            )
        output.say_written(files)
    if any(verdict.holds is False and not verdict.conjecture for verdict in verdicts):
        raise typer.Exit(1)
