"""
From which temperature on softmax makes the choices of hardmax
==============================================================

Softmax with a large inverse temperature :math:`\\beta` is close to hardmax for some
layers, never for ever: at every temperature above 0 all tokens end in one point. For
given tokens ``hm.temperature.certify`` returns a :math:`\\beta` from which softmax
provably has its largest weight where hardmax chooses, and a proved bound of the
distance of the two runs.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

tokens, rule = hm.configuration("gaussian", n=12, seed=3), hm.Hardmax(0.5)
certificates = {
    layers: hm.temperature.certify(tokens, rule, layers=layers) for layers in (2, 4, 8)
}
for certificate in certificates.values():
    print(certificate)

# %%
# Left: the largest distance of a token after 2, 4 and 8 layers over beta (solid), its
# bound (dashed) and the certified beta (dots). Right: the distance by layer for three
# temperatures. Once the clusters of softmax merge it is as large as the token set; for
# a large beta that takes longer than any number of layers that one can run: they are
# metastable.

betas = np.geomspace(1, 3000, 30)
measured, bounds = hm.temperature.compare(tokens, rule, 8, betas)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for colour, (layers, certificate) in enumerate(certificates.items()):
    left.loglog(
        betas, measured[:, layers] + 1e-17, color=f"C{colour}", label=f"layer {layers}"
    )
    left.loglog(betas, bounds[:, layers] + 1e-17, color=f"C{colour}", ls="--")
    left.plot(certificate.beta, certificate.distances[layers], "o", color=f"C{colour}")
left.set(
    xlabel="beta",
    ylabel="distance",
    ylim=(1e-9, 10),
    title="measured and proved distance",
)
left.legend(frameon=False)
deep, _ = hm.temperature.compare(tokens, rule, 300, [1.5, 3, 12])
for beta, distances in zip([1.5, 3, 12], deep, strict=True):
    right.plot(distances, label=f"beta = {beta:g}")
right.set(
    xlabel="layer",
    ylabel="distance",
    xscale="symlog",
    yscale="log",
    title="distance by layer",
)
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
assert (measured <= bounds + 1e-12).all()

# %%
# Two tokens at +1 and -1 with a step of 1/2 need 27 layers at temperature 0.5 until
# both are within 1/100 of 0, and 1,884 at 0.2. Hardmax keeps them apart for ever.

for temperature, layers in ((0.5, 27), (0.2, 1884)):
    run = hm.simulate(
        [[1.0], [-1.0]], hm.Softmax(0.5, temperature=temperature), layers=layers
    )
    assert abs(run.array[-1]).max() <= 0.01 < abs(run.array[-2]).max()

# %%
# What to try
# -----------
# Tokens in dimension 16 have larger gaps: ``hm.configuration("gaussian", n=12, d=16)``
# needs a much smaller beta. A tie, such as the square with a token in the middle of an
# edge, has no such beta.
