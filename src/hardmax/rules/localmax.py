"""Localmax attention (after arXiv 2509.15958): the mean of all tokens within a
tolerance of the largest product.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from numpy.typing import ArrayLike

from hardmax import _validation
from hardmax._errors import ParameterError
from hardmax._exact import to_fraction
from hardmax._types import AnyArray, BoolArray
from hardmax.exact.thresholds import sets_within
from hardmax.rules.base import SetAttention


@dataclass(frozen=True, eq=False, repr=False)
class Localmax(SetAttention):
    """Move tokens to the mean of all tokens within a tolerance of the largest
    projection on their own direction.

    N_i = {j : ⟨A z_i, z_j⟩ >= max_k ⟨A z_i, z_k⟩ - eps},   z_i <- z_i + alpha/(1 +
    alpha) mean_{j in N_i} (z_j - z_i).

    With eps = 0 it is `Hardmax`, and so are its limits. The sets are those of real
    arithmetic on the given numbers. Of arXiv 2509.15958 the abstract was read; its
    tolerance may be defined otherwise.

    Parameters
    ----------
    alpha : positive number or sequence of numbers
        Step size, as for `Hardmax`.
    eps : number, 0 or larger
        The tolerance, the exact value of a float, or a Fraction.
    A : (d, d) array, optional
        Any matrix; None is the identity.
    decay : number in (0, 1]
        The tolerance of layer k is eps decay^k.
    relative : bool
        True makes the threshold eps |A z_i| max_j |z_j|, so that it scales with the
        tokens. No theorem covers it.

    Examples
    --------
    >>> import hardmax as hm
    >>> tokens = [[2, 0], [1.75, 0.5], [0, 2]]
    >>> hm.limit(tokens, hm.Hardmax(alpha=1)).leaders.tolist()
    [0, 2]
    >>> limit = hm.limit(tokens, hm.Localmax(alpha=1, eps=1))
    >>> limit
    Certified at layer 0. 2 groups of 3 tokens.
    >>> limit.exact()[0].tolist()
    [Fraction(15, 8), Fraction(1, 4)]
    """

    alpha: float | Fraction | Sequence[float | Fraction]
    eps: float | Fraction
    A: ArrayLike | None = None
    decay: float | Fraction = field(default=1, kw_only=True)
    relative: bool = field(default=False, kw_only=True)
    _matrix = "A"

    def __post_init__(self) -> None:
        self._set(_steps=_validation.check_alpha(self.alpha))
        _validation.check_positive(self.eps, "eps", "Pass one number.", zero=True)
        if not 0 < _validation.check_number(self.decay, "decay") <= 1:
            raise ParameterError(
                "decay", "lie in (0, 1]", repr(self.decay), "1 keeps the tolerance."
            )
        if not isinstance(self.relative, bool):
            raise ParameterError("relative", "be True or False", repr(self.relative))
        self._set(_eps=to_fraction(self.eps), _decay=to_fraction(self.decay))
        if self.A is not None:
            self._set(A=_validation.check_matrix(self.A, any_A=True))

    def step(self, k: int) -> Fraction:
        """Return alpha/(1 + alpha) of layer k, counted from 0, as a Fraction."""
        steps = self._steps  # type: ignore[attr-defined]
        alpha: Fraction = steps[min(k, len(steps) - 1)]
        return alpha / (1 + alpha)

    def tolerance(self, k: int) -> Fraction:
        """Return the tolerance of layer k as a Fraction."""
        return self._eps * self._decay**k  # type: ignore[attr-defined]

    def is_slow(self, k: int) -> bool:
        """Return whether from layer k on the tolerance shrinks no faster than groups
        do, by 1/(1 + alpha).
        """
        steps = self._steps  # type: ignore[attr-defined]
        return bool(self._decay >= 1 / (1 + min(steps[min(k, len(steps) - 1) :])))  # type: ignore[attr-defined]

    def sets(self, tokens: AnyArray, k: int) -> BoolArray:
        """Return the exact N_i of layer k as a matrix, (n, n)."""
        return sets_within(tokens, self.A, self.tolerance(k), relative=self.relative)  # type: ignore[arg-type]

    _weights = sets
