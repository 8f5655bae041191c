"""The store of the clusters, what it writes, and its page, without a server."""

import asyncio
import csv
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("panel")
pytest.importorskip("sklearn")

from hardmax import HardmaxClustering, InputError, MissingExtra
from hardmax.app import cluster_exports, cluster_html, cluster_points
from hardmax.app.cluster_plane import ClusterPlane
from hardmax.app.cluster_points import EXAMPLES, MOST_COLUMNS, Points, example, read
from hardmax.app.cluster_settings import Settings
from hardmax.app.cluster_views import ClusterPage
from hardmax.app.clusters import NO_CLUSTERS, ClusterStore, placed
from hardmax.app.controls import MOST_BYTES
from hardmax.app.links import from_link, to_link
from hardmax.app.scene import MOST_TOKENS

BAD = "<img src=x onerror=alert(1)>"


def store_of(name: str = "moons", **settings: Any) -> ClusterStore:
    store = ClusterStore(example(name))
    store.change(**settings)
    return store


def test_clusters_are_what_the_library_says() -> None:
    found = store_of("blobs with noise", noise=20.0).clusters()
    fit = HardmaxClustering(noise=20).fit(found.points.X)
    assert found.labels.tolist() == fit.labels_.tolist()
    assert found.leaders.tolist() == fit.leaders_.tolist()
    assert found.strengths.tolist() == fit.strengths_.tolist()
    assert found.status.startswith("4 clusters of 750 points, found. It is proved where every point ends")
    assert "221 points in no cluster" in found.status


def test_a_cut_needs_no_fit_and_is_nested(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of("moons")
    coarse = store.clusters()
    monkeypatch.setattr(HardmaxClustering, "fit", None)
    store.change(how="cut", number=7)
    fine = store.clusters()
    assert fine.cut
    assert len(fine.leaders) == len(np.unique(fine.labels)) == 7
    assert len({(a, b) for a, b in zip(fine.labels.tolist(), coarse.labels.tolist(), strict=True)}) == 7
    assert "cut from the tree of the 2 that were found" in fine.status


def test_what_cannot_be_cut_is_fitted() -> None:
    found = store_of("moons", how="cut", number=1).clusters()
    assert not found.cut
    assert len(found.leaders) == 1
    assert found.status.startswith("The tree of what was found cannot be cut into 1: fitted anew.")


def test_no_clusters_is_said_plainly() -> None:
    assert store_of("one cloud").clusters().status.startswith(NO_CLUSTERS)


def test_a_leader_of_a_cut_is_in_a_cluster() -> None:
    found = store_of("blobs with noise", noise=20.0, how="cut", number=30).clusters()
    assert found.labels[found.leaders].tolist() == list(range(30))
    assert (found.sizes > 0).all()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("settings", [{}, {"how": "cut", "number": 5}, {"how": "fit", "number": 3, "noise": 20.0}])
def test_python_makes_the_same_clusters(name: str, settings: dict[str, Any]) -> None:
    found = store_of(name, **settings).clusters()
    assert _run(cluster_exports.as_python(found)) == found.labels.tolist()


def _run(lines: str) -> list[int]:
    names: dict[str, Any] = {"print": lambda *values: None}
    exec(lines, names)
    labels: list[int] = names["labels"].tolist()
    return labels


def test_python_of_ones_own_points(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(300, 4)).round(3)
    X[:150, 2:] += 9
    for n in (90, 300):  # written out, and from the file
        store = ClusterStore(Points.checked(X[300 - n :], names=[f"a, {i}" for i in range(n)]))
        store.change(across=0, up=1, apart=True)
        found = store.clusters()
        (tmp_path / f"{cluster_exports.FILE}.csv").write_bytes(cluster_exports.as_file(found, "csv"))
        monkeypatch.chdir(tmp_path)
        assert _run(cluster_exports.as_python(found)) == found.labels.tolist()


def test_the_csv_has_labels_and_strengths() -> None:
    found = store_of("blobs with noise", noise=20.0).clusters()
    rows = list(csv.DictReader(io.StringIO(cluster_exports.as_file(found, "csv").decode())))
    assert [int(row["cluster"]) for row in rows] == found.labels.tolist()
    assert [float(row["strength"]) for row in rows] == pytest.approx(found.strengths, abs=1e-6)
    assert [i for i, row in enumerate(rows) if row["leads"] == "True"] == found.leaders.tolist()
    assert cluster_exports.as_file(found, "png").startswith(b"\x89PNG")
    assert b"<svg" in cluster_exports.tree_picture(found, dark=True)


@pytest.mark.parametrize(
    ("text", "names", "columns", "X"),
    [
        ("1,2\n3,4", (), ("x1", "x2"), [[1, 2], [3, 4]]),
        ("a b\n1 2\n3 4", (), ("a", "b"), [[1, 2], [3, 4]]),
        ("who;a;b\nAda;1;0.5\nBo;3;4", ("Ada", "Bo"), ("a", "b"), [[1, 0.5], [3, 4]]),
        ('"A, B",1,2\nC,3,4', ("A, B", "C"), ("x1", "x2"), [[1, 2], [3, 4]]),
        ("id,a,b\n0,1,2\n1,3,4", (), ("a", "b"), [[1, 2], [3, 4]]),
        ("\ufeffx,y\n1,2", (), ("x", "y"), [[1, 2]]),
    ],
)
def test_points_are_read(text: str, names: tuple[str, ...], columns: tuple[str, ...], X: list[list[float]]) -> None:
    points = read(text.encode(), "points.csv")
    assert (points.names, points.columns, points.X.tolist()) == (names, columns, X)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must hold one token per row"),
        (f"1,{BAD}", "must hold numbers"),
        ("1,2\n3", "same number of columns"),
        ("1,nan", "must be finite"),
        ("1,2\n" * 20_002, "must hold at most 20,000 points"),
        ("1,2\n" * 1_300_000, "must have at most 5 MB"),
        (",".join("1" * (MOST_COLUMNS + 1)), "rows of 1 to 2,000 numbers"),
    ],
)
def test_bad_points_get_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read(text, "points.csv")


def test_a_link_holds_points_settings_and_the_point_that_was_clicked() -> None:
    store = ClusterStore(read("a,1,2,0\nb,3,4,1\nc,0,1,5", "points.csv"))
    store.change(how="fit", number=2, metric="cosine", noise=30.0, across=2, up=0)
    store.choose(1)
    again = ClusterStore()
    again.set_state(from_link(to_link(store.state)))
    assert again.state == store.state
    assert store_of("digits").state == {"example": "digits", "settings": {}}


@pytest.mark.parametrize(
    "state",
    [
        [],
        {"example": "no such"},
        {"example": ["moons"]},
        {"rows": "x"},
        {"rows": [[1, 2]], "names": [1]},
        {"rows": [[1, 2]], "columns": "ab"},
        {"example": "moons", "settings": {"how": "guess"}},
        {"example": "moons", "settings": {"number": 1e9}},
        {"example": "moons", "settings": {"number": True}},
        {"example": "moons", "settings": {"noise": float("nan")}},
        {"example": "moons", "settings": {"noise": 0.5}},
        {"example": "moons", "settings": {"across": 2, "up": 0}},
        {"example": "moons", "settings": {"across": -5}},
        {"example": "moons", "settings": {"x": 1}},
        {"example": "moons", "settings": []},
        {"example": "moons", "chosen": 500},
        {"example": "moons", "chosen": "1"},
    ],
)
def test_forged_states_get_a_sentence_and_change_nothing(state: Any) -> None:
    store = store_of("circles")
    with pytest.raises(InputError):
        store.set_state(state)
    assert store.state == store_of("circles").state


def test_columns_that_are_drawn_can_be_left_out_of_the_clusters() -> None:
    X = np.random.default_rng(0).normal(size=(200, 4))
    store = ClusterStore(Points.checked(X, columns=["a", "b", "c", "d"]))
    assert placed(store.points, store.settings)[1][0].startswith("principal axis 1 of 4")
    store.change(across=3, up=0, apart=True)
    places, names, _ = placed(store.points, store.settings)
    assert names == ("d", "a")
    assert places.tolist() == X[:, [3, 0]].tolist()
    assert store.clusters().labels.tolist() == HardmaxClustering().fit(X[:, [1, 2]]).labels_.tolist()
    flat = ClusterStore(Points.checked(X[:, :2]))
    flat.change(across=0, up=1, apart=True)
    with pytest.raises(InputError, match="There must be a column to cluster by"):
        flat.clusters()


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_points_of_any_dimension_are_drawn(d: int) -> None:
    X = np.random.default_rng(0).normal(size=(30, d))
    places, names, _ = placed(Points.checked(X), Settings())
    assert places.shape == (30, 2)
    assert names[0].startswith("principal axis 1 of" if d > 2 else "x1")


def test_names_are_escaped() -> None:
    store = ClusterStore(Points.checked(np.random.default_rng(0).normal(size=(40, 2)), names=[BAD] * 40))
    found = store.clusters()
    for html in (cluster_html.table(found), cluster_html.followed(found, 3), cluster_html.status(found)):
        assert "<img" not in html


def test_the_plane_says_who_was_clicked_and_draws_who_follows() -> None:
    heard: list[int] = []
    plane, found = ClusterPlane(heard.append, dark=False), store_of("blobs with noise", noise=20.0).clusters()
    plane.show(plane.drawing(found, -1), anew=True)
    assert len(plane.lines.data["x0"]) == 0
    assert sorted(set(plane.source.data["marker"])) == ["circle", "star", "x"]
    plane.source.selected.indices = [749]  # leaders are the last
    plane.source.selected.indices = [10**9]
    assert heard == [int(found.leaders[-1]), -1]
    plane.show(plane.drawing(found, int(found.leaders[-1])), anew=False)
    assert len(plane.lines.data["x0"]) == found.sizes[-1]
    assert heard[2:] == []


def test_a_page_answers_and_says_what_is_wrong() -> None:
    async def visit() -> None:
        page = ClusterPage()
        page._answering.ask()
        await _until(lambda: "2 clusters" in page.status.object)
        page.controls.example.value = "blobs with noise"
        await _until(lambda: "221 points in no cluster" in page.status.object)
        page._send("1,x", "what you pasted")
        await _until(lambda: "must hold numbers" in page.problem.object)
        assert "221 points" in page.status.object
        page._send("1,2\n3,4\n5,0", "what you pasted")
        await _until(lambda: "No clusters" in page.status.object)
        assert page.problem.object == ""
        assert page.controls.example.value == "your own"

    asyncio.run(visit())


async def _until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_without_scikit_learn_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtra, match=r"This page needs scikit-learn: pip install 'hardmax\[cluster\]'"):
        cluster_points.example("moons")


def test_the_docs_say_the_limits_that_hold() -> None:
    text = (Path(__file__).parents[1] / "docs" / "app.md").read_text(encoding="utf-8")
    assert f"At most {MOST_TOKENS:,} points, {MOST_COLUMNS:,} columns and {MOST_BYTES // 10**6} MB" in text
