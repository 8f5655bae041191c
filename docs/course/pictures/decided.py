"""Sixty tokens, and the layer from which on the limit of each is proved."""

import numpy as np
from course.pictures.shared import Frame, dots, lines, plane, polygon
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import COLOURS, point_colours

RULE, LAYERS = hm.Hardmax(alpha=0.2), 16


def page() -> Page:
    """Return the page; the slider chooses the layer, and filled tokens are decided."""
    tokens = hm.configuration("ball", n=60, seed=54) * [1.3, 1.0]
    trajectory, limit = hm.simulate(tokens, RULE, layers=LAYERS), hm.limit(tokens, RULE)
    sizes = np.bincount(limit.clusters)
    colours = np.array(point_colours(sizes, [], COLOURS))[limit.clusters]
    frames = []
    for k in range(LAYERS + 1):
        done = (trajectory.decided >= 0) & (trajectory.decided <= k)
        leads = np.flatnonzero((trajectory.emerged >= 0) & (trajectory.emerged <= k))
        said = (
            f"Layer {k}: {len(leads)} leaders; the limit of {done.sum()} of"
            f" {len(tokens)} tokens is proved."
        )
        texts = [
            f"token {i}: decided at layer {layer}"
            for i, layer in enumerate(trajectory.decided)
        ]
        Z = trajectory.array[k]
        left = np.flatnonzero(~done)
        tails = lines(trajectory.array[max(0, k - 4) : k + 1].swapaxes(0, 1))
        faces, edges = np.where(
            done, [colours, ["ink"] * len(done)], [["paper"] * len(done), colours]
        ).tolist()
        rings = dots(Z, colours=faces, edges=edges, stars=leads, texts=texts)
        paths = lines(
            [[Z[i], limit.tokens[i]] for i in np.flatnonzero(done)], "line", alpha=1
        )
        frames.append(
            Frame(
                str(k),
                said + (" All limits are proved." if not len(left) else ""),
                [[polygon(limit.points), paths, tails, rings]],
            )
        )
    low, high = tokens.min(axis=0) - 0.1, tokens.max(axis=0) + 0.1
    return paged(
        frames,
        plane(low, high, label="tokens"),
        title="From which layer on is the limit proved?",
        slider="Layer ",
        legend=(
            "Stars are leaders. A filled circle is decided: it is proved that it goes"
            " straight to the leader of its colour, along the light line. A hollow"
            " circle may still change its leader. Shaded: the polytope K."
        ),
    )
