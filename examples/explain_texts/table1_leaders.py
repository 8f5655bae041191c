"""
How many words lead a review?
=============================

A leader is a word that follows nobody, :math:`C_i = \\{i\\}`, and the claim of
`arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ is that few words lead and that they are the words that matter.
Table 1 of the paper counts them, by the dimension :math:`d` of the vectors. Here is the table again, from models
trained by this project. Few leaders mean that an answer can be told in a few words; ``hardmax reproduce table1`` prints
the full table.
"""

import matplotlib.pyplot as plt

from hardmax.draw.style import COLOURS
from hardmax.figures.shared import recorded_runs

starts = recorded_runs()
print(f"{'start':12}{'d':>4}{'accuracy':>10}{'leaders':>9}{'least':>7}{'most':>6}   from layer 0")
for start, rows in starts.items():
    for row in rows:
        led = row["leaders"]
        numbers = f"{row['accuracy']:10.3f}{led['average']:9.1f}{led['min']:7.0f}{led['max']:6.0f}"
        print(f"{start:12}{row['d']:4d}{numbers}{led['initial']:12.1%}")

# %%
# A point for the average, a line from the review with fewest leaders to that with most, a bar for the deviation.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
for ax, (start, rows), colour in zip(axes, starts.items(), COLOURS, strict=False):
    for place, row in enumerate(rows):
        led = row["leaders"]
        ax.plot([place, place], [led["min"], led["max"]], color=colour, lw=1, alpha=0.6)
        ax.plot(
            [place, place], [led["average"] - led["deviation"], led["average"] + led["deviation"]], color=colour, lw=7
        )
        ax.plot(place, led["average"], "o", color="white", mec="#222", ms=8, zorder=3)
        ax.annotate(f"{led['average']:.1f}", (place, led["average"]), (9, 0), textcoords="offset points", va="center")
    ax.set_xticks(range(len(rows)), [str(row["d"]) for row in rows])
    ax.set(xlabel="d", ylabel="leaders of a review" if ax is axes[0] else "", title=start, xlim=(-0.5, 3.6))
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# More coordinates, more leaders: in many dimensions most words are vertices of the hull. Nearly all leaders lead from
# the first layer on, as the paper found: leaders that emerge later are rare.

for rows in starts.values():
    averages = [row["leaders"]["average"] for row in rows]
    assert averages == sorted(averages)
    assert all(row["leaders"]["initial"] > 0.98 for row in rows)
    assert averages[0] < 5

# %%
# What to try
# -----------
# ``hm.pretrained("imdb").leaders(texts)`` counts the leaders of your texts: ``.summary()`` has the columns of the
# table, and ``.plot()`` shows which words lead most often.
