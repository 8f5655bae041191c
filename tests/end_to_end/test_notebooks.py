"""Results in notebooks: cards, pages, movies, widgets, and every figure once."""

import base64
import html
import json
import re
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn

import hardmax as hm
from hardmax.draw.movies import Movie
from hardmax.draw.pages import Page

pytest.importorskip("IPython", reason="needs IPython")
pytest.importorskip("anywidget", reason="needs anywidget")
from IPython.core.formatters import DisplayFormatter

from hardmax.app.notebook import ExplanationWidget, PlaygroundWidget
from tests import browser

pytestmark = pytest.mark.usefixtures("headless")
SQUARE = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0], [-0.5, 0]]
RULE = hm.Hardmax(0.5)


@pytest.fixture(scope="module")
def trajectory():
    return hm.simulate(SQUARE, RULE, layers=3)


@pytest.fixture(scope="module")
def classifier():
    return hm.pretrained("imdb-2d")


def shown(value: object) -> str:
    """The HTML of a value in a notebook; its plain text is short."""
    formats = DisplayFormatter().format(value)[0]
    assert len(formats["text/plain"]) < 10_000
    return formats["text/html"]


def words(card: str) -> str:
    return " ".join(
        html.unescape(
            re.sub(r"<style>.*?</style>|<[^>]*>", " ", card, flags=re.DOTALL)
        ).split()
    )


def test_the_card_of_a_trajectory(trajectory):
    said = words(shown(trajectory))
    assert trajectory.status in said
    assert (
        "rule Hardmax(alpha=0.5) saved 4, layer 0 to layer 3 tokens 6 by 2 leaders 0,"
        " 1, 2, 3" in said
    )
    flow = hm.simulate(SQUARE, hm.SelfAttention(V=np.eye(2)), times=[0, 1])
    assert "V=[[1.0, 0.0], [0.0, 1.0]]" in words(shown(flow))
    assert "saved 2, t = 0 to t = 1" in words(shown(flow))
    many = hm.simulate(hm.configuration("sphere", n=20), RULE, layers=1)
    assert "10, 11, and 8 more" in words(shown(many))
    batch = hm.simulate([SQUARE, SQUARE], RULE, layers=1)
    assert "tokens 2 by 6 by 2" in words(shown(batch))


def test_the_card_of_a_limit():
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
    flow = hm.simulate(
        hm.configuration("sphere", n=4, d=3), hm.Sphere(1.0), times=[0, 1]
    )
    assert "energy" in words(shown(hm.theorems.check(flow))).lower()


def test_the_card_of_an_explanation(classifier):
    explanation = classifier.explain("a wonderful film & a <b>dreadful</b> end")
    card = shown(explanation)
    assert "<b>dreadful" not in card
    assert "wonderful" in words(card)
    assert "Words with the largest contributions" in words(card)
    assert "iframe" in shown(explanation.to_html())


def test_the_card_of_a_classifier_is_above_its_diagram(classifier):
    card = shown(classifier)
    said = words(card)
    assert said.index("classes neg, pos vocabulary") < card.index("sk-top-container")
    assert (
        f"{len(classifier.model_.vocabulary):,} tokens heads 1 of 2 coordinates" in said
    )
    assert shown(hm.HardmaxClassifier()).count("hardmax-card") == 0
    assert classifier._repr_html_().count('class="hardmax-card"') == 1
    with sklearn.config_context(display="text"):
        assert "text/html" not in DisplayFormatter().format(classifier)[0]


def test_words_on_the_card_lead_in_every_text(classifier):
    leading = re.findall(
        r"<tr><td>(.+?)</td><td>(?:neg|pos)</td></tr>", shown(classifier)
    )
    assert leading
    for word in leading:
        found = classifier.explain(
            f"{word} was a film that the good and the bad saw , not much more"
        ).leaders
        assert any(
            leader.word == html.unescape(word) and leader.since == 0
            for head in found
            for leader in head
        )


def test_the_card_has_the_accuracy_if_texts_were_held_out():
    from hardmax.text.card import notebook_card
    from hardmax.text.datasets import reviews

    corpus = reviews(200, seed=1)
    known, unknown = (
        hm.HardmaxClassifier(n_heads=2, groups=1, epochs=2, validation=part).fit(
            corpus.texts, corpus.labels
        )
        for part in (0.2, 0.0)
    )
    kept = next(epoch for epoch in known.history_ if epoch.kept)
    assert f"accuracy {kept.accuracy:.1%} on held-out texts" in words(shown(known))
    assert "accuracy" not in words(notebook_card(unknown.model_, unknown.history_))


def test_pages_are_strings_that_notebooks_show(trajectory, tmp_path: Path):
    page = hm.interactive(trajectory, tmp_path / "page.html")
    assert isinstance(page, Page)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == str(page) == page
    assert re.fullmatch(
        r"<Page of \d+ kB: page.save\('page.html'\) writes it>", repr(page)
    )
    source = re.fullmatch(r'<iframe .* srcdoc="(.*)"></iframe>', shown(page), re.DOTALL)
    assert html.unescape(source[1]) == page
    assert "allow-same-origin" not in shown(
        page
    )  # its scripts do not reach the notebook
    page.save(tmp_path / "again.htm")
    assert (tmp_path / "again.htm").read_bytes() == (
        tmp_path / "page.html"
    ).read_bytes()
    with pytest.raises(hm.ParameterError, match=r"must end in \.html"):
        page.save(tmp_path / "page.pdf")


def test_movies_play_in_notebooks(trajectory, tmp_path: Path):
    film = hm.draw.movie(trajectory, steps=1, fps=2)
    assert isinstance(film, Movie)
    code = re.fullmatch(r'<img alt=".*" src="data:image/gif;base64,(.*)">', shown(film))
    assert base64.b64decode(code[1]) == film.data
    assert film.data.startswith(b"GIF8")
    film.save(tmp_path / "film.gif")
    assert (tmp_path / "film.gif").read_bytes() == film.data
    other = hm.draw.movie(trajectory, tmp_path / "other.gif", steps=1, fps=2)
    assert other == Movie((tmp_path / "other.gif").read_bytes(), ".gif")
    video = (
        '<video controls autoplay loop muted src="data:video/mp4;base64,MA=="></video>'
    )
    assert shown(Movie(b"0", ".mp4")) == video
    with pytest.raises(hm.ParameterError, match="`path`"):
        film.save(tmp_path / "film.mp4")


PLOTS = {
    "layers": lambda trajectory, classifier: trajectory.plot(),
    "layer": lambda trajectory, classifier: trajectory.plot(2),
    "limit": lambda trajectory, classifier: hm.limit(SQUARE, RULE).plot(),
    "function": lambda trajectory, classifier: hm.draw.plot_layers(trajectory),
    "explanation": (
        lambda trajectory, classifier: classifier.explain("a good film").plot(
            kind="words"
        )
    ),
}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_a_figure_is_shown_once(
    plot, trajectory, classifier, monkeypatch, tmp_path: Path
):
    """A notebook first shows the value of a cell, and then the figures that Matplotlib
    has open.
    """
    figure, seen = plot(trajectory, classifier), []
    monkeypatch.setattr("IPython.display.display", lambda value: seen.append(value))
    figure._ipython_display_()
    assert seen == [figure]
    assert plt.fignum_exists(figure.number)  # in a window it stays open
    monkeypatch.setattr(
        plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline"
    )
    figure._ipython_display_()
    assert seen == [figure] * 2
    assert not plt.fignum_exists(figure.number)
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


TOKENS = [[1.0, 0.2], [0.1, 0.9], [-0.8, -0.6], [0.3, 0.1]]


def exchange(widget, message):
    """Return the reply to a message of the page, and its bytes."""
    replies = []
    widget.send = lambda content, buffers=(b"",): replies.append(
        (content, bytes(buffers[0]))
    )
    widget._receive(widget, message, [])
    (reply,) = replies
    assert reply[0]["id"] == message["id"]
    return reply


def receive(widget, path, body):
    """Return the header of the answer to a request, or the error."""
    content, data = exchange(widget, {"id": 7, "path": path, "body": body})
    return content.get("error") or json.loads(
        data[4 : 4 + int.from_bytes(data[:4], "little")]
    )


def test_the_playground_replies_to_messages():
    widget = hm.playground(TOKENS, hm.Hardmax(0.7), layers=5)
    assert isinstance(widget, PlaygroundWidget)
    assert (
        repr(widget)
        == "Playground of 4 tokens of dimension 2; .tokens holds the tokens after all"
        " edits."
    )
    assert "triangle" in receive(widget, "options", {})["configurations"]
    found = receive(widget, "scene", {"scene": widget.scene})
    assert (found["leaders"], len(found["layers"])) == ([0, 1, 2], 6)
    assert {"name": "positions", "kind": "f4", "shape": [6, 4, 2], "at": 0} in found[
        "arrays"
    ]
    request = {"scene": widget.scene, "kind": "csv"}
    content, file = exchange(widget, {"id": 8, "path": "export", "body": request})
    assert (content["file"], content["type"], file[:6]) == (
        True,
        "text/csv",
        b"x1,x2\n",
    )
    for path, body in (
        ("scene", {"scene": {"tokens": []}}),
        ("scene", None),
        ("files", {}),
    ):
        assert " must " in receive(widget, path, body)


def test_edits_in_the_browser_are_attributes_in_python():
    widget = hm.playground("square")
    moved = [[0.05, 0.02], *TOKENS[1:]]
    widget.scene = {"tokens": moved, "rule": "softmax", "temperature": 0, "alpha": 2}
    np.testing.assert_array_equal(widget.tokens, moved)
    assert repr(widget.rule) == repr(hm.Hardmax(2.0))


@pytest.mark.parametrize(
    "rule",
    [
        hm.Hardmax(0.7, causal=True),
        hm.Softmax(0.3, [[2.0, 0.5], [0.5, 1.0]], temperature=0.2),
        hm.SelfAttention(V=np.diag([1.0, -1.0])),
        hm.Sphere(4.0),
        hm.FrankWolfe(np.diag([1.0, 2.0]), steps=0.5),
    ],
)
def test_the_playground_keeps_a_rule(rule):
    assert repr(hm.playground(TOKENS, rule).rule) == repr(rule)


@pytest.mark.parametrize(
    ("tokens", "options", "name"),
    [
        (TOKENS, {"rule": hm.Normalize()}, "rule"),
        (TOKENS, {"rule": hm.FrankWolfe()}, "rule"),
        (TOKENS, {"rule": hm.SelfAttention(Q=np.eye(2))}, "rule"),
        (np.zeros((3, 40)), {}, "tokens"),
        (TOKENS, {"layers": 0}, "layers"),
    ],
)
def test_the_playground_refuses_what_it_cannot_show(tokens, options, name):
    with pytest.raises(hm.ParameterError) as caught:
        hm.playground(tokens, **options)
    assert caught.value.names == (name,)


def test_the_explanation_of_a_text_replies_to_messages(classifier):
    explanation = classifier.explain("A <b>wonderful</b> film with a dull end.")
    widget = explanation.show()
    assert isinstance(widget, ExplanationWidget)
    assert widget.text == explanation.text
    body = {"text": widget.text, "model": widget.name}
    found = receive(widget, "explain", body)
    assert found["logit"] == pytest.approx(explanation.logits[0])
    word = next(piece for piece in found["pieces"] if piece["text"] == "wonderful")
    edited = receive(
        widget, "explain", body | {"edits": [[word["start"], word["end"], ""]]}
    )
    assert edited["change"].startswith("1 word removed or replaced")
    assert edited["logit"] == pytest.approx(
        classifier.explain("A <b></b> film with a dull end.").logits[0]
    )
    assert "must be" in receive(widget, "explain", body | {"model": "imdb"})
    with pytest.raises(hm.InputError):
        classifier.explain(" ").show()


PAGE = """<!doctype html><html lang="en"><title>notebook</title><style>{style}</style><div id="cell"></div>"""
RENDER = """async ([module, values]) => {
  const listeners = [];
  const model = {
    get: (name) => values[name],
    set: (name, value) => (values[name] = value),
    save_changes: () => window.save(values),
    on: (_, listener) => listeners.push(listener),
    send: async (message) => {
      const [content, data] = await window.reply(message);
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      listeners.forEach((listener) => listener(content, [new DataView(bytes.buffer)]));
    },
  };
  const url = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
  (await import(url)).default.render({ model, el: document.querySelector("#cell") });
}"""


def render(page, widget, *names):
    """Show a widget on a page as a notebook does: messages and saved values go to
    Python.
    """

    def reply(message):
        content, data = exchange(widget, message)
        return content, base64.b64encode(data).decode()

    page.expose_function("reply", reply)
    page.expose_function(
        "save",
        lambda values: [setattr(widget, name, values[name]) for name in names] and None,
    )
    page.set_content(PAGE.format(style=widget._css))
    page.evaluate(
        RENDER, [str(widget._esm), {name: getattr(widget, name) for name in names}]
    )


@browser.needed
def test_widgets_draw_and_answer_in_a_browser(classifier):
    with browser.started() as chromium:
        with browser.opened(chromium) as page:
            widget = hm.playground(TOKENS)
            render(page, widget, "scene")
            page.get_by_role("heading", name="Proved").wait_for()
            page.locator("canvas").first.focus()
            page.keyboard.press("n")
            page.get_by_role("heading", name="Token 0 at layer 0").wait_for()
            page.keyboard.press("Delete")
            page.get_by_text("3 tokens").first.wait_for()
            np.testing.assert_array_equal(widget.tokens, TOKENS[1:])
            assert page.problems == []
        with browser.opened(chromium) as page:
            render(page, classifier.explain("a dreadful film").show(), "text", "name")
            page.get_by_text("Negative").wait_for()
            page.locator(".hm-word", has_text="dreadful").click()
            page.get_by_text("1 word removed or replaced").wait_for()
            assert page.problems == []


CELLS = [
    (
        "import json, pathlib\nimport hardmax as hm\nwidget = hm.playground([[1.0,"
        " 0.2], [0.1, 0.9], [-0.8, -0.6]])"
    ),
    (
        "def save(change):\n   "
        " pathlib.Path('seen.json').write_text(json.dumps(widget.tokens.tolist()))\nwidget.observe(save,"
        " 'scene')\nwidget"
    ),
    "hm.pretrained('imdb-2d').explain('a dreadful film').show()",
]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch) -> Path:
    """A notebook that shows both widgets, in a folder with the settings of Jupyter."""
    nbformat = pytest.importorskip("nbformat")
    for variable in (
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_DATA_DIR",
        "JUPYTER_RUNTIME_DIR",
        "IPYTHONDIR",
    ):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    path = tmp_path / "work" / "widgets.ipynb"
    path.parent.mkdir()
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS],
        metadata={"kernelspec": kernel},
    )
    nbformat.write(content, path)
    return path


@browser.needed
@pytest.mark.slow
def test_python_gets_the_edits_made_in_jupyterlab(notebook: Path):
    pytest.importorskip("jupyterlab")
    with (
        browser.jupyter(notebook.parent) as address,
        browser.started() as chromium,
        browser.opened(chromium) as page,
    ):
        page.goto(f"{address}/lab/tree/{notebook.name}")
        page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.isReady"
        )
        page.evaluate(
            "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"
        )
        page.locator(".hm-playground canvas").first.focus()
        page.get_by_role("heading", name="Proved").wait_for()
        page.keyboard.press("n")
        page.get_by_role("heading", name="Token 0 at layer 0").wait_for()
        page.keyboard.press("ArrowRight")
        seen, end = notebook.parent / "seen.json", time.monotonic() + browser.LATE
        while not seen.exists() or json.loads(seen.read_text())[0][0] <= 1.0:
            assert time.monotonic() < end
            time.sleep(0.1)
        page.locator(".hm-word", has_text="dreadful").click()
        page.get_by_text("1 word removed or replaced").wait_for()
