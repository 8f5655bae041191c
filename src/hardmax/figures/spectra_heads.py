"""arXiv 2305.05465: eigenvalues of trained value matrices, here of the six layers of all-MiniLM-L6-v2.

The paper shows ALBERT. Where the packaged weights cannot be read, heads of Gaussian matrices take their place, and the
title says so.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from hardmax._types import ComplexArray
from hardmax.draw.transformers import plot_spectra
from hardmax.transformers.loading import load
from hardmax.transformers.measures import product_eigenvalues
from hardmax.transformers.weights import read_heads

TITLE = "arXiv 2305.05465: eigenvalues of the value matrices of trained heads"
MODEL = "minilm"
LAYERS, HEADS, WIDTH, DIMENSION = 6, 12, 32, 384  # those of the model, for Gaussian heads


class Spectra(NamedTuple):
    """Eigenvalues of the value matrices of all heads by layer, and the name of the model."""

    name: str
    layers: list[ComplexArray]  # (heads, width) each

    @property
    def positive(self) -> int:
        """The number of heads whose eigenvalue of largest modulus is real and positive."""
        leading = np.concatenate([values[:, 0] for values in self.layers])
        return int(((leading.imag == 0) & (leading.real > 0)).sum())


def compute() -> Spectra:
    """Return the eigenvalues of O_a V_a for every head a of every layer."""
    try:
        _, model, _ = load(MODEL)
    except (ImportError, ValueError):  # transformers, or the package with the weights, is not installed
        return sample_gaussian_heads()
    weights, used = read_heads(model, list(range(1, LAYERS + 1)))
    return Spectra("all-MiniLM-L6-v2", [weights[w].value_eigenvalues for w in used])


def sample_gaussian_heads() -> Spectra:
    """Sample heads O_a V_a of Gaussian matrices with entries of variance 1/d."""
    rng = np.random.default_rng(0)
    shape = (LAYERS, HEADS, WIDTH, DIMENSION)
    outputs, values = rng.normal(size=(2, *shape)) / np.sqrt(DIMENSION)
    layers = product_eigenvalues(outputs.swapaxes(-1, -2), values)
    return Spectra("Gaussian heads, no trained weights found", list(layers))


def draw(result: Spectra) -> Figure:
    """Draw one complex plane per layer, with the eigenvalue of largest modulus of each head marked."""
    heads = sum(len(values) for values in result.layers)
    title = (
        f"{result.name}: the eigenvalue largest in modulus is real and positive in {result.positive} of {heads} heads"
    )
    labels = [f"layer {k}" for k in range(1, len(result.layers) + 1)]
    figure: Figure = plot_spectra(result.layers, labels=labels, title=title)
    figure.set_size_inches(10, 5.4)
    return figure
