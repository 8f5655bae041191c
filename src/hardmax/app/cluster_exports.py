"""Clusters as files, and as the lines of Python that make them."""

import csv
import io
import json
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from hardmax.app.cluster_points import EXAMPLES
from hardmax.app.cluster_settings import parameters
from hardmax.app.clusters import Clusters, placed
from hardmax.app.exports import DRAWING, MOST_WRITTEN
from hardmax.draw.clusters import plot_clusters
from hardmax.text.files import escape_formula

KINDS = ("csv", "png", "svg")
FILE = "hardmax-clusters"
TREE = (5.0, 3.2)  # inches
INK = "#e8ebef"  # on a dark page


def as_python(found: Clusters) -> str:
    """Lines that make the same clusters, and run as they are."""
    points, settings, d = found.points, found.settings, found.points.X.shape[1]
    imports = ["import numpy as np", "import hardmax as hm"]
    if points.example:
        before, _, made = EXAMPLES[points.example][1].rpartition("\n\n")
        imports, lines = [*imports, *filter(None, [before])], [made.strip()]
    elif points.X.size <= MOST_WRITTEN:
        lines = [f"X = np.array({json.dumps(points.X.tolist())})"]
    else:
        imports.insert(1, "import pandas as pd")
        lines = [f'X = pd.read_csv("{FILE}.csv").iloc[:, 1:{d + 1}].to_numpy()  # Export, CSV']
    if settings.apart and settings.drawn:
        lines += [f"X = np.delete(X, {settings.drawn}, axis=1)"]
    given = ", ".join(f"{name}={value!r}" for name, value in parameters(settings, found.asked).items())
    lines += [f"clustering = hm.HardmaxClustering({given}).fit(X)"]
    if found.cut:
        lines += [
            f"labels, leaders = clustering.tree_.cut({settings.number})",
            "labels[clustering.labels_ == -1] = -1",
            "labels[leaders] = range(len(leaders))",
        ]
    else:
        lines += ["labels, leaders = clustering.labels_, clustering.leaders_"]
    return "\n".join([*imports, "", *lines, "print(len(leaders), leaders, labels)", ""])


def as_file(found: Clusters, kind: str) -> bytes:
    """Points with labels and strengths as CSV, or the picture."""
    return _csv(found) if kind == "csv" else _picture(found, kind)


def _csv(found: Clusters) -> bytes:
    points, labels, leaders = found.points, found.labels, found.leaders
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["point", *map(escape_formula, points.columns), "cluster", "leader", "leads", "strength"])
    leads = np.isin(np.arange(len(labels)), leaders)
    for i, (row, label) in enumerate(zip(points.X.tolist(), labels.tolist(), strict=True)):
        leader = escape_formula(points.name(int(leaders[label]))) if label >= 0 else ""
        rows.writerow(
            [escape_formula(points.name(i)), *row, label, leader, bool(leads[i]), round(float(found.strengths[i]), 6)]
        )
    return text.getvalue().encode()


def _picture(found: Clusters, kind: str) -> bytes:
    points, axes, _ = placed(found.points, found.settings)
    with DRAWING:
        figure = plot_clusters(points, found.labels, found.leaders)
        figure.axes[0].set(xlabel=axes[0], ylabel=axes[1])
        return _written(figure, kind)


def tree_picture(found: Clusters, *, dark: bool) -> bytes:
    """The tree with its cut, as SVG for a light or a dark page."""
    with DRAWING:
        figure = found.tree.plot(len(found.leaders))
        figure.set_size_inches(TREE)
        figure.patch.set_alpha(0)
        for ax in figure.axes:
            ax.title.set_size(8)
            ax.patch.set_alpha(0)
            if dark:
                for text in (ax.title, ax.yaxis.label, *ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()):
                    text.set_color(INK)
                ax.tick_params(colors=INK)
                for line in (*ax.spines.values(), *ax.lines):
                    line.set_color(INK)
        return _written(figure, "svg")


def _written(figure: Any, kind: str) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format=kind, dpi=150)
    plt.close(figure)
    return data.getvalue()
