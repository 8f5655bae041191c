"""When an answer in floats agrees with the exact sets.

A product in a float type of unit roundoff u, of tokens rounded to that type, is off by at most (d + 4) u |z_i| |z_j|.
So a method that goes by such products may take any token whose exact product is within twice that of the largest one.
Whatever it chooses has to be in the exact set, or within that distance.
"""

import numpy as np

from benchmarks.registry import Answer
from hardmax._types import AnyArray, FloatArray, IntArray

ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}


def choice(starts: IntArray, members: IntArray, tokens: AnyArray | None = None) -> Answer:
    """Exact sets, row after row, and the tokens they belong to if others are to be compared with them."""
    sets = {"starts": np.asarray(starts), "members": np.asarray(members)}
    return sets if tokens is None else sets | {"tokens": tokens}


def float_choice(chosen: IntArray, dtype: str, starts: IntArray | None = None) -> Answer:
    """One index a row, or sets with their starts, found with products of a float type."""
    chosen = np.asarray(chosen).ravel()
    starts = np.arange(len(chosen) + 1) if starts is None else starts
    return choice(starts, chosen) | {"roundoff": np.array(ROUNDOFF[dtype])}


def same_sets(ours: Answer, theirs: Answer) -> bool:
    """Whether an answer agrees with exact sets of (n, d) or (batch, n, d) tokens."""
    if "roundoff" in theirs:
        return _within_rounding(ours["tokens"].astype(np.float64), ours, theirs)
    return all(np.array_equal(ours[key], theirs[key]) for key in ("starts", "members"))


def _within_rounding(tokens: FloatArray, ours: Answer, theirs: Answer) -> bool:
    """Whether every member that a float method chose is as good as ours, up to its rounding."""
    n, d = tokens.shape[-2:]
    rows, flat = len(ours["starts"]) - 1, tokens.reshape(-1, d)
    sizes = np.diff(theirs["starts"])
    if len(sizes) != rows or sizes.min() < 1 or not ((theirs["members"] >= 0) & (theirs["members"] < n)).all():
        return False
    owner = np.repeat(np.arange(rows), sizes)
    best = ours["members"][ours["starts"][:-1]][owner]
    other = np.flatnonzero(best != theirs["members"])  # members of a tie differ too, by no product
    owner, cloud = owner[other], owner[other] // n * n
    differences = flat[cloud + best[other]] - flat[cloud + theirs["members"][other]]
    loss = np.einsum("id,id->i", flat[owner], differences)
    lengths = np.linalg.norm(tokens, axis=-1)
    largest = np.broadcast_to(lengths.max(axis=-1, keepdims=True), lengths.shape).ravel()[owner]
    return bool((loss <= 2 * (d + 4) * theirs["roundoff"] * lengths.ravel()[owner] * largest).all())
