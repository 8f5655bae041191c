"""Sweeps: designs, files, and a table that does not depend on the workers."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import loguniform

pytest.importorskip("distributed")
import cloudpickle

import hardmax as hm
from hardmax.scale import SweepTable, store
from hardmax.scale import cells as built_in_cells
from hardmax.scale.cells import CELLS, MATRICES
from hardmax.scale.design import make_design
from hardmax.scale.executor import run_cell
from hardmax.scale.store import Configuration, Manifest, join_tables, make_table
from tests import scale_cells

cloudpickle.register_pickle_by_value(scale_cells)
GRID = {"a": [1, 2, 3], "b": [10, 20]}


def rows_of(result: SweepTable) -> list[str]:
    """Return the rows without the seconds, as texts, for which NaN equals NaN."""
    return [repr(row) for row in result.table().drop_columns(["seconds"]).to_pylist()]


def test_a_grid_has_every_combination_and_the_last_parameter_varies_fastest() -> None:
    design = make_design(GRID, None, 0)
    assert [tuple(design[i].values()) for i in range(len(design))] == [
        (a, b) for a in (1, 2, 3) for b in (10, 20)
    ]
    assert list(design[0]) == ["a", "b"]
    assert make_design([{"a": 1}, {"a": np.int64(5)}], None, 0)[1] == {"a": 5}


def test_a_random_design_is_drawn_from_lists_and_distributions() -> None:
    grid = {"alpha": loguniform(0.1, 10), "n": [1, 2]}
    design = make_design(grid, 200, 3)
    assert design == make_design(grid, 200, 3) != make_design(grid, 200, 4)
    alphas = [design[i]["alpha"] for i in range(200)]
    assert 0.1 <= min(alphas) < 1 < max(alphas) <= 10
    assert abs(np.median(np.log(alphas))) < 0.6
    assert {design[i]["n"] for i in range(200)} == {1, 2}


@pytest.mark.parametrize(
    ("grid", "samples", "name"),
    [
        (3, None, "grid"),
        ({"a": 3}, None, "grid['a']"),
        ({"a": []}, None, "grid['a']"),
        ([], None, "grid"),
        ({"seconds": [1]}, None, "grid"),
        ({"a": [[1]]}, None, "grid['a']"),
        ([{"a": 1}, {"b": 1}], None, "grid[1]"),
        ({"a": loguniform(1, 2)}, None, "grid['a']"),
        ({"a": [1]}, 0, "samples"),
        ([{"a": 1}], 3, "grid"),
    ],
)
def test_invalid_designs_are_refused(grid, samples, name) -> None:
    with pytest.raises(hm.ParameterError) as problem:
        make_design(grid, samples, 0)
    assert problem.value.names == (name,)


def configuration(cells: int) -> Configuration:
    return Configuration("cell", "", make_design({"a": range(cells)}, None, 0), 0, None)


@pytest.mark.parametrize(
    ("cells", "part_cells"), [(1, 1), (500, 1), (501, 2), (12_500, 25)]
)
def test_parts_hold_every_cell_once(cells: int, part_cells: int) -> None:
    found = configuration(cells)
    assert len(found.parts[0]) == part_cells
    assert [cell for part in found.parts for cell in part] == list(range(cells))


def test_a_manifest_lists_finished_parts_and_drops_an_incomplete_line(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(store, "MAX_PARTS", 3)
    found = configuration(6)
    first, second = (
        "part-000000000-000000002.parquet",
        "part-000000002-000000004.parquet",
    )
    answers = [({"x": 1}, 0.5, None), ({}, float("nan"), "ValueError: no")]
    with Manifest.create(tmp_path, found) as manifest:
        manifest.write(2, [{"a": 2}, {"a": 3}], answers)
    with (tmp_path / "manifest.jsonl").open("a") as file:
        file.write('{"name": "part-0')  # the client was killed
    assert Manifest(tmp_path).missing == [range(2), range(4, 6)]
    with Manifest(tmp_path) as manifest:
        manifest.write(0, [{"a": 0}, {"a": 1}], answers)
    manifest = Manifest(tmp_path)
    assert manifest.missing == [range(4, 6)]
    assert [part[:4] for part in manifest.done] == [(first, 0, 2, 1), (second, 2, 4, 1)]
    assert {path.name for path in tmp_path.iterdir()} == {
        "manifest.jsonl",
        first,
        second,
    }


def test_the_table_has_the_columns_of_all_parts() -> None:
    answers = [
        [({"x": 1}, 0.1, None)],
        [({"x": 0.5, "y": [1, 2]}, 0.1, None)],
        [({}, 0.1, "Error")],
    ]
    parts = [make_table(i, [{"a": i}], each) for i, each in enumerate(answers)]
    parts.append(
        make_table(
            3, [{"a": 3}, {"a": 4}], [({"z": 1}, 0.1, None), ({"z": "many"}, 0.1, None)]
        )
    )
    table = join_tables(parts)
    assert table.column_names == ["cell", "a", "x", "y", "z", "seconds", "error"]
    assert table["x"].to_pylist() == [1.0, 0.5, None, None, None]
    assert table["y"].to_pylist() == [None, [1, 2], None, None, None]
    assert table["z"].to_pylist() == [None, None, None, "1", "many"]


def test_a_row_depends_on_the_seed_and_its_index_alone(
    client, tmp_path: Path, monkeypatch
) -> None:
    first = hm.sweep(
        scale_cells.draw, GRID, out=tmp_path / "one", engine=client, seed=7
    )
    design = make_design(GRID, None, 0)
    loop = [
        {
            "cell": i,
            **design[i],
            **run_cell(scale_cells.draw, design[i], 7, i)[0],
            "error": None,
        }
        for i in range(6)
    ]
    assert first.table().drop_columns(["seconds"]).to_pylist() == loop
    assert first.to_frame()["drawn"].tolist() == first.table()["drawn"].to_pylist()
    assert (first.cells, first.rows, first.errors, first.complete) == (6, 6, 0, True)
    text = (first.out / "manifest.jsonl").read_text()
    header, *lines = map(json.loads, text.splitlines())
    assert header["cell"] == "tests.scale_cells:draw"
    assert {*lines[-1]} == {"name", "start", "stop", "errors", "sha256"}
    assert os.fspath(tmp_path) not in text  # neither paths nor code
    monkeypatch.setattr(store, "MAX_PARTS", 2)  # three cells per part
    other = hm.sweep(
        scale_cells.draw, GRID, out=tmp_path / "two", engine=client, seed=7
    )
    assert (len(first.manifest.parts), len(other.manifest.parts)) == (6, 2)
    assert rows_of(other) == rows_of(first)
    rng = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(4,)))
    assert other.table()["drawn"][4].as_py() == rng.normal()


def test_missing_and_changed_parts_are_computed_again_and_no_others(
    client, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    grid = {"a": range(8), "log": [str(log)]}
    whole = hm.sweep(scale_cells.log_run, grid, out=tmp_path / "out", engine=client)
    rows, parts = rows_of(whole), whole.manifest.done
    log.unlink()
    again = hm.sweep(
        scale_cells.log_run, grid, out=tmp_path / "out", engine="tcp://127.0.0.1:1"
    )
    assert again.complete  # a complete sweep needs no cluster
    assert not log.exists()
    (whole.out / parts[0].name).unlink()
    (whole.out / parts[1].name).write_bytes(b"something else")
    with pytest.raises(hm.InputError, match=parts[0].name):
        whole.table()
    (whole.out / ".part-half-written.parquet").write_bytes(b"")
    lost = [str(a) for part in parts[:2] for a in range(part.start, part.stop)]
    again = hm.sweep(scale_cells.log_run, grid, out=tmp_path / "out", engine=client)
    assert rows_of(again) == rows
    assert sorted(log.read_text().split()) == lost
    assert {path.name for path in again.out.iterdir()} == {
        "manifest.jsonl",
        *again.manifest.parts,
    }


def test_cells_have_one_thread_per_library_and_may_start_processes(
    client, tmp_path: Path
) -> None:
    pytest.importorskip("numba")
    found = (
        hm.sweep(scale_cells.count_threads, {"a": [1]}, out=tmp_path, engine=client)
        .table()
        .to_pylist()
    )
    assert (found[0]["numba"], found[0]["blas"], found[0]["is_daemonic"]) == (
        1,
        1,
        False,
    )


def test_a_folder_holds_one_sweep(client, tmp_path: Path) -> None:
    hm.sweep(scale_cells.draw, GRID, out=tmp_path, engine=client)
    for cell, grid, seed, other in (
        (scale_cells.draw, GRID, 1, "seed"),
        (scale_cells.count_threads, {"a": [1]}, 0, "cell and source and design"),
    ):
        with pytest.raises(
            hm.ParameterError, match=f"Got one with another {other}"
        ) as problem:
            hm.sweep(cell, grid, out=tmp_path, engine=client, seed=seed)
        assert problem.value.names == ("out",)
    with (
        Manifest(tmp_path),
        pytest.raises(hm.InputError, match="must be written by one sweep at a time"),
    ):
        hm.sweep(scale_cells.draw, GRID, out=tmp_path, engine=client)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"engine": "nowhere"}, "engine"),
        ({"engine": "tcp://127.0.0.1:1"}, "engine"),
        ({"engine": "tcp://127.0.0.1:1", "workers": 2}, "workers"),
        ({"time_limit": 0}, "time_limit"),
        ({"seed": -1}, "seed"),
        ({"cell": "leader"}, "cell"),
        ({"cell": 3}, "cell"),
        ({"cell": "leaders", "grid": {"m": [1]}}, "grid"),
        ({"cell": "leaders", "grid": {"n": ["a"]}}, "n"),
    ],
)
def test_invalid_options_are_refused_before_any_work(
    tmp_path: Path, options, name, monkeypatch
) -> None:
    monkeypatch.setattr("hardmax.scale.executor.CONNECT_TIMEOUT", "200ms")
    cell, grid = options.pop("cell", scale_cells.draw), options.pop("grid", GRID)
    with pytest.raises(hm.ParameterError) as problem:
        hm.sweep(cell, grid, out=tmp_path / "out", **options)
    assert problem.value.names == (name,)
    assert not list(tmp_path.glob("out/*"))


def test_a_function_that_workers_cannot_load_is_an_error(
    client, tmp_path: Path
) -> None:
    code = (
        "import os; os.chdir('/'); raise ModuleNotFoundError('no module of that name')"
    )

    class Broken:
        def __call__(self, params, rng):
            return {}

        def __reduce__(self):
            return exec, (code,)

    with pytest.raises(
        hm.InputError,
        match=r"cannot load the cell. Got ModuleNotFoundError: no module of that",
    ):
        hm.sweep(Broken(), GRID, out=tmp_path, engine=client)


def test_built_in_cells_write_every_parameter_to_the_table(
    client, tmp_path: Path
) -> None:
    found = hm.sweep(
        "leaders", {"n": [5, 30], "seed": range(3)}, out=tmp_path, engine=client
    ).to_frame()
    assert found["n"].tolist() == [5] * 3 + [30] * 3
    assert set(CELLS["leaders"].defaults) < set(found.columns)
    assert found["certified"].all()
    rng = np.random.default_rng(
        np.random.SeedSequence(0, spawn_key=(1,))
    )  # the seed of cell 4
    limit = hm.limit(rng.normal(size=(30, 2)), hm.Hardmax(0.5))
    assert (found["leaders"][4], found["layer"][4]) == (len(limit.leaders), limit.layer)


@pytest.mark.parametrize("name", ["leaders", "endings", "temperature"])
def test_cells_with_one_seed_have_the_same_tokens(name, monkeypatch) -> None:
    drawn = []
    make = built_in_cells.make_tokens
    monkeypatch.setattr(
        built_in_cells,
        "make_tokens",
        lambda *given: drawn.append(make(*given)) or drawn[-1],
    )
    changes = [
        {},
        {"alpha": 2.0},
        {"A": "skew"},
        {"A": "rank-one", "heads": 3},
        {"heads": 2, "gain": 0.1},
    ]
    for change in changes:
        known = {
            key: value for key, value in change.items() if key in CELLS[name].defaults
        }
        run_cell(
            CELLS[name],
            CELLS[name].defaults | {"n": 5, "seed": 4} | known,
            0,
            len(drawn),
        )
    assert all(np.array_equal(tokens, drawn[0]) for tokens in drawn)


def test_default_seeds_are_common_in_a_grid_and_differ_in_a_random_design() -> None:
    for samples, seeds in ((None, [0, 0]), (3, [0, 1, 2])):
        design = CELLS["leaders"].complete(
            make_design({"alpha": [0.1, 0.5]}, samples, 0), drawn=samples is not None
        )
        assert [design[i]["seed"] for i in range(len(design))] == seeds


def test_endings() -> None:
    def ending(**params) -> str:
        return CELLS["endings"](params, np.random.default_rng(1))["ending"]

    assert ending(A="definite") == "clusters"
    assert ending(A="minus-identity") == "consensus"
    assert ending(A="identity", gain=0.02, layers=50) == "unsettled"
    assert all(ending(A=A, heads=2, layers=100) for A in MATRICES)


def test_softmax_is_within_the_bound_of_hardmax_after_one_layer() -> None:
    rows = [
        CELLS["temperature"]({"temperature": T, "n": 10}, np.random.default_rng(seed))
        for seed in range(10)
        for T in (1.0, 0.1, 1e-3, 1e-5)
    ]
    assert all(0 <= row["one_layer"] <= row["one_layer_bound"] + 1e-12 for row in rows)
    assert max(row["distance"] for row in rows[3::4]) < min(
        row["distance"] for row in rows[::4]
    )


def test_clusters_on_the_sphere_are_fewer_later() -> None:
    few, many = (
        CELLS["sphere"]({"t": t}, np.random.default_rng(0)) for t in (200.0, 0.1)
    )
    assert 1 <= few["clusters"] < many["clusters"] <= 32
    assert CELLS["sphere"]({"n": 1}, np.random.default_rng(0))["clusters"] == 1


def test_the_classifier_learns_in_a_cell() -> None:
    pytest.importorskip("sklearn")
    row = CELLS["classifier"](
        {"reviews": 150, "n_heads": 4, "groups": 1}, np.random.default_rng(0)
    )
    assert 0.55 < row["accuracy"] <= 1
