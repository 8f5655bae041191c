"""The command line as a newcomer meets it: help, tables, files, JSON, exit codes, sentences."""

import inspect
import io
import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from typer.main import get_command

import hardmax as hm
from hardmax.cli.cluster import cluster
from hardmax.cli.control import control
from hardmax.cli.limit import limit
from hardmax.cli.main import app
from hardmax.cli.simulate import simulate
from hardmax.draw import movies, pages
from hardmax.figures import FIGURES


@pytest.fixture
def _short_movies(monkeypatch) -> None:
    """Few frames; that a movie has all of them is shown where movies are."""
    monkeypatch.setattr("hardmax.cli.limit.AFTERWARDS", 2)
    few = movies.even_frames
    for module in (movies, pages):
        monkeypatch.setattr(module, "even_frames", lambda last, most=4: few(last, 4))


def test_version_and_help(run) -> None:
    assert run("--version") == (0, f"hardmax {hm.__version__}\n", "")
    code, out, _ = run("--help")
    assert code == 0
    assert all(word in out for word in ("demo", "simulate", "limit", "verify", "reproduce", "leaders"))
    assert "CSV" in run("simulate", "--help")[1]
    assert "demo" in run()[1]


def test_commands_share_the_options_of_a_run() -> None:
    commands = get_command(app).commands
    names = {
        name: {option.name for option in commands[name].params} for name in ("simulate", "limit", "verify", "control")
    }
    assert names["simulate"] - names["verify"] == {"k", "save"}
    assert names["verify"] < names["simulate"]
    assert names["limit"] - names["simulate"] == {"max_layers"}
    assert {"tokens", "n", "d", "seed", "cloud", "json", "out"} < names["control"] & names["limit"]
    flags = {option.name: option.opts for option in commands["limit"].params}
    assert all(option.opts == flags.get(option.name, option.opts) for option in commands["simulate"].params)


def test_simulate_prints_leaders(run) -> None:
    code, out, _ = run("simulate", "emerging-leader")
    assert code == 0
    assert out.startswith("Ran 30 layers on 8 tokens of dimension 2. 3 leaders, the last since layer 1.")
    assert re.search(r"1 +\(-0.05556, 0.1389\) +1 +0.0154", out)


def test_a_kernel_that_does_not_fit_is_refused_in_flags(run) -> None:
    code, _, err = run("limit", "gaussian", "--d", "3", "--kernel", "hull")
    assert code == 2
    assert "`--kernel hull` must have tokens in two dimensions. Got d = 3. Use `--kernel auto`." in err


def test_limit_prints_points_and_radius(run) -> None:
    code, out, _ = run("limit", "edge-clusters")
    assert code == 0
    assert "Certified at layer 0." in out
    assert re.search(r"\(1, 0\) +0.5 x leader 0 \+ 0.5 x leader 1", out)
    assert "Moving each token by less than" in run("limit", "triangle")[1]
    assert "and 80 more" in run("limit", "sphere")[1]


def test_printed_bounds_are_rounded_in_the_safe_direction(run) -> None:
    for seed in range(12):
        tokens = np.random.default_rng(seed).normal(size=(6, 2))
        np.save("tokens.npy", tokens)
        limit = hm.limit(tokens, hm.Hardmax(0.5))
        out = run("limit", "tokens.npy")[1]
        radius = float(re.search(r"by less than (\S+) changes no set", out)[1])
        assert 0.9 * limit.radius < radius <= limit.radius
        trajectory = hm.simulate(tokens, hm.Hardmax(0.5), layers=30)
        for leader in hm.leader_table(trajectory):
            assert float(re.search(r"margin of (\S+?)[, ]", repr(leader))[1]) <= leader.margin
        stopped = hm.limit(tokens, hm.Hardmax(0.01), max_layers=0)
        if not stopped.certified:
            assert float(re.search(r"by more than (\S+?)\. ", stopped.status)[1]) >= stopped.pace


def test_limit_says_no_with_exit_code_1(run) -> None:
    code, out, _ = run("limit", "emerging-leader", "--max-layers", "0")
    assert code == 1
    assert out.startswith(
        "Not certified within 0 layers. 2 leaders, all since layer 0. 7 of 8 tokens are decided; the next layer"
    )
    run("limit", "emerging-leader", "--max-layers", "0", "--out", "page.html")
    assert "Not certified within 0 layers." in Path("page.html").read_text()


def test_verify(run) -> None:
    code, out, _ = run("verify", "gaussian", "--n", "30", "--d", "4", "--alpha", "1/10")
    assert code == 0
    assert len(re.findall(r"\bholds\b", out)) == 8
    code, out, _ = run("verify", "triangle", "--json", "--out", "verdicts.json", "--out", "page.html")
    assert [item["outcome"] for item in json.loads(out)][:5] == ["holds"] * 5
    assert json.loads(Path("verdicts.json").read_text()) == json.loads(out)
    assert "Theorem 1" in Path("page.html").read_text()


def test_verify_exits_1_when_a_statement_fails(run, monkeypatch) -> None:
    false = hm.theorems.Verdict(hm.theorems.Outcome.FAILS, "Made up for this test.", name="F0")
    monkeypatch.setattr(hm.theorems, "check", lambda trajectory: [false])
    assert run("verify", "triangle")[0] == 1


@pytest.mark.usefixtures("_short_movies")
def test_files_of_every_ending(run) -> None:
    endings = ("png", "svg", "pdf", "gif", "npz", "json", "html")
    code, out, _ = run("simulate", "square", "--layers", "2", *[x for e in endings for x in ("--out", f"run.{e}")])
    assert code == 0
    heads = {
        "png": b"\x89PNG",
        "svg": b"<?xml",
        "pdf": b"%PDF",
        "gif": b"GIF8",
        "npz": b"PK",
        "json": b"{",
        "html": b"<!doc",
    }
    for ending, head in heads.items():
        assert f"Wrote run.{ending}" in out
        assert Path(f"run.{ending}").read_bytes().startswith(head)
    assert hm.Trajectory.from_npz("run.npz").layers == 2
    code, _, _ = run("verify", "square", "--layers", "2", "--out", "verify.pdf", "--out", "verify.npz")
    assert code == 0
    assert hm.Trajectory.from_npz("verify.npz").layers == 2
    endings = ("png", "gif", "npz", "json", "html")
    code, _, _ = run("limit", "square", *[x for e in endings for x in ("--out", f"limit.{e}")])
    assert code == 0
    assert Path("limit.gif").read_bytes().startswith(b"GIF8")
    with np.load("limit.npz") as file:
        assert np.array_equal(file["leaders"], [0, 1, 2, 3])
    assert json.loads(Path("limit.json").read_text())["certified"] is True


def test_json_is_the_library_result(run) -> None:
    tokens = hm.configuration("ball", n=12, d=3, seed=4)
    _, out, _ = run("simulate", "ball", "--n", "12", "--d", "3", "--seed", "4", "--layers", "3", "--json")
    assert json.loads(out) == json.loads(hm.simulate(tokens, hm.Hardmax(0.5), layers=3).to_json())
    _, out, _ = run("limit", "ball", "--n", "12", "--d", "3", "--seed", "4", "--json")
    assert json.loads(out)["leaders"] == hm.limit(tokens, hm.Hardmax(0.5)).leaders.tolist()


def test_csv_and_npy_and_matrices(run) -> None:
    tokens = np.array([[1.0, 0.5], [-0.25, 2], [0.1, 0.1]])
    np.save("tokens.npy", tokens)
    np.save("A.npy", [[2.0, 1], [1, 1]])
    Path("tokens.csv").write_text("x,y\n1,0.5\n-0.25,2\n0.1,0.1\n")
    Path("tabs.tsv").write_text("1\t0.5\n-0.25\t2\n0.1\t0.1\n")
    Path("blanks.txt").write_text("\n1 0.5\n-0.25 2\n\n0.1 0.1\n")
    answers = [
        run("simulate", name, "--json", "--A", "A.npy")[1]
        for name in ("tokens.npy", "tokens.csv", "tabs.tsv", "blanks.txt")
    ]
    assert len(set(answers)) == 1
    assert json.loads(answers[0])["tokens"][0] == tokens.tolist()


def test_csv_as_other_programs_write_it(run, monkeypatch) -> None:
    plain = "1,0.5\n-0.25,2\n0.1,0.1\n"
    Path("plain.csv").write_text(plain)
    Path("pandas.csv").write_text(",x,y\n0,1,0.5\n1,-0.25,2\n2,0.1,0.1\n")
    Path("savetxt.csv").write_text("# x y\n" + plain.replace(",", " "))
    Path("excel.csv").write_bytes(b"\xef\xbb\xbfx;y\r\n" + plain.replace(",", ";").replace("\n", "\r\n").encode())
    expected = run("simulate", "plain.csv", "--json")[1]
    for name in ("pandas.csv", "savetxt.csv", "excel.csv"):
        assert run("simulate", name, "--json")[1] == expected
    assert "Left out the first column of pandas.csv, which numbers the rows." in run("simulate", "pandas.csv")[2]
    monkeypatch.setattr("sys.stdin", io.StringIO(plain))
    assert run("simulate", "-", "--json")[1] == expected


def test_whole_numbers_beyond_floats_stay_apart(run) -> None:
    Path("big.csv").write_text("9007199254740993,1\n9007199254740992,1\n-5,-5\n")
    assert json.loads(run("limit", "big.csv", "--json")[1])["leaders"] == [0, 2]
    Path("turned.csv").write_text(
        "9007199254740992,1\n9007199254740993,1\n-5,-5\n"
    )  # as floats the first two are equal
    assert json.loads(run("limit", "turned.csv", "--json")[1])["leaders"] == [1, 2]


def test_batches_are_asked_for_one_cloud(run) -> None:
    batch = np.random.default_rng(0).normal(size=(3, 5, 2))
    np.save("batch.npy", batch)
    assert run("simulate", "batch.npy")[1].startswith("Ran 30 layers on 3 token sets of up to 5 tokens")
    code, _, err = run("simulate", "batch.npy", "--out", "a.npz", "--out", "b.png")
    assert code == 2
    assert "`--cloud` must name one of the 3 clouds in batch.npy. Got no choice. Pass a number from 0 to 2." in err
    assert not Path("a.npz").exists()
    assert run("verify", "batch.npy", "--cloud", "7")[0] == 2
    assert "Got -1. Pass a number from 0 to 2." in run("limit", "batch.npy", "--cloud", "-1")[2]
    found = json.loads(run("limit", "batch.npy", "--cloud", "1", "--json")[1])
    assert found["leaders"] == hm.limit(batch[1], hm.Hardmax(0.5)).leaders.tolist()


def test_one_layer_or_a_row_of_them(run) -> None:
    run("simulate", "triangle", "--out", "row.svg")
    run("simulate", "triangle", "--layer", "2", "--out", "one.svg")
    sizes = [
        float(re.search(r'width="([\d.]+)pt"', Path(name).read_text()).group(1)) for name in ("row.svg", "one.svg")
    ]
    assert sizes[0] > 2 * sizes[1]


def test_decimals_of_a_file_are_decimals(run) -> None:
    Path("tenths.csv").write_text("0.1,0.1\n0.1,-0.1\n-0.1,0\n0.03,0\n")
    Path("ratios.csv").write_text("1/3,1/3\n1/3,-1/3\n-1/3,0\n1/10,0\n")
    for name in ("tenths.csv", "ratios.csv"):
        for exact in ([], ["--exact"]):
            _, out, _ = run("limit", name, "--json", *exact)
            assert json.loads(out)["weights"][3] == [0.5, 0.5, 0]
    Path("tie.csv").write_text("0.6,0.8\n1.0,0.0\n-0.7,-0.7\n0.2,0.1\n")
    _, out, _ = run("limit", "tie.csv", "--json")
    assert len(json.loads(out)["points"]) == 4
    assert json.loads(out)["tokens"][3] == [0.8, 0.4]
    floats = hm.limit([[0.6, 0.8], [1.0, 0.0], [-0.7, -0.7], [0.2, 0.1]], hm.Hardmax(0.5))
    assert len(floats.points) == 3  # of the floats nearest to them


def test_numbers_are_written_out(run) -> None:
    Path("tokens.csv").write_text("0.6,0.8\n1,0\n-0.7,-0.7\n")
    Path("A.csv").write_text("2,1\n1,1\n")
    written = run("limit", "0.6,0.8; 1,0; -0.7,-0.7", "--A", "2,1;1,1", "--json")
    assert written == run("limit", "tokens.csv", "--A", "A.csv", "--json")
    assert written[0] == 0
    code, _, err = run("limit", "triangle", "--A", "2,1;1")
    assert code == 2
    assert "`2,1;1` must have the same number of columns in each row. Got 1 in line 2, 2 before it." in err
    assert "must be finite. Got nan at index (1, 0)" in run("limit", "1,2;nan,1")[2]
    assert "Got 'x' in line 2, column 1" in run("limit", "1,2;x,1")[2]
    assert "`1,2.csv` must be a file. Got none by that name." in run("limit", "1,2.csv")[2]


def test_decimals_of_a_matrix_and_of_a_step_are_decimals(run) -> None:
    Path("A.csv").write_text("0.3,0.1\n0.1,0.3\n")
    code, _, err = run("simulate", "triangle", "--A", "A.csv", "--alpha", "0.1", "--layers", "3", "--out", "run.npz")
    assert (code, err) == (0, "")
    rule = hm.Trajectory.from_npz("run.npz").rule
    assert rule.steps == (Fraction(1, 10),)
    assert rule.matrix[0, 0] == Fraction(3, 10)
    for other in ("softmax", "self-attention"):
        weight = ["--A", "A.csv", "--alpha", "0.1"] if other == "softmax" else ["--V", "A.csv", "--time", "1"]
        assert run("simulate", "tenths.csv", "--rule", other, *weight)[0] == 2  # no such file
        Path("cloud.csv").write_text("0.1,0.2\n0.3,-0.7\n")
        assert run("simulate", "cloud.csv", "--rule", other, *weight)[0] == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must hold one token per row. Got an empty file"),
        ("x,y\n1,2\n3,four\n", "Got 'four' in line 3, column 2"),
        ("1,2\n3\n", "Got 1 in line 2, 2 before it"),
        ("1,nan\n2,3\n", "`TOKENS` must be finite. Got nan at index (0, 1)"),
        ("1,inf\n", "`TOKENS` must be finite. Got inf"),
        ("1,1/0\n", "Got '1/0' in line 1, column 2"),
        ("1,1e-999999999\n", "Got '1e-999999999' in line 1, column 2"),
        ("a,b\nc,d\n", "Got 'c' in line 2, column 1"),
        ("x,y\n", "Got a header or text alone"),
        ("1,2,\n3,4,\n", "Got an empty cell in line 1, column 3"),
        ("1,5;2,5\n", "Got '1,5' in line 1, column 1. Write decimals with a point"),
        ("word\n", "Got a header or text alone. Add rows of numbers"),
    ],
)
def test_bad_csv_gets_a_sentence(run, text: str, sentence: str) -> None:
    Path("bad.csv").write_text(text)
    code, out, err = run("simulate", "bad.csv", "--out", "never.png")
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert sentence in err
    assert not Path("never.png").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["simulate", "trangle"], "one of triangle, emerging-leader, square, edge-clusters, gaussian"),
        (["simulate", "trangle"], "Got 'trangle'. Did you mean 'triangle'?"),
        (["simulate", "Triangle"], "Did you mean 'triangle'?"),
        (["simulate", "triangle", "--rule", "self-atention"], "Did you mean 'self-attention'?"),
        (["simulate", "triangle", "--A", "indentity"], "Did you mean 'identity'?"),
        (["simulate", "qwxz"], "Check the spelling, or save the numbers as CSV."),
        (["reproduce", "polytop"], "Did you mean 'polytope'?"),
        (["simulate", "missing.csv"], "must be a file. Got none by that name"),
        (["simulate", "triangle", "--alpha", "-1"], "`--alpha` must be a positive finite number"),
        (
            ["simulate", "triangle", "--alpha", "big"],
            "`--alpha` must be a positive number, a ratio or a list. Got 'big'",
        ),
        (["simulate", "triangle", "--ties", "some"], "`--ties` must be \"exact\" or a number in [0, 1). Got 'some'"),
        (["simulate", "triangle", "--layers", "-1"], "`--layers` must be an integer of at least 0. Got -1"),
        (["simulate", "triangle", "--out", "run.doc"], "`--out` must end in one of .png"),
        (["simulate", "triangle", "--n", "4"], "`--n` and `--d` must go with gaussian, ball, sphere"),
        (["limit", "triangle", "--A", "saddle.csv"], "whose smallest eigenvalue is -1. Pass `--any-A`"),
        (
            ["limit", "gaussian", "--d", "3", "--A", "saddle.csv", "--any-A"],
            "with d = 2, the size of `--A`. Got (100, 3)",
        ),
        (["limit", "junk.npy"], "Got a broken file, or one with Python objects, which are never loaded"),
        (["limit", "bytes.csv"], "must be text in UTF-8"),
        (
            ["limit", "triangle", "--out", "file.txt/x.png"],
            "must be a file that can be written. Got: Its folder is a file. Choose",
        ),
        (["reproduce", "fig3"], "`FIGURE` must be one of fig1, fig2, fig4, fig5, accuracy, losses"),
        (["reproduce", "fig1", "--format", "bmp"], "`--format` must be png, svg or pdf. Got 'bmp'"),
    ],
)
def test_bad_arguments_get_a_sentence(run, arguments: list[str], sentence: str) -> None:
    Path("saddle.csv").write_text("1,2\n2,1\n")
    Path("junk.npy").write_bytes(b"\x93NUMPY but not really")
    Path("bytes.csv").write_bytes(b"\xff\xfe\x00")
    Path("file.txt").touch()
    before = sorted(Path().iterdir())
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert sorted(Path().iterdir()) == before


def test_unknown_commands_and_options_exit_with_2(run) -> None:
    assert run("dance")[0] == 2
    assert run("simulate")[0] == 2
    assert run("simulate", "triangle", "--speed", "9")[0] == 2


def test_reproduce(run) -> None:
    code, out, _ = run("reproduce", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(FIGURES)
    assert run("reproduce", "fig1", "--format", "svg")[0] == 0
    assert Path("figures/fig1_half_space.svg").exists()


def test_a_table_of_clusters_names_leaders_only_where_there_are_some(run) -> None:
    soft = run("simulate", "gaussian", "--n", "30", "--rule", "softmax", "--layers", "12")[1]
    assert "how many tokens" in soft
    assert "led by" not in soft
    assert "led by token" in run("simulate", "gaussian", "--n", "10", "--rule", "self-attention")[1]


@pytest.mark.slow
def test_the_demo_is_the_same_on_every_run(run) -> None:
    assert run("demo", "--out", "one")[0] == run("demo", "--out", "two")[0] == 0
    page = Path("one/index.html").read_text()
    assert Path("two/index.html").read_text() == page
    assert Path("one/index.html").stat().st_size < 3_000_000
    assert all(f"Proved: Theorem {number} of arXiv 2305.05465." in page for number in ("3.1", "4.2", "5.2"))
    anchors = re.findall(r'<h2 id="([^"]+)">', page)
    assert len(anchors) == 11  # four inputs and their theorems, three value matrices, chosen leaders, two reviews
    assert re.findall(r'<li><a href="#([^"]+)">', page) == anchors
    assert page.count("F1 hull") == page.count("Theorem 4<br>") == 1  # one table for the four
    assert page.count('<span class="verdict holds">') > 30
    assert "Found: tokens 45 and 47 lead." in page
    assert "pos with probability" in page
    assert "neg with probability" in page
    assert page.count("Certified at layer") == 4
    assert 'class="verdict fails"' not in page
    loads = re.findall(r"""(?:src|href)=["']([^#"'][^"']{0,29})""", page) + re.findall(r"url\(([^)]{0,30})", page)
    assert loads
    assert all(target.startswith("data:image/svg+xml;base64,") for target in loads)


def test_the_same_files_on_every_run(run) -> None:
    for name in ("a.svg", "b.svg"):
        run("simulate", "triangle", "--out", name)
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


FLOW = ["simulate", "gaussian", "--n", "12", "--rule", "self-attention"]


def test_self_attention_says_what_to_expect_and_who_gathers(run) -> None:
    code, out, _ = run(*FLOW, "--V", "paper-2d", "--seed", "1")
    assert code == 0
    assert "of rescaled tokens in the leading directions of V at the end" in out
    assert "Proved: Theorem 4.2 of arXiv 2305.05465." in out
    assert "Clusters at the end" in out


@pytest.mark.usefixtures("_short_movies")
@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "gif", "mp4", "npz", "json", "html"])
def test_flows_are_written_by_their_ending(run, ending: str) -> None:
    path = Path(f"flow.{ending}")
    assert run(*FLOW, "--time", "2", "--out", str(path))[0] == 0
    assert path.stat().st_size > 1000
    if ending == "npz":
        trajectory = hm.Trajectory.from_npz(path)
        assert isinstance(trajectory, hm.SmoothTrajectory)
        assert trajectory.times[-1] == 2
    if ending == "json":
        assert json.loads(path.read_text())["rule"] == {
            "rule": "SelfAttention",
            "Q": None,
            "K": None,
            "V": None,
            "causal": False,
        }


def test_every_rule_has_its_options(run) -> None:
    sphere = ["simulate", "sphere", "--n", "10", "--d", "3", "--rule", "sphere", "--time", "3"]
    assert "Ran from t = 0 to 3 on 10 tokens" in run(*sphere, "--beta", "4")[1]
    assert run(*sphere, "--beta", "4", "--json")[1] != run(*sphere, "--beta", "4", "--unnormalized", "--json")[1]
    softmax = ["simulate", "gaussian", "--n", "10", "--rule", "softmax", "--layers", "20"]
    assert run(*softmax, "--temperature", "0.01", "--json")[1] != run(*softmax, "--json")[1]
    assert run(*softmax, "--causal", "--json")[1] != run(*softmax, "--json")[1]
    stats = json.loads(run(*FLOW, "--method", "euler", "--dt", "0.1", "--time", "1", "--json")[1])["stats"]
    assert (stats["method"], stats["dt"], stats["steps"]) == ("euler", 0.1, 10)
    assert "With a causal mask no theorem decides" in run("simulate", "triangle", "--causal")[1]


def test_a_run_that_stops_early_has_exit_code_1(run) -> None:
    code, out, _ = run(*FLOW, "--max-steps", "2")
    assert code == 1
    assert "after 2 steps, the most allowed. Raise `--max-steps`, loosen `--rtol`" in out


def test_causal_attention_is_not_called_proved(run) -> None:
    assert "OPEN: attention is causal." in run(*FLOW, "--causal")[1]


def test_batches_of_flows(run) -> None:
    np.save("batch.npy", np.random.default_rng(0).normal(size=(2, 5, 2)))
    flow = ["simulate", "batch.npy", "--rule", "self-attention"]
    assert "pass --cloud with its number" in run(*flow)[1]
    assert "Clusters at the end" in run(*flow, "--cloud", "1")[1]
    np.save("one.npy", np.eye(2))
    assert "`--cloud` must go with a batch" in run("simulate", "one.npy", "--cloud", "0")[2]


def test_matrices_come_from_files_too(run) -> None:
    np.save("V.npy", np.diag([2.0, 1.0]))
    Path("Q.csv").write_text("1,0\n0,2\n")
    code, out, _ = run(*FLOW, "--V", "V.npy", "--Q", "Q.csv", "--json")
    rule = json.loads(out)["rule"]
    assert code == 0
    assert (rule["V"], rule["Q"]) == ([[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]])


def test_two_random_matrices_differ(run) -> None:
    rule = json.loads(run(*FLOW, "--Q", "random", "--K", "random", "--json", "--time", "1")[1])["rule"]
    assert rule["Q"] != rule["K"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rule", "soft"], "`--rule` must be one of hardmax, softmax, self-attention, sphere. Got 'soft'."),
        (
            ["--rule", "sphere", "--alpha", "3"],
            "`--alpha` must go with --rule hardmax or softmax. Got it with --rule",
        ),
        (["--V", "identity"], "`--V` must go with --rule self-attention. Got it with --rule hardmax"),
        (["--rule", "softmax", "--temperature", "0"], "`--temperature` must be a positive finite number. Got 0.0."),
        (
            ["--rule", "self-attention", "--V", "paper-3d"],
            "`--V` must have the size of the tokens, 2. Got paper-3d",
        ),
        (["--rule", "self-attention", "--V", "none.npy"], "`none.npy` must be a file. Got none by that name."),
        (["--rule", "self-attention", "--time", "-3"], "`--time` must be a positive finite number. Got -3.0. Try 15."),
        (["--rule", "self-attention", "--method", "rk9"], "`--method` must be one of DOP853, RK45"),
        (["--rule", "self-attention", "--method", "rk4"], '"rk4" needs `--dt`, the length of its steps'),
        (["--rule", "self-attention", "--dt", "0.1"], '"DOP853" chooses its own steps'),
        (["--rule", "self-attention", "--V", "paper-4d"], "`--V` must be a .csv or .npy file, or one of identity"),
        (["--rule", "self-attention", "--time", "nan"], "`--time` must be a positive finite number. Got nan. Try 15."),
        (["--rule", "sphere", "--no-normalize"], "`--no-normalize` must go with --rule hardmax or softmax."),
        (["--rule", "self-attention", "--layer", "3"], "`--layer` must go with a rule that has layers."),
        (["--layer", "99", "--out", "x.png"], "`--layer` must be a saved layer: layers 0 to 30. Got 99."),
    ],
)
def test_bad_options_of_rules_get_a_sentence(run, arguments: list[str], sentence: str) -> None:
    code, _, errors = run("simulate", "gaussian", "--n", "6", *arguments)
    assert code == 2
    assert sentence in errors


def test_verify_flows(run) -> None:
    flow = ["--rule", "self-attention"]
    code, out, _ = run("verify", "gaussian", "--n", "12", "--d", "3", *flow, "--V", "paper-product")
    assert code == 0
    assert re.search(r"polytope times subspace\s+holds", out)
    code, out, _ = run("verify", "gaussian", "--n", "12", "--rule", "softmax")
    assert code == 0
    assert "OPEN: no theorem speaks of Softmax." in out
    assert run("verify", "gaussian", "--n", "12", *flow, "--out", "page.html")[0] == 0
    assert "polytope</td>" in Path("page.html").read_text()
    verdicts = json.loads(run("verify", "gaussian", "--n", "9", "--rule", "self-attention", "--json")[1])
    assert [v["conjecture"] for v in verdicts] == [False] * 5 + [True] * 2


@pytest.mark.parametrize("dt", ["0", "nan", "-1", "inf"])
@pytest.mark.parametrize("command", ["simulate", "verify"])
def test_a_step_that_is_no_length_is_refused(run, command, dt):
    flow = ("--rule", "self-attention", "--method", "euler", "--dt", dt)
    code, _, err = run(command, "gaussian", "--n", "5", *flow)
    assert code == 2
    assert "`--dt` must be a positive finite number." in err
    assert run(command, "gaussian", "--n", "5", *flow, "--time", "1")[0] == 2


def test_positions_and_limits_as_tables(run) -> None:
    run("simulate", "0,1;1/3,0;-1,-1", "--layers", "2", "--out", "t.csv")
    rows = [line.split(",") for line in Path("t.csv").read_text().splitlines()]
    trajectory = hm.simulate([[0, 1], [Fraction(1, 3), 0], [-1, -1]], hm.Hardmax(0.5), layers=2)
    assert rows[0] == ["layer", "token", "x1", "x2"]
    assert [row[:2] for row in rows[1:]] == [[str(k), str(i)] for k in range(3) for i in range(3)]
    assert np.array([row[2:] for row in rows[1:]], float).reshape(3, 3, 2).tolist() == trajectory.array.tolist()
    run("limit", "triangle", "--out", "l.csv")
    rows = [line.split(",") for line in Path("l.csv").read_text().splitlines()]
    found = hm.limit(hm.configuration("triangle"), hm.Hardmax(0.5))
    assert rows[0] == ["token", "x1", "x2", "point", "leads"]
    assert [int(row[0]) for row in rows[1:] if row[4] == "True"] == found.leaders.tolist()
    assert np.array([row[1:3] for row in rows[1:]], float).tolist() == found.tokens.tolist()
    np.save("batch.npy", np.random.default_rng(0).normal(size=(2, 3, 2)))
    run("simulate", "batch.npy", "--rule", "self-attention", "--time", "1", "--out", "b.csv")
    rows = [line.split(",") for line in Path("b.csv").read_text().splitlines()]
    assert rows[0] == ["time", "set", "token", "x1", "x2"]
    assert rows[-1][:3] == ["1.0", "1", "2"]


def test_the_last_layer_alone(run) -> None:
    assert run("simulate", "triangle", "--save", "last", "--out", "t.csv", "--out", "t.png")[0] == 0
    assert {line.split(",")[0] for line in Path("t.csv").read_text().splitlines()} == {"layer", "30"}
    assert "`--save` must be" in run("simulate", "triangle", "--save", "first")[2]


def test_tokens_are_brought_to_the_sphere(run) -> None:
    code, _, err = run("simulate", "3,4;0,2", "--rule", "sphere", "--time", "1", "--out", "s.csv")
    assert (code, err) == (0, "Tokens were divided by their lengths, to lie on the unit sphere.\n")
    assert Path("s.csv").read_text().splitlines()[1:3] == ["0.0,0,0.6,0.8", "0.0,1,0.0,1.0"]
    assert run("simulate", "1,0;0,1", "--rule", "sphere", "--time", "1")[2] == ""
    code, _, err = run("simulate", "1,0;0,0", "--rule", "sphere")
    assert code == 2
    assert "`TOKENS` must have a direction to lie on the unit sphere. Got one that is 0 or not finite." in err


def test_a_narrow_terminal_gets_lines_instead_of_broken_words(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = run("simulate", "triangle")
    assert "token 1\n  position: (0.5, -0.5)" in out
    assert "  followers at the end: 2" in out
    monkeypatch.setenv("COLUMNS", "80")
    assert "token   position" in run("simulate", "triangle")[1]


@pytest.mark.parametrize("name", ["file/x.png", "folder.png"])
@pytest.mark.parametrize(
    "command", [["limit", "triangle"], ["simulate", "triangle"], ["verify", "triangle"], ["control", "ball", "--only"]]
)
def test_files_that_cannot_be_written_are_found_before_the_work(run, monkeypatch, command, name) -> None:
    Path("file").touch()
    Path("folder.png").mkdir()
    monkeypatch.setattr("hardmax.cli.options.TokenOptions.read_tokens", lambda *_, **__: pytest.fail("work was done"))
    code, out, err = run(*command, "--out", name)
    assert (code, out) == (2, "")
    assert "must be a file that can be written. Got: " in err


def test_a_report_that_cannot_be_written_is_found_before_the_work(run, monkeypatch) -> None:
    monkeypatch.setattr("hardmax.figures.demo.demo", lambda *_: pytest.fail("work was done"))
    Path("file").touch()
    for command, name in (("demo", "file"), ("reproduce", "file"), ("reproduce", "file/more")):
        code, _, err = run(command, "--out", name)
        assert code == 2
        assert f"`{name}` must be a folder that can be written. Got: It" in err
    if Path("/proc").is_dir():  # where even root cannot write
        code, _, err = run("demo", "--out", "/proc/demo")
        assert code == 2
        assert "`/proc/demo` must be a folder that can be written. Got: " in err
    code, _, err = run("demo", "--out", "report.csv")
    assert code == 2
    assert "`--out` must end in .html. Got 'report.csv'. Change the ending." in err
    monkeypatch.setattr("hardmax.figures.demo.demo", lambda *_: "a page")
    assert run("demo", "--out", "report.html")[0] == 0
    assert Path("report.html").read_text() == "a page"


def test_options_without_effect_are_refused(run) -> None:
    for arguments, sentence in (
        (["--only"], "`--leaders` must be given for --followers, --only, --limit, a matrix or a picture."),
        (["--leaders", "3", "--alpha", "0.1,0.5"], "`--alpha` must be one step, unless --limit has several to choose"),
        (["--leaders", "3", "--alpha", "0"], "`--alpha` must be positive. Got '0'."),
        (["--leaders", "3", "--attempts", "4"], "`--attempts` must go with --only."),
        (["--leaders", "3", "--evaluations", "4"], "`--evaluations` must go with --limit."),
        (["--leaders", "3", "--margin", "0.1"], "`--margin` must go with --prefer identity."),
    ):
        code, _, err = run("control", "ball", *arguments)
        assert code == 2
        assert sentence in err


def command(*arguments: object, **more) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "hardmax.cli.main", *map(str, arguments)], **pipes, **more)


def test_a_closed_pipe_is_no_answer() -> None:
    with command("simulate", "gaussian", "--n", "2000", "--layers", "3", "--json") as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait() == 141
        assert process.stderr.read() == b""


def test_terminals_without_our_letters_get_question_marks(tmp_path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    with command("limit", "triangle", "--out", tmp_path / "caf\u00e9.csv", env=environment) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.decode("ascii").endswith("caf?.csv\n")
    with command("limit", "caf\u00e9", env=environment) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert "'caf?'" in err.decode("ascii")


def test_shells_complete(run) -> None:
    assert "--install-completion" in run("--help")[1]


def test_all_figures_that_can_be_drawn(run, monkeypatch) -> None:
    from hardmax._errors import MissingExtra
    from hardmax.cli import reproduce

    def written(module, path) -> None:
        if "review" in path.name:
            raise MissingExtra("`hardmax.HardmaxClassifier`", "sklearn", "text")

    monkeypatch.setattr(reproduce, "_write", written)
    code, out, err = run("reproduce", "all")
    assert code == 0
    assert "spectra_heads.png" in out
    assert err == "Left out reviews. `hardmax.HardmaxClassifier` needs sklearn: pip install 'hardmax[text]'.\n"
    assert run("reproduce", "reviews")[0] == 2


@pytest.mark.parametrize("command", ["simulate", "limit", "verify", "cluster"])
def test_the_file_that_is_read_is_not_replaced(run, command) -> None:
    Path("in.csv").write_text("0,1\n1,0\n")
    code, _, err = run(command, "in.csv", "--out", "./in.csv")
    assert code == 2
    assert "`--out` must be another file than the one that is read. Got 'in.csv'. Rename it." in err
    assert Path("in.csv").read_text() == "0,1\n1,0\n"


def test_numbers_written_out_may_begin_with_a_minus(run) -> None:
    assert run("limit", "-1,0;1,0")[1].startswith("Certified at layer 0. 2 leaders")
    assert run("limit", "triangle", "--A", "-1,0;0,1", "--any-A")[0] in (0, 1)


def test_numbers_of_rows_are_no_coordinates(run) -> None:
    Path("in.csv").write_text("id,x,y\n1,0,1\n2,1,0\n")
    _, out, err = run("limit", "in.csv", "--json")
    assert err == "Left out the first column of in.csv, which numbers the rows.\n"
    assert np.shape(json.loads(out)["tokens"]) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["simulate", "triangle", "--layer", "2"], "`--layer` must go with a picture in --out. Got none."),
        (["simulate", "triangle", "--layer", "2", "--out", "x.csv"], "`--layer` must go with a picture in --out."),
        (["limit", "triangle", "--cloud", "1"], "`--cloud` must go with a batch"),
        (["control", "ball", "--attempts", "4"], "`--attempts` must go with --only."),
        (
            ["cluster", "ball", "--features", "points", "--neighbors", "5"],
            "`--neighbors` must be used with --features graph",
        ),
        (["cluster", "ball", "--no-center"], "`--no-center` must be used with --features points."),
    ],
)
def test_more_options_without_effect_are_refused(run, arguments, sentence) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert sentence in err


NUMBERS = [
    (command.__name__, (*said[0].param_decls, said[0].default)[0])
    for command in (simulate, limit, control, cluster)
    for parameter in inspect.signature(command, eval_str=True).parameters.values()
    for kind, *said in [get_args(parameter.annotation) or (None,)]
    if said and hasattr(said[0], "param_decls") and kind in (int, float, int | None, float | None)
]


@pytest.mark.parametrize(("command", "option"), NUMBERS)
def test_a_bad_number_is_refused_with_the_dashes_of_its_option(run, command: str, option: str) -> None:
    rules = {"--temperature": "softmax", "--beta": "sphere"}
    of_flows = ("--time", "--dt", "--rtol", "--max-steps")
    rule = rules.get(option, "self-attention" if option in of_flows else "hardmax")
    more = ["--rule", rule] if command == "simulate" else ["--leaders", "3"] if command == "control" else []
    code, _, err = run(command, "ball", *more, option, "-1e400")
    assert code == 2
    assert option in err
