"""`hardmax sweep`: run, status, plot and resume from the command line."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed")
from distributed import Client, LocalCluster

from hardmax.cli.sweep import note_cluster, parse_grid, parse_values
from hardmax.scale import SweepTable
from hardmax.scale.executor import connect
from tests.processes import PATIENCE, ended, wait_for

OWN = """
import time
from beside import added

def cell(params, rng):
    time.sleep(params.get("rest", 0))
    row = {"y": added(params["x"], 1), "u": float(rng.random())}
    return row | {"kind": "odd" if params["x"] % 2 else "even"}

number = 3
"""


@pytest.fixture(scope="module")
def engine():
    with connect("local", 1) as client:
        yield client.scheduler.address


@pytest.fixture
def files(run) -> None:
    Path("my_cells.py").write_text(OWN)
    Path("beside.py").write_text("def added(a, b):\n    return a + b\n")


def test_values_are_lists_ranges_and_distributions() -> None:
    assert parse_values("1, 2.5,x,true,None", "a") == [1, 2.5, "x", True, None]
    assert np.allclose(parse_values("0.1:10:log:3", "a"), [0.1, 1, 10])
    assert parse_values("0:1:lin:5", "a") == [0, 0.25, 0.5, 0.75, 1]
    assert parse_values("1:100:log:3", "n", is_integer=True) == [1, 10, 100]
    drawn = parse_values("1:100:log", "n", is_integer=True).rvs(
        size=500, random_state=np.random.default_rng(0)
    )
    assert drawn.dtype.kind == "i"
    assert drawn.min() >= 1
    assert 5 < np.median(drawn) < 20
    assert (
        parse_values("0:1:lin", "a")
        .rvs(size=9, random_state=np.random.default_rng(0))
        .max()
        <= 1
    )
    assert parse_grid(["x=1,2", "my-name=a=b"], {}) == {"x": [1, 2], "my_name": ["a=b"]}
    assert parse_grid(["n=1:9:lin:4"], {"n": 100}) == {"n": [1, 4, 6, 9]}


@pytest.mark.slow
def test_a_sweep_of_leaders_is_run_and_plotted(run, engine) -> None:
    grid = ("--set", "alpha=0.1:1:log:2", "--set", "n=5,20", "--seeds", 3)
    code, out, err = run(
        "sweep", "leaders", *grid, "--engine", engine, "--out", "runs/leaders"
    )
    assert code == 0, err
    assert out.startswith(
        "12 of 12 cells of `leaders` have a row, 0 of them an error; "
    )
    assert "Plot it with: hardmax sweep plot runs/leaders" in out
    frame = SweepTable.open("runs/leaders").to_frame()
    assert sorted(frame["alpha"].unique()) == [0.1, 1.0]
    assert frame["seed"].tolist() == [0, 1, 2] * 4
    expected = {
        "out": "runs/leaders",
        "cells": 12,
        "rows": 12,
        "errors": {},
        "complete": True,
        "parts": 12,
    }
    assert json.loads(run("sweep", "status", "runs/leaders", "--json")[1]) == expected
    assert run("sweep", "plot", "runs/leaders")[1] == "Wrote runs/leaders/plot.png\n"
    assert Path("runs/leaders/plot.png").stat().st_size > 5000
    code, out, _ = run(
        "sweep",
        "plot",
        "runs/leaders",
        "--x",
        "n",
        "--y",
        "layer",
        "--by",
        "alpha",
        "--out",
        "p.svg",
    )
    assert (code, out) == (0, "Wrote p.svg\n")
    assert (
        "`--y` must be one of cell, d, tokens"
        in run("sweep", "plot", "runs/leaders", "--y", "leader")[2]
    )


def test_a_cluster_without_workers_is_noted(capsys) -> None:
    with (
        LocalCluster(
            n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        note_cluster(client)
        address, said = cluster.scheduler_address, capsys.readouterr().err
    assert "The cluster has no workers yet. Start one with: dask worker" in said
    assert said.endswith(f"{address} --nthreads 1\n")


def test_an_own_cell_runs_and_is_resumed(run, engine, files) -> None:
    code, _, err = run(
        "sweep",
        "my_cells.py:cell",
        "--set",
        "x=1,2,3,oops",
        "--engine",
        engine,
        "--out",
        "mine",
    )
    assert code == 0, err
    frame = SweepTable.open("mine").to_frame()
    assert frame["y"].tolist()[:3] == [2, 3, 4]
    _, out, _ = run("sweep", "status", "mine")
    assert "4 of 4 cells of `my_cells.py:cell` have a row, 1 of them an error" in out
    assert "1       TypeError: can only concatenate str" in out
    next(Path("mine").glob("part-*")).unlink()
    resume = ("sweep", "resume", "mine", "--engine", engine)
    own = ("--cell", "my_cells.py:cell")
    for options, sentence in (
        (
            (),
            (
                "`--cell` must be given for your own cell. Got none. Add --cell"
                " my_cells.py:cell"
            ),
        ),
        ((*own, "--workers", 2), "`--workers` must go with `--engine local`"),
    ):
        code, _, err = run(*resume, *options)
        assert (code, sentence in err) == (2, True), err
    code, out, err = run(*resume, *own)
    assert (code, out[:12]) == (0, "4 of 4 cells"), err
    again = SweepTable.open("mine").to_frame()
    pd.testing.assert_frame_equal(
        again.drop(columns="seconds"), frame.drop(columns="seconds")
    )
    Path("my_cells.py").write_text(OWN.replace("1)", "2)"))
    code, _, err = run(*resume, *own)
    assert (code, "Got one with another source." in err) == (2, True), err


def test_cells_are_drawn_at_random_and_texts_plotted_as_shares(
    run, engine, files
) -> None:
    values = ("--set", "x=1,2,3,4", "--samples", "20", "--engine", engine)
    code, _, err = run("sweep", "my_cells.py:cell", *values, "--out", "mine", "--json")
    assert code == 0, err
    assert (
        SweepTable.open("mine").to_frame()["u"].nunique() == 20
    )  # independent random numbers
    assert run("sweep", "plot", "mine", "--y", "kind")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["leaders", "--set", "n=0.5"], "`n` must be an integer. Got 0.5."),
        (
            ["leaders", "--set", "alpha=5:1:log:3"],
            "`alpha` must range from a smaller number",
        ),
        (
            ["leaders", "--set", "alpha=0.1:1:log:x"],
            "`alpha` must end in the number of values",
        ),
        (["leaders", "--set", "alpha=0.1:1:log"], "must be a list of values."),
        (
            ["leaders", "--set", "alpha"],
            "`--set` must be written as NAME=VALUES. Got 'alpha'.",
        ),
        (["leaders", "--set", "n=1", "--set", "n=2"], "`n` must be set once."),
        (
            ["leaders", "--alpha", "1"],
            "Got '--alpha'. Write parameters of a cell as --set NAME=VALUES.",
        ),
        (["leaders", "--engine", "nowhere"], '`--engine` must be "local"'),
        (
            ["leaders", "--time-limit", "0"],
            "`--time-limit` must be a positive finite number.",
        ),
        (["no_such.py:cell"], "must be an existing Python file"),
        (
            ["my_cells.py:no_such"],
            "must name a function of my_cells.py. Got 'no_such'. It has added, cell.",
        ),
    ],
)
def test_invalid_arguments_are_refused(run, files, arguments, sentence) -> None:
    code, out, err = run("sweep", *arguments, "--out", "out")
    assert (code, out) == (2, "")
    assert sentence in err
    assert not Path("out").exists()


def test_a_folder_without_a_sweep_is_refused(run) -> None:
    assert (
        "`nowhere` must be the folder of a sweep."
        in run("sweep", "status", "nowhere")[2]
    )
    Path("manifest.jsonl").write_text("{}\n")
    assert "must be the manifest of a sweep." in run("sweep", "status", ".")[2]
    assert "No such command" in run("sweep", "no_such")[2]


@pytest.mark.slow
def test_ctrl_c_keeps_finished_cells_and_prints_the_command_to_continue(
    run, engine, files
) -> None:
    values = f"x={','.join(map(str, range(30)))}"
    arguments = [
        "sweep",
        "my_cells.py:cell",
        "--set",
        values,
        "--set",
        "rest=0.2",
        "--workers",
        "2",
        "--out",
        "mine",
    ]
    command = [sys.executable, "-m", "hardmax.cli.main", *arguments]
    with ended(
        subprocess.Popen(
            command, start_new_session=True, stderr=subprocess.PIPE, text=True
        )
    ) as child:
        wait_for(
            lambda: list(Path("mine").glob("part-*")) and SweepTable.open("mine").rows,
            child,
        )
        os.killpg(
            child.pid, signal.SIGINT
        )  # as a terminal does: to all processes of the command
        said = child.communicate(timeout=PATIENCE)[1]
    assert child.returncode == 130
    assert said.endswith(
        "Stopped. Finished cells are kept. Continue with: hardmax sweep resume mine"
        " --cell my_cells.py:cell\n"
    )
    assert "Traceback" not in said
    assert 0 < SweepTable.open("mine").rows < 30
    assert (
        run(
            "sweep", "resume", "mine", "--cell", "my_cells.py:cell", "--engine", engine
        )[0]
        == 0
    )
    assert SweepTable.open("mine").to_frame()["y"].tolist() == list(range(1, 31))
