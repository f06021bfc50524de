"""Pages in a real browser: Playwright with the Chromium of the system.

A page that writes an error to the console or asks for anything outside itself fails its test.
"""

import os
import shutil
from pathlib import Path

import pytest

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


def _leaves(url):
    return not url.startswith(("file:", "data:", "blob:", "about:"))
