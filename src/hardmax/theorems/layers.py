"""F1 to F4: what each layer does to the hull, to norms, to who attracts whom, and to leaders."""

import numpy as np

from hardmax._exact import apply, dot, format_down, format_up
from hardmax._types import FloatArray
from hardmax.theorems import base
from hardmax.theorems.base import PAPER, Statement, Verdict, given, verdict
from hardmax.trajectories.hardmax import HardmaxTrajectory


@Statement(
    "F1 hull",
    "The convex hull of the tokens of a layer lies inside that of the layer before.",
    f"{PAPER}, section 3.3",
)
@given(base.missing_hypotheses)
def hull(trajectory: HardmaxTrajectory) -> Verdict:
    """Show each new token as the convex combination (1 - b) z_i + b mean(C_i) of old ones, up to rounding.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=10)
    >>> hm.theorems.hull(trajectory).outcome.value
    'holds'
    """
    if trajectory.layers == 0:
        return verdict(True, "No layer was run.")
    (worst, witness), allowed = base.largest_at(trajectory, base.misses(trajectory)), base.rounding(trajectory)
    up_to = f"up to {format_up(worst, 2)} of the largest one (rounding: {allowed:.2g})"
    reason = f"Every token is a convex combination of tokens a layer before, {up_to}."
    return verdict(worst <= allowed, reason, margin=allowed - worst, witness=witness)


@Statement(
    "F2 norm",
    "|z_i|_A never decreases, and grows strictly unless the token stands still: unless z_i is the mean of C_i.",
    f"{PAPER}, section 3; a leader stands still, and so does a token in the middle of those it follows",
)
@given(base.missing_hypotheses)
def norm(trajectory: HardmaxTrajectory) -> Verdict:
    """Compare squared norms of neighbouring layers; where floats cannot tell, exact positions do.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=10)
    >>> hm.theorems.norm(trajectory).outcome.value
    'holds'
    """
    Z, AZ, sure = _images(trajectory)
    squares = (AZ * Z).sum(axis=-1)  # (layers + 1, m)
    growth = np.diff(squares, axis=0)
    for k, sets in enumerate(trajectory.token_sets[0].sets[:-1]):
        stays = (sets.sizes == 1) & (sets.targets == np.arange(len(sets)))
        for i in np.flatnonzero(~stays & (np.abs(growth[k]) <= sure)):
            growth[k, i] = _exact_growth(trajectory, k, int(i))
        growth[k, stays] = np.inf  # F4 tests that leaders stand still
    smallest = float(growth.min(initial=np.inf))
    if smallest == np.inf:
        return verdict(True, "No token moves.")
    k, i = divmod(int(growth.argmin()), growth.shape[1])
    reason = f"The smallest growth of a squared norm, relative to the largest token, is {format_down(smallest, 2)}."
    witness = {"layer": k, "token": base.token_of(trajectory, i)}
    return verdict(smallest > 0, reason, margin=smallest, witness=witness)


@Statement(
    "F3 half-space",
    "Tokens that attract z_i lie in the closed half-space {z : <A z_i, z - z_i> >= 0}.",
    f"{PAPER}, Figure 1",
)
@given(base.missing_hypotheses)
def half_space(trajectory: HardmaxTrajectory) -> Verdict:
    """Compute <A z_i, z_j - z_i> for every j in C_i at every layer; exactly where it is too close to 0 for floats.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=10)
    >>> hm.theorems.half_space(trajectory).outcome.value
    'holds'
    """
    Z, AZ, sure = _images(trajectory)
    smallest, witness = np.inf, None
    for k, sets in enumerate(trajectory.token_sets[0].sets):
        owner = np.repeat(np.arange(len(sets)), sets.sizes)
        ahead = (AZ[k, owner] * (Z[k, sets.members] - Z[k, owner])).sum(axis=1)
        ahead[owner == sets.members] = np.inf  # z_i itself lies on the boundary, whatever A is
        for p in np.flatnonzero(np.abs(ahead) <= sure):
            ahead[p] = _exact_sign(trajectory, k, int(owner[p]), int(sets.members[p]))
        least = int(ahead.argmin())
        if ahead[least] < smallest:
            smallest = float(ahead[least])
            i, j = (base.token_of(trajectory, int(side[least])) for side in (owner, sets.members))
            witness = {"layer": k, "token": i, "attracted by": j}
    if witness is None:
        return verdict(True, "Every token leads, so none attracts another.")
    reason = (
        f"The smallest <A z_i, z_j - z_i> over j in C_i, relative to the largest token, is {format_down(smallest, 2)}."
    )
    return verdict(smallest >= 0, reason, margin=smallest, witness=witness)


@Statement(
    "F4 leaders",
    "A token with C_i = {i} at some layer never moves again, and at least one token leads.",
    f"{PAPER}, Lemma 5.1",
)
@given(base.missing_hypotheses)
def leaders(trajectory: HardmaxTrajectory) -> Verdict:
    """Measure how far each leader moves after it emerged, and ask at every later layer whether C_i = {i} still.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=10)
    >>> hm.theorems.leaders(trajectory).outcome.value
    'holds'
    """
    Z, emerged = base.unit_tokens(trajectory), trajectory.token_sets[0].emerged
    found = np.flatnonzero(emerged >= 0)
    if not len(found):
        return verdict(False, "No token leads.")
    moved = [float(np.abs(Z[emerged[i] :, i] - Z[emerged[i], i]).max()) for i in found]
    sets, _ = base.evidence(trajectory)
    for i in found:
        lost = [k for k in range(emerged[i], trajectory.layers + 1) if sets[k][i].tolist() != [i]]
        if lost:
            where = {"layer": lost[0], "token": base.token_of(trajectory, int(i))}
            return verdict(False, f"Token {where['token']} stops leading at layer {lost[0]}.", witness=where)
    worst = max(moved)
    at_most = format_up(worst, 2)
    reason = f"{len(found)} of {len(emerged)} tokens lead; after that they move by {at_most} of the largest token."
    witness = {"token": base.token_of(trajectory, int(found[moved.index(worst)]))}
    return verdict(worst == 0, reason, margin=-worst if worst else 0.0, witness=witness)


def _images(trajectory: HardmaxTrajectory) -> tuple[FloatArray, FloatArray, float]:
    """Unit tokens z, A z with A scaled to at most 1, and what <A z, z'> may be off by."""
    A, Z = trajectory.rule.metric.A, base.unit_tokens(trajectory)
    d = Z.shape[-1]
    size = d if A is None else float(np.abs(A).sum())
    return Z, trajectory.rule.images(Z), 4 * d * size * base.rounding(trajectory)


def _exact_growth(trajectory: HardmaxTrajectory, layer: int, i: int) -> float:
    """Sign of |z_i^{k+1}|_A^2 - |z_i^k|_A^2 from integers, as a tiny number; infinite if z_i does not move at all."""
    history, A = trajectory.history, trajectory.rule.metric.rows
    (old,), (new,) = history.at(layer, [i]), history.at(layer + 1, [i])
    scale = history.denominator(layer + 1) // history.denominator(layer)
    if new == tuple(scale * x for x in old):
        return np.inf
    before = dot(apply(A, old), old) * scale**2
    after = dot(apply(A, new), new)
    return 1e-300 * ((after > before) - (after < before))


def _exact_sign(trajectory: HardmaxTrajectory, layer: int, i: int, j: int) -> float:
    """The sign of <A z_i, z_j - z_i> from integers, as a tiny number."""
    here, there = trajectory.history.at(layer, [i, j])
    Az = apply(trajectory.rule.metric.rows, here)
    product = dot(Az, there) - dot(Az, here)
    return 1e-300 * ((product > 0) - (product < 0))
