"""The help of every command: its text is that of `help.txt`, and its examples run.

`HARDMAX_WRITE_HELP=1 pytest tests/end_to_end/test_help.py` writes `help.txt`.
"""

import os
import random
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import hardmax
from hardmax.cli.main import app

pytest.importorskip("sklearn")
pytest.importorskip("distributed")

SNAPSHOT = Path(__file__).with_name("help.txt")
SLOW = ("compile", "sweep", "demo")
PREPARATION = {  # files that examples need, and the command that makes them
    "my-model": "train reviews.csv --text review --label sentiment --out my-model",
    "triangle.json": "limit triangle --certificate triangle.json",
    "runs/leaders": "sweep leaders --set alpha=0.5 --set n=10 --out runs/leaders",
}


def list_commands(command=None, path=()):
    """Yield the arguments of every command and the command, groups first."""
    command = get_command(app) if command is None else command
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from list_commands(inner, (*path, name))


EPILOGS = [
    (command.epilog or "").removeprefix("Try: ") for _, command in list_commands()
]
LINES = sorted({line for text in EPILOGS for line in text.split(", then ") if line})


@pytest.fixture
def _files(run):
    """The files that the examples name, in the current folder."""
    draw, pools = (
        random.Random(0),
        (["awful", "dull", "poor"], ["great", "lovely", "fine"]),
    )
    rows = [
        f"The plot number {i} was {draw.choice(pools[i % 2])},{('neg', 'pos')[i % 2]}"
        for i in range(60)
    ]
    Path("reviews.csv").write_text("\n".join(["review,sentiment", *rows]))
    points = [f"{5 * (i % 3) + draw.gauss(0, 1)},{draw.gauss(0, 1)}" for i in range(60)]
    Path("points.csv").write_text("\n".join(["x,y", *points]))
    Path("my_cells.py").write_text(
        "def cell(params, rng):\n    return {'sum': params['x'] + params['y']}\n"
    )


def test_version_and_help_without_arguments(run):
    assert run("--version") == (0, f"hardmax {hardmax.__version__}\n", "")
    assert run()[1].strip() == run("--help")[1].strip()


def test_help_is_that_of_the_snapshot(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(
        "typer.rich_utils.FORCE_TERMINAL", None
    )  # no colours, also in continuous integration
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", None)
    parts = [f"Typer {typer.__version__}"]
    for arguments, _ in list_commands():
        code, out, err = run(*arguments, "--help")
        assert (code, err) == (0, "")
        lines = [
            line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
        ]
        parts.append(
            "\n".join(
                [
                    f"$ {' '.join(['hardmax', *arguments, '--help'])}",
                    *filter(None, lines),
                ]
            )
        )
    text = "\n\n".join(parts) + "\n"
    if os.environ.get("HARDMAX_WRITE_HELP"):
        SNAPSHOT.write_text(text, encoding="utf-8")
    written = SNAPSHOT.read_text(encoding="utf-8")
    if written.split("\n", 1)[0] != parts[0]:
        pytest.skip(
            f"help.txt was written with {written.splitlines()[0]}, whose layout may"
            " differ"
        )
    assert text == written


def test_every_command_has_an_example():
    names = {line.split()[1] for line in LINES}
    assert names == set(get_command(app).commands)


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            line, marks=[pytest.mark.slow] if line[8:].startswith(SLOW) else []
        )
        for line in LINES
        if not line.startswith("hardmax app")  # which does not end by itself
    ],
)
def test_example_runs(line, run):
    command = shlex.split(line)[1:]
    for name, earlier in PREPARATION.items():
        if name in command and command[:2] != earlier.split()[:2]:
            assert run(*earlier.split())[0] == 0
    code, _, err = run(*command)
    assert code == 0, err
    if "--out" in command:
        assert Path(command[command.index("--out") + 1]).exists()
