"""`HardmaxTopics`: texts in, topics out. It embeds, clusters, counts words, and stores."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from hardmax._display import progress_bar
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax._validation import check_count, check_positive
from hardmax.cluster import topic_output
from hardmax.cluster.clustering import HardmaxClustering
from hardmax.cluster.telling import telling_words
from hardmax.cluster.topic import Standing, Topic
from hardmax.cluster.topic_input import check_texts, check_vectors, said
from hardmax.text.tokenizer import Splitter
from hardmax.transformers.sentences import embed as embedded

if TYPE_CHECKING:
    from pandas import DataFrame

    from hardmax.draw.shown import Page


class HardmaxTopics(ClusterMixin, BaseEstimator):
    """Topics of texts: each is led by one of its texts, and told from the others by words.

    Texts become vectors, `HardmaxClustering(metric="cosine")` gathers them around leaders, and words are scored by how
    much better they tell a topic from all other texts than chance would (`TellingWord`; the formula is in the docs).
    Nothing is drawn by chance, and the order of the texts does not matter. No list of stop words is needed, in no
    language. An empty or missing text has no topic: its label is -1.

    Use it to read a collection of comments, tickets or abstracts by its leaders. Texts with several topics get one;
    where each text is a mixture, use latent Dirichlet allocation. Fewer than about 50 texts have few neighbours: lower
    `n_neighbors` to a little less than the texts of the smallest topic.

    Parameters
    ----------
    n_topics : int, optional
        How many to look for. By default as many as the density of the vectors has peaks beyond chance, which may be
        one.
    embed : str, path, pair or callable
        How texts become vectors: "minilm", or another model as for `hardmax.transformers.embed`; or a function from a
        list of texts to an array with a row for each.
    noise : float, optional
        Label -1 for texts that belong nowhere: around them it is so many times emptier than where the densest quarter
        of their topic is. 20 is a good start.
    n_neighbors : int
        How many nearest texts each is joined with.
    n_words, n_exemplars : int
        How many words and texts a `Topic` names at most.
    tokenizer : callable, optional
        What splits a text into words, for languages that are written without spaces: a function from a text to a list.
    verbose : bool or int
        Show how many texts are embedded.

    Attributes
    ----------
    topics_ : list of Topic
        By size, the largest first.
    labels_ : (n,) array
        Number of each text's topic, -1 for none.
    strengths_ : (n,) array
        How sure each label is, from 0 to 1, as of `HardmaxClustering`; 0 where there is none.
    leaders_ : (topics,) array
        Which text leads each topic.
    clustering_ : HardmaxClustering
        Of the texts that say something, in their order; it numbers its clusters by the places of their leaders.
    texts_, vectors_ : list of str, (n, d) array
        What was fitted; zeros for empty texts that were embedded here.

    Raises
    ------
    ParameterError
        From `fit`, if a setting has no meaning, all texts are empty, or vectors do not fit them.
    MissingExtra
        If scikit-learn, or what embeds texts, is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from hardmax import HardmaxTopics
    >>> texts = [f"{taste} {fruit}" for fruit in ("apple", "pear") for taste in ("sweet", "sour", "ripe", "green")]
    >>> ends = [[4 * ("apple" in text), 4 * ("pear" in text), len(text) / 10] for text in texts]
    >>> topics = HardmaxTopics(2, n_neighbors=3).fit(texts, vectors=ends)  # or without vectors, by MiniLM
    >>> topics
    2 topics of 8 texts; apple (4), pear (4).
    >>> topics.topics_[0].words[0]
    TellingWord(word='apple', score=3.3302...)
    """

    def __init__(
        self,
        n_topics: int | None = None,
        *,
        embed: str | PathLike[str] | tuple[Any, Any] | Callable[[list[str]], Any] = "minilm",
        noise: float | None = None,
        n_neighbors: int = 10,
        n_words: int = 8,
        n_exemplars: int = 5,
        tokenizer: Callable[[str], list[str]] | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_topics = n_topics
        self.embed = embed
        self.noise = noise
        self.n_neighbors = n_neighbors
        self.n_words = n_words
        self.n_exemplars = n_exemplars
        self.tokenizer = tokenizer
        self.verbose = verbose

    def fit(self, texts: Sequence[str], vectors: Any = None) -> "HardmaxTopics":
        """Find the topics of texts.

        Parameters
        ----------
        texts : sequence of str
        vectors : (n, d) array, optional
            Their vectors, where you have them already; by default `embed` makes them.

        Returns
        -------
        HardmaxTopics
            Itself.

        Raises
        ------
        ParameterError
            If a setting has no meaning, all texts are empty, or `vectors` do not fit them.
        """
        splitter = self.check_settings()
        texts = check_texts(texts)
        self._given = vectors is not None
        rows = self._embedded(texts) if vectors is None else check_vectors(vectors, len(texts))
        kept = np.flatnonzero(said(texts, rows))
        if not len(kept):
            got = f"{len(texts)}, all empty" if texts else "none"
            raise ParameterError("texts", "hold a text that is not empty", got, "Check the column of texts.")
        how: dict[str, Any] = {"metric": "cosine", "noise": self.noise, "n_neighbors": self.n_neighbors}
        clustering = HardmaxClustering(self.n_topics, **how).fit(rows[kept])
        self.texts_, self.vectors_, self.clustering_ = texts, rows, clustering
        self._number([texts[i] for i in kept], kept, splitter)
        return self

    def fit_predict(self, texts: Sequence[str], vectors: Any = None) -> IntArray:
        """Find the topics of texts, and return `labels_`."""
        return self.fit(texts, vectors).labels_

    def predict(self, texts: Sequence[str], vectors: Any = None) -> IntArray:
        """Topics of texts, new or not: a new one follows the fitted ones, and none follows it.

        A text that was fitted has the topic that it had. An empty one has none, -1.

        Parameters
        ----------
        texts : sequence of str
        vectors : (n, d) array, optional
            Their vectors, needed for new texts where `fit` was given some.

        Returns
        -------
        (texts,) array of int
            Number of each text's topic, -1 for none.

        Raises
        ------
        ParameterError
            If `vectors` are missing where `fit` was given some, or do not fit.
        """
        check_is_fitted(self, "topics_")
        texts = check_texts(texts)
        known = dict(zip(reversed(self.texts_), self.labels_[::-1].tolist(), strict=True))  # the first of equal ones
        labels = np.array([known.get(text, -1) for text in texts], np.intp)
        new = [i for i, text in enumerate(texts) if text not in known and text.strip()]
        if not new:
            return labels
        if vectors is None and self._given:
            raise ParameterError("vectors", "be given for new texts, as to `fit`", "none", "Pass a row for each text.")
        some = [texts[i] for i in new]
        rows = self._embedded(some) if vectors is None else check_vectors(vectors, len(texts))[new]
        if rows.shape[1] != self.vectors_.shape[1]:
            must = f"have {self.vectors_.shape[1]} coordinates, as those that were fitted"
            raise ParameterError("vectors", must, rows.shape[1], "Make them in the same way.")
        told = said(some, rows)
        if told.any():
            found = self.clustering_.predict(rows[told])
            labels[np.array(new)[told]] = np.where(found < 0, -1, self._numbers[found])
        return labels

    def check_settings(self) -> Splitter:
        """Refuse what has no meaning, as `fit` does first; returns what splits texts into words."""
        counts = {"n_neighbors": 1, "n_words": 0, "n_exemplars": 1} | ({} if self.n_topics is None else {"n_topics": 1})
        for name, least in counts.items():
            check_count(getattr(self, name), name, least=least)
        if self.noise is not None and check_positive(self.noise, "noise", "20 is a good start.") <= 1:
            raise ParameterError("noise", "be larger than 1", self.noise, "20 is a good start.")
        return Splitter(punctuation=False, tokenizer=self.tokenizer)

    def _embedded(self, texts: list[str]) -> AnyArray:
        """(n, d) vectors, made of distinct texts in the order of the alphabet, so that theirs does not matter."""
        if not callable(self.embed):
            try:
                with progress_bar("Embedding") if self.verbose else nullcontext() as progress:
                    return embedded(texts, self.embed, progress=progress)
            except ParameterError as problem:
                if problem.names != ("model",):
                    raise
                raise ParameterError("embed", problem.must, problem.got, problem.advice) from None
        distinct = sorted({text for text in texts if text.strip()})
        if not distinct:
            return np.zeros((len(texts), 1), np.float32)
        rows = check_vectors(self.embed(distinct), len(distinct), name="embed")
        place = {text: i for i, text in enumerate(distinct)}
        return np.vstack([rows, np.zeros_like(rows[:1])])[[place.get(text, -1) for text in texts]]

    def _number(self, some: list[str], kept: IntArray, splitter: Splitter) -> None:
        """Number the clusters of `some` texts, which are those at the places `kept`, by size, and describe each."""
        clustering = self.clustering_
        tokens, labels = clustering._model.layers.keys[0], clustering.labels_
        stand = Standing.of(tokens, clustering.leaders_, labels, some, int(self.n_exemplars)).rows
        sizes = np.bincount(labels[labels >= 0], minlength=len(stand))
        order = sorted(range(len(stand)), key=lambda c: (-sizes[c], some[stand[c][0]]))
        self._numbers = np.argsort(order)
        numbers = np.where(labels < 0, -1, self._numbers[labels])
        self.labels_, self.strengths_ = np.full(len(self.texts_), -1, np.intp), np.zeros(len(self.texts_))
        self.labels_[kept], self.strengths_[kept] = numbers, clustering.strengths_
        self.leaders_ = kept[[stand[c][0] for c in order]]
        words = telling_words(some, numbers, len(stand), splitter, int(self.n_words))
        self.topics_ = [
            Topic(
                number=k,
                size=int(sizes[c]),
                leader=some[stand[c][0]],
                exemplars=tuple(dict.fromkeys(some[i] for i in stand[c])),
                words=words[k],
                strength=_mean(self.strengths_[self.labels_ == k]),
            )
            for k, c in enumerate(order)
        ]

    def to_frame(self, of: str = "texts") -> "DataFrame":
        """A pandas DataFrame with a row for each text, or with `of="topics"` one for each topic."""
        check_is_fitted(self, "topics_")
        return topic_output.frame(self, of)

    def to_json(self) -> str:
        """Topics, labels and strengths as JSON."""
        check_is_fitted(self, "topics_")
        return topic_output.as_json(self)

    def to_html(self, title: str = "Topics") -> "Page":
        """A page that needs no network: a map of the texts, and each topic with its words, leader and exemplars."""
        check_is_fitted(self, "topics_")
        return topic_output.page(self, title)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page (.html), everything (.json) or a row for each text (.csv, .jsonl, .parquet, .xlsx)."""
        check_is_fitted(self, "topics_")
        topic_output.save(self, path)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return topic_output.sentence(self) if hasattr(self, "topics_") else super().__repr__(N_CHAR_MAX)

    def _repr_mimebundle_(self, **more: Any) -> dict[str, str]:
        if not hasattr(self, "topics_"):
            return super()._repr_mimebundle_(**more)
        return {"text/plain": repr(self), "text/html": topic_output.card(self)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags


def _mean(strengths: FloatArray) -> float:
    """The same in whatever order they come."""
    return round(float(np.sort(strengths).mean()), 12) if len(strengths) else 0.0
