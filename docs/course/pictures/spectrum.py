"""Self-attention with V = diag(1, mu), by mu."""

import numpy as np
from course.pictures.shared import Frame, dots, lines, plane
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.flows import rank_clusters
from hardmax.draw.pages import Page
from hardmax.draw.style import cluster_colours

MU = [1.0, 0.9, 0.8, 0.6, 0.4, 0.2, 0.0, -0.1, -0.2]
UNTIL = 8.0
HIGH = 4.6


def page() -> Page:
    """Return the page; the slider decreases the second eigenvalue from 1."""
    tokens = np.random.default_rng(3).uniform(-3, 3, (30, 2)).round(2)
    frames = []
    for mu in MU:
        V = np.diag([1.0, mu])
        trajectory = hm.simulate(
            tokens, hm.SelfAttention(V=V), times=np.linspace(0, UNTIL, 61)
        )
        Z = np.asarray(trajectory.rescaled)
        said = f"Eigenvalues 1 and {mu:g}. {hm.classify(V=V)}"
        beyond = int((np.abs(Z[-1, :, 1]) > HIGH).sum())
        said += (
            f" {beyond} of 30 tokens are above or below the picture." if beyond else ""
        )
        colours = cluster_colours(rank_clusters(trajectory))
        frames.append(
            Frame(
                f"{mu:g}",
                said,
                [[lines(Z.swapaxes(0, 1)), dots(Z[-1], colours=colours)]],
            )
        )
    return paged(
        frames,
        plane([-5, -HIGH], [5, HIGH], label="rescaled tokens"),
        title="Thirty tokens under V = diag(1, μ)",
        slider="Second eigenvalue μ = ",
        legend=(
            "Circles: rescaled tokens z at t = 8, with their paths from t = 0. Colours:"
            " clusters in the leading directions of V; grey: alone."
        ),
    )
