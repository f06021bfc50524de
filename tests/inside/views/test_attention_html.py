"""The page: offline, well-formed, and true to the numbers whatever the text holds."""

import base64
import io
import json
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
from regard.ground.batch import ImageRow
from regard.ground.errors import BadInput
from regard.inference.classifier import LabelPrediction
from regard.inside.attention.attention_map import AttentionMap, RolloutMap
from regard.inside.attention.attention_view import AttentionView, View
from regard.inside.attention.image_attention import ImageAttention
from regard.inside.attention.induction import InductionScores
from regard.inside.attention.word_weights import WordWeights
from regard.inside.views import attention_html, packed_weights
from regard.inside.views.line_chart import Chart, ChartLine, Report
from regard.inside.views.markup import escape_controls
from regard.inside.views.matrix_svg import draw_attention
from regard.text.segmentation import LabelledImage
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
    data, _ = Outline(html).scripts
    return json.loads(data)


def test_the_numbers_and_words_come_back_rounded_to_four_decimals():
    look = example()
    cross, encoder = embedded(look.html())
    assert (cross["name"], encoder["name"]) == ("cross", "encoder")
    assert cross["queries"] == ["a", "b", "c"] and cross["keys"] == ["c", "b", "a"]
    read = np.array([[unpack(head, 3, 3) for head in layer] for layer in cross["layers"]]) / 10_000
    np.testing.assert_allclose(read, np.stack(look.maps[0].layers), atol=0.5001e-4)


def inflate(packed):
    return zlib.decompress(base64.b64decode(packed), -zlib.MAX_WBITS)


def unpack(head, queries, keys):
    """Weights of a head, in ten-thousandths: a byte below 128 stands alone, another begins two."""
    written, units = iter(inflate(head)), []
    for byte in written:
        units.append(byte if byte < 128 else (byte - 128) * 128 + next(written))
    return np.array(units).reshape(queries, keys)


def unpack_steps(head, steps, queries, keys):
    """Weights of a head, in steps of the largest weight of each row."""
    written = inflate(head)
    peaks = np.frombuffer(written[: 4 * queries], "<f4")
    levels = np.frombuffer(written[4 * queries :], np.uint8).reshape(queries, keys)
    return (levels / steps) ** (1 / packed_weights.POWER) * peaks[:, None]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=60))
def test_any_weights_can_be_unpacked(units):
    weights = np.array(units, dtype=np.float32)[None] / 10_000
    packed = packed_weights.Packing().pack(weights)
    assert unpack(packed, 1, len(units)).tolist() == [units]


@pytest.mark.parametrize("steps", packed_weights.STEPS)
def test_rounded_weights_are_half_a_step_off_at_most(steps):
    weights = attention(1, 1, 40, 50)[0, 0] ** 3
    weights[7] = 0
    read = unpack_steps(packed_weights.Packing(steps).pack(weights), steps, 40, 50)
    largest = weights.max(-1, keepdims=True)
    widest = 1 - (1 - 0.5 / steps) ** (1 / packed_weights.POWER)
    assert (np.abs(read - weights) <= 1.001 * widest * largest).all()
    np.testing.assert_allclose(read.max(-1), largest[:, 0], rtol=1e-6)


def test_weights_are_rounded_as_little_as_there_is_room_for():
    labels = tuple(f"token{number}" for number in range(64))
    maps = [AttentionMap("encoder", labels, labels, attention(3, 8, 64, 64))]
    steps = []
    for most in (200_000, 150_000, 100_000, 61_000, 20_000):
        packed = packed_weights.pack_maps(maps, most)
        steps.append(packed and packed[0].steps)
        assert packed is None or packed[0].size <= most
    assert steps[0] is None and steps[1] in packed_weights.STEPS and packed is None
    assert steps[1] > steps[2] > steps[3]


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
    outline = Outline(look.html())
    (address,) = (value for tag, name, value in outline.attributes if (tag, name) == ("img", "src"))
    start = "data:image/png;base64,"
    assert address.startswith(start)
    pixels = np.asarray(pillow.open(io.BytesIO(base64.b64decode(address[len(start) :]))))
    np.testing.assert_array_equal(pixels, look.image.pixels_HWC)
    picture, data, _ = map(json_or_none, outline.scripts)
    assert picture["grid"] == [2, 3] and picture["tokens"] == ["class"]
    assert len(picture["ramp"]) == 256 and picture["ramp"][0][3] == 0
    for written, shown in zip(data, look.maps, strict=True):
        assert written["queries"] == list(shown.queries)
        for of_layer, weights_HLS in zip(written["layers"], shown.layers, strict=True):
            for head, weights_LS in zip(of_layer, weights_HLS, strict=True):
                read = unpack(head, 7, 7) / 10_000
                np.testing.assert_allclose(read, weights_LS, atol=0.5001e-4)
    assert [one["unchosen"] for one in data] == ["mean", "all"]
    assert {"cat", "0.269", "dog", "0.731"} <= {text.strip() for text in outline.text}


def json_or_none(script):
    return json.loads(script) if script.startswith(("{", "[")) else None


def test_the_page_of_an_image_is_offline_and_complete():
    html = image_example(title="</title><script>alert(2)</script>", labels=("<b>", "&")).html()
    outline = Outline(html)
    assert len(outline.scripts) == 3 and not [one for one in outline.attributes if one[0] == "b"]
    addresses = [one[2] for one in outline.attributes if one[1] in ("src", "href", "action")]
    assert len(addresses) == 1 and addresses[0].startswith("data:")
    assert set(re.findall(r"https?://[^\"'\s]*", html)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'; img-src data:" in html
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(|innerHTML|eval\(", html)
    there = {value for _, name, value in outline.attributes if name == "id"}
    made = {"map", "layer", "head", "scale", "from"}
    assert set(re.findall(r"\bat\(\"(\w+)\"\)", outline.scripts[2])) <= there | made


def test_an_image_of_many_patches_makes_a_page_of_moderate_size():
    assert len(image_example(grid=(14, 14)).html()) < 3 * 3 * 197 * 197 * 1.5 + 60_000


def test_too_many_weights_are_rounded_and_more_are_averaged_over_heads(monkeypatch):
    look = image_example(grid=(6, 6))

    def data_of(most):
        monkeypatch.setattr(attention_html, "MOST", most)
        html = look.html()
        _, data, _ = map(json_or_none, Outline(html).scripts)
        return data, "heads are averaged here" in html

    data, averaged = data_of(30_000)
    assert [each["steps"] for each in data] == [None, None] and not averaged
    data, averaged = data_of(9_000)
    (steps,) = {each["steps"] for each in data}
    assert steps in packed_weights.STEPS and not averaged
    read = unpack_steps(data[0]["layers"][1][2], steps, 37, 37)
    np.testing.assert_allclose(read, look.maps[0].layers[1][2], atol=0.7 / steps)
    data, averaged = data_of(3_800)
    assert [[len(heads) for heads in one["layers"]] for one in data] == [[1, 1], [1, 1]]
    assert averaged
    read = unpack_steps(data[0]["layers"][1][0], data[0]["steps"], 37, 37)
    np.testing.assert_allclose(
        read.max(axis=-1), look.maps[0].select(layer=1).max(axis=-1), rtol=1e-6
    )
    with pytest.raises(BadInput, match=r"too many weights for a page \(up to 1,369 in a head\)"):
        data_of(1_000)


def test_hostile_text_stays_text():
    html = example(HOSTILE, title="</title><script>alert(2)</script> & $style").html()
    outline = Outline(html)
    assert len(outline.scripts) == 2  # the data and the page's own script
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


def test_the_script_asks_only_for_elements_that_are_there():
    html = example().html()
    outline = Outline(html)
    there = {value for _, name, value in outline.attributes if name == "id"}
    # the choosers, made by the script itself
    made = {"map", "layer", "head", "scale", "view", "hide", "weights"}
    assert set(re.findall(r"\bat\(\"(\w+)\"\)", outline.scripts[1])) <= there | made


def test_a_long_text_makes_a_page_of_moderate_size():
    labels = tuple(f"token{number}" for number in range(120))
    look = AttentionView(
        "long", (AttentionMap("encoder", labels, labels, attention(4, 4, 120, 120)),)
    )
    assert len(look.html()) < 4 * 4 * 120 * 120 * 5


def test_all_heads_of_bert_on_128_tokens_make_a_page_of_four_megabytes():
    rng, labels = np.random.default_rng(0), tuple(f"token{number}" for number in range(128))
    weights = np.exp(2 * rng.normal(size=(12, 12, 128, 128)))
    weights /= weights.sum(-1, keepdims=True)
    html = AttentionView("bert", (AttentionMap("encoder", labels, labels, weights),)).html()
    assert len(html) < 4_000_000
    read = [unpack(head, 128, 128) for head in embedded(html)[0]["layers"][7]]
    np.testing.assert_allclose(np.array(read) / 10_000, weights[7], atol=0.5001e-4)


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
    frame = {name: value for _, name, value in Outline(look._repr_html_()).attributes}
    assert frame["srcdoc"] == look.html()
    assert frame["title"] == look.title and "onload" not in frame
    assert frame["sandbox"] == "allow-scripts"


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
    shown = example().map()
    assert (
        draw_attention(
            shown.name, shown.describe(), shown.queries, shown.keys, shown.select(), shown.allowed
        )
        == shown._repr_html_()
    )
    chart = Chart("loss", "step", "nats", [(0, "0"), (1, "1")], [ChartLine("a", [(0, 1), (1, 2)])])
    assert chart._repr_html_() == chart.svg()


def test_pages_of_other_choices_differ():
    pages = [example().choose(**choice).html() for choice in ({}, {"layer": 1}, {"head": 1})]
    assert len({*pages}) == 3


def test_the_parts_of_the_page_are_packed_with_the_package():
    package = Path(attention_html.__file__).parents[2]
    project = tomllib.loads((package.parents[1] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["regard"]
    for name in (path.name for path in (package / "inside" / "views" / "assets").iterdir()):
        assert any(fnmatch(f"inside/views/assets/{name}", pattern) for pattern in patterns), name
