"""`hardmax cluster`: its files and sentences have the clusters of the estimator."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.datasets import make_moons

from hardmax import HardmaxClustering


@pytest.fixture
def moons(run) -> np.ndarray:
    X = make_moons(120, noise=0.05, random_state=0)[0]
    np.savetxt("moons.csv", X, delimiter=",", header="x,y", comments="")
    return X


def test_clusters_are_those_of_the_estimator(run, moons) -> None:
    found = HardmaxClustering(n_clusters=2).fit(moons)
    code, out, err = run(
        "cluster",
        "moons.csv",
        "--clusters",
        2,
        "--out",
        "c.csv",
        "--out",
        "c.json",
        "--out",
        "c.png",
    )
    assert (code, err) == (0, "")
    assert out.startswith(
        "2 clusters of 120 points, at granularity 0.5. The limit of every point is"
        " proved"
    )
    with Path("c.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["cluster"]) for row in rows] == found.labels_.tolist()
    assert [
        int(row["point"]) for row in rows if row["leads"] == "True"
    ] == found.leaders_.tolist()
    assert (
        np.array([[row["x1"], row["x2"]] for row in rows], float).tolist()
        == moons.tolist()
    )
    assert json.loads(Path("c.json").read_text())["labels"] == found.labels_.tolist()
    assert Path("c.png").stat().st_size > 5000


def test_settings_reach_the_estimator(run, moons) -> None:
    options = (
        "--granularity",
        0.8,
        "--features",
        "points",
        "--no-center",
        "--whiten",
        "--must-lead",
        "3,5",
    )
    result = json.loads(run("cluster", "moons.csv", *options, "--json")[1])
    kinds = {
        "granularity": 0.8,
        "features": "points",
        "center": False,
        "A": "whiten",
        "must_lead": [3, 5],
    }
    assert result["labels"] == HardmaxClustering(**kinds).fit(moons).labels_.tolist()
    result = json.loads(
        run("cluster", "moons.csv", "--neighbors", 4, "--components", 3, "--json")[1]
    )
    assert (
        result["labels"]
        == HardmaxClustering(n_neighbors=4, n_components=3).fit(moons).labels_.tolist()
    )


def test_an_error_names_the_option(run, moons) -> None:
    wrong = [
        "--features point",
        "--granularity 2",
        "--neighbors 3 --features points",
        "--no-center",
        "--must-lead x",
    ]
    for arguments in [*wrong, "--noise 0.5", "--out c.gif", "--tree c.csv"]:
        code, out, err = run("cluster", "moons.csv", *arguments.split())
        assert (code, out) == (2, "")
        assert f"`{arguments.split()[0]}`" in err


def test_one_point_is_a_cluster_and_nan_is_refused(run) -> None:
    assert "`TOKENS` must be finite." in run("cluster", "1,nan;2,3")[2]
    assert run("cluster", "1,2")[1].startswith("1 cluster of 1 point, ")


def test_warnings_are_notes(run) -> None:
    code, _, err = run("cluster", "1,0;0,1;-1,0;0,-1", "--clusters", 9)
    assert code == 0
    assert "Warning" not in err
    assert "instead of 9: 4 points form at most 4 clusters." in err
