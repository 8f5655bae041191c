"""Options that commands share, and how their text becomes tokens."""

import csv
import sys
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import configuration
from hardmax._errors import ParameterError
from hardmax.cli import output
from hardmax.inputs import CONFIGURATIONS, RANDOM_CLOUDS

Input = Annotated[
    str,
    typer.Argument(
        metavar="TOKENS",
        help=f"A CSV (also .tsv, .txt, or - for standard input) or .npy file, or a name: {', '.join(CONFIGURATIONS)}.",
        show_default=False,
    ),
]
N = Annotated[int | None, typer.Option("--n", help="How many random tokens, for gaussian, ball and sphere: 100.")]
D = Annotated[int | None, typer.Option("--d", help="Their dimension: 2.")]
Cloud = Annotated[int | None, typer.Option("--cloud", help="Which cloud of a .npy batch, counted from 0.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random tokens.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Rational arithmetic throughout; decimals in a CSV are read exactly.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Out = Annotated[
    list[Path] | None,
    typer.Option(
        "--out", metavar="FILE", help="Write a file, by its ending; may be given several times.", show_default=False
    ),
]


def read_tokens(
    source: str, *, n: int | None, d: int | None, seed: int, exact: bool, cloud: int | None, single: bool
) -> Any:
    """Tokens from a file, standard input or a named configuration; `single` asks for one cloud, not a batch."""
    path = Path(source)
    if source in CONFIGURATIONS:
        return configuration(source, n=n, d=d, seed=seed)
    if n is not None or d is not None:
        raise ParameterError(
            ("--n", "--d"), f"go with {', '.join(RANDOM_CLOUDS)}", f"them with {source!r}", "Leave them out."
        )
    if source != "-" and path.suffix.lower() not in (".csv", ".tsv", ".txt", ".npy"):
        raise ValueError(
            f"TOKENS must be a .csv or .npy file, or one of {', '.join(CONFIGURATIONS)}. Got {source!r}. "
            "Check the spelling, or save the tokens as CSV."
        )
    tokens = parse_table(sys.stdin.read(), "-", exact=exact) if source == "-" else read_matrix(path, exact=exact)
    if tokens.ndim != 3:
        if cloud is not None:
            raise ParameterError(
                "--cloud",
                "go with a batch, a .npy file of shape (batch, n, d)",
                f"{source}, one cloud",
                "Leave it out.",
            )
        return tokens
    if cloud is not None and 0 <= cloud < len(tokens):
        return tokens[cloud]
    if cloud is not None or single:
        got = "no choice" if cloud is None else f"{cloud}"
        raise ParameterError(
            "--cloud",
            f"name one of the {len(tokens)} clouds in {source}",
            got,
            f"Pass a number from 0 to {len(tokens) - 1}.",
        )
    return tokens


def read_matrix(path: Path, *, exact: bool) -> Any:
    """Numbers from a CSV (separated by commas, semicolons, tabs or spaces; a header is skipped) or .npy file."""
    if path.is_dir():
        raise ParameterError(path, "be a file", "a folder", "Name a file in it.")
    if not path.exists():
        raise ParameterError(path, "be a file", "none by that name", "Check the path.")
    if path.suffix.lower() == ".npy":
        try:
            return np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError):
            raise ParameterError(
                path,
                "be a NumPy array of numbers",
                "a broken file, or one with Python objects, which are never loaded",
                "Save it again with np.save.",
            ) from None
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ParameterError(path, "be text in UTF-8", "other bytes", "Save it as CSV in UTF-8.") from None
    return parse_table(text, str(path), exact=exact)


def parse_table(text: str, name: str, *, exact: bool) -> Any:
    """Rows of numbers; Fractions if `exact`, if some cell is a ratio, or if a whole number exceeds 2**53.

    Empty lines and lines that begin with # are skipped, then a header without any number.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines:
        raise ParameterError(name, "hold one token a row", "an empty file", "Check how it was written.")
    mark = next((mark for mark in (";", "\t", ",") if mark in lines[0][1]), None)
    rows = [(number, next(csv.reader([line], delimiter=mark)) if mark else line.split()) for number, line in lines]
    header: list[str] = []
    if not any(_is_number(cell) or _has_decimal_comma(cell) for cell in rows[0][1]):
        header = rows.pop(0)[1]
    if not rows:
        raise ParameterError(name, "hold one token a row", "a header or text alone", "Add rows of numbers.")
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            raise ParameterError(
                name,
                "have the same number of columns in each row",
                f"{len(row)} in line {number}, {width} before it",
                "Fill the gaps.",
            )
    if _has_row_numbers(header, [row for _, row in rows]):
        rows = [(number, row[1:]) for number, row in rows]
        output.note(f"Left out the first column of {name}, which numbers the rows.")
    rational = exact or "/" in text or any(_is_big(cell) for _, row in rows for cell in row)
    table = [[_number(cell, name, n, c, rational) for c, cell in enumerate(row, 1)] for n, row in rows]
    return np.array(table, dtype=object if rational else np.float64)


def _has_row_numbers(header: list[str], rows: list[list[str]]) -> bool:
    """Whether the first column is an index as pandas writes it: no proper name, and 0, 1, 2, ..."""
    named = len(header) > 1 and header[0].strip().lower() in ("", "index", "unnamed: 0")
    return named and [row[0].strip() for row in rows] == [str(i) for i in range(len(rows))]


def _has_decimal_comma(cell: str) -> bool:
    return "," in cell and cell.replace(",", "", 1).strip().lstrip("+-").isdecimal()


def _is_big(cell: str) -> bool:
    digits = cell.strip().lstrip("+-")
    return digits.isdecimal() and int(digits) > 2**53


def _is_number(cell: str) -> bool:
    try:
        Fraction(cell.strip())
    except (ValueError, ZeroDivisionError):
        return cell.strip().lower().lstrip("+-") in ("nan", "inf", "infinity")
    return True


def _number(cell: str, name: str, line: int, column: int, rational: bool) -> Fraction | float:
    try:
        return Fraction(cell.strip()) if rational else float(cell)
    except (ValueError, ZeroDivisionError):
        advice = (
            "Write decimals with a point."
            if _has_decimal_comma(cell)
            else "Drop columns of text, and fill or drop missing values."
        )
        what = repr(cell) if cell.strip() else "an empty cell"
        raise ValueError(
            f"`{name}` must hold numbers, after an optional header. Got {what} in line {line}, column {column}. "
            + advice
        ) from None
