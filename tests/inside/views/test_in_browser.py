"""The page of papers in a headless browser, on a desk and on a phone."""

import json
import re
import shutil
import subprocess
from html import escape, unescape

import pytest

from regard.cli.paper_records import lineage, section
from regard.inside.views.papers_html import papers_page

BROWSER = shutil.which("chromium")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="needs chromium")]
DESK, PHONE = (1280, 900), (390, 844)  # pixels


FRAME = """<!doctype html><body><iframe src="page.html{hash}" width="{width}" height="{height}"
style="border:0"></iframe><script>addEventListener("message", ({{ data }}) => document.body.append(
Object.assign(document.createElement("pre"), {{ id: "result", textContent: data }})))</script>"""
STEPS = """<script>{
const done = (value) => parent.postMessage(JSON.stringify(value), "*");
const find = (selector) => [...document.querySelectorAll(selector)];
%s }</script></body>"""


@pytest.fixture
def opened(tmp_path):
    """Opens a page with a hash, runs steps that end with done(value), and gives the value.

    The page is in a frame, as no window of the browser is as narrow as a phone.
    """

    def opened(html, steps, hash="", window=DESK):
        if "script-src" not in html:  # a page without scripts allows none
            html = html.replace("style-src", "script-src 'unsafe-inline'; style-src", 1)
        html = html.replace("</body>", STEPS % steps)
        (tmp_path / "page.html").write_text(html, encoding="utf-8")
        width, height = window
        frame = FRAME.format(hash=escape(hash), width=width, height=height)
        (tmp_path / "frame.html").write_text(frame, encoding="utf-8")
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000")
        run = subprocess.run(
            [BROWSER, *flags, "--dump-dom", (tmp_path / "frame.html").as_uri()],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        (value,) = re.findall(r'<pre id="result">(.*)</pre>', run.stdout, re.DOTALL)
        return json.loads(unescape(value))

    return opened


WIDTHS = """
const wide = document.documentElement.scrollWidth;
const small = Math.min(...find("body *").filter((one) => one.checkVisibility()
  && [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
  .map((one) => parseFloat(getComputedStyle(one).fontSize)));
done([innerWidth, wide, small]);
"""


def test_the_page_of_papers_fits_on_a_phone(opened):
    page = papers_page([*map(section, lineage().values())])
    width, wide, small = opened(page, WIDTHS, window=PHONE)
    assert width == 390 and wide <= width and small >= 12
    trees = 'done(["svg", "nav"].map((one) => find(one)[0].checkVisibility()))'
    assert opened(page, trees, window=PHONE) == [False, True]
    assert opened(page, trees) == [True, False]
    inside = """
    const box = find(".lineage")[0].getBoundingClientRect();
    done(find("svg a text").every((one) => one.getBoundingClientRect().right <= box.right));
    """
    assert opened(page, inside) is True
