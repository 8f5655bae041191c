"""
Predict a folder of reviews in parts, and find a spurious word
==============================================================

Files of reviews that do not fit into memory need a prediction per review, and a table
of the words that contribute most to all predictions. ``hm.predict_files`` divides the
files into slices, predicts each in a separate process, and writes Parquet.
Contributions add up to the logit exactly, so their sums over the corpus are parts of
the sum of all logits. The model is the one inside the package, trained on film reviews;
the reviews here are generated, so the decisive words are known.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client

import hardmax as hm
from hardmax.draw.style import BLUE, ORANGE
from hardmax.text.datasets import reviews

corpus = reviews(6000, seed=1, negation=0.0, contrast=0.0)
print(corpus.texts[0])

# %%
# Three files in a folder. They are read in the order of their names, and rows are
# counted in each. Workers are threads of this process here, as in the example of a
# sweep; without ``engine`` there is a process for each core.

with (
    tempfile.TemporaryDirectory() as folder,
    Client(
        processes=False,
        n_workers=1,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
    ) as client,
):
    source, out = Path(folder) / "reviews", Path(folder) / "scored"
    source.mkdir()
    for part, rows in enumerate(np.array_split(np.arange(len(corpus.texts)), 3)):
        texts = pd.DataFrame({"text": [corpus.texts[i] for i in rows]})
        texts.to_csv(source / f"part-{part}.csv", index=False)
    scored = hm.predict_files(source, out=out, explain=True, engine=client)
    print(f"{scored.rows} predictions in {len(scored.parts())} parts")
    answers, tokens = scored.to_frame(), scored.tokens()
print(
    answers[["file", "row", "prediction", "probability"]].head(3).to_string(index=False)
)

# %%
# A row contains the contribution of each token to the logit, exactly those of
# ``explain``. Most predictions are right, although the model was trained on other
# texts.

classifier = hm.pretrained("imdb")
why = classifier.explain(corpus.texts[0])
logit = why.bias + sum(part["contribution"] for part in answers["explanation"][0])
assert abs(logit - why.logit) < 1e-9
right = np.mean(
    [
        label[:3] == answer
        for label, answer in zip(corpus.labels, answers["prediction"], strict=True)
    ]
)
print(f"{right:.0%} of the predictions are right.")
assert right > 0.7

# %%
# The tokens with the largest sums of contributions, for (blue) and against (orange) a
# positive prediction. Share is the part of all sizes. Pale bars are tokens without a
# planted word, which should not count.

shown = tokens.head(24).iloc[::-1]
print(
    tokens[["token", "count", "mean", "share"]].head(6).round(3).to_string(index=False)
)
figure, ax = plt.subplots(figsize=(8.5, 6.4), layout="constrained")
planted = {word for words in corpus.planted for word in words}
sought = [bool(set(token.split()) & planted) for token in shown["token"]]
bars = ax.barh(
    range(len(shown)),
    shown["sum"],
    color=[BLUE if value > 0 else ORANGE for value in shown["sum"]],
)
for bar, good in zip(bars, sought, strict=True):
    bar.set_alpha(1.0 if good else 0.4)
ax.set(
    yticks=range(len(shown)),
    yticklabels=shown["token"],
    xlabel="sum of the contributions to the logit of pos",
)
ax.axvline(0, color="black", lw=0.8)
share = shown["share"].sum()
ax.set_title(
    f"24 of {len(tokens):,} tokens: {share:.0%} of the contributions in {scored.rows:,}"
    " predictions"
)
ax.margins(y=0.01)
plt.show()

# %%
# Many planted words are among them. But the first is not one: in these reviews "It has
# subtitles." means nothing, and but the model counts it as praise, as in its training
# reviews. The predictions show it: more of them are wrong for reviews with this
# sentence. The table of the whole corpus reveals such a word, single explanations
# hardly do.

print(
    f"{sum(sought)} of the first 24 tokens contain a planted word. The first token is"
    f" {tokens['token'][0]!r}."
)
assert tokens["token"][0] == "subtitles"
correct = np.array(
    [
        label[:3] == answer
        for label, answer in zip(corpus.labels, answers["prediction"], strict=True)
    ]
)
mention = np.array(["subtitles" in text for text in corpus.texts])
print(
    f"Right with subtitles: {correct[mention].mean():.0%}; without:"
    f" {correct[~mention].mean():.0%}."
)
assert correct[mention].mean() < correct[~mention].mean()

# %%
# What to try
# -----------
# ``hardmax predict FOLDER --out scored/ --explain --tokens tokens.csv`` does the same
# for your files. It can be stopped and resumed. DuckDB, Polars and Spark read the
# parts.
