"""Sixty tokens, and the layer from which on the limit of each is proved."""

import numpy as np
from course.pictures.shared import Frame, axes, dots, lines, polygon
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import COLOURS, point_colours

RULE, LAYERS = hm.Hardmax(alpha=0.2), 16


def page() -> Page:
    """Slide through the layers; filled tokens are decided."""
    tokens = hm.configuration("ball", n=60, seed=54) * [1.3, 1.0]
    trajectory, limit = hm.simulate(tokens, RULE, layers=LAYERS), hm.limit(tokens, RULE)
    sizes = np.bincount(limit.clusters)
    colours = np.array(point_colours(sizes, [], COLOURS))[limit.clusters]
    frames = []
    for k in range(LAYERS + 1):
        done = (trajectory.decided >= 0) & (trajectory.decided <= k)
        leads = np.flatnonzero((trajectory.emerged >= 0) & (trajectory.emerged <= k))
        said = f"Layer {k}: {len(leads)} leaders; the limit of {done.sum()} of {len(tokens)} tokens is proved."
        texts = [f"token {i}: decided at layer {layer}" for i, layer in enumerate(trajectory.decided)]
        Z = trajectory.array[k]
        left = np.flatnonzero(~done)
        tails = lines(trajectory.array[max(0, k - 4) : k + 1].swapaxes(0, 1))
        rings = dots(Z, colours=np.where(done, colours, "#FFFFFF").tolist(), stars=leads, texts=texts)
        rings["marker"]["line"] = {
            "color": np.where(done, "#222222", colours).tolist(),
            "width": np.where(done, 1, 2.2).tolist(),
        }
        ways = lines([[Z[i], limit.tokens[i]] for i in np.flatnonzero(done)], "#CCCCCC")
        frames.append(
            Frame(
                str(k),
                said + (" Nothing is left open." if not len(left) else ""),
                [polygon(limit.points), ways, tails, rings],
            )
        )
    low, high = tokens.min(axis=0) - 0.1, tokens.max(axis=0) + 0.1
    return paged(
        frames,
        title="From which layer on is the limit proved?",
        slider="Layer ",
        legend="Stars lead. A filled circle is decided: a proof at this layer says that it goes straight to the "
        "leader of its colour, along the light line. A hollow one may still come to follow another. Shaded:"
        " the polytope K.",
        **axes(low, high),
    )
