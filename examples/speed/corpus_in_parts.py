"""
A folder of reviews, answered in parts, and a word that should not count
========================================================================

A company has its reviews in files, more than fit into memory, and wants two things: an answer for each, and to know
which words carry the answers of the whole. ``hm.predict_files`` cuts the files into slices, answers each in a process
of its own, and writes Parquet. The explanation of a text adds up to its logit exactly, so sums over the corpus mean
something: they are parts of all logits. The model is the one inside the package, trained on film reviews; the reviews
here are made, so that for each of them the words that were planted are known.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client

import hardmax as hm
from hardmax.draw.style import AGAINST, FOR
from hardmax.text.datasets import reviews

corpus = reviews(6000, seed=1, negation=0.0, contrast=0.0)
print(corpus.texts[0])

# %%
# Three files in a folder. They are read in the order of their names, and rows are counted in each. Workers are threads
# of this process here, as in the example of a sweep; without ``engine`` there is a process for each core.

with (
    tempfile.TemporaryDirectory() as folder,
    Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client,
):
    source, out = Path(folder) / "reviews", Path(folder) / "scored"
    source.mkdir()
    for part, rows in enumerate(np.array_split(np.arange(len(corpus.texts)), 3)):
        texts = pd.DataFrame({"text": [corpus.texts[i] for i in rows]})
        texts.to_csv(source / f"part-{part}.csv", index=False)
    scored = hm.predict_files(source, out=out, explain=True, engine=client)
    print(f"{scored.rows} answers in {len(scored.parts())} parts")
    answers, tokens = scored.to_frame(), scored.tokens()
print(answers[["file", "row", "prediction", "probability"]].head(3).to_string(index=False))

# %%
# A row holds its reasons: tokens with what each adds to the logit. They are those of ``explain``, exactly. And most
# answers are right, although the model was trained on other texts.

classifier = hm.pretrained("imdb")
why = classifier.explain(corpus.texts[0])
logit = why.bias + sum(part["contribution"] for part in answers["explanation"][0])
assert abs(logit - why.logit) < 1e-9
right = np.mean([label[:3] == answer for label, answer in zip(corpus.labels, answers["prediction"], strict=True)])
print(f"{right:.0%} of the answers are right.")
assert right > 0.7

# %%
# The tokens that carry most of all answers together: the sum of their contributions, for (blue) and against (orange) a
# positive answer. Share is the part of all sizes. Pale bars are tokens without a planted word, which should not count.

shown = tokens.head(24).iloc[::-1]
print(tokens[["token", "count", "mean", "share"]].head(6).round(3).to_string(index=False))
figure, ax = plt.subplots(figsize=(8.5, 6.4), layout="constrained")
planted = {word for words in corpus.planted for word in words}
sought = [bool(set(token.split()) & planted) for token in shown["token"]]
bars = ax.barh(range(len(shown)), shown["sum"], color=[FOR if value > 0 else AGAINST for value in shown["sum"]])
for bar, good in zip(bars, sought, strict=True):
    bar.set_alpha(1.0 if good else 0.4)
ax.set(yticks=range(len(shown)), yticklabels=shown["token"], xlabel="sum of the contributions to the logit of pos")
ax.axvline(0, color="black", lw=0.8)
ax.set_title(f"24 of {len(tokens):,} tokens: {shown['share'].sum():.0%} of what moves {scored.rows:,} answers")
ax.margins(y=0.01)
plt.show()

# %%
# Many planted words are among them. But the first is not one: in these reviews "It has subtitles." means nothing, and
# the model takes it as praise, as it may be in the reviews that it was trained on. It shows in the answers: where
# subtitles are mentioned, more of them are wrong. One look at the table of the whole corpus has found what reading
# single explanations would not.

print(f"{sum(sought)} of the first 24 tokens contain a planted word. The first token is {tokens['token'][0]!r}.")
assert tokens["token"][0] == "subtitles"
correct = np.array([label[:3] == answer for label, answer in zip(corpus.labels, answers["prediction"], strict=True)])
mention = np.array(["subtitles" in text for text in corpus.texts])
print(f"Right with subtitles: {correct[mention].mean():.0%}; without: {correct[~mention].mean():.0%}.")
assert correct[mention].mean() < correct[~mention].mean()

# %%
# What to try
# -----------
# ``hardmax predict FOLDER --out scored/ --explain --tokens tokens.csv`` does the same for your files. Stop it and start
# it again: it goes on. DuckDB, Polars and Spark read the parts.
