"""From texts and labels to a trained model: vocabulary, then a linear start, or validation split, network, training."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from hardmax._errors import InputError, needed_for
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.text.linear import has_rare
from hardmax.text.model import Epoch, Model
from hardmax.text.record import Report
from hardmax.text.settings import Settings
from hardmax.text.splits import held_back, number_texts
from hardmax.text.vocabulary import LEAST, Data, Vocabulary

MANY, LONG = 8000, 400  # texts, and letters of each on average, that are worth training
TRAINED = {"ngram_range": (1, 3), "min_df": 3}  # of tokens that are trained, where settings say nothing
LINEAR = ((1, 2), (1, 3))  # lengths of tokens that a linear start chooses from
LEAST_EPOCHS, LEAST_STEPS = 5, 600  # small files need more epochs to be learned at all


class Problem(NamedTuple):
    """Texts as tokens, split into those to learn from and those held back."""

    vocabulary: Vocabulary
    learned: Data
    held: Data | None
    held_places: IntArray  # which texts were held back


def fit_model(
    texts: Sequence[str],
    labels: IntArray,
    classes: AnyArray,
    settings: Settings,
    weights: FloatArray | None,
    groups: IntArray,
    *,
    report: Report,
) -> tuple[Model, list[Epoch]]:
    """Train a model; return it and the epochs.

    `weights` are those of the texts. Texts with the same entry of `groups` are held out together.
    """
    settings = _by_number(settings, classes)
    if starts_linear(texts, labels, settings):
        return _linear_model(texts, labels, classes, settings, weights, groups, report)
    with needed_for("Training a classifier", "torch", "text"):
        import torch  # noqa: F401
    from hardmax.text.network import new_network
    from hardmax.text.training import train

    problem = prepare(texts, labels, settings, weights, groups)
    network = new_network(len(problem.vocabulary), len(classes), settings)
    epochs = settings.epochs or max(LEAST_EPOCHS, -(-LEAST_STEPS * settings.batch_size // len(texts)))
    history = train(network, problem.learned, problem.held, settings, epochs=epochs, report=report)
    return Model(problem.vocabulary, network.weights(), classes), history


def starts_linear(texts: Sequence[str], labels: IntArray, settings: Settings) -> bool:
    """Whether a linear start is the model; training makes one of many long texts more accurate, and no others.

    Where a class is rare it is not trained either, as only a linear start lifts it.
    """
    if settings.start is not None or settings.epochs is not None or settings.training != "hardmax":
        return settings.start == "linear"
    few_or_short = len(texts) < MANY or sum(map(len, texts)) < LONG * len(texts)
    return few_or_short or has_rare(np.bincount(labels) / len(labels))


def _linear_model(
    texts: Sequence[str],
    labels: IntArray,
    classes: AnyArray,
    settings: Settings,
    weights: FloatArray | None,
    groups: IntArray,
    report: Report,
) -> tuple[Model, list[Epoch]]:
    """The model that starts where a linear one ends. Nothing is held back for good: it is cross-validated."""
    from sklearn.utils.class_weight import compute_class_weight
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

    from hardmax.text.start import fit_start

    of_class = compute_class_weight(settings.class_weight, classes=np.arange(len(classes)), y=labels)[labels]
    counts = of_class if weights is None else of_class * weights
    lengths = LINEAR if settings.ngram_range is None else (settings.ngram_range,)
    found = []
    for k, length in enumerate(lengths):
        # without the labels: those of texts that are held out must not choose tokens
        vocabulary = _vocabulary(texts, _with(settings, ngram_range=length))

        def part(done: int, total: int, loss: Any, epoch: Any, k: int = k) -> None:
            report(k * total + done, len(lengths) * total, loss, epoch)

        data = Data(vocabulary.encode(texts), labels, groups=groups)
        with threadpool_limits(1, "blas"):  # thousands of sums over tokens, in which threads would wait for each other
            start = fit_start(data, len(vocabulary), len(classes), settings, counts / counts.mean(), report=part)
        found.append((vocabulary, *start))
    vocabulary, best, epoch = min(found, key=lambda each: each[2].train_loss)
    return Model(vocabulary, best, classes), [epoch]


def _vocabulary(texts: Sequence[str], settings: Settings, labels: IntArray | None = None) -> Vocabulary:
    vocabulary = Vocabulary.build(texts, settings, labels)
    if not len(vocabulary):
        must = f"The texts must share words: one must occur in {settings.min_df or LEAST} of them."
        raise InputError(f"{must} Got none. Pass more texts, or lower `min_df`.")
    return vocabulary


def _with(settings: Settings, **changes: Any) -> Settings:
    return Settings(**{each.name: getattr(settings, each.name) for each in fields(Settings)} | changes)


def _by_number(settings: Settings, classes: AnyArray) -> Settings:
    """The same settings, with the weights of classes by their numbers instead of their labels; 1 where none is said."""
    given = settings.class_weight
    if not isinstance(given, Mapping):
        return settings
    return _with(settings, class_weight={c: given.get(label, 1.0) for c, label in enumerate(classes.tolist())})


def prepare(
    texts: Sequence[str],
    labels: IntArray,
    settings: Settings,
    weights: FloatArray | None = None,
    groups: IntArray | None = None,
) -> Problem:
    """Hold texts back in whole groups, and make a vocabulary from the others, whose weights are scaled to mean 1."""
    groups = number_texts(texts) if groups is None else groups
    held = held_back(labels, settings.validation, settings.random_state, groups)
    learned = np.setdiff1d(np.arange(len(labels)), held)
    unsaid = {name: value for name, value in TRAINED.items() if getattr(settings, name) is None}
    vocabulary = _vocabulary([texts[i] for i in learned], _with(settings, **unsaid), labels[learned])
    encoded = vocabulary.encode(texts)
    weights = None if weights is None else weights / weights[learned].mean()
    split = [Data(encoded.take(s), labels[s], None if weights is None else weights[s]) for s in (learned, held)]
    return Problem(vocabulary, split[0], split[1] if len(held) else None, held)
