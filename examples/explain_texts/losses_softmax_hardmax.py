"""
Trained softly, served hard: the loss does not notice
=====================================================

Hardmax has no gradient in its choices, so `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ trains with softmax at
a low temperature,

.. math::

   P_{ij} = \\frac{e^{\\langle z_i, z_j\\rangle / T}}{\\sum_l e^{\\langle z_i, z_l\\rangle / T}}, \\qquad T = 0.001,

and serves with hardmax. May one do that? Only if both give the same answers. After each epoch of the recorded runs the
validation loss was computed both ways. ``hardmax reproduce losses`` draws the same.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from hardmax.draw.style import COLOURS
from hardmax.figures.shared import PAPER_BEST, recorded_runs

starts = recorded_runs()
colour_of = dict(zip(PAPER_BEST, COLOURS, strict=False))

# %%
# Above: the loss with hardmax as a line, with softmax as circles around it. Below: how far they are apart.

figure, axes = plt.subplots(
    2, 2, figsize=(11, 5.6), layout="constrained", sharex=True, sharey="row", height_ratios=(1.7, 1)
)
most = {}
for (above, below), (start, rows) in zip(axes.T, starts.items(), strict=True):
    for row in rows:
        colour, epochs = colour_of[row["d"]], [epoch["number"] + 1 for epoch in row["epochs"]]
        hard, soft = np.array([[epoch["loss"], epoch["softmax_loss"]] for epoch in row["epochs"]]).T
        above.plot(epochs, hard, color=colour, lw=1.8)
        above.plot(epochs, soft, "o", ms=7, mfc="none", mec=colour, mew=1.4)
        below.semilogy(epochs, np.abs(soft - hard), "o-", color=colour, ms=4)
        most[start, row["d"]] = np.abs(soft - hard).max()
    above.set_title(start, fontsize=11)
    below.set_xlabel("epoch")
axes[0, 0].set_ylabel("validation loss")
axes[1, 0].set_ylabel("|softmax - hardmax|")
for ax in axes.flat:
    ax.spines[["top", "right"]].set_visible(False)
handles = [Line2D([], [], color=colour, label=f"d = {d}") for d, colour in colour_of.items()]
figure.legend(handles=handles, loc="outside right center", frameon=False)
plt.show()

# %%
# They differ by less than a thousandth everywhere, and by a hundred times less where the step is small.

for (start, d), gap in most.items():
    print(f"{start}, d = {d}: at most {gap:.0e}")
assert max(most.values()) < 1e-3
assert max(most["small alpha", d] for d in PAPER_BEST) < 2e-5

# %%
# What to try
# -----------
# ``hm.HardmaxClassifier(training="softmax", temperature=0.01)`` trains that way on your texts. The default,
# ``training="hardmax"``, differentiates hardmax itself: its sets are constant near almost every input.
