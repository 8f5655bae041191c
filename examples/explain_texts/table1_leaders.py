"""
Table 1: accuracy and number of leaders by dimension
====================================================

A leader is a word that follows only itself, :math:`C_i = \\{i\\}`, and the claim of
`arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ is that few words lead and that
they are the words that matter. Table 1 of the paper counts them, by the dimension
:math:`d` of the vectors. Here is the table again, from models trained by this project.
Few leaders mean that a prediction is explained by a few words; ``hardmax reproduce
table1`` writes the table to a file.
"""

import matplotlib.pyplot as plt

from hardmax.figures.imdb import draw_table, read_runs

starts = read_runs()
figure = draw_table(starts)
plt.show()

# %%
# More coordinates, more leaders: in many dimensions most words are vertices of the
# hull. Nearly all leaders lead from the first layer on, as the paper found: leaders
# that emerge later are rare.

for start, rows in starts.items():
    averages = [row["leaders"]["average"] for row in rows]
    print(
        f"{start}: leaders on average, by d:",
        ", ".join(f"{average:.1f}" for average in averages),
    )
    assert averages == sorted(averages)
    assert all(row["leaders"]["initial"] > 0.98 for row in rows)
    assert averages[0] < 5

# %%
# What to try
# -----------
# ``hm.pretrained("imdb").leaders(texts)`` counts the leaders of your texts:
# ``.summary()`` has the columns of the table, and ``.plot()`` shows which words lead
# most often.
