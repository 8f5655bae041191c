"""Where a training run stands, in one file that is written whole: safetensors with JSON beside the numbers."""

import json
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardmax._errors import ParameterError
from hardmax._files import written_whole
from hardmax._types import FloatArray
from hardmax.sentiment.network import Network
from hardmax.sentiment.settings import TrainingSettings
from hardmax.sentiment.vocabulary import Data

FORMAT = "hardmax-checkpoint"


def fingerprint(network: Network, settings: TrainingSettings, epochs: int, data: Data, weights: FloatArray) -> str:
    """Says whether a checkpoint belongs to a run: its settings, its first weights and all it learns from."""
    chosen = [getattr(settings, each.name) for each in fields(TrainingSettings)]
    digest = sha256(repr((chosen, epochs, network.heads, network.d, network.groups, network.layers)).encode())
    start = [p.detach().cpu().numpy() for p in network.parameters()]
    for array in (*data.texts, data.labels, weights, *start):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def write(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Replace the checkpoint by a new one; a kill leaves the old one or the new one."""
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with written_whole(path) as temporary:
        save_file(plain, temporary, metadata={"format": FORMAT, "state": json.dumps(state)})


def read(path: Path, expected: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of a checkpoint of the same run; a sentence if it is another's or broken."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state = json.loads(metadata["state"])
    except (SafetensorError, KeyError, ValueError) as problem:
        got, advice = f"a file that is broken or something else ({type(problem).__name__})", "Delete it, or train with"
        raise ParameterError(path, "be a checkpoint of a training run", got, f"{advice} `resume=False`.") from None
    if state["fingerprint"] != expected:
        must, advice = "come from a run with the same data and settings", "Use those, delete it, or train with"
        raise ParameterError(path, must, "one that comes from another", f"{advice} `resume=False`.")
    return tensors, state


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What Adam remembers, by number of the parameter."""
    saved = optimiser.state_dict()["state"]
    return {f"adam.{i}.{key}": torch.as_tensor(value) for i, entry in saved.items() for key, value in entry.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Undo `optimiser_tensors`."""
    state = optimiser.state_dict()
    for name, tensor in tensors.items():
        if name.startswith("adam."):
            _, number, key = name.split(".")
            state["state"].setdefault(int(number), {})[key] = tensor
    optimiser.load_state_dict(state)
