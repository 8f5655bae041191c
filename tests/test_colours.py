"""Colours that mean different things can be told apart, and none means two."""

from itertools import combinations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex, to_rgb

import hardmax as hm
from hardmax.draw import text_page
from hardmax.draw.style import AGAINST, BESIDE_WORDS, COLOURS, FOR, REST, point_colours, ranked_colours
from hardmax.figures import leaders_histogram

# Ottosson's Oklab, in which distances are about as large as differences look.
CONES = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
LAB = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])
SIGHTS = {  # Machado, Oliveira and Fernandes 2009, and the least distance that is asked for
    "usual": (np.eye(3), 0.12),
    "deuteranopia": (np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]), 0.07),
    "protanopia": (np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]), 0.07),
}


def seen(colour: str, sight: np.ndarray) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return LAB @ np.cbrt(CONES @ np.clip(sight @ linear, 0, 1))


@pytest.mark.parametrize("name", SIGHTS)
@pytest.mark.parametrize("colours", [[*COLOURS, REST, "white"], [*BESIDE_WORDS, FOR, AGAINST, REST, "white"]])
def test_colours_can_be_told_apart(colours: list[str], name: str) -> None:
    sight, least = SIGHTS[name]
    for one, other in combinations(colours, 2):
        assert np.linalg.norm(seen(one, sight) - seen(other, sight)) > least, (one, other)


def test_the_largest_have_colours_in_the_order_of_their_numbers() -> None:
    assert ranked_colours([3, 1, 2]) == COLOURS[:3]
    assert ranked_colours([1, 5, 2, 5, 5], ["a", "b", "c"]) == [REST, "a", REST, "b", "c"]
    assert ranked_colours([1, 1, 1], ["a", "b"]) == ["a", "b", REST]
    assert ranked_colours([4, 2], []) == [REST, REST]


def test_other_points_get_what_leaders_leave() -> None:
    assert point_colours([1, 1], [5, 9], ["a", "b", "c"]) == ["a", "b", REST, "c"]
    assert point_colours([1, 2, 3], [9], ["a", "b"]) == [REST, "a", "b", REST]


def test_pages_and_pictures_of_words_have_the_same_two_colours() -> None:
    for said, colour in ((text_page.FOR, FOR), (text_page.AGAINST, AGAINST)):
        assert [int(part) / 255 for part in said.split(",")] == list(to_rgb(colour))


@pytest.mark.parametrize(("text", "answer"), [("a wonderful film", "pos"), ("a terrible waste", "neg")])
def test_blue_is_the_side_of_the_answer_whichever_it_is(text: str, answer: str) -> None:
    mpl.use("Agg")
    explanation = hm.pretrained("imdb-2d").explain(text)
    assert explanation.prediction == answer
    figure = explanation.plot(kind="plane")
    ax = figure.axes[-1]
    mean = explanation.trajectory[0].array[-1].mean(axis=0)
    (shaded,) = [c for c in ax.collections if c.get_zorder() == 0 and c.get_alpha() is not None]
    sides = dict(zip((to_hex(c) for c in shaded.get_facecolors()), shaded.get_paths(), strict=True))
    assert sides[FOR.lower()].contains_point(mean)
    assert not sides[AGAINST.lower()].contains_point(mean)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"for the answer", "against it"} <= set(labels)
    tokens = [c for c in ax.collections if isinstance(c, PathCollection)]
    used = {to_hex(c) for collection in tokens for c in collection.get_facecolors()}
    assert not used & {FOR.lower(), AGAINST.lower()}  # who follows whom has other colours
    plt.close("all")


def test_bars_are_blue_for_the_answer_and_say_so() -> None:
    mpl.use("Agg")
    explanation = hm.pretrained("imdb").explain("The start is slow, but the ending is wonderful.")
    ax = explanation.plot(kind="words").axes[0]
    assert {to_hex(bar.get_facecolor()).upper() for bar in ax.patches if bar.get_width() > 0} == {FOR}
    assert {to_hex(bar.get_facecolor()).upper() for bar in ax.patches if bar.get_width() < 0} == {AGAINST}
    assert ax.get_xlabel() == "contribution to the logit: blue for pos, orange against it"
    plt.close("all")


def test_words_of_many_texts_have_colours_of_classes() -> None:
    mpl.use("Agg")
    ax = leaders_histogram.draw(leaders_histogram.compute()).axes[0]
    used = {to_hex(bar.get_facecolor()).upper() for bar in ax.patches}
    assert len(used) == 2
    assert not used & {FOR, AGAINST}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["speaks for positive", "speaks for negative"]
    plt.close("all")
