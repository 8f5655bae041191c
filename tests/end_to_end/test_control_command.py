"""`hardmax control`: files, JSON and exit codes."""

import json

import numpy as np
import pytest

import hardmax as hm


@pytest.fixture
def control(run):
    """The command, beside a file of tokens."""
    np.savetxt(
        "tokens.csv", np.random.default_rng(3).normal(size=(25, 2)), delimiter=","
    )
    return lambda *arguments: run("control", *arguments)


def test_matrix_and_picture_are_written(control, run, tmp_path) -> None:
    files = ("--out", "A.npy", "--out", "A.csv")
    code, out, _ = control(
        "tokens.csv", "--leaders", "3,18", "--followers", "7:3", *files
    )
    assert code == 0
    assert out.startswith("Found: tokens 3 and 18 lead; token 7 follows 3. Margin ")
    assert [out.count(f"Wrote {name}") for name in ("A.npy", "A.csv", "A.png")] == [
        1,
        1,
        1,
    ]
    A = np.load("A.npy")
    tokens = np.loadtxt("tokens.csv", delimiter=",")
    sets = hm.simulate(tokens, hm.Hardmax(1, A), layers=0).sets(0)
    assert [sets[i].tolist() for i in (3, 18, 7)] == [[3], [18], [3]]
    assert (tmp_path / "A.png").stat().st_size > 10_000
    assert {3, 18} <= set(
        json.loads(run("limit", "tokens.csv", "--A", "A.csv", "--json")[1])["leaders"]
    )


def test_files_by_their_endings(control, tmp_path) -> None:
    files = ("--out", "a.json", "--out", "a.svg", "--out", "B.npy", "--no-picture")
    code, out, _ = control("tokens.csv", "--leaders", "3", "--followers", "7:3", *files)
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "B.npy",
        "a.json",
        "a.svg",
        "tokens.csv",
    ]
    read = json.loads((tmp_path / "a.json").read_text())
    assert (read["found"], read["followers"]) == (True, {"7": 3})
    assert np.allclose(read["A"], np.load("B.npy"))
    assert "Wrote a.svg" in out


def test_without_leaders_it_lists_the_tokens_that_can_lead(control, tmp_path) -> None:
    code, out, _ = control("tokens.csv", "--out", "able.json")
    assert code == 0
    assert out.startswith(
        "7 of 25 tokens can lead at layer 0 for some A (Theorem 5): 0, 3, 4, 13, 18,"
        " 19, 23\n"
    )
    able = {
        "format": "hardmax-can-lead-1",
        "can_lead": [0, 3, 4, 13, 18, 19, 23],
        "tokens": 25,
    }
    assert json.loads((tmp_path / "able.json").read_text()) == able
    assert json.loads(control("tokens.csv", "--json")[1]) == able


def test_an_impossible_request_has_exit_code_1_and_writes_no_matrix(
    control, tmp_path
) -> None:
    files = ("--out", "A.npy", "--out", "why.json")
    code, out, _ = control(
        "tokens.csv", "--leaders", "0,5", "--followers", "7:0", *files
    )
    assert code == 1
    assert out.startswith(
        "Impossible: tokens 0 and 5 lead; token 7 follows 0. Token 5 leads for no A"
    )
    assert "token 5 would lead, not follow" in out
    assert not (tmp_path / "A.npy").exists()
    assert "Did not write A.npy: there is no A." in out
    assert "Tokens that can lead for some A: 0, 3, 4, 13, 18, 19, 23" in out
    why = json.loads((tmp_path / "why.json").read_text())
    assert (why["A"], why["cannot_lead"]) == (None, [5])
    assert set(why["conflict"][0]) == {"token", "target", "rival", "weight"}


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (
            "gaussian --n 12 --d 8 --leaders 0,1 --only --prefer identity",
            0,
            "tokens 0 and 1 lead, and no others",
        ),
        (
            "gaussian --n 12 --d 8 --leaders 0,1 --limit --alpha 0.1,1/2",
            0,
            "and no others, with alpha = 0.",
        ),
        ("gaussian --n 30 --d 4 --leaders 2 --only", 1, "`--limit` looks for an A"),
        (
            "tokens.csv --leaders 3,18 --limit --evaluations 5",
            1,
            "Raise `--evaluations`, or pass several values of",
        ),
    ],
)
def test_answers_and_advice_name_options(
    control, arguments: str, code: int, printed: str
) -> None:
    found, out, _ = control(*arguments.split())
    assert found == code
    assert printed in out
    assert "`steer`" not in out
