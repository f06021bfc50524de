"""Pages in a real browser: Playwright with the Chromium of the system.

A page that writes an error to the console or asks for anything outside itself fails its test.
"""

import os
import shutil
from pathlib import Path

import pytest

from regard.serving.app import ServerSettings
from regard.studio.app import studio_apis
from regard.studio.branches import Trainings
from serving.running_server import running, translation_model
from small_bert import model as small_bert
from small_gpt import small_gpt2
from small_images import small_vit
from small_roles import small_labeller
from studio.small_run import train_small_run
from studio.test_app import write_run
from studio.test_predictions import SEED, small_resolver

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(os.environ.get("AXE_CORE", "node_modules/axe-core/axe.min.js"))
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def pytest_collection_modifyitems(items):
    for item in items:
        if "/browser/" in str(item.path):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def serious_faults():
    """Find serious faults of accessibility in a page, by axe-core: rules with elements."""
    if not AXE.is_file():
        pytest.skip("needs axe-core (AXE_CORE names axe.min.js)")
    rules = {"label-content-name-mismatch": {"enabled": True}}

    def serious_faults(page):
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate(
            "options => axe.run(document, options)", {"runOnly": STANDARDS, "rules": rules}
        )
        return [
            (each["id"], [node["html"][:160] for node in each["nodes"][:3]])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]

    return serious_faults


@pytest.fixture(scope="session")
def chromium():
    """A browser for all tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, tmp_path):
    """Open HTML as a file; ``dark``, ``size`` and ``hash`` choose how. Errors fail the test."""
    contexts, faults = [], []

    def open_page(html, *, dark=False, size=(1280, 900), hash="", ready="html[data-ready]"):
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        context = chromium.new_context(
            color_scheme="dark" if dark else "light",
            viewport={"width": size[0], "height": size[1]},
            offline=True,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: m.type in ("error", "warning") and faults.append(m.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda r: _leaves(r.url) and faults.append(f"asks for {r.url}"))
        page.goto(path.as_uri() + hash)
        page.wait_for_selector(ready, state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def _leaves(url, own="file:"):
    return not url.startswith((own, "data:", "blob:", "about:"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    command = {"command": "regard train r.toml --out old"}
    write_run(runs / "one", [3.0, 2.0, 1.0], environment_jsonl=command)
    (runs / "one" / "checkpoints" / "step-00000002").mkdir(parents=True)
    (runs / "one" / "checkpoints" / "step-00000002" / "state.json").write_text("{}")
    origin = {"run": "one", "step": 2, "changed": ["optimiser.rate"]}
    write_run(runs / "two", [3.0, 2.0, 1.5], branch_json=origin)
    translator = translation_model()
    models = {"mt": translator, "labels": small_bert("one"), "writer": small_gpt2()}
    models |= {"masks": small_bert("words"), "images": small_vit()}
    models |= {"roles": small_labeller(seed=SEED), "mentions": small_resolver()}
    models |= {"tags": small_bert("tags"), "answers": small_bert("answer")}
    train_small_run(runs, "trained")
    trainings, settings = Trainings(), ServerSettings(allow_edits=True)
    with running(models, settings, studio_apis(runs, trainings)) as server:
        yield server
    trainings.close()


@pytest.fixture
def open_studio(chromium, server):
    """Open a page of the studio; errors of the console and requests elsewhere fail the test.

    With ``refused``, answers of the server may be errors, which the console notes.
    """
    contexts, faults = [], []

    def open_studio(query="", *, dark=False, size=(1280, 900), refused=False):
        scheme = "dark" if dark else "light"
        view = {"width": size[0], "height": size[1]}
        context = chromium.new_context(color_scheme=scheme, viewport=view)
        contexts.append(context)
        page = context.new_page()

        def note(message):
            is_answer = refused and message.text.startswith("Failed to load resource")
            if message.type in ("error", "warning") and not is_answer:
                faults.append(message.text)

        page.on("console", note)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda r: _leaves(r.url, server.url) and faults.append(r.url))
        page.goto(f"{server.url}/studio{query}")
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_studio
    for context in contexts:
        context.close()
    assert faults == []
