"""Sweeps: which cells there are, how they are cut into tasks, their files, and the table, whoever computed it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import loguniform

pytest.importorskip("distributed")
import cloudpickle

import hardmax as hm
from hardmax.scale import Sweep, chunks
from hardmax.scale import cells as built_in_cells
from hardmax.scale.cell_process import Chunk
from hardmax.scale.cells import CELLS, MATRICES
from hardmax.scale.child import answer
from hardmax.scale.chunks import Chunks
from hardmax.scale.design import design_of
from hardmax.scale.engine import connected
from hardmax.scale.manifest import Configuration, Manifest
from hardmax.scale.parts import joined, part_name, read_part, table_of, write_part
from tests import scale_cells

cloudpickle.register_pickle_by_value(scale_cells)
GRID = {"a": [1, 2, 3], "b": [10, 20]}


@pytest.fixture(scope="module")
def client():
    with connected("local", 2) as client:
        yield client


def rows_of(result: Sweep) -> list[str]:
    """The table as texts, which compare NaN as equal, without the seconds, in which no two runs are equal."""
    return [repr(row) for row in result.table().drop_columns(["seconds"]).to_pylist()]


def expected(cell, grid, seed: int = 0) -> list[dict]:
    """The rows as a plain loop has them."""
    design = design_of(grid, None, seed)
    found = [(design[i], answer(cell, design[i], seed, i)) for i in range(len(design))]
    return [{"cell": i, **params, **row, "error": error} for i, (params, (row, _, error)) in enumerate(found)]


def test_a_grid_has_every_combination_and_the_last_parameter_changes_first() -> None:
    design = design_of(GRID, None, 0)
    assert len(design) == 6
    assert [tuple(design[i].values()) for i in range(6)] == [(1, 10), (1, 20), (2, 10), (2, 20), (3, 10), (3, 20)]
    assert design.names == ["a", "b"]
    assert design_of([{"a": 1}, {"a": np.int64(5)}], None, 0)[1] == {"a": 5}


def test_a_random_design_is_drawn_from_lists_and_distributions() -> None:
    grid = {"alpha": loguniform(0.1, 10), "n": [1, 2]}
    design = design_of(grid, 200, 3)
    assert design == design_of(grid, 200, 3) != design_of(grid, 200, 4)
    alphas = [design[i]["alpha"] for i in range(200)]
    assert 0.1 <= min(alphas) < 1 < max(alphas) <= 10
    assert abs(np.median(np.log(alphas))) < 0.6
    assert {design[i]["n"] for i in range(200)} == {1, 2}


@pytest.mark.parametrize(
    ("grid", "samples", "sentence"),
    [
        (3, None, "`grid` must be a dict of lists, or a list of dicts. Got int."),
        ({"a": 3}, None, "`grid['a']` must be a list of values. Got 3. Write [3] for one value."),
        ({"a": []}, None, "`grid['a']` must have at least one value. Got none."),
        ([], None, "`grid` must have at least one cell. Got none."),
        ({"seconds": [1]}, None, "`grid` must name parameters by words other than cell, seconds, error"),
        ({"a": [[1]]}, None, "`grid['a']` must hold numbers, texts, True, False or None. Got [1]."),
        ([{"a": 1}, {"b": 1}], None, "`grid[1]` must have the parameters of the first cell, a. Got b."),
        ({"a": loguniform(1, 2)}, None, "`grid['a']` must be a list of values."),
        ({"a": [1]}, 0, "`samples` must be an integer of at least 1. Got 0."),
        ([{"a": 1}], 3, "`grid` must be a dict of lists or distributions with `samples`."),
    ],
)
def test_a_design_without_a_meaning_is_a_sentence(grid, samples, sentence) -> None:
    with pytest.raises(ValueError) as problem:  # noqa: PT011
        design_of(grid, samples, 0)
    assert sentence in str(problem.value)


def test_tasks_grow_to_some_seconds_and_shrink_towards_the_end() -> None:
    cut, sizes = Chunks([], [(0, 100_000)], 100_000), []
    cut.workers = 2
    while (interval := cut.next()) is not None:
        sizes.append(interval[1] - interval[0])
        cut.measured(sizes[-1], sizes[-1] * 1e-3 + (1.0 if len(sizes) == 1 else 0))  # the first loads libraries
    assert sum(sizes) == 100_000
    assert sizes[0] == 10  # 10,000 tasks at most
    assert max(sizes) == pytest.approx(chunks.SECONDS / 1e-3, rel=0.1)
    assert sizes[-2] < max(sizes) / 5
    assert len(sizes) < 80


def test_slow_cells_are_tasks_of_their_own_unless_there_are_very_many() -> None:
    for cells, size in ((100, 1), (2_000_000, 200)):
        cut = Chunks([], [(0, cells)], cells)
        for _ in range(20):
            start, stop = cut.next()
            assert stop - start == size
            cut.measured(size, 20.0 * size)


def configuration(cells: int = 20, **more) -> Configuration:
    return Configuration("cell", "", design_of({"a": range(cells)}, None, 0), 0, None, **more)


def test_what_was_asked_for_is_asked_for_again_as_it_was(tmp_path: Path) -> None:
    with Manifest.create(tmp_path, configuration()) as manifest:
        for interval in ((0, 4), (4, 8), (8, 12), (8, 10), (10, 12)):  # the third was halved
            manifest.plan(interval)
    with (tmp_path / "manifest.jsonl").open("a") as file:
        file.write('{"planned": [12, ')  # the machine stopped here
    again = Manifest(tmp_path)
    assert again.missing() == ([(0, 4), (4, 8), (8, 10), (10, 12)], [(12, 20)])
    with again as manifest:
        manifest.plan((12, 14))
    assert Manifest(tmp_path).planned[-1] == (12, 14)


def test_names_follow_from_the_configuration() -> None:
    assert configuration().fingerprint == Configuration.from_json(configuration().to_json()).fingerprint
    assert configuration().fingerprint != configuration(21).fingerprint
    assert configuration().fingerprint != configuration(version="9.9").fingerprint
    assert part_name(3, 5, "f") == "part-000000003-000000005-f.parquet"


def chunk(path: Path, cells: int = 2, first: int = 0) -> Chunk:
    return Chunk("f", b"", 0, first, [{"a": i} for i in range(cells)], None, str(path))


def test_a_part_is_written_once_and_read_back(tmp_path: Path) -> None:
    job = chunk(tmp_path / "part.parquet")
    part = write_part(job, [({"x": 1}, 0.5, None), ({}, 0.25, "ValueError: no")])
    assert (part.start, part.stop, part.errors, part.seconds) == (0, 2, 1, 0.75)
    assert write_part(job, [({"x": 9}, 0.5, None), ({"x": 9}, 0.5, None)]) == part  # the first one stays
    assert read_part(job) == part
    assert [path.name for path in tmp_path.iterdir()] == ["part.parquet"]


def test_a_damaged_part_is_none(tmp_path: Path) -> None:
    job = chunk(tmp_path / "part.parquet", 500)
    write_part(job, [({"x": i}, 0.5, None) for i in range(500)])
    data = bytearray(Path(job.path).read_bytes())
    data[40] ^= 0xFF
    Path(job.path).write_bytes(data)
    assert read_part(job) is None
    assert not Path(job.path).exists()
    write_part(job._replace(first=7), [({"x": i}, 0.5, None) for i in range(500)])
    assert read_part(job) is None  # cells of another part


def test_columns_of_all_parts_are_columns_of_the_table(tmp_path: Path) -> None:
    parts = [
        table_of(chunk(tmp_path, 1), [({"x": 1}, 0.1, None)]),
        table_of(chunk(tmp_path, 1, 1), [({"x": 0.5, "y": [1, 2]}, 0.1, None)]),
        table_of(chunk(tmp_path, 1, 2), [({}, 0.1, "Error")]),
        table_of(chunk(tmp_path, 2, 3), [({"z": 1}, 0.1, None), ({"z": "many"}, 0.1, None)]),
    ]
    table = joined(parts)
    assert table.column_names == ["cell", "a", "x", "y", "z", "seconds", "error"]
    assert table["x"].to_pylist() == [1.0, 0.5, None, None, None]
    assert table["y"].to_pylist() == [None, [1, 2], None, None, None]
    assert table["z"].to_pylist() == [None, None, None, "1", "many"]


@pytest.mark.slow
def test_a_row_depends_on_the_seed_and_its_number_alone(client, tmp_path: Path, monkeypatch) -> None:
    first = hm.sweep(scale_cells.draw, GRID, out=tmp_path / "one", engine=client, seed=7)
    assert first.table().drop_columns(["seconds"]).to_pylist() == expected(scale_cells.draw, GRID, 7)
    assert first.to_frame()["drawn"].tolist() == first.table()["drawn"].to_pylist()
    assert (first.cells, first.rows, first.errors, first.complete) == (6, 6, 0, True)
    monkeypatch.setattr(chunks, "MOST_TASKS", 2)  # three cells a task
    other = hm.sweep(scale_cells.draw, GRID, out=tmp_path / "two", engine=client, seed=7)
    assert len(other.manifest.parts) == 2 < len(first.manifest.parts)
    assert rows_of(other) == rows_of(first)
    rng = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(4,)))
    assert other.table()["drawn"][4].as_py() == rng.normal()


def test_a_sweep_that_is_done_starts_nothing(client, tmp_path: Path) -> None:
    grid = {"a": range(5), "log": [str(tmp_path / "log")]}
    hm.sweep(scale_cells.count_runs, grid, out=tmp_path / "out", engine=client)
    again = hm.sweep(scale_cells.count_runs, grid, out=tmp_path / "out", engine="tcp://127.0.0.1:1")
    assert again.complete
    assert sorted((tmp_path / "log").read_text().split()) == list("01234")


def test_parts_that_are_gone_or_changed_are_computed_again_and_no_others(client, tmp_path: Path) -> None:
    grid = {"a": range(8), "log": [str(tmp_path / "log")]}
    whole = hm.sweep(scale_cells.count_runs, grid, out=tmp_path / "out", engine=client)
    rows, parts = rows_of(whole), whole.manifest.done
    (whole.out / parts[0].name).unlink()
    (whole.out / parts[1].name).write_bytes(b"something else")
    (whole.out / ".part-half-written.parquet").write_bytes(b"")
    lost = [str(a) for part in parts[:2] for a in range(part.start, part.stop)]
    (tmp_path / "log").unlink()
    again = hm.sweep(scale_cells.count_runs, grid, out=tmp_path / "out", engine=client)
    assert rows_of(again) == rows
    assert sorted((tmp_path / "log").read_text().split()) == lost
    assert {path.name for path in again.out.iterdir()} == {"manifest.jsonl", *again.manifest.parts}


def test_workers_have_one_thread_and_the_client_its_own(client, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    found = hm.sweep(scale_cells.threads, {"a": [1]}, out=tmp_path, engine=client).table().to_pylist()
    assert (found[0]["numba"], found[0]["blas"]) == (1, 1)


def test_a_folder_holds_one_sweep(client, tmp_path: Path) -> None:
    hm.sweep(scale_cells.draw, GRID, out=tmp_path, engine=client)
    with pytest.raises(
        hm.ParameterError, match=r"`out` must be empty, or hold the same sweep. Got one with another seed"
    ):
        hm.sweep(scale_cells.draw, GRID, out=tmp_path, engine=client, seed=1)
    with pytest.raises(hm.ParameterError, match="Got one with another cell and source and design"):
        hm.sweep(scale_cells.threads, {"a": [1]}, out=tmp_path, engine=client)
    with Manifest(tmp_path), pytest.raises(hm.InputError, match="must be written by one sweep at a time"):
        hm.sweep(scale_cells.draw, GRID, out=tmp_path, engine=client)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"engine": "nowhere"}, '`engine` must be "local", an address such as "tcp://host:8786"'),
        ({"engine": "tcp://127.0.0.1:1"}, "`engine` must be the address of a scheduler that runs."),
        ({"engine": "tcp://127.0.0.1:1", "workers": 2}, '`workers` must go with `engine="local"`.'),
        ({"time_limit": 0}, "`time_limit` must be a positive finite number. Got 0."),
        ({"seed": -1}, "`seed` must be an integer of at least 0. Got -1."),
        ({"cell": "leader"}, "`cell` must be a function, or one of leaders, endings, sphere, temperature, classifier."),
        (
            {"cell": "leaders", "grid": {"m": [1]}},
            "`parameter` must be one of alpha, n, d, tokens, A, max_layers, seed.",
        ),
        ({"cell": "leaders", "grid": {"n": ["a"]}}, "`n` must be a whole number. Got 'a'. Such as 100."),
    ],
)
def test_settings_without_a_meaning_are_sentences(tmp_path: Path, options, sentence, monkeypatch) -> None:
    monkeypatch.setattr("hardmax.scale.engine.PATIENCE", "200ms")
    cell, grid = options.pop("cell", scale_cells.draw), options.pop("grid", GRID)
    with pytest.raises(ValueError) as problem:  # noqa: PT011
        hm.sweep(cell, grid, out=tmp_path / "out", **options)
    assert sentence in str(problem.value)
    assert not list(tmp_path.glob("out/*"))


def test_a_function_that_workers_cannot_load_is_a_sentence(client, tmp_path: Path) -> None:
    code = "import os; os.chdir('/'); raise ModuleNotFoundError('no module of that name')"

    class Broken:
        def __call__(self, params, rng):
            return {}

        def __reduce__(self):
            return exec, (code,)

    with pytest.raises(
        hm.InputError, match=r"A worker cannot load the cell. Got ModuleNotFoundError: no module of that"
    ):
        hm.sweep(Broken(), GRID, out=tmp_path, engine=client)


def test_built_in_cells_take_every_parameter_into_the_table(client, tmp_path: Path) -> None:
    found = hm.sweep("leaders", {"n": [5, 30], "seed": range(3)}, out=tmp_path, engine=client).to_frame()
    assert found["n"].tolist() == [5] * 3 + [30] * 3
    assert set(CELLS["leaders"].defaults) < set(found.columns)
    assert found["certified"].all()
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(1,)))  # the seed of cell 4
    limit = hm.limit(rng.normal(size=(30, 2)), hm.Hardmax(0.5))
    assert (found["leaders"][4], found["layer"][4]) == (len(limit.leaders), limit.layer)


def test_cells_with_one_seed_have_the_same_tokens(client, tmp_path: Path) -> None:
    grid = {"a": [1, 2, 3], "b": [10, 20], "seed": range(3)}
    found = hm.sweep(scale_cells.draw, grid, out=tmp_path, engine=client).to_frame()
    assert (found.groupby("seed")["drawn"].nunique() == 1).all()
    assert found["drawn"].nunique() == 3


@pytest.mark.parametrize("name", ["leaders", "endings", "temperature"])
def test_built_in_cells_draw_tokens_before_anything_else(name, monkeypatch) -> None:
    drawn = []
    make = built_in_cells.cloud
    monkeypatch.setattr(built_in_cells, "cloud", lambda *given: drawn.append(make(*given)) or drawn[-1])
    changes = [{}, {"alpha": 2.0}, {"A": "skew"}, {"A": "rank-one", "heads": 3}, {"heads": 2, "gain": 0.1}]
    for change in changes:
        known = {key: value for key, value in change.items() if key in CELLS[name].defaults}
        answer(CELLS[name], CELLS[name].defaults | {"n": 5, "seed": 4} | known, 0, len(drawn))
    assert all(np.array_equal(tokens, drawn[0]) for tokens in drawn)


def test_default_seeds_are_common_in_a_grid_and_differ_in_a_random_design() -> None:
    built_in = CELLS["leaders"]
    grid = built_in.design(design_of({"alpha": [0.1, 0.5]}, None, 0))
    assert [grid[i]["seed"] for i in range(2)] == [0, 0]
    drawn = built_in.design(design_of({"alpha": [0.1, 0.5]}, 3, 0), drawn=True)
    assert [drawn[i]["seed"] for i in range(3)] == [0, 1, 2]


def test_endings_are_told_apart() -> None:
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
    assert max(row["distance"] for row in rows[3::4]) < min(row["distance"] for row in rows[::4])


def test_clusters_on_the_sphere_are_fewer_later() -> None:
    few, many = (CELLS["sphere"]({"t": t}, np.random.default_rng(0)) for t in (200.0, 0.1))
    assert 1 <= few["clusters"] < many["clusters"] <= 32
    assert CELLS["sphere"]({"n": 1}, np.random.default_rng(0))["clusters"] == 1


def test_the_classifier_learns_in_a_cell() -> None:
    pytest.importorskip("sklearn")
    row = CELLS["classifier"]({"reviews": 150, "n_heads": 4, "groups": 1}, np.random.default_rng(0))
    assert 0.55 < row["accuracy"] <= 1


def test_without_dask_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['distributed'] = None; import hardmax as hm; hm.sweep('leaders', {}, out='x')"
    code = code.replace("{}", "{'n': [5]}")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "`hardmax.sweep` needs distributed: pip install 'hardmax[scale]'." in done.stderr


def test_a_manifest_is_plain_json_that_names_no_code(client, tmp_path: Path) -> None:
    hm.sweep(scale_cells.draw, GRID, out=tmp_path, engine=client)
    first, *lines = map(json.loads, (tmp_path / "manifest.jsonl").read_text().splitlines())
    assert first["cell"] == "tests.scale_cells:draw"
    assert {*lines[-1]} == {"name", "start", "stop", "errors", "seconds", "sha256"}
    assert os.fspath(tmp_path) not in json.dumps([first, lines])
