"""`hardmax control` as a newcomer meets it."""

import json

import numpy as np
import pytest

import hardmax as hm
from hardmax.cli.main import main


@pytest.fixture
def control(run):
    """The command, beside a file of tokens."""
    np.savetxt("tokens.csv", np.random.default_rng(3).normal(size=(25, 2)), delimiter=",")
    return lambda *arguments: run("control", *arguments)


def test_matrix_and_picture_are_written(control, tmp_path) -> None:
    code, out, _ = control("tokens.csv", "--leaders", "3,18", "--followers", "7:3", "--out", "A.npy")
    assert code == 0
    assert out.startswith("Found: tokens 3 and 18 lead; token 7 follows 3. Margin ")
    assert "Wrote A.npy" in out
    assert "Wrote A.png" in out
    A = np.load("A.npy")
    tokens = np.loadtxt("tokens.csv", delimiter=",")
    sets = hm.simulate(tokens, hm.Hardmax(1, A), layers=0).sets(0)
    assert [sets[i].tolist() for i in (3, 18, 7)] == [[3], [18], [3]]
    assert (tmp_path / "A.png").stat().st_size > 10_000


def test_the_matrix_goes_into_the_other_commands(control, capsys) -> None:
    assert control("tokens.csv", "--leaders", "3,18", "--out", "A.csv", "--no-picture")[0] == 0
    assert main(["limit", "tokens.csv", "--A", "A.csv", "--json"]) == 0
    assert {3, 18} <= set(json.loads(capsys.readouterr().out)["leaders"])


def test_files_by_their_endings(control, tmp_path) -> None:
    code, out, _ = control(
        "tokens.csv", "--leaders", "3", *(x for name in ("a.json", "a.svg") for x in ("--out", name))
    )
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.svg", "tokens.csv"]
    assert json.loads((tmp_path / "a.json").read_text())["found"] is True
    assert "Wrote a.svg" in out


def test_without_leaders_it_says_who_can(control) -> None:
    code, out, _ = control("tokens.csv")
    assert code == 0
    assert out.startswith("7 of 25 tokens can lead at layer 0 for some A (Theorem 5): 0, 3, 4, 13, 18, 19, 23\n")
    assert json.loads(control("tokens.csv", "--json")[1])["can_lead"] == [0, 3, 4, 13, 18, 19, 23]


def test_impossible_is_exit_code_1_and_writes_no_matrix(control, tmp_path) -> None:
    code, out, _ = control(
        "tokens.csv", "--leaders", "0,5", "--followers", "7:0", "--out", "A.npy", "--out", "why.json"
    )
    assert code == 1
    assert out.startswith("Impossible: tokens 0 and 5 lead; token 7 follows 0. Token 5 leads for no A")
    assert "token 5 would lead, not follow" in out
    assert not (tmp_path / "A.npy").exists()
    assert "Did not write A.npy: there is no A." in out
    assert "Tokens that can lead for some A: 0, 3, 4, 13, 18, 19, 23" in out
    assert json.loads((tmp_path / "why.json").read_text())["cannot_lead"] == [5]


def test_who_can_lead_as_a_file(control, tmp_path) -> None:
    assert control("tokens.csv", "--out", "who.json")[0] == 0
    assert json.loads((tmp_path / "who.json").read_text())["tokens"] == 25


def test_two_matrices_have_one_picture(control) -> None:
    _, out, _ = control("tokens.csv", "--leaders", "3", "--out", "A.npy", "--out", "A.csv")
    assert out.count("Wrote A.png") == 1


def test_only_and_limit(control) -> None:
    code, out, _ = control("gaussian", "--n", "12", "--d", "8", "--leaders", "0,1", "--only", "--prefer", "identity")
    assert code == 0
    assert "tokens 0 and 1 lead, and no others" in out
    code, out, _ = control("gaussian", "--n", "12", "--d", "8", "--leaders", "0,1", "--limit", "--alpha", "0.1,1/2")
    assert code == 0
    assert "at the limit, and no others, with alpha = 0." in out
    assert json.loads(control("gaussian", "--n", "9", "--leaders", "0", "--limit", "--evaluations", "1", "--json")[1])


def test_not_found_speaks_of_flags(control) -> None:
    code, out, _ = control("gaussian", "--n", "30", "--d", "4", "--leaders", "0", "--only")
    assert code == 1
    assert "`steer`" not in out
    code, out, _ = control("tokens.csv", "--leaders", "3,18", "--limit", "--evaluations", "5")
    assert code == 1
    assert "Raise `--evaluations`, or pass several values of `--alpha`." in out
