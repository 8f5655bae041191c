"""Floating-point positions with a rigorous error bound, and what is computed from them.

Tokens are scaled by a power of two so that the largest coordinate lies in [1/4, 1]: products neither overflow nor, but
for the smallest numbers, underflow. `error` bounds each coordinate's distance from the exact state. It grows by a few
units of rounding per layer, because a layer with given sets is a convex combination and so never enlarges it.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hardmax._exact import TINY, UNIT, over_one_denominator
from hardmax._types import AnyArray, FloatArray, IntArray, Row
from hardmax.search.sets import Sets

CHUNK = 1 << 16  # numbers that are summed at a time


@dataclass(frozen=True, eq=False)
class Scaled:
    """values * 2**exponent is the array meant, each coordinate within `error` (in scaled units)."""

    values: FloatArray
    exponent: int
    error: float

    @classmethod
    def of(cls, array: AnyArray) -> "Scaled":
        """Scale an array of floats or Fractions so that its largest entry lies in [1/4, 1]."""
        if array.dtype == object:
            largest = max(map(abs, array.flat))
            exponent = largest.numerator.bit_length() - largest.denominator.bit_length() + 1 if largest else 0
            return cls((array / Fraction(2) ** exponent).astype(np.float64), exponent, UNIT + TINY)
        floats = np.asarray(array, np.float64)
        sizes = np.abs(floats)
        exponent = int(np.frexp(sizes.max())[1])
        # Only what becomes smaller than a normal number can lose digits.
        least = 2.0 ** (exponent - 1022)
        lossless = exponent <= 0 or sizes.min() >= least or not ((sizes > 0) & (sizes < least)).any()
        # A product with a power of two is rounded as `ldexp` is, and is faster; not all powers are floats.
        values = floats * 2.0**-exponent if abs(exponent) < 1022 else np.ldexp(floats, -exponent)
        return cls(values, exponent, 0.0 if lossless else TINY)


@dataclass(frozen=True, eq=False)
class Metric:
    """The matrix A, scaled for floats with the bounds that a product needs, and exactly as integers."""

    A: FloatArray | None  # None is the identity
    exponent: int
    error: float
    row_sum: float  # the largest sum of |a_rs| over s
    norm: float  # an upper bound of |A|_2
    rows: list[Row] | None  # A as integers, over
    denominator: int

    @classmethod
    def of(cls, A: AnyArray | None) -> "Metric":
        """Prepare A once for all states and checks."""
        if A is None:
            return cls(None, 0, 0.0, 1.0, 1.0, None, 1)
        scaled = Scaled.of(A)
        row_sum = 1.01 * float(np.abs(scaled.values).sum(axis=1).max())
        norm = 1.01 * float(np.linalg.norm(scaled.values, 2))
        return cls(scaled.values, scaled.exponent, scaled.error, row_sum, norm, *over_one_denominator(A))

    def queries(self, points: FloatArray, error: float) -> tuple[FloatArray, float]:
        """Return A z for each row z, and the error of each coordinate."""
        if self.A is None:
            return points, error
        d = points.shape[1]
        # Coordinates of points are at most 1, so the sum of d products is off by (d + 1) UNIT row_sum.
        spread = self.row_sum * (error + (d + 1) * UNIT) + d * (self.error * (1 + error) + TINY)
        return points @ self.A.T, spread


class ScaledClouds(NamedTuple):
    """The same for a batch (batch, n, d), each element scaled by itself."""

    values: FloatArray
    exponents: IntArray  # (batch,)
    errors: FloatArray  # (batch,)

    @classmethod
    def of(cls, clouds: AnyArray) -> "ScaledClouds":
        """Scale each element of a batch of floats."""
        sizes = np.abs(clouds)
        exponents = np.frexp(sizes.max(axis=(1, 2), initial=0).astype(np.float64))[1]
        lost = (sizes > 0) & (sizes < np.ldexp(1.0, exponents - 1022)[:, None, None])
        errors = np.where(lost.any(axis=(1, 2)) & (exponents > 0), TINY, 0.0)
        return cls(np.ldexp(clouds.astype(np.float64), -exponents[:, None, None]), exponents, errors)

    def slack(self, keys: "ScaledClouds") -> FloatArray:
        """Return `slack_of` each batch element, with these as queries: (batch, n)."""
        d, e_q, e_z = self.values.shape[2], self.errors, keys.errors
        sizes = np.abs(keys.values)
        highest, widest = sizes.max(axis=(1, 2), initial=0), sizes.sum(axis=2).max(axis=1, initial=0)
        slope = 2.02 * ((d + 4) * UNIT * highest + e_z)
        base = 2.02 * (e_q * widest + d * (e_q * e_z + TINY))
        return np.asarray(slope[:, None] * np.abs(self.values).sum(axis=2) + base[:, None])


def slack_of(queries: FloatArray, query_error: float, keys: FloatArray, error: float) -> FloatArray:
    """Return the largest difference of two computed products of each query whose exact products are equal: (rows,).

    |<q, z> - fl<q~, z~>| <= (d + 4) u |q~|_1 |z~|_max + e_z |q~|_1 + e_q |z~|_1 + d e_q e_z + d tiny, twice, and a bit.
    No square is taken, which would underflow for the smallest queries.
    """
    d, highest = keys.shape[1], max(float(keys.max()), -float(keys.min()))
    widest = float(_row_sums(keys).max()) if query_error else 0.0
    slack = _row_sums(queries)  # |q~|_1
    slack *= 2.02 * ((d + 4) * UNIT * highest + error)
    slack += 2.02 * (query_error * widest + d * (query_error * error + TINY))
    return slack


def _row_sums(array: FloatArray) -> FloatArray:
    """Return |x|_1 of every row, in chunks that stay in the cache."""
    step = max(1, CHUNK // array.shape[1])
    sums, ones = np.empty(len(array)), np.ones(array.shape[1])
    for start in range(0, len(array), step):
        np.matmul(np.abs(array[start : start + step]), ones, out=sums[start : start + step])
    return sums


def next_layer(tokens: FloatArray, error: float, sets: Sets, counts: IntArray, b: float) -> tuple[FloatArray, float]:
    """Return the tokens after one layer in float64, z + b (c - z), and their error."""
    moved = tokens + b * (sets.mean(tokens, counts) - tokens)
    largest = 1 if sets.single else int(sets.sizes.max())
    return moved, error + 8 * UNIT + (2 * largest * UNIT if largest > 1 else 0.0) + 4 * TINY


def robustness(gap: float, reach: float, norm: float) -> float:
    """Return the largest eps with |A| (4 R eps + 2 eps^2) <= gap: moving each input row by less changes no set."""
    if np.isinf(gap) or norm == 0:
        return np.inf
    ratio = gap / (2 * norm)
    return float(ratio / (reach + np.sqrt(reach**2 + ratio))) if ratio else 0.0
