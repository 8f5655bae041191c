"""Ten tokens, one of which leads from layer 2 on."""

import hardmax as hm
from hardmax.draw.pages import Page

TOKENS = [
    *([0.51, 0.19], [-0.29, -2.5], [0.8, -0.32], [0, 1.35], [0.68, -0.86]),
    *([-1.31, -0.79], [0.38, 0.19], [-1.88, -2.22], [-0.97, -0.99], [-0.63, 0.17]),
]


def page() -> Page:
    """Play the layers."""
    trajectory = hm.simulate(TOKENS, hm.Hardmax(alpha=0.5), layers=12)
    return hm.interactive(trajectory, title="Ten tokens: press Play")
