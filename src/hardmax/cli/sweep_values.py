"""Values of parameters as people write them on the command line, and cells of one's own from a file."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._errors import ParameterError, needed_for
from hardmax.scale.child import Cell

SPACINGS: dict[str, Callable[..., Any]] = {"log": np.geomspace, "lin": np.linspace}
WORDS = {"true": True, "false": False, "none": None}
HOW = "Write 1,2,5 for values, 0.05:5:log:20 or 0:1:lin:11 for as many between two, and 0.05:5:log with --samples."


def values_of(text: str, name: str, *, whole: bool = False) -> Any:
    """A list of values, or the distribution of a range without a count; `whole` rounds numbers of a range."""
    parts = text.split(":")
    if len(parts) not in (3, 4) or parts[2] not in SPACINGS:
        return [_value(each.strip()) for each in text.split(",") if each.strip()]
    low, high = (_number(each, name, text) for each in parts[:2])
    if not low < high or (parts[2] == "log" and low <= 0):
        raise ParameterError(name, "go from a smaller number to a larger one, above 0 for log", repr(text), HOW)
    if len(parts) == 3:
        from scipy.stats import loguniform, uniform

        drawn = loguniform(low, high) if parts[2] == "log" else uniform(low, high - low)
        return _Whole(drawn) if whole else drawn
    if not parts[3].isdecimal() or int(parts[3]) < 2:
        raise ParameterError(name, "end in how many values there are, at least 2", repr(text), HOW)
    values = SPACINGS[parts[2]](low, high, int(parts[3])).tolist()
    return list(dict.fromkeys(round(value) for value in values)) if whole else values


class _Whole:
    """A distribution, rounded to whole numbers."""

    def __init__(self, drawn: Any) -> None:
        self.drawn = drawn

    def rvs(self, size: int, random_state: np.random.Generator) -> Any:
        return np.rint(self.drawn.rvs(size=size, random_state=random_state)).astype(int)


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _number(text: str, name: str, written: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError(name, "go from a number to a number", repr(written), HOW) from None


def parameters_of(arguments: list[str]) -> dict[str, Any]:
    """Options that a command does not know, as parameters: --x 1,2 or --x=1,2."""
    given, left = dict[str, Any](), list(arguments)
    while left:
        flag = left.pop(0)
        name, _, value = flag.partition("=")
        if not name.startswith("--") or len(name) < 3:
            raise ParameterError("parameters", "be written as --name values", repr(flag), HOW)
        if not value:
            if not left or left[0].startswith("--"):
                raise ParameterError(name, "have values", "none", HOW)
            value = left.pop(0)
        name = name[2:].replace("-", "_")
        given[name] = values_of(value, name)
    return given


def load_cell(where: str) -> Cell:
    """The function of a file, written my_cells.py:cell.

    It travels to workers with its code and that of modules beside it, which they need not have.
    """
    with needed_for("`hardmax sweep`", None, "scale"):
        import cloudpickle
    file, _, name = where.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        advice = "Such as my_cells.py:cell, or a name of `hardmax sweep --help`."
        raise ParameterError("cell", "be a Python file that exists, a colon, and a function", repr(where), advice)
    spec = importlib.util.spec_from_file_location(path.name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.name] = importlib.util.module_from_spec(spec)
    folder = path.resolve().parent
    sys.path.insert(0, str(folder))  # for modules beside it
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
