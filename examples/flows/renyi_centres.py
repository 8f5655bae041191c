"""
Renyi centres capture tokens under causal attention
===================================================

Under causal attention on the sphere the first token never moves, and every token ends
there (`arXiv 2411.04990 <https://arxiv.org/abs/2411.04990>`_, read in excerpt). For a
very long time before, tokens gather around the Renyi centres: going through the tokens
in order, each one that is far from all centres before it becomes a centre. The figure
is ours after Figure 2 of the paper.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import BLUE

beta, times = 64, np.geomspace(0.1, 200, 40)
tokens = hm.configuration("sphere", n=60, d=2, seed=4)
run = hm.simulate(tokens, hm.Sphere(beta, causal=True), times=times, rtol=1e-6)
delta = 2 / beta**0.5
centres, strong = (
    hm.renyi_centres(tokens, delta),
    hm.renyi_centres(tokens, delta, strong=True),
)
print(
    f"centres {centres.tolist()}, of which {strong.tolist()} are far from every earlier"
    " token"
)
verdict = hm.theorems.renyi_displacement(run)
print(verdict)
assert verdict.holds

# %%
# Angles of 60 tokens in time. Stars are Renyi centres at their starts.

angles = np.unwrap(np.arctan2(run.array[..., 1], run.array[..., 0]), axis=0)
first = np.arctan2(tokens[:, 1], tokens[:, 0])
angles += np.round((first - angles[0]) / (2 * np.pi)) * 2 * np.pi
figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
ax.plot(times, angles, color="0.6", lw=0.7)
ax.plot(times, angles[:, centres], color=BLUE, lw=1.2)
ax.scatter(
    np.full(len(centres), times[0]),
    first[centres],
    marker="*",
    s=90,
    color=BLUE,
    zorder=3,
)
ax.set(
    xscale="log",
    xlabel="t",
    ylabel="angle",
    title=f"beta = {beta}: {len(centres)} Renyi centres",
)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What to try
# -----------
# With ``beta = 16`` centres merge within the time shown: the displacement bound is
# exponential in c^2, not in beta, so that a larger separation is what makes them last.
