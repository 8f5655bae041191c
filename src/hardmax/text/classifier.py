"""`HardmaxClassifier`: the scikit-learn estimator. It validates, calls, stores.

Texts and labels are refused in a sentence where they do not fit. It is long because each method says what it takes and
returns.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import cleandoc
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from hardmax._arrays import to_numpy
from hardmax._errors import InputError, ParameterError, did_you_mean
from hardmax._types import AnyArray, BoolArray, FloatArray
from hardmax._validation import as_array
from hardmax.text.abstention import coverage, sure_answers
from hardmax.text.explanation import Explanation, explain, explain_many
from hardmax.text.fitting import fit_model
from hardmax.text.model import Model
from hardmax.text.record import Record, Report, training_bar
from hardmax.text.settings import Settings, check_settings, described
from hardmax.text.splits import (
    DuplicateWarning,
    check_groups,
    duplicate_note,
    find_duplicates,
    join_groups,
    number_texts,
    unmeasured_notes,
)
from hardmax.text.statistics import LeaderStatistics, leader_statistics
from hardmax.text.storage import load_model, save_model
from hardmax.text.tables import TEXT_NAMES, is_missing, left_out_note
from hardmax.text.text import unspaced_note
from hardmax.text.token_table import token_table
from hardmax.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    from pandas import DataFrame

SEVERAL = "For several labels a text, train one for each: OneVsRestClassifier(HardmaxClassifier()) of scikit-learn."
SEEN, SAID = 100, 6  # rows of a DataFrame that tell a column of texts, and columns that a sentence names


@dataclass(kw_only=True, eq=False, repr=False)  # its __init__ stores every setting as it came, as estimators must
class HardmaxClassifier(ClassifierMixin, BaseEstimator, Settings):
    """Classify texts by the words that others gather around, and explain every answer exactly.

    A text's tokens, words and pairs of neighbouring words, are embedded in several heads. In each head they follow the
    token with the largest projection, layer after layer: z_i <- z_i + b (mean of C_i - z_i) with
    C_i = argmax_j ⟨A z_i, z_j⟩ and b = alpha / (1 + alpha). The logit is linear in their mean, so it is a sum over
    tokens, and `explain` shows its terms.

    Use it for short and long texts alike where each answer must be explained. Small files and short texts take seconds,
    as a linear model of the same tokens is where it starts.

    Every parameter is a field of `hardmax.text.settings`, with its default, its bounds and its sentence; they are
    listed in docs/classifier.md, and here when Python shows this text.

    Attributes
    ----------
    classes_ : array
        Labels in order; with two the logit is positive for the second.
    model_ : Model
        Vocabulary and weights.
    history_ : list of Epoch
        Losses and validation accuracy of each epoch.
    n_iter_ : int
        How many epochs were run; a linear start counts as one.
    start_ : str
        Where training began, "linear" or "random".
    training_ : Record
        On how many texts, of which classes and hash, and when; None of older models.

    Raises
    ------
    MissingExtra
        If scikit-learn, or torch to be trained, is not installed.
    ParameterError
        From `fit`, if a setting is out of its bounds.

    Examples
    --------
    >>> from hardmax import HardmaxClassifier
    >>> from hardmax.text.corpus import reviews
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
        """The model of arXiv 2407.01602: one head, 8 layers, A = I, the first 128 words without stop words, as lemmas.

        Unlike the paper's code it masks padding and keeps alpha positive. It starts from a small alpha: that is most
        accurate, but words gather slowly. For pictures take alpha=1.

        Examples
        --------
        >>> HardmaxClassifier.paper(d=4).get_params()["layers"]
        8
        """
        noise = 0.6 if d >= 8 else 0.0  # with few coordinates it would make whole tokens 0
        paper: dict[str, Any] = {"n_heads": 1, "groups": 1, "layers": 8, "alpha": 0.02, "scale": 38.4}
        paper |= {"start": "random"}
        paper |= {"ngram_range": (1, 1), "distinct": False, "min_df": 2, "max_features": None, "max_words": 128}
        paper |= {"punctuation": False, "stop_words": "english", "lemmas": "en", "batch_size": 128}
        paper |= {"learning_rate": 2.4, "alpha_rate": 0.001, "weight_decay": 0.0, "dropout": 0.6}
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
        """Train on texts and their labels. Rows without text or label are left out, and a warning counts them.

        Equal texts are held out together in cross-validation and validation, and a warning counts them. Texts are equal
        if they differ in case, spaces, markup and punctuation only. Spaces around labels are removed.

        Parameters
        ----------
        X : sequence of str
        y : sequence of labels
        sample_weight : (texts,) array, optional
            What each text counts for in the loss, times the weight of its class; their ratios matter alone. Texts of
            weight 0 are left out.
        groups : (texts,) sequence, optional
            Group of each text, such as its author. Texts of one group are held out together; a text whose group is
            missing is a group of its own. (The setting `groups` is something else: groups of heads.)
        report : callable, optional
            Called after each step with steps done, steps in all, the loss, and after an epoch its `Epoch`, else None.
        """
        texts, labels, complete = complete_rows(X, y, self.text_column)
        check_classification_targets(labels)
        weights = None if sample_weight is None else check_weights(sample_weight, len(complete))[complete]
        group_of_row = None if groups is None else check_groups(groups, len(complete))
        rows = np.flatnonzero(complete)
        if weights is not None:
            some = np.flatnonzero(weights)
            texts, labels, weights, rows = [texts[i] for i in some], labels[some], weights[some], rows[some]
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            got = f"only {classes.tolist()} in {len(labels)} texts: 1 class"
            raise ParameterError("y", "hold at least two classes", got, "Check the column of labels.")
        check_settings(self)
        check_weighted_labels(self.class_weight, classes)
        for sentence in (case_note(classes), unspaced_note(texts) if self.tokenizer is None else ""):
            if sentence:
                warn(sentence, UserWarning, stacklevel=2)
        kept_together = number_texts(texts)
        if len(duplicates := find_duplicates(kept_together)):
            found = duplicate_note(rows[duplicates].tolist(), len(duplicates), len(texts), "at index")
            warn(found, DuplicateWarning, stacklevel=2)
        if group_of_row is not None:
            kept_together = join_groups(kept_together, group_of_row[rows])
        for sentence in unmeasured_notes(classes, numbers, kept_together):
            warn(sentence, UserWarning, stacklevel=2)
        report = report or (lambda *_: None)
        with training_bar(report) if self.verbose else nullcontext(report) as report:
            self.model_, self.history_ = fit_model(texts, numbers, classes, self, weights, kept_together, report=report)
        self.classes_, self.n_iter_ = classes, len(self.history_)
        self.training_: Record | None = Record.of(texts, labels.tolist())
        self.start_ = self.model_.start
        return self

    def score(self, X: Sequence[str], y: Sequence[Any], sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on texts and their labels; spaces around labels are removed, as in `fit`."""
        return float(super().score(X, _stripped(to_numpy(y)), sample_weight))

    @property
    def partial_fit(self) -> NoReturn:
        """There is none, as `hasattr` says, and this is why."""
        why = "a model that sees some rows later than others would depend on their order. `fit` all rows, in seconds."
        raise AttributeError(f"HardmaxClassifier has no partial_fit: {why}")

    @property
    def _fitted(self) -> Model:
        check_is_fitted(self)
        return self.model_

    def decision_function(self, X: Sequence[str]) -> FloatArray:
        """Logits of texts.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as an empty one. Or a table with `text_column`.

        Returns
        -------
        (texts,) or (texts, classes) array
            With two classes one number each, positive for the second.

        Raises
        ------
        ParameterError
            If `X` holds no texts.
        """
        scores = self._fitted.logits(check_texts(X, self.text_column))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Sequence[str]) -> AnyArray:
        """Labels of texts.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as an empty one. Or a table with `text_column`.

        Returns
        -------
        (texts,) array
            Of `classes_`.

        Raises
        ------
        ParameterError
            If `X` holds no texts.
        """
        return self._fitted.decide(self._fitted.logits(check_texts(X, self.text_column)))

    def predict_proba(self, X: Sequence[str]) -> FloatArray:
        """Probabilities of texts.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as an empty one. Or a table with `text_column`.

        Returns
        -------
        (texts, classes) array
            In the order of `classes_`; rows sum to 1.

        Raises
        ------
        ParameterError
            If `X` holds no texts.
        """
        return self._fitted.probabilities(self._fitted.logits(check_texts(X, self.text_column)))

    def predict_sure(self, X: Sequence[str], at_least: float = 0.9) -> AnyArray:
        """Labels of texts, None where the model is not sure; see `coverage`.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as an empty one. Or a table with `text_column`.
        at_least : float
            The least probability of an answer that is given.

        Returns
        -------
        (texts,) array of object

        Raises
        ------
        ParameterError
            If `X` holds no texts, or `at_least` is no probability.
        """
        scores = self._fitted.logits(check_texts(X, self.text_column))
        return sure_answers(self.model_.decide(scores), self.model_.certainty(scores), at_least)

    def coverage(self, X: Sequence[str], y: Sequence[Any]) -> "DataFrame":
        """What it costs to answer only where the model is sure, as a pandas DataFrame.

        A row has a probability, the part of the texts whose answer has at least that, and the accuracy on these.

        Raises
        ------
        ParameterError
            If `X` holds no texts, or `y` a label that is not one of `classes_`.
        """
        import pandas

        texts, model = check_texts(X, self.text_column), self._fitted
        labels = check_known_labels(_stripped(_one_for_each(y, len(texts))), model.classes)
        scores = model.logits(texts)
        right = model.decide(scores) == labels
        return pandas.DataFrame(coverage(model.certainty(scores), right))

    def explain(self, text: str) -> Explanation:
        """What each word of a text adds to its logit, and who leads.

        Parameters
        ----------
        text : str
            One text.

        Returns
        -------
        Explanation

        Raises
        ------
        ParameterError
            If `text` is not a string.
        """
        return explain(self._fitted, text)

    def explain_many(self, X: Sequence[str]) -> list[Explanation]:
        """As `explain` for many texts, at a few hundred microseconds each.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as an empty one. Or a table with `text_column`.

        Returns
        -------
        list of Explanation

        Raises
        ------
        ParameterError
            If `X` holds no texts.
        """
        return explain_many(self._fitted, check_texts(X, self.text_column))

    def leaders(self, X: Sequence[str]) -> LeaderStatistics:
        """Who leads in a collection of texts, and how many leaders they have.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as an empty one. Or a table with `text_column`.

        Returns
        -------
        LeaderStatistics

        Raises
        ------
        ParameterError
            If `X` holds no texts.
        """
        return leader_statistics(self._fitted, check_texts(X, self.text_column))

    def contributions(self, X: Sequence[str], labels: Sequence[Any] | None = None) -> "DataFrame":
        """Which tokens carry the answers in a collection of texts, as a pandas DataFrame; those that do most first.

        A row has a token, the class `for` whose logit the sums are (with two classes the second), `count`, in how many
        texts it stands, and over these `sum`, `mean` and `mean_abs` of its contributions; `share` is its part of all
        sizes together. With `labels`, the true ones, all but that for texts of each class, `sum_in_pos`, and for those
        that are answered `right` and `wrong`.
        """
        texts = check_texts(X, self.text_column)
        return token_table(self._fitted, texts, None if labels is None else _stripped(to_numpy(labels)))

    def save(self, path: str | PathLike[str], *, compact: bool = False) -> None:
        """Write a folder with JSON and safetensors that `load` reads, and a card for people; nothing in it can run.

        With `compact` the embedding is rounded to a byte a number, a quarter of the size: the loaded classifier is then
        a slightly different one, and its explanations are exact for that one. Of a `tokenizer` the name is written.
        """
        save_model(self._fitted, Path(path), self, self.history_, self.training_, grid=compact)

    @classmethod
    def load(cls, path: str | PathLike[str], *, tokenizer: Tokenizer | None = None) -> "HardmaxClassifier":
        """Read what `save` wrote. Runs nothing from the folder.

        Parameters
        ----------
        path : path
            The folder.
        tokenizer : callable, optional
            The one that it was trained with, if it was; files hold its name alone.

        Returns
        -------
        HardmaxClassifier

        Raises
        ------
        ParameterError
            If there is no such folder, its files are damaged or of a later version, or `tokenizer` is missing or
            another.
        """
        model, params, history, record = load_model(Path(path), tokenizer)
        known = cls().get_params(deep=False)  # a subclass may have fewer parameters of its own
        classifier = cls(**{name: value for name, value in params.items() if name in known})
        classifier.model_, classifier.history_ = model, history
        classifier.classes_, classifier.n_iter_, classifier.training_ = model.classes, len(history), record
        classifier.start_ = model.start
        return classifier

    def _repr_html_inner(self) -> str:
        return f"{self._card()}{super()._repr_html_inner()}"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:  # not where scikit-learn was told to show text
            bundle["text/html"] = f"{self._card()}{bundle['text/html']}"
        return dict(bundle)

    def _card(self) -> str:
        """What a notebook shows above scikit-learn's own picture of an estimator, once it is fitted."""
        from hardmax.text.card import classifier_card

        return classifier_card(self.model_, self.history_) if hasattr(self, "model_") else ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = tags.non_deterministic = False
        return tags


HardmaxClassifier.__doc__ = cleandoc(HardmaxClassifier.__doc__ or "").replace(
    "\nAttributes\n", f"\n{described(HardmaxClassifier)}\n\nAttributes\n", 1
)


def check_texts(X: Any, column: str | None = None) -> list[str]:
    """A list of texts, a missing one as an empty one; or a sentence about what came instead."""
    texts = _as_list(X, column)
    missing = [i for i, text in enumerate(texts) if not isinstance(text, str) and is_missing(text)]
    if missing:
        counted = f"{len(missing)} of {len(texts)} texts are missing; they count as empty texts."
        warn(counted, UserWarning, stacklevel=3)
        texts = ["" if is_missing(text) else text for text in texts]
    return _texts_alone(texts)


def complete_rows(X: Any, y: Any, column: str | None = None) -> tuple[list[str], AnyArray, BoolArray]:
    """Texts and labels of the rows that have both, labels as an array of one kind; and which rows these are."""
    texts = _as_list(X, column)
    labels = _one_for_each(y, len(texts))
    masked = np.ma.getmaskarray(labels) if np.ma.isMaskedArray(labels) else np.zeros(len(texts), bool)
    missing = masked | [is_missing(text) or is_missing(label) for text, label in zip(texts, labels, strict=True)]
    if missing.all():
        got = f"{len(texts)}, all without"
        raise ParameterError(("X", "y"), "hold at least one row with a text and a label", got, "Check the columns.")
    if missing.any():
        warn(left_out_note(int(missing.sum()), len(texts)), UserWarning, stacklevel=3)
        texts = list(compress(texts, ~missing))
        labels = labels[~missing] if isinstance(labels, np.ndarray) else list(compress(labels, ~missing))
    spaced = [label for label in labels if isinstance(label, str) and label != label.strip()]
    if spaced:
        note = f"Removed the spaces around {len(spaced)} of {len(labels)} labels: {spaced[0]!r}"
        warn(f"{note} becomes {spaced[0].strip()!r}.", UserWarning, stacklevel=3)
    return _texts_alone(texts), _plain(labels), ~missing


def _as_list(X: Any, column: str | None) -> list[Any]:
    if isinstance(X, str | bytes):
        raise ParameterError("X", "be a list of texts", "a single one", "Put it in brackets: [text].")
    if hasattr(X, "columns") and hasattr(X, "items"):  # a DataFrame
        X = _column(X, column)
    if hasattr(X, "ndim") and X.ndim != 1:
        advice = "Reshape your data or pass a single column."
        raise ParameterError("X", "be one-dimensional, a text in each place", f"shape {tuple(X.shape)}", advice)
    if not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        raise ParameterError("X", "be a list of texts", type(X).__name__)
    if not len(X):
        raise ParameterError("X", "hold at least one text", "none: 0 sample(s) while a minimum of 1 is required")
    return list(X)


def _column(X: Any, column: str | None) -> Any:
    """The column of a DataFrame that holds the texts."""
    if column is not None:
        if column not in X.columns:
            advice = did_you_mean(str(column), map(str, X.columns), f"It has {_listed(X.columns)}.")
            raise ParameterError("text_column", "be a column of the DataFrame", repr(column), advice)
        return X[column]
    found = [(name, values) for name, values in X.items() if any(isinstance(one, str) for one in values.head(SEEN))]
    if len(found) != 1:
        names = [name for name, _ in found]
        got = f"a DataFrame with {f'{_listed(names)}, {len(names)} of them' if names else 'none'}"
        advice = f'Name it: `text_column="{_likeliest(found)}"`.' if names else ""
        raise ParameterError("X", "have one column of texts", got, advice)
    return found[0][1]


def _likeliest(columns: list[tuple[Any, Any]]) -> Any:
    """Return the name of the column that is called as texts usually are, or of the one with the longest values."""
    usual = [pair for pair in columns if str(pair[0]).strip().casefold() in TEXT_NAMES]
    return max(usual or columns, key=lambda pair: sum(len(str(value)) for value in pair[1].head(SEEN)))[0]


def _listed(names: Any) -> str:
    return ", ".join(map(str, list(names)[:SAID]))


def _texts_alone(texts: list[Any]) -> list[str]:
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            got = f"{type(text).__name__} at place {i}: {str(text)[:40]!r}"
            raise ParameterError("X", "hold texts alone", got, "Convert it to str, or leave that row out.")
    return texts


def _one_for_each(y: Any, texts: int) -> Any:
    if y is None:
        raise InputError("requires y to be passed, but the target y is None. Pass a label for each text.")
    must = f"hold one label for each of the {texts} texts"
    shape = as_array(y.data if np.ma.isMaskedArray(y) else y, "y", must, f"Match them. {SEVERAL}").shape
    if shape != (texts,):
        raise ParameterError("y", must, f"shape {shape}", SEVERAL if shape[:1] == (texts,) else "Match them.")
    return to_numpy(y)


def _plain(labels: Any) -> AnyArray:
    """Labels as an array that a file can hold, whatever they came in."""
    if np.ma.isMaskedArray(labels):
        labels = labels.data
    if not (isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf"):
        labels = _of_one_kind(list(labels), getattr(labels, "dtype", None))
    if labels.dtype.kind == "f":
        labels = labels.astype(np.float64)
        if not np.isfinite(labels).all():
            place = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise ParameterError("y", "be finite", f"{labels[place]} at place {place}", "Leave these rows out.")
    return np.asarray(labels)


def check_weights(sample_weight: Any, texts: int) -> FloatArray:
    """Weights of the texts as floats, some of them positive."""
    must, advice = f"hold a number, 0 or larger, for each of the {texts} texts", "Match them."
    array = as_array(sample_weight, "sample_weight", must, advice)
    if array.shape != (texts,) or array.dtype.kind not in "biuf":
        raise ParameterError("sample_weight", must, f"{array.dtype} of shape {array.shape}", advice)
    weights = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        got = f"{array[wrong[0]]} at place {wrong[0]}, {len(wrong)} such in all"
        raise ParameterError("sample_weight", must, got, "Use 0 to leave a text out.")
    if not weights.any():
        raise ParameterError("sample_weight", must, "zero for all of them", "Leave it out.")
    return weights


def check_weighted_labels(class_weight: Any, classes: AnyArray) -> None:
    """Refuse weights of labels that no text has."""
    known = set(classes.tolist())
    strange = [label for label in class_weight if label not in known] if isinstance(class_weight, Mapping) else []
    if strange:
        advice = did_you_mean(str(strange[0]), map(str, classes.tolist()), "Use the values that `y` has.")
        must = f"name labels of `y`, {', '.join(map(repr, classes.tolist()[:6]))}"
        raise ParameterError("class_weight", must, repr(strange[0]), advice)


def check_known_labels(labels: list[Any], classes: AnyArray) -> AnyArray:
    """Return labels as an array, all of them labels of the model."""
    known = classes.tolist()
    strange = [label for label in labels if is_missing(label) or label not in known]
    if strange:
        must = f"hold labels of the model: {', '.join(map(repr, known[:SAID]))}"
        got = f"{len(strange)} of {len(labels)} that are not, the first {strange[0]!r}"
        advice = did_you_mean(str(strange[0]), map(str, known), "Rename them, or leave these rows out.")
        raise ParameterError("y", must, got, advice)
    return classes[[known.index(label) for label in labels]]


def case_note(classes: AnyArray) -> str:
    """Return a sentence about labels that differ in case only, or nothing."""
    alike: dict[str, list[str]] = {}
    for label in classes.tolist() if classes.dtype.kind == "U" else ():
        alike.setdefault(label.casefold(), []).append(label)
    found = [" and ".join(map(repr, each)) for each in alike.values() if len(each) > 1]
    if not found:
        return ""
    return f"Labels that differ in case only are different classes: {_listed(found)}. Write them alike if they are one."


def _stripped(labels: Iterable[Any]) -> list[Any]:
    return [label.strip() if isinstance(label, str) else label for label in labels]


def _of_one_kind(labels: list[Any], dtype: Any) -> AnyArray:
    """Python objects, such as those of a pandas column, as a plain array."""
    labels = _stripped(label.item() if isinstance(label, np.generic) else label for label in labels)
    numbers = [isinstance(label, int | float) and not isinstance(label, bool) for label in labels]  # are one kind
    kinds = {"float" if number else type(label).__name__ for number, label in zip(numbers, labels, strict=True)}
    made = np.array(labels) if len(kinds) == 1 and kinds <= {"str", "bool", "float"} else None
    whole = all(isinstance(label, int) for label in labels)
    if made is None or getattr(dtype, "kind", None) in ("m", "M") or (whole and made.dtype.kind not in "biu"):
        got = " and ".join(sorted({type(label).__name__ for label in labels}) if made is None else [str(made.dtype)])
        must = "hold labels of one kind: text, numbers or booleans"
        several = any(isinstance(label, Collection) and not isinstance(label, str | bytes) for label in labels)
        raise ParameterError("y", must, got, SEVERAL if several else "Convert them, say with str.")
    if made.tolist() != labels:
        raise ParameterError("y", "hold texts that do not end in a NUL", "some that do", "Strip them.")
    return made
