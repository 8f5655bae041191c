"""A file of reviews and a model of it, for the tests of the commands on texts."""

import csv
import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")

from hardmax.cli.main import main  # noqa: E402
from hardmax.text.datasets import reviews  # noqa: E402

CORPUS = reviews(400, seed=1, negation=0.1, contrast=0, length=(6, 15))
SMALL = (
    *("--n-heads", "4", "--groups", "1", "--ngram-range", "1,2", "--dropout", "0.2"),
    "--learning-rate",
    "1",
)
SMALL += ("--device", "cpu")
TINY = ("--n-heads", "2", "--groups", "1", "--epochs", "1", "--device", "cpu")


def write_csv(
    path: Path | str, rows, header=("review", "sentiment"), **options
) -> None:
    with Path(path).open("w", newline="", **options) as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture(scope="module", name="home")
def make_home(tmp_path_factory) -> Path:
    """A folder with a file of reviews, a model of it in `model`, and what training it
    has said.
    """
    folder = tmp_path_factory.mktemp("texts")
    write_csv(folder / "reviews.csv", zip(CORPUS.texts, CORPUS.labels, strict=True))
    with redirect_stdout(io.StringIO()) as said:
        code = main(
            [
                "train",
                str(folder / "reviews.csv"),
                "--out",
                str(folder / "model"),
                *SMALL,
                "--epochs",
                "15",
            ],
        )
    assert code == 0
    (folder / "said.txt").write_text(said.getvalue())
    return folder


@pytest.fixture(name="model")
def find_model(home) -> Path:
    return home / "model"


def standard_input(monkeypatch, text: str) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    )
