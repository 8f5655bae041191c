"""
A hardmax transformer constructed to classify given sequences
=============================================================

`arXiv 2502.02270 <https://arxiv.org/abs/2502.02270>`_ shows that hardmax transformers
with rank-one matrices can classify any given sequences exactly.
``hm.construct_classifier`` returns such a transformer in rational numbers, by a
construction of this project. Nothing is learned: it memorises the sequences, and its
answer for any other sequence means nothing. It is the theorem made executable, not a
classifier to use.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

rng = np.random.default_rng(0)
sequences = [rng.integers(0, 6, (rng.integers(2, 5), 2)) for _ in range(5)]
labels = ["red", "blue", "red", "blue", "blue"]
model = hm.construct_classifier(sequences, labels)
print(model)
print(model.counts)
assert model.predict(sequences) == labels

# %%
# Each panel shows all tokens of all sequences after a round: the first coordinate names
# the token, the second is the code of its sequence. A round takes a token that one of
# two sequences with equal codes contains and the other does not, lifts it, lets all
# tokens attend to the highest one, and so gives one of the two a new code.

runs, rounds = [model.run(x) for x in sequences], model.counts["rounds"]
figure, axes = plt.subplots(1, rounds + 2, figsize=(12, 3.2), layout="constrained")
for r, ax in enumerate(axes):
    for number, (run, label) in enumerate(zip(runs, labels, strict=True)):
        z = np.array(run[1 + 2 * r] if r <= rounds else run[-1], float)
        ax.scatter(
            z[:, 0] + 0.12 * number * (r <= rounds),
            z[:, 1],
            color=f"tab:{label}",
            s=18,
            alpha=0.8,
        )
    ax.set(title=f"round {r}" if r <= rounds else "read-out", ylim=(-0.5, rounds + 0.5))
    ax.set(
        xlabel="token" if r <= rounds else "label",
        ylabel="code of the sequence" if r == 0 else "",
    )
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# ``simulate`` runs it, as any rule, with Fractions, and rounds the tokens that it
# returns.

run = hm.simulate(sequences[1], model, layers=len(model.blocks))
print(run.array[-1])
assert (run.array[-1, :, 0] == model.labels.index("blue")).all()

# %%
# What to try ----------- ``model.predict([[[0, 0], [5, 5]]])`` has an answer for tokens
# that no sequence has; it means nothing. Sequences that are equal as sets cannot have
# different labels: a hardmax transformer does not count copies here.
