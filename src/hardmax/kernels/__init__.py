"""How the largest products are found. This is the one place that picks a method.

Every method finds what `reference.near_maxima` finds, up to a rounding of the slack that the caller has allowed for, so
that the exact sets are the same. `docs/speed.md` says what wins where.
"""

from typing import Any

from hardmax.kernels.maximisers import maximisers
from hardmax.kernels.search import KERNELS, Search, check_kernel

__all__ = ["KERNELS", "HardmaxAttention", "Search", "check_kernel", "hardmax_attention", "maximisers"]


def __getattr__(name: str) -> Any:
    """Load what needs torch when it is asked for."""
    if name in ("HardmaxAttention", "hardmax_attention"):
        try:
            from hardmax.kernels import attention
        except ImportError as error:
            from hardmax._checks import missing_extra

            raise missing_extra(f"`hardmax.kernels.{name}`", "torch", "text") from error
        return getattr(attention, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
