"""Training: the loop, its validation, and how it goes on after a kill."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from hardmax._errors import InputError
from hardmax._types import FloatArray, IntArray
from hardmax.sentiment import checkpoint
from hardmax.sentiment.distributed import Team
from hardmax.sentiment.history import Epoch
from hardmax.sentiment.network import Network
from hardmax.sentiment.recipe import Recipe
from hardmax.sentiment.vocabulary import Encoded

VALIDATED = 128  # texts at a time
DECODER_RATE = 0.002
DIVERGED = "Training must stay finite. Its loss is not. Lower `learning_rate`, or `scale`."


@dataclass(frozen=True, eq=False)
class Data:
    """Texts as tokens, and their classes as numbers from 0."""

    texts: Encoded
    labels: IntArray


def train(
    network: Network,
    data: Data,
    validation: Data | None,
    recipe: Recipe,
    *,
    weights: FloatArray,
    device: str = "cpu",
    file: Path | None = None,
    resume: bool = False,
    report: Callable[..., None] = lambda *_: None,
) -> list[Epoch]:
    """Train a network in place. It ends with the last weights, or with those of an epoch that was clearly better.

    Parameters
    ----------
    weights : (classes,) array
        Factors of the loss.
    file : path, optional
        Where to keep a checkpoint after every epoch. With `resume` the run goes on from it, and ends as it would have.
    report : callable
        Called after every step with steps done, steps in all, the loss of the batch, and after an epoch what is known
        of it, else None.
    """
    team = Team.current()
    network.to(device)
    optimiser = _optimiser(network, recipe)
    start = [p.detach().cpu().numpy() for p in network.parameters()]
    mark = checkpoint.fingerprint(recipe, network.shape, data.texts, data.labels, weights, *start)
    history, best = _begin(network, optimiser, file if resume else None, mark)
    factors = torch.as_tensor(weights, dtype=torch.float32, device=device)
    per_epoch = -(-len(data.labels) // recipe.batch_size)
    steps = recipe.epochs * per_epoch
    for number in range(len(history), recipe.epochs):
        if _should_stop(history, recipe):
            break
        total: Any = 0.0
        for k, batch in enumerate(recipe.batches(number, data.texts.sizes)):
            done = number * per_epoch + k
            _set_rates(optimiser, recipe.rate((done + 1) / (steps + 1)))
            loss = _step(network, optimiser, data, batch, recipe, done, factors, team)
            total = total + loss * len(batch)
            report(done + 1, steps, loss, None)
        if not np.isfinite(float(total)):
            raise InputError(DIVERGED)
        history.append(_validated(network, validation, recipe, number, float(total) / len(data.labels), factors, team))
        best = _better(network, history, best)
        if file is not None and team.leads:
            _keep(file, network, best, optimiser, history, mark)
        report((number + 1) * per_epoch, steps, history[-1].train_loss, history[-1])
    kept = len(history) - 1
    if validation is not None and _should_go_back(history, recipe, len(validation.labels)):
        network.load_state_dict(best)
        kept = max(history, key=lambda epoch: epoch.quality).number
    return [replace(epoch, kept=epoch.number == kept) for epoch in history]


def _optimiser(network: Network, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW. What all tokens share does not decay and is slower: it is right for none of them if it jumps."""
    shape = network.shape
    groups: Any = [
        {
            "params": [network.embedding],
            "lr": recipe.learning_rate / shape.width,
            "weight_decay": recipe.weight_decay,
        },
        {"params": [network.decoder, network.bias], "lr": DECODER_RATE},
        {"params": [network.raw_alpha], "lr": recipe.alpha_rate},
    ]
    if network.factor is not None:
        groups.append({"params": [network.factor], "lr": DECODER_RATE})
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.99), weight_decay=0.0, fused=True)
    for group in optimiser.param_groups:
        group["full_rate"] = group["lr"]
    return optimiser


def _set_rates(optimiser: torch.optim.Optimizer, factor: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = group["full_rate"] * factor


def _step(
    network: Network,
    optimiser: Any,
    data: Data,
    texts: IntArray,
    recipe: Recipe,
    number: int,
    factors: Any,
    team: Team,
) -> Any:
    """One step of the optimiser on a batch, of which this process has a part; the mean loss as a tensor."""
    shape = network.shape
    some, labels = data.texts.take(texts), data.labels[texts]
    batch = recipe.batch(some, labels, shape.groups, shape.heads * shape.d, number, team.part)
    ids, counts, kept, labels = (_tensor(x, factors.device) for x in batch)
    optimiser.zero_grad()
    try:
        scores = network(ids, counts, kept, attention=recipe.attention, temperature=recipe.temperature)
    except ValueError:
        if torch.isfinite(network.embedding).all():
            raise
        raise InputError(DIVERGED) from None  # the kernels refuse NaN, in words of their own
    # every group is a classifier of its own: their losses add
    loss = _losses(scores, labels[:, None].expand(scores.shape[:2]), factors, recipe.label_smoothing).sum() / len(texts)
    loss.backward()
    value = loss.detach() / shape.groups
    team.add([*(p.grad for p in network.parameters() if p.grad is not None), value])
    others = [p for name, p in network.named_parameters() if name != "embedding"]
    torch.nn.utils.clip_grad_norm_(others, recipe.clip)
    optimiser.step()
    return value


def _tensor(array: Any, device: Any) -> Any:
    return None if array is None else torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)


def _losses(scores: Any, labels: Any, factors: Any, smoothing: float = 0.0) -> Any:
    """(...) cross-entropy of (..., outputs) logits."""
    if scores.shape[-1] == 1:
        wanted = labels.to(scores.dtype) * (1 - smoothing) + smoothing / 2
        return factors[labels] * binary_cross_entropy_with_logits(scores[..., 0], wanted, reduction="none")
    flat = cross_entropy(scores.flatten(0, -2), labels.flatten(), reduction="none", label_smoothing=smoothing)
    return factors[labels] * flat.view(labels.shape)


def _validated(
    network: Network,
    validation: Data | None,
    recipe: Recipe,
    number: int,
    train_loss: float,
    factors: Any,
    team: Team,
) -> Epoch:
    """Loss and accuracy on what was held back, all groups together."""
    if validation is None:
        return Epoch(number, train_loss)
    loss, right = evaluate(network, validation, recipe.served, recipe.temperature, factors, team)
    return Epoch(number, train_loss, loss, right)


@torch.no_grad()
def evaluate(
    network: Network, data: Data, attention: str, temperature: float, factors: Any, team: Team | None = None
) -> tuple[float, float]:
    """Mean loss and accuracy of all groups together."""
    team = Team() if team is None else team
    order = np.argsort(data.texts.sizes, kind="stable")
    sums = torch.zeros(2, dtype=torch.float64, device=factors.device)
    for i in range(0, len(order), VALIDATED):
        some = order[i : i + VALIDATED][team.part]
        if not len(some):
            continue
        ids, counts = (_tensor(x, factors.device) for x in data.texts.take(some).padded())
        labels = _tensor(data.labels[some], factors.device)
        scores = network(ids, counts[:, None], attention=attention, temperature=temperature).mean(1)
        found = (scores[:, 0] > 0).long() if scores.shape[1] == 1 else scores.argmax(1)
        sums += torch.stack([_losses(scores, labels, factors).sum(), (found == labels).sum()]).double()
    team.add([sums])
    loss, right = (sums / len(order)).tolist()
    return loss, right


def _should_stop(history: list[Epoch], recipe: Recipe) -> bool:
    """Whether the last epochs were all worse than an earlier one."""
    if recipe.patience is None or not history:
        return False
    return len(history) - 1 - max(history, key=lambda epoch: epoch.quality).number >= recipe.patience


def _should_go_back(history: list[Epoch], recipe: Recipe, count: int) -> bool:
    """Whether to end with the best epoch instead of the last.

    The last is where the learning rate is 0, so a better one may be luck: it must be ahead by a standard error. A run
    that was stopped early has no such end.
    """
    best, last = max(epoch.quality for epoch in history)[0], history[-1].quality[0]
    stopped = len(history) < recipe.epochs
    return stopped or best - last > (best * (1 - best) / count) ** 0.5


def _better(network: Network, history: list[Epoch], best: dict[str, Any]) -> dict[str, Any]:
    """Weights to end with as far as is known."""
    if history[-1].quality >= max(epoch.quality for epoch in history):
        return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    return best


def _begin(network: Network, optimiser: Any, file: Path | None, mark: str) -> tuple[list[Epoch], dict[str, Any]]:
    """Epochs that are over and the best weights so far: none, or those of a checkpoint."""
    if file is None or not file.exists():
        return [], network.state_dict()
    tensors, state = checkpoint.read(file, mark)
    network.load_state_dict(_under(tensors, "now."))
    checkpoint.restore_optimiser(optimiser, tensors)
    device = network.embedding.device
    best = {name: tensor.to(device) for name, tensor in _under(tensors, "best.").items()}
    return [Epoch(**epoch) for epoch in state["history"]], best


def _keep(file: Path, network: Network, best: dict[str, Any], optimiser: Any, history: list[Epoch], mark: str) -> None:
    tensors = {f"now.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    state = {"fingerprint": mark, "history": [asdict(epoch) for epoch in history]}
    checkpoint.write(file, tensors | checkpoint.optimiser_tensors(optimiser), state)


def _under(tensors: dict[str, Any], start: str) -> dict[str, Any]:
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
