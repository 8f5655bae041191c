"""Training after a random start: batches, dropout, validation and checkpoints.

In every step each group of heads sees its own random part of a text's tokens. That reduces overfitting to single words,
and makes the groups different, so that their mean is more accurate than each of them.

Several processes started by `torchrun` may train one network together; usually there is one.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.text.model import Epoch, Report
from hardmax.text.network import Network
from hardmax.text.parameters import TRAINING, Parameters, check_device, parameter_names
from hardmax.text.vocabulary import Data, Encoded

CHECKPOINT_FORMAT = "hardmax-checkpoint"
SORTED_BATCHES = 32  # batches within which texts are sorted by length, to reduce padding
WARM_UP = 0.15  # fraction of all steps
VALIDATION_BATCH = 128  # texts
DECODER_RATE = 0.002
MAX_GRADIENT = 5.0  # norm of the gradient of all parameters but the embedding
DIVERGED = "The loss of training must stay finite. It is not. Lower `learning_rate` or `scale`."


class Process(NamedTuple):
    """Rank of this process among `size` processes; each computes its part of every batch, and gradients are summed."""

    rank: int
    size: int

    @classmethod
    def current(cls) -> "Process":
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())
        return cls(0, 1)

    @property
    def is_first(self) -> bool:
        return self.rank == 0  # it writes files and prints

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
    parameters: Parameters,
    *,
    epochs: int,
    served: str = "hardmax",
    report: Report,
) -> list[Epoch]:
    """Train a network in place; it keeps the last weights, or those of an epoch that was clearly better.

    `served` is the attention of validation. A checkpoint is written after every epoch; a resumed run has the same
    result as an undisturbed one. `report` is called after every step and epoch.
    """
    device = _device(parameters.device)
    file = None if parameters.checkpoint is None else Path(parameters.checkpoint)
    classes = np.arange(max(2, network.bias.shape[1]))  # two have one output
    weights = compute_class_weight(parameters.class_weight, classes=classes, y=data.labels)
    network.to(device)
    optimiser = _optimiser(network, parameters)
    run = fingerprint(network, parameters, epochs, data, weights)
    history: list[Epoch] = []
    best = network.state_dict()
    if parameters.resume and file is not None and file.exists():
        history, best = restore_checkpoint(file, network, optimiser, run)
    factors = torch.as_tensor(weights, dtype=torch.float32, device=device)
    per_epoch = -(-len(data.labels) // parameters.batch_size)
    steps = epochs * per_epoch
    for number in range(len(history), epochs):
        if _should_stop(history, parameters.patience):
            break
        total: Any = 0.0
        for k, batch in enumerate(batches(parameters, number, data.texts.sizes)):
            done = number * per_epoch + k
            _set_rates(optimiser, rate((done + 1) / (steps + 1)))
            loss = _step(network, optimiser, data, batch, parameters, done, factors)
            total = total + loss * len(batch)
            report(done + 1, steps, loss, None)
        if not np.isfinite(float(total)):
            raise InputError(DIVERGED)
        epoch = Epoch(number, float(total) / len(data.labels))
        if validation is not None:
            found = evaluate(network, validation, served, parameters.temperature, factors)
            epoch = replace(epoch, loss=found[0], accuracy=found[1])
        history.append(epoch)
        if epoch.quality >= max(each.quality for each in history):
            best = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        if file is not None and Process.current().is_first:
            save_checkpoint(file, network, best, optimiser, history, run)
        report((number + 1) * per_epoch, steps, epoch.train_loss, epoch)
    kept = len(history) - 1
    if validation is not None and _should_go_back(history, epochs, len(validation.labels)):
        network.load_state_dict(best)
        kept = max(history, key=lambda epoch: epoch.quality).number
    return [replace(epoch, kept=epoch.number == kept) for epoch in history]


def _device(name: str) -> str:
    """Return the device to train on: for "auto" a GPU if there is one."""
    check_device(name, "device")
    return name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu"


class Batch(NamedTuple):
    """Texts of one step."""

    ids: IntArray  # (texts, n)
    counts: AnyArray  # (texts, groups, n) 0 where a group does not see a token
    kept: AnyArray | None  # (texts, n, heads * d) factors of the embedding
    labels: IntArray  # (texts,)


def rate(done: float, warm_up: float = WARM_UP) -> float:
    """Return the factor of all learning rates after a fraction `done` of all steps: linear warm-up, then a cosine."""
    if done < warm_up:
        return done / warm_up
    return (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up))) / 2


def batches(parameters: Parameters, epoch: int, sizes: IntArray) -> list[IntArray]:
    """Return random batches of texts of similar length; they depend on the seed and the epoch only."""
    random, size = np.random.default_rng([parameters.random_state, epoch]), parameters.batch_size
    order = random.permutation(len(sizes))
    found = []
    for i in range(0, len(order), SORTED_BATCHES * size):
        some = order[i : i + SORTED_BATCHES * size]
        by_length = some[np.argsort(sizes[some], kind="stable")]
        found += [by_length[i : i + size] for i in range(0, len(by_length), size)]
    return [found[i] for i in random.permutation(len(found))]


def make_batch(
    parameters: Parameters, texts: Encoded, labels: IntArray, groups: int, width: int, step: int, part: slice
) -> Batch:
    """Return a part of a batch with dropout; the result does not depend on the number of processes."""
    random = np.random.default_rng([parameters.random_state, 10_000, step])
    kept = _kept(texts, parameters.dropout, groups, random)  # (m, groups)
    factors = _factors(texts, parameters.embedding_dropout, width, random)
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
    """Return (m, groups) booleans: whether a group sees a token; a text that would lose all tokens keeps all."""
    if dropout == 0:
        return np.ones((len(texts.ids), groups), bool)
    kept = random.random((len(texts.ids), groups), np.float32) >= dropout
    owners = np.repeat(np.arange(len(texts)), texts.sizes)
    before = np.zeros((len(kept) + 1, groups), np.int64)
    np.cumsum(kept, axis=0, out=before[1:])
    left = np.diff(before[texts.starts], axis=0)  # (texts, groups)
    return kept | (left == 0)[owners]


def _factors(texts: Encoded, dropout: float, width: int, random: np.random.Generator) -> AnyArray | None:
    """Return (m, width) factors: 0 for dropped coordinates, 1 / (1 - dropout) for the others."""
    if dropout == 0:
        return None
    kept = random.random((len(texts.ids), width), np.float32) >= dropout
    return kept / np.float32(1 - dropout)


def _optimiser(network: Network, parameters: Parameters) -> torch.optim.Optimizer:
    """Return AdamW; parameters that all tokens share do not decay and have a smaller rate."""
    rate = parameters.learning_rate / network.group_width
    parts: list[dict[str, Any]] = [
        {"params": [network.embedding], "lr": rate, "weight_decay": parameters.weight_decay},
        {"params": [network.decoder, network.bias], "lr": DECODER_RATE},
        {"params": [network.raw_alpha], "lr": parameters.alpha_rate},
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
    parameters: Parameters,
    number: int,
    factors: Tensor,
) -> Tensor:
    """Make one step of the optimiser on this process's part of a batch; return the mean loss as a tensor."""
    process, some, width = Process.current(), data.texts.take(texts), network.heads * network.d
    batch = make_batch(parameters, some, data.labels[texts], network.groups, width, number, process.part)
    ids, counts, labels = (_tensor(x, factors.device) for x in (batch.ids, batch.counts, batch.labels))
    kept = None if batch.kept is None else _tensor(batch.kept, factors.device)
    optimiser.zero_grad()
    try:
        scores = network(ids, counts, kept, attention=parameters.training, temperature=parameters.temperature)
    except ValueError:
        if torch.isfinite(network.embedding).all():
            raise
        raise InputError(DIVERGED) from None  # the kernels raise ValueError for NaN
    # every group is a classifier, and their losses add
    every = labels[:, None].expand(scores.shape[:2])
    own = _weights(data, texts[process.part], factors)[:, None]
    loss = _losses(scores, every, own, parameters.label_smoothing).sum() / len(texts)
    loss.backward()
    value = loss.detach() / network.groups
    process.add([*(p.grad for p in network.parameters() if p.grad is not None), value])
    others = [p for name, p in network.named_parameters() if name != "embedding"]
    torch.nn.utils.clip_grad_norm_(others, MAX_GRADIENT)
    optimiser.step()
    return value


def _tensor(array: AnyArray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)


def _weights(data: Data, texts: IntArray, factors: Tensor) -> Tensor:
    """Return (texts,) weights: the class weight times the sample weight, as in scikit-learn."""
    of_class = factors[_tensor(data.labels[texts], factors.device)]
    return of_class if data.weights is None else of_class * _tensor(data.weights[texts], factors.device).float()


def _losses(scores: Tensor, labels: Tensor, weights: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return (...) weighted cross-entropies of (..., outputs) logits."""
    if scores.shape[-1] == 1:
        wanted = labels.to(scores.dtype) * (1 - smoothing) + smoothing / 2
        return weights * binary_cross_entropy_with_logits(scores[..., 0], wanted, reduction="none")
    flat = cross_entropy(scores.flatten(0, -2), labels.flatten(), reduction="none", label_smoothing=smoothing)
    return weights * flat.view(labels.shape)


@torch.no_grad()
def evaluate(network: Network, data: Data, attention: str, temperature: float, factors: Tensor) -> tuple[float, float]:
    """Return the mean loss and the accuracy of the mean over groups."""
    process, order = Process.current(), np.argsort(data.texts.sizes, kind="stable")
    sums = torch.zeros(2, dtype=torch.float64, device=factors.device)
    for i in range(0, len(order), VALIDATION_BATCH):
        some = order[i : i + VALIDATION_BATCH][process.part]
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
    """Return whether to keep the best epoch instead of the last.

    The learning rate is 0 after the last epoch, so an earlier one must be better by a standard error. A run that was
    stopped early keeps the best.
    """
    best, last = max(epoch.quality for epoch in history)[0], history[-1].quality[0]
    return len(history) < epochs or best - last > (best * (1 - best) / count) ** 0.5


@contextmanager
def join_processes(device: str) -> Iterator[Process]:
    """Join the process group of `torchrun`, if there is one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or torch.distributed.is_initialized():
        yield Process.current()
        return
    on_gpu = torch.cuda.is_available() and not device.startswith("cpu")
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))  # "cuda" is then the GPU of this process
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Process.current()
        torch.distributed.barrier()  # a process that left early would abort one that still writes
    finally:
        torch.distributed.destroy_process_group()


def fingerprint(network: Network, parameters: Parameters, epochs: int, data: Data, weights: FloatArray) -> str:
    """Return a hash of the parameters, the initial weights and the data of a run."""
    values = [getattr(parameters, name) for name in parameter_names(TRAINING)]
    digest = sha256(repr((values, epochs, network.heads, network.d, network.groups, network.layers)).encode())
    start = [p.detach().cpu().numpy() for p in network.parameters()]
    for array in (*data.texts, data.labels, weights, *start, *([] if data.weights is None else [data.weights])):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save_checkpoint(
    path: Path,
    network: Network,
    best: dict[str, Tensor],
    optimiser: torch.optim.Optimizer,
    history: list[Epoch],
    run: str,
) -> None:
    """Replace the checkpoint of a run; a kill leaves the old one or the new one."""
    from safetensors.torch import save_file

    adam = optimiser.state_dict()["state"]  # by number of the parameter
    tensors = {f"now.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    tensors |= {f"adam.{i}.{key}": torch.as_tensor(value) for i, entry in adam.items() for key, value in entry.items()}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    state = json.dumps({"fingerprint": run, "history": [asdict(epoch) for epoch in history]})
    with written_whole(path) as temporary:
        save_file(plain, temporary, metadata={"format": CHECKPOINT_FORMAT, "state": state})


def restore_checkpoint(
    path: Path, network: Network, optimiser: torch.optim.Optimizer, run: str
) -> tuple[list[Epoch], dict[str, Tensor]]:
    """Restore network and optimiser from a checkpoint; return its epochs and the best weights so far."""
    from safetensors import SafetensorError, safe_open

    parts: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "adam": {}}
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads((file.metadata() or {})["state"])
            for name in file.keys():  # noqa: SIM118
                kind, rest = name.split(".", 1)
                parts[kind][rest] = file.get_tensor(name)
    except (SafetensorError, KeyError, ValueError) as problem:
        got, advice = f"a damaged file or another format ({type(problem).__name__})", "Delete it, or train with"
        raise ParameterError(path, "be a checkpoint of a training run", got, f"{advice} `resume=False`.") from None
    if state["fingerprint"] != run:
        must, advice = "come from a run with the same data and parameters", "Use those, delete it, or train with"
        raise ParameterError(path, must, "a checkpoint of another run", f"{advice} `resume=False`.")
    network.load_state_dict(parts["now"])
    adam = optimiser.state_dict()
    for name, tensor in parts["adam"].items():
        number, key = name.split(".")
        adam["state"].setdefault(int(number), {})[key] = tensor
    optimiser.load_state_dict(adam)
    return [Epoch(**epoch) for epoch in state["history"]], parts["best"]
