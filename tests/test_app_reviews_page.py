"""The review explorer in a browser: what a visitor types, strikes, opens and sends; and no other host hears of it."""

import csv
import random

import pytest

import hardmax as hm
from tests import browser

pytest.importorskip("panel")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = browser.needed


@pytest.fixture(scope="module")
def address():
    with browser.served() as address:
        yield f"{address}/reviews"


@pytest.fixture(scope="module")
def chromium():
    with browser.started() as chromium:
        yield chromium


@pytest.fixture
def page(chromium, address):
    """A page that has answered its examples; in the end it must have said no error and asked no other host."""
    with browser.opened(chromium) as opened:
        opened.goto(address)
        opened.locator(".word").first.wait_for()
        answer(opened, 1, "negative, probability over 99.9%")
        yield opened
        assert opened.problems == []


def answer(page, place, text):
    """Wait until the answer of a text holds some words."""
    playwright.expect(page.locator(".answer").nth(place)).to_contain_text(text)


def type_first(page, text):
    """Type into the first text, and wait until it was answered."""
    page.locator(".hm-typed textarea").first.fill(text)
    playwright.expect(page.locator(".text").first).to_have_text(text)


def logit(page, place):
    return float(page.locator(".answer").nth(place).inner_text().split("logit ")[1].split()[0])


def test_the_answer_changes_as_one_types(page):
    answer(page, 0, "positive")
    area = page.locator(".hm-typed textarea").first
    area.fill("")
    area.press_sequentially("Dreadful. A waste, avoid it.", delay=15)
    answer(page, 0, "negative")
    area.fill("")
    area.press_sequentially("A wonderful film.", delay=15)
    answer(page, 0, "positive")
    playwright.expect(page.locator(".text").first).to_have_text("A wonderful film.")
    assert "for" in page.locator(".word", has_text="wonderful").first.get_attribute("class").split()
    answer(page, 1, "negative")


def test_striking_and_replacing_a_word_changes_the_logit(page):
    type_first(page, "A wonderful film with a dull end.")
    word = page.locator(".word", has_text="wonderful").first
    before = logit(page, 0)
    word.click()
    playwright.expect(page.locator(".change")).to_contain_text(f"the logit went from {before:+.2f} to")
    assert logit(page, 0) < before - 0.5
    page.locator(".tools input").first.fill("beautiful")
    page.locator(".tools input").first.press("Enter")
    playwright.expect(page.locator("ins")).to_have_text("beautiful")
    replaced = logit(page, 0)
    page.locator(".word del").first.click()
    playwright.expect(page.locator(".change")).to_have_count(0)
    assert logit(page, 0) == before != replaced


def test_words_can_be_struck_by_keyboard_alone(page):
    type_first(page, "A wonderful film")
    page.locator(".hm-typed textarea").first.press("Tab")
    page.keyboard.press("ArrowRight")
    focused = page.locator(".word:focus")
    playwright.expect(focused).to_have_text("wonderful")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".change")).to_contain_text("1 word struck")
    playwright.expect(page.locator(".word:focus")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press(" ")
    playwright.expect(page.locator(".change")).to_have_count(0)


def test_words_that_flip_the_answer_can_be_struck_at_once(page):
    page.get_by_role("button", name="What would have to go").click()
    playwright.expect(page.locator(".hm-flip p")).to_contain_text("the answer is negative")
    page.get_by_role("button", name="Strike these words").click()
    answer(page, 0, "negative")


def test_a_script_in_a_review_stays_text(page):
    bad = "Wonderful <script>window.bad = 1</script><img src=x onerror='window.bad = 1'> film, don't miss it."
    page.locator(".hm-typed textarea").first.fill(bad)
    playwright.expect(page.locator(".text").first).to_have_text(bad)
    playwright.expect(page.locator(".bars.long .name").nth(1)).to_have_text(bad)
    assert page.evaluate("window.bad") is None


def test_a_file_is_answered_opened_and_downloaded(page, tmp_path):
    rows = ["A wonderful, moving film.", "Dull <img src=x onerror='window.bad = 1'> and awful, avoid.", "zzqqx"]
    path = tmp_path / "films.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "review"], *enumerate(rows)])
    page.locator("input[type=file]").set_input_files(path)
    shown = page.locator(".tabulator-row")
    playwright.expect(shown).to_have_count(3)
    playwright.expect(page.locator(".hm-file p")).to_contain_text("films.csv holds 3 texts: 1 negative, 2 positive.")
    page.locator(".tabulator-col", has_text="probability").locator(".tabulator-col-title").click()
    playwright.expect(shown.first).to_contain_text("no known word")  # it is the least sure
    shown.filter(has_text="Dull").click()
    playwright.expect(page.locator(".hm-typed textarea").nth(2)).to_have_value(rows[1])
    answer(page, 2, "negative")
    assert page.evaluate("window.bad") is None
    with page.expect_download() as download:
        page.get_by_text("Download the answers as CSV").click()
    lines = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert [line["text"] for line in lines] == rows
    assert [line["answer"] for line in lines] == ["pos", "neg", "pos"]


def test_what_is_wrong_is_said_in_a_sentence(page, tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("text\n")
    page.locator("input[type=file]").set_input_files(path)
    said = "films.csv must hold rows. Got a header alone."
    playwright.expect(page.locator(".hm-file .problem")).to_contain_text(said)
    page.locator(".hm-typed textarea").first.fill("good " * 4001)
    said = "text must have at most 20,000 characters. Got 20,005. Leave some of it out."
    playwright.expect(page.locator(".problem").first).to_have_text(said)
    page.locator(".hm-typed textarea").first.fill("good")
    answer(page, 0, "positive")


def test_texts_too_long_for_a_link_are_offered_as_a_file(page, tmp_path):
    long = f"A wonderful film. {random.Random(0).randbytes(8000).hex()}"
    page.locator(".hm-typed textarea").first.fill(long)
    page.get_by_text("These texts are too long for a link.").wait_for()
    page.wait_for_function("() => !location.search.includes('r=')")
    with page.expect_download() as download:
        page.get_by_text("Texts", exact=True).click()
    path = tmp_path / "texts.json"
    download.value.save_as(path)
    page.locator(".hm-typed textarea").first.fill("A dull film.")
    answer(page, 0, "negative")
    page.wait_for_function("() => location.search.includes('r=')")
    page.locator("input[type=file]").set_input_files(path)
    playwright.expect(page.locator(".hm-typed textarea").first).to_have_value(long)
    answer(page, 0, "positive")


def test_no_part_of_the_page_covers_another(page):
    page.locator(".bars").first.wait_for()
    parts = [page.locator("svg[role=img]"), page.get_by_role("heading", name="A file of texts")]
    for part in parts:
        part.wait_for()
    picture, heading = (part.bounding_box() for part in parts)
    assert picture["y"] + picture["height"] <= heading["y"]


def test_texts_come_and_go(page):
    page.get_by_role("button", name="Add a text beside").click()
    answer_of_none = page.locator(".answer").nth(2)
    playwright.expect(answer_of_none).to_have_text("Type a text: it is answered word by word.")
    page.locator(".hm-typed textarea").nth(2).fill("A lovely film.")
    answer(page, 2, "positive")
    page.get_by_role("button", name="Remove").first.click()
    playwright.expect(page.locator(".hm-typed textarea")).to_have_count(2)
    playwright.expect(page.locator(".hm-typed textarea").nth(1)).to_have_value("A lovely film.")
    answer(page, 1, "positive")


def test_another_model_answers_and_has_one_head_with_its_line(page):
    page.get_by_label("Model").select_option(label="imdb-2d, the paper's, one head in the plane")
    answer(page, 0, "99.1%")
    playwright.expect(page.locator("svg line")).to_have_count(3)  # the decision line in three layers


def test_tab_and_enter_reach_everything(page):
    browser.tab_to(page, "Text 1")
    page.keyboard.press("Control+a")
    page.keyboard.type("A wonderful film.")
    answer(page, 0, "positive")
    browser.tab_to(page, "What would have to go")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".hm-flip p")).to_contain_text("the answer is negative")


@pytest.mark.slow
def test_a_model_of_ones_own(chromium, tmp_path):
    hm.pretrained("imdb-2d").save(tmp_path / "own")
    with browser.served("--model", str(tmp_path / "own")) as address, browser.opened(chromium) as page:
        page.goto(f"{address}/reviews")
        answer(page, 0, "99.1%")
        assert page.get_by_label("Model").input_value() == str(tmp_path / "own")
        assert page.problems == []
