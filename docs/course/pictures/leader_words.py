"""A review read word by word: what each word adds to the answer, and who leads."""

from course.pictures.shared import Frame
from course.pictures.shared import page as paged

import hardmax as hm
from hardmax.draw.pages import Page
from hardmax.draw.style import AGAINST, FOR

TEXT = "The start is slow and the plot is not new, but the ending is wonderful."


def page() -> Page:
    """Slide from the first word to the last."""
    classifier = hm.pretrained("imdb")
    whole = classifier.explain(TEXT).highlights
    ends = [part.end for part in whole]
    names = [f"{n + 1}. {TEXT[part.start : part.end]}" for n, part in enumerate(whole)]
    frames = []
    for end in ends:
        why = classifier.explain(TEXT[:end])
        values = [part.contribution for part in why.highlights] + [0.0] * (len(whole) - len(why.highlights))
        top = [leading.word for leading in why.leading()[:3]]
        said = (
            f"“{TEXT[:end]}”\nLogit {why.logit:+.2f} = bias {why.bias:+.2f} and the bars {why.logit - why.bias:+.2f}: "
        )
        said += (
            f"{why.prediction}, {why.probability:.0%}. Lead in most heads: {', '.join(f'“{word}”' for word in top)}."
        )
        bars = {"type": "bar", "orientation": "h", "x": [round(v, 4) for v in values], "y": names}
        bars |= {"marker": {"color": [FOR if v > 0 else AGAINST for v in values]}, "hoverinfo": "x"}
        frames.append(Frame(str(len(why.highlights)), said, [bars]))
    high, low = 5.5, -4.5
    return paged(
        frames,
        title="A review, read word by word",
        slider="Words and signs read: ",
        legend="Bars: what each word adds to the logit, blue for pos, orange for neg. They change as more is read,"
        " because then others may be followed, and runs of words count too. Their sum with the bias is the "
        "logit, exactly.",
        start=len(frames) - 1,
        margin={"l": 110},
        xaxis={
            "range": [low, high],
            "title": {"text": "contribution to the logit", "standoff": 4},
            "zerolinecolor": "#444444",
        },
        yaxis={"autorange": "reversed", "showgrid": False, "tickfont": {"size": 11}, "ticklabelstandoff": 4},
    )
