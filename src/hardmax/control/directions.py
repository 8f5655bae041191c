"""A direction in which vectors all point forward: the linear programme behind Theorems 5 and 7."""

import numpy as np
from scipy.optimize import linprog

from hardmax._types import FloatArray

FORWARD_TOL = 1e-8  # by which each must point forward, as a part of its length: programmes are solved to about 1e-9


def forward(vectors: FloatArray) -> FloatArray | None:
    """The p, |p| <= 1 in each coordinate, whose smallest ⟨p, v⟩ / |v| is largest; None where that is not positive."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    d = units.shape[1]
    found = linprog(  # maximise s such that <p, unit> >= s for all
        np.r_[np.zeros(d), -1.0],
        A_ub=np.column_stack([-units, np.ones(len(units))]),
        b_ub=np.zeros(len(units)),
        bounds=[(-1, 1)] * d + [(0, None)],
    )
    return None if found.x is None or found.x[d] <= FORWARD_TOL else np.asarray(found.x[:d])
