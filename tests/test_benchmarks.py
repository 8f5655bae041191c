"""Benchmarks form ratios only of answers that agree, and record results by case and by
kind of machine.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from benchmarks import (
    CASES,
    FAMILIES,
    engine,
    flows,
    machine,
    report,
    runner,
)
from benchmarks.__main__ import main
from benchmarks.clustering import are_same_partitions, growth_row
from benchmarks.machine import AVX2_ONLY, instructions
from benchmarks.registry import Case, Method, Result, Row, Target
from benchmarks.runner import measure
from benchmarks.search import (
    choice,
    draw_tokens,
    float_choice,
    loop_over_tokens,
    same_sets,
    triple_loop,
)

import hardmax as hm


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch):
    monkeypatch.setattr(runner, "TURN", 1e-4)


def method(name, answer, **options):
    return Method(
        name,
        lambda: lambda: answer,
        lambda result: {"set": np.array(result)},
        **options,
    )


def case(*methods, **options):
    return Case(
        "toy",
        "Toy",
        lambda quick: list(methods),
        engine.equal,
        "chooses other sets",
        **options,
    )


def test_ratios_are_relative_to_ours_and_only_for_equal_answers():
    timed = [
        method(
            name,
            3,
            seconds=lambda wall, result, s=s: s,
            target=Target(3),
            alone=name == "other size",
        )
        for name, s in {"ours": 0.5, "peer": 2.0, "other size": 1.0}.items()
    ]
    ours, peer, other = measure(case(*timed), local=True).rows
    assert (ours.ratio, peer.ratio, other.ratio) == (None, 4.0, None)
    assert (peer.target, peer.reached, ours.reached) == ("3 times", True, None)
    refused = measure(case(method("ours", 3), method("peer", 4)), local=True)
    assert refused.refused == "peer chooses other sets: no ratio."
    assert not refused.rows
    assert (
        measure(
            case(method("ours", 3), method("softmax", 4, compared=False)), local=True
        )
        .rows[1]
        .ratio
        is not None
    )


def test_a_missing_peer_is_reported_and_an_error_refuses_the_case():
    rows = measure(
        case(
            method("ours", 1), method("peer", 1, package="no_such"), method("last", 1)
        ),
        local=True,
    ).rows
    assert rows[1].measured.startswith("not installed")
    assert rows[2].ratio is not None
    assert measure(
        case(Method("ours", lambda: lambda: int("x"), lambda result: {})), local=True
    ).refused
    assert len(CASES) == sum(
        len(family.CASES) for family in FAMILIES
    )  # names are distinct


def test_slow_methods_need_slow_and_quick_has_no_targets():
    toy = case(method("ours", 1), method("peer", 1, slow=True, target=Target(1e9)))
    assert [row.method for row in measure(toy, local=True).rows] == ["ours"]
    assert measure(toy, local=True, slow=True).rows[1].reached is False
    assert measure(toy, local=True, slow=True, quick=True).rows[1].reached is None


@pytest.mark.parametrize(
    ("seconds", "runs"), [(25.0, 1), (8.0, 2), (4.0, 3), (0.5, 6), (0.001, 30)]
)
def test_the_number_of_turns_depends_on_the_speed(seconds, runs):
    calls = []
    toy = Method(
        "ours",
        lambda: lambda: calls.append(1),
        lambda result: {},
        seconds=lambda wall, result: seconds,
    )
    measure(case(toy), local=True)
    assert len(calls) == runs


def test_a_lost_child_process_is_an_error():
    lost = runner.Child("gaussian", "no such method", True)
    with pytest.raises(RuntimeError, match="no such method"):
        lost.prepare()
    lost.stop()


def test_float_answers_agree_only_within_the_rounding_of_their_type():
    tokens = np.array([[1.0, 0.0], [1.0 + 1e-9, 0.0], [0.5, 0.5], [0.0, -1.0]])
    sets = hm.argmax_sets(tokens)
    ours = choice(sets.starts, sets.members, tokens)
    assert sets.targets.tolist() == [1, 1, 1, 3]
    assert same_sets(ours, float_choice(np.array([0, 1, 1, 3]), "float32"))
    assert not same_sets(ours, float_choice(np.array([0, 1, 1, 3]), "float64"))
    for wrong in ([2, 1, 1, 3], [-1, 1, 1, 3], [1, 1, 1]):
        assert not same_sets(ours, float_choice(np.array(wrong), "float32"))
    assert not same_sets(ours, choice(sets.starts, np.array([0, 1, 1, 3])))
    tokens = draw_tokens("gaussian", 60, 2).reshape(3, 20, 2)
    sets = hm.argmax_sets(tokens)
    theirs = (tokens @ tokens.swapaxes(1, 2)).argmax(-1)
    for last, agrees in (
        (theirs[2], True),
        (theirs[2, ::-1], False),
    ):  # a batch is compared set by set
        found = float_choice(np.stack([*theirs[:2], last]), "float64")
        assert same_sets(choice(sets.starts, sets.members, tokens), found) is agrees


def test_loops_agree_with_the_definition():
    tokens = hm.configuration("gaussian", n=30, d=3)
    ours = hm.simulate(tokens, hm.Hardmax(0.5), layers=6)
    assert engine.equal(
        engine.history(triple_loop(tokens.tolist(), 0.5, 6)),
        engine.trajectory_history(ours),
    )
    assert loop_over_tokens(tokens) == hm.argmax_sets(tokens)


def test_the_loop_of_the_flow_is_of_order_one():
    tokens, V = hm.configuration("ball", n=6, d=2), hm.matrix("paper-2d")
    exact = hm.simulate(
        tokens, hm.SelfAttention(V=V), times=[0, 1], rtol=1e-11
    ).rescaled[-1]
    loop = partial(flows.euler_loop, tokens.tolist(), V.tolist(), 1.0)
    errors = [np.abs(np.array(loop(dt)) - exact).max() for dt in (0.02, 0.01)]
    assert 1.8 < errors[0] / errors[1] < 2.2
    assert flows.is_no_worse({"error": errors[1]}, {"error": errors[0]})
    assert not flows.is_no_worse({"error": errors[0]}, {"error": errors[1]})


FAST = [
    "training_step",
    "classifier_step_2",
    "classifier_step_16",
    "vectors_2",
    "flow_attention_100_2",
]
SLOW = [
    "clustering_5000",
    "control",
    "batch_limit",
    "radius_plane",
    "gathered",
    "ties_hull",
    "flow_sphere_1000x40_3",
]


@pytest.mark.parametrize(
    "name", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_a_case_of_each_family_agrees_at_a_small_size(name):
    result = measure(CASES[name], quick=True, local=True)
    assert not result.refused
    assert any(row.ratio for row in result.rows)


def test_growth_is_the_slope_and_partitions_agree_up_to_names():
    rows = [
        Row(f"limit, n = {n:,}", 1e-6 * n**1.5 * 7, facts={"layers": 7})
        for n in engine.LIMIT_SIZES
    ]
    (row,) = engine.limit_growth(rows)
    assert (row.measured, row.reached) == ("n^1.50", False)
    rows = [
        Row("hardmax", 20.0),
        *(Row(f"hardmax, n = {n:,}", n / 1000) for n in (1000, 2000, 10_000)),
    ]
    assert [row.measured for row in growth_row(rows)] == ["n^1.00"]
    labels = np.arange(100) % 5
    assert are_same_partitions({"labels": labels}, {"labels": 7 - labels})
    assert not are_same_partitions({"labels": labels}, {"labels": labels // 2})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the peak")
def test_peak_memory_includes_what_numpy_allocates():
    # A process of its own: the memory of a large one may shrink at any time.
    program = (
        "import numpy as np; from benchmarks.machine import with_peak;"
        " print(with_peak(lambda: np.ones(10_000_000).sum())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) == pytest.approx(80, abs=8)


RESULT = Result(
    "toy",
    "Toy tokens",
    "2026-01-01",
    [Row("ours", 0.001, 2.0), Row("peer", 0.1, 3.0, 100.0)],
)


def test_results_are_kept_by_case_and_by_machine(tmp_path):
    path = tmp_path / "cpu.json"
    report.write(report.merge([RESULT], path), path)
    report.write(
        report.merge(
            [replace(RESULT, name="new"), replace(RESULT, title="Changed")], path
        ),
        path,
    )
    kept = report.cases_by_name(report.read(path))
    assert {name: result.title for name, result in kept.items()} == {
        "toy": "Changed",
        "new": "Toy tokens",
    }
    assert kept["toy"].rows == RESULT.rows
    report.check_same_machine(path)
    report.write(
        report.read(path) | {"machine": machine.machine() | {"numpy": "0.1"}}, path
    )
    with pytest.raises(ValueError, match=r"`out`.*numpy 0\.1"):
        report.check_same_machine(path)


def test_gpu_cases_need_no_package_of_other_cases():
    hide = (
        "import sys; sys.modules |= dict.fromkeys(['numba', 'faiss', 'sklearn',"
        " 'cvxpy', 'diffrax', 'jax'])"
    )
    subprocess.run(
        [sys.executable, "-c", f"{hide}; import benchmarks.gpu"],
        cwd=machine.ROOT,
        check=True,
    )


USED_INSTRUCTIONS = """
import json
import numpy as np, numba, faiss, torch
from numpy._core._multiarray_umath import __cpu_features__
total = numba.njit(fastmath=True)(lambda a: (a * a).sum())
total(np.ones(1000))
code = "".join(total.inspect_asm().values())
features = [name for name in ("X86_V4", "AVX512_SKX") if __cpu_features__.get(name)]
print(json.dumps(["zmm" in code, features, faiss.SIMDConfig.get_level_name(), torch.backends.cpu.get_cpu_capability()]))
"""


@pytest.mark.skipif(
    instructions() != "AVX-512", reason="needs a processor with AVX-512"
)
def test_restricted_libraries_use_no_avx512(monkeypatch, tmp_path):
    for package in ("faiss", "torch"):
        pytest.importorskip(package)
    command = [sys.executable, "-c", USED_INSTRUCTIONS]
    done = subprocess.run(
        command, env=os.environ | AVX2_ONLY, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [False, [], "AVX2", "AVX2"]
    monkeypatch.setenv(machine.MARK, "avx2")
    assert machine.results_file(tmp_path / "cpu.json").name == "cpu_avx2.json"
    assert machine.machine()["instructions"] == "AVX2 (kept from AVX-512)"


def test_the_command_measures_and_writes(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("table.md").write_text(f"{report.BEGIN}\n{report.END}\n")
    assert (
        main(["gaussian", "--quick", "--out", "cpu.json", "--markdown", "table.md"])
        == 0
    )  # in child processes
    assert "simulate (numpy)" in " ".join(capsys.readouterr().out.split())
    (only,) = report.read(tmp_path / "cpu.json")["cases"]
    assert [row["method"] for row in only["rows"]][:2] == [
        "simulate",
        "triple loop in Python",
    ]
    assert "triple loop in Python" in Path("table.md").read_text()
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(
        CASES
    )


def test_answers_that_differ_give_exit_code_1(capsys, monkeypatch):
    other = replace(CASES["gaussian"], agrees=lambda ours, theirs: False)
    methods = {method.name: method for method in other.methods(True)}
    monkeypatch.setitem(CASES, "gaussian", other)
    monkeypatch.setattr(
        runner, "Child", lambda case, name, quick: runner.Local(methods[name])
    )
    assert main(["gaussian", "--quick", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["cases"][0]["refused"]


def test_invalid_arguments_are_named(capsys, monkeypatch):
    for arguments, name in (
        (["no_such"], "NAME"),
        (["gaussian", "--out", "a"], "--out"),
        (["--markdown", "a"], "--mark"),
    ):
        assert main(arguments) == 2
        assert f"`{name}" in capsys.readouterr().err
    monkeypatch.setattr("benchmarks.__main__.instructions", lambda: "AVX2")
    assert main(["gaussian", "--avx2"]) == 0
    assert "no AVX-512" in capsys.readouterr().out
