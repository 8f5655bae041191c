"""
Explain the prediction for one review
=====================================

A review contains praise and criticism. The model that comes with the package predicts
"negative", and the explanation is exact: hardmax layers are linear for given argmax
sets, so the logit is a sum over words,

.. math:: \\text{logit} = \\beta + \\sum_j \\text{share}_j \\, v \\cdot z_j^0 ,

without sampling and without approximation. The sum can be printed to justify the
prediction, to an editor or an auditor. Nothing is trained here.
"""

import matplotlib.pyplot as plt

import hardmax as hm

REVIEW = (
    "I wanted to like this film. The camera work is superb and the first half hour is"
    " funny, but then the story falls apart, nothing makes sense any more, and the"
    " ending is a mess. What a waste of a good cast."
)
why = hm.pretrained("imdb").explain(REVIEW)
print(f"{why.prediction} with probability {why.probability:.3f}")
assert why.prediction == "neg"

# %%
# The largest contributions of words and n-grams: orange bars support "neg", blue bars
# "pos".

figure = why.plot()
plt.show()

# %%
# All terms add up to the logit of "pos": evidence for "neg" is negative, as in the
# picture.

for word, contribution in why.top(6):
    print(f"  {word:18} {contribution:+.2f}")
print(
    f"  bias {why.bias:+.2f}; with all {len(why.words)} terms the logit is"
    f" {why.logit:.2f}"
)
assert abs(why.bias + why.contributions.sum() - why.logit) < 1e-9

# %%
# Contributions by sentence.

for part in why.by_sentence():
    print(f"  {float(part.value):+.2f}  {part.text.strip()}")

# %%
# The words that others gather around, in the first heads, with their shares of the
# mean.

for h, groups in enumerate(why.leaders[:3], 1):
    print(
        f"  head {h}: "
        + "; ".join(
            f"{g.word} ({g.share:.0%}, {len(g.followers)} behind it)" for g in groups
        )
    )

# %%
# The same review in a model with a single head in the plane, ``imdb-2d``, which can be
# drawn whole: words, leaders, the line that decides, and the mean as a cross.

flat = hm.pretrained("imdb-2d").explain(REVIEW)
figure = flat.plot()
figure.set_size_inches(13, 3.2)
plt.show()

# %%
# What to try
# -----------
# ``why.to_html("why.html")`` writes a page with the text in colour,
# ``flat.movie("words.gif")`` a movie. On the command line: ``hardmax explain "a text"
# --out why.html``. An explanation shows the computation of this model, not that the
# words are a good reason.
