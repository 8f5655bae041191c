"""Why a text was classified as it was: terms that add up to the logit, and the words that others gather around."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.sentiment.inference import Following, contributions, following, head_shares, sums_by_text
from hardmax.sentiment.model import Model, in_parts
from hardmax.sentiment.sharing import by_word
from hardmax.sentiment.vocabulary import Encoded


class Highlight(NamedTuple):
    """A word where it stands in the text, with its part of the logit."""

    word: str
    start: int
    end: int
    contribution: Any  # a number, or an array with one for each class


@dataclass(frozen=True)
class Group:
    """A leader in one head, and the words that follow it after the last layer.

    Parameters
    ----------
    word : str
    since : int
        The layer at which it first followed itself alone.
    followers : tuple of str
        Without the leader itself.
    share : float
        Part of the head's mean that is this word in the end.
    """

    word: str
    since: int
    followers: tuple[str, ...]
    share: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """An exact account of one prediction: logit = bias + sum of the contributions.

    The hardmax layers are linear once it is known who follows whom, so the contribution of word j is
    share_j v . z_j, its share of the crowd times its own score, summed over heads. It is also the gradient times the
    input. Nothing is sampled: the same text has the same explanation on every run.

    Attributes
    ----------
    text : str
    prediction : label
    probability : float
        Of the prediction.
    logit, bias : float, or (classes,) array with more than two classes
        With two classes of `classes[1]` against `classes[0]`.
    words : (n,) array of str
        Distinct tokens in the order in which the text has them; pairs as "not good".
    contributions : (n,) array, or (n, classes) with more than two classes
    """

    text: str
    ids: IntArray = field(repr=False)
    counts: IntArray = field(repr=False)
    terms: FloatArray = field(repr=False)  # (n, outputs)
    logits: FloatArray = field(repr=False)  # (outputs,)
    model: Model = field(repr=False)

    def __repr__(self) -> str:
        """The answer and the words that count most."""
        strongest = ", ".join(f"{word} {value:+.2f}" for word, value in self.top(4))
        return (
            f"<Explanation: {self.prediction} with probability {self.probability:.3f}; {strongest or 'no known word'}>"
        )

    @property
    def classes(self) -> AnyArray:
        """Labels in order."""
        return self.model.classes

    @property
    def prediction(self) -> Any:
        """The label."""
        return self.model.decide(self.logits[None])[0]

    @property
    def probability(self) -> float:
        """Of the prediction."""
        return float(self.model.probabilities(self.logits[None]).max())

    @property
    def logit(self) -> Any:
        """Bias plus contributions."""
        return float(self.logits[0]) if len(self.logits) == 1 else self.logits

    @property
    def bias(self) -> Any:
        """The logit of a text without known words."""
        bias = self.model.weights.bias
        return float(bias[0]) if len(bias) == 1 else bias

    @property
    def contributions(self) -> FloatArray:
        """What each of `words` adds to the logit."""
        return self.terms[:, 0] if len(self.logits) == 1 else self.terms

    @cached_property
    def words(self) -> AnyArray:
        """Distinct tokens of the text."""
        return np.array([self.model.vocabulary.name(int(token)) for token in self.ids], dtype=np.str_)

    @property
    def towards(self) -> FloatArray:
        """(n,) contributions for the prediction: of its class, or with two classes with its sign."""
        return self.signed(self.contributions)

    def signed(self, values: Any) -> Any:
        """Parts of the logits for the prediction; (n,) of (n,) parts with two classes, of (n, classes) with more."""
        if len(self.logits) == 1:
            return np.asarray(values) * (1 if self.logits[0] > 0 else -1)
        return np.asarray(values)[..., int(self.logits.argmax())]

    def top(self, count: int) -> list[tuple[str, float]]:
        """The words that count most, with their contributions (with more classes, for the prediction)."""
        values = self.terms[:, 0] if len(self.logits) == 1 else self.towards
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return [(str(self.words[i]), float(values[i])) for i in order]

    @cached_property
    def highlights(self) -> tuple[Highlight, ...]:
        """Every word of the text where it stands, with its part of the logit: `highlighted()`."""
        return self.highlighted()

    def highlighted(self, *, even: bool = False) -> tuple[Highlight, ...]:
        """Every word of the text where it stands, with its part of the logit; all parts sum to the logit less the bias.

        A run of words counts for the one of them that by itself speaks most for the same side, or with `even` for all
        of them alike. The first names the words that the answer stands on, the second marks phrases as people do.
        """
        spans = self.model.vocabulary.splitter.spans(self.text)
        words, model = [span.word for span in spans], self.model
        parts = by_word(model.vocabulary, model.weights, words, self.ids, self.terms, even=even)
        values = parts[:, 0].tolist() if len(self.logits) == 1 else list(parts)
        return tuple(Highlight(*span, value) for span, value in zip(spans, values, strict=True))

    @cached_property
    def leaders(self) -> tuple[tuple[Group, ...], ...]:
        """For each head its leaders, the one with the largest share first."""
        if not len(self.ids):
            return ((),) * self.model.weights.heads
        found = self._following
        return tuple(self._groups(found.emerged[0, h], found.follows[0, h], h) for h in range(len(found.emerged[0])))

    @cached_property
    def shares(self) -> FloatArray:
        """(heads, n) part of each head's mean that is a word in the end; each row sums to 1."""
        if not len(self.ids):
            return np.empty((self.model.weights.heads, 0))
        return head_shares(self.model.weights, self.ids[None], self.counts[None])[0]

    @property
    def rows(self) -> IntArray:
        """The place in `words` of every token of `trajectory`: words that count several times are there as often."""
        return np.repeat(np.arange(len(self.ids)), self.counts)

    @cached_property
    def trajectory(self) -> tuple[Any, ...]:
        """For each head the `HardmaxTrajectory` of the text's tokens; their words are `words[rows]`."""
        import hardmax as hm

        if not len(self.ids):
            raise InputError("A trajectory must have tokens. Got a text without a known word.")
        weights = self.model.weights
        tokens = weights.tokens(self.ids)[self.rows]  # (n, heads, d)
        return tuple(
            hm.simulate(
                np.ascontiguousarray(tokens[:, h]),
                hm.Hardmax(float(weights.alpha[h]), None if weights.A is None else weights.A[h]),
                layers=weights.layers,
            )
            for h in range(weights.heads)
        )

    def leave_one_out(self) -> FloatArray:
        """(n,) or (n, classes): by how much the logit falls when a token is left out; exact, and n times dearer."""
        count = len(self.ids)
        kept = ~np.eye(count, dtype=bool)
        without = Encoded(
            np.broadcast_to(self.ids, kept.shape)[kept],
            np.arange(count + 1) * (count - 1),
            np.broadcast_to(self.counts, kept.shape)[kept],
        )
        terms = contributions(self.model.weights, without)
        others = self.model.weights.bias + sums_by_text(terms, without)
        change = self.logits - others
        return change[:, 0] if len(self.logits) == 1 else change

    def to_json(self) -> str:
        """Everything but the trajectories, as JSON."""
        return json.dumps(self._document(), ensure_ascii=False)

    def _document(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "prediction": self.classes.tolist()[self.classes.tolist().index(self.prediction)],
            "probability": self.probability,
            "classes": self.classes.tolist(),
            "logit": _plain(self.logit),
            "bias": _plain(self.bias),
            "words": self.words.tolist(),
            "contributions": self.contributions.tolist(),
            "leaders": [
                [{"word": g.word, "since": g.since, "followers": list(g.followers), "share": g.share} for g in groups]
                for groups in self.leaders
            ],
        }

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row for each of `words`, its contribution, count and largest share of a head."""
        try:
            import pandas
        except ImportError as error:
            from hardmax._errors import MissingExtra

            raise MissingExtra("`Explanation.to_frame`", "pandas", "text") from error
        columns: dict[str, Any] = {"word": self.words}
        if len(self.logits) == 1:
            columns["contribution"] = self.contributions
        else:
            columns |= {str(name): self.terms[:, c] for c, name in enumerate(self.classes.tolist())}
        columns["count"] = self.counts
        columns["largest_share"] = self.shares.max(axis=0) if len(self.ids) else np.empty(0)
        return pandas.DataFrame(columns)

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """A page with the highlighted text, the words that count and the leaders; written to `path` if given."""
        from hardmax.draw.text_page import explanation_page

        page = explanation_page(self)
        if path is not None:
            from hardmax._files import written_whole

            with written_whole(path) as temporary:
                temporary.write_text(page, encoding="utf-8", errors="replace")  # lone surrogates have no bytes
        return page

    def plot(self, *, kind: str = "auto", ax: Any = None) -> Any:
        """Draw it: kind="words" as bars, "plane" the tokens of a head with d = 2 and the decision line.

        "auto" is "plane" for one head with d = 2, else "words". Returns the Matplotlib figure.
        """
        from hardmax.draw.texts import plot_explanation

        return plot_explanation(self, kind=kind, ax=ax)

    def movie(self, path: str | PathLike[str], *, head: int = 0, **options: Any) -> None:
        """Make a movie of a head with d = 2, layer by layer, with the decision line; .gif or .mp4."""
        from hardmax.draw.texts import explanation_movie

        explanation_movie(self, path, head=head, **options)

    @cached_property
    def _following(self) -> Following:
        return following(self.model.weights, self.ids[None], self.counts[None])

    def _groups(self, emerged: IntArray, follows: IntArray, head: int) -> tuple[Group, ...]:
        groups = []
        for leader in np.flatnonzero(emerged >= 0).tolist():
            behind = np.flatnonzero(follows == leader)
            names = tuple(str(self.words[i]) for i in behind if i != leader)
            share = float(self.shares[head, leader])
            groups.append(Group(str(self.words[leader]), int(emerged[leader]), names, share))
        return tuple(sorted(groups, key=lambda group: -group.share))


def explain(model: Model, text: str) -> Explanation:
    """Explain what a model says of a text."""
    if not isinstance(text, str):
        raise ParameterError("text", "be a string", type(text).__name__, "For many, use explain_many.")
    return explain_many(model, [text])[0]


def explain_many(model: Model, texts: Sequence[str]) -> list[Explanation]:
    """Explain what a model says of each text."""
    return [explained for some in in_parts(texts) for explained in _explained(model, some)]


def _explained(model: Model, texts: Sequence[str]) -> list[Explanation]:
    encoded = model.vocabulary.encode(texts)
    terms = contributions(model.weights, encoded)
    scores = model.weights.bias + sums_by_text(terms, encoded)
    starts = encoded.starts.tolist()
    return [
        Explanation(text, encoded.ids[a:b], encoded.counts[a:b], terms[a:b], score, model)
        for text, a, b, score in zip(texts, starts[:-1], starts[1:], scores, strict=True)
    ]


def _plain(value: Any) -> Any:
    return value if isinstance(value, float) else value.tolist()
