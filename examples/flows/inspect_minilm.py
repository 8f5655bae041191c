"""
Clusters in the hidden states of a trained sentence encoder
===========================================================

The theorems are about attention alone and many layers. A trained model has six layers,
with twelve heads, norms and feed-forward parts. This example measures whether its
tokens still cluster, and how far its attention is from the Boolean matrices of `arXiv
2305.05465 <https://arxiv.org/abs/2305.05465>`_. The model is MiniLM on one sentence;
its weights come with a Python package, and nothing is downloaded.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

SENTENCE = (
    "The acting was wonderful, but the plot could not have been more predictable."
)
found = hm.inspect("minilm", SENTENCE)
print(found)

# %%
# Left: the eigenvalues of each layer's value matrices. Right, by layer: the effective
# rank of attention, how far it is from Boolean (0 where each token attends to one), how
# many effective clusters the tokens have, and their mean cosine.

figure = hm.draw.plot_inspection(found)
plt.show()

# %%
# Effective clusters fall and cosines rise: tokens do gather. Attention stays far from
# Boolean: its rows are shared between several tokens in every layer.

print("layer   effective clusters   mean cosine   Boolean distance   most attended")
for layer in (0, *found.layers):
    row = f"{layer:5d}{found.effective_clusters[layer]:21.2f}{found.mean_cosine[layer]:14.2f}"
    if layer:
        shares = found.attention_shares[layer - 1]
        best = int(np.argmax(shares))
        row += (
            f"{found.boolean_distance[layer - 1].mean():19.2f}   {found.pieces[best]}"
            f" ({shares[best]:.0%})"
        )
    print(row)
assert found.effective_clusters[-1] < found.effective_clusters[0]
assert found.mean_cosine[-1] > found.mean_cosine[0]
assert found.boolean_distance.mean(axis=1).min() > 0.2

# %%
# What to try
# -----------
# A sentence of your own, or a paragraph. ``hardmax inspect FOLDER "a sentence" --out
# spectra.png`` does the same for models of the BERT, ALBERT, RoBERTa, DistilBERT and
# GPT-2 families.
