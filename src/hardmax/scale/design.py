"""The design of a sweep: the parameters of its cells, as a grid, a list, or random draws."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hardmax._errors import ParameterError, ParameterTypeError

RESERVED = ("cell", "seconds", "error")  # columns of every table
REPEAT = "seed"  # parameter that numbers repetitions: cells with equal values have common random numbers
Params = dict[str, Any]


@dataclass(frozen=True)
class Design:
    """The parameters of every cell, in a fixed order.

    Either `axes` is a grid, in which the last parameter varies fastest, or `cells` lists the cells.
    """

    axes: dict[str, list[Any]] | None = None
    cells: list[Params] | None = None

    def __len__(self) -> int:
        return len(self.cells) if self.cells is not None else prod(len(values) for values in (self.axes or {}).values())

    def __getitem__(self, index: int) -> Params:
        if self.cells is not None:
            return self.cells[index]
        axes = self.axes or {}
        indices = np.unravel_index(index, [len(values) for values in axes.values()])
        return {name: values[int(i)] for (name, values), i in zip(axes.items(), indices, strict=True)}

    @property
    def names(self) -> list[str]:
        """The parameters of every cell."""
        return list(self.cells[0] if self.cells is not None else self.axes or {})


def make_design(grid: object, samples: int | None, seed: int) -> Design:
    """Return the design of the parameters `grid`, `samples` and `seed` of `sweep`."""
    if samples is not None:
        return Design(cells=_draw(_axes(grid, "samples"), samples, seed))
    if isinstance(grid, Mapping):
        axes = {name: [plain(value, f"grid[{name!r}]") for value in values] for name, values in _axes(grid).items()}
        return _check_not_empty(Design(axes=axes))
    if isinstance(grid, Sequence) and not isinstance(grid, str) and all(isinstance(cell, Mapping) for cell in grid):
        return _check_not_empty(
            Design(cells=[_plain_cell(cell, index, set(grid[0])) for index, cell in enumerate(grid)])
        )
    must = "be a dict of lists, or a list of dicts"
    raise ParameterTypeError("grid", must, type(grid).__name__, "Such as {'alpha': [0.1, 0.5], 'n': [10, 100]}.")


def _check_not_empty(design: Design) -> Design:
    if not len(design):
        raise ParameterError("grid", "have at least one cell", "none", "Give every parameter a value.")
    return design


def _axes(grid: object, option: str = "") -> dict[str, Any]:
    """Return the values of each parameter: lists, or with `samples` also distributions."""
    if not isinstance(grid, Mapping) or not grid:
        must = f"be a dict of lists or distributions with `{option}`" if option else "name parameters"
        raise ParameterTypeError("grid", must, shown(grid), "Such as {'alpha': scipy.stats.loguniform(0.05, 5)}.")
    axes = {}
    for name, values in grid.items():
        _check_name(name)
        is_distribution = bool(option) and hasattr(values, "rvs")
        if not is_distribution and (isinstance(values, str) or not isinstance(values, Iterable)):
            advice = f"Write [{values!r}] for one value." if option or not hasattr(values, "rvs") else "Add `samples`."
            raise ParameterTypeError(f"grid[{name!r}]", "be a list of values", shown(values), advice)
        axes[name] = values if is_distribution else list(values)
        if not is_distribution and not axes[name]:
            raise ParameterError(f"grid[{name!r}]", "have at least one value", "none", "Leave the parameter out.")
    return axes


def _draw(axes: dict[str, Any], samples: object, seed: int) -> list[Params]:
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise ParameterError("samples", "be an integer of at least 1", repr(samples), "Pass an int.")
    rng = np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=(0, 0))
    )  # the spawn keys of cells have one number
    columns = {}
    for name, values in axes.items():
        if hasattr(values, "rvs"):
            drawn = values.rvs(size=samples, random_state=rng)
        else:
            drawn = [values[i] for i in rng.integers(len(values), size=samples)]
        columns[name] = [plain(value, f"grid[{name!r}]") for value in drawn]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plain_cell(cell: Mapping[Any, Any], index: int, names: set[str]) -> Params:
    for name in cell:
        _check_name(name)
    if set(cell) != names:
        must, got = f"have the parameters of the first cell, {', '.join(sorted(names))}", ", ".join(cell) or "none"
        raise ParameterError(f"grid[{index}]", must, got, "Pass None where a cell has no use for one.")
    return {name: plain(value, f"grid[{index}][{name!r}]") for name, value in cell.items()}


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or name in RESERVED:
        must = f"name parameters differently from {', '.join(RESERVED)}, which are columns of every table"
        raise ParameterError("grid", must, repr(name), "Choose another name.")


def plain(value: Any, name: str) -> Any:
    """Return a number, text, boolean or None of Python, which JSON and Parquet preserve."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    must = "hold numbers, texts, True, False or None"
    raise ParameterTypeError(name, must, shown(value), "Pass a name or a number, and build the object inside the cell.")


def shown(value: object) -> str:
    """Return the repr of a value, or its type if that is long."""
    text = repr(value)
    return text if len(text) < 60 else type(value).__name__
