"""From texts and labels to a trained model: vocabulary, validation split, network, training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._errors import MissingExtra, ParameterError
from hardmax._types import AnyArray, IntArray
from hardmax.sentiment.history import Epoch
from hardmax.sentiment.inference import Weights
from hardmax.sentiment.model import Model
from hardmax.sentiment.recipe import Recipe, class_weights
from hardmax.sentiment.text import Splitter
from hardmax.sentiment.vocabulary import Vocabulary

LEAST_STEPS = 600  # small files need more epochs to be learned at all
LEAST_EPOCHS = 5


@dataclass(frozen=True)
class Design:
    """What a classifier is made of, apart from how it is trained; see `HardmaxClassifier` for each."""

    heads: int = 32
    d: int = 2
    layers: int = 2
    groups: int = 4
    alpha: float = 1.0
    scale: float = 6.4
    trained_A: bool = False
    longest: int = 3
    distinct: bool = True
    min_texts: int = 3
    max_tokens: int | None = 100_000
    select: str = "telling"
    validation: float = 0.1
    balanced: bool = False


@dataclass(frozen=True, eq=False)
class Problem:
    """Texts as tokens, split into those to learn from and those held back."""

    vocabulary: Vocabulary
    learned: Any  # Data
    held: Any  # Data or None
    held_places: IntArray  # which texts were held back


def fit_model(
    texts: Sequence[str],
    labels: IntArray,
    classes: AnyArray,
    design: Design,
    recipe: Recipe,
    splitter: Splitter,
    *,
    device: str = "auto",
    checkpoint: Path | None = None,
    resume: bool = False,
    report: Callable[..., None] = lambda *_: None,
) -> tuple[Model, list[Epoch]]:
    """Train a model; returns it with what is known of every epoch."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtra("Training a classifier", "torch", "text") from error
    from hardmax.sentiment.training import train

    problem = prepare(texts, labels, len(classes), design, splitter, seed=recipe.seed)
    network = new_network(len(problem.vocabulary), len(classes), design, recipe.seed)
    history = train(
        network,
        problem.learned,
        problem.held,
        recipe,
        weights=class_weights(problem.learned.labels, len(classes), design.balanced),
        device=place_of(device),
        file=checkpoint,
        resume=resume,
        report=report,
    )
    return Model(problem.vocabulary, weights_of(network), classes), history


def prepare(
    texts: Sequence[str], labels: IntArray, classes: int, design: Design, splitter: Splitter, *, seed: int
) -> Problem:
    """Hold texts back, and make a vocabulary from the others."""
    from hardmax.sentiment.training import Data

    held = held_back(labels, design.validation, seed)
    learned = np.setdiff1d(np.arange(len(labels)), held)
    vocabulary = Vocabulary.build(
        [texts[i] for i in learned],
        splitter,
        longest=design.longest,
        min_texts=design.min_texts,
        max_tokens=design.max_tokens,
        distinct=design.distinct,
        labels=labels[learned] if design.select == "telling" else None,
    )
    if not len(vocabulary):
        raise ParameterError(
            "texts",
            f"share words: one must occur in {design.min_texts} of them",
            "none",
            "Pass more texts, or lower `min_texts`.",
        )
    encoded = vocabulary.encode(texts)
    validation = Data(encoded.take(held), labels[held]) if len(held) else None
    return Problem(vocabulary, Data(encoded.take(learned), labels[learned]), validation, held)


def place_of(device: str) -> str:
    """The device to train on: for "auto" a GPU where there is one."""
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ParameterError("device", "be there", '"cuda" on a machine without a GPU that torch can use', 'Use "cpu".')
    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def new_network(tokens: int, classes: int, design: Design, seed: int) -> Any:
    """A network with random weights that the seed alone decides."""
    import torch

    from hardmax.sentiment.network import Network, Shape

    outputs = 1 if classes == 2 else classes
    shape = Shape(tokens, outputs, design.heads, design.d, design.layers, design.groups, design.trained_A)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(shape, alpha=design.alpha, scale=design.scale)


def weights_of(network: Any) -> Weights:
    """The numbers of a network. The mean over groups is part of them, so that heads add."""
    shape = network.shape
    A = None if network.A is None else network.A.detach().cpu().double().numpy()
    return Weights(
        network.embedding.detach().cpu().numpy().reshape(-1, shape.heads, shape.d),
        network.alpha.detach().cpu().double().numpy(),
        A if A is None else (A + A.swapaxes(1, 2)) / 2,
        network.decoder.detach().cpu().double().numpy() / shape.groups,
        network.bias.detach().cpu().double().numpy().mean(axis=0),
        shape.layers,
    )


def held_back(labels: IntArray, part: float, seed: int) -> IntArray:
    """Numbers of the texts to validate with: that part of every class, at random; none of a class of fewer than 5."""
    random = np.random.default_rng([seed, 20_000])
    held = [np.empty(0, np.intp)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = round(part * len(members)) if len(members) >= 5 else 0
        held.append(random.permutation(members)[:count])
    return np.sort(np.concatenate(held))


def enough_epochs(texts: int, batch_size: int) -> int:
    """Epochs for a file of this size where none are given: at least LEAST_EPOCHS, and LEAST_STEPS steps."""
    return max(LEAST_EPOCHS, -(-LEAST_STEPS * batch_size // max(1, texts)))
