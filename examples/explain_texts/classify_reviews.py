"""
Test explanations on texts whose decisive words are known
=========================================================

Explanations are hard to test on real texts, because the reason of a label is not known.
The package generates reviews in which it is known: one or two words, "superb" or "not
good", determine the label, and all others are neutral. A classifier is trained on 1,600
of them. Then the predictions for 400 new reviews are explained, and the example counts
how often the word with the largest contribution is a decisive one.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.draw.style import BLUE, GREY
from hardmax.text.datasets import reviews

train, test = reviews(1600, seed=1), reviews(400, seed=2)
print(
    f"{train.labels[0]}: {train.texts[0]}\n    decided by {', '.join(train.planted[0])}"
)
classifier = hm.HardmaxClassifier()
classifier.fit(train.texts, train.labels)
accuracy = classifier.score(test.texts, test.labels)
print(f"Accuracy on {len(test.texts)} new reviews: {accuracy:.2f}")
assert accuracy > 0.8

# %%
# The words of each review in the order of their contributions, and the rank of the
# first decisive word. Contributions are exact: with the bias they add up to the logit.

ranks = []
for why, planted in zip(classifier.explain_many(test.texts), test.planted, strict=True):
    assert abs(why.bias + why.contributions.sum() - why.logit) < 1e-9
    deciding = {word for words in planted for word in words.split()}
    order = sorted(why.highlights, key=lambda mark: -abs(mark.contribution))
    ranks.append(
        next(rank for rank, mark in enumerate(order, 1) if mark.word in deciding)
    )
share = sum(rank == 1 for rank in ranks) / len(ranks)
words = sum(len(text.split()) for text in test.texts) / len(test.texts)
print(
    f"The strongest word of a review is one that decides in {share:.0%} of them; a"
    f" review has {words:.0f} words."
)
assert share > 0.7

figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.bar(
    range(1, 11),
    [100 * sum(rank == k for rank in ranks) / len(ranks) for k in range(1, 11)],
    color=BLUE,
)
ax.axhline(100 / words, color=GREY, ls="--", label="a word at random")
ax.set(
    xlabel="rank of the first word that decides",
    ylabel="reviews (%)",
    xticks=range(1, 11),
)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# One review with a contrast: the words after "but" decide.

why = classifier.explain(
    "The opening was not good but superb is what I call the music. It has subtitles."
)
print(why)
figure = why.plot()
plt.show()

# %%
# A trained classifier is a folder with JSON and safetensors, in which nothing can run,
# and answers the same when loaded.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model"
    classifier.save(path)
    again = hm.HardmaxClassifier.load(path)
    assert (
        again.decision_function(test.texts) == classifier.decision_function(test.texts)
    ).all()
    print("Saved, loaded, and the same to the last bit.")

# %%
# What to try
# -----------
# ``reviews(1600, negation=0.5)`` makes half of the deciding words denied ones. The
# settings were chosen by cross-validation, from a linear start;
# ``hm.HardmaxClassifier(n_heads=2, ngram_range=(1, 2), epochs=8)`` trains.
