"""Training: the loop, its validation, and how it goes on after a kill."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from hardmax._types import FloatArray, IntArray
from hardmax.sentiment import checkpoint
from hardmax.sentiment.history import Epoch
from hardmax.sentiment.network import Network
from hardmax.sentiment.recipe import Recipe
from hardmax.sentiment.team import Team
from hardmax.sentiment.vocabulary import Encoded

VALIDATED = 256  # texts at a time


@dataclass(frozen=True, eq=False)
class Data:
    """Texts as tokens, and their classes as numbers from 0."""

    texts: Encoded
    labels: IntArray

    def batch(self, some: IntArray, device: Any) -> tuple[Any, Any, Any]:
        """Token numbers, how often each counts, and labels of some texts, as tensors."""
        arrays = (*self.texts.take(some).padded(), self.labels[some])
        return tuple(torch.from_numpy(x).to(device) for x in arrays)  # type: ignore[return-value]


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
    report: Callable[[int, int, float, Epoch | None], None] = lambda *_: None,
) -> list[Epoch]:
    """Train a network in place; it ends with the weights of best validation accuracy, or the last without validation.

    Parameters
    ----------
    weights : (classes,) array
        Factors of the loss.
    file : path, optional
        Where to keep a checkpoint after every epoch. With `resume` the run goes on from it, and ends as it would have.
    report : callable
        Called after every step with steps done, steps in all, the loss of the batch and, after an epoch, what is known.
    """
    team = Team.current()
    network.to(device)
    optimiser = _optimiser(network, recipe)
    mark = checkpoint.fingerprint(recipe, network.shape, data.texts, data.labels)
    history, best = _begin(network, optimiser, file if resume else None, mark)
    factors = torch.as_tensor(weights, dtype=torch.float32, device=device)
    per_epoch = -(-len(data.labels) // recipe.batch_size)
    for number in range(len(history), recipe.epochs):
        if _should_stop(history, recipe):
            break
        batches, texts = recipe.epoch(number, data.texts)
        thinned, total = Data(texts, data.labels), 0.0
        for k, batch in enumerate(batches):
            done = number * per_epoch + k
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate((done + 1) / (recipe.epochs * per_epoch + 1))
            loss = _step(network, optimiser, thinned.batch(team.part(batch), device), len(batch), recipe, factors, team)
            total = total + loss * len(batch)
            report(done + 1, recipe.epochs * per_epoch, loss, None)
        history.append(_validated(network, validation, number, float(total) / len(data.labels), factors, device, team))
        best = _better(network, history, best)
        if file is not None and team.leads:
            _keep(file, network, best, optimiser, history, mark)
        report((number + 1) * per_epoch, recipe.epochs * per_epoch, history[-1].train_loss, history[-1])
    network.load_state_dict(best)
    return history


def _optimiser(network: Network, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW; what is shared by all tokens does not decay."""
    others = [p for name, p in network.named_parameters() if name != "embedding"]
    groups: Any = [{"params": [network.embedding], "weight_decay": recipe.weight_decay}, {"params": others}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, weight_decay=0.0, fused=True)


def _step(
    network: Network, optimiser: Any, batch: Any, size: int, recipe: Recipe, factors: Any, team: Team
) -> float | Any:
    """One step of the optimiser on a batch, of which this process has a part; the mean loss as a tensor."""
    ids, counts, labels = batch
    optimiser.zero_grad()
    scores = network(ids, counts, attention=recipe.attention, temperature=recipe.temperature)
    loss = _losses(scores, labels, factors, recipe.label_smoothing).sum() / size
    loss.backward()
    value = loss.detach()
    team.add([*(p.grad for p in network.parameters() if p.grad is not None), value])
    torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.clip)
    optimiser.step()
    return value


def _losses(scores: Any, labels: Any, factors: Any, smoothing: float = 0.0) -> Any:
    """(texts,) cross-entropy."""
    if scores.shape[1] == 1:
        wanted = labels.to(scores.dtype) * (1 - smoothing) + smoothing / 2
        return factors[labels] * binary_cross_entropy_with_logits(scores[:, 0], wanted, reduction="none")
    return factors[labels] * cross_entropy(scores, labels, reduction="none", label_smoothing=smoothing)


@torch.no_grad()
def _validated(
    network: Network, validation: Data | None, number: int, train_loss: float, factors: Any, device: str, team: Team
) -> Epoch:
    """Loss and accuracy with hardmax on what was held back."""
    if validation is None:
        return Epoch(number, train_loss)
    order = np.argsort(validation.texts.sizes, kind="stable")
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    for i in range(0, len(order), VALIDATED):
        ids, counts, labels = validation.batch(team.part(order[i : i + VALIDATED]), device)
        scores = network(ids, counts)
        found = (scores[:, 0] > 0).long() if scores.shape[1] == 1 else scores.argmax(1)
        sums += torch.stack([_losses(scores, labels, factors).sum(), (found == labels).sum()]).double()
    team.add([sums])
    loss, right = (sums / len(order)).tolist()
    return Epoch(number, train_loss, loss, right)


def _should_stop(history: list[Epoch], recipe: Recipe) -> bool:
    """Whether the last epochs were all worse than an earlier one."""
    if recipe.patience is None or not history:
        return False
    return len(history) - 1 - max(history, key=lambda epoch: epoch.quality).number >= recipe.patience


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
