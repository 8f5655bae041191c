"""
The most frequent leaders in 25,000 film reviews
================================================

If leaders carry the meaning, the words that lead most often should be words of
judgement, not the most common ones. `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ shows a histogram of them. This one counts, for the
model ``imdb-2d`` of the package and the 25,000 test reviews of IMDb, in how many
reviews a word has

.. math:: C_i = \\{i\\}

at some layer. The reviews do not come with the package, the counts do. ``hardmax
reproduce leaders`` writes the figure to a file.
"""

import matplotlib.pyplot as plt

from hardmax.figures.imdb import SHOWN, draw_leaders, read_leaders

counts = read_leaders()
words = counts["words"][:SHOWN]
shares = [
    f"{word} ({led / counts['texts']:.1%})"
    for word, led in zip(words, counts["texts_led"], strict=False)
]
print("lead most often:", ", ".join(shares[:8]))

# %%
# The colour of a word is that of the class it predicts when it stands alone.

figure = draw_leaders(counts)
plt.show()

# %%
# "great", "bad", "excellent" and "awful" are among the first. So are "not" and "only",
# which deny, and words such as "man" or "first" without a judgement: a leader is not
# always a word of judgement.

assert {"great", "bad", "excellent", "awful"} <= set(words[:12])
assert {"man", "first"} <= set(words)
assert "the" not in words

# %%
# What to try
# -----------
# ``hm.pretrained("imdb-2d").leaders(texts).plot()`` makes this picture of texts of your
# own.
