"""What a model of images looks at: grids of patches, drawn where the patches are."""

import io
import json
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from closeness import PROBABILITIES, VALUES
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.models.papers import deit
from regard.models.pools import MeanPool
from regard.views.panels import enlarge, overlay, png_bytes
from small_images import small_vit as vit_of_size
from verb import run

Image = pytest.importorskip("PIL.Image")

PIXELS = np.random.default_rng(3).integers(0, 256, (8, 12, 3), dtype=np.uint8)  # 2 × 3 patches
SVG = "{http://www.w3.org/2000/svg}"


def small_vit(**changes):
    """A model of images of 8 × 12 pixels in patches of 4."""
    return vit_of_size(size=(8, 12), **{"width": 12, "depth": 2, "heads": 3} | changes)


@pytest.fixture(scope="module")
def model():
    return small_vit()


@pytest.fixture(scope="module")
def view(model):
    return model.look(PIXELS)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """A model folder, with an image beside it."""
    place = tmp_path_factory.mktemp("vit")
    model.save(place / "model")
    (place / "image.png").write_bytes(png_bytes(PIXELS))
    return place


def test_a_map_has_the_tokens_before_the_patches_and_then_the_patches_row_by_row(view):
    weights, rollout = view.maps
    assert weights.keys == weights.queries == ("class", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    assert weights.weights.shape == (2, 3, 7, 7)
    np.testing.assert_allclose(weights.weights.sum(-1), 1, atol=1e-5)
    np.testing.assert_array_equal(
        view.class_token(layer=1, head=2), weights.layers[1][2, 0, 1:].reshape(2, 3)
    )
    np.testing.assert_allclose(view.patch(1, 2), weights.select()[6, 1:].reshape(2, 3))
    np.testing.assert_allclose(view.rollout(), rollout.select()[0, 1:].reshape(2, 3))
    np.testing.assert_allclose(view.rollout((0, 1), 0), rollout.select(0)[2, 1:].reshape(2, 3))
    np.testing.assert_allclose(view.grid("mean"), weights.select()[1:, 1:].mean(0).reshape(2, 3))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1), st.integers(0, 2))
def test_the_token_of_a_patch_has_the_label_of_its_place(row, column):
    """Other pixels of one patch change the embedding of one token, which has its name."""
    model, other = small_vit(), PIXELS.copy()
    other[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] ^= 255
    states = []
    for image in (PIXELS, other):
        tape = Tape("trunk.embed.output")
        model.logits([image], tape=tape)
        states.append(tape.records["trunk.embed.output"].numpy())
    (changed,) = np.flatnonzero((states[0] != states[1]).any(axis=-1))
    assert model.look(PIXELS).maps[0].keys[changed] == f"{row},{column}"


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_the_weights_of_a_patch_lie_over_its_pixels(data):
    rows, columns, size = (data.draw(st.integers(1, 7)) for _ in range(3))
    row, column = (data.draw(st.integers(0, count - 1)) for count in (rows, columns))
    weights = np.zeros((rows, columns), np.float32)
    weights[row, column] = 1
    spread = enlarge(weights, rows * size, columns * size)
    top, left = (int(at) for at in np.unravel_index(spread.argmax(), spread.shape))
    assert row * size <= top < (row + 1) * size and column * size <= left < (column + 1) * size
    far = np.ones_like(spread, dtype=bool)
    far[max(row - 2, 0) * size : (row + 3) * size, max(column - 2, 0) * size :][
        :, : (column + 3 - max(column - 2, 0)) * size
    ] = False
    assert not np.abs(spread[far]).max(initial=0) > 1e-6
    if rows * columns > 1:
        black = np.zeros((rows * size, columns * size, 3), np.uint8)
        brightness = overlay(black, weights).sum(axis=-1)
        assert brightness[top, left] == brightness.max() > brightness.min()


def test_without_a_difference_nothing_is_drawn():
    grey = np.full((6, 6, 3), 80, np.uint8)
    assert len(np.unique(overlay(grey, np.full((3, 3), 0.1)))) == 1


def test_the_pixels_are_those_that_the_model_reads(view, model):
    np.testing.assert_array_equal(view.image.pixels_HWC, PIXELS)
    numbers = model.tokenizer.rows([PIXELS])[0].read()
    np.testing.assert_array_equal(model.look(numbers).image.pixels_HWC, PIXELS)
    larger = model.look(np.repeat(PIXELS, 3, axis=0))
    assert larger.image.pixels_HWC.shape == (8, 12, 3)
    assert larger.title == "image" and larger.prediction.label in ("left", "right")


def test_images_of_other_sizes_have_other_grids(model):
    numbers = np.random.default_rng(0).normal(size=(3, 20, 8)).astype(np.float32)
    seen = model.look(numbers)
    assert seen.image.grid == (5, 2) == seen.class_token().shape == seen.rollout().shape
    picture = Image.open(io.BytesIO(seen.png()))
    assert picture.width < picture.height * 2
    with pytest.raises(BadInput, match="cannot be divided into patches"):
        model.look(numbers[:, :18])


def test_a_model_in_int8_is_looked_at_too(folder, view):
    seen = regard.load(folder / "model", "cpu", precision="int8").look(folder / "image.png")
    assert seen.title == "image.png"
    whole, rounded = (np.array(each.maps[0].weights) for each in (view, seen))
    # Of queries and of keys, 1/127 of the largest may be lost: of scores twice that, and of the
    # difference of two scores, which the logarithm of a weight is, four times.
    largest = np.log(whole.max() / whole.min())
    error = np.abs(np.log(rounded / whole)).max()
    assert 0 < error <= 4 / 127 * largest


def test_without_a_processor_numbers_are_looked_at(folder, view, model, tmp_path):
    bare = regard.load(folder / "model", "cpu")
    bare.save(tmp_path / "bare", "hf")
    (tmp_path / "bare" / "preprocessor_config.json").unlink()
    bare = regard.load(tmp_path / "bare", "cpu")
    numbers = model.tokenizer.rows([PIXELS])[0].read()
    seen = bare.look(numbers)
    np.testing.assert_allclose(seen.class_token(), view.class_token(), **VALUES)
    assert seen.prediction.probability == pytest.approx(
        view.prediction.probability, **PROBABILITIES
    )
    assert (seen.image.pixels_HWC.min(), seen.image.pixels_HWC.max()) == (0, 255)
    with pytest.raises(BadInput, match=r"no preprocessor_config\.json"):
        bare.look(PIXELS)


def test_the_distillation_token_is_no_patch():
    seen = small_vit(paper=deit).look(PIXELS)
    assert seen.maps[0].keys[:3] == ("class", "distillation", "0,0")
    weights = seen.maps[0].select()
    np.testing.assert_allclose(seen.grid("distillation"), weights[1, 2:].reshape(2, 3))
    np.testing.assert_allclose(seen.patch(0, 0), weights[2, 2:].reshape(2, 3))
    assert "class token" in seen.text() and "distillation token" in seen.text()
    assert "distillation token, rollout" in seen.svg()
    assert set(seen.to_json()["tokens"]) == {"class", "distillation"}


def test_without_a_class_token_the_mean_of_all_patches_is_shown():
    seen = small_vit(prefix_tokens=0, pool=MeanPool()).look(PIXELS)
    with pytest.raises(BadInput, match="has no class token: choose mean or a patch"):
        seen.class_token()
    weights, rollout = (one.select() for one in seen.maps)
    np.testing.assert_allclose(seen.grid(), weights.mean(0).reshape(2, 3))
    np.testing.assert_allclose(seen.rollout(), rollout.mean(0).reshape(2, 3))
    np.testing.assert_allclose(seen.patch(1, 0), weights[3].reshape(2, 3))
    assert "mean of all patches" in seen.text()
    assert Image.open(io.BytesIO(seen.png())).format == "PNG"


def test_what_is_not_there_is_refused(view, model):
    for patch in ((2, 0), (0, 3), (-1, 0), (0.5, 1), (1,), 5, [[0], 1]):
        with pytest.raises(
            BadInput, match=r"no patch .*; there are rows 0 to 1 and columns 0 to 2"
        ):
            model.look(PIXELS, patch=patch)
    with pytest.raises(BadInput, match="no layer 2"):
        view.choose(layer=2)
    with pytest.raises(BadInput, match="no such head"):
        view.class_token(head=3)
    with pytest.raises(BadInput, match="averages heads"):
        model.look(PIXELS, rollout=True).choose(head=0)
    with pytest.raises(BadInput, match="no map called 'cross' here, only: encoder, encoder roll"):
        view.choose("cross")
    for option in ({"target": "x"}, {"subwords": True}, {"repeat": True}):
        with pytest.raises(BadInput, match=f"{next(iter(option))} cannot be used with an image"):
            model.look(PIXELS, **option)
    with pytest.raises(BadInput, match="not causal"):
        model.induction("text")
    with pytest.raises(BadInput, match="not finite"):
        model.look(np.full((3, 8, 12), np.nan))
    with pytest.raises(BadInput, match=r"^nowhere\.png: cannot be read"):
        model.look("nowhere.png")


def test_the_drawings_have_a_picture_for_the_image_and_for_each_map(view, model):
    panels = {
        ("image", "class token", "class token, rollout"): view,
        ("image", "class token, rollout"): model.look(PIXELS, rollout=True),
        ("image", "class token"): view.choose(layer=0, head=1),
        ("image", "patch 1,2", "patch 1,2, rollout"): model.look(PIXELS, patch=(1, 2)),
        (
            "image",
            *("class token", *(f"class token, head {head}" for head in range(3))),
        ): view.choose(layer=1),
    }
    for names, seen in panels.items():
        root = ElementTree.fromstring(seen.svg())
        texts = [text.text for text in root.iter(f"{SVG}text")]
        assert [text for text in texts[2:] if text in names] == list(names)
        assert view.prediction.summary in texts[1]
        addresses = [picture.get("href") for picture in root.iter(f"{SVG}image")]
        assert len(addresses) == 2 * len(names) - 1  # all but the first have a scale
        assert all(one.startswith("data:image/png;base64,") for one in addresses)
        picture = Image.open(io.BytesIO(seen.png()))
        assert picture.size == tuple(2 * int(root.get(side)) for side in ("width", "height"))


def test_a_patch_is_framed_in_the_drawing(model):
    plain, framed = (
        np.asarray(Image.open(io.BytesIO(seen.png())), dtype=int)
        for seen in (model.look(PIXELS), model.look(PIXELS, patch=(1, 2)))
    )
    first = np.s_[: plain.shape[0] - 80, : 2 * (24 + 240)]  # the image itself
    down, across = np.nonzero((plain[first] != framed[first]).any(axis=-1))
    edges = [2 * (24 + 40 + 20) + 160, 2 * 24 + 320]  # below half and right of two thirds
    assert [down.min(), across.min()] == edges
    assert [down.max() + 1, across.max() + 1] == [edges[0] + 160, edges[1] + 160]


def test_it_is_saved_by_the_end_of_the_name(view, tmp_path):
    for name in ("a.html", "b.svg", "deep/c.PNG"):
        view.save(tmp_path / name)
    assert (tmp_path / "a.html").read_text() == view.html()
    assert (tmp_path / "deep/c.PNG").read_bytes() == view.png()
    with pytest.raises(BadInput, match=r"the suffix must be one of \.html, \.svg, \.png, \.pdf$"):
        view.save(tmp_path / "d.gif")


def test_the_terminal_shows_the_grid(view):
    lines = view.choose(layer=1, head=0).text().splitlines()
    assert lines[0] == "image" and view.prediction.label in lines[1]
    assert "encoder, layer 1, head 0" in lines and "class token" in lines
    assert sum(line.startswith(("0 ", "1 ")) and len(line) == 8 for line in lines) == 2


def test_the_verb(folder, tmp_path):
    model, image = folder / "model", folder / "image.png"
    files = [tmp_path / f"look.{kind}" for kind in ("html", "svg", "png")]
    options = [word for file in files for word in (f"--{file.suffix[1:]}", file)]
    done = run("look", model, image, *options)
    assert "image.png" in done.stdout and "class token" in done.stdout
    assert files[0].read_text().startswith("<!doctype html>")
    assert Image.open(io.BytesIO(files[2].read_bytes())).size == (1_616, 616)
    record = json.loads(run("look", model, image, "--patch", "1, 0", "--layer", 0, "--json").stdout)
    assert record["query"] == "patch 1,0" and record["map"] == "encoder"
    assert sum(map(sum, record["weights"])) + record["tokens"]["class"] == pytest.approx(
        1, abs=1e-4
    )
    chosen = (("--layer", -1, "--head", -1), ("--layer", 1, "--head", 2))
    last, same = (run("look", model, image, *one).stdout for one in chosen)
    assert last == same and "layer 1, head 2" in last
    record = json.loads(run("look", model, image, "--rollout", "--json").stdout)
    assert record["map"] == "encoder rollout" and len(record["weights"]) == 2
    for wrong, reason in (
        (("--patch", "7,0"), "no patch 7,0; there are rows 0 to 1"),
        (("--patch", "1"), "--patch: '1' is not ROW,COLUMN"),
        (("--layer", 5), "no layer 5; there are 0 to 1"),
        (("--png", "x.svg"), "--png x.svg: the name ends in .svg; use --svg"),
        (("--html", "x.PNG"), "--html x.PNG: the name ends in .png; use --png"),
        (("--subwords",), "subwords cannot be used with an image"),
        (("--induction", "--patch", "0,0"), "cannot be used with --induction"),
    ):
        refused = run("look", model, image, *wrong, code=2)
        assert reason in refused.stderr and refused.stderr.count("\n") == 1
        assert not refused.stdout
