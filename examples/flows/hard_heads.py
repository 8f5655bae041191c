"""
Hard heads of a trained transformer, and which tokens lead in them
==================================================================

How far are the heads of a trained model from hardmax? ``hm.inspect(model, text,
hard=...)`` replaces softmax by hardmax in chosen heads of MiniLM: each token then
attends to its top choice alone. The margins say by which factor the scores of a row
must be multiplied until its top choice holds 90 % of the attention, and the top choices
by kind of token show attention sinks: heads in which almost every token attends most to
a special token.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

text = (
    "The capital of France is Paris, and the river that flows through it is the Seine."
)
soft = hm.inspect("minilm", text)
layers, heads = soft.attention.shape[:2]
cosines = []
for k in range(1, layers + 1):
    hard = hm.inspect("minilm", text, hard=[(k, head) for head in range(heads)])
    cosines.append(soft.cosines_with(hard)[-1])
everywhere = hm.inspect(
    "minilm",
    text,
    hard=[(k, head) for k in range(1, layers + 1) for head in range(heads)],
)
print("cosine of the last states, one hard layer:", np.round(cosines, 3))
print("all layers hard:", soft.cosines_with(everywhere)[-1].round(3))

# %%
# Left: cosine of the last hidden states with those of the model, when all heads of one
# layer are hard. Middle: the share of top choices by kind of token, mean over heads.
# Right: quartiles of the margins.

top, margins = soft.top_choices(), soft.margins(0.9)
figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(12, 3.8), layout="constrained"
)
at = np.arange(1, layers + 1)
left.bar(at, cosines, color="tab:blue")
left.axhline(
    soft.cosines_with(everywhere)[-1], color="k", ls="--", lw=1, label="all layers hard"
)
left.set(ylim=(0, 1.25), xlabel="hard layer", title="cosine of the last states")
left.legend(frameon=False, loc="upper right")
base = np.zeros(layers)
for kind, shares in top.items():
    middle.bar(at, shares.mean(axis=1), bottom=base, label=kind)
    base += shares.mean(axis=1)
middle.set(ylim=(0, 1.25), xlabel="layer", title="top choices by kind of token")
middle.legend(frameon=False, fontsize=8, ncols=2, loc="upper center")
right.boxplot(
    [np.minimum(margins[k].ravel(), 1e3) for k in range(layers)], showfliers=False
)
right.set(yscale="log", xlabel="layer", title="factor for a share of 90 %")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
sinks = top["special"] > 0.9
print(
    f"{sinks.sum()} of {sinks.size} heads have a special token as top choice of more"
    " than 90 % of the rows"
)
print(
    "attention received by [CLS]:",
    soft.attention_shares[:, 0].round(2),
    "by [SEP]:",
    soft.attention_shares[:, -1].round(2),
)

# %%
# The sinks are known from other models: many heads of BERT attend to [SEP], which
# `Clark et al. 2019 <https://arxiv.org/abs/1906.04341>`_ read as doing nothing, and
# causal models attend to their first tokens (`Xiao et al. 2023
# <https://arxiv.org/abs/2309.17453>`_). In MiniLM the sink is the first token, [CLS],
# with about half of the attention of layers 2 to 5; [SEP] gets at most 6 % in any
# layer. ``python -m studies.newer_models probe`` measures what hard layers cost a
# linear probe on labelled sentences.

# %%
# What to try
# -----------
# Pass one head at a time, ``hard=[(3, 5)]``, to find heads that can be hard at no cost;
# or your own model's folder.
