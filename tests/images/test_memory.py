"""The memory of decoding: a few bytes a pixel, and one budget of pixels for all workers."""

import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.images import decode
from regard.images.decode import PIXELS, DecodingPool, SharedBudget
from regard.images.processor import ImageProcessor
from warm import WarmProcess

Image = pytest.importorskip("PIL.Image")
PngImageFile = pytest.importorskip("PIL.PngImagePlugin").PngImageFile

SIDE = 3_000
PEAK = """
import sys
from pathlib import Path
import PIL.PngImagePlugin
from regard.images.processor import ImageProcessor
channels = [0.5] * int(sys.argv[2])
processor, path = ImageProcessor(mean=(*channels,), std=(*channels,)), Path(sys.argv[1])
def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))
small = Path(sys.argv[3])
processor.resized(small)
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
before = memory("VmRSS")
processor.resized(path)
print(memory("VmHWM") - before)
"""
CASES = {
    "transparent": ("RGBA", (10, 20, 30, 128), 3),  # 19 bytes a pixel, once
    "16 bits": ("I;16", 1_000, 3),  # 27
    "colour to grey": ("RGB", (10, 20, 30), 1),  # 33
    "colour": ("RGB", (10, 20, 30), 3),  # 13
}


@pytest.mark.slow
@pytest.mark.parametrize("mode, colour, channels", CASES.values(), ids=CASES.keys())
def test_an_image_takes_at_most_ten_bytes_a_pixel(tmp_path, mode, colour, channels):
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("this system counts no peak from a moment on")
    Image.new(mode, (SIDE, SIDE), colour).save(tmp_path / "large.png")
    Image.new(mode, (8, 8), colour).save(tmp_path / "small.png")
    paths = tmp_path / "large.png", channels, tmp_path / "small.png"
    process = WarmProcess("-c", PEAK, *paths)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert int(output) < 10 * SIDE * SIDE


def test_strips_change_no_number(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    images = {
        "RGBA": draw.integers(0, 256, (37, 50, 4), dtype=np.uint8),
        "I;16": draw.integers(0, 65_536, (37, 50), dtype=np.uint16),
        "RGB": draw.integers(0, 256, (37, 50, 3), dtype=np.uint8),
    }
    for channels in (1, 3):
        processor = ImageProcessor((20, 30), (0.5,) * channels, (0.5,) * channels)
        for mode, array in images.items():
            Image.fromarray(array).save(tmp_path / "image.png")
            whole = processor.resized(tmp_path / "image.png")
            with monkeypatch.context() as patched:
                patched.setattr(decode, "STRIP", 200)  # 4 rows
                strips = processor.resized(tmp_path / "image.png")
            assert np.array_equal(whole, strips), mode


def photograph(side: int) -> "Image.Image":
    """Shades of many sizes."""
    draw, total = np.random.default_rng(0), np.zeros((side, side))
    for cells in (4, 16, 64):
        shades = Image.fromarray(draw.normal(size=(cells, cells)).astype(np.float32))
        total += np.asarray(shades.resize((side, side), 3)) * 30
    return Image.fromarray(np.clip(total + 128, 0, 255).astype(np.uint8)).convert("RGB")


def test_a_large_jpeg_is_decoded_at_a_smaller_size(tmp_path, monkeypatch):
    path, sizes = tmp_path / "image.jpg", []
    exif = Image.Exif()
    exif[decode.ORIENTATION] = 6  # a quarter turn
    photograph(800).crop((0, 0, 800, 600)).save(path, quality=90, exif=exif)
    resize = Image.Image.resize
    monkeypatch.setattr(
        Image.Image, "resize", lambda *given: sizes.append(given[0].size) or resize(*given)
    )
    processor = ImageProcessor(size=48)
    exact = processor.resized(path)
    monkeypatch.setattr(decode, "LARGE", 100_000)
    reduced = processor.resized(path)
    assert exact.shape == reduced.shape == (3, 64, 48)
    assert sizes == [(600, 800), (300, 400)]
    difference = np.abs(exact.astype(int) - reduced)
    assert 0 < difference.max() <= 2


def test_a_budget_is_never_exceeded_but_by_one_image_alone():
    budget = SharedBudget(get_context("spawn"), most=100)
    peaks = []

    def hold(pixels: int) -> None:
        with budget.reserved(pixels):
            peaks.append((budget.held.value, pixels))
            time.sleep(0.002)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, [60, 30, 10, 90, 250, 1, 40, 40, 40, 300] * 3))
    assert budget.held.value == 0
    assert all(held <= 100 or held == pixels for held, pixels in peaks)
    assert max(held for held, _ in peaks if held <= 100) > 60  # small ones at the same time


def test_workers_share_the_budget(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with DecodingPool(2, few=0) as pool:
        images = [tmp_path / "a.png"] * 2
        assert [*pool.map(decode.can_be_read, images)] == [True] * 2
        with ThreadPoolExecutor(1) as thread:
            with pool.budget.reserved(PIXELS):
                results = thread.submit(lambda: [*pool.map(decode.can_be_read, images)])
                with pytest.raises(TimeoutError):
                    results.result(timeout=0.2)
            assert results.result(timeout=60) == [True] * 2


BOMBS = {
    "colour": ("RGB", 9_400, "337 MiB"),
    "palette": ("P", 9_400, "421 MiB"),
    "black and white": ("1", 9_400, "421 MiB"),
    "transparent": ("RGBA", 4_200, "134 MiB"),
    "16 bits": ("I;16", 5_000, "143 MiB"),
}


@pytest.mark.parametrize(("mode", "side", "needed"), BOMBS.values(), ids=BOMBS.keys())
def test_a_small_file_that_unpacks_to_a_large_picture_is_refused(mode, side, needed, monkeypatch):
    """By its header: nothing of it is decoded."""
    content = png_of(mode, side)
    monkeypatch.setattr(PngImageFile, "load", lambda self: pytest.fail("was decoded"))
    said = rf"x\.png: {side:,} × {side:,} pixels of mode {mode} need {needed} to decode, more than"
    with pytest.raises(BadInput, match=rf"{said} the limit of 128$"):
        decode.decode_image(content, "x.png")


def png_of(mode: str, side: int) -> bytes:
    """A file whose header promises a square of pixels, of which none follow."""
    bits, colour = {"RGB": (8, 2), "P": (8, 3), "1": (1, 0), "RGBA": (8, 6), "I;16": (16, 0)}[mode]
    header = struct.pack(">IIBBBBB", side, side, bits, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"PLTE", bytes(3)), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    lines = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
        if name != b"PLTE" or colour == 3
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(lines)


def test_a_picture_of_8k_is_read():
    pixels = Image.new("RGB", (7_680, 4_320))
    decode.check_memory(pixels)
    decode.check_memory(Image.new("RGBA", (4_096, 4_096)))
