"""The softmax counterpart of the hardmax rule of arXiv 2407.01602."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hardmax import _validation
from hardmax._arrays import match_array
from hardmax._types import Array
from hardmax._validation import is_tensor, to_numpy
from hardmax.rules.base import Layered, seen_keys
from hardmax.rules.scores import Scores
from hardmax.rules.token_wise import apply_norm, check_normalize


@dataclass(frozen=True, eq=False, repr=False)
class Softmax(Layered):
    """Move tokens to the mean of all tokens, with weights by softmax.

    P_ij = softmax_j(⟨A z_i, z_j⟩ / temperature),
    z_i <- z_i + alpha/(1 + alpha) sum_j P_ij (z_j - z_i).

    As the temperature tends to 0 this tends to `Hardmax`: a layer differs from it by at
    most a constant times exp(-gap / temperature), where gap is the smallest lead of a
    chosen token over one that is not. Use `Hardmax` for the limit itself, with proofs.

    Parameters
    ----------
    alpha : positive number or sequence of numbers
        Step size. A sequence gives one per layer, the last one also later. A torch
        tensor keeps its gradient.
    A : (d, d) array, optional
        Any square matrix; None is the identity.
    temperature : positive number
        Small ones come close to `Hardmax`. A torch tensor keeps its gradient.
    normalize : "rescaling", "none", "rms" or "layer"
        "rescaling" (or True) divides by 1 + alpha as above. "none" (or False) is z_i +
        alpha sum_j P_ij z_j; "rms" and "layer" take the norm of that.
    causal : bool
        True lets token i attend to tokens 0 to i alone.

    Examples
    --------
    >>> import hardmax as hm
    >>> tokens = [[1.0, 1.0], [-1.0, -1.0], [0.5, 0.25]]
    >>> hm.simulate(tokens, hm.Softmax(0.5, temperature=0.1), layers=1).attention(0)[2].round(3)
    array([0.988, 0. , 0.012])
    """

    alpha: float | Fraction | Sequence[float | Fraction] | Array
    A: Array | None = None
    temperature: float | Array = field(default=1.0, kw_only=True)
    normalize: bool | str = field(default="rescaling", kw_only=True)
    causal: bool = field(default=False, kw_only=True)
    _matrix = "A"

    def __post_init__(self) -> None:
        steps: Sequence[Any] = [self.alpha]
        if is_tensor(self.alpha):
            advice = "A tensor must hold one number."
            _validation.check_positive(self.alpha, "alpha", advice)
        else:
            steps = _validation.check_alpha(self.alpha, most=_validation.MAX_FLOAT)
        advice = "Small values such as 0.01 come close to hardmax."
        self._set(
            _steps=steps,
            temperature=_validation.check_positive(
                self.temperature, "temperature", advice
            ),
            normalize=check_normalize(self.normalize),
            causal=_validation.check_flag(self.causal, "causal"),
        )
        if self.A is not None:
            self._set(A=_validation.check_weight(self.A, "A", square=True))

    @property
    def weights(self) -> tuple[Array | None, ...]:
        return (self.alpha, self.A, self.temperature)

    def step(self, k: int) -> Array | float:
        """Return alpha of layer k, counted from 0."""
        steps = self._steps  # type: ignore[attr-defined]
        value = steps[min(k, len(steps) - 1)]
        return value if is_tensor(value) else float(value)

    def scores(self, tokens: Array, keys: Array | None = None) -> Scores:
        """Return ⟨A z_i, z_j⟩ / temperature."""
        images = tokens
        if self.A is not None:
            images = tokens @ match_array(self.A, tokens).T
        return Scores.in_range(
            images,
            tokens,
            seen_keys(tokens, keys, self.causal),
            temperature=self.temperature,
        )

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        return self.scores(tokens, keys).matrix()

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        means = self.scores(tokens, keys).means(tokens)
        alpha = self.step(k)
        if not is_tensor(tokens):
            alpha = float(to_numpy(alpha))
        if self.normalize == "rescaling":
            return tokens + alpha / (1 + alpha) * (means - tokens)
        grown = tokens + alpha * means
        if self.normalize == "none":
            return grown
        return apply_norm(grown, str(self.normalize))
