"""The page at / of a server of translators, in a real browser."""

import time

import pytest

from regard.serving.engine import ServedModel
from regard.serving.settings import APIKeys, ServerSettings
from serving.running_server import running, translation_model

KEY = "a-key-of-a-user-1"
MARKUP = "<img src=x onerror=document.title='run'>"


@pytest.fixture(scope="module")
def translator():
    return translation_model()


@pytest.fixture
def open_at(chromium):
    """Open the page of a server; errors of the console and requests elsewhere fail the test."""
    contexts, faults = [], []

    def open_at(server, *, refused=False):
        context = chromium.new_context(color_scheme="dark", viewport={"width": 360, "height": 740})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: m.type == "error" and not refused and faults.append(m.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        own = (server.url, "data:")
        page.on("request", lambda r: r.url.startswith(own) or faults.append(f"asks {r.url}"))
        page.goto(f"{server.url}/")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert faults == []


def shown(page, selector, text):
    """Wait until an element has a text."""
    end = time.monotonic() + 20
    while (found := page.locator(selector).inner_text()) != text and time.monotonic() < end:
        page.wait_for_timeout(20)
    assert found == text


def test_a_text_is_translated(open_at, translator, serious_faults):
    served = [
        ServedModel(translator, "mt-en-de"),
        ServedModel(translator, "back", languages=("de", "en")),
    ]
    ((best, *_),) = translator.translate(["the owl sees the cow"])
    with running(served) as server:
        page = open_at(server)
        page.get_by_label("Text to translate").fill("the owl sees the cow")
        assert page.locator("#source").input_value() == "en"
        assert page.locator("#target").input_value() == "de"
        page.get_by_role("button", name="Translate").click()
        shown(page, "#translation", best.text)
        page.get_by_label("From").select_option("Detect language")
        page.get_by_label("To", exact=True).select_option("German")
        page.get_by_role("button", name="Translate").click()
        page.get_by_text("Detected: English").wait_for()
        page.get_by_label("From").select_option("English")
        page.get_by_role("button", name="Swap languages").click()
        assert page.locator("#source").input_value() == "de"
        assert page.get_by_label("Text to translate").input_value() == best.text
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert serious_faults(page) == []


def test_markup_stays_text(open_at, translator):
    with running([ServedModel(translator, "mt-en-de", languages=(MARKUP, "de"))]) as server:
        page = open_at(server)
        page.get_by_label("Text to translate").fill(MARKUP)
        page.locator("#target").select_option("de")
        page.evaluate("fill(part('target'), [part('source').value, 'de'], 'de')")
        page.evaluate("part('target').value = part('source').value")  # the text as it is
        page.get_by_role("button", name="Translate").click()
        shown(page, "#translation", MARKUP)
        assert page.locator("img").count() == 0 and page.title() == "Translate"


def test_with_keys_the_page_asks_for_one(open_at, translator, tmp_path):
    (tmp_path / "keys").write_text(KEY)
    settings = ServerSettings(keys=APIKeys.read(tmp_path / "keys"))
    with running([ServedModel(translator, "mt-en-de")], settings) as server:
        page = open_at(server, refused=True)
        page.get_by_label("API key").fill(KEY)
        page.get_by_label("API key").press("Tab")
        page.get_by_label("Text to translate").fill("the owl")
        page.locator("#source option").first.wait_for(state="attached")
        page.get_by_role("button", name="Translate").click()
        ((best, *_),) = translator.translate(["the owl"])
        shown(page, "#translation", best.text)


def test_an_error_is_shown(open_at, translator):
    with running([ServedModel(translator, "mt-en-de")], max_bytes=100) as server:
        page = open_at(server, refused=True)
        page.locator("#source option").first.wait_for(state="attached")
        page.get_by_label("Text to translate").fill("the owl " * 13)
        page.get_by_role("button", name="Translate").click()
        page.get_by_text("104 bytes or ids are more than the 100 of a request").wait_for()
