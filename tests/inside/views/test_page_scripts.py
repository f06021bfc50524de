"""What the scripts of the pages show is what was recorded; without a browser, but by node."""

import json
import math
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from regard.inside.attention.attention_map import AttentionMap, RolloutMap
from regard.inside.attention.attention_view import AttentionView
from regard.inside.views import attention_html
from small_images import small_vit

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs node")
PIXELS = np.random.default_rng(3).integers(0, 256, (8, 12, 3), dtype=np.uint8)  # 2 × 3 patches
READ = 'const text = (id) => at(id).textContent, figure = document.querySelectorAll(".picture")[0];'


class Elements(HTMLParser):
    """All elements of a page, with the text of its scripts."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found.append({"tag": tag, "attributes": dict(attributes), "text": ""})

    def handle_data(self, data):
        if self.found and self.found[-1]["tag"] == "script":
            self.found[-1]["text"] += data


def shown(view, steps, hash="", protocol="file:"):
    """What the last of some steps on a page, opened with this hash in its address, returns."""
    *elements, script = Elements(view.html()).found
    given = {"elements": elements, "script": script["text"], "steps": READ + steps}
    given |= {"hash": hash, "protocol": protocol}
    program = Path(__file__).with_name("run_page.js")
    done = subprocess.run(
        [NODE, program], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def image():
    return small_vit(size=(8, 12), depth=2).look(PIXELS)


@pytest.fixture(scope="module")
def text():
    weights = np.random.default_rng(0).random((2, 3, 3, 3))
    weights /= weights.sum(-1, keepdims=True)
    words = ("a", "b", "c")
    map = AttentionMap("encoder", words, words, weights, np.tri(3, dtype=bool))
    return AttentionView("a b c", (map, RolloutMap.of(map)))


def test_a_text_is_read_out_cell_by_cell(text):
    steps = 'choose({ layer: 1, head: 2 }); point({ query: 2, key: 0 }); return text("readout")'
    weight = text.maps[0].layers[1][2, 2, 0]
    assert shown(text, steps) == f"c looks at a {weight:.4f}   "
    steps = 'at("heat").fire("keydown", { key: "ArrowUp" }); return text("readout")'
    assert shown(text, steps) == f"a looks at a {text.maps[0].select()[0, 0]:.4f}   "
    assert shown(text, 'point({ query: 0, key: 1 }); return text("readout")').endswith("look at b")


CHOSEN = "return [chosen.map, chosen.layer, chosen.head, shown[2][0]]"


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("choice", "numbers"),
    [
        ({}, (0, None, None)),
        ({"layer": 1, "head": 2}, (0, 1, 2)),
        ({"layer": -1, "head": -3}, (0, 1, 0)),
        ({"head": -1}, (0, None, 2)),
        ({"name": "encoder rollout", "layer": 0}, (1, 0, None)),
    ],
)
def test_the_page_of_a_text_opens_at_the_chosen_map_layer_and_head(text, choice, numbers):
    view = text.choose(**choice)
    *opened, weight = shown(view, CHOSEN)
    assert tuple(opened) == numbers
    expected = view.map(view.name).select(view.layer, view.head)[2, 0]
    assert weight == pytest.approx(expected, abs=1e-4)
    checked = shown(view, 'return at("layer").all.filter((one) => one.checked).length')
    assert checked == 1


def test_heads_that_no_page_can_name_leave_the_mean():
    """The last head of each layer, where layers have different numbers of heads."""
    weights = tuple(np.full((heads, 2, 2), 0.5) for heads in (2, 3))
    view = AttentionView("a b", (AttentionMap("encoder", ("a", "b"), ("a", "b"), weights),))
    assert shown(view.choose(head=-1), "return chosen.head") is None


def test_the_page_of_an_image_opens_at_the_chosen_layer_head_and_patch(image):
    for view, grid in (
        (image.choose(layer=1, head=0), image.class_token(1, 0)),
        (image.from_query((1, 2)), image.patch(1, 2)),
        (image.from_query("mean").choose(layer=0), image.grid("mean", layer=0)),
        (image.choose("encoder rollout"), image.rollout()),
    ):
        least, peak = shown(view, 'return [+text("least"), +text("peak")]')
        assert [least, peak] == pytest.approx(limits(grid), abs=0.005 * float(grid.max()))


def test_a_rollout_is_shown_through_all_layers_or_through_one(text):
    steps = "choose({ map: 1 }); const all = shown[2][0];"
    steps += "choose({ layer: 0 }); return [all, shown[2][0]]"
    expected = [text.maps[1].select(layer)[2, 0] for layer in (None, 0)]
    np.testing.assert_allclose(shown(text, steps), expected, atol=1e-4)


def test_the_overview_has_a_picture_for_each_head(text, image):
    count = 'return at("pictures").querySelectorAll("canvas").length'
    assert shown(text, count) == 6 and shown(image, count) == 4


HEAT = """
const { width, height, data } = heat.squares.image;
const channel = (which) => [...data].filter((_, i) => i % 4 === which);
return [height, width, channel(0), channel(3)];
"""


def test_the_heat_map_has_a_pixel_for_each_weight_and_none_where_it_is_masked(text):
    """Paper is black here, and the accent is red."""
    steps = "choose({ layer: 1, head: 2 });" + HEAT
    height, width, red, opacity = shown(text, steps)
    assert (height, width) == (3, 3)
    allowed = np.tri(3, dtype=bool)
    np.testing.assert_array_equal(np.array(opacity).reshape(3, 3), 255 * allowed)
    weights = text.maps[0].layers[1][2]
    expected = np.where(allowed, 255 * weights / weights.max(), 0)
    np.testing.assert_allclose(np.array(red).reshape(3, 3), expected, atol=0.6)


def long_view(length=40, layers=3, heads=4):
    words = tuple(f"word{number}" for number in range(length))
    weights = np.random.default_rng(6).random((layers, heads, length, length)) ** 5
    weights /= weights.sum(-1, keepdims=True)
    return AttentionView("a text", (AttentionMap("encoder", words, words, weights),))


@pytest.mark.parametrize(("most", "steps"), [(40_000, None), (26_000, 45), (19_500, 11)])
def test_weights_that_were_rounded_for_a_page_come_back(monkeypatch, most, steps):
    monkeypatch.setattr(attention_html, "MOST", most)
    view, note = long_view(), ""
    error = 0.6e-4
    if steps is not None:
        widest = 1 - (1 - 0.5 / steps) ** (4 / 3)
        percent = math.ceil(100 * widest)
        note = f"Weights are rounded, each by less than {percent} % of the largest in its row"
        error += widest * view.maps[0].weights.max()
    read = "return [map().steps, text('rounded'), shown.map((row) => [...row])]"
    for layer, head in ((None, None), (1, None), (None, 2), (2, 3)):
        choice = f"choose({json.dumps({'layer': layer, 'head': head})});"
        rounding, written, weights = shown(view, choice + read)
        assert (rounding, written.rstrip(".")) == (steps, note)
        np.testing.assert_allclose(weights, view.maps[0].select(layer, head), atol=error)


def test_only_what_is_shown_is_unpacked_at_first():
    """The mean of all layers; heads follow one by one, and few of them stay."""
    steps = "return [matrices.size, painting.length, KEPT]"
    unpacked, waiting, kept = shown(long_view(length=200, layers=3, heads=12), steps)
    assert (unpacked, waiting) == (1, 36) and kept < 36
    steps = "for (const paint of painting.splice(0)) paint(); return matrices.size"
    assert shown(long_view(length=200, layers=3, heads=12), steps) == kept
    assert shown(long_view(length=20), "return [matrices.size, painting.length]") == [13, 0]


def test_a_small_picture_of_a_long_text_keeps_the_largest_weights():
    """A picture has two pixels for each pixel of the screen, at most."""
    view = long_view(length=300, layers=1, heads=12)
    steps = """
    const canvas = picture();
    paintPicture(canvas, matrixOf(0, 5));
    const { width, height, data } = canvas.image;
    return [height, width, [...data].filter((_, i) => i % 4 === 0)];
    """
    height, width, red = shown(view, steps, "#hide=")
    assert (height, width) == (150, 150)
    weights = view.maps[0].layers[0][5].round(4)  # as they are written
    largest = weights.reshape(150, 2, 150, 2).max(axis=(1, 3))
    expected = 255 * largest / largest.max()
    np.testing.assert_allclose(np.array(red).reshape(150, 150), expected, atol=0.501)


def limits(grid):
    return [float(f"{end:.4f}") for end in (grid.min(), grid.max())]


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("steps", "grid"),
    [
        ("", lambda view: view.class_token()),
        ("choose({ layer: 1, head: 0 });", lambda view: view.class_token(1, 0)),
        ("choose({ from: null });", lambda view: view.grid("mean")),
        ("choose({ map: 1 });", lambda view: view.rollout()),
        ('figure.fire("pointermove", { clientX: 99, clientY: 1 });', lambda view: view.patch(0, 2)),
        ('figure.fire("keydown", { key: "ArrowUp" });', lambda view: view.patch(0, 0)),
        (
            'figure.fire("pointermove", { clientX: 40, clientY: 60 }); figure.fire("click");'
            'figure.fire("pointerleave"); figure.fire("keydown", { key: "ArrowRight" });',
            lambda view: view.patch(1, 2),
        ),
        (
            'figure.fire("pointermove", { clientX: 1, clientY: 1 }); figure.fire("pointerleave");',
            lambda view: view.class_token(),
        ),
    ],
)
def test_the_weights_of_an_image_are_drawn_over_it(image, steps, grid):
    """Two things lie on the canvas: the image, and one pixel for each patch."""
    weights = grid(image)
    least, peak, size, opacity = shown(
        image,
        steps
        + """
        const [dim, heat] = at("attention").getContext().drawn.slice(-2);
        const { width, height, data } = heat.image;
        const opacity = [...data].filter((_, i) => i % 4 === 3);
        return [+text("least"), +text("peak"), [dim.width, dim.height, height, width], opacity];
        """,
    )
    np.testing.assert_allclose([least, peak], limits(weights), atol=2e-3)
    assert size == [6, 4, 2, 3]
    shares = (weights - weights.min()) / (weights.max() - weights.min())
    np.testing.assert_allclose(np.array(opacity).reshape(2, 3) / 204, shares, atol=0.02)


def test_the_patch_that_is_pointed_at_is_framed_and_named(image):
    steps = 'figure.fire("pointermove", { clientX: 50, clientY: 99 });'
    frames = 'document.querySelectorAll(".patch").map(({ hidden, style }) => [hidden, style])'
    readout, places = shown(image, steps + f'return [text("readout"), {frames}]')
    assert readout.startswith("patch 1,1 looks most at ")
    assert [hidden for hidden, _ in places] == [False, False]
    sides = {"top": 100 / 2, "left": 100 / 3, "height": 100 / 2, "width": 100 / 3}
    for _, style in places:
        assert {side: float(size[:-1]) for side, size in style.items()} == pytest.approx(sides)
