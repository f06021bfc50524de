"""The studio in a real browser: every page, by mouse and keyboard, dark and narrow."""

import io
from urllib.parse import urlencode

import numpy as np
import pytest
from PIL import Image

from studio.test_app import MARKUP
from studio.test_predictions import TEXT

PAGES = ("translate", "understand", "generate", "see", "heads", "compare", "train", "papers")
LIVE = {"timeout": 20_000}


def settle(page):
    page.wait_for_timeout(400)
    page.wait_for_load_state("networkidle")
    page.wait_for_selector("[aria-busy]", state="detached", **LIVE)


def test_the_first_page_lists_what_the_models_can_do(open_studio):
    page = open_studio()
    names = [name.lower() for name in page.locator("nav a").all_inner_texts()]
    assert names == list(PAGES)
    assert "mt (Transformer" in page.locator("main").inner_text()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_draws_on_a_phone_and_in_the_dark(open_studio, name):
    page = open_studio(f"?page={name}", dark=True, size=(360, 740))
    settle(page)
    assert page.locator("main h1").inner_text().lower() == name
    assert page.locator("[role=alert]:visible").all_inner_texts() in ([], [""])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(23, 22, 20)"


@pytest.mark.parametrize(
    "query",
    [
        *PAGES,
        *(f"understand&model={name}" for name in ("roles", "mentions", "tags", "answers")),
        "train&run=trained",
    ],
)
def test_no_page_has_serious_faults_of_accessibility(open_studio, serious_faults, query):
    page = open_studio(f"?page={query}&open=heads,tree,inside,branch,samples,path")
    settle(page)
    assert serious_faults(page) == []


def test_a_translation_follows_typing_and_the_address_holds_it(open_studio):
    page = open_studio("?page=translate")
    page.fill("textarea", "the owl")
    page.wait_for_selector(".hypotheses button", **LIVE)
    page.wait_for_selector("[data-kind=attention] canvas", **LIVE)
    assert "text=the+owl" in page.url
    other = open_studio(page.url.partition("/studio")[2])
    other.wait_for_selector(".hypotheses button", **LIVE)
    assert other.input_value("textarea") == "the owl"
    texts = [each.locator(".hypotheses button").all_inner_texts() for each in (page, other)]
    assert texts[0] == texts[1]


def test_heads_are_switched_off_by_keyboard_and_the_back_button_undoes_it(open_studio):
    page = open_studio("?page=translate&text=the+owl&open=heads")
    page.wait_for_selector(".hypotheses button", **LIVE)
    page.focus("[data-head='cross.0.0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".before-after", **LIVE)
    assert "off=cross.0.1" in page.url
    assert page.get_attribute("[data-head='cross.0.1']", "aria-pressed") == "true"
    assert "without cross 0.1" in page.inner_text(".before-after")
    page.go_back()
    page.wait_for_selector(".before-after", state="detached", **LIVE)
    assert "off=" not in page.url


def test_a_forced_prefix_begins_the_translation(open_studio, server):
    page = open_studio("?page=translate&text=the+owl&prefix=die+Kuh")
    page.wait_for_selector(".hypotheses button", **LIVE)
    body = {"model": "mt", "text": "the owl", "prefix": "die Kuh", "search": "beam", "beam": 4}
    (result,) = server.post("/v1/translate", {**body, "best": 4}).json()["results"]
    shown = page.locator(".hypotheses button").all_inner_texts()
    assert shown == [record["text"] or "(empty)" for record in result["records"]]


def test_old_requests_are_given_up_while_typing(open_studio):
    page = open_studio("?page=translate&text=the+owl")
    page.wait_for_selector(".hypotheses button", **LIVE)
    asked = []
    page.on("request", lambda r: "/v1/translate" in r.url and asked.append(r.post_data_json))
    page.locator("textarea").press_sequentially(" and the cow", delay=20)
    settle(page)
    assert [body["text"] for body in asked] == ["the owl and the cow"]


def test_words_are_evidence_and_can_be_switched_off(open_studio):
    page = open_studio("?page=understand&model=labels&text=the+old+sailor")
    page.wait_for_selector(".evidence button", **LIVE)
    assert page.locator(".evidence button").all_inner_texts() == ["the", "old", "sailor"]
    page.locator(".evidence button").nth(1).click()
    page.wait_for_selector("caption:has-text('Without word 1 (old)')", **LIVE)
    assert "without=1" in page.url
    page.locator(".bars button").last.click()
    label = page.locator(".bars button[aria-pressed=true]").inner_text()
    page.wait_for_selector(f".note:has-text('For {label}')", **LIVE)


def test_masks_are_filled(open_studio):
    page = open_studio("?page=understand&model=masks&masked=the+[MASK]+sailor")
    page.wait_for_selector(".bars li", **LIVE)
    assert page.locator(".result .bars li").count() == 5


def test_frames_are_drawn_with_arcs(open_studio):
    page = open_studio(f"?page=understand&model=roles&text={TEXT.replace(' ', '+')}")
    page.wait_for_selector(".arcs svg path", **LIVE)
    assert "[A0 the old sailor mended] [V his nets]" in page.get_attribute(".arcs", "aria-label")
    page.locator("summary", has_text="[A0 the old").click()
    assert page.locator("details[open] .bars li").count() == 2


def test_mentions_have_the_colour_of_their_cluster(open_studio):
    page = open_studio(f"?page=understand&model=mentions&text={TEXT.replace(' ', '+')}")
    page.wait_for_selector("p.clusters span", **LIVE)
    assert page.locator("p.clusters").inner_text().split() == [
        *("the", "old", "[sailor]1", "mended", "his", "[nets]1")
    ]
    assert page.locator("ol.clusters li").all_inner_texts() == ["sailor · nets"]


def test_the_evidence_of_a_tag_follows_the_pointer_and_the_keyboard(open_studio):
    page = open_studio(f"?page=understand&model=tags&text={TEXT.replace(' ', '+')}")
    page.wait_for_selector(".evidence button", **LIVE)
    note = page.locator("section[aria-label=Evidence] > .note")
    before = note.inner_text()
    asked = []
    page.on("request", lambda r: "/studio/evidence" in r.url and asked.append(r.post_data_json))
    page.locator(".tags button").nth(4).hover()
    page.wait_for_timeout(900)
    settle(page)
    assert asked[-1]["character"] == TEXT.index("his")
    page.locator(".tags button").nth(5).click()
    page.wait_for_url(lambda url: "part=5" in url)
    page.mouse.move(0, 0)
    page.wait_for_timeout(900)
    assert page.get_attribute(".tags [data-part='5']", "aria-pressed") == "true"
    assert asked[-1]["character"] == TEXT.index("nets")
    assert "For " in before and "For " in note.inner_text()
    page.locator(".evidence button").nth(0).click()
    page.wait_for_selector("caption:has-text('Without word 0 (the)')", **LIVE)


def test_the_evidence_of_an_answer_is_that_of_its_start_or_end(open_studio):
    page = open_studio(
        f"?page=understand&model=answers&question=the+nets&context={TEXT.replace(' ', '+')}"
    )
    page.wait_for_selector(".note:has-text('For start')", **LIVE)
    words = page.locator(".evidence button").all_inner_texts()
    assert words == ["the", "nets", *TEXT.split()]
    page.get_by_role("button", name="end", exact=True).click()
    page.wait_for_selector(".note:has-text('For end')", **LIVE)
    assert "part=1" in page.url


def test_another_token_is_chosen_and_the_text_goes_on(open_studio):
    page = open_studio("?page=generate&text=The+old&steps=3")
    page.wait_for_selector(".written button", **LIVE)
    assert page.locator(".written button").count() == 3
    page.locator(".written button").nth(1).click()
    assert "step=2" in page.url
    other = page.locator(".options button:not([aria-pressed=true]):not([disabled])").first
    other.click()
    page.wait_for_url(lambda url: "step=" not in url)
    assert page.input_value("textarea").startswith("The old")
    page.wait_for_selector(".written button", **LIVE)


def test_an_image_is_labelled_and_never_in_the_address(open_studio):
    picture = io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(picture, "PNG")
    page = open_studio("?page=see")
    given = {"name": "a.png", "mimeType": "image/png", "buffer": picture.getvalue()}
    page.set_input_files("input[type=file]", given)
    page.wait_for_selector(".bars li", **LIVE)
    page.wait_for_selector("[data-kind=image_patches]", **LIVE)
    assert page.url.endswith("?page=see")


def test_the_slider_removes_heads(open_studio):
    page = open_studio("?page=heads&texts=the+owl%0Athe+cow")
    page.wait_for_selector("[data-kind=heads]", **LIVE)
    page.wait_for_selector("section[aria-label='Remove heads'] .note", **LIVE)
    page.focus("input[type=range]")
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("caption:has-text('3 heads removed')", **LIVE)
    assert "share=0.5" in page.url


def test_two_models_are_compared(open_studio):
    page = open_studio("?page=compare&model=mt&other=labels&text=the+owl")
    page.locator("[data-kind=attention]").nth(1).wait_for(**LIVE)
    heads = page.locator(".side-by-side h3").all_inner_texts()
    assert "mt (Transformer, 2017): translate" in heads and "labels (BERT, 2018): classify" in heads


def test_two_checkpoints_of_a_run_are_compared(open_studio):
    page = open_studio("?page=compare&model=@trained@4&text=cow+dog+owl")
    page.get_by_label("Second model", exact=True).select_option(label="trained, step 12")
    page.locator("[data-kind=attention]").nth(1).wait_for(**LIVE)
    heads = page.locator(".side-by-side h3").all_inner_texts()
    assert heads[:2] == [f"trained, step {n} (Transformer, 2017): translate" for n in (4, 12)]
    outputs = page.locator(".side-by-side .large").all_inner_texts()
    assert outputs[0] == outputs[1] or page.locator(".side-by-side .large mark").count()
    assert "other=%40trained%4012" in page.url
    again = open_studio(page.url.partition("/studio")[2])
    again.locator("[data-kind=attention]").nth(1).wait_for(**LIVE)
    assert again.locator(".side-by-side h3").all_inner_texts()[:2] == heads[:2]


def test_a_missing_checkpoint_is_one_line(open_studio):
    page = open_studio("?page=compare&model=mt&other=labels&text=the+owl", refused=True)
    page.route(
        "**/studio/checkpoint", lambda route: route.continue_(post_data='{"run": "x", "step": 1}')
    )
    page.get_by_label("Second model", exact=True).select_option(label="trained, step 12")
    page.wait_for_selector(".fault:has-text('there is no such run')", **LIVE)


def test_every_checkpoint_writes_a_sample(open_studio):
    page = open_studio("?page=train&run=trained&open=samples&text=cow+dog+owl")
    page.wait_for_selector(".note:has-text('are marked')", **LIVE)
    rows = page.locator(".samples tbody th").all_inner_texts()
    assert rows[0] == "trained, step 0" and rows[-1] == "trained, step 12"
    page.get_by_label("Text that each checkpoint reads").fill("owl")
    page.wait_for_url(lambda url: "text=owl" in url)


def test_runs_are_drawn_and_a_branch_has_its_command(open_studio):
    page = open_studio("?page=train&open=branch")
    page.wait_for_selector("[data-kind=curves]", **LIVE)
    page.check("input[value=two]")
    page.get_by_text("branch of one at step 2").wait_for()
    assert "run=one%7Ctwo" in page.url
    page.get_by_label("New value").fill("0.5")
    command = page.locator("pre.command").inner_text()
    assert command.startswith("regard train r.toml --branch ")
    assert " --at 2 --set optimiser.rate=0.5 --out " in command


def test_a_branch_is_started_stopped_and_drawn_beside_its_run(open_studio):
    page = open_studio("?page=train&open=branch&run=trained&of=trained&at=8", refused=True)
    page.get_by_label("New value").fill("0.02")
    page.get_by_role("button", name="Start this branch").click()
    page.wait_for_selector("[data-state=finished] :text('trained-at-8')", timeout=120_000)
    page.wait_for_selector("[data-kind=curves] svg text:has-text('trained-at-8')", **LIVE)
    assert "run=trained%7Ctrained-at-8" in page.url
    page.get_by_label("New value").fill("fast")
    page.get_by_role("button", name="Start this branch").click()
    page.wait_for_selector(".fault:has-text('optimiser.rate')", **LIVE)
    page.locator("select").nth(3).select_option("train.steps")
    page.get_by_label("New value").fill("100000")
    page.get_by_role("button", name="Start this branch").click()
    page.get_by_label("Stop trained-at-8-2").click()
    page.wait_for_selector("[data-state=stopped] :text('trained-at-8-2')", timeout=120_000)


def test_the_tour_has_five_steps(open_studio):
    page = open_studio()
    page.get_by_role("button", name="Tour").click()
    seen = []
    for number in range(1, 6):
        page.wait_for_selector(f".tour .quiet:text-is('{number} of 5')", **LIVE)
        seen.append(page.url.partition("page=")[2].partition("&")[0])
        if number < 5:
            page.keyboard.press("ArrowRight")
    assert seen[1:] == ["translate", "understand", "generate", "heads"] or "tour" in seen[0]
    page.keyboard.press("Escape")
    assert page.locator(".tour").count() == 0 and "tour=" not in page.url


def test_a_field_can_be_emptied_and_typed_anew(open_studio):
    page = open_studio("?page=translate")
    page.wait_for_selector(".hypotheses button", **LIVE)
    page.focus("textarea")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    settle(page)
    assert page.input_value("textarea") == "" and page.url.endswith("text=")
    page.keyboard.type("the owl")
    assert page.input_value("textarea") == "the owl"
    again = open_studio("?page=understand&model=masks&masked=")
    assert again.input_value("textarea:visible") == ""
    again.locator("textarea:visible").press_sequentially("the")
    assert again.input_value("textarea:visible") == "the"


def test_a_model_is_compared_with_itself(open_studio):
    page = open_studio("?page=compare&model=labels&text=the+owl")
    second = page.get_by_label("Second model", exact=True)
    assert second.input_value() == "labels"
    second.select_option("mt")
    page.get_by_label("First model", exact=True).select_option("mt")
    settle(page)
    assert second.input_value() == "mt" and "other=mt" in page.url
    heads = page.locator(".side-by-side h3").all_inner_texts()
    assert heads.count("mt (Transformer, 2017): translate") == 2


@pytest.mark.parametrize(
    "query",
    [
        "translate&text=the+owl",
        "understand&model=labels&text=the+owl&open=inside",
        "generate&text=The+old&open=inside",
        "compare&model=mt&other=mt&text=the+owl",
    ],
)
def test_choices_in_a_view_are_in_the_address_and_the_back_button_undoes_them(open_studio, query):
    page = open_studio(f"?page={query}")
    view = page.locator("[data-kind=attention]").last
    view.wait_for(**LIVE)
    settle(page)
    prefix = "other." if query.startswith("compare") else ""
    scale = view.locator("[data-choice=scale]")
    scale.get_by_label("square root").check()
    view.locator("[data-choice=colours]").get_by_label("viridis").check()
    view.locator("[data-choice=hide]").get_by_label("sinks").check()
    for choice in ("scale=root", "colours=viridis", "hide=sinks"):
        assert f"&{prefix}{choice}" in page.url
    other = open_studio(page.url.partition("/studio")[2])
    again = other.locator("[data-kind=attention]").last
    again.wait_for(**LIVE)
    settle(other)
    assert again.get_by_label("square root").is_checked()
    assert again.get_by_label("viridis").is_checked()
    page.go_back()
    assert not view.get_by_label("sinks").is_checked() and "hide" not in page.url
    page.go_back()
    page.go_back()
    assert scale.get_by_label("linear").is_checked() and "scale" not in page.url


def test_a_view_is_not_grey_once_an_error_is_over(open_studio):
    page = open_studio("?page=compare&model=mt&other=labels&text=the+owl", refused=True)
    page.locator("[data-kind=attention]").nth(1).wait_for(**LIVE)
    page.route("**/studio/look", lambda route: route.fulfill(status=400, body="{}"))
    page.fill("textarea", "the cow")
    page.wait_for_selector(".view .fault:visible", **LIVE)
    page.unroute("**/studio/look")
    page.fill("textarea", "the owl")
    page.locator("[data-kind=attention]").nth(1).wait_for(**LIVE)
    settle(page)
    assert page.locator(".old").count() == 0


def test_choices_about_a_text_end_with_it(open_studio):
    page = open_studio("?page=understand&model=labels&text=the+old+sailor&without=1&target=x")
    page.fill("textarea:visible", "the owl")
    page.wait_for_url(lambda url: "without" not in url and "target" not in url)
    page.locator(".evidence button", has_text="owl").wait_for(**LIVE)
    assert page.locator("section[aria-label=Evidence] caption").count() == 0


def test_no_run_need_be_chosen(open_studio):
    page = open_studio("?page=train&run=one")
    page.wait_for_selector("[data-kind=curves]", **LIVE)
    page.uncheck("input[value=one]")
    page.wait_for_selector("[data-kind=curves]", state="detached", **LIVE)
    assert page.locator(".runs input:checked").count() == 0


@pytest.mark.parametrize(
    "query",
    [
        "translate&open=tree&text=the+owl",
        "understand&model=labels&open=inside&text=the+owl",
        "compare&model=mt&other=labels&text=the+owl",
    ],
)
def test_nothing_is_left_of_a_text_that_was_emptied(open_studio, query):
    page = open_studio(f"?page={query}")
    page.locator("[data-kind=attention]").last.wait_for(**LIVE)
    settle(page)
    page.fill("textarea:visible", " ")
    page.get_by_text("The text is empty: type one.").first.wait_for(**LIVE)
    settle(page)
    left = "[data-kind], .hypotheses li, .result .bars, .evidence button, .side-by-side h3"
    assert page.locator(left).count() == 0


def test_the_keyboard_keeps_its_place_when_lists_are_drawn_anew(open_studio):
    page = open_studio("?page=generate&text=The+old&steps=3")
    page.wait_for_selector(".written button", **LIVE)
    focused = "document.activeElement.closest('.written, .options, .evidence')?.className"
    page.locator(".written button").nth(1).focus()
    page.keyboard.press("Enter")
    assert "step=2" in page.url and page.evaluate(focused) == "written"
    page.locator(".options button:not([disabled])").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "step=" not in url)
    settle(page)
    assert page.evaluate(focused) == "options"
    page = open_studio("?page=understand&model=labels&text=the+old+sailor")
    page.locator(".evidence button").nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("caption:has-text('Without word 1 (old)')", **LIVE)
    assert page.evaluate(focused) == "evidence"
    assert page.evaluate("document.activeElement.textContent") == "old"


def test_arrow_keys_move_up_and_down_between_layers(open_studio):
    page = open_studio("?page=translate&text=the+owl&open=heads")
    heads = page.locator("[data-head]").evaluate_all("all => all.map((each) => each.dataset.head)")
    rows = list(dict.fromkeys(head.rpartition(".")[0] for head in heads))
    page.focus(f"[data-head='{rows[0]}.1']")
    for key, place in (("ArrowDown", rows[1]), ("ArrowUp", rows[0]), ("ArrowUp", rows[0])):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.head") == f"{place}.1"


def test_a_file_that_is_no_image_leaves_nothing_of_the_one_before(open_studio):
    picture = io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(picture, "PNG")
    page = open_studio("?page=see", refused=True)
    for name, content in (("a.png", picture.getvalue()), ("b.png", b"no image")):
        given = {"name": name, "mimeType": "image/png", "buffer": content}
        page.set_input_files("input[type=file]", given)
        if name == "a.png":
            page.wait_for_selector("[data-kind=image_patches]", **LIVE)
    page.wait_for_selector(".fault:has-text('image')", **LIVE)
    settle(page)
    assert page.locator(".preview:visible, .bars li, [data-kind]").count() == 0


def test_a_studio_that_has_ended_says_so(open_studio):
    page = open_studio("?page=translate&text=the+owl", refused=True)
    page.wait_for_selector(".hypotheses button", **LIVE)
    settle(page)
    page.route("**/*", lambda route: route.abort())
    page.fill("textarea", "the cow")
    page.wait_for_selector(".fault:has-text('Start it again with regard studio')", **LIVE)
    page.get_by_role("link", name="Papers").click()
    page.wait_for_selector("h1:text-is('Papers') ~ .fault:has-text('does not answer')", **LIVE)


def test_a_long_text_that_is_pasted_is_refused_and_not_cut(open_studio):
    page = open_studio("?page=translate&text=the+owl")
    page.fill("textarea", "owl " * 5_000)
    page.get_by_text("the studio reads at most 4,000.").first.wait_for(**LIVE)


def test_a_step_that_is_no_number_is_the_first(open_studio):
    page = open_studio("?page=generate&text=The+old&steps=3&step=abc")
    page.wait_for_selector(".options :text('Token 1')", **LIVE)
    assert page.get_attribute(".written button >> nth=0", "aria-pressed") == "true"


@pytest.mark.parametrize(
    ("model", "told"),
    [("answers", "ask it on the page Understand"), ("images", "give it one on the page See")],
)
def test_a_model_that_reads_no_single_text_is_not_asked(open_studio, model, told):
    page = open_studio(f"?page=compare&model=mt&other={model}&text=the+owl")
    page.wait_for_selector(f".fault:has-text('{told}')", **LIVE)


def test_a_run_that_was_stopped_is_not_called_finished(open_studio):
    page = open_studio("?page=train&run=trained", refused=True)
    page.get_by_text("step 12, finished").first.wait_for(**LIVE)

    def shorten(route):
        answer = route.fetch().json()
        for run in answer["runs"]:
            run |= {"steps": 300} if run["name"] == "trained" else {}
        route.fulfill(json=answer)

    page.route("**/studio/runs", shorten)
    page.get_by_text("stopped at 12 of 300 steps").wait_for(**LIVE)


def test_heat_maps_that_are_compared_begin_at_one_height(open_studio):
    page = open_studio("?page=compare&model=mt&other=labels&text=the+owl")
    page.locator("[data-kind=attention]").nth(1).wait_for(**LIVE)
    settle(page)
    top = "all => all.map((each) => Math.round(each.getBoundingClientRect().top))"
    assert len({*page.locator("[data-kind=attention] .cells").evaluate_all(top)}) == 1


def test_texts_have_the_whole_width_of_a_page(open_studio):
    page = open_studio("?page=generate&text=The+old")
    page.wait_for_selector(".options button", **LIVE)
    form, field = (
        page.locator(each).bounding_box()["width"] for each in ("form.fields", "textarea")
    )
    assert field == form
    wide = "all => all.map((each) => each.scrollWidth <= each.clientWidth && each.clientWidth > 20)"
    assert all(page.locator(".options button").evaluate_all(wide))


def test_words_in_tables_are_whole_on_a_phone(open_studio):
    page = open_studio("?page=heads&texts=the+owl&share=0.5", size=(360, 740))
    page.wait_for_selector("caption:has-text('heads removed')", **LIVE)
    table = page.locator("section[aria-label='Remove heads'] table")
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    lines = "all => all.filter((one) => !one.textContent.includes(' ')).map((one) => { const r ="
    lines += (
        " document.createRange(); r.selectNodeContents(one); return r.getClientRects().length; })"
    )
    assert {*page.locator("main th, main td.figure").evaluate_all(lines)} <= {0, 1}


def test_the_back_button_turns_the_tour(open_studio):
    page = open_studio("?tour=1")
    page.wait_for_selector(".tour .quiet:text-is('1 of 5')", **LIVE)
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".tour .quiet:text-is('2 of 5')", **LIVE)
    page.go_back()
    page.wait_for_selector(".tour .quiet:text-is('1 of 5')", **LIVE)
    assert "tour=1" in page.url


def test_a_saved_picture_tells_what_it_shows(open_studio):
    page = open_studio("?page=translate&text=the+owl&off=cross.0.1&layer=0&head=0")
    page.wait_for_selector("[data-kind=attention] canvas", **LIVE)
    settle(page)
    with page.expect_download() as download:
        page.locator("text=Save SVG").first.click()
    saved = download.value.path().read_text(encoding="utf-8")
    assert "map cross · head 0 · scale linear" in saved and saved.count("<rect") > 9
    assert "heads switched off: cross.0.1" in saved and "text=the owl" in saved
    assert "click to keep them" not in saved and ">none<" not in saved


def test_papers_begin_with_a_sentence(open_studio):
    page = open_studio("?page=papers&paper=Transformer")
    told = page.get_by_text("Compared with Luong, Transformer changes ")
    told.wait_for(**LIVE)
    assert "depth (4 → 6)" in told.inner_text() and "adds position base" in told.inner_text()
    page.locator("summary", has_text="settings that differ").click()
    cells = page.locator("details[open] td").all_inner_texts()
    assert cells and not {"True", "False", "()"} & {*cells}


ODD = {
    "empty": " ",
    "long": "owl " * 2_500,
    "many scripts": "\u202e\u05e9\u05dc\u05d5\u05dd 👩\u200d👧 \x00\x1b[31m \u2028b",
}
READERS = [
    *(f"{page}&open=inside,tree|text" for page in ("translate", "generate", "compare")),
    *("heads|texts", "compare&model=@trained@4&other=masks|text"),
    *("train&open=samples&run=trained|text", "understand&model=masks|masked"),
    *(f"understand&model={name}|text" for name in ("labels", "roles", "mentions", "tags")),
    *(f"understand&model=answers|{name}" for name in ("question", "context")),
]


@pytest.mark.parametrize("reader", READERS)
def test_odd_texts_are_read_or_refused_in_one_line(open_studio, reader):
    query, field = reader.split("|")
    for kind, text in ODD.items():
        page = open_studio(f"?page={query}&{urlencode({field: text})}", refused=True)
        settle(page)
        faults = [line for line in page.locator("[role=alert]:visible").all_inner_texts() if line]
        shown = page.locator("main").inner_text()
        if kind == "long":
            assert "characters; the studio reads at most 4,000." in shown
        for line in faults:
            assert "\n" not in line and len(line) < 200 and "the log of the server" not in line
            assert not line.startswith("the body is not")
        assert not [part for part in ("undefined", "NaN", "[object") if part in shown]
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        page.context.close()


SLOW_EXAMPLE = """const read = FileReader.prototype.readAsDataURL;
FileReader.prototype.readAsDataURL = function (blob) {
  if (blob.size < 200) return read.call(this, blob);
  const told = document.documentElement.dataset;
  told.example = "begun";
  setTimeout(() => { told.example = "read"; read.call(this, blob); }, 800);
};"""


def test_an_image_that_is_read_slowly_does_not_replace_a_later_one(open_studio):
    page = open_studio("?page=papers", refused=True)
    page.add_init_script(SLOW_EXAMPLE)
    page.goto(page.url.replace("papers", "see"))
    page.wait_for_selector("html[data-example=begun]", state="attached", **LIVE)
    given = {"name": "a.png", "mimeType": "image/png", "buffer": b"no image"}
    page.set_input_files("input[type=file]", given)
    page.wait_for_selector(".fault:has-text('image')", **LIVE)
    page.wait_for_selector("html[data-example=read]", state="attached", **LIVE)
    settle(page)
    assert "image" in page.inner_text(".fault") and page.locator(".preview:visible").count() == 0


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + b"0" * 90])
def test_a_file_that_is_no_image_is_refused_in_one_line(open_studio, content):
    page = open_studio("?page=see", refused=True)
    given = {"name": "a.png", "mimeType": "image/png", "buffer": content}
    page.set_input_files("input[type=file]", given)
    page.wait_for_selector(".fault:has-text('image')", **LIVE)
    assert "\n" not in page.inner_text(".fault")
    assert page.locator(".preview:visible").count() == 0


@pytest.mark.parametrize(
    "name",
    [
        "translate",
        "understand",
        "understand&model=roles",
        "understand&model=mentions",
        "understand&model=tags",
        "generate",
        "compare",
        "heads",
        "train&open=samples&run=trained",
    ],
)
def test_markup_in_texts_is_shown_as_text(open_studio, name):
    field = "texts" if name == "heads" else "text"
    text = "<b>x" if name == "generate" else MARKUP  # its model has few positions
    page = open_studio(f"?page={name}")
    page.evaluate(
        "([field, text]) => { const next = new URLSearchParams(location.search);"
        " next.set(field, text); location.search = next; }",
        [field, text],
    )
    page.wait_for_selector("html[data-ready]", state="attached")
    settle(page)
    assert page.locator("img[src=x], main script, main b:has-text('x')").count() == 0
    assert page.input_value("textarea") == text


def test_a_page_is_presented_without_fields_in_twice_the_size(open_studio):
    page = open_studio("?page=translate&text=the+owl")
    page.locator("[data-kind=attention] .cells").wait_for(**LIVE)
    settle(page)
    row = page.locator(".cells").first.bounding_box()["height"] / page.locator(".rows li").count()
    page.keyboard.press("Alt+KeyP")
    page.locator("form").first.wait_for(state="hidden")
    assert "present=1" in page.url
    settle(page)
    cells = page.locator(".cells").first.bounding_box()
    assert cells["height"] / page.locator(".rows li").count() >= 1.5 * row
    page.locator(".cells").first.scroll_into_view_if_needed()
    cells = page.locator(".cells").first.bounding_box()
    page.mouse.move(cells["x"] + cells["width"] - 4, cells["y"] + cells["height"] - 4)
    last = page.locator(".columns text").last.text_content()
    assert f" looks at {last} " in page.locator(".readout").first.inner_text()
    page.get_by_role("button", name="Present").click()
    page.locator("form.fields").wait_for()
    assert "present" not in page.url


def test_the_picture_of_a_translation_is_above_the_fold_of_a_projector(open_studio):
    page = open_studio("?page=translate&text=the+owl", size=(1280, 720))
    page.locator("[data-kind=attention] .cells").wait_for(**LIVE)
    settle(page)
    box = page.locator("[data-kind=attention] .cells").bounding_box()
    assert box["y"] + box["height"] <= 720


def test_two_models_of_one_kind_are_compared_at_first(open_studio):
    page = open_studio()

    def alike(route):
        answer = route.fetch().json()
        for model in answer["models"]:
            if model["name"] in ("labels", "masks"):
                model["paths"] = ["classify"]
        route.fulfill(json=answer)

    page.route("**/studio/models", alike)
    page.goto(f"{page.url.partition('?')[0]}?page=compare")
    page.wait_for_selector("select", **LIVE)
    chosen = page.locator("form select").evaluate_all("all => all.map(each => each.value)")
    assert chosen[:2] == ["labels", "masks"]
