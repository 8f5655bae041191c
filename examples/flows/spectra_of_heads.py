"""
Eigenvalues of the value matrices of a trained sentence encoder
===============================================================

The theorems of `arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_ depend on the
spectrum of :math:`V`. Do the value matrices of trained models satisfy their hypotheses?
The paper studies ALBERT; here are the 72 heads of all-MiniLM-L6-v2, whose weights come
with a Python package. For head :math:`a` the matrix in the role of :math:`V` is the
product :math:`O_a V_a` of its output and its value weights. ``hardmax reproduce
spectra`` writes the figure to a file, and ``hardmax inspect`` does it for a model of
your own.
"""

import matplotlib.pyplot as plt
import numpy as np

from hardmax.figures.spectra_heads import compute, draw

spectra = compute()  # (12 heads, 32 eigenvalues) for each of six layers
print(f"{len(spectra)} layers of {len(spectra[0])} heads")

# %%
# Every head of a layer in one complex plane. The eigenvalue of largest modulus of each
# head has an edge; it is orange where it is real and positive, as Theorem 4.2 requires,
# and white where it is not.

figure = draw(spectra)
plt.show()

# %%
# How many heads meet that hypothesis? Theorem 4.2 requires an eigenvalue that is real,
# positive, simple and larger than the modulus of all others. For comparison, 720
# Gaussian heads of the same shape.

leading = np.concatenate(
    [
        values[np.arange(len(values)), np.abs(values).argmax(axis=1)]
        for values in spectra
    ]
)
meets = (leading.imag == 0) & (leading.real > 0)
by_layer = meets.reshape(len(spectra), -1).sum(axis=1)
print(f"{meets.sum()} of {len(meets)} heads, by layer {by_layer.tolist()}")
assert 0 < meets.sum() < len(meets)

rng = np.random.default_rng(0)
chance = np.empty(720, bool)
for a in range(720):
    out, value = rng.normal(size=(2, 384, 32))
    values = np.linalg.eigvals(
        value.T @ out
    )  # those of the product of both other than 0
    top = values[np.abs(values).argmax()]
    chance[a] = top.imag == 0 and top.real > 0
print(
    f"{meets.mean():.0%} of the trained heads, {chance.mean():.0%} of the Gaussian ones"
)
assert meets.mean() > chance.mean()

# %%
# A third of the trained heads are of the proved kind, more than chance makes so. The
# others lead with a negative or a complex eigenvalue, for which there is a conjecture
# or nothing at all.

kinds = {
    "real and positive": int(meets.sum()),
    "real and negative": int(((leading.imag == 0) & (leading.real < 0)).sum()),
    "a complex pair": int((leading.imag != 0).sum()),
}
print(kinds)
assert sum(kinds.values()) == 72

# %%
# What to try
# -----------
# ``hm.inspect("FOLDER", ...)`` with a folder that holds a BERT, ALBERT, RoBERTa,
# DistilBERT or GPT-2 model. Real models have several heads, norms and feed-forward
# parts, so no theorem covers them as a whole.
