"""
Accuracy of the sentiment model by dimension
============================================

`arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ trains a transformer of three
parts on film reviews: an encoder that gives each word a vector in
:math:`\\mathbb{R}^d`, hardmax layers, and a linear decoder of the mean,

.. math:: \\text{logit} = \\beta + v \\cdot \\frac1n \\sum_i z_i^K .

It reports an accuracy that grows with :math:`d`. The same model was trained here again,
from two initial values of the step :math:`\\alpha`, and every epoch was recorded. These
are the curves; ``hardmax reproduce accuracy`` writes them to a file.
"""

import matplotlib.pyplot as plt

from hardmax.figures.imdb import draw_accuracy, read_runs
from hardmax.figures.shared import PAPER_BEST

starts = read_runs()  # one list of rows per initial alpha, one row per d
for start, rows in starts.items():
    for row in rows:
        print(
            f"{start}, d = {row['d']}: test accuracy {row['accuracy']:.3f}, the paper's"
            f" {PAPER_BEST[row['d']]:.3f}"
        )

# %%
# Validation accuracy by epoch. Dashed is the best accuracy that the paper reports for
# the same d.

figure = draw_accuracy(starts)
plt.show()

# %%
# With a small step the plane is enough: from 2 to 16 coordinates the test accuracy
# changes by less than a point. With a step of 1 the words move far, and more
# coordinates help. A small step is the better one for every d.

small, large = starts["small alpha"], starts["alpha 1"]
gains = {
    start: rows[-1]["accuracy"] - rows[0]["accuracy"] for start, rows in starts.items()
}
print(
    {
        start: f"{100 * gain:+.1f} points from d = 2 to 16"
        for start, gain in gains.items()
    }
)
assert gains["small alpha"] < 0.01 < gains["alpha 1"]
assert all(
    one["accuracy"] > other["accuracy"] for one, other in zip(small, large, strict=True)
)
assert all(row["accuracy"] > PAPER_BEST[row["d"]] for row in small)

# %%
# What to try
# -----------
# ``hm.HardmaxClassifier.paper(d=2)`` is the model: fit it on texts of your own.
