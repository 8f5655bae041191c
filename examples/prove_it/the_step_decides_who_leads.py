"""
A token inside the hull that leads only for some step sizes
===========================================================

Leaders are the vertices of a polytope, but they need not be vertices of the initial
hull, and they depend on the step :math:`\\alpha`. Here a token inside the hull becomes
a leader after the tokens in front of it have moved; it does so for :math:`\\alpha =
1/2`, but neither for 1/10 nor for 5. The theorems of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ hold for every :math:`\\alpha > 0`, but the limit
depends on it. There are ten tokens, and all decisions are made in exact arithmetic.
"""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS

hundredths = [
    (51, 19),
    (-29, -250),
    (80, -32),
    (0, 135),
    (68, -86),
    (-131, -79),
    (38, 19),
    (-188, -222),
    (-97, -99),
]
hundredths += [(-63, 17)]
tokens = [[Fraction(x, 100) for x in row] for row in hundredths]
for alpha in (Fraction(1, 10), Fraction(1, 2), Fraction(5)):
    limit = hm.limit(tokens, hm.Hardmax(alpha))
    print(f"alpha = {alpha}: tokens {limit.leaders.tolist()} lead. {limit}")
    assert limit.certified
    assert (0 in limit.leaders) == (alpha == Fraction(1, 2))

# %%
# The run with :math:`\alpha = 1/2`. Token 0, right of the middle, follows another one
# at layer 0 and 1, and leads from layer 2 on. It is not a vertex of the hull.

run = hm.simulate(tokens, hm.Hardmax(Fraction(1, 2)), layers=12)
assert run.emerged[0] == 2
assert 0 not in hm.Polytope(run.array[0]).outline
figure, axes = plt.subplots(2, 2, figsize=(7, 8.4), layout="constrained")
for ax, k in zip(axes.flat, (0, 1, 2, 12), strict=True):
    hm.draw.plot_tokens(run, k, ax=ax)
    ax.annotate("0", run.array[k, 0], (8, -4), textcoords="offset points", fontsize=11)
    ax.set(xlabel="", ylabel="", xticks=[], yticks=[], title=f"layer {k}")
plt.show()

# %%
# The steps for which it leads, of two hundred, each with a certified limit: they form
# an interval.

alphas = [Fraction(k, 100) for k in range(2, 202)]
numbers = [
    set(hm.limit(tokens, hm.Hardmax(alpha)).leaders.tolist()) for alpha in alphas
]
leads = np.array([0 in leaders for leaders in numbers])
first, last = (
    alphas[int(np.argmax(leads))],
    alphas[len(leads) - 1 - int(np.argmax(leads[::-1]))],
)
print(
    f"Of the steps that were tried, token 0 leads for those from {first} to {last}:"
    f" {leads.sum()} of {len(alphas)}."
)
assert 0 < leads.sum() < len(leads)
assert not leads[0]
assert not leads[-1]

figure, ax = plt.subplots(figsize=(9, 2.9), layout="constrained")
leading = sorted(set.union(*numbers))
for row, token in enumerate(leading):
    at = [
        float(alpha)
        for alpha, leaders in zip(alphas, numbers, strict=True)
        if token in leaders
    ]
    ax.plot(at, np.full(len(at), row), "s", ms=4, color=COLOURS[1 if token == 0 else 0])
ax.set(
    xlabel=r"$\alpha$",
    yticks=range(len(leading)),
    yticklabels=[f"token {i} leads" for i in leading],
)
ax.set(ylim=(-0.6, len(leading) - 0.4))
plt.show()

# %%
# What to try
# -----------
# Give the rule a sequence of steps, ``alpha=[0.5, 0.1]``: what counts are the first two
# layers. Draw random sets of ten tokens and count for how many the leaders depend on
# the step.
