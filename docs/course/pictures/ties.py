"""One tie, in exact arithmetic and by comparing floats."""

import numpy as np
from course.pictures.shared import Frame, arrow, dots, lines, listed, plane
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import COLOURS

SQUARE = [[3.0, 1.0], [-1.0, 3.0], [-3.0, -1.0], [1.0, -3.0]]
TOKENS, LAYERS = np.array([*SQUARE, [0.25, -0.125]]), 14


def by_equality(Z: list[list[float]]) -> list[list[int]]:
    """C_i as those whose float product equals the largest."""
    sets = []
    for z in Z:
        products = [z[0] * x[0] + z[1] * x[1] for x in Z]
        sets.append(
            [j for j, product in enumerate(products) if product == max(products)]
        )
    return sets


def float_run() -> tuple[list[np.ndarray], list[list[list[int]]]]:
    """Positions and sets layer by layer, in floats alone, with alpha = 1/2."""
    Z, positions, history = TOKENS.tolist(), [], []
    for _ in range(LAYERS + 1):
        sets = by_equality(Z)
        positions.append(np.array(Z))
        history.append(sets)
        means = [[sum(Z[j][r] for j in C) / len(C) for r in range(2)] for C in sets]
        Z = [
            [x + (m - x) / 3 for x, m in zip(z, mean, strict=True)]
            for z, mean in zip(Z, means, strict=True)
        ]
    return positions, history


def panel(ways: np.ndarray, C: list[int], shift: float) -> list[dict]:
    """One of the two runs, drawn beside the other."""
    off = np.array([shift, 0.0])
    last = ways[-1]
    colours = [*COLOURS[:4], "paper" if len(C) > 1 else COLOURS[C[0]]]
    arrows = [
        arrow(last[4] + off, last[4] + 0.9 * (last[j] - last[4]) + off, COLOURS[j])
        for j in C
        if j < 4
    ][:2]
    return [
        lines([ways[:, 4] + off], "ink"),
        *arrows,
        dots(last + off, colours=colours, stars=range(4)),
    ]


def page() -> Page:
    """Return the page; the slider chooses the layer of both runs."""
    exact = hm.simulate(TOKENS, hm.Hardmax(alpha=0.5), layers=LAYERS)
    positions, history = float_run()
    names = ((-4, "exact"), (4, "floats compared with =="))
    notes = [{"kind": "text", "at": [x, 3.75], "text": text} for x, text in names]
    frames = []
    for k in range(LAYERS + 1):
        right, wrong = exact.sets(k)[4].tolist(), history[k][4]
        said = (
            f"Layer {k}: the middle token follows {listed(right)} (exact), and"
            f" {listed(wrong)} by comparing "
        )
        said += "floats with ==."
        left = panel(exact.array[: k + 1], right, -4.0)
        frames.append(
            Frame(
                str(k),
                said,
                [[*notes, *left, *panel(np.array(positions[: k + 1]), wrong, 4.0)]],
            )
        )
    return paged(
        frames,
        plane([-7.6, -3.6], [7.6, 4.1], label="two runs of five tokens", hidden=True),
        title="The same tie twice: exact, and by comparing floats",
        slider="Layer ",
        legend=(
            "Stars are the corners 0 to 3 of a square, which lead. The middle token is"
            " level with two of them. It is white while it follows both, and has the"
            " colour of the corner it follows alone."
        ),
    )
