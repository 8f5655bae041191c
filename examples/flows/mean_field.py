"""
The mean-field limit: Gaussian tokens stay Gaussian
===================================================

For many tokens the empirical measure of self-attention approaches a measure
:math:`\\mu_t` that solves a continuity equation, the mean-field or Vlasov limit:

.. math::

   \\partial_t \\mu_t + \\operatorname{div}(\\mu_t \\, V a_t) = 0, \\qquad
   a_t(x) = \\frac{\\int y\\, e^{\\langle x, y \\rangle} \\mathrm{d}\\mu_t(y)}
                {\\int e^{\\langle x, y \\rangle} \\mathrm{d}\\mu_t(y)}.

If :math:`\\mu_t = N(0, s I)`, then :math:`a_t(x) = s x`, so the flow is linear and the
tokens stay Gaussian (Castin, Ablin, Carrillo and Peyré, `arXiv 2501.18322
<https://arxiv.org/abs/2501.18322>`_). With :math:`V = v I` the variance solves
:math:`s' = 2 v s^2`, hence :math:`s(t) = s_0 / (1 - 2 v s_0 t)`. This example compares
runs of :math:`n` tokens with this exact limit.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import hardmax as hm
from hardmax.draw.style import COLOURS

# %%
# The sliced Wasserstein distance of order 2 between the tokens and :math:`N(0, s I)`:
# in each of 64 directions the sorted projections are compared with the quantiles of a
# normal distribution.

times, rng = np.array([0.0, 1.0, 2.0, 4.0]), np.random.default_rng(0)
angles = np.pi * np.arange(64) / 64
directions = np.stack([np.cos(angles), np.sin(angles)])  # (2, 64)


def distance(tokens, s):
    """Return the sliced Wasserstein distance between tokens (n, 2) and N(0, s I)."""
    quantiles = np.sqrt(s) * norm.ppf((np.arange(len(tokens)) + 0.5) / len(tokens))
    return np.sqrt(
        np.mean((np.sort(tokens @ directions, axis=0) - quantiles[:, None]) ** 2)
    )


# %%
# V = -I: tokens contract, and the limit exists for all times. The distance falls like
# :math:`n^{-1/2}` at every time, so runs of finitely many tokens do approach the limit.

repel, sizes = hm.SelfAttention(V=-np.eye(2)), [100, 250, 600, 1500]
found = np.array(
    [
        np.mean(
            [
                [
                    distance(x, 1 / (1 + 2 * t))
                    for x, t in zip(run.tokens, times, strict=True)
                ]
                for run in (
                    hm.simulate(rng.normal(size=(n, 2)), repel, times=times)
                    for _ in range(5)
                )
            ],
            axis=0,
        )
        for n in sizes
    ]
)
slopes = np.polyfit(np.log(sizes), np.log(found), 1)[0]
for n, row in zip(sizes, found, strict=True):
    print(
        f"n = {n:5d}: distance",
        ", ".join(
            f"{value:.4f} at t = {t:g}" for value, t in zip(row, times, strict=True)
        ),
    )
print("exponents of n:", slopes.round(2))
assert np.all(np.abs(slopes + 0.5) < 0.12)

# %%
# V = I: the formula has a pole at :math:`t = 1 / (2 s_0)`. Finitely many tokens have no
# pole: the outermost token attracts all others, and the variance grows at most like
# :math:`e^{2t}`. Runs leave the limit before the pole, and convergence is slow near the
# pole, where few of the largest terms decide the mean of :math:`e^{\langle x, y
# \rangle}`.

s, until = 0.25, 2.5
grid = np.linspace(0, until, 51)
spreads = {
    n: hm.simulate(
        np.sqrt(s) * rng.normal(size=(n, 2)), hm.SelfAttention(), times=grid
    ).tokens.var(axis=(1, 2))
    for n in (100, 500, 2000)
}
limit = s / (1 - 2 * s * grid[grid < 1.9])
at = np.argmin(np.abs(grid - 1.5))
ratios = {n: round(float(v[at] / limit[at]), 2) for n, v in spreads.items()}
print("variance at t = 1.5 over that of the limit:", ratios)

figure, (rate, blow_up) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for colour, t, column in zip(COLOURS, times, found.T, strict=False):
    rate.loglog(sizes, column, "o-", color=colour, label=f"t = {t:g}")
rate.loglog(
    sizes, found[0, 0] * np.sqrt(sizes[0] / np.array(sizes)), "k:", label="$n^{-1/2}$"
)
rate.set(xlabel="n", ylabel="sliced Wasserstein distance to the limit", title="V = -I")
rate.legend(frameon=False, fontsize=9)
for colour, (n, values) in zip(COLOURS, spreads.items(), strict=False):
    blow_up.semilogy(grid, values, color=colour, label=f"n = {n:,}")
blow_up.semilogy(grid[: len(limit)], limit, "k:", label="limit, pole at t = 2")
blow_up.set(xlabel="t", ylabel="variance", title="V = I", ylim=(0.2, 60))
blow_up.legend(frameon=False, fontsize=9)
plt.show()

# %%
# What to try
# -----------
# More tokens: a torch tensor on a GPU, ``hm.simulate(torch.randn(100_000, 2,
# device="cuda"), rule, times=4.0)``. Tokens that are not Gaussian have a limit, too,
# but no formula: compare two independent samples.
