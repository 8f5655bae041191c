"""The hardmax rule of arXiv 2407.01602."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import scipy  # whose parts load when they are used
from numpy.typing import ArrayLike

from hardmax import _validation
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, Array, FloatArray, IntArray
from hardmax._validation import is_tensor, library_of, like
from hardmax.exact.argmax import Metric, Points, exact_sets
from hardmax.rules.base import Layered, token_sets
from hardmax.rules.token_wise import check_normalize
from hardmax.search.dispatch import current_search
from hardmax.sets import Classes, Sets


@dataclass(frozen=True, eq=False, repr=False)
class Hardmax(Layered):
    """Move tokens to the mean of the tokens with the largest projection on their own
    direction.

    C_i = argmax_j ⟨A z_i, z_j⟩,
    z_i <- z_i + alpha/(1 + alpha) mean_{j in C_i} (z_j - z_i).

    Parameters
    ----------
    alpha : positive number or sequence of numbers
        Step size; the exact value of a float, or a Fraction. A sequence gives one per
        layer, the last one also later.
    A : (d, d) array, optional
        Symmetric positive definite (one that misses symmetry by rounding is replaced by
        its symmetric part); None is the identity. Floats or Fractions.
    normalize : bool, "rescaling" or "none"
        False (or "none") leaves out the division by 1 + alpha: tokens are exactly (1 +
        alpha)^k times larger, with the same sets.
    exact : bool
        True computes everything in rational arithmetic, without any float
        (python-flint). The sets are the same.
    any_A : bool
        True allows an A that is not symmetric positive definite, outside the hypotheses
        of the theorems.
    causal : bool
        True lets token i follow tokens 0 to i alone.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.Hardmax(alpha=0.5)
    Hardmax(alpha=0.5)
    >>> hm.Hardmax(alpha=1, A=[[2, 1], [1, 1]], exact=True)
    Hardmax(alpha=1, A=[[2, 1], [1, 1]], exact=True)

    References
    ----------
    Alcalde, Fantuzzi, Zuazua: Clustering in pure-attention hardmax transformers, arXiv
    2407.01602.
    """

    alpha: float | Fraction | Sequence[float | Fraction]
    A: ArrayLike | None = None
    normalize: bool = field(default=True, kw_only=True)
    exact: bool = field(default=False, kw_only=True)
    any_A: bool = field(default=False, kw_only=True)
    causal: bool = field(default=False, kw_only=True)
    _matrix = "A"

    def __post_init__(self) -> None:
        self._set(
            _steps=_validation.check_alpha(self.alpha),
            exact=_validation.check_flag(self.exact, "exact"),
            any_A=_validation.check_flag(self.any_A, "any_A"),
            causal=_validation.check_flag(self.causal, "causal"),
        )
        kind = check_normalize(self.normalize)
        if kind in ("rms", "layer"):
            must = 'be "rescaling" or "none" for Hardmax, whose sets are exact'
            advice = (
                "Use hm.Compose([hm.Hardmax(alpha, normalize=False),"
                f' hm.Normalize("{kind}")]).'
            )
            raise ParameterError("normalize", must, repr(kind), advice)
        self._set(normalize=kind == "rescaling")
        if self.A is not None:
            self._set(A=_validation.check_matrix(self.A, any_A=self.any_A))

    def _key(self) -> tuple[Any, ...]:
        A = None
        if self.matrix is not None:
            A = tuple(map(tuple, self.matrix.tolist()))
        return self.steps, A, self.normalize, self.exact, self.any_A, self.causal

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hardmax):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        alpha = ", ".join(map(_format_step, self.steps[:3]))
        if len(self.steps) > 3:
            alpha += ", ..."
        if len(self.steps) > 1:
            alpha = f"[{alpha}]"
        parts = [f"alpha={alpha}"]
        if self.matrix is not None:
            parts.append(f"A={_format_matrix(self.matrix)}")
        for option in fields(self)[2:]:
            value = getattr(self, option.name)
            if value != option.default:
                parts.append(f"{option.name}={value}")
        return f"Hardmax({', '.join(parts)})"

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """Alpha of each layer as a Fraction; later layers use the last one."""
        return self._steps  # type: ignore[attr-defined]

    def step(self, layer: int) -> Fraction:
        """Return alpha of a layer, counted from 0, as a Fraction."""
        return self.steps[min(layer, len(self.steps) - 1)]

    def growth(self, layer: int) -> Fraction:
        """Return the factor of tokens at a layer over normalised ones: the product of 1
        + alpha, or 1.
        """
        if self.normalize:
            return Fraction(1)
        beyond = (1 + self.steps[-1]) ** max(0, layer - len(self.steps))
        return prod((1 + step for step in self.steps[:layer]), start=beyond)

    def grow(self, values: FloatArray, layer: int) -> FloatArray:
        """Multiply normalised lengths by `growth`, which may exceed the range of
        floats.
        """
        growth = self.growth(layer)
        if growth == 1:
            return values
        exponent = growth.numerator.bit_length() - growth.denominator.bit_length()
        with np.errstate(over="ignore"):
            return np.ldexp(values * float(growth / Fraction(2) ** exponent), exponent)

    @property
    def matrix(self) -> AnyArray | None:
        """A as a checked array; None is the identity."""
        return self.A  # type: ignore[return-value]

    @cached_property
    def metric(self) -> Metric:
        """A as the searches use it: scaled by a power of two into the range of floats,
        and as integers.
        """
        return Metric.of(self.matrix)

    def images(self, Z: FloatArray) -> FloatArray:
        """Return A z for each row, with A scaled by a power of two so that it stays in
        the range of floats.
        """
        return Z if self.metric.A is None else Z @ self.metric.A.T

    @property
    def positive_definite(self) -> bool:
        """Whether A is symmetric positive definite, a hypothesis of the theorems."""
        if self.matrix is None or not self.any_A:
            return True
        return _validation.is_positive_definite(self.matrix)

    def attention(self, tokens: Any, at: float, keys: Any = None) -> Any:
        """Return the matrix that is uniform on the exact C_i of these tokens, (..., n,
        n).
        """
        matrices = [P.toarray() for P in self._matrices(tokens, keys)]
        shape = (*tokens.shape[:-1], tokens.shape[-2])
        return like(np.reshape(matrices, shape), tokens)

    def _matrices(self, tokens: Any, keys: Any) -> "Iterator[scipy.sparse.csr_array]":
        """Yield attention of each token set; NaN where tokens left the range of floats."""
        n = tokens.shape[-2]
        for real_tokens, ids in token_sets(tokens, keys):
            if np.isfinite(real_tokens).all():
                sets, classes = self._sets(real_tokens)
                yield attention_over_tokens(sets, classes, ids, n)
            else:
                yield scipy.sparse.csr_array(np.full((n, n), np.nan))

    def _sets(self, tokens: AnyArray) -> tuple[Sets, Classes]:
        """Return the exact sets of one token set, over classes of equal tokens."""
        search = current_search()
        if self.causal:
            classes = Classes.singly(tokens)
            seen = np.arange(1, len(classes) + 1)
        else:
            classes = Classes.of(tokens)
            seen = None
        points = Points.of(classes.rows)
        return exact_sets(points, points, self.metric, search, seen)[0], classes

    def layer(self, tokens: Any, k: int, keys: Any = None) -> Any:
        """Return tokens after a layer in floats, for compositions; gradients pass
        through the chosen values.
        """
        # A step beyond the range of floats takes the tokens to their means in floats.
        alpha = float(min(self.step(k), _validation.MAX_FLOAT))
        P = scipy.sparse.block_diag(list(self._matrices(tokens, keys)))
        rows = tokens.reshape(-1, tokens.shape[-1])
        means = _multiply_sparse(P, rows).reshape(tokens.shape)
        if self.normalize:
            return tokens + alpha / (1 + alpha) * (means - tokens)
        return tokens + alpha * means


def attention_over_tokens(
    sets: Sets, classes: Classes, ids: IntArray, n: int
) -> "scipy.sparse.csr_array":
    """Return the matrix that is uniform on the sets of the real tokens `ids` of n
    tokens, (n, n).
    """
    over_classes = sets.matrix(classes.counts) / classes.counts  # (m, m)
    place = scipy.sparse.csr_array(
        (np.ones(len(ids)), (ids, classes.labels)), shape=(n, len(classes))
    )
    matrix = scipy.sparse.csr_array(place @ over_classes @ place.T)
    matrix.sort_indices()
    return matrix


def _multiply_sparse(P: Any, values: Array) -> Array:
    """Return P v for a sparse matrix of SciPy and an array or tensor (n, d); gradients
    are kept.
    """
    if not is_tensor(values):
        return P.tocsr() @ values
    torch = library_of(values)
    entries = P.tocoo()
    rows = torch.from_numpy(entries.row.astype(np.int64)).to(values.device)
    columns = torch.from_numpy(entries.col.astype(np.int64)).to(values.device)
    products = like(entries.data, values)[:, None] * values[columns]
    return torch.zeros_like(values).index_add(0, rows, products)


def _format_step(step: Fraction) -> str:
    """Return 0.1 for the float and 1/10 for the Fraction: ties may depend on the
    difference.
    """
    if step.denominator == 1 or Fraction(float(step)) != step:
        return str(step)
    return repr(float(step))


def _format_matrix(matrix: AnyArray) -> str:
    """Return the rows of a small matrix, else its size."""
    if len(matrix) > 3:
        return f"{len(matrix)} by {len(matrix)}"
    rows = [
        ", ".join(_format_step(Fraction(x)) for x in row) for row in matrix.tolist()
    ]
    return f"[[{'], ['.join(rows)}]]"
