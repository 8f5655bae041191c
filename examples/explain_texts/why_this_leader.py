"""
Why a token follows this leader
===============================

A token follows the leader with the largest product: :math:`\\langle A z_i, z_l - z_j
\\rangle > 0` for all others. This margin is a sum over coordinates, so it can be split
exactly: which coordinates speak for the leader, and which for the runner-up. In a text
classifier each head has coordinates of its own, and tokens are words.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import BLUE, GREY, ORANGE

tokens = hm.configuration("gaussian", n=20, d=6, seed=3)
run = hm.simulate(tokens, hm.Hardmax(0.5), layers=0)
token = next(i for i in range(20) if i not in run.leaders)
first, second = np.argsort(tokens @ tokens[token])[:-3:-1].tolist()
parts = hm.split_margin(tokens, token, leader=first, other=second)
print(
    f"token {token} follows {first}, not {second}, by {float(sum(parts)):.3f}:",
    [f"{float(x):+.2f}" for x in parts],
)

# %%
# The same for a word of a review and each of the first 16 heads of the model ``imdb``:
# the word that it follows, the runner-up, and the margin between them. A small margin
# means that another word of the text could take over.

why = hm.pretrained("imdb").explain(
    "The story is weak, but the actors are wonderful and the ending is great."
)
word = "wonderful"
splits = [
    (h, split) for h, split in enumerate(why.split_margin(word)) if split is not None
][:16]
for h, split in splits[:4]:
    print(
        f"head {h}: {word} follows {split.leader}, not {split.other}, by"
        f" {float(split.total):.3g}"
    )
    assert split.total == sum(split.parts) > 0

# %%
# Left: the parts of the first margin, blue for the leader and orange for the runner-up.
# Right: margins of the word by head, split by the two coordinates of each head.

figure, (left, right) = plt.subplots(
    1, 2, figsize=(12, 4.8), layout="constrained", width_ratios=[1, 1.6]
)
values = np.array(parts, float)
left.bar(range(6), values, color=np.where(values > 0, BLUE, ORANGE))
left.axhline(0, color=GREY, lw=0.8)
left.set(
    xlabel="coordinate",
    title=f"token {token} follows {first} rather than {second}: {values.sum():+.2f}",
)
at, shares = (
    np.arange(len(splits)),
    np.array([[float(x) for x in split.parts] for _, split in splits]),
)
for r, colour in enumerate((BLUE, ORANGE)):
    right.barh(
        at + 0.2 - 0.4 * r,
        shares[:, r],
        height=0.38,
        color=colour,
        label=f"coordinate {r}",
    )
right.scatter(shares.sum(axis=1), at, color="k", zorder=3, label="margin")
right.axvline(0, color=GREY, lw=0.8)
right.set_yticks(
    at,
    [f"head {h}: {split.leader}, not {split.other}" for h, split in splits],
    fontsize=8,
)
right.set(title=f'what "{word}" follows, by head', ylim=(len(splits) - 0.5, -0.5))
right.legend(frameon=False, fontsize=8)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What to try ----------- Another word of the text, such as ``word = "weak"``; or a
# matrix ``A`` for ``hm.split_margin``, which weighs coordinates.
