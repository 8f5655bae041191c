"""From texts and labels to a trained model: vocabulary, validation split, network, training."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

import numpy as np

from hardmax._errors import InputError, needed_for
from hardmax._progress import Report
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.sentiment.model import Epoch, Model
from hardmax.sentiment.settings import Settings
from hardmax.sentiment.vocabulary import Data, Vocabulary

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
    weights: FloatArray | None = None,
    *,
    report: Report,
) -> tuple[Model, list[Epoch]]:
    """Train a model; returns it with what is known of every epoch. `weights` are those of the texts."""
    with needed_for("Training a classifier", "torch", "text"):
        import torch  # noqa: F401
    from hardmax.sentiment.network import new_network
    from hardmax.sentiment.training import train

    settings = _by_number(settings, classes)
    problem = prepare(texts, labels, settings, weights)
    network = new_network(len(problem.vocabulary), len(classes), settings)
    epochs = settings.epochs or max(LEAST_EPOCHS, -(-LEAST_STEPS * settings.batch_size // len(texts)))
    history = train(network, problem.learned, problem.held, settings, epochs=epochs, report=report)
    return Model(problem.vocabulary, network.weights(), classes), history


def _by_number(settings: Settings, classes: AnyArray) -> Settings:
    """The same settings, with the weights of classes by their numbers instead of their labels; 1 where none is said."""
    given = settings.class_weight
    if not isinstance(given, Mapping):
        return settings
    values = {each.name: getattr(settings, each.name) for each in fields(Settings)}
    return Settings(**values | {"class_weight": {c: given.get(label, 1.0) for c, label in enumerate(classes.tolist())}})


def prepare(texts: Sequence[str], labels: IntArray, settings: Settings, weights: FloatArray | None = None) -> Problem:
    """Hold texts back, and make a vocabulary from the others, whose weights are scaled to 1 on average."""
    held = held_back(labels, settings.validation, settings.random_state)
    learned = np.setdiff1d(np.arange(len(labels)), held)
    vocabulary = Vocabulary.build([texts[i] for i in learned], settings, labels[learned])
    if not len(vocabulary):
        must = f"The texts must share words: one must occur in {settings.min_df} of them."
        raise InputError(f"{must} Got none. Pass more texts, or lower `min_df`.")
    encoded = vocabulary.encode(texts)
    weights = None if weights is None else weights / weights[learned].mean()
    split = [Data(encoded.take(s), labels[s], None if weights is None else weights[s]) for s in (learned, held)]
    return Problem(vocabulary, split[0], split[1] if len(held) else None, held)


def held_back(labels: IntArray, part: float, seed: int) -> IntArray:
    """Numbers of the texts to validate with: that part of every class, at random; none of a class of fewer than 5."""
    random = np.random.default_rng([seed, 20_000])
    held = [np.empty(0, np.intp)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = round(part * len(members)) if len(members) >= 5 else 0
        held.append(random.permutation(members)[: min(count, len(members) - 1)])
    return np.sort(np.concatenate(held))
