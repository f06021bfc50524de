"""Every view in a real browser: drawn, by keyboard, in the dark, on a phone, with hostile text."""

from base64 import b64encode
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_record import layer_record
from regard.inside.attention.attention_view import AttentionView
from regard.inside.trees.tree_nodes import PRUNED
from regard.views.pages import MODULES, bundle, page, style

from .small_results import RESULTS, TEXT, attention, formation, record_of, token_tree
from .widget_page import widget_page

HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", '"quoted" & <b>']
HOSTILE += ["&amp;", "‮right to left", "a" * 200, "\x1b[31m", "العربية"]
DESK, PHONE = (1280, 900), (360, 740)
SHOWN = ".regard .body"


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_is_drawn_and_named(open_page, kind, dark):
    shown = open_page(page(record_of(kind)), dark=dark)
    assert shown.locator(SHOWN).bounding_box()["height"] > 20
    assert shown.locator(".readout").inner_text().strip()
    colour = shown.evaluate("getComputedStyle(document.querySelector('.regard')).backgroundColor")
    assert colour == ("rgb(23, 22, 20)" if dark else "rgb(253, 252, 249)")
    focusable = shown.locator(".body [tabindex='0'], .body button, .tools input, .tools select")
    names = focusable.evaluate_all(
        "all => all.map(one => one.ariaLabel || one.textContent.trim()"
        " || one.closest('label')?.textContent.trim())"
    )
    assert names and all(names)


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_view_has_serious_faults_of_accessibility(open_page, serious_faults, kind, dark):
    assert serious_faults(open_page(page(record_of(kind)), dark=dark)) == []


@pytest.mark.parametrize("kind", MODULES)
def test_no_view_is_wider_than_a_phone(open_page, kind):
    shown = open_page(page(record_of(kind)), size=PHONE)
    assert shown.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    smallest = shown.evaluate(
        "Math.min(...[...document.querySelectorAll('.regard *')].filter(one =>"
        "one.checkVisibility() && [...one.childNodes].some(n => n.nodeType === 3 && n.data.trim()))"
        ".map(one => parseFloat(getComputedStyle(one).fontSize)))"
    )
    assert smallest >= 10


@pytest.mark.parametrize(
    "kind", [kind for kind in MODULES if kind not in ("papers", "image_patches")]
)
def test_text_stays_text(open_page, kind):
    shown = open_page(page(record_of(kind, HOSTILE)))
    tags = "img, b:not([dir]), script:not([type])"
    assert shown.locator(f".regard :is({tags})").count() == 0
    assert shown.evaluate("document.querySelectorAll('script').length") == 1


KEYS = {
    "attention": ('[data-focus="matrix"]', ["ArrowDown", "ArrowRight", "ArrowDown"]),
    "attention_lines": ('[data-focus="lines"]', ["ArrowDown", "ArrowDown"]),
    "attention_grid": (".pictures button", ["ArrowRight", "ArrowDown"]),
    "matrix": ('[data-focus="matrix"]', ["ArrowDown", "ArrowRight"]),
    "image_patches": ('[data-focus="picture"]', ["ArrowDown", "ArrowRight"]),
    "alignment": ('[data-focus="alignment"]', ["ArrowDown", "ArrowRight"]),
    "beam_tree": ('[data-node="0"]', ["ArrowRight", "ArrowDown"]),
    "token_tree": ('[data-node="0"]', ["ArrowRight", "ArrowDown"]),
    "attribution": ('[data-focus="words"]', ["ArrowRight", "ArrowRight"]),
    "contributions": ('[data-focus="grid"]', ["ArrowDown", "ArrowRight"]),
    "logit_lens": ('[data-focus="lens"]', ["ArrowDown", "ArrowRight"]),
    "patching": ('[data-focus="grid"]', ["ArrowDown", "ArrowRight"]),
    "grids": ('[data-focus="grid"]', ["ArrowDown", "ArrowRight"]),
    "heads": ("[data-cell]", ["ArrowRight", "ArrowDown"]),
    "probes": ('[data-focus^="chart"]', ["ArrowRight", "ArrowRight"]),
    "curves": ('[data-focus^="chart"]', ["ArrowRight", "ArrowRight"]),
    "neighbours": ('[data-focus="group=0"]', ["ArrowRight"]),
    "formation": ('[data-focus="step"]', ["ArrowLeft"]),
    "papers": ('.body [role="button"]', ["ArrowDown"]),
    "forward_path": ('[role="listitem"]', ["ArrowDown"]),
    "queries_keys": ('[data-focus="weights"]', ["ArrowDown", "ArrowRight"]),
}


@pytest.mark.parametrize("kind", MODULES)
def test_keys_move_the_cursor_and_it_is_announced(open_page, kind):
    selector, keys = KEYS[kind]
    shown = open_page(page(record_of(kind)))
    line = shown.locator(".readout")
    assert line.get_attribute("role") == "status" and line.get_attribute("aria-live") == "polite"
    told = [line.inner_text()]
    shown.locator(selector).first.focus()
    for key in keys:
        shown.keyboard.press(key)
        told.append(line.inner_text())
    assert len({*told}) >= 2 and told[-1] != told[0]


def test_a_cell_is_read_out_and_escape_leaves_it(open_page):
    view = attention().choose(layer=1, head=2)
    shown = open_page(view.html())
    shown.locator('[data-focus="matrix"]').focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        shown.keyboard.press(key)
    weight = view.maps[0].layers[1][2, 1, 1]
    assert shown.locator(".readout").inner_text() == f"The looks at The {weight:.4f}"
    shown.keyboard.press("Escape")
    assert "Point at" in shown.locator(".readout").inner_text()


def test_masked_cells_are_blank_and_are_told(open_page):
    shown = open_page(attention(causal=True).html())
    shown.locator('[data-focus="matrix"]').focus()
    for key in ("ArrowDown", "ArrowRight"):
        shown.keyboard.press(key)
    assert shown.locator(".readout").inner_text() == "[CLS] may not look at The"
    opacity = shown.evaluate(
        "(() => { const { width, height } = document.querySelector('.cells canvas');"
        "const all = document.querySelector('.cells canvas').getContext('2d')"
        ".getImageData(0, 0, width, height).data;"
        "return [...all].filter((_, i) => i % 4 === 3) })()"
    )
    length = len(TEXT) + 2
    allowed = np.tri(length, dtype=int) * 255
    np.testing.assert_array_equal(np.reshape(opacity, (length, length)), allowed)


def checked(shown):
    return shown.locator(".tools input:checked").evaluate_all(
        "all => all.map(o => o.dataset.focus)"
    )


def test_an_address_restores_what_was_chosen(open_page):
    address = "#layer=1&head=2&scale=root&view=lines&hide=special,sinks&weights=renormalised"
    shown = open_page(attention().html(), hash=f"{address}&heads=0,2&word=q1")
    for each in ("layer=1", "head=2", "scale=root", "view=lines", "hide=special", "hide=sinks"):
        assert each in checked(shown)
    assert "weights=renormalised" in checked(shown)
    assert shown.locator('[data-part="matrix"]').count() == 0
    pressed = shown.locator('.head-buttons [aria-pressed="true"]').all_inner_texts()
    assert pressed == ["0", "2"]
    assert shown.locator(".readout").inner_text().startswith("The looks most at")
    assert "(head " in shown.locator(".readout").inner_text()


@pytest.mark.parametrize(
    "address",
    [
        "#layer=9&head=7&heads=9&hide=everything&view=up&weights=&scale=1&word=q77&map=5",
        "#layer=-1&head=1.5&heads=x&word=5&hide=x&nonsense&=&%",
        "#readout",
    ],
)
def test_what_an_address_does_not_mean_is_ignored(open_page, address):
    first = checked(open_page(attention().html()))
    assert checked(open_page(attention().html(), hash=address)) == first


def test_every_choice_is_a_step_back(open_page):
    shown = open_page(attention().html())

    def choose(name):
        shown.locator(f'[data-focus="{name}"]').check(force=True)
        return shown.evaluate("location.hash")

    assert choose("layer=1") == "#layer=1"
    assert choose("hide=special") == "#layer=1&hide=special"
    assert choose("layer=null") == "#hide=special"
    shown.go_back()
    assert shown.evaluate("location.hash") == "#layer=1&hide=special"
    assert {"layer=1", "hide=special"} <= {*checked(shown)}
    shown.go_back()
    assert {"layer=1"} <= {*checked(shown)} and "hide=special" not in checked(shown)


def test_heads_have_lines_in_colours_of_their_own(open_page):
    view = attention()
    shown = open_page(view.html(), hash="#layer=1&heads=0,2")
    lines = shown.locator("path.line").evaluate_all(
        "all => all.map(one => [one.dataset.head, getComputedStyle(one).stroke])"
    )
    weights = view.maps[0].layers[1][[0, 2]]
    for head, own in zip((0, 2), weights, strict=True):
        drawn = [colour for number, colour in lines if number == str(head)]
        assert len(drawn) == (own >= weights.max() / 20).sum() and len(set(drawn)) == 1
    assert len({colour for _, colour in lines}) == 2
    shown.locator('.head-buttons [aria-label="head 0"]').click()
    assert shown.evaluate("location.hash") == "#layer=1&heads=2"


def test_a_word_is_pointed_at_and_kept(open_page):
    shown = open_page(attention().html())
    visible = "all => all.filter(o => o.checkVisibility({ visibilityProperty: true })).length"
    lines = shown.locator("path.line")
    every = lines.evaluate_all(visible)
    word = shown.locator('.words-lines [data-side="query"]').nth(1)
    word.hover()
    alone = lines.evaluate_all(visible)
    assert 0 < alone < every
    word.click()
    assert shown.evaluate("location.hash") == "#word=q1"
    shown.mouse.move(0, 0)
    assert lines.evaluate_all(visible) == alone
    shown.locator('[data-focus="lines"]').focus()
    shown.keyboard.press("Escape")
    assert shown.evaluate("location.hash") == "" and lines.evaluate_all(visible) == every


def test_heads_form_as_the_slider_moves(open_page):
    shown = open_page(formation().html())
    cells = shown.locator("[data-cell] text")
    last = cells.all_text_contents()
    shown.locator('[data-focus="step"]').focus()
    shown.keyboard.press("Home")
    assert shown.locator(".readout").inner_text().startswith("step 0: dev loss 4.0000")
    assert cells.all_text_contents() != last and shown.evaluate("location.hash") == "#step=0"
    assert shown.evaluate("document.activeElement.dataset.focus") == "step"
    shown.go_back()
    assert cells.all_text_contents() == last
    told = open_page(formation().html(), hash="#step=40&figure=entropy").locator(".readout")
    assert told.inner_text().startswith("step 40: dev loss 3.6000; highest entropy")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_cells_turn_to_their_colour_unless_motion_is_not_wanted(open_page, motion):
    shown = open_page(formation().html())
    shown.emulate_media(reduced_motion=motion)
    running = "document.getAnimations().map((each) => each.effect.getTiming().duration)"
    assert shown.evaluate(running) == []
    set_step = """(() => { const input = document.querySelector('[data-focus="step"]');
        input.value = 0; input.dispatchEvent(new Event("input")); })()"""
    durations = shown.evaluate(f"{set_step} ?? {running}")
    assert {*durations} == ({200} if motion == "no-preference" else set())


def test_pruned_candidates_are_hidden_and_leave_no_room(open_page):
    tree = RESULTS["beam_tree"]()
    shown = open_page(tree.html())
    boxes = shown.locator("[data-node]")
    assert boxes.count() == shown.locator("[data-edge]").count() + 1 == len(tree.nodes)
    height = shown.locator(".tree svg").bounding_box()["height"]
    shown.locator('[data-focus="pruned=hidden"]').check(force=True)
    left = [node for node in tree.nodes if node.fate not in PRUNED]
    assert boxes.count() == shown.locator("[data-edge]").count() + 1 == len(left)
    assert shown.locator(".tree svg").bounding_box()["height"] < height
    lit = boxes.evaluate_all(
        "all => all.filter(o => o.classList.contains('way')).map(o => +o.dataset.node)"
    )
    assert sorted(lit) == sorted(tree.winner)


def test_a_candidate_is_kept_in_the_address_and_brought_into_sight(open_page):
    tree = token_tree()
    shown = open_page(tree.html(), hash=f"#node={tree.winner[-1]}", size=PHONE)
    box = shown.locator('[aria-pressed="true"]')
    assert box.get_attribute("data-node") == str(tree.winner[-1])
    place = box.bounding_box()
    assert place["x"] >= 0 and place["x"] + place["width"] <= PHONE[0]
    assert tree.why(tree.winner[-1]) in shown.locator(".readout").inner_text()
    assert open_page(tree.html(), hash="#node=99999").locator('[aria-pressed="true"]').count() == 0


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_paper_stands_below_and_right_of_the_one_it_builds_on(open_page, size):
    record = record_of("papers")
    shown = open_page(page(record), size=size)
    at = dict(
        shown.locator(".body svg [role=button]").evaluate_all(
            "all => all.map(one => [one.textContent, ['x', 'y'].map(name =>"
            " Number(one.getAttribute(name)))])"
        )
    )
    assert {*at} == {paper["name"] for paper in record.json["papers"]}
    for paper in record.json["papers"]:
        if paper["after"] is not None:
            assert at[paper["after"]][0] < at[paper["name"]][0]
            assert at[paper["after"]][1] < at[paper["name"]][1]
    drawing = shown.locator(".body [data-scroll]")
    assert drawing.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_tables_of_one_paper_or_of_all(open_page):
    record = record_of("papers")
    shown = open_page(page(record), hash="#paper=BERT")
    assert shown.locator(".body section h3").all_inner_texts() == ["BERT (2018)"]
    shown.locator('[data-focus="tables=all"]').check(force=True)
    headings = shown.locator(".body section h3").all_inner_texts()
    assert {*headings} == {f"{each['name']} ({each['year']})" for each in record.json["papers"]}
    assert shown.evaluate("location.hash") == "#paper=BERT&tables=all"


def test_heads_without_roles_are_coloured_by_importance(open_page):
    record = record_of("heads")
    chosen = "[data-focus^='colour=']:checked"
    assert open_page(page(record)).get_attribute(chosen, "value") == "role"
    cells = [cell for site in record.json["sites"] for layer in site["layers"] for cell in layer]
    assert cells
    for cell in cells:
        cell["role"] = None
    record.json["figures"].setdefault("importance", {"about": "loss without it", "most": 1.0})
    assert open_page(page(record)).get_attribute(chosen, "value") == "importance"


@pytest.mark.parametrize("kind", MODULES)
def test_a_view_is_saved_as_svg_and_png_with_its_command(open_page, kind):
    record = record_of(kind).with_source(command="regard look m", model="m", data="some <data>")
    shown = open_page(page(record))
    with shown.expect_download() as download:
        shown.locator("text=Save SVG").click()
    assert download.value.suggested_filename.endswith(".svg")
    root = ElementTree.fromstring(download.value.path().read_bytes())
    texts = ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    for line in ("command: regard look m", "model: m", "data: some <data>"):
        assert line in texts
    assert len(texts) > 5
    with shown.expect_download() as download:
        shown.locator("text=Save PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


HOST = """<!doctype html><html data-ready><meta charset="utf-8"><style>%s</style>
<div id="host"></div>
<script type="module">%s
const data = Uint8Array.from(atob("%s"), (c) => c.charCodeAt(0)).buffer;
const { decode } = base;
Object.assign(window, { decode, record: decode(data), views: { %s }, events: [] });
</script></html>"""


def hosted(kind, record):
    """Page of a host that calls ``render`` itself."""
    name = MODULES[kind]
    data = b64encode(record.to_bytes()).decode()
    return HOST % (style(), bundle([name]), data, f'"{kind}": {name}.render')


@pytest.mark.parametrize("kind", MODULES)
def test_a_host_updates_and_removes_a_view(open_page, kind):
    shown = open_page(hosted(kind, record_of(kind)))
    shown.evaluate(f"window.view = views['{kind}'](document.querySelector('#host'), record, {{}})")
    assert shown.locator(SHOWN).count() == 1
    shown.evaluate("view.update(record, {})")
    shown.evaluate("view.update(null, { layer: 1 })")
    assert shown.locator(SHOWN).count() == 1
    shown.evaluate("view.destroy()")
    assert shown.locator(".regard").count() == 0


def test_a_host_is_told_what_is_chosen_and_selected(open_page):
    shown = open_page(hosted("attention", record_of("attention")))
    shown.evaluate(
        "views.attention(document.querySelector('#host'), record, {"
        "onOptions: (changes) => events.push(['options', changes]),"
        "onSelect: (selection) => events.push(['select', selection]) })"
    )
    shown.locator('[data-focus="layer=1"]').check(force=True)
    shown.locator('[data-focus="matrix"]').focus()
    shown.keyboard.press("ArrowDown")
    options, select = shown.evaluate("events")
    assert options == ["options", {"layer": 1}]
    place = {"map": "encoder", "layer": 1, "head": None, "query": 0, "key": 0, "kept": False}
    assert select == ["select", place]


def test_layers_are_loaded_when_they_are_needed(open_page):
    view = attention()
    shown = open_page(hosted("attention", view.view_record(lazy=True)))
    layers = [
        b64encode(layer_record(view.maps[0], n).to_bytes()).decode()
        for n in range(len(view.maps[0].layers))
    ]
    shown.evaluate(
        """(layers) => { window.asked = [];
        const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
        const load = async (_, layer) => { asked.push(layer); return decode(bytes(layers[layer])) };
        views.attention(document.querySelector('#host'), record, { view: 'matrix', load }); }""",
        layers,
    )
    shown.locator('[data-focus="layer=2"]').check(force=True)
    shown.locator('[data-focus="matrix"]').focus()
    shown.keyboard.press("ArrowDown")
    weight = view.maps[0].select(2)[0, 0]
    told = float(shown.locator(".readout").inner_text().split()[-1])
    assert told == pytest.approx(weight, abs=0.005)
    assert sorted(shown.evaluate("asked")) == [0, 1, 2]


def long_view(tokens=512, layers=12, heads=12):
    words = tuple(f"word{number}" for number in range(tokens))
    weights = np.exp(0.3 * np.random.default_rng(4).normal(size=(layers, heads, tokens, tokens)))
    weights /= weights.sum(-1, keepdims=True)
    return AttentionView("a text", (AttentionMap("encoder", words, words, weights),))


def test_512_tokens_of_144_heads_are_a_page_of_20_megabytes(open_page):
    """`python bench/page.py` measures seconds, and frames while the pointer moves."""
    view = long_view()
    html = view.html()
    assert len(html.encode()) <= 20_000_000
    shown = open_page(html, hash="#hide=")
    shown.wait_for_selector('.pictures[data-waiting="0"]', timeout=60_000)
    assert shown.locator(".pictures canvas").count() == 144
    box = shown.locator(".cells").bounding_box()
    shown.mouse.move(box["x"] + 40, box["y"] + 30)
    assert " looks at " in shown.locator(".readout").inner_text()


@pytest.mark.parametrize("kind", RESULTS)
def test_every_result_has_a_page_for_notebooks(open_page, kind):
    result = RESULTS[kind]()
    frame = f"<!doctype html><html data-ready>{result._repr_html_()}</html>"
    shown = open_page(frame)
    inner = shown.frame_locator("iframe")
    inner.locator(SHOWN).wait_for(timeout=10_000)
    assert inner.locator(".readout").inner_text().strip()


def test_records_of_several_views_stand_on_one_page(open_page):
    records = [record_of("attribution"), record_of("probes")]
    shown = open_page(page(*records, title="Two views", summary="a summary"))
    assert shown.locator("h1").inner_text() == "Two views"
    assert shown.locator(".regard").count() == 2
    shown.locator('[data-focus="target=1"]').check(force=True)
    assert shown.evaluate("location.hash") == "#0.target=1"


@pytest.mark.parametrize("kind", ["attention", "beam_tree", "attribution"])
def test_a_widget_of_a_notebook_works_both_ways(open_page, kind):
    pytest.importorskip("anywidget")
    from regard.notebook import WIDGETS

    made = WIDGETS[kind]
    data = b64encode(record_of(kind).to_bytes()).decode()
    html = widget_page(made._esm, made._css, data, {"layer": 1})
    shown = open_page(html)
    assert shown.locator(SHOWN).count() == 1
    selector, keys = KEYS[kind]
    shown.locator(selector).first.focus()
    for key in keys:
        shown.keyboard.press(key)
    assert shown.evaluate("Object.keys(model.get('selection')).length") > 0
    assert shown.evaluate("sent.length") > 0
    if kind == "attention":
        assert "layer=1" in checked(shown)
        shown.evaluate("model.set('options', { layer: 2, head: 0 })")
        assert {"layer=2", "head=0"} <= {*checked(shown)}
        shown.locator('[data-focus="layer=0"]').check(force=True)
        assert shown.evaluate("model.get('options').layer") == 0
    shown.evaluate("stop()")
    assert shown.locator(".regard").count() == 0
