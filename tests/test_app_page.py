"""The playground in a browser: a person drags a token, and the leaders change."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("panel")
pytest.importorskip("playwright")

from hardmax.app.controls import MOST_BYTES
from tests import browser

pytestmark = browser.needed


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with browser.served() as address:
        yield f"{address}/playground"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.started() as chromium:
        yield chromium


@pytest.fixture
def page(chromium: Any, address: str) -> Iterator[Any]:
    with browser.opened(chromium) as page:
        page.goto(address)
        page.locator(".hm-status").wait_for()
        yield page
        assert page.problems == []


def drag(page: Any, token: int, dx: float, dy: float) -> None:
    canvas = page.locator(".hm-plane canvas").bounding_box()
    x, y = page.locator(".hm-plane").evaluate("(plane, i) => plane.pixelsOf(i)", token)
    x, y = x + canvas["x"], y + canvas["y"]
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 13):
        page.mouse.move(x + dx * k / 12, y + dy * k / 12)
    seen = page.locator(".hm-plane").evaluate("(plane, i) => plane.pixelsOf(i)", token)
    assert seen == pytest.approx([x + dx - canvas["x"], y + dy - canvas["y"]], abs=1)  # under the pointer at once
    page.mouse.up()


def new_cloud(page: Any, name: str, what: str, number: int) -> None:
    page.get_by_text("Tokens", exact=True).click()
    page.get_by_label("Cloud").select_option(name)
    page.get_by_label(what, exact=True).fill(str(number))
    page.get_by_label(what, exact=True).press("Enter")
    page.get_by_role("button", name="New cloud").click()


def until(page: Any, condition: str) -> None:
    page.wait_for_function(f"() => {{ const plane = window.hmPlane; return plane && ({condition}); }}")


def until_led_by(page: Any, *tokens: int) -> None:
    """The words beside the plane and the plane come as two messages: neither waits for the other."""
    until(page, f"plane.leaders().join() === '{','.join(map(str, tokens))}'")


def test_a_dragged_token_changes_who_leads_and_a_link_shows_it_again(page: Any, address: str) -> None:
    until_led_by(page, 0, 1, 2)
    page.wait_for_function("() => location.search.includes('s=')")
    before = page.url
    drag(page, 0, -230, 230)
    until_led_by(page, 1, 2, 5)
    page.wait_for_function("before => location.href !== before", arg=before)
    link = page.url
    page.get_by_role("button", name="Undo").click()
    until_led_by(page, 0, 1, 2)
    page.goto("about:blank")
    page.goto(link)
    page.locator(".hm-status").wait_for()
    until_led_by(page, 1, 2, 5)
    page.go_back()
    page.go_forward()
    page.locator(".hm-status").wait_for()
    until_led_by(page, 1, 2, 5)


def test_rules_and_their_parameters(page: Any) -> None:
    page.get_by_role("button", name="softmax", exact=True).click()
    page.get_by_text("Ran 30 layers on 15 tokens").first.wait_for()
    slider = page.get_by_role("slider", name="Temperature")
    slider.focus()
    page.keyboard.press("Home")
    page.get_by_text("Certified at layer 0").first.wait_for()
    until_led_by(page, 0, 1, 2)


def test_alpha_moves_the_tokens(page: Any) -> None:
    page.wait_for_function("() => location.search.includes('s=')")
    page.get_by_role("button", name="One layer ahead").click()
    until(page, "plane.shown() === 1")
    token = page.locator(".hm-plane").evaluate("plane => plane.pixelsOf(9)")
    page.get_by_role("slider", name="alpha").focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    until(page, f"Math.abs(plane.pixelsOf(9)[0] - {token[0]}) > 5")
    page.get_by_text("Certified at layer").first.wait_for()


def test_layers_are_played(page: Any) -> None:
    page.get_by_role("button", name="One layer ahead").click()
    until(page, "plane.shown() === 1")
    page.get_by_role("button", name="Play through the layers").click()
    until(page, "plane.shown() > 4")
    page.get_by_role("button", name="Play through the layers").click()


def test_the_keyboard_alone(page: Any) -> None:
    page.locator(".hm-plane canvas").focus()
    page.keyboard.press("n")
    until(page, "plane.selected() === 0")
    page.keyboard.press("Delete")
    until(page, "plane.count() === 14")
    page.keyboard.press("Control+z")
    until(page, "plane.count() === 15")
    page.keyboard.press("Insert")
    until(page, "plane.count() === 16")
    for _ in range(4):
        page.keyboard.press("ArrowUp")
    page.keyboard.press(".")
    until(page, "plane.shown() === 1")


def test_what_is_asked_in_haste_is_all_done(page: Any) -> None:
    until(page, "plane.count() === 15")
    page.locator(".hm-plane canvas").focus()
    page.evaluate(HASTE, ["n", "n", "Insert", "Insert", "Insert"])
    until(page, "plane.count() === 18")
    page.evaluate(HASTE, [["z", "ctrlKey"], ["z", "ctrlKey"], ["z", "ctrlKey"]])
    until(page, "plane.count() === 15")
    page.evaluate(HASTE, ["n", "n"])
    until(page, "plane.selected() === 3")
    x, y = page.evaluate("window.hmPlane.pixelsOf(3)")
    page.evaluate(HASTE, ["ArrowRight"] * 5)
    page.wait_for_function("before => location.href !== before", arg=page.url)
    assert page.evaluate("window.hmPlane.pixelsOf(3)") == pytest.approx([x + 50, y], abs=0.5)


HASTE = """keys => {
  const canvas = window.hmPlane.querySelector("canvas");
  for (const each of keys) {
    const [key, held] = Array.isArray(each) ? each : [each, ""];
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, [held]: true, bubbles: true, cancelable: true }));
  }
}"""


def test_control_finds_A(page: Any) -> None:
    pytest.importorskip("cvxpy")
    page.get_by_role("button", name="5. Choose A").click()
    until(page, "plane.count() === 50")
    page.get_by_text("Choose who leads").click()
    want(page, 47)
    page.get_by_text("so far: 47").wait_for()
    page.get_by_role("button", name="Find A").click()
    page.get_by_text("Found: token 47 leads").wait_for()
    until(page, "plane.leaders().includes(47)")
    inner = page.evaluate(INNERMOST)
    want(page, inner)
    page.get_by_text("so far: ").filter(has_text=str(inner)).wait_for()
    page.get_by_role("button", name="Find A").click()
    page.get_by_text("Impossible: ").wait_for()
    until(page, f"plane.conflict().includes({inner})")
    page.get_by_role("button", name="Forget them").click()
    until(page, "plane.conflict().length === 0")


INNERMOST = """() => {
  const plane = window.hmPlane, places = [...Array(50).keys()].map((i) => plane.pixelsOf(i));
  const [x, y] = [0, 1].map((r) => places.reduce((sum, place) => sum + place[r], 0) / 50);
  const far = places.map((place) => Math.hypot(place[0] - x, place[1] - y));
  return far.indexOf(Math.min(...far));
}"""


def want(page: Any, token: int) -> None:
    """Select a token, and say that it shall lead."""
    canvas = page.locator(".hm-plane canvas").bounding_box()
    x, y = page.locator(".hm-plane").evaluate("(plane, i) => plane.pixelsOf(i)", token)
    page.mouse.click(canvas["x"] + x, canvas["y"] + y)
    until(page, f"plane.selected() === {token}")
    page.get_by_role("button", name="Selected token shall lead").click()


def test_bad_input_gets_a_sentence_and_is_not_run(page: Any) -> None:
    page.get_by_text("Tokens", exact=True).click()
    area = page.get_by_label("Or paste rows of numbers")
    area.fill("<img src=x onerror=alert(1)>,2")
    page.get_by_role("button", name="Use these").click()
    page.get_by_role("alert").get_by_text("must hold").wait_for()
    assert page.locator("img").count() == 0
    area.fill("0.6,0.8\n1,0\n-0.7,-0.7\n0.2,0.1")
    page.get_by_role("button", name="Use these").click()
    until(page, "plane.count() === 4")


def test_files_are_taken_and_refused(page: Any, tmp_path: Path) -> None:
    page.get_by_text("Tokens", exact=True).click()
    large, small = tmp_path / "large.csv", tmp_path / "small.csv"
    large.write_text("1.0,2.0\n" * (MOST_BYTES // 8 + 1))
    small.write_text("x,y\n1,0.5\n-1,0\n0.1,-0.9\n")
    page.locator("input[type=file]").set_input_files(large)
    page.get_by_text("File is too large", exact=True).wait_for()
    page.locator("input[type=file]").set_input_files(small)
    until(page, "plane.count() === 3")


def test_what_is_seen_can_be_kept(page: Any) -> None:
    page.get_by_text("Export", exact=True).click()
    for kind, begins in (("PNG", b"\x89PNG"), ("SVG", b"<?xml"), ("CSV", b"x1,x2\n1.0,"), ("JSON", b"{")):
        with page.expect_download() as download:
            page.get_by_text(kind, exact=True).click()
        assert download.value.path().read_bytes().startswith(begins), kind


def test_lines_of_python_are_copied(page: Any, address: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address.removesuffix("/playground"))
    page.get_by_text("Export", exact=True).click()
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert "hm.simulate(tokens, rule, layers=30)" in page.evaluate("navigator.clipboard.readText()")


def test_very_many_tokens_are_answered_when_a_drag_ends(page: Any) -> None:
    new_cloud(page, "gaussian", "n", 20_000)
    until(page, "plane.count() === 20000")
    page.get_by_text("a drag is answered when it ends").wait_for()
    page.get_by_text("This scene is too large for a link.").wait_for()
    leader, x, y = page.locator(".hm-plane").evaluate(
        "plane => { const first = plane.leaders()[0]; return [first, ...plane.pixelsOf(first)]; }"
    )
    canvas = page.locator(".hm-plane canvas").bounding_box()
    drag(page, leader, canvas["width"] / 2 - x, canvas["height"] / 2 - y)
    until(page, f"plane.leaders().length && !plane.leaders().includes({leader})")


def test_three_dimensions_turn(page: Any) -> None:
    new_cloud(page, "ball", "d", 3)
    page.locator(".js-plotly-plot").wait_for()
    rows = page.get_by_label("A, rows of numbers")
    rows.fill("2, 0, 0\n0, 1, x\n0, 0, 1")
    rows.press("Tab")
    page.get_by_role("alert").get_by_text("must hold").wait_for()
    page.problems = [said for said in page.problems if "WebGL" not in said]  # a headless browser may have none


def test_back_from_the_other_page_shows_the_same(page: Any) -> None:
    page.wait_for_function("() => location.search.includes('s=')")
    before = page.url
    page.get_by_role("button", name="3. A leader emerges").click()
    until(page, "plane.count() === 8")
    page.wait_for_function("before => location.href !== before", arg=before)
    link = page.url
    page.get_by_role("link", name="Reviews").click()
    page.locator(".word").first.wait_for()
    page.go_back()
    until(page, "plane.count() === 8")
    assert page.url == link


def test_tab_and_enter_reach_everything(page: Any) -> None:
    browser.tab_to(page, "4. Softmax becomes hardmax")
    page.keyboard.press("Enter")
    page.get_by_text("Ran 30 layers on 10 tokens").first.wait_for()
    browser.tab_to(page, "Temperature")
    page.keyboard.press("Home")
    page.get_by_text("Certified at layer 0").first.wait_for()
    browser.tab_to(page, "Play through the layers")
    page.keyboard.press("Enter")
    until(page, "plane.shown() > 1")


@pytest.mark.parametrize("theme", ["", pytest.param("?theme=dark", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["playground", "reviews"])
def test_nobody_is_kept_out(chromium: Any, address: str, name: str, theme: str) -> None:
    with browser.opened(chromium) as page:
        page.goto(address.replace("playground", name) + theme)
        page.locator(".hm-status, .word").first.wait_for()
        if name == "playground":
            for title in ("Tokens", "Show", "Choose who leads", "Export"):
                page.get_by_text(title, exact=True).first.click()
        assert browser.unfriendly(page) == []
        assert page.problems == []


def test_a_link_that_was_cut_says_so(chromium: Any, address: str) -> None:
    with browser.opened(chromium) as page:
        page.goto(f"{address}?s=eNo")
        page.get_by_role("alert").get_by_text("This link does not hold what it should").wait_for()
        assert page.problems == []


def test_a_link_to_reviews_shows_them_again(chromium: Any, address: str) -> None:
    with browser.opened(chromium) as page:
        page.goto(address.replace("playground", "reviews"))
        page.get_by_role("textbox", name="Text 1").fill("A dull story, but a wonderful ending.")
        page.wait_for_function("() => location.search.includes('r=')")
        link = page.url
        page.goto("about:blank")
        page.goto(link)
        area = page.get_by_role("textbox", name="Text 1")
        area.wait_for()
        assert area.input_value() == "A dull story, but a wonderful ending."
        assert page.problems == []
