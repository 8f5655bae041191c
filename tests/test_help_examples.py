"""Every example line of every `--help` runs."""

import random
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from hardmax.cli.main import app

pytest.importorskip("sklearn")
pytest.importorskip("distributed")

ELSEWHERE = ("hardmax app",)  # it does not end by itself
SLOW = ("compile", "sweep", "demo")
EARLIER = {  # what other examples need, and the command that makes it
    "my-model": "train reviews.csv --text review --label sentiment --out my-model",
    "runs/leaders": "sweep leaders --alpha 0.5 --n 10 --out runs/leaders",
}
CELL = "def cell(params, rng):\n    return {'sum': params['x'] + params['y']}\n"


def examples(command=None, path=("hardmax",)):
    """Yield the example lines of a command and of its subcommands."""
    command = get_command(app) if command is None else command
    if command.epilog:
        yield from command.epilog.removeprefix("Try: ").split(", then ")
    for name, inner in getattr(command, "commands", {}).items():
        yield from examples(inner, (*path, name))


LINES = sorted({line for line in examples() if not line.startswith(ELSEWHERE)})


def words(seed):
    """Return a sentence that says good or bad, and which of the two."""
    choose = random.Random(seed)
    good = bool(seed % 2)
    pool = ["great", "lovely", "fine"] if good else ["awful", "dull", "poor"]
    return (
        f"The {choose.choice(['plot', 'cast', 'end'])} number {seed} was {choose.choice(pool)}",
        "pos" if good else "neg",
    )


def make_files():
    """Write the files that the examples name into the current folder."""
    rows = [words(seed) for seed in range(60)]
    review = "\n".join(f"{text},{label}" for text, label in rows)
    Path("reviews.csv").write_text(f"review,sentiment\n{review}\n")
    comment = "\n".join(text for text, _ in rows)
    Path("comments.csv").write_text(f"comment\n{comment}\n")
    draw = random.Random(0)
    points = "\n".join(f"{5 * (i % 3) + draw.gauss(0, 1)},{draw.gauss(0, 1)}" for i in range(60))
    Path("points.csv").write_text(f"x,y\n{points}\n")
    Path("my_cells.py").write_text(CELL)


def test_every_command_has_an_example():
    names = {tuple(shlex.split(line))[1] for line in examples()}
    assert names >= set(get_command(app).commands) - {"sweep"}
    assert any(line.startswith("hardmax sweep") for line in LINES)


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[pytest.mark.slow] if line[8:].startswith(SLOW) else []) for line in LINES]
)
def test_example_runs(line, run):
    make_files()
    command = shlex.split(line)[1:]
    for name, earlier in EARLIER.items():
        if name in command and command[:2] != earlier.split()[:2]:
            assert run(*earlier.split())[0] == 0
    code, _, err = run(*command)
    assert code == 0, err
    if "--out" in command:
        assert Path(command[command.index("--out") + 1]).exists()
