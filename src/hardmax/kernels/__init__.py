"""How the largest products are found. This is the one place that picks a method.

Every method finds what `reference.near_maxima` finds, up to a rounding of the slack that the caller has allowed for, so
that the exact sets are the same. `docs/speed.md` says what wins where.
"""

from importlib import import_module
from typing import Any

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

TORCH = {"HardmaxAttention": "one_layer", "hardmax_attention": "one_layer", "hardmax_layers": "layers"}  # public here


def __getattr__(name: str) -> Any:
    """Load what needs torch when it is asked for."""
    if name in TORCH:
        try:
            module = import_module(f"hardmax.attention.{TORCH[name]}")
        except ImportError as error:
            from hardmax._errors import MissingExtra

            raise MissingExtra(f"`hardmax.kernels.{name}`", "torch", "text") from error
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
