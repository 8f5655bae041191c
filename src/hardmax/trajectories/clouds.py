"""What a pass over a batch leaves behind: the clouds one by one, each made when it is asked for."""

import numpy as np

from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.search.sets import Classes, Sets
from hardmax.trajectories.cloud import Cloud
from hardmax.trajectories.on_demand import OnDemand


class Clouds(OnDemand[Cloud]):
    """The clouds of a batch: those of one pass, as arrays over all tokens, and those that were run by themselves.

    `emerged` and `settled`, (batch, n), are the layers from which tokens lead and are decided, -1 for never.
    """

    def __init__(
        self,
        tokens: AnyArray,
        real: BoolArray,
        follows: list[IntArray],
        emerged: IntArray,
        settled: IntArray,
        alone: dict[int, Cloud],
        causal: bool,
    ) -> None:
        self._tokens, self._causal, self._follows = tokens, causal, follows
        self.real, self.emerged, self.settled = real, emerged, settled
        self._made = dict(alone)
        for b, cloud in alone.items():
            emerged[b], settled[b] = (cloud.spread(x, real.shape[1]) for x in (cloud.emerged, cloud.settled))

    def __len__(self) -> int:
        return len(self.real)

    def _make(self, b: int) -> Cloud:
        real = np.flatnonzero(self.real[b])
        cloud = self._tokens[b, real]
        classes = Classes.singly(cloud) if self._causal else Classes.of(cloud)
        first = real[classes.first]  # a token of each class, and in this pass the only one
        label = np.empty(self.real.shape[1], np.intp)
        label[real] = classes.labels
        starts = np.arange(len(first) + 1)
        sets = tuple(Sets(starts, label[follows[b, first]]) for follows in self._follows)
        return Cloud(classes, sets, self.emerged[b, first], self.settled[b, first], real)
