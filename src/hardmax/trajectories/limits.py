"""Where the clouds of a batch end: arrays over all of them, and the limit of each when it is asked for."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._types import Array, BoolArray, IntArray
from hardmax.trajectories.limit import Limit
from hardmax.trajectories.on_demand import OnDemand
from hardmax.trajectories.sentences import count


class Limits(OnDemand[Limit]):
    """Where the clouds of a batch end; what `limit` returns for one.

    `limits[b]` is `hm.limit(tokens[b], rule)`, or that of the real tokens of a cloud alone if there is a mask.

    Attributes
    ----------
    tokens : (batch, n, d) array
        The limit of every token; padding as it came. A torch tensor if that came in.
    certified, layer : (batch,) arrays
        Whether every limit of a cloud is proved, and at which layer.
    clusters : (batch, n) array
        Which of its cloud's `points` a token tends to; -1 where undecided, and for padding.
    leads : (batch, n) boolean array
        Who leads, the first of each set of equal tokens.
    stats : dict
        What ran: kernel and why, arithmetic, layers, queries, sets compared exactly, how many clouds went in one pass.

    Examples
    --------
    >>> import hardmax as hm
    >>> limits = hm.limit([[[1, 1], [0.5, 0.25]], [[1, -1], [-1, -0.5]]], hm.Hardmax(alpha=0.5))
    >>> limits
    Certified for 2 of 2 clouds, the last at layer 0.
    >>> limits.tokens[0]
    array([[1., 1.],
           [1., 1.]])
    >>> limits[1]
    Certified at layer 0. 2 leaders, all since layer 0. 2 cluster points. Proved by
    Theorem 1 for 2 tokens.
    """

    def __init__(
        self,
        tokens: Array,
        certified: BoolArray,
        layer: IntArray,
        clusters: IntArray,
        leads: BoolArray,
        stats: dict[str, Any],
        _make: Callable[[int], Limit],
    ) -> None:
        self.tokens, self.certified, self.layer = tokens, certified, layer
        self.clusters, self.leads, self.stats = clusters, leads, stats
        self._maker, self._made = _make, dict[int, Limit]()

    def __len__(self) -> int:
        return len(self.certified)

    def _make(self, b: int) -> Limit:
        return self._maker(b)

    def __repr__(self) -> str:
        return self.status

    @cached_property
    def leaders(self) -> list[IntArray]:
        """The tokens of each cloud that lead, padding counted."""
        return [np.flatnonzero(row) for row in self.leads]

    @cached_property
    def status(self) -> str:
        """For how many clouds the limit is proved, as a sentence; and why not for the others."""
        proved = f"Certified for {int(self.certified.sum())} of {count(len(self), 'cloud')}"
        if self.certified.any():
            proved += f", the last at layer {int(self.layer[self.certified].max())}"
        reasons = dict.fromkeys(self[b].reason for b in np.flatnonzero(~self.certified).tolist())
        return " ".join([f"{proved}.", *reasons])
