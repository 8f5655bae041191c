"""The app in Chromium: dragging, links, undo, control, typing, files, the keyboard
alone, and accessibility.
"""

import re
import time
from pathlib import Path

import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")

from studies.app_load import make_link

import hardmax as hm
from tests import browser

SPREAD = hm.configuration("gaussian", n=20).round(4).tolist()
pytestmark = browser.needed


@pytest.fixture(scope="module")
def address():
    with browser.served() as found:
        yield found


@pytest.fixture
def page(chromium):
    with browser.opened(chromium, (1280, 800)) as found:
        yield found
        assert [
            problem for problem in found.problems if "status of 400" not in problem
        ] == []  # invalid input


def until(page, expression, seconds=60):
    """Wait until an expression in the page is true; the policy of the app forbids
    Playwright's own way, `eval`.
    """
    end = time.monotonic() + seconds
    while not (
        found := page.evaluate(
            f"() => {{ const p = window.playground; return {expression}; }}"
        )
    ):
        assert time.monotonic() < end, expression
        time.sleep(0.02)
    return found


def open_playground(page, address, hash=""):
    page.goto(f"{address}/playground{hash}")
    until(page, "Boolean(p && p.answer && !p.pending)")


def open_reviews(page, address):
    page.goto(f"{address}/reviews")
    page.locator(".hm-word").first.wait_for()


@pytest.fixture
def playground(page, address):
    open_playground(page, address)


@pytest.fixture
def reviews(page, address):
    open_reviews(page, address)


def settle(page):
    until(page, "Boolean(!p.pending && !p.before && p.answer.verdicts)")


def place(page, token):
    """Return the position of a token on the screen."""
    return until(
        page,
        f"(() => {{ const [x, y] = p.picture.project(p.tokens.at(p.at, {token})); const"
        " box = p.picture.canvas.getBoundingClientRect(); return [x + box.x, y +"
        " box.y]; })()",
    )


def drag(page, token, dx, dy, steps=8):
    x, y = place(page, token)
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, steps + 1):
        page.mouse.move(x + dx * k / steps, y + dy * k / steps)
    page.mouse.up()
    settle(page)


def leaders(page):
    return page.evaluate("() => playground.answer.leaders")


def test_dragging_changes_the_leaders_and_undo_restores_them(page, playground):
    assert leaders(page) == [0, 1, 2]
    colours = page.evaluate("() => Object.fromEntries(playground.scene.colours)")
    drag(page, 0, -290, 260)
    assert 0 not in leaders(page)
    later = page.evaluate("() => Object.fromEntries(playground.scene.colours)")
    assert all(later[token] == colours[token] for token in ("1", "2"))
    page.locator("canvas").first.focus()
    page.keyboard.press("Control+z")
    settle(page)
    assert leaders(page) == [0, 1, 2]
    page.keyboard.press("Control+Shift+z")
    settle(page)
    assert 0 not in leaders(page)


def test_a_link_shows_the_same_scene_and_back_returns_to_it(page, playground, chromium):
    drag(page, 4, 60, -40)
    page.get_by_label("Rule", exact=True).select_option("softmax")
    settle(page)
    until(page, "location.hash.length > 10")
    scene = page.evaluate("() => playground.plain()")
    page.wait_for_timeout(200)
    with browser.opened(chromium) as other:
        open_playground(
            other,
            page.url.split("#")[0].removesuffix("/playground"),
            "#" + page.url.split("#")[1],
        )
        assert other.evaluate("() => playground.plain()") == scene
    page.get_by_role("link", name="Reviews").click()
    page.locator(".hm-word").first.wait_for()
    page.go_back()
    until(page, "Boolean(p && p.answer)")
    assert page.evaluate("() => playground.plain()") == scene


def test_a_damaged_link_gets_a_sentence(page, address):
    for link in (
        "#s=abc",
        make_link({"tokens": "x"}),
        make_link({"tokens": [[1, 2]], "alpha": -1}),
    ):
        page.goto("about:blank")
        open_playground(page, address, link)
        assert "damaged" in page.get_by_role("alert").inner_text()
        assert leaders(page) == [0, 1, 2]


def test_another_link_in_the_same_page_replaces_the_whole_scene(page, address):
    open_playground(
        page,
        address,
        make_link(
            {"tokens": [[1, 0], [0, 1], [-1, 0]], "alpha": 2, "A": [[2, 0], [0, 1]]}
        ),
    )
    page.evaluate(
        "() => { location.hash ="
        f" {make_link({'tokens': [[1, 0], [0.5, 0.1]], 'shown': 2})!r}; }}"
    )
    until(page, "p.scene.tokens.length === 2 && !p.pending")
    assert page.evaluate(
        "() => [playground.scene.alpha, playground.scene.A, playground.at]"
    ) == [0.5, None, 2]


def test_an_old_verdict_says_that_it_is_old(page, playground):
    page.get_by_label("A₁₁").fill("-3")
    page.get_by_label("A₁₁").press("Enter")
    page.get_by_role("alert").wait_for()
    verdict = page.locator(".hm-verdict")
    assert "invalid" in verdict.get_attribute("data-stale")
    page.get_by_role("button", name="Undo").click()
    settle(page)
    assert verdict.get_attribute("data-stale") == ""
    assert page.get_by_role("alert").is_hidden()


def test_scrubbing_updates_what_belongs_to_a_layer(page, address):
    open_playground(
        page,
        address,
        make_link({"tokens": SPREAD, "overlays": ["cells", "polytope"], "selected": 3}),
    )
    page.evaluate(
        "() => { playground.range.value = 2; playground.range.dispatchEvent(new"
        " Event('input')); }"
    )
    until(page, "p.answer.shown === 2 && !p.pending")
    page.locator(".hm-token h3", has_text="layer 2").wait_for()
    assert (
        page.evaluate(
            "() => playground.picture.shapes.filter((s) => s.kind === 'polygon').length"
        )
        > 2
    )


def test_a_tablet_drags_and_zooms_by_touch(chromium, address):
    with browser.opened(chromium, (800, 1000)) as page:
        open_playground(page, address)
        devtools = page.context.new_cdp_session(page)
        page.bring_to_front()

        def touch(kind, *points):
            found = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]
            devtools.send(
                "Input.dispatchTouchEvent",
                {"type": f"touch{kind}", "touchPoints": found},
            )

        x, y = place(page, 7)
        before = page.evaluate("() => playground.scene.tokens[7]")
        touch("Start", (x + 12, y + 12))  # beside the token, as a finger is
        for k in range(1, 6):
            touch("Move", (x + 12 + 8 * k, y + 12))
        touch("End")
        settle(page)
        assert page.evaluate("() => playground.scene.tokens[7][0]") > before[0] + 0.05
        span = (
            "() => { const [low, high] = playground.picture.shown[0]; return high -"
            " low; }"
        )
        wide = page.evaluate(span)
        touch("Start", (250, 300))
        touch("Start", (250, 300), (350, 300))
        for k in range(1, 6):
            touch("Move", (250 - 10 * k, 300), (350 + 10 * k, 300))
        touch("End")
        assert page.evaluate(span) < 0.7 * wide


def test_a_small_picture_opens_its_temperature_and_layer(page, playground):
    page.get_by_text("Show", exact=True).click()
    page.get_by_role("button", name="Temperature by layer").click()
    page.get_by_role("button", name="Show layer 3 at temperature 0.1").click()
    settle(page)
    assert page.evaluate(
        "() => [playground.scene.rule, playground.scene.temperature]"
    ) == ["softmax", 0.1]
    assert page.locator(".hm-layer").inner_text() == "layer 3"


def test_a_drag_at_a_layer_keeps_showing_it(page, playground):
    for _ in range(3):
        page.get_by_role("button", name="One layer forward").click()
    settle(page)
    assert page.locator(".hm-layer").inner_text() == "layer 3"
    before = page.evaluate("() => playground.scene.tokens[5]")
    drag(page, 5, 30, 30)
    assert page.locator(".hm-layer").inner_text() == "layer 3"
    assert page.evaluate("() => playground.scene.tokens[5]") != before


def test_play_moves_the_tokens_to_the_last_layer(page, playground):
    page.get_by_label("Speed").select_option("4")
    page.get_by_role("button", name="Play", exact=True).click()
    until(page, "p.at > 0 && p.at % 1 !== 0")  # motion between layers
    page.get_by_role("button", name="Pause").wait_for()
    until(page, "p.at === p.tokens.frames - 1")
    settle(page)
    assert page.evaluate("() => playground.scene.shown") == 30


def test_one_token_shows_its_scores_and_rows_highlight_tokens(page, playground):
    page.mouse.click(*place(page, 7))
    page.locator(".hm-token").wait_for()
    assert "Token 7 attends to token" in page.locator(".hm-token").inner_text()
    row = page.locator(".hm-score").first
    row.hover()
    assert page.evaluate("() => playground.hovered") == [
        int(row.get_attribute("data-tokens"))
    ]
    assert "Its next step has length" in page.locator(".hm-token").inner_text()
    row = page.locator(".hm-verdict tbody tr").nth(1)
    row.hover()
    assert page.evaluate("() => playground.hovered.length") == int(
        row.locator("td").last.inner_text()
    )
    page.mouse.move(*place(page, 0))
    page.mouse.move(*[x + 1 for x in place(page, 0)])
    assert "hm-hovered" in page.locator(".hm-verdict tbody tr").first.get_attribute(
        "class"
    )


def test_overlays_rules_and_multiples(page, playground):
    page.mouse.click(*place(page, 5))
    page.get_by_text("Show", exact=True).click()
    for box in page.locator(
        ".hm-controls-side details[open] input[type=checkbox][value]"
    ).all():
        box.check()
        settle(page)
    assert (
        page.evaluate("() => playground.answer.cells.length") == 6
    )  # vertices of the hull
    assert page.locator(".hm-attention canvas").is_visible()
    page.get_by_role("button", name="Temperature by layer").click()
    page.locator(".hm-multiples canvas").first.wait_for()
    for rule in ("softmax", "frank-wolfe", "self-attention", "sphere"):
        page.get_by_label("Rule", exact=True).select_option(rule)
        until(
            page,
            f"Boolean(p.scene.rule === '{rule}' && !p.pending && p.answer.verdicts)",
        )
        assert page.get_by_role("alert").is_hidden()


def test_a_matrix_is_found_or_the_conflict_shown(page, playground):
    page.get_by_text("Choose the leaders").click()
    page.mouse.click(*place(page, 3))
    page.get_by_role("button", name="Token 3 shall lead").click()
    settle(page)
    page.get_by_role("button", name="Find A", exact=True).click()
    page.get_by_text(
        re.compile("A matrix was found|There is no such matrix")
    ).wait_for()
    assert page.locator(".hm-found").is_visible()


def test_tokens_are_pasted_and_three_dimensions_turn(page, playground):
    page.get_by_text("Tokens", exact=True).click()
    page.get_by_label("Rows of numbers").fill("1, x\n2, 3")
    page.get_by_role("button", name="Use these tokens").click()
    assert "x' in line 1" in page.get_by_role("alert").inner_text()
    assert "hm-stale" not in page.locator(".hm-verdict").get_attribute(
        "class"
    )  # the tokens stay
    page.get_by_label("Rows of numbers").fill(
        "1, 0, 0\n0, 1, 0\n0, 0, 1\n0.2, 0.1, 0.3"
    )
    page.get_by_role("button", name="Use these tokens").click()
    until(page, "p.answer.dimension === 3 && !p.pending")
    before = page.evaluate("() => playground.picture.eye.yaw")
    page.mouse.move(600, 400)
    page.mouse.down()
    page.mouse.move(700, 420)
    page.mouse.up()
    assert page.evaluate("() => playground.picture.eye.yaw") != before


def test_what_belongs_to_other_tokens_or_another_request_goes(page, address):
    open_playground(
        page,
        address,
        make_link({"tokens": hm.configuration("triangle").tolist(), "wanted": [13]}),
    )
    page.evaluate("() => playground.findA()")
    page.get_by_text("There is no such matrix").wait_for()
    rings = (
        "playground.picture.shapes.filter((s) => s.colour === '#D55E00' && s.kind ==="
        " 'rings' && s.points.length)"
    )
    assert page.evaluate(f"() => {rings}.length") == 1
    page.evaluate("() => { playground.configure('square'); }")
    until(page, "!p.scene.wanted.length && !p.pending")
    assert page.locator(".hm-found").is_hidden()
    assert page.evaluate(f"() => {rings}.length") == 0
    page.evaluate(
        "() => { playground.ask(); playground.warn('fresh'); }"
    )  # the answer is that to an earlier request
    settle(page)
    assert page.get_by_role("alert").inner_text() == "fresh"
    page.get_by_label("A₁₁").fill("")
    page.get_by_label("A₁₁").press("Enter")
    page.get_by_role("alert").get_by_text("A must be 2 x 2 numbers").wait_for()


@pytest.mark.parametrize(("size", "d"), [((1280, 800), 3), ((800, 600), 2)])
def test_panels_fit_and_answers_are_seen(chromium, address, size, d):
    tokens = hm.configuration("ball", n=60, d=d, seed=3).round(4).tolist()
    with browser.opened(chromium, size) as page:
        open_playground(page, address, make_link({"tokens": tokens, "wanted": [1]}))
        widths = page.evaluate(
            "() => ['scrollWidth', 'clientWidth'].map((n) =>"
            " document.querySelector('.hm-wide')[n])"
        )
        assert widths[0] == widths[1]
        for act, panel in (("select(1)", ".hm-token"), ("findA()", ".hm-found h3")):
            page.evaluate(f"() => {{ playground.{act}; }}")
            page.locator(panel).wait_for()
            until(
                page,
                f"document.querySelector('{panel}').getBoundingClientRect().top >= 0",
            )
            box = page.locator(panel).bounding_box()
            assert box["y"] + box["height"] <= size[1] + 1
        page.keyboard.press("f")
        bar = page.locator(".hm-bar").bounding_box()
        assert (
            0 <= size[1] - bar["y"] - bar["height"] < 20
        )  # the plane takes the height that is left


def test_exports_are_downloaded(page, playground, tmp_path: Path):
    page.get_by_text("Export and share").click()
    for name, start in (
        ("PNG", b"\x89PNG"),
        ("SVG", b"<svg xmlns"),
        ("Page", b"<!doctype"),
        ("CSV", b"x1,x2"),
    ):
        with page.expect_download() as found:
            page.get_by_role("button", name=name, exact=True).click()
        assert Path(found.value.path()).read_bytes().startswith(start)
    with page.expect_download() as found:
        page.get_by_role("button", name="Scene", exact=True).click()
    scene = tmp_path / "scene.json"
    found.value.save_as(scene)
    drag(page, 0, -200, 150)
    page.get_by_text("Tokens", exact=True).click()
    page.get_by_label("File of tokens or a scene").set_input_files(scene)
    until(page, "!p.pending && p.answer.leaders.join() === '0,1,2'")
    trajectory = tmp_path / "hardmax.json"
    rule = hm.Softmax(0.75, temperature=0.25)
    run = hm.simulate(SPREAD, rule, layers=12)
    trajectory.write_text(run.to_json(), encoding="utf-8")
    page.get_by_label("File of tokens or a scene").set_input_files(trajectory)
    until(page, "!p.pending && p.scene.rule === 'softmax' && p.tokens.frames === 13")
    assert page.evaluate("() => playground.scene.tokens") == SPREAD
    with page.expect_download() as found:
        page.get_by_role("button", name="JSON", exact=True).click()
    found.value.save_as(trajectory)
    before = page.evaluate("() => playground.scene")
    page.get_by_label("File of tokens or a scene").set_input_files(scene)
    until(page, "!p.pending && p.scene.rule === 'hardmax'")
    page.get_by_label("File of tokens or a scene").set_input_files(trajectory)
    until(page, "!p.pending && p.scene.rule === 'softmax'")
    after = page.evaluate("() => playground.scene")
    assert {**after, "colours": before["colours"]} == before


def test_the_keyboard_alone(page, playground):
    page.locator("canvas").first.focus()
    page.keyboard.press("n")
    page.keyboard.press("n")
    until(page, "p.scene.selected === 1")
    before = page.evaluate("() => playground.scene.tokens[1]")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("() => playground.scene.tokens[1][0]") < before[0]
    page.keyboard.press("Insert")
    until(page, "p.scene.tokens.length === 16")
    page.keyboard.press("Delete")
    until(page, "p.scene.tokens.length === 15")
    page.keyboard.press(".")
    until(page, "p.at === 1")
    settle(page)
    page.get_by_label("Layer", exact=True).press("f")  # sliders do not take letters
    assert page.locator(".hm-head nav").is_hidden()
    page.keyboard.press("Escape")
    assert page.locator(".hm-head nav").is_visible()
    page.get_by_label("A₁₁").press("f")  # but entries do
    assert page.locator(".hm-head nav").is_visible()


def test_the_tour_goes_step_by_step(page, playground):
    page.get_by_role("button", name="Take the tour").click()
    for k in range(1, 6):
        page.get_by_text(f"{k} of 5", exact=True).wait_for()
        settle(page) if k != 4 else until(page, "!p.pending")
        if k < 5:
            page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_role("button", name="End the tour").click()
    assert page.locator(".hm-tour").is_hidden()


@pytest.mark.parametrize("size", [(1280, 800), (800, 600)])
def test_the_plane_is_the_largest_element_and_the_tour_is_beside_it(
    chromium, address, size
):
    with browser.opened(chromium, size) as page:
        open_playground(page, address)
        plane = page.locator(".hm-stage-plane").bounding_box()
        others = [
            page.locator(name).first.bounding_box()
            for name in (".hm-controls-side", ".hm-verdict")
        ]
        assert all(
            plane["width"] * plane["height"]
            > box["width"] * min(box["height"], size[1])
            for box in others
        )
        assert page.locator(".hm-bar").bounding_box()["height"] < 60
        page.get_by_role("button", name="Take the tour").click()
        settle(page)
        plane, bar, tour = (
            page.locator(f".hm-{name}").bounding_box()
            for name in ("stage-plane", "bar", "tour")
        )
        assert tour["y"] + tour["height"] <= size[1]
        assert (
            tour["y"] >= bar["y"] + bar["height"]
            or tour["x"] >= plane["x"] + plane["width"]
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["playground", "reviews"])
def test_pages_are_accessible(chromium, address, name, scheme):
    with browser.opened(chromium, (1280, 900), scheme) as page:
        page.goto(f"{address}/{name}")
        page.locator(".hm-word, .hm-verdict h2").first.wait_for()
        page.wait_for_timeout(300)
        assert browser.unfriendly(page) == []
        assert page.problems == []


def test_typing_updates_the_prediction(page, reviews):
    area = page.get_by_label("Text", exact=True).first
    area.fill("")
    area.press_sequentially("a dreadful film", delay=20)
    page.locator(".hm-answer").first.get_by_text("Negative").wait_for()
    area.fill("a wonderful film")
    page.locator(".hm-answer").first.get_by_text("Positive").wait_for()
    area.fill("<img src=x onerror=alert(1)> good")
    page.locator(".hm-word", has_text="good").first.wait_for()


def test_words_are_removed_replaced_and_restored(page, reviews, address):
    page.get_by_label("Text", exact=True).first.fill(
        "A dreadful waste of a wonderful cast."
    )
    word = page.locator(".hm-text").first.locator(".hm-word", has_text="dreadful")
    word.click()
    page.get_by_text("1 word removed or replaced").wait_for()
    assert word.get_attribute("aria-pressed") == "true"
    page.get_by_label("Replacement of “dreadful”").fill("splendid")
    before = page.url
    page.get_by_label("Replacement of “dreadful”").press("Enter")
    page.locator("ins", has_text="splendid").wait_for()
    until(page, f"location.href !== {before!r}")  # the address follows
    link = page.url
    word.focus()
    page.keyboard.press("Enter")
    page.get_by_text("1 word removed or replaced").wait_for(state="hidden")
    page.goto("about:blank")
    page.goto(link)
    page.locator("ins", has_text="splendid").wait_for()


def test_words_that_change_the_prediction_are_found(page, reviews):
    first = page.locator(".hm-text").nth(1)
    first.get_by_text("Which words change").click()
    first.get_by_role("button", name="Find a small set").click()
    first.get_by_role("button", name="Remove these words").click()
    first.locator(".hm-answer").get_by_text("Positive").wait_for()


def test_a_file_is_classified_filtered_and_downloaded(page, reviews, tmp_path: Path):
    path = tmp_path / "<b>x.csv"
    path.write_text("text,other\na good film,1\n=a bad film,2\n")
    page.get_by_label("File of texts").set_input_files(path)
    page.get_by_text("<b>x.csv: 2 texts").wait_for()
    page.get_by_label("Filter the rows").fill("bad")
    rows = page.locator(".hm-table tbody tr")
    assert rows.count() == 1
    with page.expect_download() as found:
        page.get_by_role("button", name="Download as CSV").click()
    assert "'=a bad film" in Path(found.value.path()).read_text()
    rows.first.get_by_role("button").click()
    assert page.locator(".hm-text").count() == 3
    page.get_by_role("button", name="Compare the first two").click()
    page.get_by_text("The first two texts compared").wait_for()
    page.get_by_label("Text", exact=True).first.fill("Another text")
    page.get_by_text("The first two texts compared").wait_for(state="hidden")
    page.get_by_label("Model").select_option("imdb-2d")
    page.get_by_text("<b>x.csv: 2 texts").wait_for()  # classified again
    assert page.evaluate("() => reviews.rows.model") == "imdb-2d"


def test_the_words_of_a_head_move(page, reviews):
    first = page.locator(".hm-text").first
    first.get_by_text("Leaders of one head").click()
    first.get_by_role("button", name="Play").click()
    first.get_by_role("button", name="Pause").wait_for()
    first.get_by_role("button", name="Play").wait_for()
    last = first.get_by_label("Layer")
    assert last.input_value() == last.get_attribute("max")


def test_an_own_model_is_offered(chromium, fitted, tmp_path: Path):
    fitted.save(tmp_path / "own")
    with (
        browser.served("--model", str(tmp_path / "own")) as address,
        browser.opened(chromium) as page,
    ):
        open_reviews(page, address)
        assert page.get_by_label("Model").input_value() == str(tmp_path / "own")
        assert page.problems == []
