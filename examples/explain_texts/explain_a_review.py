"""
Why does a classifier call a review negative? With a model that comes with the package
======================================================================================

Why does a classifier call a review negative? With a model that comes with the package: nothing is trained.

python examples/explain_texts/explain_a_review.py [FOLDER]
"""

import sys
from pathlib import Path

import matplotlib as mpl

import hardmax as hm

mpl.use("Agg")
REVIEW = (
    "I wanted to like this film. The camera work is superb and the first half hour is funny, but then the story falls "
    "apart, nothing makes sense any more, and the ending is a mess. What a waste of a good cast."
)

why = hm.pretrained("imdb").explain(REVIEW)
print(f"{why.prediction} with probability {why.probability:.3f}")
print("\nwhat counts most")
for word, contribution in why.top(8):
    print(f"  {word:18} {contribution:+.2f}")
print(f"  bias {why.bias:+.4f}; the sum of all {len(why.words)} is the logit, {why.logit:.4f}")
assert abs(why.bias + why.contributions.sum() - why.logit) < 1e-9

print("\nwho leads in the first heads")
for h, groups in enumerate(why.leaders[:3], 1):
    print(f"  head {h}: " + "; ".join(f"{g.word} ({g.share:.0%}, {len(g.followers)} behind it)" for g in groups))

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "why")
folder.mkdir(exist_ok=True)
why.to_html(folder / "why.html")
why.plot().savefig(folder / "words.png")
flat = hm.pretrained("imdb-2d").explain(REVIEW)  # one head in the plane: it can be drawn and filmed
flat.plot().savefig(folder / "plane.png")
flat.movie(folder / "gathering.gif")
print("\nWrote", ", ".join(f"{path} ({path.stat().st_size / 1000:.0f} kB)" for path in sorted(folder.iterdir())))
