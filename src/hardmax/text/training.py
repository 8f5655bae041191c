"""Training: the loop, the batches it sees, its validation, and how it goes on after a kill.

In every step each group of heads sees its own random part of a text's tokens. That stops single words from being
learned by heart, and makes the groups different, so that their mean is better than each of them.

Several processes may train one network together, started by `torchrun`; usually there is just one.
"""

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from hardmax._errors import InputError
from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.text import checkpoint
from hardmax.text.model import Epoch
from hardmax.text.network import Network
from hardmax.text.record import Report
from hardmax.text.settings import Settings, TrainingSettings, check_device
from hardmax.text.vocabulary import Data, Encoded

SORTED = 32  # batches within which texts are sorted by length: padding stays small, batches stay random
WARM_UP = 0.15  # of all steps
VALIDATED = 128  # texts at a time
DECODER_RATE = 0.002
CLIP = 5.0  # largest norm of the gradient of all but the embedding
DIVERGED = "Training must stay finite. Its loss is not. Lower `learning_rate`, or `scale`."


class Process(NamedTuple):
    """One process among `size`; each takes its part of every batch, and sums make them agree."""

    rank: int
    size: int

    @classmethod
    def current(cls) -> "Process":
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())
        return cls(0, 1)

    @property
    def is_first(self) -> bool:
        return self.rank == 0  # and so writes files and prints

    @property
    def part(self) -> slice:
        return slice(self.rank, None, self.size)  # of a batch

    def add(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace tensors by their sums over all processes."""
        if self.size > 1:
            for tensor in tensors:
                torch.distributed.all_reduce(tensor)


def train(
    network: Network,
    data: Data,
    validation: Data | None,
    settings: Settings,
    *,
    epochs: int,
    served: str = "hardmax",
    report: Report,
) -> list[Epoch]:
    """Train a network in place. It ends with the last weights, or with those of an epoch that was clearly better.

    `served` is the attention of validation. A checkpoint is kept after every epoch; a run that goes on from it ends as
    it would have. `report` is called after every step with steps done, steps in all, the loss of the batch, and after
    an epoch what is known of it, else None.
    """
    device = _device(settings.device)
    file = None if settings.checkpoint is None else Path(settings.checkpoint)
    classes = np.arange(max(2, network.bias.shape[1]))  # two have one output
    weights = compute_class_weight(settings.class_weight, classes=classes, y=data.labels)
    network.to(device)
    optimiser = _optimiser(network, settings)
    run = checkpoint.fingerprint(network, settings, epochs, data, weights)
    history: list[Epoch] = []
    best = network.state_dict()
    if settings.resume and file is not None and file.exists():
        history, best = checkpoint.restore(file, network, optimiser, run)
    factors = torch.as_tensor(weights, dtype=torch.float32, device=device)
    per_epoch = -(-len(data.labels) // settings.batch_size)
    steps = epochs * per_epoch
    for number in range(len(history), epochs):
        if _should_stop(history, settings.patience):
            break
        total: Any = 0.0
        for k, batch in enumerate(batches(settings, number, data.texts.sizes)):
            done = number * per_epoch + k
            _set_rates(optimiser, rate((done + 1) / (steps + 1)))
            loss = _step(network, optimiser, data, batch, settings, done, factors)
            total = total + loss * len(batch)
            report(done + 1, steps, loss, None)
        if not np.isfinite(float(total)):
            raise InputError(DIVERGED)
        epoch = Epoch(number, float(total) / len(data.labels))
        if validation is not None:
            found = evaluate(network, validation, served, settings.temperature, factors)
            epoch = replace(epoch, loss=found[0], accuracy=found[1])
        history.append(epoch)
        if epoch.quality >= max(each.quality for each in history):
            best = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        if file is not None and Process.current().is_first:
            checkpoint.save(file, network, best, optimiser, history, run)
        report((number + 1) * per_epoch, steps, epoch.train_loss, epoch)
    kept = len(history) - 1
    if validation is not None and _should_go_back(history, epochs, len(validation.labels)):
        network.load_state_dict(best)
        kept = max(history, key=lambda epoch: epoch.quality).number
    return [replace(epoch, kept=epoch.number == kept) for epoch in history]


def _device(name: str) -> str:
    """Return the device to train on: for "auto" a GPU where there is one."""
    check_device(name, "device")
    return name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu"


class Batch(NamedTuple):
    """Texts of one step."""

    ids: IntArray  # (texts, n)
    counts: AnyArray  # (texts, groups, n) 0 where a group does not see a token
    kept: AnyArray | None  # (texts, n, heads * d) factors of the embedding
    labels: IntArray  # (texts,)


def rate(done: float, warm_up: float = WARM_UP) -> float:
    """Factor of all learning rates when a part `done` of all steps is over: up in a line, and down to 0 as a cosine."""
    if done < warm_up:
        return done / warm_up
    return (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up))) / 2


def batches(settings: TrainingSettings, epoch: int, sizes: IntArray) -> list[IntArray]:
    """All texts in random batches, those of a batch of like length. The same for the same seed and epoch."""
    random, size = np.random.default_rng([settings.random_state, epoch]), settings.batch_size
    order = random.permutation(len(sizes))
    found = []
    for i in range(0, len(order), SORTED * size):
        some = order[i : i + SORTED * size]
        by_length = some[np.argsort(sizes[some], kind="stable")]
        found += [by_length[i : i + size] for i in range(0, len(by_length), size)]
    return [found[i] for i in random.permutation(len(found))]


def dropped(
    settings: TrainingSettings, texts: Encoded, labels: IntArray, groups: int, width: int, step: int, part: slice
) -> Batch:
    """Part of a batch, with what is dropped in this step. Nothing depends on how a batch is dealt out."""
    random = np.random.default_rng([settings.random_state, 10_000, step])
    kept = _kept(texts, settings.dropout, groups, random)  # (m, groups)
    factors = _factors(texts, settings.embedding_dropout, width, random)
    some = np.arange(len(texts))[part]
    ids, counts = texts.take(some).padded()
    places, real = texts.places(some), counts > 0
    seen = np.zeros((*ids.shape, groups), np.int32)
    seen[real] = kept[places] * texts.counts[places, None]
    noise = None
    if factors is not None:
        noise = np.ones((*ids.shape, width), np.float32)
        noise[real] = factors[places]
    return Batch(ids, seen.transpose(0, 2, 1), noise, labels[part])


def _kept(texts: Encoded, dropout: float, groups: int, random: np.random.Generator) -> BoolArray:
    """(m, groups) whether a group sees a token; a text that would lose all of them keeps all."""
    if dropout == 0:
        return np.ones((len(texts.ids), groups), bool)
    kept = random.random((len(texts.ids), groups), np.float32) >= dropout
    owners = np.repeat(np.arange(len(texts)), texts.sizes)
    before = np.zeros((len(kept) + 1, groups), np.int64)
    np.cumsum(kept, axis=0, out=before[1:])
    left = np.diff(before[texts.starts], axis=0)  # (texts, groups)
    return kept | (left == 0)[owners]


def _factors(texts: Encoded, dropout: float, width: int, random: np.random.Generator) -> AnyArray | None:
    """(m, width) 0 for the numbers that are dropped, and what keeps the mean for the others."""
    if dropout == 0:
        return None
    kept = random.random((len(texts.ids), width), np.float32) >= dropout
    return kept / np.float32(1 - dropout)


def _optimiser(network: Network, settings: TrainingSettings) -> torch.optim.Optimizer:
    """AdamW. What all tokens share does not decay and is slower: it is right for none of them if it jumps."""
    rate = settings.learning_rate / network.group_width
    parts: list[dict[str, Any]] = [
        {"params": [network.embedding], "lr": rate, "weight_decay": settings.weight_decay},
        {"params": [network.decoder, network.bias], "lr": DECODER_RATE},
        {"params": [network.raw_alpha], "lr": settings.alpha_rate},
    ]
    if network.factor is not None:
        parts.append({"params": [network.factor], "lr": DECODER_RATE})
    optimiser = torch.optim.AdamW(parts, betas=(0.9, 0.99), weight_decay=0.0, fused=True)
    for part in optimiser.param_groups:
        part["full_rate"] = part["lr"]
    return optimiser


def _set_rates(optimiser: torch.optim.Optimizer, factor: float) -> None:
    for part in optimiser.param_groups:
        part["lr"] = part["full_rate"] * factor


def _step(
    network: Network,
    optimiser: torch.optim.Optimizer,
    data: Data,
    texts: IntArray,
    settings: TrainingSettings,
    number: int,
    factors: Tensor,
) -> Tensor:
    """One step of the optimiser on a batch, of which this process has a part; the mean loss as a tensor."""
    process, some, width = Process.current(), data.texts.take(texts), network.heads * network.d
    batch = dropped(settings, some, data.labels[texts], network.groups, width, number, process.part)
    ids, counts, labels = (_tensor(x, factors.device) for x in (batch.ids, batch.counts, batch.labels))
    kept = None if batch.kept is None else _tensor(batch.kept, factors.device)
    optimiser.zero_grad()
    try:
        scores = network(ids, counts, kept, attention=settings.training, temperature=settings.temperature)
    except ValueError:
        if torch.isfinite(network.embedding).all():
            raise
        raise InputError(DIVERGED) from None  # the kernels refuse NaN, in words of their own
    # every group is a classifier of its own: their losses add
    every = labels[:, None].expand(scores.shape[:2])
    own = _weights(data, texts[process.part], factors)[:, None]
    loss = _losses(scores, every, own, settings.label_smoothing).sum() / len(texts)
    loss.backward()
    value = loss.detach() / network.groups
    process.add([*(p.grad for p in network.parameters() if p.grad is not None), value])
    others = [p for name, p in network.named_parameters() if name != "embedding"]
    torch.nn.utils.clip_grad_norm_(others, CLIP)
    optimiser.step()
    return value


def _tensor(array: AnyArray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)


def _weights(data: Data, texts: IntArray, factors: Tensor) -> Tensor:
    """(texts,) what these count for: the weight of their class times their own, as in scikit-learn."""
    of_class = factors[_tensor(data.labels[texts], factors.device)]
    return of_class if data.weights is None else of_class * _tensor(data.weights[texts], factors.device).float()


def _losses(scores: Tensor, labels: Tensor, weights: Tensor, smoothing: float = 0.0) -> Tensor:
    """(...) cross-entropy of (..., outputs) logits, times weights."""
    if scores.shape[-1] == 1:
        wanted = labels.to(scores.dtype) * (1 - smoothing) + smoothing / 2
        return weights * binary_cross_entropy_with_logits(scores[..., 0], wanted, reduction="none")
    flat = cross_entropy(scores.flatten(0, -2), labels.flatten(), reduction="none", label_smoothing=smoothing)
    return weights * flat.view(labels.shape)


@torch.no_grad()
def evaluate(network: Network, data: Data, attention: str, temperature: float, factors: Tensor) -> tuple[float, float]:
    """Mean loss and accuracy of all groups together."""
    process, order = Process.current(), np.argsort(data.texts.sizes, kind="stable")
    sums = torch.zeros(2, dtype=torch.float64, device=factors.device)
    for i in range(0, len(order), VALIDATED):
        some = order[i : i + VALIDATED][process.part]
        if not len(some):
            continue
        ids, counts, labels = (_tensor(x, factors.device) for x in (*data.texts.take(some).padded(), data.labels[some]))
        scores = network(ids, counts[:, None], attention=attention, temperature=temperature).mean(1)
        found = (scores[:, 0] > 0).long() if scores.shape[1] == 1 else scores.argmax(1)
        losses = _losses(scores, labels, _weights(data, some, factors))
        sums += torch.stack([losses.sum(), (found == labels).sum()]).double()
    process.add([sums])
    loss, right = (sums / len(order)).tolist()
    return loss, right


def _should_stop(history: list[Epoch], patience: int | None) -> bool:
    if patience is None or not history:
        return False
    return len(history) - 1 - max(history, key=lambda epoch: epoch.quality).number >= patience


def _should_go_back(history: list[Epoch], epochs: int, count: int) -> bool:
    """Whether to end with the best epoch instead of the last.

    The last is where the learning rate is 0, so a better one may be luck: it must be ahead by a standard error. A run
    that was stopped early has no such end.
    """
    best, last = max(epoch.quality for epoch in history)[0], history[-1].quality[0]
    return len(history) < epochs or best - last > (best * (1 - best) / count) ** 0.5


@contextmanager
def joined(device: str) -> Iterator[Process]:
    """Join the processes that `torchrun` has started, if it has."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or torch.distributed.is_initialized():
        yield Process.current()
        return
    on_gpu = torch.cuda.is_available() and not device.startswith("cpu")
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))  # "cuda" is then a GPU of its own
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Process.current()
        torch.distributed.barrier()  # one that left while another still writes would be cut off from it, and may abort
    finally:
        torch.distributed.destroy_process_group()
