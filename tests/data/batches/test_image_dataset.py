"""Images as training examples: keys by epoch, and files that other processes decode."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.data.batches.memory_dataset import ImageDataset
from regard.images.processor import ImageProcessor

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 4, 6, 3), dtype=np.uint8)
PROCESSOR = ImageProcessor(size=(4, 6))


def dataset(images, seed=1, workers=0):
    rows = PROCESSOR.training_rows(images)
    return ImageDataset([(row, [0]) for row in rows], images, seed, workers)


def test_keys_follow_from_seed_epoch_and_index():
    data = dataset(PIXELS)
    keys = {
        (seed, epoch): [row.key for row, _ in dataset(PIXELS, seed).read(epoch, np.arange(12))]
        for seed in (1, 2)
        for epoch in (0, 1)
    }
    drawn = [key for of_epoch in keys.values() for key in of_epoch]
    assert len({*drawn}) == len(drawn)
    again = [row.key for row, _ in data.read(1, np.array([7, 3]))]
    assert again == [keys[1, 1][7], keys[1, 1][3]]


def test_arrays_are_resized_once_unless_they_are_large(monkeypatch):
    counted = []
    monkeypatch.setattr(ImageProcessor, "resized", lambda self, image: counted.append(1) or image)
    rows = ImageProcessor(size=(4, 6)).training_rows(PIXELS)
    for most, times in ((1 << 30, 1 + 12), (12 * 4 * 6 * 3 - 1, 1 + 2 * 5)):
        monkeypatch.setattr("regard.data.batches.memory_dataset.MOST_KEPT", most)
        data = ImageDataset([(row, [0]) for row in rows], PIXELS, 1, 0)
        for indices in (np.arange(5), np.arange(5, 10)):
            np.testing.assert_array_equal(data.read(0, indices).pixels, PIXELS[indices])
        assert len(counted) == times
        counted.clear()


def test_its_fingerprint_is_that_of_the_pixels():
    other = PIXELS.copy()
    other[3, 0, 0, 0] ^= 1
    assert dataset(PIXELS).fingerprint == dataset(PIXELS.copy()).fingerprint
    assert dataset(other).fingerprint != dataset(PIXELS).fingerprint


def test_its_fingerprint_takes_any_name_of_a_file(tmp_path):
    paths = [tmp_path / os.fsdecode(name) for name in (b"\xff.png", b"\xfe.png")]
    for path in paths:
        path.write_bytes(b"")
    assert len({dataset([path]).fingerprint for path in paths}) == 2


def test_its_fingerprint_is_the_same_where_all_files_were_moved(tmp_path, monkeypatch):
    found = set()
    for folder in ("here", "there"):
        paths = [tmp_path / folder / name / "1.png" for name in "ab"]
        for path in paths:
            path.parent.mkdir(parents=True)
            path.write_bytes(b"")
        found.add(dataset(paths).fingerprint)
    monkeypatch.chdir(tmp_path / "there")
    found.add(dataset([Path("a", "1.png"), Path("b", "1.png")]).fingerprint)
    assert len(found) == 1


@pytest.mark.slow
def test_files_are_decoded_by_workers(tmp_path):
    image = pytest.importorskip("PIL.Image")
    paths = [tmp_path / f"{number}.png" for number in range(12)]
    for path, pixels in zip(paths, PIXELS, strict=True):
        image.fromarray(pixels).save(path)
    data = dataset(paths, workers=1)
    read = data.read(0, np.arange(12))
    for (row, _), pixels in zip(read, PIXELS, strict=True):
        np.testing.assert_array_equal(row.read(), pixels.transpose(2, 0, 1))
    paths[5].write_bytes(b"no image")
    with pytest.raises(BadInput, match=r"5\.png: cannot be read as an image"):
        data.read(0, np.arange(12))
    data.pool.close()
    assert dataset(PIXELS, workers=4).workers == 0  # arrays are there already


def test_the_size_is_that_of_the_processor():
    (row,) = replace(PROCESSOR, size=(2, 3), resample=0).training_rows(PIXELS[:1])
    pytest.importorskip("PIL")
    assert row.read().shape == (3, 2, 3)
