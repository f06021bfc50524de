"""Labelled images from folders, tables and array files, and what is wrong with them."""

import gzip
import struct

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.fields import DropCounts
from regard.data.readers.image_files import image_files
from regard.images.decode import FEW

DRAW = np.random.default_rng(0)
RGB = DRAW.integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)


def classify(reader, path, dropped=None, **options):
    return [*read("classify", reader, path, dropped, **options)]


def labels(examples):
    return [label for example in examples for label in example.labels]


@pytest.fixture
def folder(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, numbers in {"cat": (0, 1), "dog": (2, 3, 4)}.items():
        (tmp_path / name / "more").mkdir(parents=True)
        for number in numbers:
            place = tmp_path / name / ("more" if number == 4 else "")
            image.fromarray(RGB[number]).save(place / f"{number}.png")
        (tmp_path / name / "notes.txt").write_text("no image")
    return tmp_path


def test_folders_are_classes(folder):
    examples = classify("image-folder", folder)
    assert labels(examples) == ["cat", "cat", "dog", "dog", "dog"]
    assert [one.texts[0].name for one in examples] == [f"{n}.png" for n in range(5)]
    with pytest.raises(BadInput, match=r"0\.png: cannot be read \(Not a directory\)"):
        classify("image-folder", folder / "cat" / "0.png")


def test_hidden_files_and_folders_are_left_out(folder):
    """Those of notebooks and of the file systems of others are neither classes nor images."""
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / "cat" / ".thumbnails").mkdir()
    for name in (".ipynb_checkpoints/0.png", "cat/._0.png", "cat/.thumbnails/0.png"):
        (folder / name).write_bytes((folder / "cat" / "0.png").read_bytes())
    assert labels(classify("image-folder", folder)) == ["cat", "cat", "dog", "dog", "dog"]
    assert [one.name for one in image_files(folder / "cat")] == ["0.png", "1.png"]


def test_a_class_without_images_is_named(folder):
    """It would be missing among the labels, as where all its images are of another format."""
    (folder / "bird").mkdir()
    (folder / "bird" / "0.bmp").touch()
    with pytest.raises(BadInput, match="bird: no JPEG, PNG or WebP in this folder"):
        classify("image-folder", folder)
    dropped = DropCounts()
    assert len(classify("image-folder", folder, dropped)) == 5
    assert dropped == {"classes without images": 1}


def test_damaged_images_are_counted_where_they_may_be_left_out(folder):
    (folder / "cat" / "1.png").write_bytes(b"no image")
    dropped = DropCounts()
    assert labels(classify("image-folder", folder, dropped)) == ["cat", "dog", "dog", "dog"]
    assert dropped == {"damaged images": 1}


def test_many_files_are_checked_by_processes(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr("regard.data.readers.image_files.default_workers", lambda: 1)
    (tmp_path / "cat").mkdir()
    for number in range(FEW + 12):
        image.fromarray(RGB[number % 5]).save(tmp_path / "cat" / f"{number:02}.png")
    bad = [tmp_path / "cat" / f"{number:02}.png" for number in (3, FEW + 2, FEW + 9)]
    for path in bad:
        path.write_bytes(b"no image")
    dropped = DropCounts()
    found = [one.texts[0] for one in classify("image-folder", tmp_path, dropped)]
    assert dropped == {"damaged images": 3}
    assert found == [one for one in image_files(tmp_path) if one not in bad]


def test_tables_name_images_from_their_folder(folder):
    table = folder / "all.csv"
    table.write_text("file,kind\ncat/0.png,cat\ndog/2.png,dog\n")
    examples = classify("image-csv", table, image="file", label="kind")
    assert labels(examples) == ["cat", "dog"]
    assert examples[1].texts == (folder / "dog" / "2.png",)
    table.write_text("image,label\nnothing.png,cat\n")
    with pytest.raises(BadInput, match=r"all\.csv:2: .*nothing\.png: no such file"):
        classify("image-csv", table)
    dropped = DropCounts()
    assert classify("image-csv", table, dropped) == [] and dropped.total() == 1


def test_archives_hold_arrays(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(
        path,
        x_train=RGB,
        y_train=np.array([[1], [0], [1], [0], [1]]),
        y_bad=np.arange(3),
        y_names=np.array(["cat"] * 5),
        x_flat=np.zeros((5, 0, 4), np.uint8),
    )
    examples = classify("npz", path, names=["cat", "dog"])
    assert labels(examples) == ["dog", "cat", "dog", "cat", "dog"]
    np.testing.assert_array_equal(examples[3].texts[0], RGB[3])
    assert labels(classify("npz", path)) == ["1", "0", "1", "0", "1"]
    for options, reason in (
        ({"images": "pixels"}, "no array is called 'pixels'"),
        ({"labels": "y_bad"}, "5 images, but 3 labels"),
        ({"images": "y_train"}, "is not an array of images"),
        ({"labels": "y_names"}, r"labels must be integers \(class indices\), not <U3"),
        ({"images": "x_flat"}, r"images \[0, 4\] have no pixels"),
        ({"names": ["cat"]}, "labels from 0 to 1, but only 1 names"),
    ):
        with pytest.raises(BadInput, match=reason):
            classify("npz", path, **options)


def test_archives_are_never_unpickled(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, x_train=np.array([{}], dtype=object), y_train=np.zeros(1, int))
    with pytest.raises(BadInput, match=r"data\.npz: cannot be read as npz"):
        classify("npz", path)
    path.write_bytes(b"no archive")
    with pytest.raises(BadInput, match=r"data\.npz: cannot be read as npz"):
        classify("npz", path)


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_those_of_mnist(packed, tmp_path):
    grey, numbers = RGB[..., 0], np.array([3, 1, 4, 1, 5], np.uint8)
    suffix, pack = (".gz", gzip.compress) if packed else ("", bytes)
    path = tmp_path / f"train-images-idx3-ubyte{suffix}"
    path.write_bytes(pack(idx(grey)))
    (tmp_path / f"train-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(numbers)))
    examples = classify("idx", path)
    assert labels(examples) == ["3", "1", "4", "1", "5"]
    np.testing.assert_array_equal(examples[2].texts[0], grey[2])
    path.write_bytes(pack(idx(grey)[:-1]))
    with pytest.raises(BadInput, match="do not have the shape"):
        classify("idx", path)
    path.write_bytes(pack(b"\0\0\x0d\3"))
    with pytest.raises(BadInput, match="not an idx file of bytes with 3 axes"):
        classify("idx", path)
    path.write_bytes(pack(idx(grey)))
    with pytest.raises(BadInput, match=r"options\.labels"):
        classify("idx", path.rename(tmp_path / f"other{suffix}"))


@pytest.mark.parametrize("damage", [slice(0, 5), slice(12, 40), slice(-8, None)])
def test_a_damaged_gzip_file_is_named(damage, tmp_path):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    content = bytearray(gzip.compress(idx(RGB[..., 0])))
    content[damage] = b"\xff" * len(content[damage])
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"ubyte\.gz: cannot be read as gzip"):
        classify("idx", path)


@pytest.mark.parametrize("hundred", [False, True])
def test_cifar_is_read_in_its_binary_version(hundred, tmp_path):
    pixels = DRAW.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    coarse, fine = np.array([0, 1, 0, 1], np.uint8), np.array([2, 1, 0, 2], np.uint8)
    numbers = np.stack([coarse, fine], 1) if hundred else fine[:, None]
    records = np.concatenate([numbers, pixels.transpose(0, 3, 1, 2).reshape(4, -1)], 1)
    files = ("train.bin",) if hundred else ("data_batch_1.bin", "data_batch_2.bin")
    for file, part in zip(files, np.split(records, len(files)), strict=True):
        (tmp_path / file).write_bytes(part.tobytes())
    names = "fine_label_names.txt" if hundred else "batches.meta.txt"
    (tmp_path / names).write_text("plane\ncar\nbird\n\n")
    examples = classify("CIFAR", tmp_path)
    assert labels(examples) == ["bird", "car", "plane", "bird"]
    np.testing.assert_array_equal(examples[3].texts[0], pixels[3])
    assert len(classify("cifar", tmp_path / files[0])) == len(records) // len(files)
    if hundred:
        assert labels(classify("cifar", tmp_path, coarse=True)) == ["0", "1", "0", "1"]
    (tmp_path / files[0]).write_bytes(b"\0" * 100)
    with pytest.raises(BadInput, match="100 bytes are not a multiple of the record size"):
        classify("cifar", tmp_path)


def test_digits_come_with_scikit_learn(tmp_path):
    pytest.importorskip("sklearn")
    train, test = (classify("digits", tmp_path, part=part) for part in ("train", "test"))
    assert (len(train), len(test)) == (1_497, 300)
    assert {*labels(train)} == {*labels(test)} == {*"0123456789"}
    assert train[0].texts[0].shape == (8, 8)
    assert max(int(one.texts[0].max()) for one in train) == 255
    with pytest.raises(BadInput, match="part must be 'train' or 'test'"):
        classify("digits", tmp_path, part="dev")


def test_a_folder_is_walked_in_the_order_of_paths(tmp_path):
    """Names of folders and files together: ``a`` and all in it comes before ``a.png``."""
    for name in ("b/2.png", "b/1.PNG", "a.png", "a/z.jpg", "a/c/x.webp", "a-b.png", "B.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "notes.txt").touch()
    (tmp_path / "again").symlink_to(tmp_path)
    suffixes = (".png", ".jpg", ".webp")
    expected = sorted(one for one in tmp_path.rglob("*") if one.suffix.lower() in suffixes)
    assert [*image_files(tmp_path)] == expected and len(expected) == 7
    with pytest.raises(BadInput, match="cannot be read"):
        [*image_files(tmp_path / "none")]
