"""Pages in a headless browser: what they show after their scripts ran, on a desk and on a phone."""

import json
import re
import shutil
import subprocess
from html import escape, unescape

import numpy as np
import pytest

from regard.cli.paper_records import lineage, section
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_view import AttentionView
from regard.inside.heads.head_formation import Formation
from regard.inside.trees.beam_tree import PRUNED
from regard.inside.views.beam_html import tree_page
from regard.inside.views.papers_html import papers_page
from regard.search import Beam
from small_images import small_vit

from ...search.toy import Toy
from .test_beam_views import toy_tree
from .test_formation_html import RECORDS

BROWSER = shutil.which("chromium")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="needs chromium")]
DESK, PHONE = (1280, 900), (390, 844)  # pixels
PRESSED = '#heads [aria-pressed="true"]'


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


def text_view(length=6, heads=4):
    words = ("[CLS]", *(f"word{number}" for number in range(length - 2)), "[SEP]")
    weights = np.random.default_rng(2).random((2, heads, length, length))
    weights /= weights.sum(-1, keepdims=True)
    special = (0, length - 1)
    encoder = AttentionMap("encoder", words, words, weights, None, special, special)
    return AttentionView("a text", (encoder,))


def test_an_address_is_restored_in_a_browser(opened):
    steps = f"""
    const pictures = find('#pictures [aria-pressed="true"]').map((one) => one.ariaLabel);
    const heads = find('{PRESSED}').map((one) => one.ariaLabel);
    const words = find(".rows li").map((one) => one.textContent);
    const lines = new Set(find("path.line").map((one) => getComputedStyle(one).stroke));
    done([pictures, heads, words, lines.size, find("section[hidden]").map((one) => one.id)]);
    """
    address = "#layer=1&head=2&heads=0,3&hide=special"
    pictures, heads, words, colours, hidden = opened(text_view().html(), steps, address)
    assert pictures == ["layer 1, head 2"] and heads == ["head 0", "head 3"]
    assert words == ["word0", "word1", "word2", "word3"]
    assert colours == 2 and hidden == []
    *_, hidden = opened(text_view().html(), steps, "#view=matrix&layer=77")
    assert hidden == ["between"]


def test_the_back_button_goes_a_choice_back(opened):
    steps = f"""
    const seen = [];
    const see = () => seen.push([location.hash, find('{PRESSED}').length]);
    find("#heads button")[1].click(); see();
    find("#heads button")[2].click(); see();
    addEventListener("hashchange", () => {{
      see();
      if (location.hash) history.back(); else done(seen);
    }});
    history.back();
    """
    ways = [["#heads=1", 1], ["#heads=1,2", 2], ["#heads=1", 1], ["", 0]]
    assert opened(text_view().html(), steps) == ways


def test_a_word_is_pointed_at_and_kept(opened):
    steps = """
    const word = find('#lines [data-side="query"]')[1];
    const all = find("path.line").length;
    const see = () => find("path.line").filter((one) => one.checkVisibility(
      { visibilityProperty: true })).length;
    word.dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
    const alone = see();
    word.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    find("#lines")[0].dispatchEvent(new PointerEvent("pointerleave"));
    done([all, alone, see(), location.hash]);
    """
    assert opened(text_view().html(), steps) == [36, 6, 6, "#word=q1"]


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


@pytest.mark.parametrize("window", [DESK, PHONE])
def test_no_page_is_wider_than_the_window(opened, window):
    image = small_vit().look(np.zeros((8, 8, 3), dtype=np.uint8))
    views = text_view(), text_view(length=128, heads=12), image
    for page in (*(view.html() for view in views), tree_page(toy_tree()), formed().html()):
        width, wide, _ = opened(page, WIDTHS, window=window)
        assert width == window[0] and wide <= width


def test_512_tokens_of_144_heads_are_a_page_of_20_megabytes_that_opens_with_one_matrix(opened):
    """The mean of all layers; `python bench/page.py` measures seconds.

    Weights are like those of random BERT-base, which take more room than trained ones.
    """
    words = tuple(f"word{number}" for number in range(512))
    weights = np.exp(0.3 * np.random.default_rng(4).normal(size=(12, 12, 512, 512)))
    weights /= weights.sum(-1, keepdims=True)
    view = AttentionView("a text", (AttentionMap("encoder", words, words, weights),))
    html = view.html()
    assert len(html.encode()) <= 20_000_000
    steps = """
    const first = [matrices.size, painting.length, shown.length, peak];
    const wait = () => {
      if (painting.length) setTimeout(wait, 10);
      else done([...first, find("canvas").length]);
    };
    wait();
    """
    unpacked, waiting, rows, peak, canvases = opened(html, steps, "#hide=")
    assert unpacked + waiting == 1 + 144 and unpacked < 8  # a few heads follow before the steps
    assert (rows, canvases) == (512, 145)
    assert peak == pytest.approx(view.maps[0].select().max(), rel=0.05)


@pytest.mark.parametrize("window", [DESK, PHONE])
@pytest.mark.parametrize("length", [1, 400])
def test_a_tree_opens_with_its_root_in_sight(opened, window, length):
    names = ("⟨end⟩", "▁ein", "▁Buch " * length, "er")
    title = "a very long sentence " * length
    tree = toy_tree(Beam(5, finished=9), Toy(5), 12, names, title)
    steps = """
    const { top, bottom, left, right } = find('[data-node="0"]')[0].getBoundingClientRect();
    done([top >= 0 && left >= 0, bottom <= innerHeight && right <= innerWidth]);
    """
    assert opened(tree_page(tree), steps, window=window) == [True, True]


def test_a_box_of_a_tree_is_kept_in_the_address(opened):
    steps = """
    const see = () => [find('[aria-pressed="true"]').map((one) => one.dataset.node),
      find(".node.on").length, location.hash];
    const seen = [see()];
    find('[data-node="0"]')[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    seen.push(see());
    addEventListener("hashchange", () => done([...seen, see()]));
    history.back();
    """
    tree = toy_tree()
    last = tree.winner[-1]
    first, clicked, back = opened(tree_page(tree), steps, f"#node={last}")
    assert first == back == [[str(last)], len(tree.winner), f"#node={last}"]
    assert clicked == [["0"], 1, "#node=0"]
    assert opened(tree_page(tree), "done(find('.dim').length)", "#node=99999") == 0


def test_a_tree_opens_with_the_box_of_its_address_in_sight(opened):
    tree = toy_tree(Beam(5, finished=99, early=False), Toy(3), 40)
    steps = """
    const { top, bottom, left, right } = find('[aria-pressed="true"]')[0].getBoundingClientRect();
    done([top >= 0 && left >= 0, bottom <= innerHeight && right <= innerWidth, scrollY > 0]);
    """
    boxes = [number for number in tree.at(tree.steps) if tree.nodes[number].fate not in PRUNED]
    assert opened(tree_page(tree), steps, f"#node={boxes[-1]}", PHONE) == [True, True, True]


def formed():
    return Formation.of_records("a run", RECORDS, "heads.jsonl")


FORMATION = """
const see = () => [
  find("#grids td").map((one) => one.textContent),
  find("#grids td").map((one) => getComputedStyle(one).backgroundColor),
  find("[data-chart]").filter((one) => one.checkVisibility()).map((one) => one.dataset.chart),
  Number(find("line.mark")[0].getAttribute("x1")),
  location.hash,
];
"""


def test_heads_form_as_the_slider_moves(opened):
    steps = f"""{FORMATION}
    const seen = [see()], slider = find("#step")[0];
    slider.value = "0";
    slider.dispatchEvent(new Event("input", {{ bubbles: true }}));
    slider.dispatchEvent(new Event("change", {{ bubbles: true }}));
    seen.push(see());
    find('input[value="entropy"]')[0].click();
    seen.push(see());
    addEventListener("hashchange", () => done([...seen, see()]));
    history.back();
    """
    last, first, entropy, back = opened(formed().html(), steps)
    assert last[0] == ["0.02", "0.90"] and first[0] == ["0.02", "0.03"]
    assert last[1][0] == first[1][0] and last[1][1] != first[1][1]  # the head that forms darkens
    assert last[2] == first[2] == ["", "induction"] and entropy[2] == ["", "entropy"]
    assert last[3] > first[3] > 0  # the line in the chart of the loss follows
    assert entropy[0] == ["2.00", "2.00"]
    assert [each[4] for each in (last, first, entropy)] == ["", "#step=0", "#step=0&figure=entropy"]
    assert back == first


def test_the_address_of_a_formation_is_restored(opened):
    steps = FORMATION + "done([...see(), find('#readout')[0].textContent])"
    cells, _, charts, *_, readout = opened(formed().html(), steps, "#step=40&figure=entropy")
    assert (cells, charts) == (["2.00", "2.00"], ["", "entropy"])
    assert readout.startswith("step 40: dev loss 3.6000; highest entropy")
