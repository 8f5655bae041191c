"""Self-attention with a normalisation scheme of a transformer block, in continuous time
(arXiv 2510.22026).
"""

from dataclasses import dataclass, field

from hardmax import _validation
from hardmax._arrays import softmax, softmax_means
from hardmax._errors import ParameterError
from hardmax._types import Array
from hardmax.rules.base import Flow
from hardmax.rules.sphere import on_sphere

SCHEMES = ("post", "pre", "mix", "peri", "ngpt", "depth")
DEPTH_OF_MIX = 1.0  # time at which "mix" goes from post to pre


@dataclass(frozen=True, eq=False, repr=False)
class NormalizedAttention(Flow):
    """Self-attention of a block that normalises tokens in one of six ways (arXiv
    2510.22026, read in excerpt).

    With θ_i = x_i/|x_i|, a_i = sum_j P_ij θ_j and P_ij = softmax_j(beta ⟨θ_i, θ_j⟩)
    directions move by θ_i' = (a_i - ⟨θ_i, a_i⟩ θ_i)/s_i with the speed factor s_i,
    where r_i = |x_i|:

    post: s = 1;  pre: s = r;  mix: 1 up to time 1, then r;  peri: s = r |a|;  ngpt: s =
    |a|/alpha;  depth: sqrt(t + 1).

    Under pre, peri and the second part of mix x_i' = a_i (for peri a_i/|a_i|), so that
    r grows. Else r stays. The variance 1 - |mean θ|^2 near its end decays as Var' = -2
    Var/s, with s of about 1, t, t, t, 1/alpha and sqrt(t).

    Parameters
    ----------
    scheme : "post", "pre", "mix", "peri", "ngpt" or "depth"
        The normalisation.
    beta : number, 0 or larger
        Inverse temperature.
    alpha : positive number
        Step of "ngpt".

    Examples
    --------
    >>> import hardmax as hm
    >>> tokens = hm.configuration("sphere", n=8, d=3)
    >>> run = hm.simulate(tokens, hm.NormalizedAttention("pre", beta=1), times=[0, 1, 10])
    >>> run.similarity.round(3)
    array([0.022, 0.052, 0.539])
    """

    scheme: str = "post"
    beta: float = 1.0
    alpha: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        if not _validation.is_one_of(self.scheme, SCHEMES):
            raise ParameterError(
                "scheme",
                f"be one of {', '.join(map(repr, SCHEMES))}",
                _validation.shortened(self.scheme),
            )
        self._set(
            beta=_validation.check_positive(
                self.beta, "beta", "Values up to 10 are usual.", zero=True
            )
        )
        self._set(
            alpha=_validation.check_positive(
                self.alpha, "alpha", "Values up to 1 are usual."
            )
        )

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        units = on_sphere(tokens)
        return softmax(units @ units.swapaxes(-1, -2), keys, self.beta)

    def velocity(self, tokens: Array, t: float, keys: Array | None = None) -> Array:
        units = on_sphere(tokens)
        a = softmax_means(units, units, units, keys, self.beta)
        length = ((a * a).sum(-1)[..., None] + 1e-300) ** 0.5
        if self.scheme == "pre" or (self.scheme == "mix" and t >= DEPTH_OF_MIX):
            return a
        if self.scheme == "peri":
            return a / length
        factor = {"ngpt": self.alpha / length, "depth": (t + 1) ** -0.5}.get(
            self.scheme, 1.0
        )
        size = (tokens * tokens).sum(-1)[..., None] ** 0.5
        return factor * size * (a - (units * a).sum(-1)[..., None] * units)
