"""
Exact ties, and the errors of floating-point comparison
=======================================================

Figure 2 of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ already has ties,
tokens halfway between two corners of a square, and a tie decides where a token ends. A
naive program finds :math:`\\mathcal{C}_i` by comparing floating-point products with
their maximum. After a few layers positions are rounded, equal products differ in the
last digit, and the set is another one. The error is not small: the token then converges
to another limit. This example counts such errors and measures the cost of exact sets.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY


def naive_run(
    Z: np.ndarray, layers: int
) -> tuple[list[np.ndarray], list[list[list[int]]]]:
    """What a notebook does: float products, compared with their maximum by ==."""
    positions, chosen = [Z], []
    for _ in range(layers + 1):
        products = Z @ Z.T
        chosen.append([np.flatnonzero(row == row.max()).tolist() for row in products])
        Z = np.stack(
            [
                z + (Z[members].mean(axis=0) - z) / 3
                for z, members in zip(Z, chosen[-1], strict=True)
            ]
        )
        positions.append(Z)
    return positions, chosen


# %%
# Sixty sets of lattice points in space, which are full of ties, for forty layers. For
# each run record the first layer at which a set is not the exact one, and the distances
# of the final tokens from the exact ones.

rng = np.random.default_rng(0)
LAYERS, first_error, worst = 40, [], (0.0, np.empty(0), np.empty(0), np.empty(0))
for _ in range(60):
    lattice = np.unique(rng.integers(-4, 5, (30, 3)), axis=0).astype(float)
    exact = hm.simulate(lattice, hm.Hardmax(0.5), layers=LAYERS)
    positions, chosen = naive_run(lattice, LAYERS)
    wrong = [
        k
        for k in range(LAYERS + 1)
        if chosen[k] != [members.tolist() for members in exact.sets(k)]
    ]
    first_error.append(wrong[0] if wrong else np.inf)
    off = np.linalg.norm(positions[LAYERS] - exact.array[-1], axis=1)
    if off.max() > worst[0]:
        worst = (
            off.max(),
            np.array(positions[: LAYERS + 1])[:, off.argmax()],
            exact.array[:, off.argmax()],
            lattice,
        )
failed = np.isfinite(first_error)
print(
    "Comparing floats with == chooses a set that exact arithmetic does not in"
    f" {failed.sum()} of 60 lattice runs."
)
print(f"The farthest wrong end is {worst[0]:.2f} from the right one.")
assert failed.sum() > 0

# %%
# Left: how many runs have gone wrong by a layer. Right: the token that errs most, on
# its way to the place where it should end, and to the one where rounding takes it.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.3), layout="constrained")
left.step(
    range(LAYERS + 1),
    [(np.array(first_error) <= k).sum() for k in range(LAYERS + 1)],
    where="post",
    lw=2,
)
left.set(xlabel="layer", ylabel="runs with a wrong set so far, of 60", ylim=(0, None))
distance, wrong_way, right_way, start = worst
centred = np.concatenate([wrong_way, right_way]) - right_way[-1]
axes2 = np.linalg.svd(centred - centred.mean(axis=0), full_matrices=False)[2][
    :2
].T  # the plane in which the ways part
right.scatter(*(start @ axes2).T, s=14, color=GREY, label="other tokens at layer 0")
right.plot(*(right_way @ axes2).T, "o-", ms=4, color=COLOURS[0], label="exact sets")
right.plot(*(wrong_way @ axes2).T, "x--", ms=4, color=COLOURS[1], label="== on floats")
right.scatter(
    *(right_way[0] @ axes2), s=70, facecolors="none", edgecolors=EDGE, zorder=4
)
right.set(
    aspect="equal",
    xticks=[],
    yticks=[],
    title="one token, seen in the plane of both ways",
)
right.legend(
    fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, frameon=False
)
plt.show()

# %%
# The cost: the default finds the sets in floats, with a bound on the error, and
# compares exactly only those that are too close. Everything in rational numbers gives
# the same sets, and takes longer.

tokens = rng.normal(size=(1000, 3))
start = time.perf_counter()
default = hm.simulate(tokens, hm.Hardmax(0.5), layers=10)
middle = time.perf_counter()
rational = hm.simulate(tokens, hm.Hardmax(0.5, exact=True), layers=10)
end = time.perf_counter()
assert all(
    np.array_equal(a, b)
    for k in range(11)
    for a, b in zip(default.sets(k), rational.sets(k), strict=True)
)
print(
    f"The same sets as rational arithmetic, {(end - middle) / (middle - start):.0f}"
    f" times faster here: only {default.stats['sets_compared_exactly']} of"
    f" {default.stats['queries']} sets were too close for floats."
)

# %%
# What to try
# -----------
# The same lattice times 0.1 has no exact ties, as 0.1 is no binary fraction: pass
# ``Fraction(1, 10)`` to keep them. A tolerance would be another model: it makes ties of
# what is only close.
