"""
Why does a classifier call this review negative?
================================================

A review says good things and bad things. The model that comes with the package calls it negative, and its reasons can
be read off exactly: hardmax layers are linear once it is known who follows whom, so the logit is a sum over words,

.. math:: \\text{logit} = \\beta + \\sum_j \\text{share}_j \\, v \\cdot z_j^0 ,

without sampling and without an approximation. Who must justify an answer, to an editor or to an auditor, can print that
sum. Nothing is trained here.
"""

import matplotlib.pyplot as plt

import hardmax as hm

REVIEW = (
    "I wanted to like this film. The camera work is superb and the first half hour is funny, but then the story falls "
    "apart, nothing makes sense any more, and the ending is a mess. What a waste of a good cast."
)
why = hm.pretrained("imdb").explain(REVIEW)
print(f"{why.prediction} with probability {why.probability:.3f}")
assert why.prediction == "neg"

# %%
# What counts most, words and runs of words. Blue speaks for the answer, orange against it.

figure = why.plot()
plt.show()

# %%
# All terms add up to the logit. It counts for "pos", so the words that speak for "neg", on the right in the picture,
# are negative here.

for word, contribution in why.top(6):
    print(f"  {word:18} {contribution:+.2f}")
print(f"  bias {why.bias:+.2f}; with all {len(why.words)} terms the logit is {why.logit:.2f}")
assert abs(why.bias + why.contributions.sum() - why.logit) < 1e-9

# %%
# By sentence, positive where it speaks for the answer.

for part in why.by_sentence():
    print(f"  {float(why.signed(part.value)):+.2f}  {part.text.strip()}")

# %%
# The words that others gather around, in the first heads, with their shares of the mean.

for h, groups in enumerate(why.leaders[:3], 1):
    print(f"  head {h}: " + "; ".join(f"{g.word} ({g.share:.0%}, {len(g.followers)} behind it)" for g in groups))

# %%
# The same review in a model with a single head in the plane, ``imdb-2d``, which can be drawn whole: words, leaders, the
# line that decides, and the mean as a cross.

flat = hm.pretrained("imdb-2d").explain(REVIEW)
figure = flat.plot()
figure.set_size_inches(13, 2.8)
plt.show()

# %%
# What to try
# -----------
# ``why.to_html("why.html")`` writes a page with the text in colour, ``flat.movie("words.gif")`` a movie. On the command
# line: ``hardmax explain "a text" --out why.html``. An explanation says why this model answered so, not that the words
# are a good reason.
