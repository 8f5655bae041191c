"""Three tokens, one of which moves: the leaders and followers."""

import numpy as np
from course.pictures.shared import Frame, arrow, dots, lines, listed, plane
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import COLOURS

STILL = np.array([[2.0, 0.5], [-1.0, 1.0]])
LOW, HIGH = np.array([-2.6, -1.9]), np.array([3.1, 2.1])


def path(t: float) -> np.ndarray:
    """Return the position of the third token, on a closed curve for t from 0 to 1."""
    return np.array(
        [0.5 + 1.5 * np.cos(2 * np.pi * t), -0.2 + 1.4 * np.sin(2 * np.pi * t)]
    ).round(3)


def frame(t: float) -> Frame:
    """Return the frame with the third token at t."""
    tokens = np.vstack([STILL, path(t)])
    trajectory = hm.simulate(tokens, hm.Hardmax(alpha=0.5), layers=1)
    sets, leaders, third = (
        trajectory.sets(0),
        [i for i, C in enumerate(trajectory.sets(0)) if C.tolist() == [i]],
        tokens[2],
    )
    said = (
        f"{'Token' if len(leaders) == 1 else 'Tokens'} {listed(leaders)}"
        f" {'leads' if len(leaders) == 1 else 'lead'}."
    )
    others = [i for i in range(3) if i not in leaders]
    said += "".join(f" Token {i} follows {listed(sets[i])}." for i in others)
    unit = third / np.linalg.norm(third)
    reach = (
        unit * (tokens @ unit).max()
    )  # the farthest that a token reaches in the direction of the third
    across = np.array([-unit[1], unit[0]])
    guides = lines(
        [[0 * unit, 4 * unit], [reach - 4 * across, reach + 4 * across]],
        dash=[3, 5],
        alpha=1,
    )
    colours = [COLOURS[sets[i][0]] if len(sets[i]) == 1 else "paper" for i in range(3)]
    arrows = [
        arrow(
            tokens[i],
            tokens[i] + 0.93 * (tokens[sets[i]].mean(axis=0) - tokens[i]),
            COLOURS[i],
        )
        for i in range(3)
    ]
    return Frame(
        f"{t:.0%}",
        said,
        [
            [
                guides,
                *arrows,
                dots(tokens, colours=colours, stars=leaders, names=list("012")),
            ]
        ],
    )


def page() -> Page:
    """Return the page; the slider moves the third token along the curve."""
    return paged(
        [frame(t) for t in np.linspace(0, 1, 41)],
        plane(LOW, HIGH, label="three tokens"),
        title="Move token 2: which token does each one follow?",
        start=18,
        slider="Position of token 2: ",
        legend=(
            "Stars are leaders. Each token has the colour of the token it follows;"
            " arrows point to it. Dashed: the direction of token 2, and the"
            " perpendicular through the token it follows."
        ),
    )
