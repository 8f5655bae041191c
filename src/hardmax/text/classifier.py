"""`HardmaxClassifier`: the scikit-learn estimator. It validates its input, fits a
model, and stores it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from inspect import cleandoc
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from hardmax._display import progress_bar
from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._types import AnyArray, FloatArray
from hardmax.text.card import TRAINED_ON, Record, notebook_card
from hardmax.text.explanation import Explanation, explain_labels, explain_many
from hardmax.text.linear_init import fit_linear_model, uses_linear_start
from hardmax.text.model import (
    Epoch,
    Model,
    Report,
    answer_columns,
    coverage,
    is_confident,
)
from hardmax.text.parameters import Parameters, describe_parameters
from hardmax.text.statistics import LeaderStatistics, leader_statistics, token_table
from hardmax.text.storage import find_model, load_model, save_model
from hardmax.text.tokenizer import Tokenizer
from hardmax.text.validation import (
    check_known_labels,
    check_known_sets,
    check_labels,
    check_texts,
    check_training_set,
    strip_labels,
)

if TYPE_CHECKING:
    from pandas import DataFrame

STRONGEST = 3  # words of an answer


@dataclass(
    kw_only=True, eq=False, repr=False
)  # its __init__ stores every parameter unchanged, as estimators must
class HardmaxClassifier(ClassifierMixin, BaseEstimator, Parameters):
    """Classify texts by the words that others gather around, and explain every
    prediction exactly.

    A text's tokens, words and n-grams, are embedded in several heads. In each head they
    follow the token with the largest projection, layer after layer: z_i <- z_i + b
    (mean of C_i - z_i) with C_i = argmax_j ⟨A z_i, z_j⟩ and b = alpha / (1 + alpha).
    The logit is linear in their mean, so it is a sum over tokens, and `explain` returns
    its terms.

    With few labelled texts, up to some thousands, `encoder="minilm"` is more accurate:
    words then have vectors of a pretrained transformer, and the logit is a sum over
    words, too.

    Use it for short and long texts where each prediction must be explained. Small files
    and short texts take seconds, as the initial weights come from a linear model of the
    same tokens.

    Every parameter is a field of `hardmax.text.parameters.Parameters`, with default,
    bounds and description.

    Methods take texts `X`: a sequence of strings, in which a missing text counts as an
    empty one, or a DataFrame with `text_column`; or vectors that you computed, an (N,
    d) array or a list of (n, d) arrays. They raise `ParameterError` if `X` holds no
    texts, and scikit-learn's `NotFittedError` before `fit`.

    Attributes
    ----------
    classes_ : array
        Labels in order; with two the logit is positive for the second.
    model_ : Model
        Vocabulary and weights.
    history_ : list of Epoch
        Losses and validation accuracy of each epoch.
    n_iter_ : int
        Number of epochs; a linear start counts as one.
    start_ : str
        Initial weights, "linear" or "random".
    threshold_ : float, or (classes,) array
        With two classes, the probability above which `predict` returns the second: .5,
        or another number if a class is rare, chosen in cross-validation for the largest
        macro F1. With more, `predict` returns the class with the largest ratio of
        probability and threshold; with several labels per text, those above their
        thresholds.
    training_ : Record
        Number, classes and hash of the training texts, and the date.

    Raises
    ------
    MissingExtra
        If scikit-learn is not installed, or torch for a random start or an encoder.
    ParameterError
        From `fit`, if a parameter is out of its bounds.

    Examples
    --------
    >>> from hardmax import HardmaxClassifier
    >>> from hardmax.text.datasets import reviews
    >>> corpus = reviews(600, seed=1)
    >>> classifier = HardmaxClassifier(n_heads=4, groups=2, epochs=20).fit(corpus.texts, corpus.labels)
    >>> classifier.predict(["a wonderful film", "a dreadful film"]).tolist()
    ['positive', 'negative']
    >>> explanation = classifier.explain("a wonderful film")
    >>> bool(abs(explanation.bias + explanation.contributions.sum() - explanation.logit) < 1e-12)
    True
    """

    @classmethod
    def paper(cls, d: int = 2, **changes: Any) -> "HardmaxClassifier":
        """Return the model of arXiv 2407.01602: one head, 8 layers, A = I, 128 lemmas
        of a text without stop words.

        Unlike the paper's code it masks padding and keeps alpha positive. Its initial
        alpha is small: that is most accurate, but words gather slowly. For figures use
        alpha=1.

        Examples
        --------
        >>> HardmaxClassifier.paper(d=4).get_params()["layers"]
        8
        """
        noise = (
            0.6 if d >= 8 else 0.0
        )  # with few coordinates whole tokens would become 0
        paper: dict[str, Any] = {
            "n_heads": 1,
            "groups": 1,
            "layers": 8,
            "alpha": 0.02,
            "scale": 38.4,
        }
        paper |= {"start": "random"}
        paper |= {
            "ngram_range": (1, 1),
            "distinct": False,
            "min_df": 2,
            "max_features": None,
            "max_words": 128,
        }
        paper |= {
            "punctuation": False,
            "stop_words": "english",
            "lemmas": "en",
            "batch_size": 128,
        }
        paper |= {
            "learning_rate": 2.4,
            "alpha_rate": 0.001,
            "weight_decay": 0.0,
            "dropout": 0.6,
        }
        return cls(d=d, **(paper | {"embedding_dropout": noise} | changes))

    def fit(
        self,
        X: Sequence[str],
        y: Sequence[Any],
        sample_weight: ArrayLike | None = None,
        *,
        groups: Sequence[Any] | None = None,
        report: Report | None = None,
    ) -> "HardmaxClassifier":
        """Train on texts and their labels. Rows without text or label are left out, and
        a warning counts them.

        Equal texts are held out together in cross-validation and validation, and a
        warning counts them. Texts are equal if they differ in case, spaces, markup and
        punctuation only. Labels are stripped of spaces.

        Parameters
        ----------
        X : sequence of str
            Texts, or a table with `text_column`.
        y : sequence of labels
            One label per text. Or several: a list of labels for each text, or a (texts,
            labels) matrix of 0 and 1.
        sample_weight : (texts,) array, optional
            Weight of each text in the loss, times the weight of its class; only ratios
            matter. Texts of weight 0 are left out.
        groups : (texts,) sequence, optional
            Group of each text, such as its author. Texts of one group are held out
            together; a text whose group is missing is a group of its own. (The
            parameter `groups` of the class are groups of heads.)
        report : callable, optional
            Called after each step with steps done, all steps, the loss, and after an
            epoch its `Epoch`, else None.
        """
        data = check_training_set(X, y, sample_weight, groups, self)
        report = report or (lambda *_: None)
        with training_bar(report) if self.verbose else nullcontext(report) as report:
            if uses_linear_start(data, self):
                model, history = fit_linear_model(data, self, report)
            else:
                with needed_for("Training after a random start", "torch", "torch"):
                    from hardmax.text.training import fit_network
                model, history = fit_network(data, self, report)
        return self._store(
            model,
            history,
            Record.of([data.texts[i] for i in data.given], data.given_labels()),
        )

    def _store(
        self, model: Model, history: list[Epoch], record: Record
    ) -> "HardmaxClassifier":
        self.model_, self.history_, self.training_ = model, history, record
        self.classes_, self.n_iter_ = model.classes, len(history)
        self.start_, self.threshold_ = model.start, model.threshold
        return self

    def score(
        self, X: Sequence[str], y: Sequence[Any], sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy on texts and their labels; spaces around labels are
        removed, as in `fit`.

        With several labels per text it is the fraction of texts whose labels are all
        right.
        """
        if self._fitted.multilabel:
            found = self.decision_function(X) > 0
            right = (found == check_known_sets(y, len(found), self.classes_)).all(
                axis=1
            )
            return float(
                np.average(
                    right,
                    weights=(
                        None
                        if sample_weight is None
                        else np.asarray(sample_weight, float)
                    ),
                )
            )
        found = self.predict(X)
        labels = strip_labels(check_labels(y, len(found)))
        return float(accuracy_score(labels, found, sample_weight=sample_weight))

    @property
    def _fitted(self) -> Model:
        check_is_fitted(self)
        return self.model_

    def _check(self, X: Any) -> list[str]:
        return check_texts(X, self.text_column, self._fitted)

    def _scores(self, X: Any) -> FloatArray:
        """Return (texts, outputs) logits, with a progress bar if an encoder runs and
        `verbose` is set.
        """
        return self._score_texts(self._check(X))

    def _score_texts(self, texts: list[str]) -> FloatArray:
        model = self._fitted
        with (
            progress_bar("Encoding")
            if self.verbose and model.context
            else nullcontext(None)
        ) as bar:
            return model.score(texts, bar)[0]

    def _refuse_several(self, name: str) -> Model:
        """Return the model, or raise an error if it predicts several labels per text."""
        if self._fitted.multilabel:
            raise InputError(
                f"`{name}` must be used with one label per text. Got several. Use"
                " `predict_proba`."
            )
        return self._fitted

    def decision_function(self, X: Sequence[str]) -> FloatArray:
        """Return the logits: (texts,) with two classes, positive for the second, else
        (texts, classes).
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Sequence[str]) -> AnyArray:
        """Return the (texts,) predicted labels.

        With several labels per text they are tuples, or a (texts, labels) matrix of 0
        and 1 if `y` was one.
        """
        return self._fitted.decide(self._scores(X))

    def predict_proba(self, X: Sequence[str]) -> FloatArray:
        """Return the (texts, classes) probabilities, in the order of `classes_`.

        Rows sum to 1, except with several labels per text: each then has a probability
        of its own.
        """
        return self._fitted.probabilities(self._scores(X))

    def answers(self, X: Sequence[str], at_least: float = 0.0) -> "DataFrame":
        """Return a pandas DataFrame with the prediction for each text, as `hardmax
        predict` writes it.

        The columns are the label, or "not sure" below the probability `at_least`, its
        probability, that of every class, whether the text has no known word, and the
        three words with the largest contributions.
        """
        import pandas

        model = self._fitted
        found = explain_labels(model, self._check(X))
        strongest = []
        for each in found:
            parts = []
            for label, explanation in each.explanations.items():
                words = [
                    (part.named, float(explanation.as_shown(part.value)))
                    for part in explanation.by_word()
                ]
                listed = ", ".join(
                    f"{name} {value:+.2f}" for name, value in words[:STRONGEST]
                )
                parts.append(f"{label}: {listed}" if model.multilabel else listed)
            strongest.append("; ".join(parts))
        scores, known = (
            np.stack([each.logits for each in found]),
            np.array([each.known for each in found]),
        )
        columns = answer_columns(model, scores, known, at_least)
        return pandas.DataFrame(columns | {"strongest_words": strongest})

    def predict_sure(self, X: Sequence[str], at_least: float = 0.9) -> AnyArray:
        """Return the (texts,) predicted labels, None where the probability is below
        `at_least`; see `coverage`.
        """
        model, scores = self._refuse_several("predict_sure"), self._scores(X)
        labels = model.decide(scores).astype(object)
        labels[~is_confident(model.certainty(scores), at_least)] = None
        return labels

    def coverage(self, X: Sequence[str], y: Sequence[Any]) -> "DataFrame":
        """Return the accuracy of confident predictions as a pandas DataFrame.

        A row has a threshold, the fraction of texts with at least that probability, and
        the accuracy on these. A label of `y` that is not one of `classes_` raises
        `ParameterError`. A warning says if these are the texts of the training.
        """
        import pandas

        model, texts = self._refuse_several("coverage"), self._check(X)
        labels = check_known_labels(y, len(texts), model.classes)
        if self.training_.describes(texts, labels.tolist()):
            warn(TRAINED_ON, UserWarning, stacklevel=2)
        scores = self._score_texts(texts)
        return pandas.DataFrame(
            coverage(model.certainty(scores), model.decide(scores) == labels)
        )

    def explain(self, text: Any, label: Any = None) -> Explanation:
        """Return the contribution of each token of one text to the logit, and the
        leaders.

        `text` is a string, or one entry of `X`: a DataFrame of one row, or an (n, d)
        array. With several labels per text the explanation is that of `label`, and has
        two classes; the default is the most probable label.
        """
        is_table = hasattr(text, "columns")
        if isinstance(text, list | tuple) or (is_table and len(text) != 1):
            raise ParameterError(
                "text",
                "be one text",
                f"{len(text)} of them",
                "For several use explain_many.",
            )
        return self.explain_many(text if is_table else [text], label)[0]

    def explain_many(self, X: Sequence[str], label: Any = None) -> list[Explanation]:
        """Return `explain` of many texts, at a few hundred microseconds each."""
        return explain_many(self._fitted, self._check(X), label)

    def leaders(self, X: Sequence[str]) -> LeaderStatistics:
        """Return statistics of the leaders in a collection of texts."""
        return leader_statistics(self._fitted, self._check(X))

    def contributions(
        self, X: Sequence[str], labels: Sequence[Any] | None = None
    ) -> "DataFrame":
        """Return the contributions of tokens over many texts as a pandas DataFrame, the
        largest sums first.

        A row has a token, the class `for` whose logit the sums belong to (with two
        classes the second), `count`, the number of texts that contain the token, and
        over these `sum`, `mean` and `mean_abs` of its contributions; `share` is its
        fraction of all absolute contributions. With the true `labels` there are the
        same columns for the texts of each class, such as `sum_in_pos`, and for `right`
        and `wrong` predictions.
        """
        texts, model = (
            self._check(X),
            self._fitted if labels is None else self._refuse_several("labels"),
        )
        truth = (
            None
            if labels is None
            else check_known_labels(labels, len(texts), model.classes, "labels")
        )
        return token_table(model, texts, truth)

    def save(self, path: str | PathLike[str], *, compact: bool = False) -> None:
        """Write a folder with JSON, safetensors and a card (README.md); it holds no
        code.

        With `compact` the embedding is rounded to one byte per coordinate, a quarter of
        the size: the loaded classifier differs slightly, and its explanations are exact
        for the rounded one. Of a `tokenizer` only the name is written.
        """
        save_model(
            self._fitted,
            Path(path),
            self,
            self.history_,
            self.training_,
            compact=compact,
        )

    @classmethod
    def load(
        cls,
        model: str | PathLike[str],
        *,
        tokenizer: Tokenizer | None = None,
        encoder: Any = None,
    ) -> "HardmaxClassifier":
        """Read a model that `save` wrote, or one inside the package. No code from the
        folder is executed.

        Parameters
        ----------
        model : str or path
            The folder, or the name of a model inside the package: "imdb" or "imdb-2d".
            A folder takes precedence.
        tokenizer : callable, optional
            The tokenizer that the model was trained with, if any; the folder holds its
            name only.
        encoder : optional
            The encoder that the model was trained with, if it is not found by its name.
            Another one is refused, by the hashes of its weights and of its vocabulary.
        """
        stored = load_model(find_model(model), tokenizer, encoder)
        known = cls().get_params(
            deep=False
        )  # a subclass may have fewer parameters of its own
        classifier = cls(
            **{name: value for name, value in stored.params.items() if name in known}
        )
        return classifier._store(stored.model, stored.history, stored.record)

    def _repr_html_inner(self) -> str:
        card = (
            notebook_card(self.model_, self.history_) if hasattr(self, "model_") else ""
        )
        return f"{card}{super()._repr_html_inner()}"  # above scikit-learn's diagram

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = dict(
            super()._repr_mimebundle_(**options)
        )  # without HTML if scikit-learn is configured so
        return (
            bundle | {"text/html": self._repr_html_inner()}
            if "text/html" in bundle
            else bundle
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = tags.non_deterministic = False
        tags.classifier_tags.multi_label = True
        return tags


HardmaxClassifier.__doc__ = cleandoc(HardmaxClassifier.__doc__ or "").replace(
    "\nAttributes\n", f"\n{describe_parameters(HardmaxClassifier)}\n\nAttributes\n", 1
)


@contextmanager
def training_bar(report: Report) -> Iterator[Report]:
    """Yield a `Report` that calls `report`, and shows the smoothed loss and the last
    accuracy.
    """
    smooth: float | None = None
    accuracy = ""

    with progress_bar("Training") as advance:

        def show(done: int, total: int, loss: Any, epoch: Any) -> None:
            nonlocal accuracy
            report(done, total, loss, epoch)
            if epoch is not None and epoch.accuracy is not None:
                accuracy = f"  validation accuracy {epoch.accuracy:.3f}"

            def note() -> str:
                nonlocal smooth
                smooth = (
                    float(loss) if smooth is None else 0.8 * smooth + 0.2 * float(loss)
                )
                return f"loss {smooth:.3f}{accuracy}"

            advance(done, total, note)

        yield show
