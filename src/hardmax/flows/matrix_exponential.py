"""The exponential e^{tV} = e^{t lambda} e^{t(V - lambda I)}, lambda = max Re eig V: a growing number, a bounded matrix.

If V has both growing and decaying directions, z = e^{-tV} x has components of very different size, and rounding errors
of the large ones would spoil the leading ones. In a real eigenbasis S, with V = S D S^{-1} and D made of blocks of size
1 and 2, each component has its own rounding error: integrators work on y = S^{-1} z.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy  # submodules load on first use

from hardmax._types import FloatArray
from hardmax.rules.self_attention import SelfAttention

MAX_BASIS_CONDITION = 1e4  # condition number of the eigenbasis above which S is the identity
GROWTH_TOL = 1e-12  # a smaller lambda, relative to |D|, counts as zero
Result = TypeVar("Result")


def cache_per_rule(find: Callable[[SelfAttention, int], Result]) -> Callable[[SelfAttention, int], Result]:
    """Decorate a function of a rule and a dimension to cache its results as long as the rule lives."""
    cache: WeakKeyDictionary[SelfAttention, dict[tuple[int, ...], Result]] = WeakKeyDictionary()

    @wraps(find)
    def find_once(rule: SelfAttention, d: int) -> Result:
        results = cache.setdefault(rule, {})
        key = (d, *(getattr(weight, "_version", 0) for weight in rule.weights))  # a tensor may change in place
        if key not in results:
            results[key] = find(rule, d)
        return results[key]

    return find_once


@dataclass(frozen=True, eq=False)
class Growth:
    """A constant V in its real eigenbasis, and its exponential at any time."""

    rate: float  # lambda
    basis: FloatArray  # S
    inverse: FloatArray
    blocks: FloatArray  # D; V itself if S is the identity
    imaginary: FloatArray | None  # (d,) imaginary part of each column's eigenvalue; None if S is the identity

    @cached_property
    def grows(self) -> bool:
        """Whether lambda is positive beyond rounding."""
        return self.rate > GROWTH_TOL * float(np.linalg.norm(self.blocks, 2))

    def basis_at(self, t: float) -> FloatArray:
        """Return S e^{t(D - lambda I)}, which maps y to e^{-lambda t} x."""
        if self.imaginary is None:
            return np.asarray(scipy.linalg.expm(t * (self.blocks - self.rate * np.eye(len(self.blocks)))))
        decay = np.exp(t * (np.diag(self.blocks) - self.rate))
        if not self.imaginary.any():
            return np.asarray(self.basis * decay)
        partners = self.basis[:, np.arange(len(decay)) + np.sign(self.imaginary).astype(np.intp)]  # in each pair
        straight = self.basis * (decay * np.cos(t * self.imaginary))
        return np.asarray(straight - partners * (decay * np.sin(t * self.imaginary)))

    def bounded_factor(self, t: float) -> FloatArray:
        """Return e^{t(V - lambda I)}."""
        return np.asarray(self.basis_at(t) @ self.inverse)

    def scale(self, unit: FloatArray, t: float) -> FloatArray:
        """Multiply by e^{lambda t}; infinite where that overflows."""
        return np.asarray(np.where(unit == 0, 0.0, unit * np.exp(self.rate * t)))


@cache_per_rule
def find_growth(rule: SelfAttention, d: int) -> Growth:
    """Find the real eigenbasis of V for a rule whose V is constant."""
    V = rule.value_matrix(d)
    if np.array_equal(V, V.T):
        values, S = np.linalg.eigh(V)
        return Growth(float(values.max()), S, S.T, np.diag(values), np.zeros(len(V)))
    values, vectors = np.linalg.eig(V)  # complex pairs are neighbours, the positive imaginary part first
    rate, imaginary = float(values.real.max()), values.imag.astype(np.float64)
    S = np.where(imaginary < 0, np.roll(vectors.imag, 1, axis=1), vectors.real)
    blocks = np.diag(values.real)
    for p in np.flatnonzero(imaginary > 0):
        blocks[p, p + 1], blocks[p + 1, p] = imaginary[p], -imaginary[p]
    if np.linalg.cond(S) > MAX_BASIS_CONDITION:
        return Growth(rate, np.eye(len(V)), np.eye(len(V)), V, None)
    return Growth(rate, S, np.linalg.inv(S), blocks, imaginary)
