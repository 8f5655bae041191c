"""arXiv 2305.05465: eigenvalues of trained value matrices, here of all-MiniLM-L6-v2. The paper shows ALBERT."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from hardmax._types import ComplexArray
from hardmax.draw.transformers import plot_spectra
from hardmax.figures.shared import paper_figure
from hardmax.transformers.loading import load
from hardmax.transformers.weights import read_heads

LAYERS = 6  # of the model


class Spectra(NamedTuple):
    """Eigenvalues of the value matrices of all heads by layer."""

    layers: list[ComplexArray]  # (heads, width) each

    @property
    def positive(self) -> int:
        """The number of heads whose eigenvalue of largest modulus is real and positive."""
        leading = np.concatenate([values[:, 0] for values in self.layers])
        return int(((leading.imag == 0) & (leading.real > 0)).sum())


def compute() -> Spectra:
    """Return the eigenvalues of O_a V_a for every head a of every layer."""
    _, model, _ = load("minilm", "`hardmax reproduce spectra`")
    weights, used = read_heads(model, list(range(1, LAYERS + 1)))
    return Spectra([weights[w].value_eigenvalues for w in used])


@paper_figure("spectra_heads", "arXiv 2305.05465: eigenvalues of the value matrices of trained heads", compute)
def draw(result: Spectra) -> Figure:
    """Draw one complex plane per layer, with the eigenvalue of largest modulus of each head marked."""
    heads = sum(len(values) for values in result.layers)
    about = "the eigenvalue largest in modulus is real and positive"
    title = f"all-MiniLM-L6-v2: {about} in {result.positive} of {heads} heads"
    labels = [f"layer {k}" for k in range(1, len(result.layers) + 1)]
    figure: Figure = plot_spectra(result.layers, labels=labels, title=title)
    figure.set_size_inches(10, 5.4)
    return figure
