"""
Which words carry the answers of a whole corpus?
================================================

One explanation tells of one text. Who is responsible for a classifier asks of all of them: which words does it live on,
and which of them mislead it? As contributions are exact and add up, they can be summed over a corpus into one table.
Here it is a corpus made by the package, in which it is known that words of sentiment decide and that no other word
does: so the table can be checked.
"""

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

import hardmax as hm
from hardmax.draw.style import CLASSES
from hardmax.text.datasets import reviews

train, test = reviews(1600, seed=1), reviews(400, seed=2)
classifier = hm.HardmaxClassifier().fit(train.texts, train.labels)
print(f"accuracy on {len(test.texts)} new comments: {classifier.score(test.texts, test.labels):.2f}")

# %%
# A row for each token: in how many texts it stands, and the sum, the mean and the mean size of what it adds to the
# logit.

table = classifier.contributions(test.texts, test.labels)
print(table[["token", "count", "mean", "share"]].head(8).round(3).to_string(index=False))

# %%
# Left: each token by how often it stands in a comment and by how much it says there. Tokens with a word that decides,
# which is known from how the corpus was made, are in colour, all others in grey. The loud ones are rare, and the
# frequent ones are quiet. Right: the loudest of those that stand in at least five comments.

deciding = {word for planted in (*train.planted, *test.planted) for phrase in planted for word in phrase.split()}
known = table.token.map(lambda token: any(word in deciding for word in token.split()))
colours = table["mean"].map(lambda mean: CLASSES[int(mean > 0)])
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", width_ratios=(1.5, 1))
left.scatter(table["count"][~known], table["mean"][~known], s=14, color="#999999")
left.scatter(table["count"][known], table["mean"][known], s=26, c=colours[known])
left.set(xscale="log", xlabel="comments it stands in", ylabel="mean contribution to the logit of positive")
left.axhline(0, color="#444", lw=0.8)
names = (("#999999", "neutral"), (CLASSES[1], "decides, for positive"), (CLASSES[0], "decides, for negative"))
left.legend(handles=[Patch(color=colour, label=name) for colour, name in names], frameon=False)
loudest = table[table["count"] >= 5].sort_values("mean_abs", ascending=False).head(16)
right.barh(loudest.token, loudest["mean"], color=colours[loudest.index])
right.invert_yaxis()
right.set_xlabel("mean contribution")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Does the classifier live on the right words? All of the loudest tokens hold one that decides.

found = known[loudest.index].mean()
print(f"{found:.0%} of the {len(loudest)} loudest tokens hold a word that decides")
assert found > 0.9

# %%
# And on which does it stumble? With the true labels the table has the same sums for wrong answers alone. These tokens
# say most there:

wrong = table.assign(size=table.sum_wrong.abs()).sort_values("size", ascending=False).head(6)
print(wrong[["token", "count_right", "count_wrong", "mean_wrong"]].round(2).to_string(index=False))

# %%
# What to try
# -----------
# ``ngram_range=(1, 1)`` leaves single words, which cannot see "not good".
# ``hardmax evaluate comments.csv --tokens tokens.csv`` writes the table of a file, and
# ``hardmax predict big.parquet --out scored/ --explain`` that of a corpus larger than memory.
