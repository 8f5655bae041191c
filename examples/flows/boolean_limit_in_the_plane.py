"""
Attention need not become Boolean in the plane
==============================================

On a line all rows of the attention matrix but at most one tend to unit vectors: Theorem
2.1 of `arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_. Remark 7.9 of the paper
says why this does not extend to more dimensions: in exceptional configurations a token
attends to two leaders equally for all times. This example constructs such a
configuration, shows that it is unstable, and looks for others among random tokens.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE

# %%
# Four tokens at the corners of a square, and three on the axis of its reflection. With
# :math:`Q = K = V = I` the flow commutes with the reflection, so tokens on the axis
# stay on it, and each has equal scores for the two corners on its side. Their rows tend
# to :math:`(1/2, 1/2, 0, \ldots)`: three rows are exempt, where Theorem 2.1 allows one.

corners, on_axis = (
    np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]]),
    np.array([[0.5, 0], [0.3, 0], [-0.4, 0]]),
)
start = np.vstack([corners, on_axis])
times, rule = np.linspace(0, 5, 51), hm.SelfAttention()


def symmetrise(tokens):
    """Return the tokens without the rounding errors that break the reflection."""
    pairs = tokens[[0, 2]]
    return np.vstack([pairs, tokens[4:] * [1, 0]])[[0, 0, 1, 1, 2, 3, 4]] * [
        [1, s] for s in (1, -1, 1, -1, 1, 1, 1)
    ]


tokens, largest = start, []
for duration in np.diff(times, prepend=0):
    if duration:
        tokens = symmetrise(hm.simulate(tokens, rule, times=duration).tokens[-1])
    largest.append(hm.simulate(tokens, rule, times=0.01).attention(0)[4:].max(axis=1))
symmetric = np.array(largest)  # (times, tokens on the axis)
print("largest weight of the three rows at t = 5:", symmetric[-1])
assert np.allclose(symmetric[-1], 0.5, atol=1e-9)

# %%
# The configuration is unstable: in rescaled tokens the difference of the two scores is
# :math:`e^{2t} \langle z_i, z_1 - z_2 \rangle`, so a perturbation :math:`\varepsilon`
# grows like the exponential of :math:`e^{2t}`, and the time until the row is Boolean
# grows like :math:`\log\log(1/\varepsilon)`. Rounding errors are enough, which is why
# the run above restores the symmetry after every step.

sizes = 10.0 ** -np.arange(1, 15, 3)
runs = {}
for size in sizes:
    moved = start.copy()
    moved[4, 1] += size
    run = hm.simulate(moved, rule, times=times)
    runs[size] = np.array([run.attention(k)[4].max() for k in range(run.reached)])
decided = [times[np.argmax(weights > 0.99)] for weights in runs.values()]
for size, time in zip(sizes, decided, strict=True):
    print(f"perturbation {size:.0e}: Boolean from t = {time:.1f}")
assert all(weights[-1] > 1 - 1e-9 for weights in runs.values())
assert np.all(np.diff(decided) >= 0)
assert decided[-1] < 3

# %%
# A search: rows of random configurations that are not Boolean at the end.

rng, rows, exempt = np.random.default_rng(0), 0, 0
for _ in range(200):
    run = hm.simulate(rng.normal(size=(6, 2)), rule, times=np.array([0.0, 4.0, 8.0]))
    weights = run.attention(run.reached - 1).max(axis=1)
    rows, exempt = rows + len(weights), exempt + int((weights < 1 - 1e-6).sum())
print(f"{exempt} of {rows} rows of random configurations are not Boolean at the end.")

figure, (plane, ax) = plt.subplots(
    1, 2, figsize=(9, 3.8), layout="constrained", width_ratios=[1, 1.5]
)
plane.axhline(0, color=EDGE, lw=0.8, ls=":")
plane.scatter(*corners.T, s=110, marker="*", color=COLOURS[0], ec=EDGE, label="leaders")
plane.scatter(*on_axis.T, s=35, color=COLOURS[1], label="tokens on the axis")
plane.set(
    aspect="equal", xlabel="$z_1$", ylabel="$z_2$", xlim=(-1.4, 1.4), ylim=(-1.4, 1.4)
)
plane.legend(
    loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=2, frameon=False, fontsize=9
)
ax.plot(times, symmetric[:, 0], color=COLOURS[1], lw=2.2, label="no perturbation")
for colour, (size, weights) in zip(COLOURS[2:], runs.items(), strict=False):
    ax.plot(times[: len(weights)], weights, color=colour, lw=1.3, label=f"{size:.0e}")
ax.set(xlabel="t", ylabel="largest weight in the row of one token", ylim=(0.2, 1.02))
ax.legend(
    title="perturbation",
    loc="center right",
    bbox_to_anchor=(1, 0.64),
    frameon=False,
    fontsize=8,
)
plt.show()

# %%
# What to try
# -----------
# A regular polygon with more vertices, and tokens on its axes of reflection. A token at
# the centre attends to all vertices equally.
