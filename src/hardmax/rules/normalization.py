"""What keeps tokens from growing: nothing, rescaling, RMS norm or layer norm."""

from dataclasses import dataclass

from hardmax._arrays import largest
from hardmax._errors import ParameterError
from hardmax._types import Array
from hardmax.rules.base import TokenByToken

KINDS = ("none", "rescaling", "rms", "layer")
EPSILON = 1e-12  # under the root, so that a zero token stays where it is and has a gradient


def check_normalize(normalize: object) -> str:
    """One of KINDS; True is "rescaling", False and None are "none"."""
    kind = "rescaling" if normalize is True else "none" if normalize is False or normalize is None else normalize
    if not isinstance(kind, str) or kind not in KINDS:
        must = f"be one of {', '.join(map(repr, KINDS))} (True is 'rescaling', False is 'none')"
        raise ParameterError("normalize", must, repr(normalize), "The papers use 'rescaling'.")
    return kind


def normalized(tokens: Array, kind: str) -> Array:
    """Tokens after RMS norm or layer norm, without learned gains: each has mean square 1."""
    size = largest(tokens)
    units = tokens / size  # so that squares neither overflow nor underflow
    if kind == "layer":
        units = units - units.mean(-1)[..., None]
    return units / ((units * units).mean(-1)[..., None] + EPSILON / size / size) ** 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Normalize(TokenByToken):
    """Norm as a layer of its own, to be composed with others.

    kind = "rms":    z_i <- z_i / sqrt(mean_r z_ir^2).
    kind = "layer":  the same after the mean of the coordinates of z_i is taken off.

    Parameters
    ----------
    kind : "rms" or "layer"
        Which of the two.

    Raises
    ------
    ParameterError
        If `kind` is another.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.simulate([[3.0, 4.0]], hm.Normalize("rms"), layers=1).array[-1].round(3)
    array([[0.849, 1.131]])
    """

    kind: str = "rms"

    def __post_init__(self) -> None:
        if self.kind not in ("rms", "layer"):
            raise ParameterError("kind", 'be "rms" or "layer"', f'{self.kind!r}. "layer" also centres each token')

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        return normalized(tokens, self.kind)
