"""hardmax: why attention clusters.

The public names are below. `import hardmax` loads NumPy and SciPy and nothing optional; Matplotlib waits until a
picture is asked for, and python-flint until `exact=True` is.
"""

from hardmax import theorems
from hardmax.configurations import configuration
from hardmax.leaders import Leader, leader_table
from hardmax.limits import Limit, limit
from hardmax.polytope import Polytope
from hardmax.rules import Hardmax
from hardmax.simulate import simulate
from hardmax.trajectory import Trajectory

__version__ = "0.1.0"

__all__ = [
    "Hardmax",
    "Leader",
    "Limit",
    "Polytope",
    "Trajectory",
    "configuration",
    "leader_table",
    "limit",
    "simulate",
    "theorems",
]
