"""The design of a sweep: the parameters of its cells, as a grid, a list, or random
draws.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._validation import check_count, shortened

RESERVED = ("cell", "seconds", "error")  # columns of every table
# parameter that numbers repetitions: cells with equal values have common random numbers
REPEAT = "seed"
Plain = bool | int | float | str | None  # values that JSON and Parquet preserve
Params = dict[str, Any]


def make_design(grid: Any, samples: int | None, seed: int) -> list[Params]:
    """Return the parameters of each cell for `grid`, `samples` and `seed` of `sweep`;
    the last varies fastest.
    """
    if isinstance(grid, Mapping) and grid:
        axes = {
            name: _check_axis(name, values, is_drawn=samples is not None)
            for name, values in grid.items()
        }
        drawn = (
            None
            if samples is None
            else _draw(axes, check_count(samples, "samples", least=1), seed)
        )
        cells = [
            dict(zip(axes, values, strict=True))
            for values in drawn or product(*axes.values())
        ]
    elif (
        samples is None
        and isinstance(grid, Sequence)
        and grid
        and all(isinstance(cell, Mapping) for cell in grid)
    ):
        cells = list(grid)
    else:
        kinds = (
            "lists, or a list of dicts"
            if samples is None
            else "lists or distributions with `samples`"
        )
        must = f"be a dict of {kinds}, and not empty"
        raise ParameterTypeError(
            "grid",
            must,
            shortened(grid),
            "Such as {'alpha': [0.1, 0.5], 'n': [10, 100]}.",
        )
    return [_check_cell(cell, index, set(cells[0])) for index, cell in enumerate(cells)]


def _check_axis(name: Any, values: Any, *, is_drawn: bool) -> Any:
    """Return the values of a parameter as a list; if cells are drawn at random, also as
    a distribution.
    """
    has_distribution = hasattr(values, "rvs")
    if is_drawn and has_distribution:
        return values
    if isinstance(values, str) or not isinstance(values, Iterable):
        advice = (
            "Add `samples`."
            if has_distribution
            else f"Write [{values!r}] for one value."
        )
        raise ParameterTypeError(
            f"grid[{name!r}]", "be a list of values", shortened(values), advice
        )
    found = list(values)
    if not found:
        raise ParameterError(
            f"grid[{name!r}]",
            "have at least one value",
            "none",
            "Leave the parameter out.",
        )
    return found


def _draw(axes: dict[str, Any], samples: int, seed: int) -> list[tuple[Any, ...]]:
    """Return the values of each cell, in the order of the axes."""
    # The spawn keys of cells have one number.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 0)))
    columns = []
    for values in axes.values():
        if hasattr(values, "rvs"):
            columns.append(values.rvs(size=samples, random_state=rng))
        else:
            columns.append([values[i] for i in rng.integers(len(values), size=samples)])
    return list(zip(*columns, strict=True))


def _check_cell(cell: Mapping[Any, Any], index: int, names: set[str]) -> Params:
    for name in cell:
        if not isinstance(name, str) or not name or name in RESERVED:
            must = (
                f"name parameters differently from {', '.join(RESERVED)}, which are"
                " columns of every table"
            )
            raise ParameterError("grid", must, repr(name), "Choose another name.")
    if set(cell) != names:
        must, got = (
            f"have the parameters of the first cell, {', '.join(sorted(names))}",
            ", ".join(cell) or "none",
        )
        raise ParameterError(
            f"grid[{index}]", must, got, "Pass None where a cell has no use for one."
        )
    return {name: _check_plain(value, name) for name, value in cell.items()}


def _check_plain(value: Any, name: str) -> Plain:
    value = value.tolist() if isinstance(value, np.generic) else value
    if isinstance(value, Plain):
        return value
    must, advice = (
        "hold numbers, texts, True, False or None",
        "Pass a name, and build the object inside the cell.",
    )
    raise ParameterTypeError(f"grid[{name!r}]", must, shortened(value), advice)
