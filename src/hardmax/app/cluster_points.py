"""Points to be clustered: examples, and what a visitor pastes or sends."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._types import FloatArray
from hardmax.app.controls import MOST_BYTES
from hardmax.app.scene import MOST_TOKENS
from hardmax.text.files import is_number
from hardmax.text.tables import parse_table

MOST_COLUMNS = 2_000
LONGEST_NAME = 200  # characters that are kept


@dataclass(frozen=True, eq=False)
class Points:
    """Rows of numbers, with their names and those of the columns."""

    X: FloatArray  # (n, d)
    columns: tuple[str, ...]
    names: tuple[str, ...] = ()  # none: points are called by their row
    example: str = ""
    note: str = ""  # on what was left out to read them

    @classmethod
    def checked(cls, X: Any, columns: Sequence[str] = (), names: Sequence[str] = (), note: str = "") -> "Points":
        """These points, or the sentence on what is wrong with them."""
        try:
            X = np.asarray(X, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError("points", "be rows of numbers, all of one length", "something else") from None
        if X.ndim != 2 or not 1 <= len(X) <= MOST_TOKENS or not 1 <= X.shape[1] <= MOST_COLUMNS:
            got = f"{len(X):,} of {X.shape[1]:,}" if X.ndim == 2 else f"shape {X.shape}"
            must = f"be 1 to {MOST_TOKENS:,} rows of 1 to {MOST_COLUMNS:,} numbers"
            raise ParameterError("points", must, got, "For more use HardmaxClustering in Python.")
        if not np.isfinite(X).all() or np.abs(X).max() > 1e100:
            raise ParameterError("points", "be finite", "NaN or infinity", "Fill or drop missing values.")
        for given, number in ((columns, X.shape[1]), (names, len(X))):
            if len(given) not in (0, number) or not all(isinstance(one, str) for one in given):
                raise InputError("There must be a name for each row and column, or none. Got something else.")
        columns = columns or [f"x{r + 1}" for r in range(X.shape[1])]
        columns, names = (tuple(one[:LONGEST_NAME] for one in given) for given in (columns, names))
        return cls(X, columns, names, note=note)

    def name(self, i: int) -> str:
        return self.names[i] if self.names else f"row {i}"

    def to_data(self) -> dict[str, Any]:
        """Plain data, from which `of_data` makes them again."""
        if self.example:
            return {"example": self.example}
        return {"rows": self.X.tolist(), "columns": list(self.columns), "names": list(self.names)}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Points":
        if "example" in data:
            return example(data["example"])
        columns, names = (data.get(name, []) for name in ("columns", "names"))
        if not isinstance(columns, list) or not isinstance(names, list):
            raise InputError("There must be a name for each row and column, or none. Got something else.")
        return cls.checked(data.get("rows"), columns, names)


def _moons() -> Any:
    from sklearn.datasets import make_moons

    return make_moons(500, noise=0.05, random_state=0)


def _circles() -> Any:
    from sklearn.datasets import make_circles

    return make_circles(500, factor=0.5, noise=0.05, random_state=0)


def _blobs() -> Any:
    from sklearn.datasets import make_blobs

    X, of = make_blobs(500, centers=4, cluster_std=0.6, random_state=21)
    return np.round(np.r_[X, np.random.default_rng(1).uniform(-12, 12, (250, 2))], 6), of


def _digits() -> Any:
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def _cloud() -> Any:
    return np.random.default_rng(0).normal(size=(400, 2)), ()


EXAMPLES: dict[str, tuple[Callable[[], Any], str]] = {  # and the lines of Python that make them
    "moons": (
        _moons,
        "from sklearn.datasets import make_moons\n\nX = make_moons(500, noise=0.05, random_state=0)[0]",
    ),
    "circles": (
        _circles,
        "from sklearn.datasets import make_circles\n\nX = make_circles(500, factor=0.5, noise=0.05, random_state=0)[0]",
    ),
    "blobs with noise": (
        _blobs,
        "from sklearn.datasets import make_blobs\n\n"
        "X = make_blobs(500, centers=4, cluster_std=0.6, random_state=21)[0]\n"
        "X = np.round(np.r_[X, np.random.default_rng(1).uniform(-12, 12, (250, 2))], 6)",
    ),
    "digits": (_digits, "from sklearn.datasets import load_digits\n\nX = load_digits().data"),
    "one cloud": (_cloud, "\nX = np.random.default_rng(0).normal(size=(400, 2))"),
}


def example(name: Any) -> Points:
    """Points that are there at once."""
    if not isinstance(name, str) or name not in EXAMPLES:
        raise ParameterError("example", f"be one of {', '.join(EXAMPLES)}", repr(name)[:40])
    with needed_for("This page", "scikit-learn", "cluster"):
        X, of = EXAMPLES[name][0]()
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ("x", "y")
    if name == "digits":  # images of 8 by 8 pixels
        names = tuple(f"a {digit} ({i})" for i, digit in enumerate(of))
        columns = tuple(f"pixel {i // 8 + 1}, {i % 8 + 1}" for i in range(X.shape[1]))
    return Points(np.asarray(X, np.float64), columns, names, example=name)


def read(sent: str | bytes, name: str) -> Points:
    """Rows of numbers as people write them, after an optional header; the first column may hold names."""
    if len(sent) > MOST_BYTES:
        must, got = f"have at most {MOST_BYTES // 10**6} MB", f"{len(sent) / 1e6:.1f} MB"
        raise ParameterError(name, must, got, "Take fewer rows.")
    text = sent.decode("utf-8-sig", errors="replace") if isinstance(sent, bytes) else sent
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    if len(lines) > MOST_TOKENS + 1:
        raise ParameterError(name, f"hold at most {MOST_TOKENS:,} points", f"{len(lines):,}", "Take fewer rows.")
    mark = next((mark for mark in (";", "\t", ",") if lines and mark in lines[0]), None)
    rows = list(csv.reader(lines, delimiter=mark)) if mark else [line.split() for line in lines]
    header = rows[0] if rows and not any(is_number(cell) for cell in rows[0]) else []
    body = rows[1:] if header else rows
    names: list[str] = []
    if body and min(map(len, body)) > 1 and not any(is_number(row[0]) for row in body):
        names = [row[0].strip() for row in body]
        header, text = header[1:], _written([row[1:] for row in rows])
    table, note = parse_table(text, name)
    header = header[-table.shape[1] :] if len(header) >= table.shape[1] else []
    return Points.checked(table.astype(np.float64), [cell.strip() for cell in header], names, note.replace("`", ""))


def _written(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
