"""Explanations: terms of the tokens that add up to the logit, and the leaders of every
head.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from itertools import chain, islice, pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._display import draw
from hardmax._errors import InputError, ParameterError, did_you_mean, needed_for
from hardmax._files import save_text
from hardmax._types import AnyArray, FloatArray, IntArray, Progress
from hardmax._validation import is_missing
from hardmax.draw.pages import Page, card, render
from hardmax.draw.text_page import view_explanation
from hardmax.draw.texts import explanation_movie, plot_explanation
from hardmax.text import attribution
from hardmax.text.attribution import (
    Comparison,
    Flip,
    Highlight,
    Leading,
    LeadingWord,
    Part,
)
from hardmax.text.columns import RowText, replace_text
from hardmax.text.context import Reading, find_leaders
from hardmax.text.files import join_names
from hardmax.text.model import HeadDynamics, Model, logits, simulate_head
from hardmax.text.tokenizer import Word, normalise
from hardmax.text.vocabulary import Encoded
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.storage import to_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from hardmax.draw.movies import Movie


@dataclass(frozen=True, eq=False)
class Explanation:
    """An exact decomposition of one prediction: logit = bias + sum of the
    contributions.

    The hardmax layers are linear given the argmax sets, so the contribution of token j
    is share_j v . z_j, its share of the mean times its own score, summed over heads. It
    is also the gradient times the input. Nothing is sampled: the same text has the same
    explanation on every run.

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
    reading : Reading, optional
        With an encoder, its words: contributions of their vectors, and positions and
        shares in every head.

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
    reading: Reading | None = field(default=None, repr=False)  # of the encoder

    def __repr__(self) -> str:
        tokens = (
            f"{name} {value:+.2f}"
            for name, value in self.top(len(self.ids))
            if not attribution.is_punctuation(name)
        )
        strongest = ", ".join(islice(tokens, 4)) or "no known word"
        return (
            f"<Explanation: {self.prediction} with probability {self.probability:.3f};"
            f" {strongest}>"
        )

    def _repr_html_(self) -> str:
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
        """Return the bias plus the contributions: of `classes[1]` with two classes,
        else a (classes,) array.
        """
        return float(self.logits[0]) if len(self.logits) == 1 else self.logits

    @property
    def bias(self) -> float | FloatArray:
        """Return the logit of a text without known words."""
        bias = self.model.weights.bias
        return float(bias[0]) if len(bias) == 1 else bias

    @property
    def contributions(self) -> FloatArray:
        """Return the terms of `words` in the sum of the logit: (n,), or (n, classes)
        with more than two classes.
        """
        return self.terms[:, 0] if len(self.logits) == 1 else self.terms

    @cached_property
    def words(self) -> AnyArray:
        """Return the (n,) distinct tokens in the order of their first occurrence; pairs
        as "not good".
        """
        return np.array(self.model.names(self.ids), dtype=np.str_)

    @property
    def known(self) -> int:
        """Return the number of known words and n-grams."""
        return int((self.ids < self.model.words).sum())

    @property
    def columns(self) -> list[Part]:
        """Return the parts of the logit of further columns of a table, named as "stars
        = 5".
        """
        rows = self.ids >= self.model.words
        pairs = zip(
            self.words[rows].tolist(), self._values(self.terms[rows]), strict=True
        )
        return [Part(self.as_written[name], value, ()) for name, value in pairs]

    def _values(self, terms: FloatArray) -> list[float | FloatArray]:
        """Return each row of (m, outputs) terms as a number, or with more than two
        classes as an array.
        """
        return terms[:, 0].tolist() if len(self.logits) == 1 else list(terms)

    @property
    def towards(self) -> FloatArray:
        """Return (n,) contributions to the prediction minus those to the second best
        class.
        """
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
        """Return terms of the prediction minus those of the second best class: (n,) of
        (n,) or (n, classes) terms.

        A word that raises the logit of the prediction, but that of the second class
        more, has a negative value.
        """
        terms, (first, second) = np.asarray(values), self._best
        if len(self.logits) == 1:
            return np.asarray(terms * (first - second) + 0.0)  # avoids -0
        return np.asarray(terms[..., first] - terms[..., second])

    def as_shown(self, values: float | FloatArray) -> FloatArray:
        """Return terms as pages show them: of two classes those of the logit of
        `classes[1]`, of more `signed`.
        """
        return np.asarray(values) if len(self.logits) == 1 else self.signed(values)

    @property
    def sides(self) -> tuple[Any, Any]:
        """Return the class that positive values of `as_shown` support, and the class
        that negative ones support.
        """
        return (
            (self.classes[1], self.classes[0])
            if len(self.logits) == 1
            else (self.prediction, self.second)
        )

    def top(self, count: int) -> list[tuple[str, float]]:
        """Return the tokens with the largest contributions, as written (with more than
        two classes, of `towards`).
        """
        values = self.as_shown(self.contributions)
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return [(self.as_written[self.words[i]], float(values[i])) for i in order]

    @cached_property
    def highlights(self) -> tuple[Highlight, ...]:
        """Return `highlighted()`: every word with its offsets and its part of the
        logit.
        """
        return self.highlighted()

    def highlighted(self, *, even: bool = True) -> tuple[Highlight, ...]:
        """Return every word of the text with its offsets and its part of the logit:
        word, start, end, contribution.

        All parts, those of `columns` and the bias sum to the logit. The term of an
        n-gram is shared evenly by its words and punctuation characters; where
        punctuation parts it, by the words on the side of its strongest word, whose own
        score is largest for the class. With `even=False` it goes to that word, which
        finds the decisive words.
        """
        values = self._values(attribution.attribute_to_words(self, even=even))
        return tuple(
            Highlight(*span, value)
            for span, value in zip(self.spans, values, strict=True)
        )

    def by_word(self, *, even: bool = True) -> list[Part]:
        """Return parts by distinct word as written, and `columns`, the largest first;
        they and the bias sum to the logit.

        Words of one lemma that are written differently are different here. The part of
        punctuation is shared evenly by the words of its phrase (see `by_phrase`).
        """
        marks = attribution.fold_punctuation(self, self.highlighted(even=even))
        found: dict[str, list[Highlight]] = defaultdict(list)
        for mark in marks:
            found[self._written_word(mark)].append(mark)
        parts = []
        for own in found.values():
            places = tuple((mark.start, mark.end) for mark in own)
            value = attribution.sum_contributions(self, own)
            written = self.text[slice(*places[0])] or own[0].word
            parts.append(Part(written, value, places))
        return sorted(
            [*parts, *self.columns],
            key=lambda part: -abs(float(self.signed(part.value))),
        )

    def _written_word(self, span: Word | Highlight) -> str:
        """Return a word as it is written, not its lemma, without upper case."""
        return normalise(self.text[span.start : span.end]) or span.word

    def strongest_ngrams(self) -> dict[tuple[int, int], str]:
        """Return the n-gram in which a word contributes most, unless that is the word
        itself, by its first offsets.
        """
        names, words = self.words.tolist(), [span.word for span in self.spans]
        written = [self._written_word(span) for span in self.spans]
        sums: dict[str, dict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )  # by word as written, then by token
        for places, rows, found in attribution.share_ngrams(self, self.terms):
            values = self.signed(
                found[..., 0] if len(self.logits) == 1 else found
            ).tolist()  # (m, size)
            for place, row, parts in zip(
                places.tolist(), rows.tolist(), values, strict=True
            ):
                ngram = words[place : place + len(parts)]
                several = sum(any(map(str.isalnum, word)) for word in ngram) > 1
                # a word and its punctuation count as the word alone
                for at, part in enumerate(parts, place):
                    token = names[row] if several else words[at]
                    sums[written[at]][token] += part
        first = dict(zip(reversed(written), reversed(self.spans), strict=True))
        strongest = {
            word: max(tokens, key=lambda name: abs(tokens[name]))
            for word, tokens in sums.items()
        }
        return {
            (first[word].start, first[word].end): self.as_written[name]
            for word, name in strongest.items()
            if name != first[word].word
        }

    def by_sentence(self, *, even: bool = True) -> list[Part]:
        """Return the sentences in their order, then `columns`, with their parts of the
        logit.
        """
        return [
            *attribution.split_parts(self, attribution.SENTENCE, even=even),
            *self.columns,
        ]

    def by_phrase(
        self, phrases: Iterable[str] | None = None, *, even: bool = True
    ) -> list[Part]:
        """Return phrases of the text with all their offsets and their parts of the
        logit.

        By default these are the parts between punctuation, then `columns`: they and the
        bias sum to the logit.
        """
        if phrases is None:
            return [
                *attribution.split_parts(self, attribution.CLAUSE, even=even),
                *self.columns,
            ]
        return attribution.find_phrases(self, phrases, even=even)

    @cached_property
    def as_written(self) -> dict[str, str]:
        """Return each of `words` as written in the text, such as "wonderful. I"; a
        column with its value.

        A lemma that is written differently in several places is shown as "best / good".
        """
        text, found = self.text, defaultdict[str, dict[str, str]](dict)
        for size, places, rows, _ in self.occurrences:
            for place, name in zip(
                places.tolist(), self.words[rows].tolist(), strict=True
            ):
                ngram = self.spans[place : place + size]
                form = " ".join(map(self._written_word, ngram))
                if form in found[name]:
                    continue
                written = (
                    text[ngram[0].start : ngram[-1].end]
                    if all(span.end > span.start for span in ngram)
                    else name
                )
                found[name][form] = " ".join(written.split()) or name
        for each in self.model.columns.every:
            value = text.values.get(each.name) if isinstance(text, RowText) else None
            shown = (
                "none"
                if is_missing(value)
                else f"{value:.6g}"
                if isinstance(value, float)
                else str(value).strip()
            )
            column = f"({each.name})"
            found[column] = {column: f"{each.name} = {shown}"}
        return {
            name: " / ".join(found[name].values()) if name in found else name
            for name in self.words.tolist()
        }

    def leading(self) -> list[Leading]:
        """Return each leader, the number of heads in which it leads, and its mean share
        and followers in these.
        """
        found = defaultdict(list)
        for leader in chain.from_iterable(self.leaders):
            found[leader.word].append((leader.share, len(leader.followers)))
        rows = [
            Leading(word, len(seen), *np.mean(seen, axis=0).tolist())
            for word, seen in found.items()
        ]
        return sorted(rows, key=lambda row: (-row.heads, -row.share))

    def minimal_flip(self, *, progress: Progress | None = None) -> Flip:
        """Find words without which the prediction is another, greedily, each step
        checked with the model.

        If `needed`, with any one of them restored the prediction is the first again. A
        smaller set may exist. An encoder reads at most 100 changed texts; of vectors in
        place of a text, rows are left out. `progress` is called before each step.
        """
        return attribution.minimal_flip(
            self, partial(explain, self.model), progress or (lambda done, total: None)
        )

    def counterfactual(self, text: "str | Explanation") -> Comparison:
        """Compare with another text, token by token. A string has the same values of
        `columns`.
        """
        other = (
            explain(self.model, replace_text(self.text, text))
            if isinstance(text, str)
            else text
        )
        if other.model is not self.model:
            raise ParameterError(
                "text",
                "be a text, or explained by the same model",
                "one of another model",
            )
        return Comparison(self, other)

    @cached_property
    def followers(self) -> HeadDynamics:
        """Return the argmax sets of every layer and head of the n-grams."""
        return HeadDynamics.run(
            self.model.weights,
            self.ids[None, self._known],
            self.counts[None, self._known],
        )

    @property
    def _known(self) -> IntArray:
        """Return the index of every token of the vocabulary; other words come last, if
        any.
        """
        return np.flatnonzero(self.ids < len(self.model.vocabulary))

    @cached_property
    def leaders(self) -> tuple[tuple[LeadingWord, ...], ...]:
        """Return the leaders of each head, the one with the largest share of the mean
        after the last layer first.

        Each has a `word`, `since`, the layer at which it first followed only itself,
        its `share`, and `followers`, the other tokens that follow it after the last
        layer.
        """
        found: list[list[LeadingWord]] = [[] for _ in range(self.heads)]
        if self.reading is not None and self.model.gathers_vectors:  # heads on a line
            words, positions = (
                self.words[self.read_rows].tolist(),
                self.reading.positions,
            )
            leads = find_leaders(positions)[0]
            for j, h in np.argwhere(leads).tolist():
                behind = np.flatnonzero(
                    (positions[:, h] * positions[j, h] > 0) & ~leads[:, h]
                )
                names = tuple(words[i] for i in behind)
                found[h].append(
                    LeadingWord(words[j], 0, names, float(self.reading.shares[j, h]))
                )
        elif len(self._known):
            words, record = (
                self.words[self._known].tolist(),
                self.followers.find_leaders(),
            )
            for h, i in np.argwhere(record.emerged[0] >= 0).tolist():
                names = tuple(
                    words[j]
                    for j in np.flatnonzero(record.follows[0, h] == i)
                    if j != i
                )
                share = float(self.shares[h, self._known[i]])
                found[h].append(
                    LeadingWord(words[i], int(record.emerged[0, h, i]), names, share)
                )
        return tuple(
            tuple(sorted(leaders, key=lambda leader: -leader.share))
            for leaders in found
        )

    @cached_property
    def shares(self) -> FloatArray:
        """Return (heads, n) shares of each head's mean that the tokens hold after the
        last layer; rows sum to 1.
        """
        found = np.zeros((self.heads, len(self.ids)))
        if self.reading is not None and self.model.gathers_vectors:
            np.add.at(found.T, self.read_rows, self.reading.shares)
        elif len(known := self._known):
            found[:, known] = self.followers.shares()[0]
        return found

    @cached_property
    def spans(self) -> list[Word]:
        """Return the words of the text with their offsets."""
        return self.model.vocabulary.splitter.spans(self.text)

    @cached_property
    def occurrences(self) -> list[tuple[int, IntArray, IntArray, IntArray]]:
        """Return for each n the indices of n-grams in `spans` and in `words`, and how
        often each occurs.
        """
        found = []
        for size, places, tokens in self.model.vocabulary.occurrences(
            [span.word for span in self.spans]
        ):
            rows = self._find_rows(tokens)
            found.append(
                (size, places, rows, np.bincount(rows, minlength=len(self.ids))[rows])
            )
        return found

    @cached_property
    def read_rows(self) -> IntArray:
        """Return the index in `words` of every word with a vector."""
        read = (
            []
            if self.reading is None
            else [self.spans[i].word for i in self.reading.rows.tolist()]
        )
        return self._find_rows(self.model.word_ids(read))

    def _find_rows(self, tokens: IntArray) -> IntArray:
        order = np.argsort(self.ids)
        return np.asarray(order[np.searchsorted(self.ids, tokens, sorter=order)])

    @property
    def heads(self) -> int:
        """Return the number of heads; with an encoder those that read its vectors."""
        return self.model.heads

    @property
    def rows(self) -> IntArray:
        """Return the index in `words` of every token of `trajectory`; a word that
        counts k times is there k times.
        """
        return (
            self.read_rows
            if self.model.gathers_vectors
            else np.repeat(self._known, self.counts[self._known])
        )

    @cached_property
    def trajectory(self) -> tuple[HardmaxTrajectory, ...]:
        """Return the `HardmaxTrajectory` of each head; the words of its tokens are
        `words[rows]`.
        """
        if not self.known:
            raise InputError(
                "A trajectory must have tokens. Got a text without a known word."
            )
        weights, known = self.model.weights, self._known
        if (
            self.model.context is not None
            and self.reading is not None
            and self.model.gathers_vectors
        ):
            return tuple(
                self.model.context.simulate_head(self.reading, h)
                for h in range(self.heads)
            )
        return tuple(
            simulate_head(weights, self.ids[known], self.counts[known], h)
            for h in range(weights.heads)
        )

    def leave_one_out(self) -> FloatArray:
        """Return the (n,) or (n, classes) decreases of the logit when a token is left
        out, by n predictions.
        """
        if self.reading is not None:
            advice = (
                "Use `minimal_flip` or `counterfactual`, which run the encoder again."
            )
            raise InputError(
                "`leave_one_out` must be used with a model without an encoder."
                f" {advice}"
            )
        known, change = (
            self._known,
            self.terms.copy(),
        )  # those of columns do not depend on the words
        kept = ~np.eye(len(known), dtype=bool)
        without = Encoded(
            np.broadcast_to(self.ids[known], kept.shape)[kept],
            np.arange(len(known) + 1) * (len(known) - 1),
            np.broadcast_to(self.counts[known], kept.shape)[kept],
        )
        whole = self.logits - np.delete(self.terms, known, axis=0).sum(axis=0)
        change[known] = whole - logits(self.model.weights, without)
        return change[:, 0] if len(self.logits) == 1 else change

    def to_json(self) -> str:
        """Return everything but the trajectories as JSON."""
        document = {
            "text": self.text,
            "prediction": self.prediction.item(),
            "probability": self.probability,
            "classes": self.classes,
            "logit": self.logit,
            "bias": self.bias,
            "words": self.words,
            "contributions": self.contributions,
            "columns": [[part.text, part.value] for part in self.columns],
            "leaders": [
                [asdict(leader) for leader in leaders] for leaders in self.leaders
            ],
        }
        return to_json("hardmax-explanation-1", document)

    def to_frame(self) -> "DataFrame":
        """Return a pandas DataFrame with a row for each of `words`: contribution, count
        and largest share of a head.
        """
        with needed_for("`Explanation.to_frame`", "pandas", "text"):
            import pandas
        names = (
            ["contribution"]
            if len(self.logits) == 1
            else [str(name) for name in self.classes.tolist()]
        )
        columns = {
            "word": self.words,
            **dict(zip(names, self.terms.T, strict=True)),
            "count": self.counts,
        }
        return pandas.DataFrame(
            columns | {"largest_share": self.shares.max(axis=0, initial=0)}
        )

    def to_html(self, path: str | PathLike[str] | None = None) -> Page:
        """Return a page with the highlighted text, the largest terms and the leaders;
        write it to `path` if given.
        """
        page = render(
            "explanation",
            title="Explanation of a prediction",
            explanation=view_explanation(self),
        )
        if path is not None:
            save_text(page, path)
        return Page(page)

    def show(self) -> Any:
        """Show a notebook widget in which words can be removed and replaced, and the
        prediction follows.
        """
        return draw("explanation_widget", self)

    def plot(self, *, kind: str = "auto", ax: "Axes | None" = None) -> "Figure":
        """Draw the contributions (kind="words"), or the tokens of a head with d = 2 and
        the decision line ("plane").

        "auto" is "plane" for one head with d = 2, else "words". Return the Matplotlib
        figure.
        """
        return plot_explanation(self, kind=kind, ax=ax)

    def movie(
        self, path: str | PathLike[str] | None = None, *, head: int = 0, **options: Any
    ) -> "Movie":
        """Make a movie of a head with d = 2 and the decision line; .gif or .mp4."""
        return explanation_movie(self, path, head=head, **options)


def explain(model: Model, text: str) -> Explanation:
    """Explain the prediction of a model for one text."""
    if not isinstance(text, str):
        raise ParameterError(
            "text",
            "be a string",
            type(text).__name__,
            "For several texts use explain_many.",
        )
    return explain_many(model, [text])[0]


def explain_many(
    model: Model, texts: Sequence[str], label: Any = None
) -> list[Explanation]:
    """Explain the predictions of a model for many texts; of several labels per text
    `label`, or the most probable.
    """
    names = model.classes.tolist() if model.multilabel else []
    if label is not None and label not in names:
        must = (
            f"be one of {join_names(list(map(str, names)))}"
            if names
            else "be left out: texts have one label"
        )
        raise ParameterError(
            "label", must, repr(label), did_you_mean(str(label), list(map(str, names)))
        )
    only = None if label is None else [names.index(label)]
    return [
        next(iter(found.explanations.values()))
        for found in explain_labels(model, texts, only, every=False)
    ]


class Explained(NamedTuple):
    """The explanations of one text by label; with one label per text there is one,
    under None.
    """

    logits: FloatArray  # (outputs,)
    known: int  # number of known words
    explanations: dict[Any, Explanation]


def explain_labels(
    model: Model,
    texts: Sequence[str],
    labels: Sequence[int] | None = None,
    *,
    every: bool = True,
) -> list[Explained]:
    """Explain predictions for many texts; of several labels per text those with the
    indices `labels`.

    The default is `every` predicted label, or the most probable one if there are none.
    """
    found = []
    for some, (ids, starts, counts), terms, scores, readings in model.explain_parts(
        texts
    ):
        own: Sequence[Reading | None] = readings or [None] * len(some)
        for text, (a, b), score, reading in zip(
            some, pairwise(starts.tolist()), scores, own, strict=True
        ):
            tokens, values, parts = (
                (ids[a:b], counts[a:b]),
                terms[a:b],
                dict[Any, Explanation](),
            )
            if not model.multilabel:
                parts[None] = Explanation(text, *tokens, values, score, model, reading)
            else:
                order = np.argsort(
                    -model.remove_offset(score[None])[0], kind="stable"
                ).tolist()
                predicted = [k for k in order if score[k] > 0] if every else []
                for k in labels or predicted or order[:1]:
                    one, part, label = slice(k, k + 1), reading, model.classes[k].item()
                    if reading is not None and model.context is not None:
                        part = reading.of(k, model.context.heads_of(k))
                    parts[label] = Explanation(
                        text,
                        *tokens,
                        values[:, one],
                        score[one],
                        model.by_label[k],
                        part,
                    )
            found.append(Explained(score, int((ids[a:b] < model.words).sum()), parts))
    return found
