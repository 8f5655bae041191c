"""Softmax attention of arrays and tensors: scores, their matrix, and means under it.

    P_ij = exp(s_ij) / sum_k exp(s_ik),    s_ij = scale ⟨q_i, k_j⟩.

`flows/compiled.py` has the means of compiled steps and `flows/device.py` those of a
GPU, both of tokens in few dimensions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._arrays import match_array
from hardmax._types import AnyArray, Array
from hardmax._validation import is_tensor, library_of, to_numpy

# e^{2 log} and products of moderate vectors are far from the ends of the range of float64
MAX_PLAIN_LOG = 200.0
MIN_MODERATE = 1e-60
MAX_MODERATE = 1e60
# e^{2 log} is far beyond the cap of the scale, which is below the largest float
MAX_LOG = 1e6
MAX_SCALE_POWER = 865  # about e^600
MIN_POWER = -1000  # 2^1000 is finite
MAX_BLOCK = 1 << 15  # scores at a time: 256 kB, which fit into the cache of a core
# e^x is negligible there, without underflow, which is up to three times as slow
MIN_EXPONENTS = {np.dtype(np.float64): -700.0, np.dtype(np.float32): -80.0}


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of attention, scale ⟨q_i, k_j⟩, and which keys each row sees.

    Rows that see no key, which only padding has, get weights 0.
    """

    queries: Array  # (..., n, d)
    keys: Array  # (..., m, d)
    scale: Array | float = 1.0  # 0 or larger: a number, or of shape (..., 1, 1)
    seen: Array | None = None  # boolean, (..., n or 1, m); None is all

    @classmethod
    def in_range(
        cls,
        queries: Array,
        keys: Array,
        seen: Array | None,
        log: float = 0.0,
        temperature: Array | float = 1.0,
    ) -> "Scores":
        """Return scores e^{2 log} ⟨q_i, k_j⟩ / temperature that do not overflow.

        Where they would leave the range of floats, each token set is divided by a power
        of two, which is exact. The scale is capped where any difference decides a row as
        an infinite one would.
        """
        plain = log < MAX_PLAIN_LOG and _is_moderate(queries)
        if plain and (keys is queries or _is_moderate(keys)):
            return cls(queries, keys, float(np.exp(2 * log)) / temperature, seen)
        log = min(log, MAX_LOG)
        # e^{2 log} = 2^power times a number near 1: neither factor overflows
        power = int(2 * log / np.log(2))
        rest = np.exp(2 * log - power * np.log(2))
        query_powers = _powers_above(queries)
        key_powers = _powers_above(keys)
        scale_powers = np.minimum(power + query_powers + key_powers, MAX_SCALE_POWER)
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.ldexp(rest, scale_powers)
            if is_tensor(queries):
                scale = match_array(scale, queries)
            return cls(
                queries * match_array(np.ldexp(1.0, -query_powers), queries),
                keys * match_array(np.ldexp(1.0, -key_powers), keys),
                scale / temperature,
                seen,
            )

    def matrix(self) -> Array:
        """Return P, shape (..., n, m)."""
        products = self.queries @ self.keys.swapaxes(-1, -2)
        if is_tensor(products):
            return _tensor_weights(products, self.seen, self.scale)
        weights, divisors = _weights_over_divisors(products, self.seen, self.scale)
        weights /= divisors
        return weights

    def means(self, values: Array, *, normalized: bool = True) -> Array:
        """Return P v for values (..., m, c), shape (..., n, c).

        With `normalized=False` the weights are e^{s_ij} over the number of keys that
        row i sees. Arrays are computed in blocks of rows, without the matrix: less
        memory, and up to twice as fast, as a block stays in the cache.
        """
        columns = self.keys.swapaxes(-1, -2)
        if is_tensor(columns):
            products = self.queries @ columns
            weights = _tensor_weights(products, self.seen, self.scale, normalized)
            return weights @ values
        columns = np.ascontiguousarray(columns)  # products are up to 1.4 times as fast
        least = -np.inf
        if normalized:
            least = MIN_EXPONENTS.get(columns.dtype, -np.inf)
        rows = max(1, MAX_BLOCK // columns.shape[-1])
        means = []
        for first in range(0, self.queries.shape[-2], rows):
            block = slice(first, first + rows)
            products = self.queries[..., block, :] @ columns
            seen = self.seen
            if seen is not None and seen.shape[-2] > 1:
                seen = seen[..., block, :]
            weights, divisors = _weights_over_divisors(
                products, seen, self.scale, normalized, least
            )
            means.append(weights @ values / divisors)
        return means[0] if len(means) == 1 else np.concatenate(means, axis=-2)


def _weights_over_divisors(
    products: AnyArray,
    seen: AnyArray | None,
    scale: Array | float,
    normalized: bool = True,
    least: float = -np.inf,
) -> tuple[AnyArray, Any]:
    """Return weights (..., n, m), which overwrite the products, and their divisors.

    For softmax the largest product of each row is subtracted before it is scaled, so
    that nothing overflows for any scale. Exponents are at least `least`. Products that
    are not finite stay visible as NaN.
    """
    largest = float(np.finfo(products.dtype).max)
    factor = np.minimum(to_numpy(scale), largest).astype(products.dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if seen is not None:
            np.copyto(products, -np.inf, where=~seen)
        if normalized:
            products -= products.max(axis=-1, keepdims=True)
        products *= factor
        if least > -np.inf:
            np.maximum(products, least, out=products)
        weights = np.exp(products, out=products)
        if seen is not None:
            np.copyto(weights, 0.0, where=~seen)
    if not normalized:
        return weights, _count_keys(weights, seen)
    divisors = weights.sum(axis=-1, keepdims=True)
    if seen is not None:
        divisors += divisors == 0
    return weights, divisors


def _tensor_weights(
    products: Array, seen: Array | None, scale: Array | float, normalized: bool = True
) -> Array:
    """Return weights as a tensor, (..., n, m), with gradients."""
    finite = library_of(products).finfo(products.dtype)
    factor = match_array(scale, products).clamp(max=finite.max)
    if not normalized:
        weights = (factor * products).exp()
        if seen is not None:
            weights = weights * seen
        return weights / _count_keys(weights, seen)
    if seen is None:
        top = products.detach().amax(dim=-1, keepdim=True)
        return ((products - top) * factor).softmax(dim=-1)
    # A row that sees no key is computed with all of them, and then 0: never NaN.
    hidden = ~seen & seen.any(-1)[..., None]
    top = products.detach().masked_fill(hidden, -np.inf).amax(dim=-1, keepdim=True)
    exponents = ((products - top) * factor).masked_fill(hidden, -np.inf)
    return exponents.softmax(dim=-1).masked_fill(~seen, 0.0)


def _count_keys(weights: Array, seen: Array | None) -> Any:
    """Return the number of keys that each row sees, at least 1."""
    if seen is None:
        return weights.shape[-1]
    count = seen.sum(-1, dtype=weights.dtype)[..., None]
    return count + (count == 0)


def _is_moderate(vectors: Array) -> bool:
    """Return whether products are far from the ends of the range of float64.

    The test is quick and has false negatives.
    """
    if not isinstance(vectors, np.ndarray) or vectors.dtype != np.float64:
        return False
    if vectors.ndim > 2:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(MIN_MODERATE < np.vdot(vectors, vectors) < MAX_MODERATE)


def _powers_above(vectors: Array) -> AnyArray:
    """Return the exponent of the power of two just above the largest coordinate of each
    token set, (..., 1, 1).
    """
    plain = to_numpy(vectors)
    size = np.abs(plain).max(axis=(-1, -2), keepdims=True).astype(np.float64)
    powers = np.maximum(np.frexp(size)[1], MIN_POWER)
    return np.where(np.isfinite(size), powers, 0)
