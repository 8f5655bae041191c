"""Where a training run stands, in one file that is written whole: safetensors with JSON beside the numbers."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax.sentiment.recipe import Recipe
from hardmax.sentiment.vocabulary import Encoded

FORMAT = "hardmax-checkpoint"


def fingerprint(recipe: Recipe, shape: Any, *data: Encoded | Any) -> str:
    """Says whether a checkpoint belongs to a run: its settings and all it learns from."""
    digest = sha256(repr((recipe, shape)).encode())
    for part in data:
        for array in part if isinstance(part, Encoded) else (part,):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def write(path: Path, tensors: dict[str, Any], state: dict[str, Any]) -> None:
    """Replace the checkpoint by a new one; a kill leaves the old one or the new one."""
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with written_whole(path) as temporary:
        save_file(plain, temporary, metadata={"format": FORMAT, "state": json.dumps(state)})


def read(path: Path, expected: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and state of a checkpoint of the same run; a sentence if it is another's or broken."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state = json.loads(metadata["state"])
    except (SafetensorError, KeyError, ValueError) as problem:
        raise ParameterError(
            path,
            "be a checkpoint of a training run",
            f"a file that is broken or something else ({type(problem).__name__})",
            "Delete it, or train with `resume=False`.",
        ) from None
    if state["fingerprint"] != expected:
        raise InputError(
            f"`{path}` must come from a run with the same data and settings. It comes from another. Use those, delete "
            "it, or train with `resume=False`."
        )
    return tensors, state


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """What Adam remembers, by number of the parameter."""
    saved = optimiser.state_dict()["state"]
    return {f"adam.{i}.{key}": torch.as_tensor(value) for i, entry in saved.items() for key, value in entry.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Any]) -> None:
    """Undo `optimiser_tensors`."""
    state = optimiser.state_dict()
    for name, tensor in tensors.items():
        if name.startswith("adam."):
            _, number, key = name.split(".")
            state["state"].setdefault(int(number), {})[key] = tensor
    optimiser.load_state_dict(state)
