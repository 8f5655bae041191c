"""Training after a random start, in torch: the network, batches, dropout, validation
and checkpoints.

In every step each group of heads sees its own random part of a text's tokens. That
reduces overfitting to single words, and makes the groups different, so that their mean
is more accurate than each of them.

Several processes started by `torchrun` may train one network together; usually there is
one.
"""

import json
import math
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.optim import AdamW, Optimizer

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.attention.layers import hardmax_layers
from hardmax.text.encoder import find_device
from hardmax.text.model import Epoch, Model, Report, Weights
from hardmax.text.parameters import TRAINING, Parameters, parameter_names
from hardmax.text.processes import Process
from hardmax.text.validation import TrainingSet, hold_out
from hardmax.text.vocabulary import Data, Encoded, Vocabulary

NGRAM_RANGE, MIN_DF = (1, 3), 3  # defaults
MIN_EPOCHS, MIN_STEPS = 5, 600  # default number of epochs, or more for few texts
MAX_ALPHA = 1e30  # the step size is 1 then
DECODER_NORM = 0.5  # initial, times the square root of d
CHECKPOINT_FORMAT = "hardmax-checkpoint"
SORTED_BATCHES = (
    32  # batches within which texts are sorted by length, to reduce padding
)
WARM_UP = 0.15  # fraction of all steps
VALIDATION_BATCH = 128  # texts
DECODER_RATE = 0.002
MAX_GRADIENT = 5.0  # norm of the gradient of all parameters but the embedding
DIVERGED = (
    "The loss of training must stay finite. It is not. Lower `learning_rate` or"
    " `scale`."
)


class Problem(NamedTuple):
    """Texts as tokens, split into those to learn from and those held out."""

    vocabulary: Vocabulary
    learned: Data
    held: Data | None
    held_rows: IntArray


def fit_network(
    data: TrainingSet, parameters: Parameters, report: Report
) -> tuple[Model, list[Epoch]]:
    """Train a network from random weights; return the model and the epochs."""
    problem = prepare(data, parameters)
    network = new_network(len(problem.vocabulary), len(data.classes), parameters)
    history = train(network, problem, parameters, report)
    return Model(problem.vocabulary, network.weights(), data.classes), history


def prepare(data: TrainingSet, parameters: Parameters) -> Problem:
    """Hold out texts in whole groups, and build a vocabulary from the others.

    The weight of a text is its sample weight, with mean 1 over the texts to learn from,
    times that of its class.
    """
    held = hold_out(
        data.labels, parameters.validation, parameters.random_state, data.groups
    )
    learned = np.setdiff1d(np.arange(len(data.labels)), held)
    texts, labels = [data.texts[i] for i in learned], data.labels[learned]
    vocabulary = Vocabulary.build(
        texts, parameters, labels, ngram_range=NGRAM_RANGE, min_df=MIN_DF
    )
    of_class = compute_class_weight(
        parameters.class_weight, classes=data.classes, y=data.classes[labels]
    )
    weights = of_class.astype(np.float32)[data.labels]
    if data.weights is not None:
        weights = weights * (data.weights / data.weights[learned].mean()).astype(
            np.float32
        )
    encoded = vocabulary.encode(data.texts)
    split = [
        Data(encoded.take(rows), data.labels[rows], weights[rows])
        for rows in (learned, held)
    ]
    return Problem(vocabulary, split[0], split[1] if len(held) else None, held)


class Network(nn.Module):
    """In each group logit = beta + v . mean_i z_i^K, where z^0 is the embedding of a
    text's tokens.

    There is one output for two classes, else one per class. Each head trains an alpha
    of its own, the softplus of a parameter.
    """

    def __init__(self, tokens: int, outputs: int, parameters: Parameters) -> None:
        super().__init__()
        heads, d = parameters.n_heads, parameters.d
        self.heads, self.d, self.groups, self.layers = (
            heads,
            d,
            parameters.groups,
            parameters.layers,
        )
        self.group_width = heads * d // parameters.groups  # coordinates of a group
        self.embedding = nn.Parameter(
            parameters.scale / self.group_width * torch.randn(tokens, heads * d)
        )
        directions = nn.functional.normalize(torch.randn(outputs, heads, d), dim=-1)
        self.decoder = nn.Parameter(DECODER_NORM * d**0.5 * directions)
        self.bias = nn.Parameter(torch.zeros(parameters.groups, outputs))
        start = torch.full(
            (heads,), min(float(parameters.alpha), MAX_ALPHA), dtype=torch.float64
        )
        self.raw_alpha = nn.Parameter(
            (start + (-torch.expm1(-start)).log()).float()
        )  # inverse of softplus
        self.factor = (
            nn.Parameter(torch.eye(d).repeat(heads, 1, 1))
            if parameters.trained_A
            else None
        )

    @property
    def alpha(self) -> Tensor:
        return nn.functional.softplus(self.raw_alpha).clamp(
            torch.finfo(torch.float32).tiny, MAX_ALPHA
        )

    def tensors(self, *arrays: AnyArray) -> list[Tensor]:
        """Return arrays as tensors on the device of the network."""
        device = self.embedding.device
        return [
            torch.from_numpy(np.ascontiguousarray(x)).to(device, non_blocking=True)
            for x in arrays
        ]

    @property
    def A(self) -> Tensor | None:
        return None if self.factor is None else self.factor @ self.factor.mT

    def forward(
        self,
        ids: Tensor,
        counts: Tensor,
        kept: Tensor | None = None,
        attention: str = "hardmax",
        temperature: float = 1,
    ) -> Tensor:
        """Return (texts, groups, outputs) logits of the groups; the prediction is their
        mean.

        `ids`, (texts, n), are token indices; the padding should repeat the first token
        of a text. `counts`, (texts, groups or 1, n), are multiplicities in each group:
        0 for padding and for tokens that a group does not see. `kept`, (texts, n, heads
        * d), are dropout factors of the embedding. `attention` is "hardmax", or
        "softmax" for training.
        """
        texts, n = ids.shape
        heads, d, groups = self.heads, self.d, self.groups
        z = nn.functional.embedding(ids, self.embedding)
        z = z if kept is None else z * kept
        z = z.view(texts, n, heads, d).transpose(1, 2).reshape(texts * heads, n, d)
        seen = (
            counts.expand(-1, groups, -1)
            .repeat_interleave(heads // groups, 1)
            .reshape(texts * heads, n)
        )
        z = self._apply_layers(z, seen, attention, temperature).view(texts, heads, n, d)
        weight = seen.to(z.dtype) / seen.sum(1, keepdim=True).clamp(min=1)
        mean = torch.einsum("thnd,thn->thd", z, weight.view(texts, heads, n))
        logits = torch.einsum("thd,ohd->tho", mean, self.decoder)
        return logits.view(texts, groups, heads // groups, -1).sum(2) + self.bias

    def _apply_layers(
        self, z: Tensor, counts: Tensor, attention: str, temperature: float
    ) -> Tensor:
        texts = len(z) // self.heads
        alpha = self.alpha.repeat(texts)
        A = None if self.A is None else self.A.repeat(texts, 1, 1)
        if attention == "hardmax":
            return hardmax_layers(z, alpha, self.layers, A=A, counts=counts)
        step = (alpha / (1 + alpha))[:, None, None]
        empty = counts.sum(1, keepdim=True) == 0
        log_counts = (
            counts.to(z.dtype).log().masked_fill(empty, 0)[:, None, :]
        )  # -inf for padding
        for _ in range(self.layers):
            scores = (z if A is None else z @ A) @ z.mT / temperature
            z = z + step * ((scores + log_counts).softmax(-1) @ z - z)
        return z

    def weights(self) -> Weights:
        """Return the weights for inference. The mean over groups is part of the
        decoder, so that heads add.
        """
        parts = (
            self.embedding,
            self.alpha.double(),
            self.decoder.double(),
            self.bias.double(),
        )
        embedding, alpha, decoder, bias = (
            part.detach().cpu().numpy() for part in parts
        )
        A = None if self.A is None else self.A.detach().cpu().double().numpy()
        A = A if A is None else (A + A.swapaxes(1, 2)) / 2
        embedding, decoder = (
            embedding.reshape(-1, self.heads, self.d),
            decoder / self.groups,
        )
        return Weights(embedding, alpha, A, decoder, bias.mean(axis=0), self.layers)


def new_network(
    tokens: int, classes: int, parameters: Parameters, kind: type[Network] = Network
) -> Network:
    """Return a network whose initial weights depend on `random_state` only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(parameters.random_state)
        return kind(tokens, 1 if classes == 2 else classes, parameters)


def train(
    network: Network,
    problem: Problem,
    parameters: Parameters,
    report: Report,
    *,
    served: str = "hardmax",
) -> list[Epoch]:
    """Train a network in place; it keeps the last weights, or those of an epoch that
    was clearly better.

    `served` is the attention of validation. A checkpoint is written after every epoch;
    a resumed run has the same result as an undisturbed one. `report` is called after
    every step and epoch.
    """
    network.to(find_device(parameters.device))
    data, validation = problem.learned, problem.held
    texts = len(data.labels) + len(problem.held_rows)
    epochs = parameters.epochs or max(
        MIN_EPOCHS, -(-MIN_STEPS * parameters.batch_size // texts)
    )
    file = None if parameters.checkpoint is None else Path(parameters.checkpoint)
    optimiser = _optimiser(network, parameters)
    run = fingerprint(network, parameters, epochs, data)
    history: list[Epoch] = []
    best = network.state_dict()
    if parameters.resume and file is not None and file.exists():
        history, best = restore_checkpoint(file, network, optimiser, run)
    per_epoch = -(-len(data.labels) // parameters.batch_size)
    steps = epochs * per_epoch
    for number in range(len(history), epochs):
        best_epoch = max(history, key=lambda epoch: epoch.quality, default=None)
        if (
            parameters.patience is not None
            and best_epoch
            and number - 1 - best_epoch.number >= parameters.patience
        ):
            break
        total: Any = 0.0
        for k, batch in enumerate(batches(parameters, number, data.texts.sizes)):
            done = number * per_epoch + k
            for part in optimiser.param_groups:
                part["lr"] = part["full_rate"] * rate((done + 1) / (steps + 1))
            loss = _step(network, optimiser, data, batch, parameters, done)
            total = total + loss * len(batch)
            report(done + 1, steps, loss, None)
        if not np.isfinite(float(total)):
            raise InputError(DIVERGED)
        epoch = Epoch(number, float(total) / len(data.labels))
        if validation is not None:
            measured = evaluate(network, validation, served, parameters.temperature)
            epoch = replace(epoch, loss=measured[0], accuracy=measured[1])
        history.append(epoch)
        if epoch.quality >= max(each.quality for each in history):
            best = {
                name: tensor.detach().clone()
                for name, tensor in network.state_dict().items()
            }
        if file is not None and Process.current().is_first:
            save_checkpoint(file, network, best, optimiser, history, run)
        report((number + 1) * per_epoch, steps, epoch.train_loss, epoch)
    kept = len(history) - 1
    if validation is not None:
        # The learning rate is 0 after the last epoch, so an earlier one must be better
        # by a standard error. A run that was stopped early keeps the best.
        top = max(history, key=lambda epoch: epoch.quality)
        error = (top.quality[0] * (1 - top.quality[0]) / len(validation.labels)) ** 0.5
        if len(history) < epochs or top.quality[0] - history[-1].quality[0] > error:
            network.load_state_dict(best)
            kept = top.number
    return [replace(epoch, kept=epoch.number == kept) for epoch in history]


def rate(done: float, warm_up: float = WARM_UP) -> float:
    """Return the factor of all learning rates after a fraction `done` of all steps:
    linear warm-up, then a cosine.
    """
    if done < warm_up:
        return done / warm_up
    return (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up))) / 2


def batches(parameters: Parameters, epoch: int, sizes: IntArray) -> list[IntArray]:
    """Return random batches of texts of similar length; they depend on the seed and the
    epoch only.
    """
    random, size = (
        np.random.default_rng([parameters.random_state, epoch]),
        parameters.batch_size,
    )
    order = random.permutation(len(sizes))
    found = []
    for i in range(0, len(order), SORTED_BATCHES * size):
        some = order[i : i + SORTED_BATCHES * size]
        by_length = some[np.argsort(sizes[some], kind="stable")]
        found += [by_length[i : i + size] for i in range(0, len(by_length), size)]
    return [found[i] for i in random.permutation(len(found))]


def make_batch(
    parameters: Parameters,
    texts: Encoded,
    groups: int,
    width: int,
    step: int,
    part: slice,
) -> tuple[IntArray, AnyArray, AnyArray | None]:
    """Return a part of a batch with dropout, as the first arguments of
    `Network.forward`.

    Random numbers are drawn for the whole batch, so that they do not depend on the
    number of processes.
    """
    random = np.random.default_rng([parameters.random_state, 10_000, step])
    some = np.arange(len(texts))[part]
    ids, counts = texts.take(some).padded()
    places, real = texts.places(some), counts > 0
    seen, factors = np.zeros((*ids.shape, groups), np.int32), None
    seen[real] = (
        _draw_tokens(texts, parameters.dropout, groups, random)[places]
        * texts.counts[places, None]
    )
    if parameters.embedding_dropout:
        kept = (
            random.random((len(texts.ids), width), np.float32)
            >= parameters.embedding_dropout
        )
        factors = np.ones((*ids.shape, width), np.float32)
        factors[real] = (kept / np.float32(1 - parameters.embedding_dropout))[places]
    return ids, seen.transpose(0, 2, 1), factors


def _draw_tokens(
    texts: Encoded, dropout: float, groups: int, random: np.random.Generator
) -> BoolArray:
    """Return (m, groups) booleans: whether a group sees a token; a text that would lose
    all tokens keeps all.
    """
    if dropout == 0:
        return np.ones((len(texts.ids), groups), bool)
    kept = random.random((len(texts.ids), groups), np.float32) >= dropout
    owners = np.repeat(np.arange(len(texts)), texts.sizes)
    before = np.zeros((len(kept) + 1, groups), np.int64)
    np.cumsum(kept, axis=0, out=before[1:])
    left = np.diff(before[texts.starts], axis=0)  # (texts, groups)
    return kept | (left == 0)[owners]


def _optimiser(network: Network, parameters: Parameters) -> Optimizer:
    """Return AdamW; parameters that all tokens share do not decay and have a smaller
    rate.
    """
    rate = parameters.learning_rate / network.group_width
    parts: list[dict[str, Any]] = [
        {
            "params": [network.embedding],
            "lr": rate,
            "weight_decay": parameters.weight_decay,
        },
        {"params": [network.decoder, network.bias], "lr": DECODER_RATE},
        {"params": [network.raw_alpha], "lr": parameters.alpha_rate},
    ]
    if network.factor is not None:
        parts.append({"params": [network.factor], "lr": DECODER_RATE})
    optimiser = AdamW(parts, betas=(0.9, 0.99), weight_decay=0.0, fused=True)
    for part in optimiser.param_groups:
        part["full_rate"] = part["lr"]
    return optimiser


def _step(
    network: Network,
    optimiser: Optimizer,
    data: Data,
    texts: IntArray,
    parameters: Parameters,
    number: int,
) -> Tensor:
    """Make one step of the optimiser on this process's part of a batch; return the mean
    loss as a tensor.
    """
    process, some, width = (
        Process.current(),
        data.texts.take(texts),
        network.heads * network.d,
    )
    *arrays, factors = make_batch(
        parameters, some, network.groups, width, number, process.part
    )
    own = texts[process.part]
    ids, counts, labels, weights = network.tensors(
        *arrays, data.labels[own], data.weights[own]
    )
    kept = None if factors is None else network.tensors(factors)[0]
    optimiser.zero_grad()
    try:
        scores = network(ids, counts, kept, parameters.training, parameters.temperature)
    except ValueError:
        if torch.isfinite(network.embedding).all():
            raise
        raise InputError(DIVERGED) from None  # the kernels raise ValueError for NaN
    # every group is a classifier, and their losses add
    every = labels[:, None].expand(scores.shape[:2])
    loss = _losses(
        scores, every, weights[:, None], parameters.label_smoothing
    ).sum() / len(texts)
    loss.backward()
    value = loss.detach() / network.groups
    process.add([*(p.grad for p in network.parameters() if p.grad is not None), value])
    others = [p for name, p in network.named_parameters() if name != "embedding"]
    torch.nn.utils.clip_grad_norm_(others, MAX_GRADIENT)
    optimiser.step()
    return value


def _losses(
    scores: Tensor, labels: Tensor, weights: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Return (...) weighted cross-entropies of (..., outputs) logits."""
    if scores.shape[-1] == 1:
        wanted = labels.to(scores.dtype) * (1 - smoothing) + smoothing / 2
        return weights * binary_cross_entropy_with_logits(
            scores[..., 0], wanted, reduction="none"
        )
    flat = cross_entropy(
        scores.flatten(0, -2),
        labels.flatten(),
        reduction="none",
        label_smoothing=smoothing,
    )
    return weights * flat.view(labels.shape)


@torch.no_grad()
def evaluate(
    network: Network, data: Data, attention: str, temperature: float
) -> tuple[float, float]:
    """Return the mean loss and the accuracy of the mean over groups."""
    process, order = Process.current(), np.argsort(data.texts.sizes, kind="stable")
    sums = torch.zeros(2, dtype=torch.float64, device=network.embedding.device)
    for i in range(0, len(order), VALIDATION_BATCH):
        some = order[i : i + VALIDATION_BATCH][process.part]
        if not len(some):
            continue
        arrays = (
            *data.texts.take(some).padded(),
            data.labels[some],
            data.weights[some],
        )
        ids, counts, labels, weights = network.tensors(*arrays)
        scores = network(ids, counts[:, None], None, attention, temperature).mean(1)
        found = (scores[:, 0] > 0).long() if scores.shape[1] == 1 else scores.argmax(1)
        losses = _losses(scores, labels, weights)
        sums += torch.stack([losses.sum(), (found == labels).sum()]).double()
    process.add([sums])
    loss, right = (sums / len(order)).tolist()
    return loss, right


def fingerprint(
    network: Network, parameters: Parameters, epochs: int, data: Data
) -> str:
    """Return a hash of the parameters, the initial weights and the data of a run."""
    values = [getattr(parameters, name) for name in parameter_names(TRAINING)]
    digest = sha256(
        repr(
            (values, epochs, network.heads, network.d, network.groups, network.layers)
        ).encode()
    )
    start = [p.detach().cpu().numpy() for p in network.parameters()]
    for array in (*data.texts, data.labels, data.weights, *start):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save_checkpoint(
    path: Path,
    network: Network,
    best: dict[str, Tensor],
    optimiser: Optimizer,
    history: list[Epoch],
    run: str,
) -> None:
    """Replace the checkpoint of a run; a kill leaves the old one or the new one."""
    from safetensors.torch import save_file

    adam = optimiser.state_dict()["state"]  # by number of the parameter
    tensors = {f"now.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    tensors |= {
        f"adam.{i}.{key}": torch.as_tensor(value)
        for i, entry in adam.items()
        for key, value in entry.items()
    }
    plain = {
        name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()
    }
    state = json.dumps(
        {"fingerprint": run, "history": [asdict(epoch) for epoch in history]}
    )
    with written_whole(path) as temporary:
        save_file(
            plain, temporary, metadata={"format": CHECKPOINT_FORMAT, "state": state}
        )


def restore_checkpoint(
    path: Path, network: Network, optimiser: Optimizer, run: str
) -> tuple[list[Epoch], dict[str, Tensor]]:
    """Restore network and optimiser from a checkpoint; return its epochs and the best
    weights so far.
    """
    from safetensors import SafetensorError, safe_open

    parts: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "adam": {}}
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads((file.metadata() or {})["state"])
            for name in file.keys():  # noqa: SIM118
                kind, rest = name.split(".", 1)
                parts[kind][rest] = file.get_tensor(name)
    except (SafetensorError, KeyError, ValueError) as problem:
        got, advice = (
            f"a damaged file or another format ({type(problem).__name__})",
            "Delete it, or train with",
        )
        raise ParameterError(
            path, "be a checkpoint of a training run", got, f"{advice} `resume=False`."
        ) from None
    if state["fingerprint"] != run:
        must, advice = (
            "come from a run with the same data and parameters",
            "Use those, delete it, or train with",
        )
        raise ParameterError(
            path, must, "a checkpoint of another run", f"{advice} `resume=False`."
        )
    network.load_state_dict(parts["now"])
    adam = optimiser.state_dict()
    for name, tensor in parts["adam"].items():
        number, key = name.split(".")
        adam["state"].setdefault(int(number), {})[key] = tensor
    optimiser.load_state_dict(adam)
    return [Epoch(**epoch) for epoch in state["history"]], parts["best"]
