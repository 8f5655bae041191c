"""Benchmarks compare methods that agree, and refuse where they do not; results and README say the same."""

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from benchmarks import (
    CASES,
    Case,
    Method,
    Target,
    data,
    flows,
    gpu,
    layers,
    measure,
    plots,
    report,
    scaling,
    sizes,
    sweeps,
    tables,
    training,
)
from benchmarks.__main__ import main
from benchmarks.agreement import choice, float_choice, same_sets
from benchmarks.definition import euler_loop, loop_over_tokens, triple_loop
from benchmarks.limits import SIZES, growth
from benchmarks.machine import machine
from benchmarks.memory import with_peak
from benchmarks.results import Result, Row, number
from benchmarks.studies import STUDIES
from benchmarks.worker import Child, Local

import hardmax as hm

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy that takes no time would be repeated for 0.05 s of it in each of its 30 turns."""
    monkeypatch.setattr("benchmarks.worker.TURN", 1e-4)


def method(name: str, answer: int, **options) -> Method:
    return Method(name, lambda: lambda: answer, lambda result: {"set": np.array(result)}, **options)


def case(*methods: Method, **options) -> Case:
    return Case("toy", "Toy", lambda quick: list(methods), layers.equal, "chooses other sets", **options)


def test_loops_are_the_definition() -> None:
    tokens = hm.configuration("gaussian", n=30, d=3)
    ours = hm.simulate(tokens, hm.Hardmax(0.5), layers=6)
    assert layers.equal(layers.history(triple_loop(tokens.tolist(), 0.5, 6)), layers.trajectory_history(ours))
    assert loop_over_tokens(tokens) == hm.argmax_sets(tokens)


def test_ratios_are_to_ours_and_only_of_equal_answers() -> None:
    seconds = {"ours": 0.5, "peer": 2.0, "other size": 1.0}
    timed = [
        method(name, 3, seconds=lambda wall, result, s=s: s, target=Target(3), alone=name == "other size")
        for name, s in seconds.items()
    ]
    ours, peer, other = measure(case(*timed), local=True).rows
    assert (ours.ratio, peer.ratio, other.ratio) == (None, 4.0, None)
    assert (peer.target, peer.reached, ours.reached) == ("3 times", True, None)
    assert peer.cells == ["peer", "2,000", "", "4", "3 times", "reached"]
    refused = measure(case(method("ours", 3), method("peer", 4)), local=True)
    assert refused.refused == "peer chooses other sets: no ratio."
    assert not refused.rows
    another_model = measure(case(method("ours", 3), method("softmax", 4, compared=False)), local=True)
    assert another_model.rows[1].ratio is not None


def test_a_missing_peer_is_named_and_the_case_goes_on() -> None:
    rows = measure(case(method("ours", 1), method("peer", 1, package="no_such"), method("last", 1)), local=True).rows
    assert rows[1].cells == ["peer", "", "", "not installed: pip install -e '.[bench]'", "", ""]
    assert rows[2].ratio is not None


def test_slow_methods_wait_for_slow_and_quick_judges_nothing() -> None:
    toy = case(method("ours", 1), method("peer", 1, slow=True, target=Target(1e9)))
    assert [row.method for row in measure(toy, local=True).rows] == ["ours"]
    assert measure(toy, local=True, slow=True).rows[1].cells[-1] == "missed"
    assert measure(toy, local=True, slow=True, quick=True).rows[1].cells[-2:] == ["", ""]


@pytest.mark.parametrize(("seconds", "runs"), [(25.0, 1), (8.0, 2), (4.0, 3), (0.5, 6), (0.001, 30)])
def test_a_method_has_turns_by_its_speed(seconds: float, runs: int) -> None:
    calls = []
    toy = Method("ours", lambda: lambda: calls.append(1), lambda result: {}, seconds=lambda wall, result: seconds)
    measure(case(toy), local=True)
    assert len(calls) == runs


def test_an_error_of_a_method_is_told() -> None:
    def broken() -> None:
        raise ValueError("It broke.")

    toy = case(Method("ours", lambda: broken, lambda result: {}))
    assert measure(toy, local=True).refused == "It broke."


def test_floats_agree_within_their_rounding_alone() -> None:
    tokens = np.array([[1.0, 0.0], [1.0 + 1e-9, 0.0], [0.5, 0.5], [0.0, -1.0]])
    sets = hm.argmax_sets(tokens)
    ours = choice(sets.starts, sets.members, tokens)
    assert sets.targets.tolist() == [1, 1, 1, 3]
    assert same_sets(ours, float_choice(np.array([0, 1, 1, 3]), "float32"))
    assert not same_sets(ours, float_choice(np.array([0, 1, 1, 3]), "float64"))
    assert not same_sets(ours, float_choice(np.array([2, 1, 1, 3]), "float32"))
    assert not same_sets(ours, float_choice(np.array([-1, 1, 1, 3]), "float32"))
    assert not same_sets(ours, float_choice(np.array([1, 1, 1]), "float32"))
    assert not same_sets(ours, choice(sets.starts, np.array([0, 1, 1, 3])))


def test_a_batch_is_compared_cloud_by_cloud() -> None:
    tokens = data.tokens("gaussian", 60, 2).reshape(3, 20, 2)
    sets = hm.argmax_sets(tokens)
    ours = choice(sets.starts, sets.members, tokens)
    theirs = (tokens @ tokens.swapaxes(1, 2)).argmax(-1)
    assert same_sets(ours, float_choice(theirs, "float64"))
    theirs[2] = theirs[2, ::-1]
    assert not same_sets(ours, float_choice(theirs, "float64"))


@pytest.mark.parametrize("kind", data.WORDS)
def test_tokens_are_what_the_title_says(kind: str) -> None:
    tokens = data.tokens(kind, 200, 3)
    assert tokens.shape == (200, 3)
    assert np.array_equal(tokens, data.tokens(kind, 200, 3))
    lengths = np.linalg.norm(tokens, axis=1)
    assert (np.ptp(lengths) < 1e-12) == (kind == "sphere")
    assert len(np.unique(tokens, axis=0)) == (20 if kind == "duplicated" else 200)
    assert len(np.unique(tokens.round(1), axis=0)) < 60 or kind != "clustered"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells the peak")
def test_peak_memory_sees_what_numpy_allocates() -> None:
    _, peak = with_peak(lambda: np.ones(10_000_000).sum())
    assert peak == pytest.approx(80, abs=8)
    small = [np.ones(10_000) for _ in range(1000)]  # too small for C to give them back one by one
    keeps = np.ones(1000)  # above them, so that they stay
    del small
    _, peak = with_peak(lambda: [np.ones(10_000) for _ in range(1000)], afresh=True)
    assert peak == pytest.approx(80, abs=8)
    assert keeps.all()


@pytest.mark.slow
def test_sweeps_say_how_large_their_processes_are() -> None:
    pytest.importorskip("distributed")
    rows = sweeps.measure(quick=True)["rows"]
    assert [len(row) for row in rows] == [6] * 5
    swept, bare = [rows[i][sweeps.MEMORY[1]] for i in range(3)], rows[3][sweeps.MEMORY[1]]
    assert 20 < bare < 1000
    assert all(20 < size < 1000 for size in swept)
    table = sweeps.markdown({"machine": {}, "rows": rows}).splitlines()[2:]
    assert {line.count("|") for line in table} == {7}


def test_growth_is_the_slope() -> None:
    rows = [Row(f"limit, n = {n:,}", 1e-6 * n**1.5 * 7, facts={"layers": 7}) for n in SIZES]
    (row,) = growth(rows)
    assert row.cells[3:] == ["n^1.50", "at most n^1.1", "missed"]
    assert Target(10, "s").reached(9)
    assert str(Target(10, "s")) == "at most 10 s"


def test_the_loop_of_the_flow_is_of_order_one() -> None:
    tokens, V = hm.configuration("ball", n=6, d=2), hm.matrix("paper-2d")
    exact = hm.simulate(tokens, hm.SelfAttention(V=V), times=[0, 1], rtol=1e-11).rescaled[-1]
    errors = [np.abs(np.array(euler_loop(tokens.tolist(), V.tolist(), 1.0, dt)) - exact).max() for dt in (0.02, 0.01)]
    assert 1.8 < errors[0] / errors[1] < 2.2
    assert flows.no_worse({"error": errors[1]}, {"error": errors[0]})
    assert not flows.no_worse({"error": errors[0]}, {"error": errors[1]})


def test_training_steps_with_the_same_sets_have_the_same_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(training, "N", 16)
    monkeypatch.setattr(training, "LAYERS", 2)
    each = [partial(training.one_by_one, attention) for attention in (training.gather, training.softmax)]
    ours, at_once, plain, soft = (
        {"gradient": training.step(layers, True)().numpy().copy()}
        for layers in (partial(training.one_by_one, training.hardmax), training.all_at_once, *each)
    )
    assert np.abs(ours["gradient"]).max() > 0
    assert training.close(ours, plain)
    assert training.close(ours, at_once)
    assert not training.close(ours, soft)


def test_numbers_have_three_digits() -> None:
    assert [number(x) for x in (0, 0.012345, 1.2345, 12345.6)] == ["0", "0.0123", "1.23", "12,300"]


def test_names_are_distinct_and_titles_say_how_tokens_lie() -> None:
    families = (
        "one_layer",
        "limits",
        "batches",
        "ties",
        "training",
        "classifier",
        "clustering",
        "control",
        "layers",
        "flows",
        "first_call",
    )
    modules = [sys.modules[f"benchmarks.{family}"] for family in families]
    assert len(CASES) == sum(len(module.CASES) for module in modules)
    kinds = ("gaussian", "ball", "circle", "sphere", "clusters", "uniform", "zipf", "reviews")
    with_tokens = [case.title.lower() for case in CASES.values() if case.name != "import"]
    assert not [title for title in with_tokens if not any(kind in title for kind in kinds)]


def test_a_child_measures_and_answers(tmp_path: Path) -> None:
    child = Child("gaussian", "simulate", True, tmp_path)
    child.ready()
    seconds, _ = child.run()
    answer, facts = child.finish()
    assert 0 < seconds < 60
    assert answer.keys() == {"starts", "members"}
    assert facts == {"kernel": "numpy"}
    assert not list(tmp_path.iterdir())
    lost = Child("gaussian", "no such method", True, tmp_path)
    with pytest.raises(RuntimeError, match="gaussian, no such method: its process ended"):
        lost.ready()
    lost.stop()


RESULTS = [Result("toy", "Toy tokens", "2026-01-01", [Row("ours", 0.001, 2.0), Row("peer", 0.1, 3.0, 100.0)])]


def test_results_are_kept_by_case_and_by_machine(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    report.write(report.merged(RESULTS, path), path)
    again = [replace(RESULTS[0], name="new"), replace(RESULTS[0], title="Changed")]
    report.write(report.merged(again, path), path)
    kept = [Result.from_dict(values) for values in report.read(path)["cases"]]
    assert [(result.name, result.title) for result in kept] == [("toy", "Changed"), ("new", "Toy tokens")]
    assert kept[0].rows == RESULTS[0].rows
    report.check_same_machine(path)
    report.write(report.read(path) | {"machine": machine() | {"numpy": "0.1"}}, path)
    with pytest.raises(ValueError, match=r"`out` must be a new file.* measured with numpy 0\.1\. Name another file"):
        report.check_same_machine(path)


def test_the_markdown_table_goes_between_its_marks() -> None:
    table = tables.markdown([report.document(RESULTS)])
    assert "| **`toy`** Toy tokens | | |  | | |\n| ours | 1 | 2 |  |  |  |\n| peer | 100 | 3 | 100 |  |  |" in table
    text = f"Before\n{report.BEGIN}\nold\n{report.END}\nAfter\n"
    assert report.fill(text, "new") == f"Before\n{report.BEGIN}\nnew\n{report.END}\nAfter\n"
    with pytest.raises(ValueError, match="`markdown` must be a file with the marks"):
        report.fill("no marks", "new")


def test_the_readme_shows_the_results_in_the_repository() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    documents = tables.recorded(ROOT / "benchmarks" / "results" / "cpu.json")
    assert report.fill(text, tables.markdown(documents)) == text
    assert {result["name"] for values in documents for result in values["cases"]} <= CASES.keys()


def test_the_readme_shows_what_was_measured_on_a_gpu() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    found = json.loads((ROOT / "benchmarks" / "results" / "gpu.json").read_text(encoding="utf-8"))
    assert report.fill(text, gpu.markdown(found), report.GPU) == text
    for row in found["rows"]:
        again = gpu.row(row["case"], row["how"], row["ours ms"], row["other ms"], (0, 0), row["target"] or None)
        assert (again["times as fast"], again["reached?"]) == (row["times as fast"], row["reached?"])


@pytest.mark.parametrize("name", ["sweeps", "corpora"])
def test_the_readme_shows_what_sweeps_and_corpora_cost(name: str) -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    found = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    assert report.fill(text, STUDIES[name].table(found), STUDIES[name].mark) == text


def test_the_page_on_speed_says_what_the_study_found() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "decided.json").read_text(encoding="utf-8"))["rows"]
    half = [row for row in rows if row["alpha"] == 0.5]
    clouds, most = sum(row["certified"] for row in half), max(row["most"] for row in half)
    page = " ".join((ROOT / "docs" / "speed.md").read_text(encoding="utf-8").split())
    assert f"all of {clouds} clouds of 10 to 100,000 Gaussian tokens were decided after at most {most} layers" in page
    assert clouds == 10 * len(half)


def test_curves_of_a_study_end_where_a_run_takes_too_long(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(scaling, "METHODS", {2: ("numpy",)})
    monkeypatch.setattr(scaling, "LIMIT", 0.0)
    rows = scaling.curves(quick=True)
    assert [(row["tokens"], row["n"]) for row in rows] == [("gaussian", 100), ("sphere", 100)]
    assert "d = 2, gaussian, numpy, n = 100" in capsys.readouterr().out


def test_sizes_are_compared_where_the_formula_says_the_same(monkeypatch) -> None:
    found = sizes.measure(quick=True)
    assert [row["what"] for row in found["rows"]] == [size.words for size in sizes.SIZES]
    compared = [row["times as fast"] for row in found["rows"] if row["times as fast"] != ""]
    assert len(compared) == sum(size.peer is not None for size in sizes.SIZES)
    assert all(ratio > 0 for ratio in compared)
    table = sizes.markdown(found | {"machine": machine()})
    assert "| `Sphere`, beta = 9, t = 5, d = 3 | 20 | " in table
    monkeypatch.setattr(sizes, "AGREE", 0.0)
    assert "answers differ" in [row["times as fast"] for row in sizes.measure(quick=True)["rows"]]


def test_studies_are_drawn() -> None:
    rows = [
        {"d": d, "tokens": kind, "method": "numpy", "n": n, "seconds": 1e-6 * n}
        for d in (2, 3, 16, 128)
        for kind in scaling.KINDS
        for n in (100, 1000)
    ]
    figure = plots.draw_scaling({"rows": rows})
    assert [ax.get_title() for ax in figure.axes] == ["d = 2", "d = 3", "d = 16", "d = 128"]
    assert len(figure.axes[0].lines) == 3  # two curves, and where they end
    plt.close(figure)
    assert [name for name, study in STUDIES.items() if study.picture] == ["scaling", "decided"]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_the_command_lists_its_cases(run) -> None:
    code, out, _ = run("--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [*CASES, *STUDIES]


def test_the_command_measures_and_writes(run, tmp_path: Path) -> None:
    (tmp_path / "table.md").write_text(f"{report.BEGIN}\n{report.END}\n")
    code, out, err = run("gaussian", "--quick", "--out", "cpu.json", "--markdown", "table.md")
    assert code == 0
    assert "sizes 20 times smaller" in out
    assert "triple loop in Python" in out
    assert "Wrote cpu.json" in err
    (only,) = report.read(tmp_path / "cpu.json")["cases"]
    assert [row["method"] for row in only["rows"]][:2] == ["simulate", "triple loop in Python"]
    assert "triple loop in Python" in (tmp_path / "table.md").read_text()


def test_answers_that_differ_exit_with_1_and_json_says_why(run, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(CASES["gaussian"], agrees=lambda ours, theirs: False)
    methods = {method.name: method for method in other.methods(True)}
    monkeypatch.setitem(CASES, "gaussian", other)
    monkeypatch.setattr(sys.modules["benchmarks.measure"], "Child", lambda case, name, *_: Local(methods[name]))
    code, out, _ = run("gaussian", "--quick", "--json")
    assert code == 1
    assert "triple loop in Python chooses other sets" in json.loads(out)["cases"][0]["refused"]


def test_the_command_draws_a_study(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.decided.SEEDS", 2)
    code, out, _ = run("decided", "--quick", "--out", "decided.json", "--plot", "decided.png")
    assert code == 0
    assert "alpha" in out
    assert json.loads((tmp_path / "decided.json").read_text())["rows"][0]["certified"] == 2
    assert (tmp_path / "decided.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no_such"], "`NAME` must be one of plane_gaussian, "),
        (["gaussian", "scaling"], "`NAME` must be scaling alone, or cases. Got 2 names."),
        (["gaussian", "--out", "table.csv"], "`--out` must end in .json. Got 'table.csv'."),
        (["gaussian", "--plot", "a.png"], "`--plot` must go with scaling or decided. Got 'gaussian'."),
        (["scaling", "--plot", "a.gif"], "`--plot` must end in one of .png, .svg, .pdf. Got 'a.gif'."),
        (["gaussian", "--markdown", "a.md"], "`--markdown` must go with cases and --out"),
    ],
)
def test_bad_input_is_a_sentence(run, arguments: list[str], sentence: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert sentence in err


def test_a_gpu_is_asked_for_in_a_sentence(run) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    code, _, err = run("gpu")
    assert code == 2
    assert "`gpu` must" in err
    assert "`--plot` must go with scaling or decided" in run("gpu", "--plot", "a.png")[2]
