"""``regard neighbours``."""

import json
import tracemalloc

import numpy as np
import pytest

import regard
from regard.inside import neighbours as nearest_module
from regard.inside.neighbours import nearest
from small_bert import SENTENCES, model
from small_bert import model as small_bert
from small_images import corners, small_vit, write_images
from verb import run

TEXT = "The storm came in.\n\nThe cat came in before the storm.\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("neighbours") / "model"
    model("states").save(place)
    return place


def test_help_has_an_example():
    assert "Example:" in run("neighbours", "--help").stdout


def test_static_and_contextual_neighbours_side_by_side(folder, tmp_path):
    (tmp_path / "vectors").write_text("storm 1 0\nrain 0.9 0.1\nyak 0 1\n")
    given = ("neighbours", folder, "Storm", "--vectors", tmp_path / "vectors", "--top", 3)
    lines = run(*given, stdin=TEXT).stdout.splitlines()
    assert lines[0] == "standard input:1: The [storm] came in ."
    assert lines[1].split() == ["static", "cosine", "in", "context", "cosine"]
    assert lines[2].split()[:2] == ["rain", "0.994"] and lines[3].split()[:2] == ["yak", "0.000"]
    assert lines[5] == "" and lines[6].startswith("standard input:3: The cat came in before")
    records = [json.loads(line) for line in run(*given, "--json", stdin=TEXT).stdout.splitlines()]
    assert [one["line"] for one in records] == [1, 3]
    assert [one["word"] for one in records[0]["static"]] == ["rain", "yak"]
    assert len(records[0]["contextual"]) == 3
    shown = [one.split()[-1] for one in lines[2:5]]
    assert all(shown) and {"word", "line", "place", "words", "cosine"} == {
        *records[0]["contextual"][0]
    }


def test_a_text_of_the_command_line_and_the_embedding_layer(folder):
    given = ("neighbours", folder, "cat", "--text", "A cat sings", "--layer", 0, "--json")
    (record,) = map(json.loads, run(*given, stdin=TEXT).stdout.splitlines())
    assert record["line"] is None and record["words"] == ["A", "cat", "sings"]
    assert {one["word"] for one in record["static"]} <= {
        "The",
        "the",
        "storm",
        "came",
        "in",
        "before",
    }
    assert record["contextual"][0]["word"] == "cat"


def test_texts_of_the_command_line_are_compared_where_there_are_no_others(folder, tmp_path):
    texts = ("A cat sings", "The cat came in before the storm .")
    options = ("--top", 9, *(one for text in texts for one in ("--text", text)))
    given = ("neighbours", folder, "cat", *options)
    records = [json.loads(line) for line in run(*given, "--json", stdin="").stdout.splitlines()]
    for record, own, other in zip(records, texts, reversed(texts), strict=True):
        assert record["words"] == own.split() and len(record["contextual"]) == 9
        found = [one["words"] for one in record["contextual"] if one["word"] == "cat"]
        assert found == [other.split()]
    assert "--text: A [cat] sings" in run(*given, stdin="").stdout.partition("The [cat]")[2]
    (tmp_path / "empty.txt").write_text("\n")
    refused = run(*given[:3], tmp_path / "empty.txt", *options, code=2)
    assert "empty.txt: has no text" in refused.stderr


def test_what_is_wrong_is_reported(folder):
    refused = run("neighbours", folder, "whale", stdin=TEXT, code=2)
    assert "standard input: the word 'whale' does not occur" in refused.stderr
    for options, reason in (
        ((), "62 tokens, more than 48; shorten the line to what the model reads"),
        (("--max-length", 9), "62 tokens, more than 9; split the line"),
    ):
        given = ("neighbours", folder, "cat", *options)
        refused = run(*given, stdin=f"cat\n{'storm ' * 60}\n", code=2)
        assert f"standard input:2: {reason}" in refused.stderr
    refused = run("neighbours", folder, "cat", "--layer", 9, stdin=TEXT, code=2)
    assert "layer must be from 0 (embedding) to 2, or -1 (last states), not 9" in refused.stderr
    refused = run("neighbours", folder, " ", stdin=TEXT, code=2)
    assert "the text is empty" in refused.stderr


pytest.importorskip("PIL")
OPTIONS = ("--device", "cpu", "--workers", 0, "--batch-size", 8)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("neighbours")
    small_vit().save(folder / "model")
    return folder


@pytest.fixture(scope="module")
def images(place):
    return write_images(place / "images", 50)


def slow(model, queries, inputs, top, pool=None):
    """(number, cosine) of the nearest, from the whole matrix."""
    ones, others = (model.embed(some, pool).double().numpy() for some in (queries, inputs))
    ones, others = (some / np.linalg.norm(some, axis=1, keepdims=True) for some in (ones, others))
    cosines = ones @ others.T
    return [[(n, row[n]) for n in np.argsort(-row)[:top]] for row in cosines]


def check(found, expected):
    assert [[n for n, _ in row] for row in found] == [[n for n, _ in row] for row in expected]
    values = [[[cosine for _, cosine in row] for row in rows] for rows in (found, expected)]
    np.testing.assert_allclose(*values, atol=1e-5)


@pytest.mark.parametrize("pool", [None, "first"])
def test_images_of_a_folder(place, images, pool):
    options = OPTIONS if pool is None else (*OPTIONS, "--pool", pool)
    done = run("neighbours", place / "model", images[7], place / "images", *options, "--json")
    record = json.loads(done.stdout)
    assert record["image"] == str(images[7])
    found = [(images.index(type(images[0])(n["image"])), n["cosine"]) for n in record["neighbours"]]
    ((itself, *expected),) = slow(regard.load(place / "model"), [images[7]], images, 6, pool)
    assert itself[0] == 7  # is left out
    check([found], [expected])


def test_several_images_and_a_list_of_paths(place, images, tmp_path):
    (tmp_path / "list.txt").write_text("\n\n".join(map(str, images[:20])))
    lines = run(
        *("neighbours", place / "model", place / "images" / "1", tmp_path / "list.txt"),
        *(*OPTIONS, "--top", 2),
    ).stdout.splitlines()
    queries = [path for path in images if path.parent.name == "1"]
    assert lines[::5] == [*map(str, queries)] and lines[1].split() == ["cosine", "image"]
    assert len(lines) == 5 * len(queries)
    near = [lines[5 * n + 2].split()[1] for n in range(len(queries))]
    inputs = [*images[:20]]
    expected = slow(regard.load(place / "model"), queries, inputs, 2)
    for query, path, row in zip(queries, near, expected, strict=True):
        first, second = (str(inputs[n]) for n, _ in row)
        assert path == (second if first == str(query) else first)


def test_bad_images(place, images, tmp_path):
    write_images(tmp_path / "more", 5, folders=1)
    bad = tmp_path / "more" / "0" / "00002.png"
    bad.write_bytes(b"no image")
    command = ("neighbours", place / "model", images[0], tmp_path / "more", *OPTIONS)
    assert "00002.png: cannot be read as an image" in run(*command, code=2).stderr
    done = run(*command, "--skip-bad")
    assert "00002.png: cannot be read as an image" in done.stderr and done.stdout.count("more") == 4
    (tmp_path / "empty").mkdir()
    refused = run("neighbours", place / "model", tmp_path / "empty", tmp_path, code=2)
    assert "empty: no JPEG, PNG or WebP in this folder" in refused.stderr


def test_options_of_words_are_not_those_of_images(place, images, tmp_path):
    for option in (("--text", "a"), ("--vectors", "a"), ("--layer", 0), ("--max-length", 5)):
        refused = run("neighbours", place / "model", images[0], place / "images", *option, code=2)
        assert f"{option[0]}: is for models that read words" in refused.stderr
    small_bert("states").save(tmp_path / "model")
    for option in (("--workers", 1), ("--pool", "max"), ("--skip-bad",)):
        refused = run("neighbours", tmp_path / "model", "cat", *option, stdin="cat\n", code=2)
        assert f"{option[0]}: is for models that read images" in refused.stderr


@pytest.mark.parametrize("at_once", [1, 7, 256])
def test_in_python(monkeypatch, at_once):
    monkeypatch.setattr(nearest_module, "AT_ONCE", at_once)
    images, model = corners(40, 3)[0], small_vit()
    found = regard.neighbours(model, images[:3], iter(images), top=4)
    check(
        [[(one.item, one.cosine) for one in row] for row in found],
        slow(model, images[:3], images, 4),
    )
    texts, encoder = [*SENTENCES], small_bert("states")
    found = regard.neighbours(encoder, texts[:2], texts, top=9, pool="max")
    expected = slow(encoder, texts[:2], texts, 9, "max")
    check([[(one.item, one.cosine) for one in row] for row in found], expected)
    with pytest.raises(regard.BadInput, match="not one text"):
        regard.neighbours(encoder, texts, "a text")
    with pytest.raises(regard.BadInput, match="top must be at least 1"):
        regard.neighbours(encoder, texts, texts, top=0)


def test_equal_cosines_keep_the_order_and_the_query_is_left_out():
    parts = [
        (["a", "q", "b"], np.float32([[1, 0], [1, 0], [0, 1]])),
        (["q", "c"], np.eye(2)[[0, 0]]),
    ]
    (found,) = nearest(["q"], np.float32([[1, 0]]), parts, 3)
    assert found == [(1.0, "a"), (1.0, "c"), (0.0, "b")]
    assert nearest([], np.zeros((0, 2)), parts, 3) == []


def test_memory_does_not_grow_with_the_inputs():
    model = small_vit()
    peaks = []
    for count in (300, 1_500):
        coming = (np.full((8, 8, 3), number % 256, np.uint8) for number in range(count))
        tracemalloc.start()
        regard.neighbours(model, corners(2, 0)[0], coming, top=2)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000  # 1,200 images have 230,400 bytes, their vectors 76,800
