"""What the studio shows belongs to what was typed: older answers are dimmed and do nothing."""

import io
import json
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from browser.test_studio import LIVE, settle
from studio.test_predictions import TEXT

WORDS = TEXT.replace(" ", "+")
MEASURED = "Texts on which heads are measured, one a line"
TYPED = {
    "?page=translate&text=the+owl&open=tree": "Source text",
    f"?page=understand&model=labels&text={WORDS}&without=1&open=inside": "Text",
    f"?page=understand&model=tags&text={WORDS}": "Text",
    f"?page=understand&model=roles&text={WORDS}": "Text",
    f"?page=understand&model=mentions&text={WORDS}": "Text",
    f"?page=understand&model=answers&question=the+nets&context={WORDS}": "Question",
    "?page=understand&model=masks&masked=the+[MASK]+sailor": "Text with masks",
    "?page=generate&text=The+old&steps=3&open=tree,inside": "Text so far",
    "?page=heads&model=labels&texts=the+owl&share=0.5": MEASURED,
    "?page=compare&model=mt&other=labels&text=the+owl": "Input",
}
"""Addresses with results, and the field in which another text is typed."""
OLD_BUTTONS = "main section button:visible, main section canvas:visible"


@contextmanager
def held_requests(page):
    """Requests for answers wait until the end of the block."""
    waiting, is_open = [], False

    def hold(route):
        if route.request.method == "POST" and not is_open:
            waiting.append(route)
        else:
            route.continue_()

    page.route("**/*", hold)
    yield
    is_open = True
    for route in waiting:
        route.continue_()


def bodies_of(page):
    """Paths and bodies of the requests from now on."""
    asked = []

    def note(request):
        if request.method == "POST":
            asked.append((request.url.partition("//")[2].partition("/")[2], request.post_data_json))

    page.on("request", note)
    return asked


@pytest.mark.parametrize("query", TYPED)
def test_an_older_answer_is_dimmed_and_does_nothing(open_studio, query):
    page = open_studio(query)
    settle(page)
    assert page.locator(".old").count() == 0
    with held_requests(page):
        page.get_by_label(TYPED[query], exact=True).press("End")
        page.get_by_label(TYPED[query], exact=True).press_sequentially(" the")
        page.wait_for_timeout(400)
        address = page.url
        shown = page.locator(OLD_BUTTONS)
        assert page.locator(".old[aria-busy=true]").count()
        for at in range(shown.count()):
            inside = "each => Boolean(each.closest('.old[aria-busy=true]'))"
            assert shown.nth(at).evaluate(inside), shown.nth(at).evaluate("each => each.outerHTML")
            shown.nth(at).dispatch_event("click")
            shown.nth(at).dispatch_event("keydown", {"key": "Enter"})
        assert page.url == address
    settle(page)
    assert page.locator(".old").count() == 0


def test_a_word_of_the_old_text_is_not_left_out_of_the_new_one(open_studio):
    page = open_studio(f"?page=understand&model=labels&text={WORDS}")
    settle(page)
    page.route("**/studio/evidence", lambda route: None)
    page.get_by_label("Text", exact=True).fill("the old nets")
    page.wait_for_selector(".result.old", **LIVE)
    page.wait_for_selector(".result.old", state="detached", **LIVE)
    assert page.locator(".evidence.old button").count() == len(TEXT.split())
    page.locator(".evidence button").nth(4).click()
    assert "without" not in page.url


@pytest.mark.parametrize("query", [f"?page=understand&model=labels&text={WORDS}&without=1"])
def test_all_figures_of_a_page_are_of_one_model(open_studio, query):
    page = open_studio(f"{query}&off=encoder.0.1&open=inside")
    answers = {}
    page.on("response", lambda r: answers.setdefault(r.url.rpartition("/")[2], r))
    asked = bodies_of(page)
    page.reload()
    settle(page)
    edits = [body["edits"] for path, body in asked if path != "studio/unknown"]
    assert len(edits) >= 4 and edits[0] and all(each == edits[0] for each in edits)
    (label, share) = page.locator(".result .bars li").first.inner_text().split("\n")[:2]
    before = float(page.locator("tbody tr", has_text=label).locator("td").first.inner_text())
    assert f"{100 * before:.1f}%" == share
    evidence = answers["evidence"].json()
    assert evidence["targets"][0] == label
    assert evidence["probabilities"][0] == pytest.approx(before, abs=1e-4)
    told = page.locator(".of-model").all_inner_texts()
    assert told == ["Model: labels without encoder 0.1"] * 3


def test_heads_alone_are_compared_with_all_heads(open_studio):
    page = open_studio(f"?page=understand&model=labels&text={WORDS}&off=encoder.0.1")
    page.wait_for_selector("th:has-text('all heads')", **LIVE)
    heads = page.locator("thead th").all_inner_texts()
    assert heads == ["", "all heads", "without encoder 0.1", "change"]
    settle(page)
    label, share = page.locator(".result .bars li").first.inner_text().split("\n")[:2]
    after = page.locator("tbody tr", has_text=label).locator("td").nth(1).inner_text()
    assert f"{100 * float(after):.1f}%" == share


def test_the_evidence_of_a_long_text_is_computed_on_demand(open_studio):
    text = "+".join(["the"] * 65)
    page = open_studio(f"?page=understand&model=tags&text={text}", refused=True)
    asked = bodies_of(page)
    page.reload()
    settle(page)
    assert not [path for path, _ in asked if path == "studio/evidence"]
    page.get_by_role("button", name="Compute the evidence of these 65 words").click()
    settle(page)
    assert [path for path, _ in asked if path == "studio/evidence"]


def test_no_head_is_compared_with_the_model_itself(open_studio):
    page = open_studio("?page=heads&model=labels&texts=the+owl")
    asked = bodies_of(page)
    page.reload()
    page.wait_for_selector("section[aria-label='Remove heads'] .note", **LIVE)
    settle(page)
    assert [path for path, _ in asked] == ["studio/heads"]
    assert page.locator("section[aria-label='Remove heads'] table").count() == 0


def test_a_large_photo_is_scaled_in_the_browser(open_studio):
    noise = np.random.default_rng(1).integers(0, 256, (1700, 2500, 3), np.uint8)
    picture = io.BytesIO()
    Image.fromarray(noise).save(picture, "PNG", compress_level=1)
    assert picture.tell() > 12 << 20
    page = open_studio("?page=see")
    settle(page)
    asked = bodies_of(page)
    given = {"name": "a.png", "mimeType": "image/png", "buffer": picture.getvalue()}
    page.set_input_files("input[type=file]", given)
    page.wait_for_selector("text=a smaller picture of it is read", **LIVE)
    settle(page)
    sizes = [len(body["image"]) for _, body in asked]
    assert sizes and max(sizes) < 4 << 20
    assert page.locator(".bars li").count() == 2
    assert {*page.locator(".fault").all_inner_texts()} <= {""}


@pytest.mark.parametrize("page_name", ["see", "compare", "understand", "translate", "generate"])
def test_no_page_is_empty_at_first(open_studio, page_name):
    page = open_studio(f"?page={page_name}")
    settle(page)
    assert page.locator(".bars li, .hypotheses li, .written button, .side-by-side .large").count()
    assert page.locator("[role=alert]:visible").all_inner_texts() in ([], [""], ["", ""])


def test_the_first_page_leads_to_each_model(open_studio):
    page = open_studio()
    page.locator(".models li", has_text="tags").get_by_role("link", name="Understand").click()
    page.wait_for_selector(".tags button", **LIVE)
    assert page.url.endswith("?page=understand&model=tags")


def test_words_that_the_model_does_not_know_are_named(open_studio):
    page = open_studio("?page=understand&model=labels&text=the+old+☃")
    page.wait_for_selector(".unknown:has-text('labels does not know ☃')", **LIVE)
    page.get_by_label("Text", exact=True).fill("the old sailor")
    page.wait_for_selector(".unknown:has-text('☃')", state="detached", **LIVE)


@pytest.mark.parametrize("without", ["abc", "1,x", "-1", "99"])
def test_a_wrong_word_in_the_address_is_one_line(open_studio, without):
    query = f"?page=understand&model=labels&text={WORDS}&without={without}"
    page = open_studio(query, refused=True)
    fault = page.locator("section[aria-label=Evidence] .fault")
    fault.wait_for(**LIVE)
    assert "word" in fault.inner_text() and "request" not in fault.inner_text()
    settle(page)
    assert page.locator(".evidence button").count() == len(TEXT.split())


def test_labels_turn_no_text_around(open_studio):
    def turned(route):
        answer = route.fetch()
        text = json.dumps(answer.json(), ensure_ascii=False).replace("good", "go\u202eod\u2066\x85")
        route.fulfill(response=answer, body=text)

    page = open_studio(f"?page=understand&model=labels&text={WORDS}")
    for path in ("**/v1/classify", "**/studio/evidence", "**/studio/what-if", "**/studio/models"):
        page.route(path, turned)
    page.goto(f"{page.url}&without=1")
    settle(page)
    assert "go\ufffdod\ufffd\ufffd" in page.inner_text(".result")
    shown = page.evaluate(
        "[document.body.innerText, ...[...document.querySelectorAll('*')].flatMap(each =>"
        " ['aria-label', 'title'].map(name => each.getAttribute(name) ?? ''))].join('')"
    )
    assert not {"\u202e", "\u2066", "\x85"} & {*shown}


PLACES = [*TYPED, "", "?page=see", "?page=train", "?page=papers&open=path", "?page=heads"]


@pytest.mark.parametrize("query", PLACES)
def test_buttons_can_be_hit_and_landmarks_have_names_of_their_own(open_studio, query):
    page = open_studio(query)
    settle(page)
    small = page.evaluate(
        "[...document.querySelectorAll('button')].filter(each => each.checkVisibility())"
        ".map(each => [each.outerHTML, each.getBoundingClientRect()])"
        ".filter(([, box]) => box.width < 24 || box.height < 24).map(([html]) => html)"
    )
    assert small == []
    names = page.evaluate(
        "[...document.querySelectorAll('section[aria-label], nav, [role=region], [role=group],"
        " [role=dialog], aside, fieldset')].filter(each => each.checkVisibility())"
        ".map(each => `${each.localName} ${each.getAttribute('role')} ${each.ariaLabel}`)"
    )
    landmarks = [name for name in names if name.startswith(("section", "nav", "aside"))]
    assert len(landmarks) == len({*landmarks})


@pytest.mark.parametrize("query", ["?page=translate&text=the+owl&open=tree", "?page=heads"])
def test_escape_keeps_the_focus(open_studio, query):
    page = open_studio(query)
    settle(page)
    page.wait_for_selector(".view [tabindex='0']", **LIVE)
    focused = "document.activeElement.outerHTML.slice(0, 200)"
    for at in range(page.locator(".view [tabindex='0']:visible").count()):
        page.locator(".view [tabindex='0']:visible").nth(at).focus()
        page.keyboard.press("ArrowRight")
        before = page.evaluate("document.activeElement.localName")
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.localName") == before, page.evaluate(focused)


def test_the_tour_gives_the_focus_back(open_studio):
    page = open_studio()
    page.get_by_role("button", name="Tour").click()
    page.get_by_role("button", name="Next").click()
    page.wait_for_selector("h1", **LIVE)
    page.keyboard.press("Escape")
    assert page.locator(".tour").count() == 0
    assert page.evaluate("document.activeElement.textContent") == "Tour"


def test_the_tour_gives_the_focus_back_while_a_page_is_loaded(open_studio):
    page, held = open_studio(), []
    page.route("**/pages/*.js", lambda route: held.append(route))
    page.reload(wait_until="commit")
    page.get_by_role("button", name="Tour").click()
    page.get_by_role("button", name="Next").click()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Tour"
    for route in held:
        route.continue_()
    page.wait_for_selector("main textarea", **LIVE)
    assert page.evaluate("document.activeElement.textContent") == "Tour"
    assert page.locator("main h1").count() == 1


def test_scripts_do_not_wait_for_each_other(open_studio):
    page = open_studio("?page=translate&text=the+owl")
    named = set(
        page.evaluate(
            "[...document.querySelectorAll('link[rel=modulepreload]')].map(each => each.href)"
        )
    )
    settle(page)
    page.wait_for_selector("[data-kind=attention]", **LIVE)
    loaded = page.evaluate(
        "performance.getEntriesByType('resource').map(each => each.name)"
        ".filter(name => name.endsWith('.js'))"
    )
    assert {*loaded} == named
