"""A review read word by word: the contribution of each word, and the leaders."""

from course.pictures.shared import Frame
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import BLUE, ORANGE

TEXT = "The start is slow and the plot is not new, but the ending is wonderful."


def page() -> Page:
    """Return the page; the slider goes from the first word to the last."""
    classifier = hm.pretrained("imdb")
    whole = classifier.explain(TEXT).highlights
    ends = [part.end for part in whole]
    names = [f"{n + 1}. {TEXT[part.start : part.end]}" for n, part in enumerate(whole)]
    frames = []
    for end in ends:
        why = classifier.explain(TEXT[:end])
        values = [part.contribution for part in why.highlights] + [0.0] * (
            len(whole) - len(why.highlights)
        )
        top = [leading.word for leading in why.leading()[:3]]
        said = (
            f"“{TEXT[:end]}”\nLogit {why.logit:+.2f} = bias {why.bias:+.2f} and the"
            f" bars {why.logit - why.bias:+.2f}: "
        )
        said += (
            f"{why.prediction}, {why.probability:.0%}. Lead in most heads:"
            f" {', '.join(f'“{word}”' for word in top)}."
        )
        frames.append(
            Frame(
                str(len(why.highlights)), said, [[round(value, 4) for value in values]]
            )
        )
    bars = {
        "kind": "bars",
        "names": names,
        "low": -4.5,
        "high": 5.5,
        "label": "contribution to the logit",
    }
    return paged(
        frames,
        bars | {"positive": BLUE, "negative": ORANGE},
        title="A review, read word by word",
        slider="Words and punctuation read: ",
        legend=(
            "Bars: the contribution of each word to the logit, blue for pos, orange for"
            " neg. They change as more words are read, because leaders change and"
            " n-grams contribute, too. The bars and the bias sum to the logit."
        ),
        start=len(frames) - 1,
    )
