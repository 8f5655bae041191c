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
from hardmax._validation import is_tensor, library_of
from hardmax.rules.base import Layered, no_attention

MAX_DIMENSION = 10**6  # its square matrices do not fit into any memory
NORMALIZATIONS = ("none", "rescaling", "rms", "layer")
# under the root, so that a zero token stays where it is and has a gradient
EPSILON = 1e-12


def relu(x: Array) -> Array:
    """Return max(x, 0), whose derivative at 0 is 0."""
    return x * (x > 0)


def tanh(x: Array) -> Array:
    """Return the hyperbolic tangent."""
    return library_of(x).tanh(x)


def gelu(x: Array) -> Array:
    """Return x times the distribution function of a Gaussian, x (1 + erf(x/√2)) / 2."""
    erf = library_of(x).erf if is_tensor(x) else scipy.special.erf
    return x * (1 + erf(x / 2**0.5)) / 2


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": relu,
    "tanh": tanh,
    "gelu": gelu,
}


class TokenWise(Layered):
    """A rule with layers that moves each token by itself."""

    attends = False

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        raise no_attention(self)


def check_normalize(normalize: object) -> str:
    """Return one of NORMALIZATIONS; True is "rescaling", False and None are "none"."""
    kind = normalize
    if normalize is True:
        kind = "rescaling"
    elif normalize is False or normalize is None:
        kind = "none"
    if isinstance(kind, str) and kind in NORMALIZATIONS:
        return kind
    names = ", ".join(map(repr, NORMALIZATIONS))
    must = f"be one of {names} (True is 'rescaling', False is 'none')"
    got = _validation.shortened(normalize)
    raise ParameterError("normalize", must, got, "The papers use 'rescaling'.")


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
        self._set(
            W1=_validation.check_weight(self.W1, "W1"),
            W2=_validation.check_weight(self.W2, "W2"),
        )
        width, d = self.W1.shape
        if tuple(self.W2.shape) != (d, width):
            must = "have shapes (width, d) and (d, width)"
            got = f"{tuple(self.W1.shape)} and {tuple(self.W2.shape)}"
            advice = "Transpose one, or change its size."
            raise ParameterError(("W1", "W2"), must, got, advice)
        self._set(_dimension=d)
        if self.b1 is not None:
            self._set(b1=_validation.check_weight(self.b1, "b1", size=width))
        if self.b2 is not None:
            self._set(b2=_validation.check_weight(self.b2, "b2", size=d))
        gain = _validation.check_number(self.gain, "gain")
        if not is_tensor(self.gain):
            self._set(gain=gain)
        if callable(self.activation):
            return
        if not _validation.is_one_of(self.activation, ACTIVATIONS):
            must = f"be one of {', '.join(ACTIVATIONS)}, or a callable"
            got = _validation.shortened(self.activation)
            raise ParameterError("activation", must, got, "The papers use relu.")

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
        W1 = rng.normal(size=(width, d)) / d**0.5
        W2 = rng.normal(size=(d, width)) / width**0.5
        return cls(W1, W2, gain=gain)

    @property
    def weights(self) -> tuple[Array | None, ...]:
        return (self.W1, self.W2, self.b1, self.b2, self.gain)

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        activation = self.activation
        if not callable(activation):
            activation = ACTIVATIONS[activation]
        hidden = tokens @ match_array(self.W1, tokens).T
        if self.b1 is not None:
            hidden = hidden + match_array(self.b1, tokens)
        change = activation(hidden) @ match_array(self.W2, tokens).T
        if self.b2 is not None:
            change = change + match_array(self.b2, tokens)
        return tokens + self.gain * change
