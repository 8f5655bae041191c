"""Errors of commands: exit codes, the option that an error names, and nothing written."""

import inspect
import io
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import hardmax as hm
from hardmax.cli.cluster import cluster
from hardmax.cli.control import control
from hardmax.cli.main import main
from hardmax.cli.simulate import limit, simulate


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "an empty file"),
        ("x,y\n1,2\n3,four\n", "'four' in line 3, column 2"),
        ("1,2\n3\n", "1 in line 2"),
        ("1,nan\n2,3\n", "nan at index (0, 1)"),
        ("1,inf\n", "inf"),
        ("1,1/0\n", "'1/0' in line 1, column 2"),
        ("1,1e-999999999\n", "'1e-999999999' in line 1, column 2"),
        ("a,b\nc,d\n", "'c' in line 2, column 1"),
        ("x,y\n", "a header or text alone"),
        ("1,2,\n3,4,\n", "an empty cell in line 1, column 3"),
        ("1,5;2,5\n", "'1,5' in line 1, column 1"),
    ],
)
def test_an_invalid_csv_is_refused_with_the_place(run, text: str, place: str) -> None:
    Path("bad.csv").write_text(text)
    code, out, err = run("simulate", "bad.csv", "--out", "never.png")
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert f"Got {place}" in err
    assert not Path("never.png").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("simulate Trangle", "Did you mean 'triangle'?"),
        ("simulate triangle --rule self-atention", "Did you mean 'self-attention'?"),
        ("reproduce polytop", "Did you mean 'polytope'?"),
        ("simulate missing.csv", "`missing.csv` must be a file"),
        ("limit 1,2.csv", "`1,2.csv` must be a file"),
        ("limit junk.npy", "`junk.npy` must"),
        ("limit bytes.csv", "`bytes.csv` must"),
        ("simulate triangle --alpha big", "`--alpha` must"),
        ("simulate triangle --n 4", "`--n` and `--d` must go with gaussian"),
        ("simulate triangle --out run.doc", "`--out` must end"),
        ("limit triangle --out end.npz", ".json"),
        ("simulate triangle --layer 2 --out x.csv", "`--layer` must go with"),
        ("simulate triangle --layer 99 --out x.png", "`--layer` must be a saved layer"),
        ("limit triangle --A saddle.csv", "Pass `--any-A`"),
        ("limit triangle --batch-index 1", "`--batch-index` must go with a batch"),
        ("verify batch.npy --batch-index 7", "`--batch-index` must"),
        ("simulate batch.npy --out a.npz --out b.png", "`--batch-index` must"),
        (
            "simulate gaussian --rule sphere --alpha 3",
            "`--alpha` must go with --rule hardmax or softmax",
        ),
        (
            "simulate gaussian --rule sphere --no-normalize",
            "`--no-normalize` must go with --rule hardmax or softmax",
        ),
        (
            "simulate gaussian --rule self-attention --V paper-3d",
            "`--V` must have the size of the tokens",
        ),
        ("simulate gaussian --rule self-attention --method rk4", "needs `--dt`"),
        ("simulate 1,0;0,0 --rule sphere", "`TOKENS` must"),
        ("simulate 1,2;3", "Got 1 in row 2, 2 before it."),
        ("reproduce polytope --format gif", "use hardmax simulate with --out FILE.gif"),
        ("demo --out report.csv", "`--out` must end in .html"),
        ("control ball --leaders 0,x", "`--leaders` must"),
        ("control ball --followers 7:0", "`--leaders` must be given for --followers"),
        ("control ball --leaders 0 --followers 7", "`--followers` must be pairs"),
        (
            "control ball --leaders 0,3 --followers 7:0,7:3",
            "`--followers` must give each token one leader",
        ),
        (
            "control ball --leaders 0 --limit --only",
            "`--limit` must go without --only, --prefer and --margin",
        ),
        ("control ball --leaders 0 --alpha 0.1,0.5", "`--alpha` must be one step size"),
        ("control ball --attempts 4", "`--attempts` must go with --only"),
        (
            "control ball --leaders 3 --evaluations 4",
            "`--evaluations` must go with --limit",
        ),
        (
            "control ball --leaders 3 --margin 0.1",
            "`--margin` must go with --prefer identity",
        ),
    ],
)
def test_invalid_input_names_the_option_and_writes_nothing(
    run, arguments: str, named: str
) -> None:
    Path("saddle.csv").write_text("1,2\n2,1\n")
    Path("junk.npy").write_bytes(b"\x93NUMPY but not really")
    Path("bytes.csv").write_bytes(b"\xff\xfe\x00")
    np.save("batch.npy", np.random.default_rng(0).normal(size=(3, 5, 2)))
    before = sorted(Path().iterdir())
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert named in err
    assert "Traceback" not in err
    assert sorted(Path().iterdir()) == before


NUMBERS = [
    (command.__name__, (*settings[0].param_decls, settings[0].default)[0])
    for command in (simulate, limit, control, cluster)
    for parameter in inspect.signature(command, eval_str=True).parameters.values()
    for kind, *settings in [get_args(parameter.annotation) or (None,)]
    if settings
    and hasattr(settings[0], "param_decls")
    and kind in (int, float, int | None, float | None)
]


@pytest.mark.parametrize(("command", "option"), NUMBERS)
def test_an_invalid_number_names_its_option(run, command: str, option: str) -> None:
    rules = {"--temperature": "softmax", "--beta": "sphere"}
    of_flows = ("--time", "--dt", "--rtol", "--max-steps")
    rule = rules.get(option, "self-attention" if option in of_flows else "hardmax")
    more = (
        ["--rule", rule]
        if command == "simulate"
        else ["--leaders", "3"]
        if command == "control"
        else []
    )
    code, _, err = run(command, "ball", *more, option, "-1e400")
    assert code == 2
    assert option in err


COMMANDS = ("limit triangle", "verify triangle", "control ball --only")
UNWRITABLE = [
    (command, name, "file")
    for command in COMMANDS
    for name in ("file/x.png", "folder.png")
]
UNWRITABLE += [
    ("demo", "file", "folder"),
    ("reproduce", "file", "folder"),
    ("reproduce", "file/more", "folder"),
]


@pytest.mark.parametrize(("command", "name", "kind"), UNWRITABLE)
def test_output_that_cannot_be_written_is_refused_before_the_work(
    run, monkeypatch, command, name, kind
) -> None:
    Path("file").touch()
    Path("folder.png").mkdir()
    for work in ("cli.options.TokenOptions.read_tokens", "figures.demo.demo"):
        monkeypatch.setattr(
            f"hardmax.{work}", lambda *_, **__: pytest.fail("work was done")
        )
    code, out, err = run(*command.split(), "--out", name)
    assert (code, out) == (2, "")
    assert f"`{name}` must be a {kind} that can be written" in err


@pytest.mark.parametrize("command", ["simulate", "limit", "verify", "cluster"])
def test_the_input_file_is_not_replaced(run, command) -> None:
    Path("in.csv").write_text("0,1\n1,0\n")
    code, _, err = run(command, "in.csv", "--out", "./in.csv")
    assert code == 2
    assert "`--out` must differ from the input file" in err
    assert Path("in.csv").read_text() == "0,1\n1,0\n"


@pytest.mark.parametrize(
    "arguments", ["dance", "simulate", "simulate triangle --speed 9"]
)
def test_unknown_commands_and_options_have_exit_code_2(run, arguments: str) -> None:
    assert run(*arguments.split())[0] == 2


def fail_with(monkeypatch, error: BaseException) -> None:
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("hardmax.cli.options.simulate", fail)


@pytest.mark.parametrize(
    "bug", [ValueError("Unseen."), AssertionError(), ImportError("Unseen.")]
)
def test_a_bug_has_exit_code_70_and_a_traceback(run, monkeypatch, bug) -> None:
    fail_with(monkeypatch, bug)
    code, out, err = run("simulate", "triangle", "--alpha", "1/2")
    assert (code, out) == (70, "")
    assert err.startswith("Traceback (most recent call last):")
    assert type(bug).__name__ in err
    assert f"a bug in hardmax {hm.__version__}" in err
    assert err.endswith("the command: hardmax simulate triangle --alpha 1/2\n")


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            hm.InputError("Tokens must move. Use `alpha=1`."),
            "Tokens must move. Use `--alpha 1`.",
        ),
        (
            hm.MissingExtra("`exact=True`", "python-flint", "exact"),
            "`--exact` needs python-flint: pip install",
        ),
        (
            PermissionError(13, "Permission denied", "a.csv"),
            "Permission denied: 'a.csv'",
        ),
        (MemoryError("Unable to allocate 8 TiB."), "Unable to allocate 8 TiB."),
        (MemoryError(), "Not enough memory."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_expected_error_is_one_message_with_exit_code_2(
    run, monkeypatch, problem, message
) -> None:
    fail_with(monkeypatch, problem)
    code, out, err = run("simulate", "triangle")
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert message in err
    assert "Traceback" not in err


def test_an_interrupted_command_has_exit_code_130(run, monkeypatch) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    assert run("simulate", "triangle")[0] == 130


def test_a_closed_output_pipe_has_exit_code_141() -> None:
    command = [
        "-m",
        "hardmax.cli.main",
        "simulate",
        "gaussian",
        "--n",
        "2000",
        "--layers",
        "3",
        "--json",
    ]
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait() == 141
        assert process.stderr.read() == b""


def test_characters_that_a_terminal_cannot_encode_become_question_marks(
    tmp_path, monkeypatch
) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert main(["limit", "triangle", "--out", str(tmp_path / "caf\u00e9.csv")]) == 0
    assert main(["limit", "caf\u00e9"]) == 2
    for stream, shown in ((sys.stdout, b"caf?.csv\n"), (sys.stderr, b"'caf?'")):
        stream.flush()
        assert shown in stream.buffer.getvalue()
