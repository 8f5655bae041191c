"""Cells of tables: numbers read without rounding, and texts that no spreadsheet runs as a formula."""

import csv
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import ParameterError
from hardmax._types import AnyArray

if TYPE_CHECKING:
    from pandas import DataFrame

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # first characters of cells that a spreadsheet may run
MAX_DIGITS = 4000  # before or after the point


def parse_table(text: str, name: str) -> tuple[AnyArray, str]:
    """Return rows of numbers, and a sentence on a column that was left out, or an empty text.

    The numbers are Fractions if a cell is not exactly a float, such as 0.1 or 1/3; else floats. Empty lines and lines
    that begin with # are skipped, then a header without any number.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines:
        raise ParameterError(name, "hold one token per row", "an empty file", "Check how it was written.")
    mark = next((mark for mark in (";", "\t", ",") if mark in lines[0][1]), None)
    rows = [(number, next(csv.reader([line], delimiter=mark)) if mark else line.split()) for number, line in lines]
    header: list[str] = []
    if not any(is_number(cell) or _has_decimal_comma(cell) for cell in rows[0][1]):
        header = rows.pop(0)[1]
    if not rows:
        raise ParameterError(name, "hold one token per row", "a header or text alone", "Add rows of numbers.")
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            got = f"{len(row)} in line {number}, {width} before it"
            raise ParameterError(name, "have the same number of columns in each row", got, "Fill the gaps.")
    note = ""
    if _has_row_numbers(header, [row for _, row in rows]):
        rows = [(number, row[1:]) for number, row in rows]
        note = f"Left out the first column of {name}, which numbers the rows."
    table = [[_number(cell, name, n, c) for c, cell in enumerate(row, 1)] for n, row in rows]
    return np.array(table, np.float64 if all(isinstance(x, float) for row in table for x in row) else object), note


def _has_row_numbers(header: list[str], rows: list[list[str]]) -> bool:
    """Return whether the first column numbers the rows: named as an index, and 0, 1, 2, ... or 1, 2, 3, ..."""
    named = len(header) > 1 and header[0].strip().lower() in ("", "index", "unnamed: 0", "id", "token", "point", "row")
    numbers = [row[0].strip() for row in rows]
    return named and any(numbers == [str(i + first) for i in range(len(rows))] for first in (0, 1))


def _has_decimal_comma(cell: str) -> bool:
    return "," in cell and cell.replace(",", "", 1).strip().lstrip("+-").isdecimal()


def is_number(cell: str) -> bool:
    """Return whether `exact_number` reads a cell."""
    try:
        exact_number(cell)
    except ValueError:
        return False
    return True


def escape_formula(cell: Any) -> Any:
    """Return a cell of CSV that no spreadsheet runs as a formula: a text that may be one begins with an apostrophe.

    Examples
    --------
    >>> escape_formula("=1+2"), escape_formula("-0.5"), escape_formula("a film")
    ("'=1+2", '-0.5', 'a film')
    """
    risky = isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and not is_number(cell)
    return f"'{cell}" if risky else cell


def escape_formulas(frame: "DataFrame") -> "DataFrame":
    """Return the table with `escape_formula` of its texts and of the names of its columns."""
    safe = frame.copy()
    for i, kind in enumerate(frame.dtypes):
        if getattr(kind, "kind", "O") not in "biuf":
            cells = np.empty(len(frame), object)  # as Series.map would turn integers beside gaps into floats
            cells[:] = [escape_formula(cell) for cell in frame.iloc[:, i]]
            safe.isetitem(i, cells)
    return safe.set_axis([escape_formula(name) for name in frame.columns], axis=1)


def exact_number(text: str) -> float | Fraction:
    """Return a decimal or a ratio without rounding: a float where that is the number, else a Fraction."""
    try:
        decimal = Decimal(text.strip()) if "/" not in text else None
        if decimal is not None and not decimal.is_finite():
            return float(decimal)
        if decimal is not None and abs(decimal.adjusted()) > MAX_DIGITS:
            raise ValueError(f"too many digits to be written out: {text!r}")
        number = Fraction(text if decimal is None else decimal)
    except ArithmeticError:  # none of Decimal's numbers, or divided by 0
        raise ValueError(f"not a number: {text!r}") from None
    try:
        return float(number) if float(number) == number else number
    except OverflowError:
        return number


def _number(cell: str, name: str, line: int, column: int) -> Fraction | float:
    try:
        return exact_number(cell)
    except ValueError:
        must, got = "hold numbers, after an optional header", repr(cell) if cell.strip() else "an empty cell"
        text, comma = "Drop columns of text, and fill or drop missing values.", "Write decimals with a point."
        advice = comma if _has_decimal_comma(cell) else text
        raise ParameterError(name, must, f"{got} in line {line}, column {column}", advice) from None
