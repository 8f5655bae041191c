"""
Train a classifier on reviews whose deciding words are known, and see whether its explanations find them
========================================================================================================

Train a classifier on reviews whose deciding words are known, and see whether its explanations find them.

"""

import tempfile
from pathlib import Path

import hardmax as hm
from hardmax.sentiment.corpus import reviews

train, test = reviews(1600, seed=1), reviews(400, seed=2)
classifier = hm.HardmaxClassifier(n_heads=2, groups=1, ngram_range=(1, 2), epochs=8, dropout=0.2, learning_rate=0.8)
classifier.fit(train.texts, train.labels)
print(f"Accuracy on {len(test.texts)} new reviews: {classifier.score(test.texts, test.labels):.3f}")

found = 0
for why, planted in zip(classifier.explain_many(test.texts), test.planted, strict=True):
    assert abs(why.bias + why.contributions.sum() - why.logit) < 1e-9  # the terms are the logit
    strongest = max(why.highlights, key=lambda mark: abs(mark.contribution))
    found += any(strongest.word in words.split() for words in planted)
print(f"The word that counts most is one of those that decide in {found / len(test.texts):.0%} of them.")

why = classifier.explain("The opening was not good but superb is what I call the music. It has subtitles.")
print(why)
leading = {group.word for groups in why.leaders for group in groups}
print("Leaders in capitals:", " ".join(m.word.upper() if m.word in leading else m.word for m in why.highlights))
print("In many reviews:", classifier.leaders(test.texts))

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model"
    classifier.save(path)
    again = hm.HardmaxClassifier.load(path)
    assert (again.decision_function(test.texts) == classifier.decision_function(test.texts)).all()
    size = sum(file.stat().st_size for file in path.iterdir())
    print(f"Saved in {size / 1000:.0f} kB, loaded, and the same to the last bit.")
