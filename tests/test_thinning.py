"""Of very many tokens a picture shows some, always those it is about, and says so."""

from base64 import b64decode

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection

import hardmax as hm
from hardmax.draw import pages, style
from hardmax.draw.pages import Picture
from hardmax.draw.style import MOST_DRAWN, drawn_rows, find_extreme_rows
from hardmax.draw.tokens import plot_layers, plot_limit, plot_tokens

RULE = hm.Hardmax(0.5)


pytestmark = pytest.mark.usefixtures("headless")


def test_few_points_are_all_drawn_and_of_many_those_that_matter() -> None:
    few = np.random.default_rng(0).normal(size=(MOST_DRAWN, 2))
    assert np.array_equal(drawn_rows(few, np.empty(0, np.intp)), np.arange(MOST_DRAWN))
    many = np.random.default_rng(0).normal(size=(5 * MOST_DRAWN, 2))
    rows = drawn_rows(many, np.array([7, 99_999]))
    assert MOST_DRAWN - 100 < len(rows) <= MOST_DRAWN
    assert set(rows) >= {7, 99_999, *find_extreme_rows(many).tolist()}
    assert np.array_equal(rows, drawn_rows(many, np.array([7, 99_999])))  # the same on every run
    assert len(drawn_rows(many, np.arange(3 * MOST_DRAWN))) >= 3 * MOST_DRAWN  # what is asked for is never left out


def test_corners_of_a_flat_cloud_are_its_ends() -> None:
    line = np.column_stack([np.linspace(0, 1, 50), np.zeros(50)])
    assert {0, 49} <= set(find_extreme_rows(line).tolist())
    square = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.4]])
    assert find_extreme_rows(square).tolist() == [0, 1, 2, 3]


def test_pictures_of_many_tokens_are_thinned_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "MOST_DRAWN", 200)
    tokens = hm.configuration("gaussian", n=1000)
    limit, run = hm.limit(tokens, RULE), hm.simulate(tokens, RULE, layers=3)
    ax = plot_limit(limit, tokens)
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    starts = {tuple(segment[0]) for segment in lines.get_segments()}
    assert len(starts) <= 200
    assert {tuple(tokens[i]) for i in find_extreme_rows(tokens)} | {tuple(tokens[i]) for i in limit.leaders} <= starts
    stars = [c for c in ax.collections if isinstance(c, PathCollection)][-1]
    assert np.allclose(stars.get_offsets(), limit.points)  # every leader; here no other point
    assert f"{len(starts)} of 1,000 tokens drawn" in ax.figure.get_supxlabel()
    for figure in (plot_layers(run), plot_tokens(run).figure):
        assert "of 1,000 tokens drawn" in " ".join(figure.get_supxlabel().split())
        markers = [c for c in figure.axes[0].collections if isinstance(c, PathCollection)]
        assert sum(len(c.get_offsets()) for c in markers) <= 200
    assert "drawn" not in plot_tokens(hm.simulate(tokens[:100], RULE, layers=1)).figure.get_supxlabel()


def test_a_page_holds_very_many_lines_as_one_image(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = hm.configuration("gaussian", n=1000)
    limit = hm.limit(tokens, RULE)
    drawn = Picture.of(plot_limit(limit).figure, "limit", "")
    monkeypatch.setattr(pages, "MAX_SHAPES", 500)
    thin = Picture.of(plot_limit(limit).figure, "limit", "")
    whole, image = (b64decode(picture.source.partition(",")[2]) for picture in (drawn, thin))
    assert b"data:image/png" not in whole
    assert image.count(b"data:image/png") == 2  # of the lines, and of the tokens
    assert image.count(b"<path") < whole.count(b"<path") / 5
