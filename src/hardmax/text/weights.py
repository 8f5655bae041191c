"""The numbers of a trained classifier."""

from dataclasses import dataclass

import numpy as np

from hardmax._types import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Weights:
    """An embedding, the heads and their layers, and what reads them."""

    embedding: AnyArray  # (tokens, heads, d) float32
    alpha: FloatArray  # (heads,) positive
    A: FloatArray | None  # (heads, d, d) symmetric positive definite; None is the identity
    decoder: FloatArray  # (outputs, heads, d)
    bias: FloatArray  # (outputs,)
    layers: int
    power: float = 0.0  # a text of n tokens speaks n^power times as loud: 0 is the mean, 1 would be the sum
    lift: FloatArray | None = None  # (outputs,) part of the bias that decides, but is not part of the probability

    @property
    def step(self) -> FloatArray:
        """(heads,) how far a layer moves a token to whom it follows."""
        return np.asarray(self.alpha / (1 + self.alpha))

    @property
    def heads(self) -> int:
        return self.embedding.shape[1]

    @property
    def d(self) -> int:
        return self.embedding.shape[2]

    @property
    def outputs(self) -> int:
        return len(self.bias)  # 1 for two classes, else the number of classes

    def tokens(self, ids: IntArray) -> FloatArray:
        return self.embedding[ids].astype(np.float64)  # (..., heads, d)

    def loudness(self, n: IntArray) -> FloatArray:
        """n^power for texts of n tokens: what the mean of their tokens is multiplied with."""
        return np.asarray(np.maximum(n, 1.0) ** self.power)
