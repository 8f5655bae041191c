"""Explanations: terms of the tokens that add up to the logit, and the leaders of every head."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._display import draw
from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._files import save_text
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.text import attribution
from hardmax.text.attribution import Leading, Part
from hardmax.text.counterfactual import Comparison, Flip, compare, minimal_flip
from hardmax.text.model import HeadDynamics, Model, contributions, in_parts, logits, simulate_head, sums_by_text
from hardmax.text.vocabulary import Encoded
from hardmax.trajectories.hardmax import HardmaxTrajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from hardmax.draw.movies import Movie
    from hardmax.draw.pages import Page


class Highlight(NamedTuple):
    """A word of a text with its offsets and its part of the logit.

    Attributes
    ----------
    word : str
        The word, lower-cased.
    start, end : int
        Offsets in the text: `text[start:end]`.
    contribution : float, or (classes,) array
        Its part of the logit.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> first = explanation.highlights[1]
    >>> first.word, first.start, first.end
    ('wonderful', 2, 11)
    """

    word: str
    start: int
    end: int
    contribution: float | FloatArray  # a number, or an array with one for each class


@dataclass(frozen=True)
class LeadingWord:
    """A leader of one head, and the tokens that follow it after the last layer.

    Attributes
    ----------
    word : str
        The leader.
    since : int
        The layer from which it leads.
    followers : tuple of str
        Tokens that follow it after the last layer.
    share : float
        Its share of the mean of the head.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> leader = explanation.leaders[0][0]  # of the first head, the one with the largest share
    >>> leader.word in explanation.words, 0 < leader.share <= 1
    (True, True)
    """

    word: str
    since: int  # the layer at which it first followed only itself
    followers: tuple[str, ...]  # without the leader itself
    share: float  # of the head's mean after the last layer


@dataclass(frozen=True, eq=False)
class Explanation:
    """An exact decomposition of one prediction: logit = bias + sum of the contributions.

    The hardmax layers are linear given the argmax sets, so the contribution of token j is share_j v . z_j, its share of
    the mean times its own score, summed over heads. It is also the gradient times the input. Nothing is sampled: the
    same text has the same explanation on every run.

    Attributes
    ----------
    text : str
        The classified text.
    ids, counts : (n,) arrays of int
        Indices of its tokens in the vocabulary, and how often each counts.
    terms : (n, outputs) array
        `contributions`, with one column for two classes.
    logits : (outputs,) array
        `logit`, likewise.
    model : Model
        The model.
    prediction : label
        The predicted class.
    probability : float
        Probability of the prediction.
    logit, bias : float, or (classes,) array with more than two classes
        With two classes of `classes[1]` against `classes[0]`.
    words : (n,) array of str
        Distinct tokens in the order in which the text has them; pairs as "not good".
    contributions : (n,) array, or (n, classes) with more than two classes
        Term of each of `words` in the sum of the logit.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> print(explanation.prediction)
    pos
    >>> explanation.top(1)[0][0]
    'wonderful film'
    >>> bool(abs(explanation.bias + explanation.contributions.sum() - explanation.logit) < 1e-9)
    True
    """

    text: str
    ids: IntArray = field(repr=False)
    counts: IntArray = field(repr=False)
    terms: FloatArray = field(repr=False)  # (n, outputs)
    logits: FloatArray = field(repr=False)  # (outputs,)
    model: Model = field(repr=False)

    def __repr__(self) -> str:
        order = np.argsort(-np.abs(self.towards), kind="stable")[:4]
        parts = [f"{self.as_written[self.words[i]]} {self.towards[i]:+.2f}" for i in order]
        strongest = ", ".join(parts) or "no known word"
        return f"<Explanation: {self.prediction} with probability {self.probability:.3f}; {strongest}>"

    def _repr_html_(self) -> str:
        from hardmax.draw.pages import card
        from hardmax.draw.text_page import view_explanation

        return card(explanation=view_explanation(self))

    @property
    def classes(self) -> AnyArray:
        """Return the labels in order, as `classes_` of the classifier."""
        return self.model.classes

    @property
    def prediction(self) -> Any:
        """Return the label with the largest logit."""
        return self.model.decide(self.logits[None])[0]

    @property
    def probability(self) -> float:
        """Return the probability of the prediction."""
        return float(self.model.probabilities(self.logits[None])[0, self._best[0]])

    @property
    def logit(self) -> float | FloatArray:
        """Return the bias plus the contributions."""
        return float(self.logits[0]) if len(self.logits) == 1 else self.logits

    @property
    def bias(self) -> float | FloatArray:
        """Return the logit of a text without known words."""
        bias = self.model.weights.bias
        return float(bias[0]) if len(bias) == 1 else bias

    @property
    def contributions(self) -> FloatArray:
        """Return the terms of `words`: (n,), or (n, classes) with more than two classes."""
        return self.terms[:, 0] if len(self.logits) == 1 else self.terms

    @cached_property
    def words(self) -> AnyArray:
        """Return the (n,) distinct tokens in the order of their first occurrence."""
        return np.array(self.model.vocabulary.names(self.ids), dtype=np.str_)

    @property
    def towards(self) -> FloatArray:
        """Return (n,) contributions to the prediction minus those to the second best class."""
        return self.signed(self.contributions)

    @property
    def second(self) -> Any:
        """Return the second best class."""
        return self.classes[self._best[1]]

    @property
    def _best(self) -> tuple[int, int]:
        """Return the indices of the prediction and of the second best class."""
        if len(self.logits) == 1:
            return (1, 0) if self.logits[0] > 0 else (0, 1)
        first, second = np.argsort(-self.logits, kind="stable")[:2].tolist()
        return first, second

    def signed(self, values: float | FloatArray) -> FloatArray:
        """Return terms of the prediction minus those of the second best class: (n,) of (n,) or (n, classes) terms.

        A word that raises the logit of the prediction, but that of the second class more, has a negative value.
        """
        first, second = self._best
        if len(self.logits) == 1:
            return np.asarray(np.asarray(values) * (first - second)) + 0.0  # avoids -0
        return np.asarray(np.asarray(values)[..., first] - np.asarray(values)[..., second])

    def top(self, count: int) -> list[tuple[str, float]]:
        """Return the tokens with the largest contributions, as written (with more than two classes, of `towards`)."""
        values = self.contributions if len(self.logits) == 1 else self.towards
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return [(self.as_written[self.words[i]], float(values[i])) for i in order]

    @cached_property
    def highlights(self) -> tuple[Highlight, ...]:
        """Return `highlighted()`: every word with its offsets, n-grams shared evenly."""
        return self.highlighted()

    def highlighted(self, *, even: bool = True) -> tuple[Highlight, ...]:
        """Return every word of the text with its part of the logit; all parts sum to the logit less the bias.

        The term of an n-gram is shared evenly by its words without punctuation, which agrees better with what people
        mark; or with `even=False` it goes to the word whose own score is largest for the same class, which finds the
        words that the prediction depends on.
        """
        spans = self.model.vocabulary.splitter.spans(self.text)
        parts = attribution.attribute_to_words(
            self.model, [span.word for span in spans], self.ids, self.terms, even=even
        )
        values = parts[:, 0].tolist() if len(self.logits) == 1 else list(parts)
        return tuple(Highlight(*span, value) for span, value in zip(spans, values, strict=True))

    def by_word(self, *, even: bool = True) -> list[Part]:
        """Return the distinct words of the text with the sum of their parts of the logit, the largest first.

        N-grams are shared as in `highlighted`. All values and the bias sum to the logit.
        """
        return attribution.by_word(self, even=even)

    def strongest_runs(self) -> dict[tuple[int, int], str]:
        """Return the n-gram, as written, in which a word contributes most, by the offsets of its first occurrence.

        Words that contribute most by themselves are left out.
        """
        return attribution.strongest_runs(self)

    def by_sentence(self, *, even: bool = True) -> list[Part]:
        """Return the sentences in their order, with their parts of the logit."""
        return attribution.by_sentence(self, even=even)

    def by_phrase(self, phrases: Iterable[str] | None = None, *, even: bool = True) -> list[Part]:
        """Return phrases of the text with all their offsets and their parts of the logit.

        Without `phrases` the text is split at punctuation; all values and the bias then sum to the logit.
        """
        return attribution.by_phrase(self, phrases, even=even)

    @cached_property
    def as_written(self) -> dict[str, str]:
        """Return each of `words` as first written in the text: "wonderful . i" may be written "wonderful. I"."""
        return attribution.as_written(self)

    def leading(self) -> list[Leading]:
        """Return the leaders over all heads: number of heads, mean share and mean number of followers."""
        return attribution.leading(self)

    def minimal_flip(self) -> Flip:
        """Find words without which the prediction is another, greedily, each step checked with the model.

        Each word is needed: with any one of them restored the prediction is the first again. A smaller set may exist.
        """
        return minimal_flip(self, partial(explain, self.model))

    def counterfactual(self, text: "str | Explanation") -> Comparison:
        """Compare with another text, token by token; the changes add up to that of the logit."""
        return compare(self.model, self, explain(self.model, text) if isinstance(text, str) else text)

    @cached_property
    def followers(self) -> HeadDynamics:
        """Return the argmax sets of every layer and head."""
        return HeadDynamics.run(self.model.weights, self.ids[None], self.counts[None])

    @cached_property
    def leaders(self) -> tuple[tuple[LeadingWord, ...], ...]:
        """Return the leaders of each head, the one with the largest share first."""
        if not len(self.ids):
            return ((),) * self.model.weights.heads
        found = self.followers.find_leaders()
        return tuple(map(self._leaders, found.emerged[0], found.follows[0], self.shares))

    def _leaders(self, emerged: IntArray, follows: IntArray, shares: FloatArray) -> tuple[LeadingWord, ...]:
        found = []
        for leader in np.flatnonzero(emerged >= 0).tolist():
            behind = tuple(str(self.words[i]) for i in np.flatnonzero(follows == leader) if i != leader)
            found.append(LeadingWord(str(self.words[leader]), int(emerged[leader]), behind, float(shares[leader])))
        return tuple(sorted(found, key=lambda leader: -leader.share))

    @cached_property
    def shares(self) -> FloatArray:
        """Return (heads, n) shares of each head's mean that the tokens hold after the last layer; rows sum to 1."""
        if not len(self.ids):
            return np.empty((self.model.weights.heads, 0))
        return self.followers.shares()[0]

    @property
    def rows(self) -> IntArray:
        """Return the index in `words` of every token of `trajectory`; a word that counts k times is there k times."""
        return np.repeat(np.arange(len(self.ids)), self.counts)

    @cached_property
    def trajectory(self) -> tuple[HardmaxTrajectory, ...]:
        """Return the `HardmaxTrajectory` of each head; the words of its tokens are `words[rows]`."""
        if not len(self.ids):
            raise InputError("A trajectory must have tokens. Got a text without a known word.")
        weights = self.model.weights
        return tuple(simulate_head(weights, self.ids, self.counts, h) for h in range(weights.heads))

    def leave_one_out(self) -> FloatArray:
        """Return the (n,) or (n, classes) decreases of the logit when a token is left out, by n predictions."""
        count = len(self.ids)
        kept = ~np.eye(count, dtype=bool)
        without = Encoded(
            np.broadcast_to(self.ids, kept.shape)[kept],
            np.arange(count + 1) * (count - 1),
            np.broadcast_to(self.counts, kept.shape)[kept],
        )
        change = self.logits - logits(self.model.weights, without)
        return change[:, 0] if len(self.logits) == 1 else change

    def to_json(self) -> str:
        """Return everything but the trajectories as JSON."""
        document = {
            "text": self.text,
            "prediction": self.prediction.item(),
            "probability": self.probability,
            "classes": self.classes.tolist(),
            "logit": np.asarray(self.logit).tolist(),
            "bias": np.asarray(self.bias).tolist(),
            "words": self.words.tolist(),
            "contributions": self.contributions.tolist(),
            "leaders": [[asdict(leader) for leader in leaders] for leaders in self.leaders],
        }
        return json.dumps(document, ensure_ascii=False)

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame with a row for each of `words`: contribution, count and largest share of a head."""
        with needed_for("`Explanation.to_frame`", "pandas", "text"):
            import pandas
        names = ["contribution"] if len(self.logits) == 1 else [str(name) for name in self.classes.tolist()]
        columns = {"word": self.words, **dict(zip(names, self.terms.T, strict=True)), "count": self.counts}
        return pandas.DataFrame(columns | {"largest_share": self.shares.max(axis=0, initial=0)})

    def to_html(self, path: str | PathLike[str] | None = None) -> "Page":
        """Return a page with the highlighted text, the largest terms and the leaders; write it to `path` if given."""
        from hardmax.draw.pages import Page, render
        from hardmax.draw.text_page import view_explanation

        page = render("explanation", title="Explanation of a prediction", explanation=view_explanation(self))
        if path is not None:
            save_text(page, path)
        return Page(page)

    def show(self) -> Any:
        """Show a notebook widget in which words can be removed and replaced, and the prediction follows."""
        return draw("explanation_widget", self)

    def plot(self, *, kind: str = "auto", ax: "Axes | None" = None) -> "Figure":
        """Draw the contributions (kind="words"), or the tokens of a head with d = 2 and the decision line ("plane").

        "auto" is "plane" for one head with d = 2, else "words". Return the Matplotlib figure.
        """
        from hardmax.draw.texts import plot_explanation

        return plot_explanation(self, kind=kind, ax=ax)

    def movie(self, path: str | PathLike[str] | None = None, *, head: int = 0, **options: Any) -> "Movie":
        """Make a movie of a head with d = 2 and the decision line; .gif or .mp4."""
        from hardmax.draw.texts import explanation_movie

        return explanation_movie(self, path, head=head, **options)


def explain(model: Model, text: str) -> Explanation:
    """Explain the prediction of a model for one text."""
    if not isinstance(text, str):
        raise ParameterError("text", "be a string", type(text).__name__, "For several texts use explain_many.")
    return explain_many(model, [text])[0]


def explain_many(model: Model, texts: Sequence[str]) -> list[Explanation]:
    """Explain the predictions of a model for many texts."""
    found = []
    for some in in_parts(texts):
        ids, starts, counts = encoded = model.vocabulary.encode(some)
        terms = contributions(model.weights, encoded)
        scores = model.weights.bias + sums_by_text(terms, encoded)
        for text, a, b, score in zip(some, starts[:-1].tolist(), starts[1:].tolist(), scores, strict=True):
            found.append(Explanation(text, ids[a:b], counts[a:b], terms[a:b], score, model))
    return found
