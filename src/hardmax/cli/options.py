"""Options that commands share, and how their text becomes tokens and rules."""

import csv
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import Hardmax, configuration
from hardmax.configurations import NAMES, RANDOM

Input = Annotated[
    str,
    typer.Argument(
        metavar="TOKENS",
        help=f"A CSV or .npy file with one token a row, or a name: {', '.join(NAMES)}.",
        show_default=False,
    ),
]
N = Annotated[int, typer.Option("--n", help="How many random tokens, for gaussian, ball and sphere.")]
D = Annotated[int, typer.Option("--d", help="Their dimension.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random tokens.")]
Alpha = Annotated[
    str, typer.Option("--alpha", help="Step size: a number, a ratio such as 1/2, or a list, one a layer.")
]
A = Annotated[
    str | None,
    typer.Option("--A", help="The matrix A as a CSV or .npy file. Left out: the identity.", show_default=False),
]
AnyA = Annotated[bool, typer.Option("--any-A", help="Allow an A that is not symmetric positive definite.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Rational arithmetic throughout; decimals in a CSV are read exactly.")
]
Ties = Annotated[str, typer.Option("--ties", help='"exact", or a relative tolerance that takes near-ties for ties.')]
Normalize = Annotated[bool, typer.Option("--normalize/--no-normalize", help="Divide by 1 + alpha after each layer.")]
Layers = Annotated[int, typer.Option("--layers", help="How many layers to run.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Out = Annotated[
    list[Path] | None,
    typer.Option("--out", help="Write a file, by its ending; may be given several times.", show_default=False),
]


def read_tokens(source: str, *, n: int, d: int, seed: int, exact: bool) -> Any:
    """Tokens from a file or a named configuration."""
    path = Path(source)
    if source in NAMES:
        if source not in RANDOM and (n, d) != (100, 2):
            raise ValueError(f"`--n` and `--d` must go with {', '.join(RANDOM)}. Got them with {source!r}. Drop them.")
        return configuration(source, n=n, d=d, seed=seed)
    if path.suffix.lower() not in (".csv", ".tsv", ".txt", ".npy"):
        raise ValueError(
            f"TOKENS must be a .csv or .npy file, or one of {', '.join(NAMES)}. Got {source!r}. "
            "Check the spelling, or save the tokens as CSV."
        )
    return read_matrix(path, exact=exact)


def read_matrix(path: Path, *, exact: bool) -> Any:
    """Numbers from a CSV (separated by commas, semicolons, tabs or spaces; a header is skipped) or .npy file."""
    if not path.is_file():
        raise ValueError(f"`{path}` must be a file. Got none by that name. Check the path.")
    if path.suffix.lower() == ".npy":
        try:
            return np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError):
            raise ValueError(
                f"`{path}` must be a NumPy array of numbers. Got a broken file, or one with Python objects, which are "
                "never loaded. Save it again with np.save."
            ) from None
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"`{path}` must be text in UTF-8. Got other bytes. Save it as CSV in UTF-8.") from None
    return parse_table(text, str(path), exact=exact)


def parse_table(text: str, name: str, *, exact: bool) -> Any:
    """Rows of numbers; Fractions if `exact` or if some cell is written as a ratio."""
    rows = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not rows:
        raise ValueError(f"`{name}` must hold one token a row. Got an empty file. Check how it was written.")
    separator = next((mark for mark in (",", ";", "\t") if mark in rows[0][1]), None)
    cells = [
        (number, next(csv.reader([line], delimiter=separator)) if separator else line.split()) for number, line in rows
    ]
    if not any(_is_number(cell) for cell in cells[0][1]) and len(cells) > 1:
        cells = cells[1:]  # a header
    width = len(cells[0][1])
    table: list[list[Fraction | float]] = []
    rational = exact or "/" in text
    for number, row in cells:
        if len(row) != width:
            raise ValueError(
                f"`{name}` must have the same number of columns in each row. Got {len(row)} in line {number}, "
                f"{width} before it. Fill the gaps."
            )
        table.append([_number(cell, name, number, c, rational) for c, cell in enumerate(row, 1)])
    return np.array(table, dtype=object if rational else np.float64)


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
        raise ValueError(
            f"`{name}` must hold numbers, after an optional header. Got {cell!r} in line {line}, column {column}. "
            "Drop columns of text, and fill or drop missing values."
        ) from None


def read_rule(alpha: str, matrix: str | None, *, any_A: bool, exact: bool, ties: str, normalize: bool) -> Hardmax:
    """A rule from the text of the options."""
    try:
        steps = [Fraction(part) if exact or "/" in part else float(part) for part in alpha.split(",")]
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"`--alpha` must be a positive number, a ratio or a list. Got {alpha!r}. Try 0.5.") from None
    try:
        tolerance: str | float = ties if ties == "exact" else float(ties)
    except ValueError:
        raise ValueError(
            f'`--ties` must be "exact" or a number in [0, 1). Got {ties!r}. Leave it out if unsure.'
        ) from None
    A = None if matrix is None else read_matrix(Path(matrix), exact=exact)
    step = steps[0] if len(steps) == 1 else steps
    return Hardmax(step, A, normalize=normalize, ties=tolerance, exact=exact, any_A=any_A)
