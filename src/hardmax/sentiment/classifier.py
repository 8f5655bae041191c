"""`HardmaxClassifier`: the scikit-learn estimator. It validates, calls, stores."""

from collections.abc import Callable, Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from hardmax._errors import ParameterError
from hardmax.sentiment.explanation import Explanation, explain, explain_many
from hardmax.sentiment.fitting import Design, enough_epochs, fit_model
from hardmax.sentiment.inputs import check_labels, check_params, check_texts
from hardmax.sentiment.recipe import Recipe
from hardmax.sentiment.statistics import LeaderStatistics, leader_statistics
from hardmax.sentiment.storage import load_model, save_model
from hardmax.sentiment.text import Splitter


class HardmaxClassifier(ClassifierMixin, BaseEstimator):
    """Classify texts by the words that others gather around, and explain every answer exactly.

    A text's tokens, words and pairs of neighbouring words, are embedded in several heads. In each head they follow the
    token with the largest projection, layer after layer: z_i <- z_i + b (mean of C_i - z_i) with
    C_i = argmax_j ⟨A z_i, z_j⟩ and b = alpha / (1 + alpha). The logit is linear in their mean, so it is a sum over
    tokens, and `explain` shows its terms.

    Use it for short and long texts alike where each answer must be explained. For a one-line baseline without training
    parameters, TF-IDF with logistic regression is about as accurate on small files.

    Parameters
    ----------
    heads : int
        Independent hardmax models whose logits add.
    d : int
        Coordinates of a head. With 1 head of d = 2 the dynamics can be drawn.
    layers : int
        K, how many times tokens move.
    groups : int
        Heads are dealt out to so many groups. Each learns from its own random half of the tokens, and the answer is
        their mean: several small classifiers in one.
    alpha : float
        The alpha that training starts from; each head learns its own, positive.
    trained_A : bool
        Learn A = LL^T for each head instead of the identity. Hardmax gives A no gradient, so it needs
        training="softmax". (With y = L^T z it is a model with A = I again, so it can do no more.)
    longest : int
        Longest run of words that is a token: 1 for words alone, 2 for pairs as well, 3 for triples.
    distinct : bool
        Whether a token that occurs several times in a text counts once, which is also what the theorems ask for.
    min_texts : int
        Tokens in fewer texts are not learned.
    max_tokens : int or None
        Size of the vocabulary. A tenth of it is for the most frequent words.
    select : {"telling", "frequent"}
        Which tokens fill it: those whose frequency differs most between classes, |log ratio| sqrt(texts), or the most
        frequent ones.
    max_words : int or None
        Read this many words of each text; None reads all.
    punctuation : bool
        Whether signs such as ! and , are words.
    stop_words : "english", collection of str, or None
        Words to leave out.
    lemmas : str or None
        Language of lemmas, such as "en"; None leaves words as they are.
    training : {"hardmax", "softmax"}
        What training differentiates: hardmax itself, or softmax attention at a low temperature as in the paper.
        Inference is always hardmax.
    temperature : float
        Of training="softmax".
    epochs : int or None
        Passes over the texts. None takes 5, or more where the file is small.
    batch_size, learning_rate, alpha_rate, weight_decay
        Of AdamW with one cycle of learning rates. That of the embedding is divided by the coordinates of a group,
        heads * d / groups; that of alpha is not.
    dropout, embedding_dropout, label_smoothing : float
        The part of a text's tokens that a group does not see in a step; of the embedding's numbers that are 0; how far
        labels are moved towards each other.
    scale : float
        Standard deviation of the embedding at the start, times the coordinates of a group.
    validation : float
        Part of the texts that is held back, to see how training goes. Training ends with the last epoch, unless an
        earlier one was better on these texts by more than a standard error.
    patience : int or None
        Stop after so many epochs without a better one, and keep the best; None runs all.
    class_weight : "balanced" or None
        Whether rare classes weigh as much as frequent ones.
    random_state : int
        The same number gives the same model on the same machine.
    device : str
        "cpu", "cuda", or "auto" for a GPU where there is one.
    checkpoint : path or None
        File to keep the state of training in, after each epoch.
    resume : bool
        Go on from `checkpoint` where it exists; the result is that of an undisturbed run.
    verbose : bool
        Show a progress bar with loss and accuracy.

    Attributes
    ----------
    classes_ : array
        Labels in order; with two the logit is positive for the second.
    model_ : Model
        Vocabulary and weights.
    history_ : list of Epoch
        Losses and validation accuracy of each epoch.
    n_iter_ : int
        How many epochs were run.

    Examples
    --------
    >>> from hardmax import HardmaxClassifier
    >>> from hardmax.sentiment.corpus import reviews
    >>> corpus = reviews(600, seed=1)
    >>> classifier = HardmaxClassifier(heads=4, groups=2, epochs=20).fit(corpus.texts, corpus.labels)
    >>> classifier.predict(["a wonderful film", "a dreadful film"]).tolist()
    ['positive', 'negative']
    >>> explanation = classifier.explain("a wonderful film")
    >>> bool(abs(explanation.bias + explanation.contributions.sum() - explanation.logit) < 1e-12)
    True
    """

    def __init__(
        self,
        *,
        heads: int = 32,
        d: int = 2,
        layers: int = 2,
        groups: int = 4,
        alpha: float = 1.0,
        trained_A: bool = False,
        longest: int = 3,
        distinct: bool = True,
        min_texts: int = 3,
        max_tokens: int | None = 100_000,
        select: str = "telling",
        max_words: int | None = None,
        punctuation: bool = True,
        stop_words: str | Collection[str] | None = None,
        lemmas: str | None = None,
        training: str = "hardmax",
        temperature: float = 1e-3,
        epochs: int | None = None,
        batch_size: int = 64,
        learning_rate: float = 0.3,
        alpha_rate: float = 0.01,
        weight_decay: float = 0.05,
        dropout: float = 0.5,
        embedding_dropout: float = 0.0,
        label_smoothing: float = 0.0,
        scale: float = 6.4,
        validation: float = 0.1,
        patience: int | None = None,
        class_weight: str | None = None,
        random_state: int = 0,
        device: str = "auto",
        checkpoint: str | PathLike[str] | None = None,
        resume: bool = False,
        verbose: bool = False,
    ) -> None:
        self.heads = heads
        self.d = d
        self.layers = layers
        self.groups = groups
        self.alpha = alpha
        self.trained_A = trained_A
        self.longest = longest
        self.distinct = distinct
        self.min_texts = min_texts
        self.max_tokens = max_tokens
        self.select = select
        self.max_words = max_words
        self.punctuation = punctuation
        self.stop_words = stop_words
        self.lemmas = lemmas
        self.training = training
        self.temperature = temperature
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.alpha_rate = alpha_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.embedding_dropout = embedding_dropout
        self.label_smoothing = label_smoothing
        self.scale = scale
        self.validation = validation
        self.patience = patience
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.checkpoint = checkpoint
        self.resume = resume
        self.verbose = verbose

    @classmethod
    def paper(cls, d: int = 2, **changes: Any) -> "HardmaxClassifier":
        """The model of arXiv 2407.01602: one head, 8 layers, A = I, the first 128 words without stop words, as lemmas.

        Unlike the paper's code it masks padding and keeps alpha positive. It starts from a small alpha: that is most
        accurate, but words gather slowly. For pictures take alpha=1.

        Examples
        --------
        >>> HardmaxClassifier.paper(d=4).get_params()["layers"]
        8
        """
        chosen: dict[str, Any] = {
            "heads": 1,
            "groups": 1,
            "layers": 8,
            "longest": 1,
            "distinct": False,
            "min_texts": 2,
            "max_tokens": None,
            "max_words": 128,
            "punctuation": False,
            "stop_words": "english",
            "lemmas": "en",
            "alpha": 0.02,
            "alpha_rate": 0.001,
            "batch_size": 128,
            "learning_rate": 2.4,
            "scale": 38.4,
            "weight_decay": 0.0,
            "dropout": 0.6,
            "embedding_dropout": 0.6 if d >= 8 else 0.0,  # with few coordinates it would make whole tokens 0
        }
        return cls(d=d, **(chosen | changes))

    def fit(
        self, X: Sequence[str], y: Sequence[Any], *, report: Callable[..., None] | None = None
    ) -> "HardmaxClassifier":
        """Train on texts and their labels.

        Parameters
        ----------
        X : sequence of str
        y : sequence of labels
        report : callable, optional
            Called after each step with steps done, steps in all, the loss, and after an epoch its `Epoch`, else None.
        """
        texts = check_texts(X)
        labels = check_labels(y, len(texts))
        check_classification_targets(labels)
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ParameterError(
                "y",
                "hold at least two classes",
                f"only {classes.tolist()} in {len(labels)} texts: 1 class",
                "Check the column of labels.",
            )
        self.check_params()
        with self._shown(report) as told:
            self.model_, self.history_ = fit_model(
                texts,
                numbers,
                classes,
                *self.plan(len(texts)),
                device=self.device,
                checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
                resume=self.resume,
                report=told,
            )
        self.classes_ = classes
        self.n_iter_ = len(self.history_)
        return self

    def decision_function(self, X: Sequence[str]) -> Any:
        """Logits: (texts,) for two classes, positive for the second; else (texts, classes)."""
        check_is_fitted(self)
        scores = self.model_.logits(check_texts(X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Sequence[str]) -> Any:
        """(texts,) labels."""
        check_is_fitted(self)
        return self.model_.decide(self.model_.logits(check_texts(X)))

    def predict_proba(self, X: Sequence[str]) -> Any:
        """(texts, classes) probabilities, in the order of `classes_`."""
        check_is_fitted(self)
        return self.model_.probabilities(self.model_.logits(check_texts(X)))

    def explain(self, text: str) -> Explanation:
        """What each word of a text adds to its logit, and who leads; see `Explanation`."""
        check_is_fitted(self)
        return explain(self.model_, text)

    def explain_many(self, X: Sequence[str]) -> list[Explanation]:
        """As `explain` for many texts, at a few hundred microseconds each."""
        check_is_fitted(self)
        return explain_many(self.model_, check_texts(X))

    def leaders(self, X: Sequence[str]) -> LeaderStatistics:
        """Who leads in a collection of texts, and how many leaders they have; see `LeaderStatistics`."""
        check_is_fitted(self)
        return leader_statistics(self.model_, check_texts(X))

    def save(self, path: str | PathLike[str], *, compact: bool = False) -> None:
        """Write a folder with JSON and safetensors that `load` reads; nothing in it can run.

        With `compact` the embedding is rounded to a byte a number, a quarter of the size: the loaded classifier is then
        a slightly different one, and its explanations are exact for that one.
        """
        check_is_fitted(self)
        params = self.get_params(deep=False)
        save_model(self.model_, Path(path), params=params, history=self.history_, grid=compact)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "HardmaxClassifier":
        """Read what `save` wrote."""
        model, params, history = load_model(Path(path))
        known = cls().get_params(deep=False)
        classifier = cls(**{name: value for name, value in params.items() if name in known})
        classifier.model_, classifier.history_ = model, history
        classifier.classes_, classifier.n_iter_ = model.classes, len(history)
        return classifier

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.non_deterministic = False
        return tags

    def plan(self, texts: int) -> tuple[Design, Recipe, Splitter]:
        """The model, how it is trained on so many texts, and how they are split into words, as plain objects."""
        splitter = Splitter(self.stop_words, self.lemmas, self.max_words, self.punctuation)
        return self._design(), self._recipe(texts), splitter

    def _shown(self, report: Callable[..., None] | None) -> Any:
        from hardmax.sentiment.progress import shown

        return shown(report, bar=self.verbose)

    def _design(self) -> Design:
        return Design(
            heads=self.heads,
            d=self.d,
            layers=self.layers,
            groups=self.groups,
            alpha=self.alpha,
            scale=self.scale,
            trained_A=self.trained_A,
            longest=self.longest,
            distinct=self.distinct,
            min_texts=self.min_texts,
            max_tokens=self.max_tokens,
            select=self.select,
            validation=self.validation,
            balanced=self.class_weight == "balanced",
        )

    def _recipe(self, texts: int) -> Recipe:
        return Recipe(
            epochs=enough_epochs(texts, self.batch_size) if self.epochs is None else self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            alpha_rate=self.alpha_rate,
            weight_decay=self.weight_decay,
            dropout=self.dropout,
            embedding_dropout=self.embedding_dropout,
            label_smoothing=self.label_smoothing,
            patience=self.patience,
            attention=self.training,
            temperature=self.temperature,
            seed=self.random_state,
        )

    def check_params(self) -> None:
        """Refuse what cannot be trained, in a sentence."""
        check_params(dict(vars(self)))  # a subclass may have fewer parameters of its own
