"""Commands of simulations, limits, verdicts and figures: tables, files, JSON and exit
codes.
"""

import io
import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax._errors import install_command
from hardmax.draw import movies, player
from hardmax.figures import FIGURES

SELF_ATTENTION = "gaussian --n 12 --rule self-attention"
FLOW = ["simulate", *SELF_ATTENTION.split()]
HEADS = {
    "png": b"\x89PNG",
    "svg": b"<?xml",
    "pdf": b"%PDF",
    "gif": b"GIF8",
    "npz": b"PK",
}  # first bytes of files
HEADS |= {"json": b"{", "html": b"<!doctype", "csv": b"token"}


@pytest.fixture
def _short_movies(monkeypatch) -> None:
    """Movies of few frames; tests of movies count all of them."""
    monkeypatch.setattr("hardmax.cli.simulate.EXTRA_LAYERS", 2)
    few = movies.choose_frames
    for module in (movies, player):
        monkeypatch.setattr(module, "choose_frames", lambda last, most=4: few(last, 4))


@pytest.fixture
def json_of(run):
    """The parsed JSON that a command prints."""
    return lambda *arguments: json.loads(run(*arguments, "--json")[1])


def read_rows(path: str) -> list[list[str]]:
    return [line.split(",") for line in Path(path).read_text().splitlines()]


SOFTMAX = "gaussian --n 30 --rule softmax --layers 12"
# a command, its exit code, and a pattern that its output matches from the beginning
PRINTED = [
    (
        "simulate emerging-leader",
        0,
        (
            r"Ran 30 layers on 8 tokens of .* 3 leaders; the last one appeared at"
            r" layer 1\."
        ),
    ),
    ("simulate emerging-leader", 0, r".*1 +\(-0.05556, 0.1389\) +1 +0.0154"),
    ("simulate triangle --causal", 0, ".*Every token is decided since layer 0"),
    (
        "simulate sphere --n 10 --d 3 --rule sphere --time 3",
        0,
        "Ran from t = 0 to 3 on 10 tokens",
    ),
    (
        "limit edge-clusters",
        0,
        r"Certified at layer 0\..*\(1, 0\) +0.5 x leader 0 \+ 0.5 x leader 1",
    ),
    ("limit triangle", 0, ".*Moving each token by less than"),
    ("limit sphere", 0, ".*and 80 more"),
    ("limit -1,0;1,0", 0, r"Certified at layer 0\. 2 leaders"),
    (
        "limit emerging-leader --max-layers 0",
        1,
        r"Not certified within 0 layers\. 2 leaders, all since layer 0\. 7 of 8",
    ),
    (
        "limit triangle --A -1,0;0,1 --any-A --max-layers 5",
        1,
        "Not certified within 5 layers",
    ),
    (
        f"simulate {SOFTMAX}",
        0,
        "(?!.*led by).*Clusters at the end",
    ),  # leaders are a column only if there are some
    (f"simulate {SELF_ATTENTION}", 0, ".*Clusters at the end.*led by token"),
    (
        f"simulate {SELF_ATTENTION} --V paper-2d --seed 1",
        0,
        ".*in the leading directions of V at the end.*Theorem 4.2",
    ),
    (
        f"simulate {SELF_ATTENTION} --max-steps 2",
        1,
        ".*after 2 steps, .*Raise `--max-steps`, loosen `--rtol`",
    ),
    (
        f"verify {SELF_ATTENTION} --d 3 --V paper-product",
        0,
        r".*polytope times subspace\s+holds",
    ),
    (f"verify {SOFTMAX}", 0, r".*OPEN: no theorem covers Softmax\."),
]


@pytest.mark.parametrize(("command", "code", "pattern"), PRINTED)
def test_results_are_printed(run, command: str, code: int, pattern: str) -> None:
    found, out, _ = run(*command.split())
    assert found == code
    assert re.match(pattern, out, re.DOTALL)


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
            assert (
                float(re.search(r"margin of (\S+?)[, ]", repr(leader))[1])
                <= leader.margin
            )
        stopped = hm.limit(tokens, hm.Hardmax(0.01), max_layers=0)
        if not stopped.certified:
            assert (
                float(re.search(r"by more than (\S+?)\. ", stopped.status)[1])
                >= stopped.pace
            )


def test_the_page_of_a_limit_that_is_not_certified(run) -> None:
    run("limit", "emerging-leader", "--max-layers", "0", "--out", "page.html")
    assert "Not certified within 0 layers." in Path("page.html").read_text()


def test_verify(run) -> None:
    code, out, _ = run("verify", "gaussian", "--n", "30", "--d", "4", "--alpha", "1/10")
    assert code == 0
    assert len(re.findall(r"\bholds\b", out)) == 8
    code, out, _ = run(
        "verify", "triangle", "--json", "--out", "verdicts.json", "--out", "page.html"
    )
    assert [item["outcome"] for item in json.loads(out)["verdicts"]][:5] == [
        "holds"
    ] * 5
    assert json.loads(Path("verdicts.json").read_text()) == json.loads(out)
    assert "Theorem 1" in Path("page.html").read_text()


def test_verify_exits_1_when_a_statement_fails(run, monkeypatch) -> None:
    false = hm.theorems.Verdict(
        hm.theorems.Outcome.FAILS, "Made up for this test.", name="F0"
    )
    monkeypatch.setattr(hm.theorems, "check", lambda trajectory: [false])
    assert run("verify", "triangle")[0] == 1


@pytest.mark.usefixtures("_short_movies")
def test_files_of_every_ending(run) -> None:
    most = ("png", "gif", "npz", "json", "html")
    commands = {
        "simulate": ["simulate", "square", "--layers", "2"],
        "limit": ["limit", "square"],
    }
    commands |= {
        "verify": ["verify", "square", "--layers", "2"],
        "flow": [*FLOW, "--time", "2"],
    }
    for name, command in commands.items():
        endings = ("svg", "pdf", "npz") if name == "verify" else most
        if name == "limit":
            endings = ("png", "gif", "json", "csv", "html")
        code, out, _ = run(
            *command,
            *(part for ending in endings for part in ("--out", f"{name}.{ending}")),
        )
        assert code == 0
        for ending in endings:
            assert f"Wrote {name}.{ending}" in out
            assert Path(f"{name}.{ending}").read_bytes().startswith(HEADS[ending])
    simulated, verified, flow = (
        hm.Trajectory.from_npz(f"{name}.npz") for name in ("simulate", "verify", "flow")
    )
    assert simulated.layers == verified.layers == flow.times[-1] == 2
    limit = json.loads(Path("limit.json").read_text())
    assert limit["certified"] is True
    assert limit["leaders"] == [0, 1, 2, 3]
    rule = {"rule": "SelfAttention", "Q": None, "K": None, "V": None, "causal": False}
    assert json.loads(Path("flow.json").read_text())["rule"] == rule


def test_json_is_the_library_result(json_of) -> None:
    tokens = hm.configuration("ball", n=12, d=3, seed=4)
    ball = ("ball", "--n", "12", "--d", "3", "--seed", "4")
    expected = json.loads(hm.simulate(tokens, hm.Hardmax(0.5), layers=3).to_json())
    assert json_of("simulate", *ball, "--layers", "3") == expected
    assert (
        json_of("limit", *ball)["leaders"]
        == hm.limit(tokens, hm.Hardmax(0.5)).leaders.tolist()
    )


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("simulate triangle --layers 2", "trajectory-2"),
        ("simulate triangle --rule softmax --layers 2", "smooth-1"),
        ("limit triangle", "limit-1"),
        ("verify triangle --layers 2", "verdicts-1"),
        ("control triangle", "can-lead-1"),
        ("control triangle --leaders 0", "control-1"),
        ("cluster triangle --clusters 2 --neighbors 4", "clusters-1"),
        ("explain wonderful --model imdb-2d", "explanation-1"),
    ],
)
def test_json_has_a_documented_format_and_version(
    json_of, command: str, kind: str
) -> None:
    found = json_of(*command.split())
    assert next(iter(found.items())) == ("format", f"hardmax-{kind}")
    page = Path(__file__).parents[2] / "docs" / "reference" / "file-formats.md"
    assert f"`hardmax-{kind}`" in page.read_text(encoding="utf-8")


def test_every_format_of_numbers_gives_the_same_result(run, monkeypatch) -> None:
    tokens = np.array([[1.0, 0.5], [-0.25, 2], [0.1, 0.1]])
    np.save("tokens.npy", tokens)
    np.save("A.npy", [[2.0, 1], [1, 1]])
    plain = "1,0.5\n-0.25,2\n0.1,0.1\n"
    files = {
        "plain.csv": plain,
        "header.csv": f"x,y\n{plain}",
        "tabs.tsv": plain.replace(",", "\t"),
        "blanks.txt": "\n1 0.5\n-0.25 2\n\n0.1 0.1\n",
        "savetxt.csv": "# x y\n" + plain.replace(",", " "),
        "excel.csv": "\ufeffx;y\r\n" + plain.replace(",", ";").replace("\n", "\r\n"),
        "pandas.csv": ",x,y\n0,1,0.5\n1,-0.25,2\n2,0.1,0.1\n",
        "numbered.csv": "id,x,y\n1,1,0.5\n2,-0.25,2\n3,0.1,0.1\n",
    }
    expected = run("simulate", "tokens.npy", "--json", "--A", "A.npy")
    assert json.loads(expected[1])["tokens"][0] == tokens.tolist()
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8", newline="")
        note = f"Left out the first column of {name}, which numbers the rows.\n"
        note = note if name in ("pandas.csv", "numbered.csv") else ""
        assert run("simulate", name, "--json", "--A", "A.npy") == (0, expected[1], note)
    monkeypatch.setattr("sys.stdin", io.StringIO(plain))
    for source in ("-", "1,0.5; -0.25,2; 0.1,0.1"):
        assert run("simulate", source, "--json", "--A", "2,1;1,1") == expected


def test_one_token_set_of_a_batch(run, json_of) -> None:
    batch = np.random.default_rng(0).normal(size=(3, 5, 2))
    np.save("batch.npy", batch)
    assert run("simulate", "batch.npy")[1].startswith(
        "Ran 30 layers on 3 token sets of up to 5 tokens"
    )
    found = json_of("limit", "batch.npy", "--batch-index", "1")
    assert found["leaders"] == hm.limit(batch[1], hm.Hardmax(0.5)).leaders.tolist()
    flow = ["simulate", "batch.npy", "--rule", "self-attention", "--time", "15"]
    assert "Use --batch-index" in run(*flow)[1]
    assert "Clusters at the end" in run(*flow, "--batch-index", "1")[1]


def test_layer_draws_one_layer_and_the_same_file_on_every_run(run) -> None:
    for name, layer in (
        ("row.svg", ()),
        ("same.svg", ()),
        ("one.svg", ("--layer", "2")),
    ):
        run("simulate", "triangle", "--out", name, *layer)
    row, same, one = (
        Path(name).read_text() for name in ("row.svg", "same.svg", "one.svg")
    )
    assert row == same
    widths = [
        float(re.search(r'width="([\d.]+)pt"', text).group(1)) for text in (row, one)
    ]
    assert widths[0] > 2 * widths[1]


def test_decimals_of_tokens_are_not_rounded(json_of) -> None:
    for tokens in ("0.1,0.1;0.1,-0.1;-0.1,0;0.03,0", "1/3,1/3;1/3,-1/3;-1/3,0;1/10,0"):
        for exact in ([], ["--exact"]):
            assert json_of("limit", tokens, *exact)["weights"][3] == [0.5, 0.5, 0]
    found = json_of("limit", "0.6,0.8;1.0,0.0;-0.7,-0.7;0.2,0.1")
    assert len(found["points"]) == 4
    assert found["tokens"][3] == [0.8, 0.4]
    floats = hm.limit(
        [[0.6, 0.8], [1.0, 0.0], [-0.7, -0.7], [0.2, 0.1]], hm.Hardmax(0.5)
    )
    assert len(floats.points) == 3  # of the floats nearest to them


def test_decimals_of_a_matrix_and_of_a_step_are_not_rounded(run) -> None:
    A = ("--A", "0.3,0.1;0.1,0.3")
    code, _, err = run(
        "simulate",
        "triangle",
        *A,
        "--alpha",
        "0.1",
        "--layers",
        "3",
        "--out",
        "run.npz",
    )
    assert (code, err) == (0, "")
    rule = hm.Trajectory.from_npz("run.npz").rule
    assert rule.steps == (Fraction(1, 10),)
    assert rule.matrix[0, 0] == Fraction(3, 10)
    tokens = "0.1,0.2;0.3,-0.7"  # rules in floats take them, too
    assert run("simulate", tokens, "--rule", "softmax", *A, "--alpha", "0.1")[0] == 0
    assert (
        run("simulate", tokens, "--rule", "self-attention", "--V", A[1], "--time", "1")[
            0
        ]
        == 0
    )


def test_reproduce(run) -> None:
    code, out, _ = run("reproduce", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(FIGURES)
    assert run("reproduce", "fig1", "--format", "svg")[0] == 0
    assert Path("figures/fig1_half_space.svg").exists()


@pytest.mark.slow
def test_the_demo_is_the_same_on_every_run(run) -> None:
    assert run("demo", "--out", "one")[0] == run("demo", "--out", "two")[0] == 0
    page = Path("one/index.html").read_text()
    assert Path("two/index.html").read_text() == page
    assert Path("one/index.html").stat().st_size < 3_000_000
    assert all(
        f"Proved: Theorem {number} of arXiv 2305.05465." in page
        for number in ("3.1", "4.2", "5.2")
    )
    anchors = re.findall(r'<h2 id="([^"]+)">', page)
    assert (
        len(anchors) == 11
    )  # four inputs and their theorems, three value matrices, chosen leaders, two reviews
    assert re.findall(r'<li><a href="#([^"]+)">', page) == anchors
    assert (
        page.count("F1 hull") == page.count("Theorem 4<br>") == 1
    )  # one table for the four
    assert page.count('<span class="verdict holds">') > 30
    assert "Found: tokens 45 and 47 lead." in page
    assert "pos with probability" in page
    assert "neg with probability" in page
    assert page.count("Certified at layer") == 4
    assert 'class="verdict fails"' not in page
    loads = re.findall(r"""(?:src|href)=["']([^#"'][^"']{0,29})""", page) + re.findall(
        r"url\(([^)]{0,30})", page
    )
    assert loads
    assert all(target.startswith("data:image/svg+xml;base64,") for target in loads)


def test_every_rule_has_its_options(json_of) -> None:
    sphere = [
        "simulate",
        "sphere",
        "--n",
        "10",
        "--d",
        "3",
        "--rule",
        "sphere",
        "--time",
        "3",
        "--beta",
        "4",
    ]
    assert json_of(*sphere) != json_of(*sphere, "--unnormalized")
    softmax = [
        "simulate",
        "gaussian",
        "--n",
        "10",
        "--rule",
        "softmax",
        "--layers",
        "20",
    ]
    assert (
        json_of(*softmax, "--temperature", "0.01")
        != json_of(*softmax)
        != json_of(*softmax, "--causal")
    )
    stats = json_of(*FLOW, "--method", "euler", "--dt", "0.1", "--time", "1")["stats"]
    assert (stats["method"], stats["dt"], stats["steps"]) == ("euler", 0.1, 10)


def test_matrices_come_from_files_and_two_random_ones_differ(json_of) -> None:
    np.save("V.npy", np.diag([2.0, 1.0]))
    Path("Q.csv").write_text("1,0\n0,2\n")
    rule = json_of(*FLOW, "--time", "1", "--V", "V.npy", "--Q", "Q.csv")["rule"]
    assert (rule["V"], rule["Q"]) == (
        [[2.0, 0.0], [0.0, 1.0]],
        [[1.0, 0.0], [0.0, 2.0]],
    )
    rule = json_of(*FLOW, "--time", "1", "--Q", "random", "--K", "random")["rule"]
    assert rule["Q"] != rule["K"]


def test_positions_and_limits_as_tables(run) -> None:
    run("simulate", "0,1;1/3,0;-1,-1", "--layers", "2", "--out", "t.csv")
    rows = read_rows("t.csv")
    trajectory = hm.simulate(
        [[0, 1], [Fraction(1, 3), 0], [-1, -1]], hm.Hardmax(0.5), layers=2
    )
    assert rows[0] == ["layer", "token", "x1", "x2"]
    assert [row[:2] for row in rows[1:]] == [
        [str(k), str(i)] for k in range(3) for i in range(3)
    ]
    assert (
        np.array([row[2:] for row in rows[1:]], float).reshape(3, 3, 2).tolist()
        == trajectory.array.tolist()
    )
    run("limit", "triangle", "--out", "l.csv")
    rows = read_rows("l.csv")
    found = hm.limit(hm.configuration("triangle"), hm.Hardmax(0.5))
    assert rows[0] == ["token", "x1", "x2", "point", "leads"]
    assert [
        int(row[0]) for row in rows[1:] if row[4] == "True"
    ] == found.leaders.tolist()
    assert (
        np.array([row[1:3] for row in rows[1:]], float).tolist()
        == found.tokens.tolist()
    )
    np.save("batch.npy", np.random.default_rng(0).normal(size=(2, 3, 2)))
    run(
        "simulate",
        "batch.npy",
        "--rule",
        "self-attention",
        "--time",
        "1",
        "--out",
        "b.csv",
    )
    rows = read_rows("b.csv")
    assert (rows[0], rows[-1][:3]) == (
        ["time", "set", "token", "x1", "x2"],
        ["1.0", "1", "2"],
    )


def test_save_last(run) -> None:
    assert (
        run(
            "simulate", "triangle", "--save", "last", "--out", "t.csv", "--out", "t.png"
        )[0]
        == 0
    )
    assert {row[0] for row in read_rows("t.csv")} == {"layer", "30"}


def test_tokens_are_divided_by_their_norms_for_the_sphere(run) -> None:
    code, _, err = run(
        "simulate", "3,4;0,2", "--rule", "sphere", "--time", "1", "--out", "s.csv"
    )
    assert (code, err) == (
        0,
        "Tokens were divided by their norms, to lie on the unit sphere.\n",
    )
    assert Path("s.csv").read_text().splitlines()[1:3] == [
        "0.0,0,0.6,0.8",
        "0.0,1,0.0,1.0",
    ]
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
    assert (
        err == "Skipped reviews. `hardmax.HardmaxClassifier` needs sklearn:"
        f" {install_command('text')}.\n"
    )
    assert run("reproduce", "reviews")[0] == 2
