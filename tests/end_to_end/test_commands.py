"""Commands of simulations, limits, verdicts and figures: tables, files, JSON and exit codes."""

import io
import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.draw import movies, player
from hardmax.figures import FIGURES


@pytest.fixture
def _short_movies(monkeypatch) -> None:
    """Few frames; that a movie has all of them is shown where movies are."""
    monkeypatch.setattr("hardmax.cli.limit.EXTRA_LAYERS", 2)
    few = movies.choose_frames
    for module in (movies, player):
        monkeypatch.setattr(module, "choose_frames", lambda last, most=4: few(last, 4))


def test_simulate_prints_leaders(run) -> None:
    code, out, _ = run("simulate", "emerging-leader")
    assert code == 0
    assert out.startswith("Ran 30 layers on 8 tokens of dimension 2. 3 leaders, the last since layer 1.")
    assert re.search(r"1 +\(-0.05556, 0.1389\) +1 +0.0154", out)


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
        radius = float(re.search(r"by less than (\S+) changes no argmax set", out)[1])
        assert 0.9 * limit.radius < radius <= limit.radius
        trajectory = hm.simulate(tokens, hm.Hardmax(0.5), layers=30)
        for leader in hm.leader_table(trajectory):
            assert float(re.search(r"margin of (\S+?)[, ]", repr(leader))[1]) <= leader.margin
        stopped = hm.limit(tokens, hm.Hardmax(0.01), max_layers=0)
        if not stopped.certified:
            assert float(re.search(r"by more than (\S+?)\. ", stopped.status)[1]) >= stopped.pace


def test_an_uncertified_limit_has_exit_code_1(run) -> None:
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


def test_integers_beyond_floats_are_exact(run) -> None:
    Path("big.csv").write_text("9007199254740993,1\n9007199254740992,1\n-5,-5\n")
    assert json.loads(run("limit", "big.csv", "--json")[1])["leaders"] == [0, 2]
    Path("turned.csv").write_text(
        "9007199254740992,1\n9007199254740993,1\n-5,-5\n"
    )  # as floats the first two are equal
    assert json.loads(run("limit", "turned.csv", "--json")[1])["leaders"] == [1, 2]


def test_one_token_set_of_a_batch(run) -> None:
    batch = np.random.default_rng(0).normal(size=(3, 5, 2))
    np.save("batch.npy", batch)
    assert run("simulate", "batch.npy")[1].startswith("Ran 30 layers on 3 token sets of up to 5 tokens")
    found = json.loads(run("limit", "batch.npy", "--batch-index", "1", "--json")[1])
    assert found["leaders"] == hm.limit(batch[1], hm.Hardmax(0.5)).leaders.tolist()


def test_layer_draws_one_layer(run) -> None:
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


def test_numbers_as_an_argument(run) -> None:
    Path("tokens.csv").write_text("0.6,0.8\n1,0\n-0.7,-0.7\n")
    Path("A.csv").write_text("2,1\n1,1\n")
    written = run("limit", "0.6,0.8; 1,0; -0.7,-0.7", "--A", "2,1;1,1", "--json")
    assert written == run("limit", "tokens.csv", "--A", "A.csv", "--json")
    assert written[0] == 0


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


def test_reproduce(run) -> None:
    code, out, _ = run("reproduce", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(FIGURES)
    assert run("reproduce", "fig1", "--format", "svg")[0] == 0
    assert Path("figures/fig1_half_space.svg").exists()


def test_a_table_of_clusters_names_leaders_only_where_there_are_some(run) -> None:
    soft = run("simulate", "gaussian", "--n", "30", "--rule", "softmax", "--layers", "12")[1]
    assert "Clusters at the end" in soft
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


def test_self_attention_prints_the_expected_limit_and_clusters(run) -> None:
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


def test_batches_of_flows(run) -> None:
    np.save("batch.npy", np.random.default_rng(0).normal(size=(2, 5, 2)))
    flow = ["simulate", "batch.npy", "--rule", "self-attention"]
    assert "Use --batch-index" in run(*flow)[1]
    assert "Clusters at the end" in run(*flow, "--batch-index", "1")[1]


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


def test_verify_flows(run) -> None:
    flow = ["--rule", "self-attention"]
    code, out, _ = run("verify", "gaussian", "--n", "12", "--d", "3", *flow, "--V", "paper-product")
    assert code == 0
    assert re.search(r"polytope times subspace\s+holds", out)
    code, out, _ = run("verify", "gaussian", "--n", "12", "--rule", "softmax")
    assert code == 0
    assert "OPEN: no theorem covers Softmax." in out
    assert run("verify", "gaussian", "--n", "12", *flow, "--out", "page.html")[0] == 0
    assert "polytope</td>" in Path("page.html").read_text()
    verdicts = json.loads(run("verify", "gaussian", "--n", "9", "--rule", "self-attention", "--json")[1])
    assert [v["conjecture"] for v in verdicts] == [False] * 5 + [True] * 2


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


def test_save_last(run) -> None:
    assert run("simulate", "triangle", "--save", "last", "--out", "t.csv", "--out", "t.png")[0] == 0
    assert {line.split(",")[0] for line in Path("t.csv").read_text().splitlines()} == {"layer", "30"}


def test_tokens_are_divided_by_their_norms_for_the_sphere(run) -> None:
    code, _, err = run("simulate", "3,4;0,2", "--rule", "sphere", "--time", "1", "--out", "s.csv")
    assert (code, err) == (0, "Tokens were divided by their norms, to lie on the unit sphere.\n")
    assert Path("s.csv").read_text().splitlines()[1:3] == ["0.0,0,0.6,0.8", "0.0,1,0.0,1.0"]
    assert run("simulate", "1,0;0,1", "--rule", "sphere", "--time", "1")[2] == ""


def test_a_narrow_terminal_has_one_line_per_cell(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = run("simulate", "triangle")
    assert "token 1\n  position: (0.5, -0.5)" in out
    assert "  followers at the end: 2" in out
    monkeypatch.setenv("COLUMNS", "80")
    assert "token   position" in run("simulate", "triangle")[1]


def test_reproduce_all_skips_figures_that_lack_a_package(run, monkeypatch) -> None:
    def save(figure, path) -> None:
        if "review" in path.name:
            raise hm.MissingExtra("`hardmax.HardmaxClassifier`", "sklearn", "text")

    for module in FIGURES.values():
        monkeypatch.setattr(module, "compute", lambda: None)
        monkeypatch.setattr(module, "draw", lambda data: None)
    monkeypatch.setattr("hardmax.cli.output.save_figure", save)
    code, out, err = run("reproduce", "all")
    assert code == 0
    assert "spectra_heads.png" in out
    assert err == "Skipped reviews. `hardmax.HardmaxClassifier` needs sklearn: pip install 'hardmax[text]'.\n"
    assert run("reproduce", "reviews")[0] == 2


def test_numbers_as_an_argument_may_begin_with_a_minus(run) -> None:
    assert run("limit", "-1,0;1,0")[1].startswith("Certified at layer 0. 2 leaders")
    assert run("limit", "triangle", "--A", "-1,0;0,1", "--any-A")[0] in (0, 1)


def test_a_column_of_row_numbers_is_dropped(run) -> None:
    Path("in.csv").write_text("id,x,y\n1,0,1\n2,1,0\n")
    _, out, err = run("limit", "in.csv", "--json")
    assert err == "Left out the first column of in.csv, which numbers the rows.\n"
    assert np.shape(json.loads(out)["tokens"]) == (2, 2)
