"""From texts and labels to a trained model: vocabulary, validation split, network, training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._types import AnyArray, IntArray
from hardmax.sentiment.crowd import Weights
from hardmax.sentiment.model import Model
from hardmax.sentiment.recipe import Recipe, class_weights
from hardmax.sentiment.text import Splitter
from hardmax.sentiment.vocabulary import Vocabulary

LEAST_STEPS = 600  # small files need more epochs to be learned at all
LEAST_EPOCHS = 6


@dataclass(frozen=True)
class Design:
    """What a classifier is made of, apart from how it is trained; see `HardmaxClassifier` for each."""

    heads: int = 32
    d: int = 2
    layers: int = 2
    alpha: float = 1.0
    scale: float = 0.1
    trained_A: bool = False
    longest: int = 2
    distinct: bool = True
    min_texts: int = 2
    max_tokens: int | None = None
    validation: float = 0.1
    balanced: bool = False
    ensemble: int = 1


def fit_model(
    texts: Sequence[str],
    labels: IntArray,
    classes: AnyArray,
    design: Design,
    recipe: Recipe,
    splitter: Splitter,
    *,
    device: str = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    report: Callable[..., None] = lambda *_: None,
) -> tuple[Model, list[Any]]:
    """Train a model; returns it with what is known of every epoch.

    Several networks, `design.ensemble` of them, are trained one after another with seeds that follow one another, and
    their logits averaged: heads add, so together they are one network with more heads.
    """
    import torch

    from hardmax.sentiment.training import Data, train

    held = held_back(labels, design.validation, recipe.seed)
    learned = np.setdiff1d(np.arange(len(labels)), held)
    vocabulary = Vocabulary.build(
        (texts[i] for i in learned),
        splitter,
        longest=design.longest,
        min_texts=design.min_texts,
        max_tokens=design.max_tokens,
        distinct=design.distinct,
    )
    if not len(vocabulary):
        raise ValueError(
            f"`texts` must share words: one must occur in {design.min_texts} of them. Got none. Pass more texts, or "
            "lower `min_texts`."
        )
    encoded = vocabulary.encode(list(texts))
    data = Data(encoded.take(learned), labels[learned])
    validation = Data(encoded.take(held), labels[held]) if len(held) else None
    place = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    parts, history = [], []
    for number in range(design.ensemble):
        own = replace(recipe, seed=recipe.seed + number)
        network = new_network(len(vocabulary), len(classes), design, own.seed)
        file = None if checkpoint is None else Path(checkpoint).with_suffix(f".{number}.safetensors")
        epochs = train(
            network,
            data,
            validation,
            own,
            weights=class_weights(data.labels, len(classes), design.balanced),
            device=place,
            file=file,
            resume=resume,
            report=lambda done, total, *rest, first=number: report(
                done + first * total, total * design.ensemble, *rest
            ),
        )
        parts.append(weights_of(network))
        history += epochs
    return Model(vocabulary, merged(parts), classes), history


def _report_one(report: Callable[..., None], number: int, of: int, done: int, total: int, *rest: Any) -> None:
    """Steps of one network among several."""
    report(done + number * total, total * of, *rest)


def new_network(tokens: int, classes: int, design: Design, seed: int) -> Any:
    """A network with random weights that the seed alone decides."""
    import torch

    from hardmax.sentiment.network import Network, Shape

    outputs = 1 if classes == 2 else classes
    shape = Shape(tokens, outputs, design.heads, design.d, design.layers, design.trained_A)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(shape, alpha=design.alpha, scale=design.scale)


def weights_of(network: Any) -> Weights:
    """The numbers of a network."""
    shape = network.shape
    with_heads = (shape.heads, shape.d)
    A = None if network.A is None else network.A.detach().cpu().double().numpy()
    return Weights(
        network.embedding.detach().cpu().numpy().reshape(-1, *with_heads),
        network.alpha.detach().cpu().double().numpy(),
        A if A is None else (A + A.swapaxes(1, 2)) / 2,
        network.decoder.weight.detach().cpu().double().numpy().reshape(-1, *with_heads),
        network.decoder.bias.detach().cpu().double().numpy(),
        shape.layers,
    )


def merged(parts: Sequence[Weights]) -> Weights:
    """One model whose logits are the means of those of several, with the heads of all."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return Weights(
        np.concatenate([part.embedding for part in parts], axis=1),
        np.concatenate([part.alpha for part in parts]),
        None if first.A is None else np.concatenate([part.A for part in parts if part.A is not None]),
        np.concatenate([part.decoder for part in parts], axis=1) / len(parts),
        np.mean([part.bias for part in parts], axis=0),
        first.layers,
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
