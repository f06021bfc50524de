"""The page: offline, well-formed, and true to the numbers whatever the text holds."""

import base64
import io
import re
import tomllib
import zlib
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.api import load
from regard.core.batch import ImageRow
from regard.core.errors import BadInput
from regard.inference.classifier import LabelPrediction
from regard.inside.attention import attention_record
from regard.inside.attention.attention_map import AttentionMap, RolloutMap
from regard.inside.attention.attention_record import pack_weights, unpack_weights
from regard.inside.attention.attention_view import AttentionView, View
from regard.inside.attention.image_attention import ImageAttention
from regard.inside.attention.induction import InductionScores
from regard.inside.attention.word_weights import WordWeights
from regard.text.segmentation import LabelledImage
from regard.views.line_chart import Chart, ChartLine, Report
from regard.views.markup import escape_controls
from regard.views.pages import MODULES, asset, asset_names, records_in
from regard.views.view_record import ViewRecord
from small_bert import model

VOID = {"meta", "br", "input", "link", "img", "hr"}
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"quotes"',
    "it's",
    "&amp;",
    "<!--",
    "]]>",
    "$title",
    "${script}",
    "\u2028\\",
    "\ud800",
)


class Outline(HTMLParser):
    """Checks that elements are balanced, and keeps attributes, scripts and text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.attributes, self.scripts, self.text = [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, *each) for each in attributes]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.text.append(data)


def attention(layers, heads, queries, keys):
    weights = np.random.default_rng(7).random((layers, heads, queries, keys))
    return weights / weights.sum(-1, keepdims=True)


def example(labels=("a", "b", "c"), title="a title"):
    cross = AttentionMap("cross", labels, labels[::-1], attention(2, 3, len(labels), len(labels)))
    return AttentionView(
        title, (cross, AttentionMap("encoder", labels, labels, cross.layers)), "a summary"
    )


def embedded(html):
    """Maps of the record in a page."""
    (record,) = records_in(html)
    return record.json["maps"]


def weights_in(html, map, layer):
    (record,) = records_in(html)
    return unpack_weights(record, record.json["maps"][map]["layers"][layer]["weights"])


def test_the_numbers_and_words_come_back_rounded_to_four_decimals():
    look = example()
    html = look.html()
    cross, encoder = embedded(html)
    assert (cross["name"], encoder["name"]) == ("cross", "encoder")
    assert cross["queries"] == ["a", "b", "c"] and cross["keys"] == ["c", "b", "a"]
    for layer, weights_HLS in enumerate(look.maps[0].layers):
        np.testing.assert_allclose(weights_in(html, 0, layer), weights_HLS, atol=0.5001e-4)


def packed_and_read(weights_HLS, steps):
    record = ViewRecord.of("layer", weights=pack_weights(weights_HLS, steps))
    record = ViewRecord.from_bytes(record.to_bytes())
    return unpack_weights(record, record.json["weights"])


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=60))
def test_any_weights_can_be_unpacked(units):
    weights = np.array(units, dtype=np.float32)[None, None] / 10_000
    np.testing.assert_allclose(packed_and_read(weights, None) * 10_000, [[units]], atol=1e-2)


@pytest.mark.parametrize("steps", attention_record.STEPS)
def test_rounded_weights_are_half_a_step_off_at_most(steps):
    weights = attention(1, 1, 40, 50)[0] ** 3
    weights[0, 7] = 0
    read = packed_and_read(weights, steps)
    largest = weights.max(-1, keepdims=True)
    widest = 1 - (1 - 0.5 / steps) ** (1 / attention_record.POWER)
    assert (np.abs(read - weights) <= 1.001 * widest * largest).all()
    np.testing.assert_allclose(read.max(-1), largest[..., 0], rtol=1e-6)


def test_weights_are_rounded_as_little_as_there_is_room_for(monkeypatch):
    labels = tuple(f"token{number}" for number in range(64))
    maps = [AttentionMap("encoder", labels, labels, attention(3, 8, 64, 64))]
    every = []
    for most in (200_000, 100_000, 60_000, 40_000):
        monkeypatch.setattr(attention_record, "SMALL", most)
        monkeypatch.setattr(attention_record, "MOST", most)
        record = attention_record.attention_record("attention", maps)
        every.append(record.json["maps"][0]["layers"][0]["weights"].get("steps"))
        assert len(zlib.compress(record.to_bytes())) <= 1.1 * most
    assert every[0] is None and every[1] > every[2] > every[3]


def image_example(title="an image", labels=("cat", "dog"), grid=(2, 3)):
    """The view of an image of 4 × 6 pixels, with a class token before its patches."""
    pixels = np.random.default_rng(5).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    image = LabelledImage(ImageRow(lambda: pixels), pixels, grid, ("class",))
    keys = image.keys.subwords
    weights = AttentionMap("encoder", keys, keys, attention(2, 3, len(keys), len(keys)))
    prediction = LabelPrediction.of(torch.tensor([0.0, 1.0]), labels)
    maps = (weights, RolloutMap.of(weights))
    return ImageAttention(title, maps, prediction=prediction, image=image)


def test_the_page_of_an_image_contains_the_image_the_weights_and_the_classes():
    pillow = pytest.importorskip("PIL.Image")
    look = image_example()
    html = look.html()
    (record,) = records_in(html)
    file = io.BytesIO(record.array(record.json["image"]).tobytes())
    np.testing.assert_array_equal(np.asarray(pillow.open(file)), look.image.pixels_HWC)
    assert record.json["grid"] == [2, 3] and record.json["tokens"] == ["class"]
    for number, shown in enumerate(look.maps):
        assert record.json["maps"][number]["queries"] == list(shown.queries)
        for layer, weights_HLS in enumerate(shown.layers):
            np.testing.assert_allclose(weights_in(html, number, layer), weights_HLS, atol=0.5001e-4)
    assert [one["unchosen"] for one in record.json["maps"]] == ["mean", "all"]
    classes = [(name, round(score, 3)) for name, score in record.json["classes"]]
    assert classes == [("dog", 0.731), ("cat", 0.269)]


def test_the_page_of_an_image_is_offline_and_complete():
    html = image_example(title="</title><script>alert(2)</script>", labels=("<b>", "&")).html()
    outline = Outline(html)
    assert len(outline.scripts) == 2 and not [one for one in outline.attributes if one[0] == "b"]
    assert not [one for one in outline.attributes if one[1] in ("src", "href", "action")]
    assert "default-src 'none'; img-src data: blob:" in html


def test_an_image_of_many_patches_makes_a_page_of_moderate_size():
    assert len(image_example(grid=(14, 14)).html()) < 3 * 3 * 197 * 197 * 1.5 + 60_000


def test_too_many_weights_are_rounded_and_more_are_averaged_over_heads(monkeypatch):
    look = image_example(grid=(6, 6))

    def record_of(most):
        monkeypatch.setattr(attention_record, "SMALL", most)
        monkeypatch.setattr(attention_record, "MOST", most)
        (record,) = records_in(look.html())
        return record, {
            layer["weights"].get("steps")
            for each in record.json["maps"]
            for layer in each["layers"]
        }

    record, steps = record_of(30_000)
    assert steps == {None} and "note" not in record.json
    record, (steps,) = record_of(8_000)
    assert steps in attention_record.STEPS and "note" not in record.json
    read = unpack_weights(record, record.json["maps"][0]["layers"][1]["weights"])
    np.testing.assert_allclose(read, look.maps[0].layers[1], atol=0.7 / steps)
    record, _ = record_of(2_800)
    heads = [[layer["heads"] for layer in each["layers"]] for each in record.json["maps"]]
    assert heads == [[1, 1], [1, 1]] and "heads are averaged" in record.json["note"]
    read = unpack_weights(record, record.json["maps"][0]["layers"][1]["weights"])[0]
    expected = look.maps[0].select(layer=1)
    np.testing.assert_allclose(read.max(axis=-1), expected.max(axis=-1), rtol=1e-6)
    with pytest.raises(BadInput, match=r"too many weights for a page \(up to 1,369 in a head\)"):
        record_of(700)


def test_hostile_text_stays_text():
    html = example(HOSTILE, title="</title><script>alert(2)</script> & $style").html()
    outline = Outline(html)
    assert len(outline.scripts) == 2  # the record and the page's own script
    assert "</title><script>alert(2)</script> & $style" in outline.text
    assert embedded(html)[0]["queries"] == [escape_controls(each) for each in HOSTILE]
    html.encode()  # no lone surrogate is left


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(), min_size=1, max_size=6), st.text())
def test_any_text_comes_back(labels, title):
    html = example(tuple(labels), title).html()
    assert embedded(html)[0]["queries"] == [escape_controls(each) for each in labels]
    html.encode()


def test_nothing_is_fetched():
    html = example().html()
    assert set(re.findall(r"https?://[^\"'\s]*", html)) == {"http://www.w3.org/2000/svg"}
    assert not [each for each in Outline(html).attributes if each[1] in ("src", "href", "action")]
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", html)
    assert "default-src 'none'" in html  # and the browser is told so


def test_the_script_only_writes_text_nodes():
    script = Outline(example().html()).scripts[1]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)


def test_a_long_text_makes_a_page_of_moderate_size():
    labels = tuple(f"token{number}" for number in range(120))
    look = AttentionView(
        "long", (AttentionMap("encoder", labels, labels, attention(4, 4, 120, 120)),)
    )
    assert len(look.html()) < 4 * 4 * 120 * 120 * 5


def test_all_heads_of_bert_on_128_tokens_make_a_page_of_two_megabytes():
    rng, labels = np.random.default_rng(0), tuple(f"token{number}" for number in range(128))
    weights = np.exp(2 * rng.normal(size=(12, 12, 128, 128)))
    weights /= weights.sum(-1, keepdims=True)
    html = AttentionView("bert", (AttentionMap("encoder", labels, labels, weights),)).html()
    assert len(html.encode()) < 2_000_000
    read = weights_in(html, 0, 7)
    assert (np.abs(read - weights[7]) <= 0.03 * weights[7].max(-1, keepdims=True)).all()


def test_all_modules_and_the_style_take_300_kilobytes():
    assert sum(len(asset(name).encode()) for name in asset_names()) <= 300_000
    assert {f"{name}.js" for name in MODULES.values()} <= {*asset_names()}


def special_words(view, side):
    """Words of each map of a page that are special tokens."""
    return [[each[side][i] for i in each["special"][side]] for each in embedded(view.html())]


@pytest.mark.parametrize("subwords", [False, True])
def test_the_page_knows_special_tokens_from_the_tokenizer(subwords):
    view = model("states").look("the [SEP] storm", "the cat", subwords=subwords)
    expected = [["[CLS]", "[SEP]", "[SEP]"]]
    assert special_words(view, "queries") == special_words(view, "keys") == expected
    assert embedded(view.html())[0]["special"]["keys"][0] == 0
    view = model("states").look("the storm", rollout=True, subwords=subwords)
    assert special_words(view, "keys") == [["[CLS]", "[SEP]"]]


def test_begin_and_end_of_a_translation_are_special(small_run):
    view = load(small_run / "run" / "model").look("a b", "c d")
    sides = {name: special_words(view, name) for name in ("queries", "keys")}
    names = [each.name for each in view.maps]
    ends = {"cross": ("⟨end⟩", "⟨end⟩"), "encoder": ("⟨end⟩", "⟨end⟩")}
    ends["decoder"] = ("⟨end⟩", "⟨begin⟩")  # a query is named after the token that it predicts
    for name, queries, keys in zip(names, sides["queries"], sides["keys"], strict=True):
        assert (*queries, *keys) == ends[name]


PAGES = {
    "attention": example(HOSTILE, title='" onload="alert(3)'),
    "chosen": example().choose("encoder", layer=1, head=2),
    "image": image_example(),
    "words": WordWeights(None, ("a", "b"), np.array([0.3, 0.7])),
    "induction": InductionScores("a a", (np.array([0.1, 0.9]),), 1, 0.5),
    "report": Report("report"),
}


@pytest.mark.parametrize("look", PAGES.values(), ids=PAGES)
def test_a_notebook_shows_the_page_in_a_frame_of_its_own(look):
    attributes = Outline(look._repr_html_()).attributes
    frame = {name: value for tag, name, value in attributes if tag == "iframe"}
    assert frame["srcdoc"] == look.html()
    assert frame["title"] == look.title and "onload" not in {name for _, name, _ in attributes}
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    images = [value for tag, name, value in attributes if (tag, name) == ("img", "src")]
    drawing = look.svg()
    if drawing:  # below the frame, for notebooks that are shown without frames
        start = "data:image/svg+xml;base64,"
        assert [base64.b64decode(one.removeprefix(start)).decode() for one in images] == [drawing]
    assert look.static_drawing() == drawing
    bundle = look._repr_mimebundle_()
    assert bundle["text/html"] == look._repr_html_() and bundle["text/plain"] == str(look)
    assert bundle.get("image/svg+xml", "") == drawing


class Printer:
    """A printer of IPython: what is printed is the text/plain of a cell."""

    def __init__(self):
        self.printed = ""

    def text(self, text):
        self.printed += text


@pytest.mark.parametrize(
    "look", [v for v in PAGES.values() if isinstance(v, View)], ids=lambda v: type(v).__name__
)
def test_text_of_a_notebook_is_the_picture(look):
    printer = Printer()
    look._repr_pretty_(printer, False)
    assert printer.printed == str(look) and look.title.strip() in printer.printed


def test_maps_and_charts_are_drawn_in_a_notebook():
    drawn = Outline(example().map()._repr_html_())
    said = [text for text in drawn.text if text.strip()]
    summary = "cross, mean of all layers, mean of all heads"
    about = ["cross", f"{summary}; rows are queries, columns are keys", "cross", summary]
    weights_QK = attention(2, 3, 3, 3).mean((0, 1))
    assert said == [*about, *"abc", *"cba", "0", f"{weights_QK.max():.2f}"]
    fills = [value for *name, value in drawn.attributes if name == ["rect", "fill"]]
    cells = fills[1:10]  # after the background; the darker, the larger the weight
    assert [*np.argsort(cells)[::-1]] == [*np.argsort(weights_QK.ravel())]
    chart = Chart("loss", "step", "nats", [(0, "0"), (1, "1")], [ChartLine("a", [(0, 1), (1, 2)])])
    drawn = Outline(chart._repr_html_())
    said = [text for text in drawn.text if text.strip()]
    assert said[:4] == ["loss", "loss", "nats", "step"] and {"a: 1", "a: 2"} < {*said}
    (line,) = (value for *name, value in drawn.attributes if name == ["polyline", "points"])
    (left, low), (right, high) = (map(float, point.split(",")) for point in line.split())
    assert left < right and low > high


def test_pages_of_other_choices_differ():
    pages = [example().choose(**choice).html() for choice in ({}, {"layer": 1}, {"head": 1})]
    assert len({*pages}) == 3


def test_the_parts_of_the_page_are_packed_with_the_package():
    package = Path(attention_record.__file__).parents[2]
    project = tomllib.loads((package.parents[1] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["regard"]
    for folder in ("assets", "modules"):
        for path in (package / "views" / folder).iterdir():
            name = f"views/{folder}/{path.name}"
            assert any(fnmatch(name, pattern) for pattern in patterns), name


def test_the_drawing_of_a_long_text_is_not_saved_in_notebooks():
    labels = tuple(f"token{number}" for number in range(80))
    look = AttentionView("long", (AttentionMap("e", labels, labels, attention(1, 1, 80, 80)),))
    assert look.static_drawing() == "" and "image/svg+xml" not in look._repr_mimebundle_()
    assert "<img" not in look._repr_html_().split("<iframe")[0]
