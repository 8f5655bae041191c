"""From texts and labels to a trained model: a linear initialisation, or a random one with training in torch."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from hardmax._display import progress_bar
from hardmax._errors import InputError, needed_for
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.text.linear_init import fit_linear_init, has_rare_class
from hardmax.text.model import Epoch, Model, Report
from hardmax.text.parameters import Parameters
from hardmax.text.validation import hold_out, number_texts
from hardmax.text.vocabulary import DEFAULT_MIN_DF, Data, Vocabulary

MIN_TEXTS, MIN_CHARACTERS = 8000, 400  # texts, and mean length, from which on training is more accurate
TRAINED = {"ngram_range": (1, 3), "min_df": 3}  # defaults after a random start
LINEAR_NGRAMS = ((1, 2), (1, 3))  # choices of a linear start
MIN_EPOCHS, MIN_STEPS = 5, 600


class Problem(NamedTuple):
    """Texts as tokens, split into those to learn from and those held out."""

    vocabulary: Vocabulary
    learned: Data
    held: Data | None
    held_rows: IntArray


def fit_model(
    texts: Sequence[str],
    labels: IntArray,
    classes: AnyArray,
    parameters: Parameters,
    weights: FloatArray | None,
    groups: IntArray,
    *,
    report: Report,
) -> tuple[Model, list[Epoch]]:
    """Train a model; return it and the epochs.

    `weights` are those of the texts. Texts with the same entry of `groups` are held out together.
    """
    parameters = _number_class_weight(parameters, classes)
    if uses_linear_start(texts, labels, parameters):
        return _fit_linear_model(texts, labels, classes, parameters, weights, groups, report)
    with needed_for("Training a classifier", "torch", "text"):
        import torch  # noqa: F401
    from hardmax.text.network import new_network
    from hardmax.text.training import train

    problem = prepare(texts, labels, parameters, weights, groups)
    network = new_network(len(problem.vocabulary), len(classes), parameters)
    epochs = parameters.epochs or max(MIN_EPOCHS, -(-MIN_STEPS * parameters.batch_size // len(texts)))
    history = train(network, problem.learned, problem.held, parameters, epochs=epochs, report=report)
    return Model(problem.vocabulary, network.weights(), classes), history


def uses_linear_start(texts: Sequence[str], labels: IntArray, parameters: Parameters) -> bool:
    """Return whether the linear initialisation is the model: training improves on it for many long texts only.

    With a rare class it is never trained, as only a linear start has a decision offset.
    """
    if parameters.start is not None or parameters.epochs is not None or parameters.training != "hardmax":
        return parameters.start == "linear"
    few_or_short = len(texts) < MIN_TEXTS or sum(map(len, texts)) < MIN_CHARACTERS * len(texts)
    return few_or_short or has_rare_class(np.bincount(labels) / len(labels))


def _fit_linear_model(
    texts: Sequence[str],
    labels: IntArray,
    classes: AnyArray,
    parameters: Parameters,
    weights: FloatArray | None,
    groups: IntArray,
    report: Report,
) -> tuple[Model, list[Epoch]]:
    """Return the linear initialisation with the best n-grams by cross-validation."""
    from sklearn.utils.class_weight import compute_class_weight
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn requires it

    class_weights = compute_class_weight(parameters.class_weight, classes=np.arange(len(classes)), y=labels)[labels]
    weights = class_weights if weights is None else class_weights * weights
    choices = LINEAR_NGRAMS if parameters.ngram_range is None else (parameters.ngram_range,)
    found = []
    for k, ngram_range in enumerate(choices):
        # without labels: those of held-out texts must not select tokens
        vocabulary = _build_vocabulary(texts, _replace(parameters, ngram_range=ngram_range))

        def report_part(done: int, total: int, loss: Any, epoch: Any, k: int = k) -> None:
            report(k * total + done, len(choices) * total, loss, epoch)

        data, scaled = Data(vocabulary.encode(texts), labels, groups=groups), weights / weights.mean()
        with threadpool_limits(1, "blas"):  # thousands of small sums: threads would slow them down
            fitted = fit_linear_init(data, len(vocabulary), len(classes), parameters, scaled, report=report_part)
        found.append((vocabulary, *fitted))
    vocabulary, best, epoch = min(found, key=lambda each: each[2].train_loss)
    return Model(vocabulary, best, classes), [epoch]


def _build_vocabulary(texts: Sequence[str], parameters: Parameters, labels: IntArray | None = None) -> Vocabulary:
    vocabulary = Vocabulary.build(texts, parameters, labels)
    if not len(vocabulary):
        must = f"At least one word must occur in {parameters.min_df or DEFAULT_MIN_DF} texts."
        raise InputError(f"{must} Got none. Pass more texts, or lower `min_df`.")
    return vocabulary


def _replace(parameters: Parameters, **changes: Any) -> Parameters:
    return Parameters(**{each.name: getattr(parameters, each.name) for each in fields(Parameters)} | changes)


def _number_class_weight(parameters: Parameters, classes: AnyArray) -> Parameters:
    """Return the parameters with class weights by index instead of by label; 1 for labels that are left out."""
    weights = parameters.class_weight
    if not isinstance(weights, Mapping):
        return parameters
    return _replace(parameters, class_weight={c: weights.get(label, 1.0) for c, label in enumerate(classes.tolist())})


def prepare(
    texts: Sequence[str],
    labels: IntArray,
    parameters: Parameters,
    weights: FloatArray | None = None,
    groups: IntArray | None = None,
) -> Problem:
    """Hold out texts in whole groups, and build a vocabulary from the others, whose weights are scaled to mean 1."""
    groups = number_texts(texts) if groups is None else groups
    held = hold_out(labels, parameters.validation, parameters.random_state, groups)
    learned = np.setdiff1d(np.arange(len(labels)), held)
    defaults = {name: value for name, value in TRAINED.items() if getattr(parameters, name) is None}
    vocabulary = _build_vocabulary([texts[i] for i in learned], _replace(parameters, **defaults), labels[learned])
    encoded = vocabulary.encode(texts)
    weights = None if weights is None else weights / weights[learned].mean()
    split = [Data(encoded.take(s), labels[s], None if weights is None else weights[s]) for s in (learned, held)]
    return Problem(vocabulary, split[0], split[1] if len(held) else None, held)


@contextmanager
def training_bar(report: Report) -> Iterator[Report]:
    """Yield a `Report` that calls `report`, and shows the smoothed loss and the last accuracy."""
    smooth: float | None = None
    accuracy = ""

    with progress_bar("Training") as moved:

        def both(done: int, total: int, loss: Any, epoch: Any) -> None:
            nonlocal accuracy
            report(done, total, loss, epoch)
            if epoch is not None and epoch.accuracy is not None:
                accuracy = f"  validation accuracy {epoch.accuracy:.3f}"

            def note() -> str:
                nonlocal smooth
                smooth = float(loss) if smooth is None else 0.8 * smooth + 0.2 * float(loss)
                return f"loss {smooth:.3f}{accuracy}"

            moved(done, total, note)

        yield both
