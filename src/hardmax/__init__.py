"""hardmax: why attention clusters.

The public names are below. `import hardmax` loads NumPy and SciPy and nothing optional: `hardmax.plotting` and
`hardmax.movies` load Matplotlib when they are first asked for, and `exact=True` loads python-flint. The functions
`simulate` and `limit` take the place of the modules they are written in.
"""

from importlib import import_module
from typing import Any

from hardmax import theorems
from hardmax.configurations import configuration
from hardmax.hardmax_trajectory import HardmaxTrajectory
from hardmax.leaders import Leader, leader_table
from hardmax.limits import Limit, limit
from hardmax.polytope import Polytope
from hardmax.rules import Compose, FeedForward, Hardmax, MultiHead, Normalize, SelfAttention, Softmax, Sphere
from hardmax.simulate import simulate
from hardmax.smooth_trajectory import SmoothTrajectory
from hardmax.trajectory import Trajectory

__version__ = "0.1.0"

__all__ = [
    "Compose",
    "FeedForward",
    "Hardmax",
    "HardmaxTrajectory",
    "Leader",
    "Limit",
    "MultiHead",
    "Normalize",
    "Polytope",
    "SelfAttention",
    "SmoothTrajectory",
    "Softmax",
    "Sphere",
    "Trajectory",
    "configuration",
    "leader_table",
    "limit",
    "simulate",
    "theorems",
]


def __getattr__(name: str) -> Any:
    if name in ("movies", "plotting"):
        return import_module(f"hardmax.{name}")
    raise AttributeError(f"module 'hardmax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "movies", "plotting"])
