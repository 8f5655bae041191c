"""
The Boolean limit on a line, and three hyperplanes
==================================================

For tokens on a line, with :math:`V > 0` and :math:`QK > 0`, the attention matrix
:math:`P(t)` tends to a Boolean matrix: Theorem 2.1 of `arXiv 2305.05465
<https://arxiv.org/abs/2305.05465>`_. All rows but at most one tend to the unit vector
of the smallest or of the largest token. In more dimensions, if the leading eigenvalue
of :math:`V` is simple, the same happens along its eigenvector: tokens end on at most
three hyperplanes (Theorem 4.2). The middle one is unstable; a symmetric start shows all
three.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS

# %%
# Twenty tokens on a line. Rows and columns of :math:`P` are sorted by position: at the
# end two columns are left.

times = np.linspace(0, 6, 61)
tokens = np.sort(np.random.default_rng(3).normal(size=(20, 1)), axis=0)
line = hm.simulate(tokens, hm.SelfAttention(), times=times)
shown = [0, 10, 20, 60]
for k in shown:
    farthest = np.sort(1 - line.attention(k)[:, [0, -1]].max(axis=1))
    print(
        f"t = {times[k]:.0f}: the second farthest row is at {farthest[-2]:.1e} from a"
        " unit vector"
    )
assert farthest[-2] < 1e-6
assert hm.theorems.boolean(line).holds

figure, axes = plt.subplots(
    1, 5, figsize=(11, 2.6), layout="constrained", width_ratios=[1.6, 1, 1, 1, 1]
)
axes[0].plot(times, line.rescaled[:, :, 0], color=COLOURS[0], lw=0.9)
axes[0].set(xlabel="t", ylabel="$z_i(t)$")
for ax, k in zip(axes[1:], shown, strict=True):
    hm.draw.plot_attention(line, k, ax=ax)
    ax.set(title=f"P, t = {times[k]:.0f}", xlabel="token $j$", ylabel="")
plt.show()

# %%
# Three hyperplanes. A token ends on the middle one only if the tokens on both sides
# attract it equally at all times. So the tokens are ten pairs that are mirror images,
# and three on the axis between them, which never leave it. Rounding errors break the
# symmetry and grow; one run restores it after every step of 0.1, the other does not.

V, mirror = np.diag([1.0, -0.5]), np.array([-1.0, 1.0])
half = np.random.default_rng(1).normal(size=(10, 2))
start = np.vstack([half, half * mirror, [[0, 1.0], [0, 0.2], [0, -0.8]]])
partner = np.r_[10:20, 0:10, 20:23]
x, restored = start, [start]
for step in np.diff(times):
    x = hm.simulate(x, hm.SelfAttention(V=V), times=[step]).tokens[-1]
    x = (x + x[partner] * mirror) / 2
    restored.append(x)
z = np.array(restored) * np.exp(
    -times[:, None, None] * np.diag(V)
)  # (times, tokens, 2)
plain = hm.simulate(start, hm.SelfAttention(V=V), times=times).rescaled
ends = z[-1, :, 0] / z[-1, :, 0].max()
planes = np.rint(ends).astype(int)
print("tokens on the three hyperplanes:", np.bincount(planes + 1))
print("largest distance from them:", np.abs(ends - planes).max().round(3))
print(
    "without restoring the symmetry:",
    np.bincount(np.sign(plain[-1, :, 0]).astype(int) + 1),
)
assert np.abs(ends - planes).max() < 0.05
assert np.bincount(planes + 1).tolist() == [10, 3, 10]
assert np.abs(plain[-1, :, 0]).min() > 0.9 * z[-1, :, 0].max()

colours = np.array(COLOURS)[planes + 1]
figure, axes = plt.subplots(1, 4, figsize=(11, 3.0), layout="constrained")
for ax, k in zip(axes, (0, -1), strict=False):
    ax.scatter(*z[k].T, c=colours, s=22, zorder=2)
    ax.set(title=f"t = {times[k]:.0f}", xlabel="$z_1$", ylabel="$z_2$")
for plane, colour in zip((-1, 0, 1), COLOURS, strict=False):
    axes[1].axvline(plane * z[-1, :, 0].max(), color=colour, alpha=0.25, lw=6, zorder=0)
for ax, values, title in (
    (axes[2], z, "symmetry restored"),
    (axes[3], plain, "with rounding errors"),
):
    for curve, colour in zip(values[:, :, 0].T, colours, strict=True):
        ax.plot(times, curve, color=colour, lw=1.1)
    ax.set(title=title, xlabel="t", ylabel="$\\langle \\varphi_1, z_i(t) \\rangle$")
plt.show()

# %%
# What to try
# -----------
# On a line the middle token has the exempt row: add the tokens ``-tokens`` and 0, and
# restore the symmetry.
