"""
Bring tokens to chosen clusters: optimal control by gradient
============================================================

The weights of a transformer change from layer to layer. In continuous time they are
functions :math:`Q(t)` and :math:`V(t)`, the controls of the flow

.. math:: \\dot x_i = V(t) \\sum_j P_{ij}(t) \\, x_j, \\qquad
   P_{ij} \\propto e^{\\langle Q(t) x_i, x_j \\rangle}.

Which controls bring given tokens to given clusters at a given time? Runs of torch
tensors have gradients, so a few lines of Adam answer it. The same question for the
hardmax rule, with one matrix for all layers, is :func:`hardmax.control.choose_A`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE

# %%
# Fifteen tokens in three groups around the origin, and a target for each group. All
# targets are in the upper half plane, while the tokens have a mean near 0, so no linear
# map brings the tokens there: attention has to.

rng, groups = np.random.default_rng(0), np.repeat([0, 1, 2], 5)
angles = np.deg2rad([20, 140, 260])[groups] + rng.normal(0, 0.15, 15)
start = torch.tensor(
    np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(0.6, 1.2, (15, 1))
)
targets = torch.tensor([[1.5, 1.5], [-1.5, 1.5], [0.0, 0.5]], dtype=torch.float64)
linear = np.linalg.lstsq(start.numpy(), targets[groups].numpy(), rcond=None)[0]
squared = ((start.numpy() @ linear - targets[groups].numpy()) ** 2).sum(1).mean()
print(f"mean squared distance from the targets with the best linear map: {squared:.2f}")

# %%
# The controls are linear between five knots. The integrator takes eight steps of fixed
# size.

end, knots = 2.0, 5
Q = torch.eye(2, dtype=torch.float64).repeat(knots, 1, 1).requires_grad_()
V = (0.1 * torch.tensor(rng.normal(size=(knots, 2, 2)))).requires_grad_()


def interpolate(values):
    """Return the function of t that is linear between values at the knots."""

    def at(t):
        k = min(int(t / end * (knots - 1)), knots - 2)
        share = float(t) / end * (knots - 1) - k
        return (1 - share) * values[k] + share * values[k + 1]

    return at


def run(times):
    return hm.simulate(
        start,
        hm.SelfAttention(Q=interpolate(Q), V=interpolate(V)),
        times=times,
        method="rk4",
        dt=0.25,
    )


# %%
# Adam on the mean squared distance between the tokens at the end and their targets.

optimiser, losses = torch.optim.Adam([Q, V], lr=0.1), []
for _ in range(60):
    loss = ((run(end).tokens[-1] - targets[groups]) ** 2).sum(1).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
print(
    f"mean squared distance from the targets: {losses[0]:.2f} before, {losses[-1]:.3f}"
    f" after {len(losses)} steps"
)
assert losses[-1] < 0.1 * squared

# %%
# Trajectories under the controls that were found, the loss, and the controls.

with torch.no_grad():
    path = run(torch.linspace(0, end, 9, dtype=torch.float64)).tokens.numpy()
figure, (plane, descent, control) = plt.subplots(
    1, 3, figsize=(11, 3.6), layout="constrained"
)
for g in range(3):
    own = path[:, groups == g]
    plane.plot(*own.transpose(2, 0, 1), color=COLOURS[g], lw=1, alpha=0.7)
    plane.scatter(*own[0].T, s=14, color=COLOURS[g])
    plane.scatter(*targets[g], s=160, marker="*", color=COLOURS[g], ec=EDGE, zorder=3)
plane.set(
    aspect="equal", xlabel="$x_1$", ylabel="$x_2$", title="dots: start, stars: targets"
)
descent.semilogy(losses)
descent.set(xlabel="steps of Adam", title="mean squared distance")
for name, values in (("Q", Q), ("V", V)):
    lines = control.plot(
        np.linspace(0, end, knots),
        values.detach().flatten(1).numpy(),
        ls="-" if name == "V" else ":",
    )
    for line, entry in zip(lines, ("11", "12", "21", "22"), strict=True):
        line.set(
            color=COLOURS[int(entry[0]) + 2 * int(entry[1]) - 3],
            label=f"${name}_{{{entry}}}$",
        )
control.set(xlabel="t", title="entries of Q(t) and V(t)")
control.legend(ncols=2, fontsize=8)
plt.show()

# %%
# What to try
# -----------
# Shuffle ``groups``: tokens of different targets then start mixed, and this control of
# low dimension does not separate them. More heads add control: ``hm.MultiHead([...])``
# with a :math:`Q(t)` and :math:`V(t)` of its own for each head.
