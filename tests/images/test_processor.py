"""Images as ``transformers`` reads them, and every form and flaw of a file."""

import io
import json
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.errors import BadInput, BadItem
from regard.images import decode
from regard.images.decode import decode_image, read_image
from regard.images.processor import ImageProcessor

Image = pytest.importorskip("PIL.Image")

DRAW = np.random.default_rng(0)
RGB = DRAW.integers(0, 256, (37, 50, 3), dtype=np.uint8)
CONFIGS = (
    {},
    {"size": {"height": 20, "width": 33}, "resample": 3, "image_mean": [0.1, 0.2, 0.3]},
    {"size": {"height": 64, "width": 64}, "resample": 0, "do_normalize": False},
    {"do_resize": False, "image_std": [0.3, 0.2, 0.1]},
    {"size": {"shortest_edge": 24}, "do_center_crop": True, "crop_size": 16},
    {"size": {"shortest_edge": 24, "longest_edge": 30}},
    {"size": {"shortest_edge": 24, "longest_edge": 40}, "do_center_crop": True, "crop_size": 20},
    {"size": {"height": 37, "width": 50}, "rescale_factor": 1 / 127.5, "do_rescale": True},
    {"size": [20, 33], "image_mean": 0.25, "image_std": [0.3, 0.2, 0.1]},
    {"image_mean": 0.0, "image_std": 2.0},
    {
        "do_resize": None,
        "resample": None,
        "size": None,
        "rescale_factor": None,
        "do_rescale": False,
    },
)


def read(processor, image):
    (row,) = processor.rows([image])
    return row.read()


@pytest.mark.parametrize("config", CONFIGS)
def test_numbers_are_those_of_transformers(config, tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.ViTImageProcessorPil(**config)
    ours = ImageProcessor.of_config(config, "config")
    for image in (Image.fromarray(RGB), Image.fromarray(RGB[:20, :20])):
        expected = theirs(images=image, return_tensors="np")["pixel_values"][0]
        np.testing.assert_allclose(read(ours, image), expected, rtol=0, atol=1e-6)
    ours.save(tmp_path)
    assert ImageProcessor.load(tmp_path) == ours
    again = transformers.ViTImageProcessorPil.from_pretrained(tmp_path)
    expected = again(images=Image.fromarray(RGB), return_tensors="np")["pixel_values"][0]
    np.testing.assert_allclose(read(ours, RGB), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["ViT", "DeiT"])
@pytest.mark.parametrize("config", [{}, {"resample": 0}, {"do_center_crop": False}])
def test_what_a_configuration_leaves_out_follows_from_its_class(kind, config, tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = getattr(transformers, f"{kind}ImageProcessorPil")(**config)
    expected = theirs(images=Image.fromarray(RGB), return_tensors="np")["pixel_values"][0]
    for key, name in (("image_processor", "ImageProcessorFast"), ("feature_extractor",) * 2):
        named = {f"{key}_type": f"{kind}{name}"}
        ours = ImageProcessor.of_config(config | named, "here")
        np.testing.assert_allclose(read(ours, RGB), expected, rtol=0, atol=1e-6)


def test_every_form_of_an_image_is_the_same(tmp_path):
    path = tmp_path / "image.png"
    Image.fromarray(RGB).save(path)
    processor = ImageProcessor(size=(8, 9))
    expected = read(processor, RGB)
    assert expected.shape == (3, 8, 9)
    for form in (path, str(path), Image.open(path)):
        np.testing.assert_array_equal(read(processor, form), expected)
    np.testing.assert_array_equal(read(processor, expected), expected)
    tensor = torch.from_numpy(expected)
    for form in (tensor, tensor.double().requires_grad_()):
        np.testing.assert_array_equal(read(processor, form), expected)
    half = read(processor, tensor.bfloat16())
    assert half.dtype == np.float32
    np.testing.assert_array_equal(half, tensor.bfloat16().float().numpy())


def test_training_rows_are_bytes_of_the_same_size():
    processor = ImageProcessor(size=(8, 9))
    (row,) = processor.training_rows([RGB])
    assert row.read().dtype == np.uint8 and row.read().shape == (3, 8, 9)
    np.testing.assert_array_equal(processor.normalised(row.read()), read(processor, RGB))


def test_grey_and_colour_become_each_other():
    grey = ImageProcessor(size=None, mean=(0.5,), std=(0.5,))
    expected = np.array(Image.fromarray(RGB).convert("L"))
    assert np.abs(grey.resized(RGB)[0].astype(int) - expected).max() <= 1
    colour = ImageProcessor(size=None).resized(expected)
    assert all(np.array_equal(channel, expected) for channel in colour)


def encoded(image, **options):
    file = io.BytesIO()
    image.save(file, **{"format": "PNG"} | options)
    return file.getvalue()


MODES = {
    "JPEG": ("1", "L", "RGB", "CMYK"),
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
    "WEBP": ("L", "RGB", "RGBA"),
}


@pytest.mark.parametrize(
    ("format", "mode"), [(format, mode) for format in MODES for mode in MODES[format]]
)
def test_every_mode_becomes_colour(format, mode):
    image = Image.fromarray(np.full((5, 9), 65_535, np.uint16))
    if mode != "I;16":
        image = Image.new("RGB", (9, 5), (255, 255, 255)).convert(mode)
    pixels = decode_image(encoded(image, format=format), "")
    assert pixels.shape == (5, 9, 3) and pixels.dtype == np.uint8 and pixels.min() >= 253


@pytest.mark.parametrize(("mode", "dtype"), [("F", np.float32), ("I", np.int32)])
def test_numbers_without_a_known_white_are_refused(mode, dtype):
    """They became black: values from 0 to 255 or 1 were taken for 16 bits."""
    image = Image.fromarray(np.full((5, 9), 200, dtype))
    assert image.mode == mode
    with pytest.raises(BadItem, match=f"mode {mode} has no defined white value"):
        read(ImageProcessor(size=(4, 4)), image)


def test_transparent_pixels_are_white():
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (10, 20, 30, 255))
    assert decode_image(encoded(image), "").tolist() == [[[255, 255, 255], [10, 20, 30]]]


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_arrays_with_opacity_are_as_pictures(mode):
    pixels = DRAW.integers(0, 256, (6, 9, len(mode)), dtype=np.uint8)
    processor = ImageProcessor(size=(6, 9))
    expected = read(processor, Image.fromarray(pixels))
    np.testing.assert_array_equal(read(processor, pixels), expected)
    opacity = pixels[..., -1:] / 255
    over_white = pixels[..., :-1] * opacity + 255 * (1 - opacity)
    shown = processor.denormalised(expected)
    np.testing.assert_allclose(shown, np.broadcast_to(over_white, (6, 9, 3)), atol=1)


def test_photographs_are_turned_upright():
    image, exif = Image.fromarray(RGB), Image.Exif()
    exif[0x0112] = 6  # the camera was turned to the right
    turned = decode_image(encoded(image, exif=exif), "")
    np.testing.assert_array_equal(turned, np.rot90(RGB, -1))


def png_of_size(width, height):
    """A small file that says it is large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1_000)), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


GOOD = encoded(Image.fromarray(RGB))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no image",
        GOOD[: len(GOOD) // 2],
        encoded(Image.fromarray(RGB), format="JPEG")[:300],
        encoded(Image.fromarray(RGB), format="BMP"),
        png_of_size(40, 30),
    ],
    ids=["empty", "text", "cut PNG", "cut JPEG", "another format", "missing rows"],
)
def test_a_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "bad.png"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"bad\.png: cannot be read as an image"):
        read_image(path)


def test_what_is_wrong_with_a_file_is_said_in_the_same_words_again(tmp_path):
    path = tmp_path / "bad.png"
    path.write_bytes(encoded(Image.fromarray(RGB), format="BMP"))
    with pytest.raises(BadInput, match="neither JPEG, PNG nor WebP") as error:
        read_image(path)
    assert "0x" not in str(error.value)


def test_an_enormous_file_is_not_read(tmp_path):
    path = tmp_path / "huge.png"
    with path.open("wb") as file:
        file.write(GOOD)
        file.truncate(30 << 30)
    with pytest.raises(BadInput, match=r"huge\.png: cannot be read \(32,212,254,720 bytes"):
        read_image(path)


@pytest.mark.parametrize("size", [(10_000, 10_000), (60_000, 60_000)])
def test_an_enormous_picture_is_not_unpacked(size, tmp_path):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_of_size(*size))
    with pytest.raises(BadInput, match=r"bomb\.png: "):
        read_image(path)


def test_what_is_no_image_is_named_by_its_number():
    rows = ImageProcessor().rows([RGB, np.zeros((2, 2, 5), np.uint8), 3])
    for number, row in enumerate(rows[1:], start=2):
        with pytest.raises(BadItem) as error:
            row.read()
        assert error.value.number == number


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (np.full((3, 4, 4), np.nan), "pixel values that are not finite"),
        (torch.full((3, 4, 4), torch.inf), "pixel values that are not finite"),
        (np.zeros((3, 0, 4), np.float32), "has no pixels"),
        (np.zeros((0, 4, 3), np.uint8), "has no pixels"),
        (np.zeros((4, 0), np.uint8), "has no pixels"),
    ],
)
def test_numbers_that_are_no_image_are_refused(image, reason):
    with pytest.raises(BadItem, match=reason):
        read(ImageProcessor(size=(8, 9)), image)


def test_without_pillow_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(BadInput, match=r"pip install 'regard\[images\]'"):
        decode_image(GOOD, "")
    assert ImageProcessor(size=(37, 50)).resized(RGB).shape == (3, 37, 50)  # nothing to resize


@pytest.mark.parametrize(
    "config",
    [
        {"image_mean": [0.5, 0.5]},
        {"image_std": [0.5, 0.0, 0.5]},
        {"size": {"height": 0, "width": 3}},
        {"size": "large"},
        {"resample": 9},
        {"do_pad": True},
        {"crop_pct": 0.9},
        {"image_mean": "grey"},
        {"image_std": [0.5, float("nan"), 0.5]},
    ],
)
def test_a_configuration_that_says_nothing_sensible_is_refused(config, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    with pytest.raises(BadInput, match=r"preprocessor_config\.json"):
        ImageProcessor.load(tmp_path)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"size": {"longest_edge": 32}}, r"shortest_edge \(and longest_edge\), not longest_edge"),
        ({"size": {"max_height": 32, "max_width": 9}}, "not max_height and max_width"),
        ({"size": {"height": 32, "longest_edge": 9}}, "not height and longest_edge"),
        ({"size": {}}, "not nothing"),
        (
            {"crop_size": {"shortest_edge": 8, "longest_edge": 9}},
            "not shortest_edge and longest_edge",
        ),
        ({"size": [32, 32, 3]}, r"size: \[32, 32, 3\] is not a number of pixels"),
        ({"resample": "bicubic"}, r"resample is 'bicubic', not one of 0 \(nearest\)"),
        ({"resample": None}, "resample is null, but do_resize needs it"),
        ({"rescale_factor": float("nan")}, "rescale_factor must be finite numbers"),
        ({"image_mean": float("nan")}, "image_mean.* must be finite numbers"),
    ],
)
def test_what_a_configuration_cannot_say_is_named(config, reason):
    with pytest.raises(BadInput, match=f"^here: .*{reason}"):
        ImageProcessor.of_config(config, "here")


@pytest.mark.parametrize(("size", "shape"), [(2_240, (1, 5_000)), ((60_000, 60_000), (2, 2))])
def test_no_image_is_resized_to_an_enormous_one(size, shape):
    with pytest.raises(BadInput, match="it would be resized to"):
        ImageProcessor(size=size).resized(np.zeros(shape, np.uint8))


@pytest.mark.parametrize(
    ("size", "crop", "side", "expected"),
    [
        (256, (224, 224), 224, 256),
        (256, (224, 224), 448, 512),
        ((248, 248), (224, 224), 112, (124, 124)),
        (None, (224, 224), 112, None),
    ],
)
def test_another_size_keeps_the_share_that_is_cropped(size, crop, side, expected):
    before = ImageProcessor(size=size, crop=crop, crop_offset="round", resample=3)
    after = ImageProcessor(size=expected, crop=(side, side), crop_offset="round", resample=3)
    assert before.at_size((side, side)) == after
    limited = replace(before, longest_edge=600).at_size((side, side))
    assert limited == replace(after, longest_edge=600 * side // 224)
    for image in ((side, side), (side, 2 * side)):
        assert ImageProcessor(size=size).at_size(image) == ImageProcessor(size=image)


@pytest.mark.parametrize("edges", [(24, 30), (24, 24), (24, 20), (7, 700), (1, 9), (300, 301)])
def test_the_longer_side_has_a_limit_as_in_transformers(edges):
    transformers = pytest.importorskip("transformers")
    size = dict(zip(("shortest_edge", "longest_edge"), edges, strict=True))
    theirs = transformers.ViTImageProcessorPil(size=size)
    ours = ImageProcessor.of_config({"size": size}, "here")
    for shape in ((37, 50), (50, 37), (24, 24), (24, 91), (91, 24), (33, 64), (1, 1), (30, 31)):
        image = RGB[:1, :1].repeat(shape[0], 0).repeat(shape[1], 1)
        expected = theirs(images=Image.fromarray(image), return_tensors="np")["pixel_values"][0]
        np.testing.assert_allclose(read(ours, image), expected, rtol=0, atol=1e-6)
    with pytest.raises(BadItem, match="it would be resized to 0 ×"):
        read(replace(ours, size=24, longest_edge=30), np.zeros((1, 5_000), np.uint8))


def test_a_crop_must_fit():
    with pytest.raises(BadInput, match="smaller than its crop of 40 × 40"):
        ImageProcessor(size=None, crop=(40, 40)).resized(RGB)


def test_the_largest_picture_is_one_that_pillow_takes_without_warning():
    assert decode.MOST_PIXELS <= Image.MAX_IMAGE_PIXELS
