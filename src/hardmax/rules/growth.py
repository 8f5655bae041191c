"""e^{tV} = e^{t lambda} e^{t(V - lambda I)}, lambda = max Re eig V: a number that grows, a matrix that does not."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from hardmax._types import AnyArray, FloatArray

WELL_CONDITIONED = 1e4  # of eigenvectors: beyond it the matrix exponential is taken without them
LARGEST = 600.0  # a score beyond e^600 times a difference decides a row as an infinite one would


@dataclass(frozen=True, eq=False)
class Growth:
    """The matrix exponential of one V at any time."""

    V: FloatArray
    rate: float  # lambda
    eigenvalues: AnyArray | None  # of V - lambda I, with
    vectors: AnyArray | None  # and
    inverse: AnyArray | None  # where these are well conditioned

    @classmethod
    def of(cls, V: FloatArray) -> "Growth":
        """Prepare V once for all times."""
        if np.array_equal(V, V.T):
            values, vectors = np.linalg.eigh(V)
            return cls(V, float(values.max()), values - values.max(), vectors, vectors.T)
        values, vectors = np.linalg.eig(V)
        rate = float(values.real.max())
        if np.linalg.cond(vectors) > WELL_CONDITIONED:
            return cls(V, rate, None, None, None)
        return cls(V, rate, values - rate, vectors, np.linalg.inv(vectors))

    def unit(self, t: float) -> FloatArray:
        """e^{t(V - lambda I)}."""
        if self.eigenvalues is None or self.vectors is None or self.inverse is None:
            return np.asarray(linalg.expm(t * (self.V - self.rate * np.eye(len(self.V)))))
        return np.asarray(((self.vectors * np.exp(t * self.eigenvalues)) @ self.inverse).real)

    def scale(self, t: float) -> float:
        """e^{2 lambda t}, what products of two tokens grow by."""
        return float(np.exp(min(2 * self.rate * t, LARGEST)))

    def grown(self, rescaled: FloatArray, t: float) -> FloatArray:
        """x = e^{tV} z, for negative t its inverse; infinite where that leaves the range of floats."""
        with np.errstate(over="ignore", invalid="ignore"):
            unit = rescaled @ self.unit(t).T
            return np.asarray(np.where(unit == 0, 0.0, unit * np.exp(self.rate * t)))
