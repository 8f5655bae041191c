"""arXiv 2305.05465: eigenvalues of trained value matrices, here of all-MiniLM-L6-v2.
The paper shows ALBERT.
"""

import numpy as np
from matplotlib.figure import Figure

from hardmax._types import ComplexArray
from hardmax.draw.transformers import plot_spectra
from hardmax.figures.shared import paper_figure
from hardmax.transformers.loading import load
from hardmax.transformers.weights import read_heads

LAYERS = 6  # of the model


def compute() -> list[ComplexArray]:
    """Return the eigenvalues of O_a V_a for every head a, by layer: (heads, width)
    each.
    """
    _, model, _ = load("minilm", "`hardmax reproduce spectra`")
    weights, used = read_heads(model, list(range(1, LAYERS + 1)))
    return [weights[w].value_eigenvalues for w in used]


@paper_figure(
    "spectra_heads",
    "arXiv 2305.05465: eigenvalues of the value matrices of trained heads",
    compute,
)
def draw(spectra: list[ComplexArray]) -> Figure:
    """Draw one complex plane per layer, with the eigenvalue of largest modulus of each
    head marked.
    """
    leading = np.concatenate([values[:, 0] for values in spectra])
    positive = ((leading.imag == 0) & (leading.real > 0)).sum()
    about = "the eigenvalue largest in modulus is real and positive"
    title = f"all-MiniLM-L6-v2: {about} in {positive} of {len(leading)} heads"
    labels = [f"layer {k}" for k in range(1, len(spectra) + 1)]
    figure: Figure = plot_spectra(spectra, labels=labels, title=title)
    figure.set_size_inches(10, 5.4)
    return figure
