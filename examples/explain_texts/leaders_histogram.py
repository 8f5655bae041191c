"""
The words that lead in 25,000 film reviews
==========================================

If leaders carry the meaning, the words that lead most often should be words of judgement, not the most common ones.
`arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ shows a histogram of them. This one counts, for the model
``imdb-2d`` of the package and the 25,000 test reviews of IMDb, in how many reviews a word has

.. math:: C_i = \\{i\\}

at some layer. The reviews do not come with the package, the counts do. ``hardmax reproduce leaders`` draws the same.
"""

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from hardmax.draw.style import CLASSES
from hardmax.figures.shared import read_results

counts = read_results("leaders")
words, scores = counts["words"][:30], counts["scores"][:30]
shares = [100 * led / counts["texts"] for led in counts["texts_led"][:30]]
print("lead most often:", ", ".join(f"{word} ({share:.1f} %)" for word, share in zip(words[:8], shares, strict=False)))

# %%
# The colour of a word is that of the answer it speaks for when it stands alone.

figure, ax = plt.subplots(figsize=(10.5, 4.4), layout="constrained")
ax.bar(range(30), shares, color=[CLASSES[int(score > 0)] for score in scores])
ax.set_xticks(range(30), words, rotation=55, ha="right", rotation_mode="anchor")
ax.set(ylabel="reviews in which it leads (%)", xlim=(-0.7, 29.7))
ax.spines[["top", "right"]].set_visible(False)
handles = [
    Patch(color=colour, label=f"speaks for {name}") for colour, name in zip(CLASSES, ("neg", "pos"), strict=True)
]
ax.legend(handles=handles, frameon=False)
plt.show()

# %%
# "great", "bad", "excellent" and "awful" are among the first, as one would hope. So are "not" and "only", which deny,
# and words such as "man" or "first" that no person would name. Leading is not the same as meaning.

assert {"great", "bad", "excellent", "awful"} <= set(words[:12])
assert {"man", "first"} <= set(words)
assert "the" not in words

# %%
# What to try
# -----------
# ``hm.pretrained("imdb-2d").leaders(texts).plot()`` makes this picture of texts of your own.
