"""How the largest products are found, and the exact sets of one layer; README.md here has the contract.

What torch needs is in `hardmax.attention`, and public here.
"""

from importlib import import_module
from typing import Any

from hardmax._errors import needed_for
from hardmax.kernels.maximisers import maximisers
from hardmax.kernels.search import KERNELS, Search, check_kernel

__all__ = [
    "KERNELS",
    "HardmaxAttention",
    "Search",
    "check_kernel",
    "hardmax_attention",
    "hardmax_layers",
    "maximisers",
]

# Loaded when it is asked for.
TORCH = {"HardmaxAttention": "one_layer", "hardmax_attention": "one_layer", "hardmax_layers": "layers"}


def __getattr__(name: str) -> Any:
    if name in TORCH:
        with needed_for(f"`hardmax.kernels.{name}`", "torch", "text"):
            return getattr(import_module(f"hardmax.attention.{TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
