"""Several heads, on coordinates of their own or on shared ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hardmax import _checks
from hardmax._errors import ParameterError
from hardmax._tensors import join, stack
from hardmax.rules.base import Flow, Layered, Rule


def by_heads(matrices: list[Any], axes: int) -> Any:
    """Attention of all heads, (..., heads, n, n); a head that has heads of its own brings them all."""
    single = [P if P.ndim > axes else P[..., None, :, :] for P in matrices]
    return stack([P[..., h, :, :] for P in single for h in range(P.shape[-3])], axis=-3)


@dataclass(frozen=True, eq=False, repr=False)
class MultiHead(Rule):
    """Rules side by side, as the heads of a transformer.

    On their own coordinates, tokens are z = (z^1, ..., z^H) and head h moves z^h by itself: independent models, and
    whatever is proved of one rule holds for each head. On shared coordinates every head sees all of z, and their moves
    are added with `shares`: z <- z + sum_h s_h (rule_h(z) - z), or x' = sum_h s_h v_h(x). OPEN: nothing is proved of
    the limit of the latter in general.

    Parameters
    ----------
    heads : sequence of rules
        All with layers, or all in continuous time.
    shared : bool
        False gives each head coordinates of its own: as many as its matrices ask for, the rest split evenly.
    shares : sequence of numbers, optional
        s_h, for shared coordinates. Unless said 1/H each for rules with layers, so that tokens stay in their hull, and
        1 each for flows, as transformers add their heads.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.MultiHead([hm.Hardmax(0.5), hm.Hardmax(2)])
    >>> trajectory = hm.simulate(hm.configuration("gaussian", n=10, d=4), rule, layers=5)
    >>> trajectory.attention(0).shape, trajectory.heads[1].leaders
    ((2, 10, 10), array([1, 3, 9]))
    """

    heads: Sequence[Rule]
    shared: bool = field(default=False, kw_only=True)
    shares: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        heads = _checks.check_rules(self.heads, "heads")
        if len({head.continuous for head in heads}) > 1:
            raise ParameterError(
                "heads",
                "all have layers, or all be in continuous time",
                "both",
                "To take Euler steps of a flow among layers, put hm.Compose([flow], dt=0.1) in its place.",
            )
        if any(not head.attends for head in heads):
            raise ParameterError(
                "heads",
                "be rules in which tokens attend to each other",
                "one in which each moves by itself",
                "Compose it after the heads: hm.Compose([hm.MultiHead([...]), hm.FeedForward(...)]).",
            )
        object.__setattr__(self, "heads", heads)
        if self.shares is not None:
            if not self.shared:
                raise ParameterError("shares", "go with shared=True", "it without", "Leave it out.")
            object.__setattr__(self, "shares", _checks.check_bias(self.shares, "shares", len(heads)))
        known = [head.dimension for head in heads]
        if self.shared and len(set(known) - {None}) > 1:
            raise ValueError(
                f"Heads on shared coordinates must have matrices of one size. Got sizes {known}. "
                "Use shared=False for coordinates of their own."
            )

    @property
    def continuous(self) -> bool:
        """Whether the heads are flows."""
        return self.heads[0].continuous

    @property
    def dimension(self) -> int | None:
        """Of shared coordinates the heads' own; else the sum, if each says its own."""
        known = [head.dimension for head in self.heads]
        if self.shared:
            return next((size for size in known if size is not None), None)
        return None if None in known else sum(size for size in known if size is not None)

    @property
    def weights(self) -> tuple[Any, ...]:
        """Those of all heads, and the shares."""
        return (*(weight for head in self.heads for weight in head.weights), self.shares)

    def check(self, tokens: Any) -> None:
        """Every head must accept its coordinates."""
        super().check(tokens)
        for head, part in zip(self.heads, self.parts(tokens), strict=True):
            head.check(part)

    def columns(self, d: int) -> list[slice]:
        """Which coordinates each head sees."""
        if self.shared:
            return [slice(0, d)] * len(self.heads)
        known = [head.dimension for head in self.heads]
        free, left = known.count(None), d - sum(size or 0 for size in known)
        if left < free or (left % free if free else left):
            raise ValueError(
                f"Tokens of dimension {d} must split into {len(self.heads)} heads: "
                f"{left} coordinates are left for {free} heads of no size of their own. "
                f"Use a dimension that splits evenly, or shared=True."
            )
        ends, slices = 0, []
        for size in known:
            start, ends = ends, ends + (left // free if size is None else size)
            slices.append(slice(start, ends))
        return slices

    def parts(self, tokens: Any) -> list[Any]:
        """The coordinates of each head."""
        return [tokens[..., part] for part in self.columns(tokens.shape[-1])]

    def attention(self, tokens: Any, at: float, keys: Any = None) -> Any:
        """P of each head, shape (..., heads, n, n)."""
        each = zip(self.heads, self.parts(tokens), strict=True)
        return by_heads([head.attention(part, at, keys) for head, part in each], tokens.ndim)

    def layer(self, tokens: Any, k: int, keys: Any = None) -> Any:
        """Every head's layer, joined or added."""
        moved = []
        for head, part in zip(self.heads, self.parts(tokens), strict=True):
            assert isinstance(head, Layered | MultiHead)
            moved.append(head.layer(part, k, keys))
        if not self.shared:
            return join(moved)
        return tokens + sum(s * (z - tokens) for s, z in zip(self._shares(), moved, strict=True))

    def velocity(self, tokens: Any, t: float, keys: Any = None) -> Any:
        """Every head's velocity, joined or added."""
        pulls = []
        for head, part in zip(self.heads, self.parts(tokens), strict=True):
            assert isinstance(head, Flow | MultiHead)
            pulls.append(head.velocity(part, t, keys))
        return sum(s * v for s, v in zip(self._shares(), pulls, strict=True)) if self.shared else join(pulls)

    def _shares(self) -> list[Any]:
        if self.shares is not None:
            return list(self.shares)
        return [1.0 if self.continuous else 1 / len(self.heads)] * len(self.heads)
