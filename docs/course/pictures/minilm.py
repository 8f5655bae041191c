"""MiniLM on one sentence: cosines of the hidden states and shares of attention, layer by layer."""

from course.pictures.shared import Frame
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import BLUE
from hardmax.transformers.measures import cosines

SENTENCE = "The acting was wonderful, but the plot could not have been more predictable."


def page() -> Page:
    """Slide from the embeddings to the last layer."""
    found = hm.inspect("minilm", SENTENCE)
    n, C = len(found.pieces), cosines(found.states)
    frames = []
    for layer in (0, *found.layers):
        said = f"Layer {layer}: {found.effective_clusters[layer]:.1f} effective clusters, mean cosine "
        said += f"{found.mean_cosine[layer]:.2f}, {len(found.leaders[layer])} leaders of {n}."
        shares = [0.0] * n
        if layer:
            (best, share), *_ = found.most_attended(layer, 1)
            shares = found.attention_shares[layer - 1].round(4).tolist()
            distance = found.boolean_distance[layer - 1].mean()
            said += f"\nBoolean distance of attention {distance:.2f}; {found.pieces[best]} gets {share:.0%} of it."
        else:
            said += "\nThe embeddings, before any attention."
        places = list(range(n))
        heat = {"type": "heatmap", "z": C[layer].round(3).tolist(), "x": places, "y": places, "zmin": -0.2, "zmax": 1}
        heat |= {"colorscale": "Viridis", "hovertemplate": "cosine %{z}<extra></extra>", "xaxis": "x", "yaxis": "y"}
        heat |= {
            "colorbar": {"title": {"text": "cosine"}, "thickness": 10, "x": 0.585, "len": 1, "tickfont": {"size": 10}}
        }
        bars = {"type": "bar", "orientation": "h", "x": shares, "y": places, "xaxis": "x2", "yaxis": "y2"}
        frames.append(Frame(str(layer), said, [heat, bars | {"marker": {"color": BLUE}, "hoverinfo": "x"}]))
    pieces = {"tickvals": list(range(n)), "ticktext": list(found.pieces), "tickfont": {"size": 11}, "showgrid": False}
    upward = {"autorange": "reversed", "zeroline": False, "ticklabelstandoff": 3}
    share = {"text": "share of all attention", "standoff": 4}
    return paged(
        frames,
        title="MiniLM on one sentence",
        slider="Layer ",
        start=1,
        legend="Left: the cosine between the hidden states of each two word pieces; bright where they point one "
        "way. Right: the part of all attention in this layer that each word piece gets.",
        margin={"l": 80},
        xaxis={
            "domain": [0, 0.57],
            "showticklabels": False,
            "ticks": "",
            "zeroline": False,
            "title": {"text": "cosines of hidden states", "standoff": 4},
        },
        yaxis=pieces | upward,
        xaxis2={"domain": [0.7, 1], "range": [0, 0.6], "tickformat": ".0%", "title": share, "nticks": 4},
        yaxis2={"anchor": "x2", "showticklabels": False, "showgrid": False} | upward,
    )
