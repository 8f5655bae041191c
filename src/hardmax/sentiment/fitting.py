"""From texts and labels to a trained model: vocabulary, validation split, network, training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import InputError, MissingExtra, ParameterError
from hardmax._types import AnyArray, IntArray
from hardmax.sentiment.model import Epoch, Model
from hardmax.sentiment.settings import ModelSettings, Settings
from hardmax.sentiment.vocabulary import Data, Vocabulary

if TYPE_CHECKING:
    from hardmax._progress import Report
    from hardmax.sentiment.network import Network

LEAST_STEPS = 600  # small files need more epochs to be learned at all
LEAST_EPOCHS = 5


@dataclass(frozen=True, eq=False)
class Problem:
    """Texts as tokens, split into those to learn from and those held back."""

    vocabulary: Vocabulary
    learned: Data
    held: Data | None
    held_places: IntArray  # which texts were held back


def fit_model(
    texts: Sequence[str], labels: IntArray, classes: AnyArray, settings: Settings, *, report: "Report"
) -> tuple[Model, list[Epoch]]:
    """Train a model; returns it with what is known of every epoch."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtra("Training a classifier", "torch", "text") from error
    from sklearn.utils.class_weight import compute_class_weight

    from hardmax.sentiment.training import train

    problem = prepare(texts, labels, settings)
    network = new_network(len(problem.vocabulary), len(classes), settings, settings.random_state)
    history = train(
        network,
        problem.learned,
        problem.held,
        settings,
        epochs=epochs_of(settings, len(texts)),
        weights=compute_class_weight(settings.class_weight, classes=np.arange(len(classes)), y=problem.learned.labels),
        device=device_of(settings.device),
        file=None if settings.checkpoint is None else Path(settings.checkpoint),
        resume=settings.resume,
        report=report,
    )
    return Model(problem.vocabulary, network.weights(), classes), history


def prepare(texts: Sequence[str], labels: IntArray, settings: Settings) -> Problem:
    """Hold texts back, and make a vocabulary from the others."""
    held = held_back(labels, settings.validation, settings.random_state)
    learned = np.setdiff1d(np.arange(len(labels)), held)
    vocabulary = Vocabulary.build([texts[i] for i in learned], settings, labels[learned])
    if not len(vocabulary):
        must = f"The texts must share words: one must occur in {settings.min_df} of them."
        raise InputError(f"{must} Got none. Pass more texts, or lower `min_df`.")
    encoded = vocabulary.encode(texts)
    validation = Data(encoded.take(held), labels[held]) if len(held) else None
    return Problem(vocabulary, Data(encoded.take(learned), labels[learned]), validation, held)


def device_of(device: str) -> str:
    """The device to train on: for "auto" a GPU where there is one."""
    import torch

    there = torch.cuda.is_available()
    if device.startswith("cuda") and not there:
        raise ParameterError("device", "be a GPU that torch can use", "a machine without one", 'Use `device="cpu"`.')
    return device if device != "auto" else "cuda" if there else "cpu"


def new_network(tokens: int, classes: int, settings: ModelSettings, seed: int) -> "Network":
    """A network with random weights that the seed alone decides."""
    import torch

    from hardmax.sentiment.network import Network

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(tokens, 1 if classes == 2 else classes, settings)


def held_back(labels: IntArray, part: float, seed: int) -> IntArray:
    """Numbers of the texts to validate with: that part of every class, at random; none of a class of fewer than 5."""
    random = np.random.default_rng([seed, 20_000])
    held = [np.empty(0, np.intp)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = round(part * len(members)) if len(members) >= 5 else 0
        held.append(random.permutation(members)[: min(count, len(members) - 1)])
    return np.sort(np.concatenate(held))


def epochs_of(settings: Settings, texts: int) -> int:
    """Epochs as given, else at least LEAST_EPOCHS, and LEAST_STEPS steps."""
    return settings.epochs or max(LEAST_EPOCHS, -(-LEAST_STEPS * settings.batch_size // max(1, texts)))
