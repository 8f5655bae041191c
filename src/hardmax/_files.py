"""Files: suffixes, atomic writes, and tables of numbers as text, read without rounding."""

import csv
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from errno import EISDIR
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import ParameterError
from hardmax._types import AnyArray

if TYPE_CHECKING:
    from pandas import DataFrame

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # first characters of cells that a spreadsheet may run
MAX_DIGITS = 4000  # before or after the point


def check_ending(path: str | PathLike[str], endings: Sequence[str], name: str = "path") -> str:
    """Return the suffix of a file in lower case, one of `endings`; `name` is the parameter that holds the path."""
    ending = Path(path).suffix.lower()
    if ending not in endings:
        which = " or ".join(endings) if len(endings) < 3 else f"one of {', '.join(endings)}"
        raise ParameterError(name, f"end in {which}", f"{str(path)!r}", "Change the ending.")
    return ending


def save_text(text: str, path: str | PathLike[str]) -> None:
    """Write text atomically; what is no character, such as bytes of a command line, becomes a question mark."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def check_writable(path: str | PathLike[str], *, folder: bool = False) -> None:
    """Refuse a file, or a folder, that cannot be written, before the work for it starts."""
    target = Path(path)
    if target.exists() and target.is_dir() != folder:
        raise _not_writable(target, "It is a file" if folder else "It is a folder", folder)
    above = target if folder else target.parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise _not_writable(target, "Its folder is a file", folder)
    try:
        from tempfile import TemporaryFile  # takes a while to load

        with TemporaryFile(dir=above):  # permissions do not show every folder that cannot be written
            pass
    except OSError as error:
        raise _not_writable(target, error.strerror, folder) from None


def _not_writable(path: Path, reason: str | None, folder: bool = False) -> OSError:
    kind = "a folder" if folder else "a file"
    return OSError(f"`{path}` must be {kind} that can be written. Got: {reason}. Choose another path.")


@contextmanager
def written_whole(path: str | PathLike[str], *, once: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`, with its suffix; rename it when the block succeeds, else remove it.

    With `once` it is on the disk before it has its name, so that a machine may stop at any time; and a file of this
    name stays as it is: several processes may write the same, and the first one keeps it.
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(EISDIR, "It is a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".{target.stem}-{secrets.token_hex(8)}{target.suffix}"
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # less the user's mask
    except OSError as error:
        if isinstance(error, FileExistsError | NotADirectoryError):
            error.strerror = "Its folder is a file"
        raise _not_writable(target, error.strerror) from None
    try:
        yield temporary
        if once:
            _keep_first(temporary, target)
        else:
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _keep_first(temporary: Path, target: Path) -> None:
    sync(temporary)
    try:
        os.link(temporary, target)  # unlike a rename, it fails where there is such a file
    except FileExistsError:
        return
    except OSError:  # a file system without links: another process may write in between
        if not target.exists():
            temporary.replace(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
