"""Matrices of numbers from files: tokens, one a row, and the matrices of a rule."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from hardmax._errors import ParameterError, did_you_mean
from hardmax._types import AnyArray
from hardmax.cli import output
from hardmax.text.tables import parse_table

WRITTEN_OUT = re.compile(r"\s*[-+]?[\d.][^,;]*[,;]")  # begins with a number and what comes between two
READABLE = (".csv", ".tsv", ".txt", ".npy")


def read_matrix(source: str, parameter: str, names: Iterable[str]) -> AnyArray:
    """Numbers from a .npy file, from a text with commas, semicolons, tabs or spaces between them, or written out.

    Standard input, -, is a text. Written out, rows end in semicolons: 2,1;1,1.
    """
    path = Path(source)
    if source == "-":
        return _parsed(sys.stdin.read(), source)
    if WRITTEN_OUT.match(source) and path.suffix.lower() not in READABLE and not path.exists():
        return _parsed(source.replace(";", "\n"), source)
    if path.suffix.lower() not in READABLE:
        must = f"be a .csv or .npy file, or one of {', '.join(names)}"
        advice = did_you_mean(source, names, "Check the spelling, or save the numbers as CSV.")
        raise ParameterError(parameter, must, f"{source!r}", advice)
    if not path.is_file():
        raise ParameterError(path, "be a file", "a folder" if path.is_dir() else "none by that name", "Check the path.")
    if path.suffix.lower() == ".npy":
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (ValueError, EOFError, OSError):
            got = "a broken file, or one with Python objects, which are never loaded"
            raise ParameterError(path, "be a NumPy array of numbers", got, "Save it again with np.save.") from None
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ParameterError(path, "be text in UTF-8", "other bytes", "Save it as CSV in UTF-8.") from None
    return _parsed(text, source)


def _parsed(text: str, name: str) -> AnyArray:
    table, note = parse_table(text, name)
    if note:
        output.note(note)
    return table
