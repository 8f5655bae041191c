"""
Steer a classifier
==================

Steer a classifier: choose the matrix A so that a chosen word leads, and see what that does to the prediction.

The words stay where training has put them, and so do the decoder and its bias. Only A changes, and with it who follows
whom: each row is the A closest to the identity for which that word leads among the words of this review.

    python examples/control/steer_a_review.py [PICTURE]
"""

import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np

import hardmax as hm
from hardmax.draw.control import plot_control
from hardmax.sentiment.explanation import explain

mpl.use("Agg")
REVIEW = (
    "I wanted to like this film. The camera work is superb and the first half hour is funny, but then the story falls "
    "apart, nothing makes sense any more, and the ending is a mess. What a waste of a good cast."
)

model = hm.pretrained("imdb-2d").model_
before = explain(model, REVIEW)
(trajectory,) = before.trajectory  # one head
tokens, words = trajectory.array[0], before.words[before.rows]


def lead(explanation, chosen: str = "") -> str:
    """Leaders with the part of the crowd that is theirs: large ones, and the chosen one whatever its part."""
    groups = [group for group in explanation.leaders[0] if group.share >= 0.05 or group.word == chosen]
    return ", ".join(f"{group.word} {group.share:.0%}" for group in groups)


print(f"as trained: {before.prediction} {before.probability:.0%}, logit {before.logit:+.2f}; led by {lead(before)}\n")
able = np.flatnonzero(hm.control.can_lead(tokens))
print(f"{len(able)} of {len(tokens)} words can lead for some A; those that do not yet:")
flipped = None
for i in (i for i in able.tolist() if i not in trajectory.leaders):
    chosen = hm.control.choose_A(tokens, leaders=[i], prefer="identity")
    after = explain(replace(model, weights=replace(model.weights, A=chosen.A[None])), REVIEW)
    assert words[i] in {group.word for group in after.leaders[0]}
    far = np.linalg.norm(chosen.A - np.eye(2))
    print(
        f"  {words[i]:8}{after.prediction} {after.probability:.0%}, logit {after.logit:+.2f}, |A - I| = {far:.2f}; ",
        end="",
    )
    print(f"led by {lead(after, words[i])}")
    flipped = chosen if after.prediction != before.prediction and flipped is None else flipped

shown = flipped or chosen
picture = sys.argv[1] if len(sys.argv) > 1 else "steer_a_review.png"
plot_control(shown, alpha=float(model.weights.alpha[0]), names=words).savefig(picture, dpi=110)
print(f"\n{picture}: the words before and after '{words[shown.leaders[0]]}' was made a leader")
print(
    "The prediction is a property of the words and of A together: a word that few follow says little, however strong."
)
