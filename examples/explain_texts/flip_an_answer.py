"""
Find the words whose removal changes a prediction
=================================================

A prediction can be explained by a sum over words, or by a counterfactual: a change of
the text that changes the prediction. ``minimal_flip`` searches for a small set of words
without which the classifier predicts another class, and runs the model on every
candidate, so the flip is exact and not estimated. The set is minimal: if any one of its
words is put back, the first prediction returns. If the set has a single word, the
prediction depends on that word alone.
"""

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.draw.style import BLUE, ORANGE

REVIEWS = (
    (
        "The camera work is superb and the music is beautiful, but the story is a mess"
        " and the ending is boring."
    ),
    (
        "A wonderful film. The acting is excellent, the music is beautiful, and even"
        " the slow start is worth your time."
    ),
    "Not funny, far too long, and the ending is a mess.",
)
classifier = hm.pretrained("imdb")


def without(text: str, places: tuple) -> str:
    """The text with what stands at some places taken out."""
    for start, end in sorted(places, reverse=True):
        text = text[:start] + text[end:]
    return text


# %%
# The flips, found and checked.

whys = classifier.explain_many(list(REVIEWS))
flips = [why.minimal_flip() for why in whys]
for why, flip in zip(whys, flips, strict=True):
    print(
        f"{why.text}\n    {why.prediction}, probability {why.probability:.3f}. {flip}"
    )
    assert flip.flips
    assert classifier.predict([without(why.text, flip.places)])[0] == flip.after
    for place in flip.places:  # with any one of them back it is the old answer again
        fewer = tuple(other for other in flip.places if other != place)
        assert classifier.predict([without(why.text, fewer)])[0] == flip.before

# %%
# The logit while the words are removed one by one: above 0 the prediction is "pos", and
# only the last word changes it.

figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained", sharey=True)
for ax, why, flip in zip(axes, whys, flips, strict=True):
    texts = [without(why.text, flip.places[:k]) for k in range(len(flip.places) + 1)]
    values = classifier.decision_function(texts)
    ax.bar(
        range(len(values)),
        values,
        color=[BLUE if value > 0 else ORANGE for value in values],
    )
    ax.set_xticks(
        range(len(values)), ["as it is", *(f"less\n{word}" for word in flip.words)]
    )
    ax.axhline(0, color="#444", lw=1)
    ax.set_ylabel("logit: above 0 is pos" if ax is axes[0] else "")
    ax.set_title(why.text[:42] + "...", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The difference between two texts, by word. The changes add up to that of the logit.

print(whys[0].counterfactual(REVIEWS[0].replace("boring", "moving")))

# %%
# What to try
# -----------
# A text of your own. If one word out of fifty changes the prediction, it is not robust;
# ``predict_proba`` does not show that. ``hardmax explain "a text" --out why.html``
# shows the flip, too.
