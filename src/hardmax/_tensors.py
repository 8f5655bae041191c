"""Torch tensors in, torch tensors out, without importing torch for anybody else."""

from typing import Any

import numpy as np

from hardmax._types import AnyArray


def is_tensor(value: Any) -> bool:
    """Whether this is a torch tensor."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def to_numpy(value: Any) -> Any:
    """A tensor as an array, without its gradient and from wherever it is; anything else as it came."""
    if not is_tensor(value):
        return value
    plain = value.detach().cpu()
    return (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()  # NumPy has no bfloat16


def like(array: AnyArray, value: Any) -> Any:
    """The array as a tensor of the kind and place of `value`, if that is one; else the array itself."""
    if not is_tensor(value):
        return array
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array)).to(value.device)
    return tensor.to(value.dtype) if value.dtype.is_floating_point else tensor
