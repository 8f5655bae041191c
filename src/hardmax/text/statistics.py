"""Who leads in a collection of texts: the global view of a classifier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.text.followers import Followers
from hardmax.text.model import Model, batches, in_parts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class LeaderStatistics:
    """Leaders of many texts; texts without known words are left out.

    Attributes
    ----------
    leaders : (texts, heads) array of int
        How many leaders each text has in each head.
    initial : (texts, heads) array of int
        How many of them lead at layer 0.
    decided : (texts, heads) array of int
        The layer at which every token had a single leader; -1 where the layers were too few.
    words : (m,) array of str
        Words that lead somewhere, the most frequent first.
    texts_led : (m,) array of int
        In how many texts each of them leads, in some head.
    scores : (m,) or (m, classes) array
        v . z of each, summed over heads: what the word would say alone, less the bias.

    Examples
    --------
    >>> import hardmax as hm
    >>> statistics = hm.pretrained("imdb-2d").leaders(["A wonderful film.", "A dreadful, boring film."])
    >>> statistics.leaders.shape, bool(statistics.mean >= 1)
    ((2, 1), True)
    """

    leaders: IntArray
    initial: IntArray
    decided: IntArray
    words: AnyArray
    texts_led: IntArray
    scores: FloatArray

    @property
    def mean(self) -> float:
        """Leaders of a text in a head, on average."""
        return self.summary()["average"]

    @property
    def deviation(self) -> float:
        """The standard deviation of the same."""
        return self.summary()["deviation"]

    @property
    def share_initial(self) -> float:
        """Which part of all leaders leads from layer 0 on."""
        return float(self.initial.sum() / max(1, self.leaders.sum()))

    def summary(self) -> dict[str, float]:
        """Average, deviation, least and most leaders of a text in a head, and the share that leads from layer 0."""
        counts = self.leaders if self.leaders.size else np.full(1, np.nan)
        numbers = {"average": counts.mean(), "deviation": counts.std(), "min": counts.min(), "max": counts.max()}
        return {name: float(number) for name, number in numbers.items()} | {"initial": self.share_initial}

    def __repr__(self) -> str:
        return (
            f"<LeaderStatistics: {self.mean:.1f} leaders a text and head (at most {self.leaders.max(initial=0)}), "
            f"{self.share_initial:.0%} from layer 0; most often {', '.join(self.words[:5].tolist())}>"
        )

    def plot(self, *, count: int = 20, ax: "Axes | None" = None) -> "Figure":
        """Histogram of the most frequent leaders, coloured by what they say; returns the figure."""
        from hardmax.draw.texts import plot_leaders

        return plot_leaders(self, count=count, ax=ax)


def leader_statistics(model: Model, texts: Sequence[str]) -> LeaderStatistics:
    """Count the leaders of every text in every head."""
    weights = model.weights
    empty = np.empty((0, weights.heads), np.int64)
    counted = [(empty, empty, empty)]
    led = np.zeros(len(model.vocabulary), np.int64)
    parts = (model.vocabulary.encode(some) for some in in_parts(texts))
    clouds = (encoded.take(some).padded() for encoded in parts for some in batches(encoded.sizes, weights.heads))
    for ids, counts in clouds:
        found = Followers.of(weights, ids, counts).following()
        leads = found.emerged >= 0  # (texts, heads, n)
        counted.append((leads.sum(axis=2), (found.emerged == 0).sum(axis=2), found.decided))
        somewhere = leads.any(axis=1)  # (texts, n)
        np.add.at(led, ids[somewhere], 1)
    leaders, initial, decided = map(np.concatenate, zip(*counted, strict=True))
    order = np.argsort(-led, kind="stable")[: (led > 0).sum()]
    scores = np.einsum("mhd,chd->mc", weights.tokens(order), weights.decoder)
    names = np.array(model.vocabulary.names(order), dtype=np.str_)
    scores = scores[:, 0] if weights.outputs == 1 else scores
    return LeaderStatistics(leaders, initial, decided, names, led[order], scores)
