"""Forty tokens after thirty layers of softmax, by temperature."""

import numpy as np
from course.pictures.shared import Frame, dots, lines, plane
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import cluster_colours

TEMPERATURES = [
    10.0,
    5.0,
    3.0,
    2.0,
    1.5,
    1.0,
    0.7,
    0.5,
    0.3,
    0.2,
    0.1,
    0.05,
    0.02,
    0.01,
    0.0,
]
LAYERS = 30


def page() -> Page:
    """Return the page; the slider decreases the temperature to 0, which is hardmax."""
    tokens = hm.configuration("gaussian", n=40, seed=4)
    limit = hm.limit(tokens, hm.Hardmax(0.5))
    stars = dots(
        tokens[limit.leaders], colours="shade", stars=range(len(limit.leaders))
    )
    frames = []
    for temperature in TEMPERATURES:
        rule = (
            hm.Softmax(0.5, temperature=temperature) if temperature else hm.Hardmax(0.5)
        )
        trajectory = hm.simulate(tokens, rule, layers=LAYERS)
        Z = trajectory.array
        colours = cluster_colours(groups(Z[-1]))
        places = groups(Z[-1]).max() + 1
        off = np.linalg.norm(Z[-1] - limit.tokens, axis=1).max()
        said = (
            f"Temperature {temperature:g}: {places} place{'s' if places > 1 else ''}"
            f" after {LAYERS} layers. "
        )
        said += f"Farthest from its limit under hardmax: {off:.2f}."
        paths = lines(Z.swapaxes(0, 1))
        frames.append(
            Frame(
                f"{temperature:g}", said, [[stars, paths, dots(Z[-1], colours=colours)]]
            )
        )
    return paged(
        frames,
        plane(
            tokens.min(axis=0) - 0.3,
            tokens.max(axis=0) + 0.3,
            label="tokens after 30 layers",
        ),
        title="The same forty tokens at falling temperature",
        slider="Temperature ",
        legend=(
            "Circles: tokens after 30 layers, in one colour where they are joined by"
            " steps shorter than 0.1, with their paths from the start. Pale stars: the"
            " leaders of hardmax, which is temperature 0."
        ),
    )


def groups(Z: np.ndarray, near: float = 0.1) -> np.ndarray:
    """Return labels of tokens that a chain of short steps joins, the largest group
    first.
    """
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(np.linalg.norm(Z[:, None] - Z[None], axis=-1) < near)[
        1
    ]
    order = np.argsort(-np.bincount(labels), kind="stable")
    return np.argsort(order)[labels]
