"""Plots of the table of a sweep."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax._errors import ParameterError
from hardmax.draw.style import COLOURS, shows_once

if TYPE_CHECKING:
    import pandas as pd

MIN_LOG_RATIO = 20  # of the largest and the smallest value on a logarithmic axis


@shows_once
def plot_sweep(
    frame: "pd.DataFrame", *, x: str, y: str, by: str | None = None
) -> Figure:
    """Plot the mean of a column against a parameter, with the range between the
    quartiles shaded.

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
            raise ParameterError(
                name, f"be one of {', '.join(frame.columns)}", repr(column)
            )
    frame = frame[frame["error"].isna() & frame[y].notna()]
    has_texts = frame[y].map(type).eq(str).any()
    figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    if has_texts:
        curves = [
            (str(value), frame[y].eq(value).astype(float))
            for value in sorted(frame[y].unique())
        ]
    else:
        values = frame[y].astype(float)
        groups = [("", frame)] if by is None else frame.groupby(by)
        curves = [(str(key), values[group.index]) for key, group in groups]
    positions = sorted(frame[x].unique())
    is_categorical = any(isinstance(position, str) for position in positions)
    at = np.arange(len(positions)) if is_categorical else np.array(positions, float)
    for number, (label, column) in enumerate(curves):
        summary = (
            column.groupby(frame[x]).describe().reindex(positions)
        )  # NaN if there is no value
        colour, style = (
            COLOURS[number % len(COLOURS)],
            "-" if number < len(COLOURS) else "--",
        )
        ax.plot(
            at,
            summary["mean"],
            style,
            marker="o",
            ms=3.5,
            lw=1.5,
            color=colour,
            label=label,
        )
        if not has_texts:
            ax.fill_between(
                at, summary["25%"], summary["75%"], color=colour, alpha=0.15, lw=0
            )
    if is_categorical:
        ax.set_xticks(at, [str(position) for position in positions])
    elif (
        len(positions) > 2
        and positions[0] > 0
        and positions[-1] >= MIN_LOG_RATIO * positions[0]
    ):
        ax.set_xscale("log")
    ax.set_xlabel(x)
    ax.set_ylabel(f"share of {y}" if has_texts else y)
    if len(curves) > 1:
        ax.legend(fontsize=8, title=y if has_texts else by)
    return figure
