"""e^{tV} = e^{t lambda} e^{t(V - lambda I)}, lambda = max Re eig V: a number that grows, a matrix that does not.

Where V has both growing and shrinking directions, z = e^{-tV} x has components of very different size, and rounding
errors of the large ones would leak into the leading ones. In a real eigenbasis S, with V = S D S^{-1} and D made of
blocks of size 1 and 2, each component keeps its own: integrators work on y = S^{-1} z.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._types import FloatArray
from hardmax.rules.self_attention import SelfAttention

Result = TypeVar("Result")


def once_per_rule(find: Callable[[SelfAttention, int], Result]) -> Callable[[SelfAttention, int], Result]:
    """Decorate a function of a rule and a dimension so that it keeps its results as long as the rule lives."""
    known: WeakKeyDictionary[SelfAttention, dict[tuple[int, ...], Result]] = WeakKeyDictionary()

    @wraps(find)
    def found(rule: SelfAttention, d: int) -> Result:
        results = known.setdefault(rule, {})
        key = (d, *(getattr(weight, "_version", 0) for weight in rule.weights))  # a tensor may change in place
        if key not in results:
            results[key] = find(rule, d)
        return results[key]

    return found


WELL_CONDITIONED = 1e4  # of the eigenbasis: beyond it the coordinates themselves are used


@dataclass(frozen=True, eq=False)
class Growth:
    """One V in its real eigenbasis, and its exponential at any time."""

    rate: float  # lambda
    basis: FloatArray  # S
    inverse: FloatArray
    blocks: FloatArray  # D; V itself where S is the identity
    turning: FloatArray | None  # (d,) imaginary part of each column's eigenvalue, or None where S is the identity

    @classmethod
    def of(cls, V: FloatArray) -> "Growth":
        """Prepare V once for all times."""
        if np.array_equal(V, V.T):
            values, S = np.linalg.eigh(V)
            return cls(float(values.max()), S, S.T, np.diag(values), np.zeros(len(V)))
        values, vectors = np.linalg.eig(V)  # complex pairs are neighbours, the positive imaginary part first
        rate, turning = float(values.real.max()), values.imag.astype(np.float64)
        S = np.where(turning < 0, np.roll(vectors.imag, 1, axis=1), vectors.real)
        blocks = np.diag(values.real)
        for p in np.flatnonzero(turning > 0):
            blocks[p, p + 1], blocks[p + 1, p] = turning[p], -turning[p]
        if np.linalg.cond(S) > WELL_CONDITIONED:
            identity = np.eye(len(V))
            return cls(rate, identity, identity, V, None)
        return cls(rate, S, np.linalg.inv(S), blocks, turning)

    @cached_property
    def grows(self) -> bool:
        """Whether some real part is positive, beyond rounding."""
        return self.rate > 1e-12 * float(np.linalg.norm(self.blocks, 2))

    def basis_at(self, t: float) -> FloatArray:
        """S e^{t(D - lambda I)}, the basis carried along: it turns y into e^{-lambda t} x."""
        if self.turning is None:
            return np.asarray(scipy.linalg.expm(t * (self.blocks - self.rate * np.eye(len(self.blocks)))))
        decay = np.exp(t * self._rates)
        if self._partners is None:
            return np.asarray(self.basis * decay)
        straight = self.basis * (decay * np.cos(t * self.turning))
        return np.asarray(straight - self._partners * (decay * np.sin(t * self.turning)))

    @cached_property
    def _rates(self) -> FloatArray:
        return np.asarray(np.diag(self.blocks) - self.rate)

    @cached_property
    def _partners(self) -> FloatArray | None:
        """Columns of S with those of each pair exchanged; None where there is no pair."""
        if self.turning is None or not self.turning.any():
            return None
        return self.basis[:, np.arange(len(self.turning)) + np.sign(self.turning).astype(np.intp)]

    def unit(self, t: float) -> FloatArray:
        return np.asarray(self.basis_at(t) @ self.inverse)

    def grown(self, unit: FloatArray, t: float) -> FloatArray:
        """e^{lambda t} times what does not grow; infinite where that leaves the range of floats."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.where(unit == 0, 0.0, unit * np.exp(self.rate * t)))


@once_per_rule
def growth_of(rule: SelfAttention, d: int) -> Growth:
    """e^{tV} for a rule whose V is constant."""
    return Growth.of(rule.value_matrix(d))
