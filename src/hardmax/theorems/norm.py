"""F2: norms never decrease."""

import numpy as np

from hardmax import exact
from hardmax.theorems.base import PAPER, Statement, Verdict, class_tokens, images, missing_hypotheses, token_of
from hardmax.trajectory import Trajectory

STATEMENT = Statement(
    "F2 norm",
    "|z_i|_A never decreases, and grows strictly unless C_i = {i}.",
    f"{PAPER}, section 3",
)


def norm(trajectory: Trajectory) -> Verdict:
    """Compare squared norms of neighbouring layers; where floats cannot tell, exact positions do."""
    missing = missing_hypotheses(trajectory)
    if missing:
        return STATEMENT.not_met(missing)
    Z = class_tokens(trajectory)
    Z = Z / float(np.abs(Z).max())
    squares = (images(trajectory, Z) * Z).sum(axis=-1)  # (layers + 1, m)
    eps = float(np.finfo(trajectory.tokens.dtype).eps)
    sure = 64 * Z.shape[-1] ** 2 * eps * float(np.abs(squares).max())
    smallest, witness = np.inf, None
    for k, sets in enumerate(trajectory.clouds[0].sets[:-1]):
        growth = squares[k + 1] - squares[k]
        stays = (sets.sizes == 1) & (sets.targets == np.arange(len(sets)))
        for i in np.flatnonzero(~stays & (np.abs(growth) <= sure)):
            growth[i] = _exact_growth(trajectory, k, int(i))
        growth[stays] = np.inf  # a leader's norm is constant: F4 tests that it stands still
        if growth.min() < smallest:
            smallest = float(growth.min())
            witness = {"layer": k, "token": token_of(trajectory, int(growth.argmin()))}
    if witness is None:
        return STATEMENT.verdict(True, "Every token leads, so no norm changes.")
    return STATEMENT.verdict(
        smallest > 0,
        f"The smallest growth of a squared norm, relative to the largest token, is {smallest:.2g}.",
        margin=smallest,
        witness=witness,
    )


def _exact_growth(trajectory: Trajectory, layer: int, i: int) -> float:
    """Sign and relative size of |z_i^{k+1}|_A^2 - |z_i^k|_A^2, from integers."""
    history, A = trajectory.history, trajectory.rule.matrix
    rows = None if A is None else exact.over_one_denominator(A)[0]
    (old,), (new,) = history.at(layer, [i]), history.at(layer + 1, [i])
    before = exact.dot(exact.apply(rows, old), old) * history.denominator(layer + 1) ** 2
    after = exact.dot(exact.apply(rows, new), new) * history.denominator(layer) ** 2
    if after == before:
        return 0.0
    ratio = (after - before) / before
    return ratio if ratio else np.copysign(5e-324, after - before)
