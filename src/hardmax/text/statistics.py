"""Statistics of a collection of texts: leaders, and the tokens that contribute most.

Sums over some texts can be added to those over others, so that a collection may be
larger than memory.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import needed_for
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.draw.texts import plot_leaders
from hardmax.text.context import find_leaders
from hardmax.text.model import HeadDynamics, Model, batches, in_parts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

Counts = tuple[
    IntArray, IntArray, IntArray
]  # (texts, heads) `leaders`, `initial` and `decided`


@dataclass(frozen=True, eq=False)
class LeaderStatistics:
    """Leaders of many texts; texts without known words are left out.

    Attributes
    ----------
    leaders : (texts, heads) array of int
        Number of leaders of each text in each head.
    initial : (texts, heads) array of int
        Number of those that lead at layer 0.
    decided : (texts, heads) array of int
        The layer at which every token had a single leader; -1 where the layers were too
        few.
    words : (m,) array of str
        Words that lead somewhere, the most frequent first.
    texts_led : (m,) array of int
        Number of texts in which each of them leads in some head.
    scores : (m,) or (m, classes) array
        v . z of each, summed over heads: the logit of the word alone, less the bias;
        with an encoder the sum of its contributions.

    Examples
    --------
    >>> import hardmax as hm
    >>> statistics = hm.pretrained("imdb-2d").leaders(["A wonderful film.", "A dreadful, boring film."])
    >>> statistics.leaders.shape, statistics.summary()["average"] >= 1
    ((2, 1), True)
    """

    leaders: IntArray
    initial: IntArray
    decided: IntArray
    words: AnyArray
    texts_led: IntArray
    scores: FloatArray

    def summary(self) -> dict[str, float]:
        """Return statistics of the number of leaders of a text in a head, and the
        fraction from layer 0.
        """
        counts = self.leaders if self.leaders.size else np.full(1, np.nan)
        numbers = {
            "average": counts.mean(),
            "deviation": counts.std(),
            "min": counts.min(),
            "max": counts.max(),
        }
        numbers["initial"] = self.initial.sum() / max(1, self.leaders.sum())
        return {name: float(number) for name, number in numbers.items()}

    def __repr__(self) -> str:
        summary, words = self.summary(), ", ".join(self.words[:5].tolist())
        count = (
            f"{summary['average']:.1f} leaders per text and head (at most"
            f" {self.leaders.max(initial=0)})"
        )
        return (
            f"<LeaderStatistics: {count}, {summary['initial']:.0%} from layer 0; most"
            f" often {words}>"
        )

    def plot(self, *, count: int = 20, ax: "Axes | None" = None) -> "Figure":
        """Draw a histogram of the most frequent leaders, coloured by their class;
        return the figure.
        """
        return plot_leaders(self, count=count, ax=ax)


def leader_statistics(model: Model, texts: Sequence[str]) -> LeaderStatistics:
    """Count the leaders of every text in every head."""
    weights, led, scores = model.weights, np.zeros(model.tokens, np.int64), None
    if model.context is not None and model.gathers_vectors:
        scores = np.zeros((model.tokens, weights.outputs))
        counted = _count_vectors(model, texts, led, scores)
    else:
        counted = _count_ngrams(model, texts, led)
    empty = np.empty((0, model.heads), np.int64)
    leaders, initial, decided = map(
        np.concatenate, zip((empty, empty, empty), *counted, strict=True)
    )
    order = np.argsort(-led, kind="stable")[: (led > 0).sum()]
    value = (
        np.einsum("mhd,chd->mc", weights.tokens(order), weights.decoder)
        if scores is None
        else scores[order]
    )
    value = value[:, 0] if weights.outputs == 1 else value
    return LeaderStatistics(
        leaders,
        initial,
        decided,
        np.array(model.names(order), np.str_),
        led[order],
        value,
    )


def _count_ngrams(
    model: Model, texts: Sequence[str], led: IntArray
) -> Iterator[Counts]:
    """Yield (texts, heads) numbers of leaders, initial ones and layers; add to `led`
    the texts that a token leads.
    """
    for encoded in map(model.vocabulary.encode, in_parts(texts)):
        for some in batches(encoded.sizes, model.heads):
            ids, counts = encoded.take(some).padded()
            found = HeadDynamics.run(model.weights, ids, counts).find_leaders()
            leads = found.emerged >= 0  # (texts, heads, n)
            np.add.at(led, ids[leads.any(axis=1)], 1)
            yield leads.sum(axis=2), (found.emerged == 0).sum(axis=2), found.decided


def _count_vectors(
    model: Model, texts: Sequence[str], led: IntArray, scores: FloatArray
) -> Iterator[Counts]:
    """Yield the same of heads that read vectors, which all lead at layer 0; add to
    `scores` the contributions.
    """
    for batch in model.explain_parts(texts):
        for text, reading in zip(batch.texts, batch.readings or (), strict=True):
            words = model.vocabulary.splitter.words(text)
            ids = model.word_ids([words[i] for i in reading.rows.tolist()])
            leads = find_leaders(reading.positions)[0]
            np.add.at(led, np.unique(ids[leads.any(axis=1)]), 1)
            np.add.at(scores, ids, reading.terms)
            if len(ids):
                number = leads.sum(axis=0)[None]
                yield number, number, np.zeros_like(number)


class TokenSums:
    """Counts and sums of the contributions of each token, over some texts."""

    def __init__(self, tokens: int, outputs: int) -> None:
        self.count = np.zeros(tokens, np.int64)
        self.sum, self.absolute = np.zeros((2, tokens, outputs))

    def add(self, ids: AnyArray, terms: FloatArray) -> None:
        """Add (m, outputs) contributions of the tokens with (m,) indices, which may
        repeat.
        """
        self.count += np.bincount(ids, minlength=len(self.count))
        for output, column in enumerate(terms.T):
            self.sum[:, output] += np.bincount(ids, column, len(self.count))
            self.absolute[:, output] += np.bincount(
                ids, np.abs(column), len(self.count)
            )

    def add_sums(
        self, ids: IntArray, count: IntArray, total: FloatArray, absolute: FloatArray
    ) -> None:
        """Add sums over other texts: (m,) distinct indices, (m,) counts, (m, outputs)
        sums.
        """
        self.count[ids] += count
        self.sum[ids] += total
        self.absolute[ids] += absolute


def token_table(
    model: Model, texts: Sequence[str], labels: AnyArray | None
) -> "DataFrame":
    """Return the table of `HardmaxClassifier.contributions`; `labels` are some of the
    model's.
    """
    sums, start = (
        defaultdict[str, TokenSums](
            lambda: TokenSums(model.tokens, model.weights.outputs)
        ),
        0,
    )
    for some, encoded, terms, scores, _ in model.explain_parts(texts):
        masks: dict[str, BoolArray] = {"": np.ones(len(some), bool)}
        if labels is not None:
            own = labels[start : start + len(some)]
            right = model.decide(scores) == own
            masks |= {f"in_{label}": own == label for label in model.classes.tolist()}
            masks |= {"right": right, "wrong": ~right}
        for name, mask in masks.items():
            rows = np.repeat(mask, encoded.sizes)
            sums[name].add(encoded.ids[rows], terms[rows])
        start += len(some)
    seen = np.flatnonzero(sums[""].count)
    of_logits = (
        model.classes.tolist() if model.multilabel else logit_classes(model.classes)
    )
    return frame_of(sums, seen, model.names(seen), of_logits)


def logit_classes(classes: AnyArray) -> list[Any]:
    """Return the class of each logit: with two classes there is one, of the second."""
    return classes.tolist() if len(classes) > 2 else classes.tolist()[1:]


def frame_of(
    sums: Mapping[str, TokenSums],
    seen: IntArray,
    names: Sequence[str],
    classes: Sequence[Any],
) -> "DataFrame":
    """Return a table of the tokens `seen`, with their `names`, sorted by the size of
    their sums.

    The sums under "" are those over all texts, others are over the texts that their key
    describes.
    """
    with needed_for("`contributions`", "pandas", "text"):
        import pandas

    tables = []
    for output, label in enumerate(classes):
        columns: dict[str, Any] = {"token": names, "for": label}
        for name, found in sums.items():
            ending = f"_{name}" if name else ""
            count, total = found.count[seen], found.sum[seen, output]
            with np.errstate(invalid="ignore"):
                columns |= {
                    f"count{ending}": count,
                    f"sum{ending}": total,
                    f"mean{ending}": total / count,
                }
                columns[f"mean_abs{ending}"] = (
                    absolute := found.absolute[seen, output]
                ) / count
                if not name:
                    columns["share"] = absolute / absolute.sum()
        tables.append(pandas.DataFrame(columns))
    table = pandas.concat(tables, ignore_index=True)
    order = np.argsort(-np.abs(table["sum"].to_numpy()), kind="stable")
    return table.iloc[order].reset_index(drop=True)
