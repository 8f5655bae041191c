"""Plots of the table of a sweep."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax._errors import ParameterError
from hardmax.draw.style import COLOURS, shows_once

if TYPE_CHECKING:
    import pandas as pd

MIN_LOG_RATIO = 20  # of the largest and the smallest value on a logarithmic axis


@shows_once
def plot_sweep(frame: "pd.DataFrame", *, x: str, y: str, by: str | None = None) -> Figure:
    """Plot the mean of a column against a parameter, with the range between the quartiles shaded.

    Parameters
    ----------
    frame : pandas.DataFrame
        `SweepTable.to_frame()`. Rows with an error and missing values are left out.
    x : str
        The column on the x axis.
    y : str
        The column on the y axis; for texts, the share of each text.
    by : str, optional
        A column with one curve per value; not used if `y` holds texts.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ParameterError
        If there is no such column.

    Examples
    --------
    >>> import pandas as pd
    >>> import hardmax as hm
    >>> frame = pd.DataFrame({"n": [10, 10, 100, 100], "leaders": [4, 6, 9, 11], "error": [None] * 4})
    >>> figure = hm.draw.plot_sweep(frame, x="n", y="leaders")
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('n', 'leaders')
    """
    for name, column in (("x", x), ("y", y), ("by", by)):
        if column is not None and column not in frame.columns:
            raise ParameterError(name, f"be one of {', '.join(frame.columns)}", repr(column))
    frame = frame[frame["error"].isna() & frame[y].notna()]
    texts = frame[y].map(type).eq(str).any()
    figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    curves = _shares(frame, y) if texts else _groups(frame, y, by)
    places = sorted(frame[x].unique())
    named = any(isinstance(place, str) for place in places)
    for number, (label, values) in enumerate(curves):
        means, low, high = _summary(values, frame[x], places)
        at, colour = np.arange(len(places)) if named else np.array(places, float), COLOURS[number % len(COLOURS)]
        style = "-" if number < len(COLOURS) else "--"
        ax.plot(at, means, style, marker="o", ms=3.5, lw=1.5, color=colour, label=label)
        if not texts:
            ax.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)
    if named:
        ax.set_xticks(range(len(places)), [str(place) for place in places])
    elif len(places) > 2 and places[0] > 0 and places[-1] >= MIN_LOG_RATIO * places[0]:
        ax.set_xscale("log")
    ax.set_xlabel(x)
    ax.set_ylabel(f"share of {y}" if texts else y)
    if len(curves) > 1:
        ax.legend(fontsize=8, title=y if texts else by)
    return figure


def _shares(frame: "pd.DataFrame", y: str) -> list[tuple[str, Any]]:
    return [(str(value), frame[y].eq(value).astype(float)) for value in sorted(frame[y].unique())]


def _groups(frame: "pd.DataFrame", y: str, by: str | None) -> list[tuple[str, Any]]:
    values = frame[y].astype(float)
    return [("", values)] if by is None else [(str(key), values[group.index]) for key, group in frame.groupby(by)]


def _summary(values: Any, x: Any, places: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Return mean and quartiles at each value of x; NaN if there is no value."""
    groups = values.groupby(x[values.index])
    quartiles = groups.quantile([0.25, 0.75]).unstack()
    return groups.mean().reindex(places), quartiles[0.25].reindex(places), quartiles[0.75].reindex(places)
