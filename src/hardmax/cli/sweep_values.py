"""Values of `--set`, and cells in Python files."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._errors import ParameterError, needed_for
from hardmax.scale.cell_process import Cell

SPACINGS: dict[str, Callable[..., Any]] = {"log": np.geomspace, "lin": np.linspace}
WORDS = {"true": True, "false": False, "none": None}
FORMAT = (
    "Write 1,2,5 for a list, 0.05:5:log:20 or 0:1:lin:11 for a range with a number of values, 0.05:5:log to sample."
)


def parse_grid(settings: Sequence[str], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the values of each parameter, from texts such as "n=10,100"; ranges are rounded for integer defaults."""
    grid: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name or not text.strip():
            raise ParameterError("values", "be written as NAME=VALUES", repr(setting), FORMAT)
        if name in grid:
            raise ParameterError(name, "be set once", "two settings", "Write all values in one: 1,2,5.")
        grid[name] = parse_values(text, name, is_integer=isinstance(defaults.get(name), int))
    return grid


def parse_values(text: str, name: str, *, is_integer: bool = False) -> Any:
    """Return a list of values, or the distribution of a range without a number of values."""
    parts = text.split(":")
    if len(parts) not in (3, 4) or parts[2] not in SPACINGS:
        return [_parse_value(each.strip()) for each in text.split(",") if each.strip()]
    low, high = (_parse_number(each, name, text) for each in parts[:2])
    if not low < high or (parts[2] == "log" and low <= 0):
        raise ParameterError(name, "range from a smaller number to a larger one, positive for log", repr(text), FORMAT)
    if len(parts) == 3:
        from scipy.stats import loguniform, uniform

        distribution = loguniform(low, high) if parts[2] == "log" else uniform(low, high - low)
        return _Rounded(distribution) if is_integer else distribution
    if not parts[3].isdecimal() or int(parts[3]) < 2:
        raise ParameterError(name, "end in the number of values, at least 2", repr(text), FORMAT)
    values = SPACINGS[parts[2]](low, high, int(parts[3])).tolist()
    return list(dict.fromkeys(round(value) for value in values)) if is_integer else values


class _Rounded:
    """A distribution, rounded to integers."""

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution

    def rvs(self, size: int, random_state: np.random.Generator) -> Any:
        return np.rint(self.distribution.rvs(size=size, random_state=random_state)).astype(int)


def _parse_value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parse_number(text: str, name: str, written: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError(name, "range from a number to a number", repr(written), FORMAT) from None


def load_cell(where: str) -> Cell:
    """Return the function of a file, written my_cells.py:cell.

    It is pickled by value, together with modules in the same folder, so that workers need not have the files.
    """
    with needed_for("`hardmax sweep`", None, "scale"):
        import cloudpickle
    file, _, name = where.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        advice = "For example my_cells.py:cell, or a name of `hardmax sweep --help`."
        raise ParameterError("cell", "be an existing Python file, a colon, and a function", repr(where), advice)
    spec = importlib.util.spec_from_file_location(path.name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.name] = importlib.util.module_from_spec(spec)
    folder = path.resolve().parent
    sys.path.insert(0, str(folder))  # for modules in the same folder
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ParameterError("cell", f"name a function of {path}", repr(name), f"It has {', '.join(known) or 'none'}.")
    for each in list(sys.modules.values()):
        if (source := getattr(each, "__file__", None)) and Path(source).parent == folder:
            cloudpickle.register_pickle_by_value(each)
    found: Cell = function
    return found
