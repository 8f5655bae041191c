"""Three tokens, one of them dragged: who follows whom."""

import numpy as np
from course.pictures.shared import Frame, arrow, axes, dots, lines, listed
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import COLOURS, GREY

STILL = np.array([[2.0, 0.5], [-1.0, 1.0]])
LOW, HIGH = np.array([-2.6, -1.9]), np.array([3.1, 2.1])


def path(t: float) -> np.ndarray:
    """Where the third token is dragged to: once round, t from 0 to 1."""
    return np.array([0.5 + 1.5 * np.cos(2 * np.pi * t), -0.2 + 1.4 * np.sin(2 * np.pi * t)]).round(3)


def frame(t: float) -> Frame:
    """The picture with the third token at t."""
    tokens = np.vstack([STILL, path(t)])
    trajectory = hm.simulate(tokens, hm.Hardmax(alpha=0.5), layers=1)
    sets, leaders, third = (
        trajectory.sets(0),
        [i for i, C in enumerate(trajectory.sets(0)) if C.tolist() == [i]],
        tokens[2],
    )
    said = f"{'Token' if len(leaders) == 1 else 'Tokens'} {listed(leaders)} {'leads' if len(leaders) == 1 else 'lead'}."
    others = [i for i in range(3) if i not in leaders]
    said += "".join(f" Token {i} follows {listed(sets[i])}." for i in others)
    unit = third / np.linalg.norm(third)
    reach = unit * (tokens @ unit).max()  # the farthest that a token reaches in the direction of the third
    across = np.array([-unit[1], unit[0]])
    guides = lines([[0 * unit, 4 * unit], [reach - 4 * across, reach + 4 * across]], GREY)
    guides["line"] |= {"dash": "dot"}
    colours = [COLOURS[sets[i][0]] if len(sets[i]) == 1 else "#FFFFFF" for i in range(3)]
    arrows = [
        arrow(tokens[i], tokens[i] + 0.93 * (tokens[sets[i]].mean(axis=0) - tokens[i]), COLOURS[i]) for i in range(3)
    ]
    names = dots(tokens, colours=colours, stars=leaders)
    names |= {"mode": "markers+text", "text": list("012"), "textposition": "top right", "textfont": {"size": 15}}
    return Frame(f"{t:.0%}", said, [guides, *arrows, names])


def page() -> Page:
    """Slide, and the third token goes once round."""
    return paged(
        [frame(t) for t in np.linspace(0, 1, 41)],
        title="Move token 2: who follows whom?",
        start=18,
        slider="Token 2 on its way round: ",
        legend="Stars lead, arrows go from a token to the one it follows, whose colour it has. Dotted: the "
        "direction of token 2, and the line across it through the token that reaches farthest in that "
        "direction, which token 2 follows.",
        **axes(LOW, HIGH),
    )
