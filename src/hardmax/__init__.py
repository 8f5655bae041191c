"""hardmax: why attention clusters.

The public names are below. `import hardmax` loads NumPy and nothing optional. Parts of
SciPy load when they are used, and so does the rest: `hardmax.draw` loads Matplotlib for
the first picture, `hardmax.inspect` the transformers library, `hardmax.control` CVXPY,
`hardmax.sweep` and `hardmax.predict_files` Dask, the estimators scikit-learn,
`hardmax.hardmax_attention` torch, large inputs numba, and `exact=True` python-flint.
The functions `simulate` and `limit` take the place of the modules they are written in.
"""

from importlib import import_module
from typing import Any

from hardmax import temperature, theorems
from hardmax._errors import (
    InputError,
    MissingExtra,
    ParameterError,
    ParameterIndexError,
    ParameterTypeError,
    needed_for,
)
from hardmax._limit import limit
from hardmax._simulate import simulate
from hardmax._version import __version__ as __version__
from hardmax.causal_limit import CausalLimit
from hardmax.cells import Cells, cells
from hardmax.certificate import check_certificate
from hardmax.configurations import configuration, matrix
from hardmax.exact.argmax import argmax_sets
from hardmax.flows.classify import Expectation, classify
from hardmax.leaders import Leader, leader_table
from hardmax.polytope import Polytope
from hardmax.rules import (
    Compose,
    FeedForward,
    FrankWolfe,
    Hardmax,
    MultiHead,
    Normalize,
    SelfAttention,
    Softmax,
    Sphere,
)
from hardmax.sphere_clusters import circle_clusters, common_angle, renyi_centres
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.limit import Limit
from hardmax.trajectories.smooth import SmoothTrajectory

__all__ = [
    "CausalLimit",
    "Cells",
    "Compose",
    "Expectation",
    "FeedForward",
    "FrankWolfe",
    "Hardmax",
    "HardmaxTrajectory",
    "InputError",
    "Leader",
    "Limit",
    "MissingExtra",
    "MultiHead",
    "Normalize",
    "ParameterError",
    "ParameterIndexError",
    "ParameterTypeError",
    "Polytope",
    "SelfAttention",
    "SmoothTrajectory",
    "Softmax",
    "Sphere",
    "Trajectory",
    "argmax_sets",
    "cells",
    "check_certificate",
    "circle_clusters",
    "classify",
    "common_angle",
    "configuration",
    "leader_table",
    "limit",
    "matrix",
    "renyi_centres",
    "simulate",
    "temperature",
    "theorems",
]


LAZY = (
    "control",
    "draw",
    "scale",
    "text",
)  # packages that load CVXPY, Matplotlib, Dask or scikit-learn
MODULES = {  # load torch, widgets, scikit-learn, transformers or Dask
    "attention.functional": ["HardmaxAttention", "hardmax_attention"],
    "attention.layers": ["hardmax_layers"],
    "app.notebook": ["playground"],
    "cluster": ["HardmaxClustering"],
    "draw.pages": ["interactive"],
    "hull_cache": ["HullCache"],
    "transformers": ["inspect"],
    "scale": ["predict_files", "sweep"],
    "text": ["HardmaxClassifier", "pretrained"],
}
FUNCTIONS = {
    name: f"hardmax.{module}" for module, names in MODULES.items() for name in names
}


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return import_module(f"hardmax.{name}")
    if name in FUNCTIONS:
        if FUNCTIONS[name].startswith("hardmax.attention"):
            with needed_for(f"`hardmax.{name}`", "torch", "torch"):
                return getattr(import_module(FUNCTIONS[name]), name)
        return getattr(import_module(FUNCTIONS[name]), name)
    raise AttributeError(f"module 'hardmax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", *LAZY, *FUNCTIONS])
