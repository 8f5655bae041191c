"""Where a training run stands, in one file that is written whole: safetensors with JSON beside the numbers."""

import json
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hardmax._errors import ParameterError
from hardmax._files import written_whole
from hardmax._types import FloatArray
from hardmax.text.model import Epoch
from hardmax.text.network import Network
from hardmax.text.settings import TrainingSettings
from hardmax.text.vocabulary import Data

FORMAT = "hardmax-checkpoint"


def fingerprint(network: Network, settings: TrainingSettings, epochs: int, data: Data, weights: FloatArray) -> str:
    """Says whether a checkpoint belongs to a run: its settings, its first weights and all it learns from."""
    values = [getattr(settings, each.name) for each in fields(TrainingSettings)]
    digest = sha256(repr((values, epochs, network.heads, network.d, network.groups, network.layers)).encode())
    start = [p.detach().cpu().numpy() for p in network.parameters()]
    for array in (*data.texts, data.labels, weights, *start, *([] if data.weights is None else [data.weights])):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save(
    path: Path,
    network: Network,
    best: dict[str, Tensor],
    optimiser: torch.optim.Optimizer,
    history: list[Epoch],
    run: str,
) -> None:
    """Replace the checkpoint of a run by a new one; a kill leaves the old one or the new one."""
    from safetensors.torch import save_file

    adam = optimiser.state_dict()["state"]  # by number of the parameter
    tensors = {f"now.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    tensors |= {f"adam.{i}.{key}": torch.as_tensor(value) for i, entry in adam.items() for key, value in entry.items()}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    state = json.dumps({"fingerprint": run, "history": [asdict(epoch) for epoch in history]})
    with written_whole(path) as temporary:
        save_file(plain, temporary, metadata={"format": FORMAT, "state": state})


def restore(
    path: Path, network: Network, optimiser: torch.optim.Optimizer, run: str
) -> tuple[list[Epoch], dict[str, Tensor]]:
    """Bring network and optimiser to where a run stood; returns its epochs and the best weights so far."""
    from safetensors import SafetensorError, safe_open

    parts: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "adam": {}}
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads((file.metadata() or {})["state"])
            for name in file.keys():  # noqa: SIM118
                kind, rest = name.split(".", 1)
                parts[kind][rest] = file.get_tensor(name)
    except (SafetensorError, KeyError, ValueError) as problem:
        got, advice = f"a file that is broken or something else ({type(problem).__name__})", "Delete it, or train with"
        raise ParameterError(path, "be a checkpoint of a training run", got, f"{advice} `resume=False`.") from None
    if state["fingerprint"] != run:
        must, advice = "come from a run with the same data and settings", "Use those, delete it, or train with"
        raise ParameterError(path, must, "one that comes from another", f"{advice} `resume=False`.")
    network.load_state_dict(parts["now"])
    adam = optimiser.state_dict()
    for name, tensor in parts["adam"].items():
        number, key = name.split(".")
        adam["state"].setdefault(int(number), {})[key] = tensor
    optimiser.load_state_dict(adam)
    return [Epoch(**epoch) for epoch in state["history"]], parts["best"]
