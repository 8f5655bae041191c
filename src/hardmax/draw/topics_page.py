"""A corpus as a page: a map of its texts, and each topic with its words, its leader and texts that stand for it."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._types import AnyArray, FloatArray
from hardmax.draw.pages import Page, render
from hardmax.draw.style import REST, drawn_rows, ranked_colours, thinned_line

if TYPE_CHECKING:
    from hardmax.cluster.topic import Topic
    from hardmax.cluster.topics import HardmaxTopics

MOST_DRAWN = 5_000  # texts in the map: about a megabyte
LONGEST = 300  # letters of a text that are shown and searched
WIDTH, HEIGHT, MARGIN = 1000, 560, 30  # of the map


class Dot(NamedTuple):
    """A text in the map."""

    at: tuple[float, float]
    topic: int
    text: str


def topics_page(found: "HardmaxTopics", title: str, sentence: str) -> Page:
    """The page of `HardmaxTopics.to_html`; texts without a direction are not in the map."""
    topics, texts, vectors, labels = found.topics_, found.texts_, found.vectors_, found.labels_
    shown = np.flatnonzero(vectors.any(axis=1))
    plane, share = principal_plane(vectors[shown])
    place = np.searchsorted(shown, found.leaders_)
    drawn = drawn_rows(plane, place, MOST_DRAWN)
    at = _fitted(plane)
    dots = [Dot(at[i], int(labels[shown[i]]), _cut(texts[shown[i]])) for i in drawn]
    dots.sort(key=lambda dot: dot.topic >= 0)  # those of no topic lie below
    colours = ranked_colours([topic.size for topic in topics])
    page = render(
        "topics",
        title=title,
        sentence=sentence,
        width=WIDTH,
        height=HEIGHT,
        radius=round(float(np.clip(110 / np.sqrt(len(dots)), 2.2, 7.0)), 1),
        dots=dots,
        leaders=[Dot(at[i], topic.number, _cut(topic.leader)) for i, topic in zip(place, topics, strict=True)],
        colours=colours,
        topics=[_shown(topic) for topic in topics],
        caption=_caption(
            share, len(drawn), len(shown), has_grey=REST in colours, has_none=bool((labels[shown] < 0).any())
        ),
        longest=LONGEST,
    )
    return Page(page)


def principal_plane(vectors: AnyArray) -> tuple[FloatArray, float]:
    """(n, 2) unit vectors seen along their two widest axes, and the part of their spread that is seen."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    centred = np.asarray(unit - unit.mean(axis=0, dtype=np.float64), np.float64)
    values, axes = np.linalg.eigh(centred.T @ centred)  # rising
    axes = axes[:, ::-1][:, :2]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])  # one of the mirror images
    plane = centred @ (axes * signs)
    if plane.shape[1] < 2:
        plane = np.column_stack([plane, np.zeros(len(plane))])
    total = float(values.sum())
    return plane, float(values[-2:].sum() / total) if total > 0 else 1.0


def _fitted(plane: FloatArray) -> list[tuple[float, float]]:
    """Where points are drawn: on one scale for both axes, in the middle."""
    low, high = plane.min(axis=0), plane.max(axis=0)
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
    spread = high - low
    scale = float((room[spread > 0] / spread[spread > 0]).min()) if spread.any() else 1.0
    moved = (plane - (low + high) / 2) * scale * [1, -1] + np.array([WIDTH, HEIGHT]) / 2
    return [(round(float(x), 1), round(float(y), 1)) for x, y in moved]


def _shown(topic: "Topic") -> dict[str, Any]:
    best = topic.words[0].score if topic.words else 1.0
    return {
        "number": topic.number,
        "size": f"{topic.size:,} text{'s' * (topic.size != 1)}",
        "strength": f"{topic.strength:.2f}",
        "leader": _cut(topic.leader),
        "exemplars": [_cut(text) for text in topic.exemplars[1:]],
        "words": [(word, f"{score:.1f}", f"{100 * score / best:.1f}") for word, score in topic.words],
    }


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _caption(share: float, drawn: int, n: int, *, has_grey: bool, has_none: bool) -> str:
    """What the map shows, and what it leaves out."""
    seen = f"Texts by the two widest axes of their vectors ({share:.0%} of the spread): near here may be far in truth"
    grey = "grey: the smaller topics" if has_grey else ""
    none = "hollow: in no topic" if has_none else ""
    return "; ".join(filter(None, (seen, "rings: leaders", grey, none, thinned_line(drawn, n, "texts")))) + "."
