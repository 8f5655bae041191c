"""
Change a prediction by choosing the word that leads
===================================================

The prediction of a hardmax classifier depends on the words around which the others
gather. Here the word vectors, the decoder and its bias stay as trained, and only the
matrix A is changed, so that one chosen word leads at layer 0. With A the argmax sets
change, and with them the prediction. Contributions add up to the logit exactly, before
and after.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import BLUE, EDGE, ORANGE, SHADE
from hardmax.text.explanation import Explanation, explain

REVIEW = (
    "I wanted to like this film. The camera work is superb and the first half hour is"
    " funny, but then the story falls apart, nothing makes sense any more, and the"
    " ending is a mess. What a waste of a good cast."
)

model = hm.pretrained("imdb-2d").model_
before = explain(model, REVIEW)
(trajectory,) = before.trajectory  # one head
tokens, words = trajectory.array[0], before.words[before.rows]


def lead(explanation: Explanation, chosen: str = "") -> str:
    """Leaders with a share of at least 5 %, and the chosen one, with their shares."""
    groups = [
        group
        for group in explanation.leaders[0]
        if group.share >= 0.05 or group.word == chosen
    ]
    return ", ".join(f"{group.word} {group.share:.0%}" for group in groups)


print(
    f"as trained: {before.prediction} {before.probability:.0%}, logit"
    f" {before.logit:+.2f}; led by {lead(before)}"
)

# %%
# The words that can lead are the vertices of the hull (Theorem 5). For each of them two
# matrices are computed: the one closest to the identity for which it leads by half of
# the largest margin, and the one of the largest margin.

able = np.flatnonzero(hm.control.can_lead(tokens)).tolist()
print(f"{len(able)} of {len(tokens)} words can lead for some A.")
steered: dict[str, dict[str, tuple[hm.control.ControlResult, Explanation]]] = {
    "identity": {},
    "margin": {},
}
for i in able:
    for prefer, results in steered.items():
        chosen = hm.control.choose_A(tokens, leaders=[i], prefer=prefer)
        after = explain(
            replace(model, weights=replace(model.weights, A=chosen.A[None])), REVIEW
        )
        results[words[i]] = chosen, after
        assert words[i] in {group.word for group in after.leaders[0]}
        assert abs(after.bias + after.contributions.sum() - after.logit) < 1e-9
for word, (_, after) in steered["margin"].items():
    print(
        f"  {word:8}{after.prediction} {after.probability:4.0%}, led by"
        f" {lead(after, word)}"
    )

# %%
# The logit of the review for each word as a leader. The smallest change of A moves the
# logit a little and never changes its sign here; the change with the largest margin
# can.

figure, ax = plt.subplots(figsize=(9, 6.2), layout="constrained")
order = sorted(steered["margin"], key=lambda word: steered["margin"][word][1].logit)
for prefer, marker, label in (
    ("identity", "o", "smallest change of A"),
    ("margin", "s", "largest margin"),
):
    logits = [steered[prefer][word][1].logit for word in order]
    ax.scatter(
        logits,
        order,
        c=[BLUE if logit > 0 else ORANGE for logit in logits],
        marker=marker,
        zorder=3,
    )
    ax.scatter([], [], c=EDGE, marker=marker, label=label)
for word in order:
    ends = [steered[prefer][word][1].logit for prefer in steered]
    ax.plot(ends, [word, word], color=SHADE, lw=2)
ax.axvline(before.logit, color=EDGE, ls="--", lw=1, label="A as trained")
ax.axvline(0, color=EDGE, lw=1)
ax.set(
    xlabel="logit (below 0: negative, orange; above 0: positive, blue)",
    ylabel="word that leads",
)
ax.legend(loc="lower right")
plt.show()

flipped = {
    word: result
    for word, result in steered["margin"].items()
    if result[1].prediction != before.prediction
}
print("The prediction changes with a leader such as", ", ".join(list(flipped)[:4]))
assert flipped
assert all(
    after.prediction == before.prediction for _, after in steered["identity"].values()
)

# %%
# The words in the plane, for the largest change of the logit: before and after.

chosen, after = max(
    flipped.values(), key=lambda result: abs(result[1].logit - before.logit)
)
hm.draw.plot_control(chosen, alpha=float(model.weights.alpha[0]), names=words)
plt.show()

# %%
# What to try
# -----------
# A review of your own; two words at once, ``leaders=[i, j]``, or a proof that they
# cannot. The large model, ``hm.pretrained("imdb")``, has 32 heads to steer.
