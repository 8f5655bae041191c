"""The store of the review explorer, without a server."""

import asyncio
import csv
import io
import json
import zipfile
from functools import wraps
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("panel")

from hardmax import InputError, ParameterError, pretrained
from hardmax.app import review_exports, review_files, review_texts, reviews
from hardmax.app.dropper import dropper
from hardmax.app.problems import BUG, in_words
from hardmax.app.review_accounts import plane, waterfall
from hardmax.app.review_details import account
from hardmax.app.review_html import leading_html, paragraph, sentences_html, waterfall_html
from hardmax.app.review_plane import clipped, crossing, plane_svg
from hardmax.app.review_texts import Edit, Text, pieces
from hardmax.app.review_views import ReviewPage
from hardmax.app.reviews import EXAMPLES, Reviews, change, loaded, sentence
from hardmax.app.work import Latest
from hardmax.text.datasets import reviews as made_reviews
from hardmax.text.explanation import explain

MODELS = ("imdb", "imdb-2d")


@pytest.fixture(scope="module")
def three_classes():
    from hardmax import HardmaxClassifier

    corpus = made_reviews(300, seed=1)
    labels = [("good", "bad", "odd")[i % 3] for i in range(len(corpus.texts))]
    settings = {"n_heads": 2, "groups": 1, "epochs": 1, "max_features": 500, "random_state": 0}
    return HardmaxClassifier(**settings).fit(corpus.texts, labels).model_


def in_a_loop(test):
    """A test on an event loop, as a page is on one of the server's."""

    @wraps(test)
    def run(*args, **options):
        asyncio.run(test(*args, **options))

    return run


async def settled(page):
    """Wait until a page has answered."""
    await asyncio.sleep(0)
    await until(lambda: not page._answering.running)


async def until(condition, seconds=60):
    """Wait for something that must come."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def explained(name, text=EXAMPLES[0]):
    return explain(loaded(name), text)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("text", EXAMPLES)
def test_steps_and_sentences_add_up_to_the_logit(name, text):
    found = explained(name, text)
    steps, sums = waterfall(found), found.by_sentence()
    assert steps[0].name == "bias"
    assert steps[0].value == found.bias
    assert steps[-1].end == pytest.approx(found.logit, abs=1e-9)
    assert all(after.start == pytest.approx(before.end) for before, after in pairwise(steps))
    assert found.bias + sum(part.value for part in sums) == pytest.approx(found.logit, abs=1e-9)
    assert " ".join(part.text for part in sums) == text


def test_sums_of_three_classes_are_those_of_the_answer(three_classes):
    found = explain(three_classes, EXAMPLES[0])
    chosen = int(found.logits.argmax())
    assert waterfall(found)[-1].end == pytest.approx(found.logits[chosen])
    total = found.bias[chosen] + sum(part.value[chosen] for part in found.by_sentence())
    assert total == pytest.approx(found.logits[chosen])
    assert plane(found, 0) is None
    assert "has a plane" in account(found, 0).plane


def test_a_word_counts_with_all_its_places_and_others_together():
    steps = waterfall(explained("imdb", "Good, good, good. A bore."), count=3)
    assert [step.name for step in steps][0::4] == ["bias", "2 others"]  # the comma and the full stop
    assert "Good (3 times)" in [step.name for step in steps]


def test_pieces_are_the_text_as_typed():
    text = Text("Wonderful!  <b>A</b> naïve film &amp; 🙂 more")
    found = pieces(text, explain(loaded("imdb"), text.read))
    assert "".join(piece["text"] for piece in found) == text.typed
    assert all(text.typed[p["start"] : p["end"]] == p["text"] for p in found if "start" in p)
    assert max(abs(p["strength"]) for p in found if "start" in p) == 1
    assert "<b>" not in [p["text"] for p in found if "start" in p]


def test_pieces_of_an_edited_text_keep_their_places_and_their_sum():
    typed = "What a wonderful, wonderful film."
    text = Text(typed).edited(7, 16, "").edited(18, 27, "truly dreadful")
    assert text.read == "What a   ,  truly dreadful  film."
    found = explain(loaded("imdb"), text.read)
    shown = pieces(text, found)
    assert "".join(piece.get("was", piece["text"]) for piece in shown) == typed
    edited = [piece for piece in shown if "was" in piece]
    assert [(piece["was"], piece["text"]) for piece in edited] == [("wonderful", ""), ("wonderful", "truly dreadful")]
    total = sum(piece["value"] for piece in shown if "start" in piece)
    assert total == pytest.approx(abs(found.logit - found.bias), abs=1e-2)
    assert text.restored(7).restored(18) == Text(typed)


def test_striking_keeps_neighbours_apart():
    assert explain(loaded("imdb"), Text("good.bad").edited(4, 5, "").read).highlights[0].word == "good"


def test_places_of_what_is_read_lead_back_to_what_was_typed():
    text = Text("one two three").edited(4, 7, "zwei")
    start = text.read.index("three")
    assert text.place(start, start + 5) == (8, 13)
    start = text.read.index("zwei")
    assert text.place(start, start + 4) == (4, 7)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("place", [0, 1])
def test_flip_is_checked_by_the_model_and_each_word_is_needed(name, place):
    store = Reviews(name)
    found, before = store.flip(place), store.explanation(place)
    assert found.flips
    assert "Without" in str(found)
    for start, end in found.places:
        store.strike(place, start, end)
    assert store.explanation(place).prediction != before.prediction
    for start, _ in found.places:
        with_it = store.texts[place].restored(start)
        assert explain(store.model, with_it.read).prediction == before.prediction


def test_the_mean_lies_on_the_side_of_the_answer():
    for name in MODELS:
        for text in EXAMPLES:
            found = explained(name, text)
            for head in (0, found.model.weights.heads - 1):
                shown = plane(found, head)
                value = shown.means[-1] @ shown.normal + shown.offset
                assert value == pytest.approx(abs(found.logit), abs=1e-6)


def test_half_a_square():
    square = np.array([[0.0, 0], [2, 0], [2, 2], [0, 2]])
    half = clipped(square, np.array([1.0, 0]), -1.0)
    assert sorted(map(tuple, half.tolist())) == [(1, 0), (1, 2), (2, 0), (2, 2)]
    assert sorted(map(tuple, crossing(square, np.array([1.0, 0]), -1.0).tolist())) == [(1, 0), (1, 2)]
    assert len(crossing(square, np.array([1.0, 0]), 5.0)) == 0


def test_the_change_is_said_with_both_logits():
    store = Reviews("imdb-2d")
    store.type(0, "A wonderful film")
    before = store.explanation(0).logit
    assert change(store.model, store.texts[0]) == ""
    store.put(0, 2, 11, "dreadful")
    after = store.explanation(0).logit
    said = change(store.model, store.texts[0])
    assert said == f"1 word struck or replaced: the logit went from {before:+.2f} to {after:+.2f}, now negative."


def test_answers_are_sentences():
    assert sentence(explained("imdb", " ")) == "Type a text: it is answered word by word."
    assert sentence(explained("imdb", "zzqqx")).startswith("No known word, so the bias alone decides: positive")
    assert "probability over 99.9%" in sentence(explained("imdb"))


def test_what_is_typed_is_escaped():
    bad = "<script>alert(1)</script> wonderful <img src=x onerror=alert(1)> & awful."
    found = explained("imdb", bad)
    made = [
        waterfall_html(found),
        sentences_html(found),
        leading_html(found),
        paragraph(bad),
        *account(found, 0),
    ]
    for html in [*made, plane_svg(plane(found, 0))]:
        assert "<script" not in html
        assert "<img" not in html
    assert "&lt;script&gt;" in sentences_html(found)
    assert "<title>wonderful</title>" in plane_svg(plane(found, 0))


def test_state_comes_back():
    store = Reviews("imdb")
    store.type(1, "A wonderful film")
    store.put(1, 2, 11, "dull")
    store.add("Another one")
    store.choose_head(5)
    state = json.loads(json.dumps(store.state))
    other = Reviews("imdb")
    other.set_state(state)
    assert other.state == store.state
    assert other.texts[1].read == "A  dull  film"


@pytest.mark.parametrize(
    "state",
    [
        {},
        None,
        [],
        "text",
        {"model": "imdb", "head": 0, "chosen": 0, "texts": [{"text": "a", "edits": [[0, 5, ""]]}]},
        {"model": "imdb", "head": 0, "chosen": 0, "texts": [{"text": "a", "edits": [["x", 5, ""]]}]},
        {"model": "imdb", "head": 0, "chosen": 0, "texts": [{"text": 3, "edits": []}]},
        {"model": "imdb", "head": 0, "chosen": 0, "texts": []},
        {"model": "imdb", "head": 99, "chosen": 0, "texts": [{"text": "a", "edits": []}]},
        {"model": "imdb", "head": "0", "chosen": 0, "texts": [{"text": "a", "edits": []}]},
        {"model": "imdb", "head": 0, "chosen": 4, "texts": [{"text": "a", "edits": []}]},
        {"model": "imdb", "head": 0, "chosen": -1, "texts": [{"text": "a", "edits": []}]},
        {"model": "/etc", "head": 0, "chosen": 0, "texts": [{"text": "a", "edits": []}]},
        {"model": ["imdb"], "head": 0, "chosen": 0, "texts": [{"text": "a", "edits": []}]},
        {"model": "imdb", "head": 0, "chosen": 0, "texts": [{"text": "a", "edits": [[0, 1, "x" * 999]]}]},
        {"model": "imdb", "head": 0, "chosen": 0, "texts": [{"text": "a b", "edits": [[0, 1, 7]]}]},
    ],
)
def test_a_state_without_meaning_is_refused_and_changes_nothing(state):
    store = Reviews("imdb")
    before = store.state
    with pytest.raises(InputError):
        store.set_state(state)
    assert store.state == before


def test_a_visitor_can_load_no_folder_but_the_one_the_app_was_started_with(tmp_path):
    with pytest.raises(ParameterError, match="`model` must be one of imdb, imdb-2d"):
        Reviews("imdb").choose_model(str(tmp_path))


def test_limits_are_sentences():
    store = Reviews("imdb")
    with pytest.raises(ParameterError, match=r"`text` must have at most 20,000 characters\. Got 20,001\."):
        store.type(0, "x" * (review_texts.MOST_CHARACTERS + 1))
    for _ in range(reviews.MOST_TEXTS - len(store.texts)):
        store.add("one more")
    with pytest.raises(ParameterError, match=r"`texts` must be at most 6 side by side\. Got 7\."):
        store.add()
    for _ in range(reviews.MOST_TEXTS - 1):
        store.remove(0)
    assert store.chosen == 0
    with pytest.raises(ParameterError, match="at least one"):
        store.remove(0)
    with pytest.raises(ParameterError, match="`place` must be below 1"):
        store.choose_text(3)
    with pytest.raises(ParameterError, match="must lie in the text"):
        Text("abc", (Edit(2, 3), Edit(0, 1)))


def test_a_file_is_answered_row_by_row():
    data = b'id,review\n1,"A wonderful, moving film."\n2,"Dull and awful, avoid."\n3,zzqqx\n'
    store = Reviews("imdb")
    answers = store.read("films.csv", data)
    assert [row.label for row in answers.rows] == ["pos", "neg", "pos"]
    assert [row.known for row in answers.rows] == [True, True, False]
    assert answers.rows[1].probability == explained("imdb", "Dull and awful, avoid.").probability
    assert answers.rows[2].words == "no known word"
    assert str(answers) == "films.csv holds 3 texts: 1 negative, 2 positive. 1 of them have no known word."
    lines = list(csv.reader(io.StringIO(answers.to_csv())))
    assert lines[0] == list(review_files.HEAD)
    assert [line[1] for line in lines[1:]] == ["A wonderful, moving film.", "Dull and awful, avoid.", "zzqqx"]
    store.open(1)
    assert store.texts[store.chosen].typed == "Dull and awful, avoid."
    with pytest.raises(ParameterError, match="`row` must be one of the file's"):
        store.open(3)


def test_a_file_opens_in_the_last_place_where_there_is_no_room():
    store = Reviews("imdb-2d")
    store.read("films.txt", b"good\nbad\n")
    for row in (0, 1, 0, 1, 1):
        store.open(row)
    assert [text.typed for text in store.texts[2:]] == ["good", "bad", "good", "bad"]
    assert len(store.texts) == reviews.MOST_TEXTS


def test_the_column_can_be_named():
    data = b"a,b\nx,wonderful\n"
    with pytest.raises(InputError, match=r"text must name one column of t\.csv\. Got no name\."):
        review_files.texts_of("t.csv", data)
    assert review_files.texts_of("t.csv", data, " b ").texts == ["wonderful"]


def packed(size):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/worksheets/sheet1.xml", b"0" * size)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("x.exe", b"a", "`file` must end in .csv"),
        ("x.csv.gz", b"a", "`file` must end in .csv"),
        ("big.csv", b"a" * (review_files.MOST_BYTES + 1), "`file` must have at most 20 MB. Got 20.0 MB."),
        ("rows.txt", b"good\n" * 5001, "`file` must hold at most 5,000 texts. Got 5,001."),
        ("x.csv", b"", "x.csv must hold texts. Got an empty file."),
        ("x.csv", b"text\n", "x.csv must hold rows. Got a header alone."),
        ("x.csv", b'text,b\n"a,b\n', "x.csv must have 2 fields in each row"),
        ("x.jsonl", b"[1]\n", "x.jsonl must hold one JSON object per line."),
        ("x.xlsx", b"no", "x.xlsx must be an Excel file."),
        ("bomb.xlsx", packed(review_files.MOST_UNPACKED + 1), "must have at most 100 MB when unpacked"),
        ("../../etc/passwd.csv", b"text\n", "passwd.csv must hold rows"),
    ],
)
def test_files_that_cannot_be_read_are_refused_in_a_sentence(name, data, said):
    with pytest.raises(InputError) as problem:
        review_files.texts_of(name, data)
    assert said in str(problem.value)
    assert "/tmp" not in str(problem.value)
    assert "Pass" not in in_words(problem.value)


def test_a_guess_is_noted_by_the_files_own_name():
    table = review_files.texts_of("latin.csv", "text\ncaf\xe9\n".encode("latin-1"))
    answers = review_files.answered(loaded("imdb"), "latin.csv", table)
    assert "latin.csv is not UTF-8" in answers.note
    assert "/" not in answers.note
    assert "encoding" not in answers.note


BEGINS = {"html": b"<!", "png": b"\x89PNG", "svg": b"<?xml", "gif": b"GIF8", "csv": b"word,", "json": b"{"}


@pytest.mark.parametrize("kind", review_exports.KINDS)
def test_exports(kind):
    text = "A <b>wonderful</b> film."
    data = review_exports.as_file("imdb-2d", text, 0, kind)
    assert data.startswith(BEGINS[kind])
    assert b"<b>wonderful" not in data or kind == "json"


def test_python_makes_the_same_answer(tmp_path):
    text = 'A "wonderful" film,\nit\'s said.'
    pretrained("imdb-2d").save(tmp_path / "own")
    for model in ("imdb-2d", str(tmp_path / "own")):
        names = {}
        exec(review_exports.as_python(model, text), names)
        assert names["explanation"].logit == explained("imdb-2d", text).logit


def test_a_file_of_the_state_that_is_none_gets_a_sentence():
    assert review_exports.from_state(review_exports.as_state({"a": 1})) == {"a": 1}
    with pytest.raises(InputError, match="must hold texts of this page"):
        review_exports.from_state(b"{")


def test_pieces_of_a_file_are_counted_by_the_server():
    came = []
    field = dropper(3_000_000, lambda name, data: came.append((name, len(data))))

    def send(name, chunk, of, size):
        data = {"name": name, "chunk": chunk, "total_chunks": of, "data": b"x" * size, "type": "text/csv"}
        field._process_event(SimpleNamespace(event_name="upload_event", data=data))

    send("good.csv", 1, 2, 10**6)
    send("good.csv", 2, 2, 10**6)
    assert came == [("good.csv", 2 * 10**6)]
    for chunk in range(1, 50):
        send("endless.csv", chunk, 10**6, 10**6)
        assert sum(len(part) for parts in field._file_buffer.values() for part in parts) <= 4 * 10**6
    for number in range(50):
        send(f"many{number}.csv", 1, 2, 10**6)
        assert sum(len(part) for parts in field._file_buffer.values() for part in parts) <= 4 * 10**6
    assert len(came) == 1


def test_problems_in_the_words_of_a_page(caplog):
    problem = ParameterError("text", "be short", "a long one", "Pass `encoding`. Leave some out.")
    assert in_words(problem) == "text must be short. Got a long one. Leave some out."
    assert in_words(RuntimeError("secret")) == BUG
    assert "secret" in caplog.text


@in_a_loop
async def test_the_page_says_its_state_and_takes_it_back():
    page, heard = ReviewPage("imdb-2d"), []
    page.on_change(heard.append)
    page.cards[0].typed.value_input = "A wonderful film"
    assert heard[-1]["texts"][0] == {"text": "A wonderful film", "edits": []}
    await settled(page)
    assert "positive" in page.cards[0].answer.object
    page.cards[0].words.request = {"number": 1, "kind": "strike", "start": 2, "end": 11, "word": "wonderful"}
    assert heard[-1]["texts"][0]["edits"] == [[2, 11, ""]]
    await settled(page)
    assert "1 word struck" in page.cards[0].change.object
    other = ReviewPage("imdb-2d")
    other.set_state(json.loads(json.dumps(page.state)))
    assert other.state == page.state
    assert other.cards[0].typed.value == "A wonderful film"
    await settled(other)
    assert other.cards[0].change.object == page.cards[0].change.object
    other.set_state({"model": "none"})
    assert "model must be one of" in other.problem.object
    assert other.state == page.state
    await settled(other)


@in_a_loop
async def test_the_page_heeds_no_request_for_a_word_that_is_gone():
    page = ReviewPage("imdb-2d")
    await settled(page)
    before = page.state
    for asked in (
        {},
        {"number": 1, "kind": "strike", "start": 2, "end": 6, "word": "gone"},
        {"number": 2, "kind": "strike", "start": "2", "end": 6, "word": "went"},
        {"number": 3, "kind": "explode", "start": 2, "end": 6, "word": "went"},
        {"number": 4, "kind": "replace", "start": 2, "end": 6, "word": "went", "replacement": "x" * 999},
    ):
        page.cards[0].words.request = asked
        assert page.state == before
    assert "replacement must have at most 200 characters" in page.problem.object


@in_a_loop
async def test_a_bug_is_said_in_a_sentence_too(monkeypatch, caplog):
    page = ReviewPage("imdb-2d")
    await settled(page)
    monkeypatch.setattr("hardmax.app.review_views.answer", lambda name, text: 1 / 0)
    page.cards[0].typed.value_input = "A wonderful film"
    await settled(page)
    assert BUG in page.cards[0].answer.object
    assert "ZeroDivisionError" in caplog.text


def test_only_the_last_of_what_is_asked_meanwhile_is_done():
    done = []

    async def run():
        release = asyncio.Event()

        async def work():
            done.append("began")
            await release.wait()

        latest = Latest(work)
        for _ in range(5):
            latest.ask()
        await until(lambda: done)
        for _ in range(5):
            latest.ask()
        await asyncio.sleep(0.01)
        assert done == ["began"]
        release.set()
        await until(lambda: not latest.running)

    asyncio.run(run())
    assert done == ["began", "began"]
