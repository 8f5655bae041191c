"""
Change a prediction by choosing the word that leads
===================================================

The prediction of a hardmax classifier depends on the words around which the others gather. Here the word vectors, the
decoder and its bias stay as trained, and only the matrix A is changed, so that one chosen word leads at layer 0. With A
the argmax sets change, and with them the prediction. Contributions add up to the logit exactly, before and after.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import AGAINST, EDGE, FOR
from hardmax.text.explanation import Explanation, explain

REVIEW = (
    "I wanted to like this film. The camera work is superb and the first half hour is funny, but then the story falls "
    "apart, nothing makes sense any more, and the ending is a mess. What a waste of a good cast."
)

model = hm.pretrained("imdb-2d").model_
before = explain(model, REVIEW)
(trajectory,) = before.trajectory  # one head
tokens, words = trajectory.array[0], before.words[before.rows]


def lead(explanation: Explanation, chosen: str = "") -> str:
    """Leaders with the part of the crowd that is theirs: large ones, and the chosen one whatever its part."""
    groups = [group for group in explanation.leaders[0] if group.share >= 0.05 or group.word == chosen]
    return ", ".join(f"{group.word} {group.share:.0%}" for group in groups)


print(f"as trained: {before.prediction} {before.probability:.0%}, logit {before.logit:+.2f}; led by {lead(before)}")

# %%
# The words that can lead are the vertices of the hull (Theorem 5). For each of them two matrices are computed: the one
# closest to the identity for which it leads by half of the largest margin, and the one of the largest margin.

able = np.flatnonzero(hm.control.can_lead(tokens)).tolist()
print(f"{len(able)} of {len(tokens)} words can lead for some A.")
steered: dict[str, dict[str, tuple[hm.control.ControlResult, Explanation]]] = {"identity": {}, "margin": {}}
for i in able:
    for prefer, results in steered.items():
        chosen = hm.control.choose_A(tokens, leaders=[i], prefer=prefer)
        after = explain(replace(model, weights=replace(model.weights, A=chosen.A[None])), REVIEW)
        results[words[i]] = chosen, after
        assert words[i] in {group.word for group in after.leaders[0]}
        assert abs(after.bias + after.contributions.sum() - after.logit) < 1e-9
for word, (_, after) in steered["margin"].items():
    print(f"  {word:8}{after.prediction} {after.probability:4.0%}, led by {lead(after, word)}")

# %%
# The logit of the review for each word that was made a leader; the dashed line is the review as it was. A small change
# of A changes the logit a little and never its sign here. A large one changes the clusters, and can.

figure, ax = plt.subplots(figsize=(9, 6.2), layout="constrained")
places = np.arange(len(able))
for shift, prefer, look in ((-0.2, "identity", {"alpha": 0.45}), (0.2, "margin", {})):
    logits = np.array([after.logit for _, after in steered[prefer].values()])
    ax.barh(places + shift, logits, 0.38, color=[FOR if logit > 0 else AGAINST for logit in logits], **look)
ax.axvline(before.logit, color=EDGE, ls="--", lw=1)
ax.axvline(0, color=EDGE, lw=1)
ax.set(yticks=places, yticklabels=[f"'{words[i]}' leads" for i in able])
ax.set(xlabel="logit: negative on the left, positive on the right (pale: the smallest change of A)")
ax.invert_yaxis()
plt.show()

flipped = {word: result for word, result in steered["margin"].items() if result[1].prediction != before.prediction}
print("The answer flips with a leader such as", ", ".join(list(flipped)[:4]))
assert flipped
assert all(after.prediction == before.prediction for _, after in steered["identity"].values())

# %%
# The words in the plane, for the one that flips most: before, and after it was made a leader.

chosen, after = max(flipped.values(), key=lambda result: abs(result[1].logit - before.logit))
hm.draw.plot_control(chosen, alpha=float(model.weights.alpha[0]), names=words)
plt.show()

# %%
# What to try
# -----------
# A review of your own; two words at once, ``leaders=[i, j]``, or a proof that they cannot. The large model,
# ``hm.pretrained("imdb")``, has 32 heads to steer.
