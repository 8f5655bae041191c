"""`hardmax sweep`: from a grid on the command line to a table, a picture, and on after a stop."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")
from distributed import Client, LocalCluster

from hardmax.cli.sweep import say_cluster
from hardmax.cli.sweep_values import parameters_of, values_of
from hardmax.scale import Sweep
from hardmax.scale.engine import connected
from tests.processes import PATIENCE, ended, wait_for

OWN = """
import time
from beside import added

def cell(params, rng):
    time.sleep(params.get("rest", 0))
    return {"y": added(params["x"], 1), "kind": "odd" if params["x"] % 2 else "even"}

number = 3
"""


@pytest.fixture(scope="module")
def engine():
    with connected("local", 2) as client:
        yield client.scheduler.address


@pytest.fixture
def files(run) -> None:
    Path("my_cells.py").write_text(OWN)
    Path("beside.py").write_text("def added(a, b):\n    return a + b\n")


def test_values_are_lists_ranges_and_distributions() -> None:
    assert values_of("1, 2.5,x,true,None", "a") == [1, 2.5, "x", True, None]
    assert np.allclose(values_of("0.1:10:log:3", "a"), [0.1, 1, 10])
    assert values_of("0:1:lin:5", "a") == [0, 0.25, 0.5, 0.75, 1]
    assert values_of("1:100:log:3", "n", whole=True) == [1, 10, 100]
    drawn = values_of("1:100:log", "n", whole=True).rvs(size=500, random_state=np.random.default_rng(0))
    assert drawn.dtype.kind == "i"
    assert drawn.min() >= 1
    assert 5 < np.median(drawn) < 20
    assert values_of("0:1:lin", "a").rvs(size=9, random_state=np.random.default_rng(0)).max() <= 1
    assert parameters_of(["--x", "1,2", "--my-name=a"]) == {"x": [1, 2], "my_name": ["a"]}


@pytest.mark.slow
def test_a_sweep_of_leaders_is_told_shown_and_drawn(run, engine) -> None:
    grid = ("--alpha", "0.1:1:log:2", "--n", "5,20", "--seeds", 3)
    code, out, err = run("sweep", "leaders", *grid, "--engine", engine, "--out", "runs/leaders")
    assert code == 0, err
    assert out.startswith("12 of 12 cells of `leaders` have a row, 0 of them an error; ")
    assert "Draw it with: hardmax sweep plot runs/leaders" in out
    frame = Sweep.open("runs/leaders").to_frame()
    assert sorted(frame["alpha"].unique()) == [0.1, 1.0]
    assert frame["seed"].tolist() == [0, 1, 2] * 4
    code, out, _ = run("sweep", "status", "runs/leaders", "--json")
    assert json.loads(out) | {"parts": 0} == {
        "out": "runs/leaders",
        "cells": 12,
        "rows": 12,
        "errors": {},
        "complete": True,
        "parts": 0,
    }
    assert run("sweep", "plot", "runs/leaders")[1] == "Wrote runs/leaders/plot.png\n"
    assert Path("runs/leaders/plot.png").stat().st_size > 5000
    code, out, _ = run("sweep", "plot", "runs/leaders", "--x", "n", "--y", "layer", "--by", "alpha", "--out", "p.svg")
    assert (code, out) == (0, "Wrote p.svg\n")
    assert "`--y` must be one of cell, d, tokens" in run("sweep", "plot", "runs/leaders", "--y", "leader")[2]


def test_it_says_when_there_is_no_worker_yet(capsys) -> None:
    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        say_cluster(client)
        address, said = cluster.scheduler_address, capsys.readouterr().err
    assert "There is no worker yet, and the work waits for one. Such as: dask worker" in said
    assert said.endswith(f"{address} --nthreads 1\n")


def test_a_cell_of_ones_own_runs_and_is_resumed(run, engine, files) -> None:
    code, _, err = run("sweep", "my_cells.py:cell", "--x", "1,2,3,oops", "--engine", engine, "--out", "mine")
    assert code == 0, err
    frame = Sweep.open("mine").to_frame()
    assert frame["y"].tolist()[:3] == [2, 3, 4]
    _, out, _ = run("sweep", "status", "mine")
    assert "4 of 4 cells of `my_cells.py:cell` have a row, 1 of them an error" in out
    assert "1       TypeError: can only concatenate str" in out
    next(Path("mine").glob("part-*")).unlink()
    code, _, err = run("sweep", "resume", "mine", "--engine", engine)
    assert code == 2
    assert "`--cell` must be given for a cell of your own. Got none. Add --cell my_cells.py:cell" in err
    code, _, err = run("sweep", "resume", "mine", "--cell", "my_cells.py:cell", "--engine", engine, "--workers", 2)
    assert code == 2
    assert "`--workers` must go with `--engine local`" in err
    code, out, err = run("sweep", "resume", "mine", "--cell", "my_cells.py:cell", "--engine", engine)
    assert (code, out[:12]) == (0, "4 of 4 cells"), err
    assert Sweep.open("mine").to_frame()["y"].tolist()[:3] == [2, 3, 4]
    Path("my_cells.py").write_text(OWN.replace("1)", "2)"))
    code, _, err = run("sweep", "resume", "mine", "--cell", "my_cells.py:cell", "--engine", engine)
    assert code == 2
    assert "must be empty, or hold the same sweep. Got one with another source." in err


def test_cells_are_drawn_at_random_and_texts_as_shares(run, engine, files) -> None:
    values = ("--x", "1,2,3,4", "--samples", "20", "--engine", engine)
    code, _, err = run("sweep", "my_cells.py:cell", *values, "--out", "mine", "--json")
    assert code == 0, err
    assert Sweep.open("mine").rows == 20
    assert run("sweep", "plot", "mine", "--y", "kind")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["leaders", "--n", "0.5"], "`--n` must be a whole number. Got 0.5."),
        (["leaders", "--alpha", "5:1:log:3"], "`--alpha` must go from a smaller number to a larger one"),
        (["leaders", "--alpha", "a:1:log:3"], "`--alpha` must go from a number to a number. Got 'a:1:log:3'."),
        (["leaders", "--alpha", "0.1:1:log:x"], "`--alpha` must end in how many values there are, at least 2."),
        (["leaders", "--alpha", "0.1:1:log"], "must be a list of values."),
        (["leaders", "--engine", "nowhere"], '`--engine` must be "local", an address such as "tcp://host:8786"'),
        (["leaders", "--time-limit", "0"], "`--time-limit` must be a positive finite number. Got 0.0."),
        (["no_such.py:cell"], "must be a Python file that exists, a colon, and a function. Got 'no_such.py:cell'."),
        (["my_cells.py:no_such"], "must name a function of my_cells.py. Got 'no_such'. It has added, cell."),
        (["my_cells.py:cell", "x", "1"], "must be written as --name values. Got 'x'."),
        (["my_cells.py:cell", "--x"], "must have values. Got none."),
    ],
)
def test_bad_input_is_a_sentence(run, files, arguments, sentence) -> None:
    code, out, err = run("sweep", *arguments, "--out", "out")
    assert (code, out) == (2, "")
    assert sentence in err
    assert not Path("out").exists()


def test_a_folder_without_a_sweep_is_a_sentence(run) -> None:
    assert (
        "`nowhere` must be the folder of a sweep. Got one without manifest.jsonl. Make one with: hardmax sweep leaders"
        in run("sweep", "status", "nowhere")[2]
    )
    Path("manifest.jsonl").write_text("{}\n")
    assert "must be the manifest of a sweep. Got something else" in run("sweep", "status", ".")[2]
    assert "No such command" in run("sweep", "no_such")[2]


@pytest.mark.slow
def test_ctrl_c_leaves_what_is_done_and_says_how_to_go_on(run, engine, files) -> None:
    arguments = ["sweep", "my_cells.py:cell", "--x", ",".join(map(str, range(60))), "--rest", "0.2", "--workers", "2"]
    command = [sys.executable, "-m", "hardmax.cli.main", *arguments, "--out", "mine"]
    with ended(subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)) as child:
        wait_for(lambda: list(Path("mine").glob("part-*")) and Sweep.open("mine").rows, child)  # known when it is noted
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
        said = child.communicate(timeout=PATIENCE)[1]
    assert child.returncode == 130
    assert said.endswith(
        "Stopped. What is done is kept. Go on with: hardmax sweep resume mine --cell my_cells.py:cell\n"
    )
    assert "Traceback" not in said
    assert 0 < Sweep.open("mine").rows < 60
    assert run("sweep", "resume", "mine", "--cell", "my_cells.py:cell", "--engine", engine)[0] == 0
    assert Sweep.open("mine").to_frame()["y"].tolist() == list(range(1, 61))


def test_sampled_cells_of_ones_own_have_random_numbers_of_their_own(run) -> None:
    Path("mine.py").write_text("def draw(params, rng):\n    return {'u': float(rng.random())}\n")
    code, _, err = run("sweep", "mine.py:draw", "--x", "1,2,3", "--samples", "4", "--out", "runs")
    assert code == 0, err
    assert Sweep.open("runs").to_frame()["u"].nunique() == 4
