"""Rules that move each token by itself: RMS norm, layer norm, and the feed-forward part
of a transformer block.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy  # whose parts load when they are used

from hardmax import _validation
from hardmax._arrays import largest, match_array
from hardmax._errors import ParameterError
from hardmax._types import Array
from hardmax._validation import is_tensor
from hardmax.rules.base import Layered, no_attention

MAX_DIMENSION = 10**6  # its square matrices do not fit into any memory
NORMALIZATIONS = ("none", "rescaling", "rms", "layer")
EPSILON = (
    1e-12  # under the root, so that a zero token stays where it is and has a gradient
)
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: x * (x > 0),
    "tanh": lambda x: x.tanh() if is_tensor(x) else np.tanh(x),
    "gelu": lambda x: (
        x
        * (1 + ((x / 2**0.5).erf() if is_tensor(x) else scipy.special.erf(x / 2**0.5)))
        / 2
    ),
}


class TokenWise(Layered):
    """A rule with layers that moves each token by itself."""

    attends = False

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        raise no_attention(self)


def check_normalize(normalize: object) -> str:
    """Return one of NORMALIZATIONS; True is "rescaling", False and None are "none"."""
    kind = (
        "rescaling"
        if normalize is True
        else "none"
        if normalize is False or normalize is None
        else normalize
    )
    if not isinstance(kind, str) or kind not in NORMALIZATIONS:
        must = (
            f"be one of {', '.join(map(repr, NORMALIZATIONS))} (True is 'rescaling',"
            " False is 'none')"
        )
        raise ParameterError(
            "normalize",
            must,
            _validation.shortened(normalize),
            "The papers use 'rescaling'.",
        )
    return kind


def apply_norm(tokens: Array, kind: str) -> Array:
    """Return tokens after RMS norm or layer norm, without learned gains: each has mean
    square 1.
    """
    size = largest(tokens)
    units = tokens / size  # so that squares neither overflow nor underflow
    if kind == "layer":
        units = units - units.mean(-1)[..., None]
    return units / ((units * units).mean(-1)[..., None] + EPSILON / size / size) ** 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Normalize(TokenWise):
    """Apply a norm as a layer of its own, to be composed with others.

    kind = "rms":    z_i <- z_i / sqrt(mean_r z_ir^2).
    kind = "layer":  the same after the mean of the coordinates of z_i is subtracted.

    Parameters
    ----------
    kind : "rms" or "layer"
        The norm.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.simulate([[3.0, 4.0]], hm.Normalize("rms"), layers=1).array[-1].round(3)
    array([[0.849, 1.131]])
    """

    kind: str = "rms"

    def __post_init__(self) -> None:
        if not _validation.is_one_of(self.kind, ("rms", "layer")):
            advice = '"layer" also centres each token.'
            got = _validation.shortened(self.kind)
            raise ParameterError("kind", 'be "rms" or "layer"', got, advice)

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        return apply_norm(tokens, self.kind)


@dataclass(frozen=True, eq=False, repr=False)
class FeedForward(TokenWise):
    """Move each token by two matrices with a nonlinearity between them.

    z_i <- z_i + gain (W2 s(W1 z_i + b1) + b2).

    Parameters
    ----------
    W1 : (width, d) array
        The first matrix.
    W2 : (d, width) array
        The second matrix.
    b1, b2 : (width,) and (d,) arrays, optional
        Biases after each; None is zero.
    activation : "relu", "tanh", "gelu" or a callable
        s, applied to each number.
    gain : number
        Factor of the step.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.FeedForward([[1.0, 0.0]], [[1.0], [1.0]])
    >>> hm.simulate([[2.0, 0.0], [-2.0, 0.0]], rule, layers=1).array[-1]
    array([[ 4., 2.],
           [-2., 0.]])
    """

    W1: Array
    W2: Array
    b1: Array | None = None
    b2: Array | None = None
    activation: str | Callable[[Array], Array] = field(default="relu", kw_only=True)
    gain: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("W1", "W2"):
            self._set(**{name: _validation.check_weight(getattr(self, name), name)})
        shapes = tuple(self.W1.shape), tuple(self.W2.shape)
        if shapes[1] != shapes[0][::-1]:
            must, advice = (
                "have shapes (width, d) and (d, width)",
                "Transpose one, or change its size.",
            )
            raise ParameterError(
                ("W1", "W2"), must, f"{shapes[0]} and {shapes[1]}", advice
            )
        self._set(_dimension=len(self.W2))
        for name, bias, size in (
            ("b1", self.b1, len(self.W1)),
            ("b2", self.b2, len(self.W2)),
        ):
            if bias is not None:
                self._set(**{name: _validation.check_weight(bias, name, size=size)})
        gain = _validation.check_number(self.gain, "gain")
        if not is_tensor(self.gain):
            self._set(gain=gain)
        if not callable(self.activation) and not (
            isinstance(self.activation, str) and self.activation in ACTIVATIONS
        ):
            must = f"be one of {', '.join(ACTIVATIONS)}, or a callable"
            raise ParameterError(
                "activation",
                must,
                _validation.shortened(self.activation),
                "The papers use relu.",
            )

    @classmethod
    def random(
        cls, d: int, *, width: int | None = None, gain: float = 1.0, seed: int = 0
    ) -> "FeedForward":
        """Return a rule for tokens of dimension d with Gaussian weights of variance 1/d
        and 1/width, for experiments.

        `W1` has `width` rows, by default 4 d.
        """
        d = _validation.check_count(d, "d", least=1, most=MAX_DIMENSION)
        width = 4 * d if width is None else width
        width = _validation.check_count(width, "width", least=1, most=4 * MAX_DIMENSION)
        rng = np.random.default_rng(_validation.check_count(seed, "seed", least=0))
        W1, W2 = (
            rng.normal(size=(width, d)) / d**0.5,
            rng.normal(size=(d, width)) / width**0.5,
        )
        return cls(W1, W2, gain=gain)

    @property
    def weights(self) -> tuple[Array | None, ...]:
        return (self.W1, self.W2, self.b1, self.b2, self.gain)

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        hidden = tokens @ match_array(self.W1, tokens).T
        hidden = hidden if self.b1 is None else hidden + match_array(self.b1, tokens)
        activation = (
            self.activation
            if callable(self.activation)
            else ACTIVATIONS[self.activation]
        )
        out = activation(hidden) @ match_array(self.W2, tokens).T
        return tokens + self.gain * (
            out if self.b2 is None else out + match_array(self.b2, tokens)
        )
