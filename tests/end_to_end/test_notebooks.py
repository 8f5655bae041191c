"""What a notebook shows: cards of results, pages and movies that show themselves, every figure once."""

import base64
import html
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn
from matplotlib.collections import LineCollection

import hardmax as hm
from hardmax.draw.movies import Movie
from hardmax.draw.pages import Page

pytest.importorskip("IPython", reason="needs IPython")
from IPython.core.formatters import DisplayFormatter
from IPython.display import display

SQUARE = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0], [-0.5, 0]]
RULE = hm.Hardmax(0.5)


@pytest.fixture(scope="module")
def trajectory():
    return hm.simulate(SQUARE, RULE, layers=3)


@pytest.fixture(scope="module")
def classifier():
    return hm.pretrained("imdb-2d")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def shown(value: object) -> str:
    """The HTML that a notebook takes, which is never as long as a page."""
    formats = DisplayFormatter().format(value)[0]
    assert len(formats["text/plain"]) < 10_000
    return formats["text/html"]


def words(card: str) -> str:
    return " ".join(html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", card, flags=re.DOTALL)).split())


def test_a_trajectory_says_what_ran(trajectory):
    said = words(shown(trajectory))
    assert trajectory.status in said
    assert "rule Hardmax(alpha=0.5) saved 4, layer 0 to layer 3 tokens 6 by 2 leaders 0, 1, 2, 3" in said
    flow = hm.simulate(SQUARE, hm.SelfAttention(V=np.eye(2)), times=[0, 1])
    assert "V=[[1.0, 0.0], [0.0, 1.0]]" in words(shown(flow))
    assert "saved 2, t = 0 to t = 1" in words(shown(flow))
    many = hm.simulate(hm.configuration("sphere", n=20), RULE, layers=1)
    assert "10, 11, and 8 more" in words(shown(many))
    batch = hm.simulate([SQUARE, SQUARE], RULE, layers=1)
    assert "tokens 2 by 6 by 2" in words(shown(batch))


def test_a_limit_says_where_tokens_end():
    limit = hm.limit(SQUARE, RULE)
    said = words(shown(limit))
    assert limit.status in said
    assert "(1, 0) 0.5 x leader 0 + 0.5 x leader 1 1" in said


def test_verdicts_are_a_table(trajectory):
    verdicts = hm.theorems.check(trajectory)
    assert isinstance(verdicts, list)
    assert all(verdict.name in words(shown(verdicts)) for verdict in verdicts)
    assert "F1 hull holds" in words(shown(verdicts[0]))
    assert "Theorem 1" not in words(shown(verdicts[0]))
    flow = hm.simulate(hm.configuration("sphere", n=4, d=3), hm.Sphere(1.0), times=[0, 1])
    assert "energy" in words(shown(hm.theorems.check(flow))).lower()


def test_an_explanation_is_its_text_with_the_words_that_count(classifier):
    explanation = classifier.explain("a wonderful film & a <b>dreadful</b> end")
    card = shown(explanation)
    assert "<b>dreadful" not in card
    assert "wonderful" in words(card)
    assert "Words that count most" in words(card)
    assert "iframe" in shown(explanation.to_html())


def test_a_classifier_has_a_card_above_its_own_picture(classifier):
    card = shown(classifier)
    said = words(card)
    assert said.index("classes neg, pos vocabulary") < card.index("sk-top-container")
    assert f"{len(classifier.model_.vocabulary):,} tokens heads 1 of 2 coordinates" in said
    assert shown(hm.HardmaxClassifier()).count("hardmax-card") == 0
    assert classifier._repr_html_().count('class="hardmax-card"') == 1
    with sklearn.config_context(display="text"):
        assert "text/html" not in DisplayFormatter().format(classifier)[0]


def test_the_words_on_the_card_lead_in_every_text(classifier):
    leading = re.findall(r"<tr><td>(.+?)</td><td>(?:neg|pos)</td></tr>", shown(classifier))
    assert leading
    for word in leading:
        found = classifier.explain(f"{word} was a film that the good and the bad saw , not much more").leaders
        assert any(leader.word == html.unescape(word) and leader.since == 0 for head in found for leader in head)


def test_accuracy_is_on_the_card_where_it_is_known():
    from hardmax.text.datasets import reviews

    corpus = reviews(200, seed=1)
    known, unknown = (
        hm.HardmaxClassifier(n_heads=2, groups=1, epochs=2, validation=part).fit(corpus.texts, corpus.labels)
        for part in (0.2, 0.0)
    )
    kept = next(epoch for epoch in known.history_ if epoch.kept)
    assert f"accuracy {kept.accuracy:.1%} on held-out texts" in words(shown(known))
    assert "accuracy" not in words(unknown._card())


def test_pages_show_themselves_and_are_strings(trajectory, tmp_path: Path):
    pytest.importorskip("plotly")
    page = hm.interactive(trajectory, tmp_path / "page.html")
    assert isinstance(page, Page)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == str(page) == page
    assert re.fullmatch(r"<Page of \d,\d{3} kB: page.save\('page.html'\) writes it>", repr(page))
    source = re.fullmatch(r'<iframe .* srcdoc="(.*)"></iframe>', shown(page), re.DOTALL)
    assert html.unescape(source[1]) == page
    assert "allow-same-origin" not in shown(page)  # its scripts do not reach the notebook
    page.save(tmp_path / "again.htm")
    assert (tmp_path / "again.htm").read_bytes() == (tmp_path / "page.html").read_bytes()
    with pytest.raises(ValueError, match=r"must end in \.html"):
        page.save(tmp_path / "page.pdf")


def test_movies_play_themselves(trajectory, tmp_path: Path):
    film = hm.draw.movie(trajectory, steps=1, fps=2)
    assert isinstance(film, Movie)
    code = re.fullmatch(r'<img alt=".*" src="data:image/gif;base64,(.*)">', shown(film))
    assert base64.b64decode(code[1]) == film.data
    assert film.data.startswith(b"GIF8")
    film.save(tmp_path / "film.gif")
    assert (tmp_path / "film.gif").read_bytes() == film.data
    assert hm.draw.movie(trajectory, tmp_path / "other.gif", steps=1, fps=2) == Movie.of(tmp_path / "other.gif")
    assert shown(Movie(b"0", ".mp4")) == (
        '<video controls autoplay loop muted src="data:video/mp4;base64,MA=="></video>'
    )
    with pytest.raises(ValueError, match=r"`path` must end in \.gif, as this movie is one\. Got .*film\.mp4"):
        film.save(tmp_path / "film.mp4")


def test_plots_are_methods(trajectory):
    assert [ax.get_title() for ax in trajectory.plot().axes] == ["layer 0", "layer 1", "layer 2", "layer 3"]
    assert [ax.get_title() for ax in trajectory.plot(1, tails=False).axes] == ["layer 1"]
    limit = hm.limit(SQUARE, RULE)
    np.testing.assert_array_equal(limit.start, SQUARE)
    (ax,) = limit.plot().axes
    assert ax.get_title() == "limit: certified at layer 0"
    lines = [line for c in ax.collections if isinstance(c, LineCollection) for line in c.get_segments()]
    assert any(np.allclose(line, [[0.5, 0], [1, 0]]) for line in lines)


@pytest.mark.parametrize(
    "plot",
    [
        lambda trajectory, classifier: trajectory.plot(),
        lambda trajectory, classifier: trajectory.plot(2),
        lambda trajectory, classifier: hm.limit(SQUARE, RULE).plot(),
        lambda trajectory, classifier: hm.draw.plot_layers(trajectory),
        lambda trajectory, classifier: classifier.explain("a good film").plot(kind="words"),
    ],
    ids=["layers", "layer", "limit", "function", "explanation"],
)
def test_a_figure_is_shown_once(plot, trajectory, classifier, monkeypatch):
    """A notebook first shows the value of a cell, and then what Matplotlib still has open."""
    figure, seen = plot(trajectory, classifier), []
    monkeypatch.setattr("IPython.display.display", lambda value: seen.append(value))
    figure._ipython_display_()
    assert seen == [figure]
    assert plt.fignum_exists(figure.number)  # in a window it stays open
    monkeypatch.setattr(plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    figure._ipython_display_()
    assert seen == [figure] * 2
    assert not plt.fignum_exists(figure.number)


def test_a_figure_that_was_shown_can_be_saved_and_shown_again(trajectory, tmp_path: Path, capsys):
    figure = trajectory.plot()
    display(figure)
    display(figure)
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
