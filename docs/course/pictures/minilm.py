"""MiniLM on one sentence: cosines of the hidden states and shares of attention, layer
by layer.
"""

import numpy as np
from course.pictures.shared import Frame
from course.pictures.shared import page as paged
from matplotlib import colormaps
from matplotlib.colors import to_hex

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import BLUE
from hardmax.transformers.inspection import compute_cosines

SENTENCE = (
    "The acting was wonderful, but the plot could not have been more predictable."
)


def page() -> Page:
    """Return the page; the slider goes from the embeddings to the last layer."""
    found = hm.inspect("minilm", SENTENCE)
    n, C = len(found.pieces), compute_cosines(found.states)
    frames = []
    for layer in (0, *found.layers):
        said = (
            f"Layer {layer}: {found.effective_clusters[layer]:.1f} effective clusters,"
            " mean cosine "
        )
        said += (
            f"{found.mean_cosine[layer]:.2f}, {len(found.leaders[layer])} leaders of"
            f" {n}."
        )
        shares = [0.0] * n
        if layer:
            (best, share), *_ = found.most_attended(layer, 1)
            shares = found.attention_shares[layer - 1].round(4).tolist()
            distance = found.boolean_distance[layer - 1].mean()
            said += (
                f"\nBoolean distance of attention {distance:.2f}; {found.pieces[best]}"
                f" gets {share:.0%} of it."
            )
        else:
            said += "\nThe embeddings, before any attention."
        frames.append(Frame(str(layer), said, [C[layer].round(3).tolist(), shares]))
    names = list(found.pieces)
    colours = [to_hex(colour) for colour in colormaps["viridis"](np.linspace(0, 1, 33))]
    matrix = {
        "kind": "matrix",
        "names": names,
        "low": -0.2,
        "high": 1,
        "label": "cosine",
        "colours": colours,
    }
    bars = {
        "kind": "bars",
        "names": names,
        "low": 0,
        "high": 0.6,
        "label": "share of all attention",
        "percent": True,
    }
    return paged(
        frames,
        matrix,
        bars | {"positive": BLUE, "width": 330, "left": 16},
        title="MiniLM on one sentence",
        slider="Layer ",
        start=1,
        legend=(
            "Left: the cosine between the hidden states of each two word pieces; bright"
            " where their directions are close. Right: the part of all attention in"
            " this layer that each word piece gets."
        ),
    )
