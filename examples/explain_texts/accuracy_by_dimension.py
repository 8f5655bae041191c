"""
Two coordinates are nearly as good as sixteen
=============================================

`arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ trains a transformer of three parts on film reviews: an encoder
that gives each word a vector in :math:`\\mathbb{R}^d`, hardmax layers, and a linear decoder of the mean,

.. math:: \\text{logit} = \\beta + v \\cdot \\frac1n \\sum_i z_i^K .

It reports an accuracy that grows with :math:`d`. Does it have to? The same model was trained here again, from two
starts of the step :math:`\\alpha`, and every epoch was recorded (``python -m studies``). These are the curves;
``hardmax reproduce accuracy`` draws them, too.
"""

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from hardmax.draw.style import COLOURS
from hardmax.figures.shared import PAPER_BEST, recorded_runs

starts = recorded_runs()  # by the alpha that training started from: a list of rows, one for each d
colour_of = dict(zip(PAPER_BEST, COLOURS, strict=False))
for start, rows in starts.items():
    for row in rows:
        print(f"{start}, d = {row['d']}: test accuracy {row['accuracy']:.3f}, the paper's {PAPER_BEST[row['d']]:.3f}")

# %%
# Validation accuracy by epoch. Dashed is the best accuracy that the paper reports for the same d.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
for ax, (start, rows) in zip(axes, starts.items(), strict=True):
    for row in rows:
        epochs = [epoch["number"] + 1 for epoch in row["epochs"]]
        ax.plot(epochs, [epoch["accuracy"] for epoch in row["epochs"]], "o-", color=colour_of[row["d"]], ms=4)
        ax.axhline(PAPER_BEST[row["d"]], color=colour_of[row["d"]], lw=1.2, ls="--")
    ax.set_title(f"{start}: it ends near {rows[-1]['alpha']:.2g}", fontsize=11)
    ax.set(xlabel="epoch", ylabel="validation accuracy" if ax is axes[0] else "")
    ax.spines[["top", "right"]].set_visible(False)
handles = [Line2D([], [], color=colour, marker="o", ms=4, label=f"d = {d}") for d, colour in colour_of.items()]
dashed = Line2D([], [], color="#444", ls="--", label="the paper's best")
figure.legend(handles=[*handles, dashed], loc="outside right center", frameon=False)
plt.show()

# %%
# With a small step the plane is enough: from 2 to 16 coordinates the test accuracy changes by less than a point. With a
# step of 1 the words move far, and more coordinates help. A small step is the better one for every d.

small, large = starts["small alpha"], starts["alpha 1"]
gains = {start: rows[-1]["accuracy"] - rows[0]["accuracy"] for start, rows in starts.items()}
print({start: f"{100 * gain:+.1f} points from d = 2 to 16" for start, gain in gains.items()})
assert gains["small alpha"] < 0.01 < gains["alpha 1"]
assert all(one["accuracy"] > other["accuracy"] for one, other in zip(small, large, strict=True))
assert all(row["accuracy"] > PAPER_BEST[row["d"]] for row in small)

# %%
# What to try
# -----------
# ``python -m studies --help`` says how such runs are made; they need the reviews of IMDb.
# ``hm.HardmaxClassifier.paper(d=2)`` is the model, to be fitted on texts of your own.
