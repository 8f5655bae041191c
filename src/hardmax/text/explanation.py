"""Why a text was classified as it was: terms that add up to the logit, and the words that others gather around.

It is long because an explanation can be asked for many things, each in a few lines.
"""

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
from hardmax.text import accounts
from hardmax.text.accounts import Leading, Part
from hardmax.text.comparison import Comparison, compare
from hardmax.text.flips import Flip, minimal_flip
from hardmax.text.followers import Followers, simulated
from hardmax.text.model import (
    Model,
    contributions,
    in_parts,
    logits,
    sums_by_text,
)
from hardmax.text.vocabulary import Encoded
from hardmax.trajectories.hardmax import HardmaxTrajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from hardmax.draw.movies import Movie
    from hardmax.draw.pages import Page


class Highlight(NamedTuple):
    """A word where it stands in the text, with its part of the logit.

    Attributes
    ----------
    word : str
        As it stands in the text.
    start, end : int
        Where: `text[start:end]`.
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
    """A leader in one head, and the words that follow it after the last layer.

    Attributes
    ----------
    word : str
        The leader.
    since : int
        The layer from which it leads.
    followers : tuple of str
        Who follows it after the last layer.
    share : float
        Its part of the mean of the head.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> leader = explanation.leaders[0][0]  # of the first head, the one with the largest share
    >>> leader.word in explanation.words, 0 < leader.share <= 1
    (True, True)
    """

    word: str
    since: int  # the layer at which it first followed itself alone
    followers: tuple[str, ...]  # without the leader itself
    share: float  # part of the head's mean that is this word in the end


@dataclass(frozen=True, eq=False)
class Explanation:
    """An exact account of one prediction: logit = bias + sum of the contributions.

    The hardmax layers are linear once it is known who follows whom, so the contribution of word j is
    share_j v . z_j, its share of the mean times its own score, summed over heads. It is also the gradient times the
    input. Nothing is sampled: the same text has the same explanation on every run.

    Attributes
    ----------
    text : str
        What was answered.
    ids, counts : (n,) arrays of int
        Which entries of the vocabulary its tokens are, and how often the text has each.
    terms : (n, outputs) array
        `contributions`, with one column for two classes.
    logits : (outputs,) array
        `logit`, likewise.
    model : Model
        What answered.
    prediction : label
        The answer.
    probability : float
        Of the prediction.
    logit, bias : float, or (classes,) array with more than two classes
        With two classes of `classes[1]` against `classes[0]`.
    words : (n,) array of str
        Distinct tokens in the order in which the text has them; pairs as "not good".
    contributions : (n,) array, or (n, classes) with more than two classes
        What each of `words` adds to the logit.

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
        from hardmax.draw.text_page import explanation_parts

        return card(explanation=explanation_parts(self))

    @property
    def classes(self) -> AnyArray:
        """Labels in order, as `classes_` of the classifier."""
        return self.model.classes

    @property
    def prediction(self) -> Any:
        """The label with the largest logit."""
        return self.model.decide(self.logits[None])[0]

    @property
    def probability(self) -> float:
        """Of the prediction, from 0 to 1."""
        return float(self.model.probabilities(self.logits[None])[0, self._best[0]])

    @property
    def logit(self) -> float | FloatArray:
        """Bias plus contributions."""
        return float(self.logits[0]) if len(self.logits) == 1 else self.logits

    @property
    def bias(self) -> float | FloatArray:
        """The logit of a text without known words."""
        bias = self.model.weights.bias
        return float(bias[0]) if len(bias) == 1 else bias

    @property
    def contributions(self) -> FloatArray:
        """What each of `words` adds to the logit: (n,), or (n, classes) with more than two classes."""
        return self.terms[:, 0] if len(self.logits) == 1 else self.terms

    @cached_property
    def words(self) -> AnyArray:
        """(n,) distinct tokens in the order in which the text has them."""
        return np.array(self.model.vocabulary.names(self.ids), dtype=np.str_)

    @property
    def towards(self) -> FloatArray:
        """(n,) contributions for the prediction, against the next best class: what is positive speaks for it."""
        return self.signed(self.contributions)

    @property
    def second(self) -> Any:
        """The next best class, which the prediction is compared with."""
        return self.classes[self._best[1]]

    @property
    def _best(self) -> tuple[int, int]:
        """Places of the prediction and of the next best class."""
        if len(self.logits) == 1:
            return (1, 0) if self.logits[0] > 0 else (0, 1)
        first, second = np.argsort(-self.logits, kind="stable")[:2].tolist()
        return first, second

    def signed(self, values: float | FloatArray) -> FloatArray:
        """Parts of the logits for the prediction, against the next best class: (n,) of (n,) or (n, classes) parts.

        A word may raise the logit of the prediction, and another one more: it speaks against the prediction.
        """
        first, second = self._best
        if len(self.logits) == 1:
            return np.asarray(np.asarray(values) * (first - second)) + 0.0  # which is no -0
        return np.asarray(np.asarray(values)[..., first] - np.asarray(values)[..., second])

    def top(self, count: int) -> list[tuple[str, float]]:
        """The tokens that count most, as written, with their contributions (of more classes, `towards` the answer)."""
        values = self.contributions if len(self.logits) == 1 else self.towards
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return [(self.as_written[self.words[i]], float(values[i])) for i in order]

    @cached_property
    def highlights(self) -> tuple[Highlight, ...]:
        """`highlighted()`: every word where it stands, runs shared evenly."""
        return self.highlighted()

    def highlighted(self, *, even: bool = True) -> tuple[Highlight, ...]:
        """Every word of the text where it stands, with its part of the logit; all parts sum to the logit less the bias.

        A run of words counts for all of them alike, signs left out, which is nearer to what people mark; or with
        `even=False` for the one of them that by itself speaks most for the same side, which names the words that the
        answer stands on.
        """
        spans = self.model.vocabulary.splitter.spans(self.text)
        parts = by_word(self.model, [span.word for span in spans], self.ids, self.terms, even=even)
        values = parts[:, 0].tolist() if len(self.logits) == 1 else list(parts)
        return tuple(Highlight(*span, value) for span, value in zip(spans, values, strict=True))

    def by_word(self, *, even: bool = True) -> list[Part]:
        """Distinct words of the text, as they stand in it, with what all their places add to the logit.

        Runs of words count for their words, as `highlighted` says. All values and the bias sum to the logit. Those that
        say most come first.
        """
        return accounts.by_word(self, even=even)

    def strongest_runs(self) -> dict[tuple[int, int], str]:
        """The run of words, as written, in which a word says most, by the word's first place in the text.

        Words that say more by themselves than in any run are left out.
        """
        return accounts.strongest_runs(self)

    def by_sentence(self, *, even: bool = True) -> list[Part]:
        """Sentences in their order, with what their words add to the logit."""
        return accounts.by_sentence(self, even=even)

    def by_phrase(self, phrases: Iterable[str] | None = None, *, even: bool = True) -> list[Part]:
        """Phrases of the text, each with all its places, with what their words add to the logit.

        Without `phrases` the text is cut at commas, brackets and the like; all values and the bias then sum to the
        logit.
        """
        return accounts.by_phrase(self, phrases, even=even)

    @cached_property
    def as_written(self) -> dict[str, str]:
        """`words` as they stand in the text where they come first: "wonderful . i" may be written "wonderful. I"."""
        return accounts.as_written(self)

    def leading(self) -> list[Leading]:
        """Leaders over all heads: in how many each leads, with which share of the mean, and how many follow it."""
        return accounts.leading(self)

    def minimal_flip(self) -> Flip:
        """Words without which the answer is another, found greedily and checked by the model; or that there are none.

        Each of them is needed: with any one of them back the answer is the first again. A smaller set may exist.
        """
        return minimal_flip(self, partial(explain, self.model))

    def counterfactual(self, text: "str | Explanation") -> Comparison:
        """What makes the answer to another text different, token by token; the changes add up to that of the logit."""
        return compare(self.model, self, explain(self.model, text) if isinstance(text, str) else text)

    @cached_property
    def followers(self) -> Followers:
        """Who follows whom in every layer and head."""
        return Followers.of(self.model.weights, self.ids[None], self.counts[None])

    @cached_property
    def leaders(self) -> tuple[tuple[LeadingWord, ...], ...]:
        """For each head its leaders, the one with the largest share first."""
        if not len(self.ids):
            return ((),) * self.model.weights.heads
        found = self.followers.following()
        return tuple(map(self._leaders, found.emerged[0], found.follows[0], self.shares))

    def _leaders(self, emerged: IntArray, follows: IntArray, shares: FloatArray) -> tuple[LeadingWord, ...]:
        found = []
        for leader in np.flatnonzero(emerged >= 0).tolist():
            behind = tuple(str(self.words[i]) for i in np.flatnonzero(follows == leader) if i != leader)
            found.append(LeadingWord(str(self.words[leader]), int(emerged[leader]), behind, float(shares[leader])))
        return tuple(sorted(found, key=lambda leader: -leader.share))

    @cached_property
    def shares(self) -> FloatArray:
        """(heads, n) part of each head's mean that is a word in the end; each row sums to 1."""
        if not len(self.ids):
            return np.empty((self.model.weights.heads, 0))
        return self.followers.shares()[0]

    @property
    def rows(self) -> IntArray:
        """The place in `words` of every token of `trajectory`: words that count several times are there as often."""
        return np.repeat(np.arange(len(self.ids)), self.counts)

    @cached_property
    def trajectory(self) -> tuple[HardmaxTrajectory, ...]:
        """For each head the `HardmaxTrajectory` of the text's tokens; their words are `words[rows]`."""
        if not len(self.ids):
            raise InputError("A trajectory must have tokens. Got a text without a known word.")
        weights = self.model.weights
        return tuple(simulated(weights, self.ids, self.counts, h) for h in range(weights.heads))

    def leave_one_out(self) -> FloatArray:
        """(n,) or (n, classes): by how much the logit falls when a token is left out; exact, and n times dearer."""
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
        """Everything but the trajectories, as JSON."""
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
        """A pandas DataFrame: a row for each of `words`, its contribution, count and largest share of a head."""
        with needed_for("`Explanation.to_frame`", "pandas", "text"):
            import pandas
        names = ["contribution"] if len(self.logits) == 1 else [str(name) for name in self.classes.tolist()]
        columns = {"word": self.words, **dict(zip(names, self.terms.T, strict=True)), "count": self.counts}
        return pandas.DataFrame(columns | {"largest_share": self.shares.max(axis=0, initial=0)})

    def to_html(self, path: str | PathLike[str] | None = None) -> "Page":
        """A page with the highlighted text, the words that count and the leaders; written to `path` if given."""
        from hardmax.draw.pages import Page, render
        from hardmax.draw.text_page import explanation_parts

        page = render("explanation", title="Why this answer", explanation=explanation_parts(self))
        if path is not None:
            save_text(page, path)
        return Page(page)

    def show(self) -> Any:
        """Show it in a notebook as a widget: words can be struck and replaced, and the model answers again."""
        return draw("explanation_widget", self)

    def plot(self, *, kind: str = "auto", ax: "Axes | None" = None) -> "Figure":
        """Draw it: kind="words" as bars, "plane" the tokens of a head with d = 2 and the decision line.

        "auto" is "plane" for one head with d = 2, else "words". Returns the Matplotlib figure.
        """
        from hardmax.draw.texts import plot_explanation

        return plot_explanation(self, kind=kind, ax=ax)

    def movie(self, path: str | PathLike[str] | None = None, *, head: int = 0, **options: Any) -> "Movie":
        """Make a movie of a head with d = 2, layer by layer, with the decision line; .gif or .mp4."""
        from hardmax.draw.texts import explanation_movie

        return explanation_movie(self, path, head=head, **options)


def explain(model: Model, text: str) -> Explanation:
    """Explain what a model says of a text."""
    if not isinstance(text, str):
        raise ParameterError("text", "be a string", type(text).__name__, "For many, use explain_many.")
    return explain_many(model, [text])[0]


def explain_many(model: Model, texts: Sequence[str]) -> list[Explanation]:
    """Explain what a model says of each text."""
    found = []
    for some in in_parts(texts):
        ids, starts, counts = encoded = model.vocabulary.encode(some)
        terms = contributions(model.weights, encoded)
        scores = model.weights.bias + sums_by_text(terms, encoded)
        for text, a, b, score in zip(some, starts[:-1].tolist(), starts[1:].tolist(), scores, strict=True):
            found.append(Explanation(text, ids[a:b], counts[a:b], terms[a:b], score, model))
    return found


def by_word(model: Model, words: Sequence[str], ids: IntArray, terms: FloatArray, *, even: bool = False) -> FloatArray:
    """(words, outputs) parts of the logits that belong to each word of a text, where it stands; their sum is the same.

    The text is split into `words`; its distinct tokens are `ids`, (n,), and their contributions `terms`, (n, outputs).
    A token that occurs several times is shared evenly by its places. A run of words falls when one of them is erased,
    so its part goes to a single word: the one whose own score v . z, as a token by itself, speaks most for that side.
    With `even` each run is shared by its words instead, or by its signs if it has no word: nearer to what people mark,
    worse to find what a text stands on.
    """
    parts, scores = np.zeros((2, len(words), terms.shape[1]))
    order, columns = np.argsort(ids), np.arange(terms.shape[1])
    spelled = np.array([any(map(str.isalnum, word)) for word in words], bool)
    for size, places, tokens in model.vocabulary.occurrences(words):
        if not len(places):
            continue
        at = order[np.searchsorted(ids[order], tokens)]  # places of the tokens in ids
        times = np.bincount(at, minlength=len(ids))[at]
        part = terms[at] / times[:, None]  # (m, outputs)
        if size == 1:
            scores[places] = np.einsum("mhd,ohd->mo", model.weights.tokens(tokens), model.weights.decoder)
        window = places[:, None] + np.arange(size)  # (m, size)
        if even:
            taking = spelled[window]
            taking[~taking.any(axis=1)] = True
            np.add.at(parts, window, part[:, None] * (taking / taking.sum(axis=1, keepdims=True))[..., None])
            continue
        speaker = (scores[window] * np.sign(part)[:, None]).argmax(axis=1)  # (m, outputs)
        np.add.at(parts, (places[:, None] + speaker, columns), part)
    return parts
