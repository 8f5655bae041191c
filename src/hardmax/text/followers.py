"""Who follows whom in texts, layer by layer and head by head: the record that shares and leaders are read from.

Texts go through their layers as arrays. A head of a text in which the rounding of earlier layers may have decided a set
is run again by the simulation, which knows every set.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.attention.layers_numpy import Layer, join_steps, layers_of, shares
from hardmax.rules.hardmax import Hardmax
from hardmax.simulate import simulate
from hardmax.text.weights import Weights
from hardmax.trajectories.hardmax import HardmaxTrajectory


class Following(NamedTuple):
    """Leaders of texts, head by head. Padding neither leads nor follows."""

    emerged: IntArray  # (texts, heads, n) layer at which a token first followed itself alone; -1 for never
    follows: IntArray  # (texts, heads, n) whom each token follows after the last layer, the first of several
    decided: IntArray  # (texts, heads) layer at which every token had a single leader; -1 for not yet


@dataclass(frozen=True, eq=False)
class Followers:
    """What every layer did to the heads of some texts, given as `Encoded.padded` gives them."""

    weights: Weights
    ids: IntArray  # (texts, n)
    counts: IntArray  # (texts, n) 0 is padding
    layers: list[Layer]  # of (texts * heads) clouds
    runs: dict[int, HardmaxTrajectory]  # of clouds that the layers leave open

    @classmethod
    def of(cls, weights: Weights, ids: IntArray, counts: IntArray, *, beyond: bool = True) -> "Followers":
        """Run texts through the layers, and with `beyond` look whom the outputs would follow."""
        (texts, n), heads = ids.shape, weights.heads
        z = weights.tokens(ids).transpose(0, 2, 1, 3).reshape(texts * heads, n, weights.d)
        step, sure = np.tile(weights.step, texts), np.ones(texts * heads, bool)
        A = None if weights.A is None else np.tile(weights.A, (texts, 1, 1))
        many = np.repeat(counts, heads, axis=0)
        layers = list(layers_of(z, step, weights.layers + beyond, A=A, counts=many, sure=sure))
        open_ones = ((cloud, *divmod(cloud, heads)) for cloud in np.flatnonzero(~sure).tolist())
        return cls(weights, ids, counts, layers, {c: simulated(weights, ids[t], counts[t], h) for c, t, h in open_ones})

    def shares(self) -> FloatArray:
        """(texts, heads, n) the share of the mean that each token holds after the last layer; they sum to 1.

        They are the mean row of M, where z^K = M z^0: layers are taken back one by one.
        """
        steps = np.tile(self.weights.step, len(self.ids))
        own = []
        for k, layer in enumerate(self.layers[: self.weights.layers]):
            ahead = np.where(layer.decided, self.weights.layers - k, 1)  # without the one beyond
            own.append(layer._replace(step=join_steps(steps[layer.elements], ahead)))
        found = shares(own, np.repeat(self.counts, self.weights.heads, axis=0))
        found = found.reshape(len(self.ids), self.weights.heads, -1)
        for cloud, run in self.runs.items():
            text, h = divmod(cloud, self.weights.heads)
            found[text, h] = _shares(run, float(self.weights.step[h]), self.counts[text])
        return found

    def following(self) -> Following:
        """Who leads, and whom each token follows after the last layer, which needs a layer `beyond`."""
        (texts, n), heads = self.ids.shape, self.weights.heads
        emerged, follows = np.full((2, texts * heads, n), -1)
        decided = np.full(texts * heads, -1)
        for k, layer in enumerate(self.layers):
            some = layer.elements
            first, alone = layer.sets.targets.reshape(-1, n), (layer.sets.sizes == 1).reshape(-1, n)
            follows[some] = first
            leads = alone & (first == np.arange(n))
            emerged[some] = np.where(leads & (emerged[some] < 0), k, emerged[some])
            decided[some[layer.decided]] = k
        for cloud, run in self.runs.items():
            emerged[cloud], follows[cloud], decided[cloud] = _followed(run, self.counts[cloud // heads])
        shape, real = (texts, heads, n), (self.counts > 0)[:, None, :]
        return Following(
            np.where(real, emerged.reshape(shape), -1),
            np.where(real, follows.reshape(shape), -1),
            decided.reshape(shape[:2]),
        )


def simulated(weights: Weights, ids: IntArray, counts: IntArray, h: int) -> HardmaxTrajectory:
    """One head of one text by the simulation, each token as often as it counts."""
    tokens = weights.embedding[np.repeat(ids, counts), h].astype(np.float64)
    rule = Hardmax(float(weights.alpha[h]), None if weights.A is None else weights.A[h])
    return simulate(tokens, rule, layers=weights.layers)


def _shares(run: HardmaxTrajectory, step: float, counts: IntArray) -> FloatArray:
    """(n,) shares of the words of a text, of a run that has each as often as it counts."""
    share = np.full(run.n, 1 / run.n)
    for k in reversed(range(run.layers)):
        share = share + step * (share @ run.attention(k, sparse=True) - share)
    return np.asarray(np.bincount(np.repeat(np.arange(len(counts)), counts), share, len(counts)), np.float64)


def _followed(run: HardmaxTrajectory, counts: IntArray) -> tuple[IntArray, IntArray, int]:
    """(n,) emerged and (n,) follows, and decided, as in `Following`."""
    emerged, follows, decided = np.full(len(counts), -1), np.full(len(counts), -1), -1
    owners, rows = np.repeat(np.arange(len(counts)), counts), np.cumsum(counts) - counts
    real = np.flatnonzero(counts > 0).tolist()
    for k in range(run.layers + 1):
        tokens = run.sets(k)
        sets = {i: set(owners[tokens[rows[i]]].tolist()) for i in real}  # the words that each word follows
        leaders = {i for i in real if sets[i] == {i}}
        emerged[[i for i in leaders if emerged[i] < 0]] = k
        if decided < 0 and all(len(words) == 1 and words <= leaders for words in sets.values()):
            decided = k
    follows[real] = [min(sets[i]) for i in real]
    return emerged, follows, decided
