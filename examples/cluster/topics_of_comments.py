"""
Topics of comments: sentence embeddings and HardmaxClustering
=============================================================

What do customers write about? MiniLM turns each comment into a vector, and
``HardmaxClustering`` groups the vectors around leaders. A leader is one of the
comments, so each cluster has a readable representative; the words that are more
frequent in the cluster than elsewhere complete the picture. The model comes with a
Python package: nothing is downloaded.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

import hardmax as hm
from hardmax.transformers import embed

COMMENTS = """
The parcel arrived two days late. | Delivery took more than a week. | My package never reached me.
The courier left the box in the rain. | The shipment was delayed again. | The box was delivered to my neighbour.
The screen cracked after one drop. | There is a scratch on the display. | The phone's glass broke in my pocket.
The display flickers in the sun. | Half of the touchscreen does not respond. | Dead pixels appeared on the screen.
The battery is empty by noon. | It needs charging twice a day. | The battery drains even when the phone is off.
Charging takes the whole night. | The battery swelled after a month. | The battery gets hot while charging.
I want my money back. | The refund was on my account after three days. | They charged my card twice.
The invoice shows the wrong amount. | My refund is still missing. | I was billed for something I had returned.
"""
texts = [
    part.strip() for line in COMMENTS.strip().splitlines() for part in line.split("|")
]

# %%
# Only the directions of embeddings carry meaning, so use cosine distances. Each topic
# has six comments here: choose ``n_neighbors`` a little below that. With hundreds of
# texts the default is better.

clustering = hm.HardmaxClustering(n_clusters=4, metric="cosine", n_neighbors=4).fit(
    embed(texts)
)
assert clustering.certified_

# %%
# Words per cluster: the share of texts that contain a word, in the cluster minus
# elsewhere.

counter = CountVectorizer(binary=True, stop_words="english")
has_word = counter.fit_transform(texts).toarray()  # (texts, words)
words = counter.get_feature_names_out()
figure, axes = plt.subplots(2, 2, figsize=(9, 5), layout="constrained")
for c, (leader, ax) in enumerate(zip(clustering.leaders_, axes.flat, strict=True)):
    inside = clustering.labels_ == c
    difference = has_word[inside].mean(axis=0) - has_word[~inside].mean(axis=0)
    top = np.argsort(-difference, kind="stable")[:4]
    print(f"{texts[leader]}   ({inside.sum()} comments; {', '.join(words[top])})")
    ax.barh(words[top][::-1], difference[top][::-1], color=f"C{c}")
    ax.set_title(texts[leader], fontsize=10)
    ax.set_xlabel("share in the cluster minus share elsewhere", fontsize=8)
plt.show()

# %%
# New comments follow the fitted ones; labels of fitted comments do not change.

new = ["The glass of the display is broken.", "The courier rang the wrong bell."]
for text, label in zip(new, clustering.predict(embed(new)), strict=True):
    print(f"{text} -> {texts[clustering.leaders_[label]]}")

# %%
# What to try
# -----------
# ``clustering.tree_.cut(2)`` returns two coarser clusters without another fit.
# ``BERTopic`` accepts ``HardmaxClustering`` as its clusterer: see the how-to "Cluster
# embeddings and name the clusters".
