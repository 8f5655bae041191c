"""
Leaders among snapshots of a flow past a cylinder
=================================================

Hardmax dynamics select some tokens as leaders. Here the tokens are velocity fields. A
lattice-Boltzmann flow at Reynolds number 100 sheds vortices behind a cylinder in a
channel, the DFG benchmark 2D-2 (Schäfer and Turek, 1996). Snapshots of the flow, less
their mean and in their leading POD modes, are the tokens. The leaders are a basis for
later snapshots, and its error is compared with k-means centres, random snapshots and
POD modes of the same number. The number of leaders is not a parameter: it is varied by
the number of snapshots per period.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE

DIAMETER, SPEED, REYNOLDS = 10, 0.1, 100  # cells, mean inflow in lattice units
HEIGHT, LENGTH = 41, 140  # of the channel in cells
RATE, TRAINING, HELD_OUT = (
    24,
    4,
    2,
)  # snapshots per period, periods to choose a basis from, later periods to test it
VELOCITIES = np.array(
    [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)]
)  # D2Q9
OPPOSITE = [0, 2, 1, 4, 3, 6, 5, 8, 7]
WEIGHTS = np.array([16, 4, 4, 4, 4, 1, 1, 1, 1])[:, None, None] / 36

# %%
# The flow: nine populations of particles per cell, which relax towards equilibrium and
# then move by one cell (Krüger et al., The Lattice Boltzmann Method, 2017). Walls and
# cylinder reverse them. The inflow on the left is a parabola.

y, x = (
    np.indices((HEIGHT + 2, LENGTH)) - np.array([0.5, -0.5])[:, None, None]
)  # walls are the first and last row
across, along = (
    y / DIAMETER - 2,
    x / DIAMETER - 2,
)  # distance from the cylinder in diameters; a little off the middle
solid = (across**2 + along**2 < 0.25) | (y < 0) | (y > HEIGHT)
inflow = (6 * SPEED * y / HEIGHT * (1 - y / HEIGHT)).clip(0)
relaxation = 1 / (3 * SPEED * DIAMETER / REYNOLDS + 0.5)


def equilibrium(density, velocity):
    e = np.tensordot(VELOCITIES, velocity, 1)  # (9, cells)
    return WEIGHTS * (density + 3 * e + 4.5 * e**2 - 1.5 * (velocity**2).sum(0))


def velocity_of(f):
    return np.tensordot(VELOCITIES.T, f, 1)


def step(f):
    relaxed = f + relaxation * (equilibrium(f.sum(0), velocity_of(f)) - f)
    relaxed[:, solid] = f[OPPOSITE][:, solid]
    for i, (right, up) in enumerate(VELOCITIES):
        f[i] = np.roll(relaxed[i], (up, right), (0, 1))
    f[:, :, :1] = equilibrium(
        f[:, :, 1:2].sum(0), np.stack([inflow, 0 * inflow])[:, :, :1]
    )
    f[:, :, -1] = f[:, :, -2] + WEIGHTS[:, :, 0] * (
        1 - f[:, :, -2].sum(0)
    )  # density 1 at the outflow


# %%
# Run until the shedding is periodic. The period is the mean time between upward zeros
# of the velocity across the channel, two diameters behind the cylinder.

puff = (
    0.5 * SPEED * np.exp(-((along - 2) ** 2) - across**2)
)  # starts the shedding sooner
f = equilibrium(1.0, np.stack([np.where(solid, 0, inflow), puff]))
signal = []
for _ in range(40 * round(DIAMETER / SPEED)):
    step(f)
    signal.append(velocity_of(f[:, 2 * DIAMETER, 4 * DIAMETER, None])[1, 0])
late = np.array(signal[len(signal) // 2 :])
late -= late.mean()
zeros = np.flatnonzero((late[:-1] < 0) & (late[1:] >= 0))
period = np.diff(zeros).mean()
strouhal = DIAMETER / (SPEED * period)
print(
    f"Strouhal number {strouhal:.3f}; the benchmark has 0.295 to 0.305 on a finer grid."
)
assert 0.28 < strouhal < 0.31

# %%
# Snapshots, in coordinates that keep their inner products, and in ten POD modes of the
# training part.

steps = np.rint(np.arange(RATE * (TRAINING + HELD_OUT)) * period / RATE).astype(int)
fields = []
for wait in np.diff(steps, prepend=0):
    for _ in range(wait):
        step(f)
    fields.append(velocity_of(f).ravel())
n = RATE * TRAINING
snapshots = np.array(fields) - np.mean(fields[:n], axis=0)
training, held_out = np.split(np.linalg.qr(snapshots.T, mode="r").T, [n])
modes = np.linalg.svd(training, full_matrices=False)[2]
tokens = training @ modes[:10].T
limit = hm.limit(tokens, hm.Hardmax(0.5))
print(limit)
assert limit.certified
assert (limit.emerged == 0).all()
phases = [
    set(np.flatnonzero(limit.clusters == c) % RATE) for c in range(len(limit.leaders))
]
print(
    f"{sum(len(own) == 1 for own in phases)} of {len(phases)} clusters are repeats of a"
    " single phase of the period."
)

# %%
# The error of a basis is the part of the later snapshots that a projection on its span
# leaves. Leaders are about as good as k-means centres and better than random snapshots,
# and POD modes are better than all. Leaders do not compress the cycle: most snapshots
# lead. One laminar, periodic flow says nothing about a turbulent one.


def error(basis):
    Q = np.linalg.qr(basis.T)[0]
    return np.linalg.norm(held_out - held_out @ Q @ Q.T) / np.linalg.norm(held_out)


rng, table = np.random.default_rng(0), {}
print("    m   leaders   k-means    random       POD")
for every in (8, 6, 4, 3, 2, 1):
    rows, own = training[::every], tokens[::every]
    leaders = hm.limit(own, hm.Hardmax(0.5)).leaders
    m = len(leaders)
    labels = KMeans(m, n_init=10, random_state=0).fit_predict(own)
    centres = np.array([rows[labels == c].mean(0) for c in range(m)])
    random = np.mean([error(rng.permutation(rows)[:m]) for _ in range(50)])
    table[m] = error(rows[leaders]), error(centres), random, error(modes[:m])
    print(f"{m:5d}" + "".join(f"{value:10.5f}" for value in table[m]))
    assert table[m][3] < table[m][0] < table[m][2]  # POD, leaders, random

figure, (plane, errors, field) = plt.subplots(
    1, 3, figsize=(14, 4), width_ratios=[1, 1.2, 1.6], layout="constrained"
)
plane.scatter(*tokens[:, :2].T, s=6, c=EDGE, label=f"{n} snapshots")
plane.scatter(
    *tokens[limit.leaders, :2].T,
    s=120,
    marker="*",
    c=COLOURS[1],
    ec=EDGE,
    label=f"{len(phases)} leaders",
)
plane.set(xlabel="first mode", ylabel="second mode", aspect="equal")
plane.legend(loc="center", frameon=False)
lines = errors.loglog(list(table), list(table.values()), marker="o")
errors.set(xlabel="number of basis fields", ylabel="relative error on later snapshots")
errors.legend(lines, ("leaders", "k-means", "random", "POD"), frameon=False)
u, v = fields[limit.leaders[0]].reshape(2, *solid.shape) * DIAMETER / SPEED
curl = np.where(solid, np.nan, np.gradient(v, axis=1) - np.gradient(u, axis=0))
field.imshow(curl, origin="lower", cmap="RdBu_r", vmin=-6, vmax=6)
field.set(title="vorticity of a leader", xticks=[], yticks=[])
plt.show()

# %%
# What to try
# -----------
# ``DIAMETER = 20`` with twice the height and length resolves the flow better and takes
# eight times as long. ``alpha=2`` moves tokens farther in a layer and changes no
# leader: all of them lead from layer 0 on.
