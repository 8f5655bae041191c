"""A guided tour of the playground, from one leader to choosing A: what to look at, and the scene to look at it in."""

from typing import NamedTuple

import numpy as np

from hardmax.app.scene import Scene


class Step(NamedTuple):
    """A title, what to see and try, and the scene."""

    title: str
    text: str
    scene: Scene


def steps() -> list[Step]:
    """The five steps."""
    one = Scene(np.array([[1.6, 1.2], [0.5, 0.3], [0.2, 0.7], [0.9, 0.1], [0.4, 0.9]]))
    three = Scene.of_cloud("triangle")
    emerging = Scene.of_cloud("emerging-leader").changed(overlays=["trails", "polytope", "limit"])
    soft = Scene.of_cloud("square").changed(rule="softmax", temperature=0.6)
    ball = Scene.of_cloud("ball", n=50).changed(overlays=["trails", "polytope", "ellipse"])
    return [
        Step(
            "One leader",
            "Every token follows the one with the largest projection on its own direction. Here that is the "
            "star, for all of them. Press Play; then drag the star inwards until another token leads.",
            one,
        ),
        Step(
            "A polytope",
            "Three leaders stand still, and the others gather around them. The shaded polygon is the convex "
            "hull of the leaders: its vertices are where tokens end.",
            three,
        ),
        Step(
            "A leader emerges",
            "One token becomes a leader only after the first layer. Crosses mark where each token ends, "
            "which is proved: the panel says by which theorem.",
            emerging,
        ),
        Step(
            "Softmax becomes hardmax",
            "With softmax everybody attends a little to all. Move the temperature down to 0 and "
            "watch the tokens part: at 0 it is hardmax.",
            soft,
        ),
        Step(
            "Choose A",
            "Who leads depends on the matrix A, drawn as an ellipse; pull its handles. Or select a token, say "
            "that it shall lead, and let the page find A, or say why there is none.",
            ball,
        ),
    ]
