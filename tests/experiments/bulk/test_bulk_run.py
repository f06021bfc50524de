"""Many inputs: in constant memory, past bad ones, and resumed where a run was stopped."""

import gc
import json
import os
import re
import signal
import sys
import time
import tracemalloc
from threading import Thread

import numpy as np
import pytest

import regard
from regard.api import Model
from regard.cli.io.files import results_to
from regard.data.readers.text_files import Arrivals
from regard.experiments.bulk import result_file
from regard.experiments.bulk.image_source import ImageSource
from regard.experiments.bulk.line_source import LineSource
from regard.images.processor import ImageProcessor
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from small_bert import model as small_bert
from small_bert import small_bert as stored_bert
from small_gpt import write_gpt2
from small_images import small_vit, write_images
from verb import run
from warm import WarmProcess

pytest.importorskip("PIL")
OPTIONS = ("--device", "cpu", "--batch-size", 8, "--workers", 0, "--json")
COUNT = 60


class Stop(BaseException):
    """A run ends here as if it was killed."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vit") / "model"
    small_vit().save(folder)
    return folder


@pytest.fixture
def images(tmp_path):
    return write_images(tmp_path / "images", COUNT)


@pytest.fixture(autouse=True)
def _saved_after_every_window(monkeypatch):
    monkeypatch.setattr(result_file, "EVERY", 0.0)


def stop_after(windows, monkeypatch, *, killed=False):
    """A run ends after so many windows of all; if it is ``killed``, it saves nothing then."""
    add = result_file.SavedProgress.add

    def stopped(progress, keys):
        add(progress, keys)
        if keys and progress.inputs == 8 * windows:
            if killed:
                monkeypatch.setattr(result_file.SavedProgress, "save", lambda progress: None)
            raise Stop

    monkeypatch.setattr(result_file.SavedProgress, "add", stopped)


def stop(monkeypatch, windows, *arguments, **options):
    with monkeypatch.context() as patch:
        stop_after(windows, patch, **options)
        with pytest.raises(Stop):
            run(*arguments)


def test_a_resumed_run_writes_the_same_bytes(model, images, tmp_path, monkeypatch):
    folder, out = tmp_path / "images", tmp_path / "out" / "labels.jsonl"
    expected = run("predict", model, folder, *OPTIONS).stdout
    arguments = ("predict", model, folder, *OPTIONS, "--out", out, "--resume")
    stop(monkeypatch, 3, *arguments)
    partial = out.with_name("labels.jsonl.partial")
    assert not out.exists() and partial.read_text() == "".join(expected.splitlines(True)[:24])
    with partial.open("a") as file:
        file.write('{"line": 25, "ima')  # the process was killed while it wrote this
    stop(monkeypatch, 5, *arguments, killed=True)
    done = run(*arguments)
    assert "labels.jsonl.partial: continues after 40 inputs" in done.stderr
    assert out.read_text() == expected and [*out.parent.iterdir()] == [out]
    assert [json.loads(line)["image"] for line in expected.splitlines()] == [*map(str, images)]
    refused = run(*arguments, code=2)
    assert "--resume has no run to continue" in refused.stderr


@pytest.mark.parametrize(
    ("verb", "kind", "options"),
    [
        ("fill", "words", ()),
        ("generate", "gpt", ("--max-new-tokens", 3, "--temperature", 2, "--seed", 5)),
        ("translate", "translator", ("--search", "sample", "--seed", 5, "--json")),
    ],
)
def test_what_is_generated_is_resumed_too(small_run, verb, kind, options, tmp_path, monkeypatch):
    """Samples too: they depend on the number of their line."""
    model = small_run / "run" / "model"
    if kind == "words":
        small_bert("words").save(model := tmp_path / "model")
    elif kind == "gpt":
        model = write_gpt2(tmp_path / "model")
    text, out = tmp_path / "in.txt", tmp_path / "out.txt"
    text.write_text("the [MASK] dog\ndog [MASK]\n" * 20)
    monkeypatch.setattr(LineSource.__init__, "__defaults__", (8, False))
    arguments = (verb, model, text, "--device", "cpu", *options)
    expected = run(*arguments).stdout
    assert len({*expected.splitlines()}) > 1
    stop(monkeypatch, 2, *arguments, "--out", out, "--resume")
    assert "continues after 16 inputs" in run(*arguments, "--out", out, "--resume").stderr
    assert out.read_text() == expected


def test_texts_are_resumed_too(tmp_path, monkeypatch):
    small_bert("one").save(tmp_path / "model")
    text, out = tmp_path / "in.txt", tmp_path / "out.txt"
    text.write_bytes(b"the cat sat\n\n" * 20)
    monkeypatch.setattr(LineSource.__init__, "__defaults__", (8, False))
    expected = run("predict", tmp_path / "model", text).stdout
    arguments = ("predict", tmp_path / "model", text, "--out", out, "--resume")
    stop(monkeypatch, 2, *arguments)
    text.write_bytes(b"the cat sat\n\n" * 20 + b"the storm\n")  # lines may be added at the end
    run(*arguments)
    more = run("predict", tmp_path / "model", stdin="the storm").stdout
    assert out.read_text() == expected + more


@pytest.mark.parametrize("suffix", [".npy", ".jsonl"])
def test_vectors_are_resumed_too(model, images, suffix, tmp_path, monkeypatch):
    whole, out = tmp_path / f"whole{suffix}", tmp_path / f"out{suffix}"
    arguments = ("embed", model, tmp_path / "images", *OPTIONS[:-1], "--out")
    run(*arguments, whole)
    stop(monkeypatch, 3, *arguments, out, "--resume")
    run(*arguments, out, "--resume")
    assert out.read_bytes() == whole.read_bytes()
    if suffix == ".npy":
        expected = small_vit().embed(images).numpy()
        np.testing.assert_allclose(np.load(out), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("image", r"has results of other inputs than the first 16"),
        ("missing", r"has results of other inputs than the first 16"),
        ("new", r"has results of other inputs than the first 16"),
        ("model", r"was begun by another command \(differs in: MODEL\)"),
        ("option", r"was begun by another command \(differs in: --batch-size\)"),
        ("state", r"partial\.json: no key 'bytes'; remove \S+\.partial to begin anew"),
        ("cut", r"is shorter than it was"),
    ],
)
def test_another_run_is_refused(model, images, change, reason, tmp_path, monkeypatch):
    small_vit().save(tmp_path / "model")
    folder, out = tmp_path / "images", tmp_path / "out.jsonl"
    arguments = ["predict", tmp_path / "model", folder, *OPTIONS, "--out", out, "--resume"]
    stop(monkeypatch, 2, *arguments)
    partial, state = (tmp_path / f"out.jsonl.partial{end}" for end in ("", ".json"))
    kept = partial.read_bytes()
    match change:
        case "image":
            images[3].write_bytes(images[3].read_bytes() + b"more")
        case "missing":
            images[3].unlink()
        case "new":
            images[3].with_name("00000-new.png").write_bytes(images[3].read_bytes())
        case "model":
            small_vit(seed=1).save(tmp_path / "model", overwrite=True)
        case "option":
            arguments[arguments.index(8)] = 4
        case "state":
            state.write_text('{"command": {}, "inputs": 2}')
        case "cut":
            partial.write_bytes(kept[:-5])
    refused = run(*arguments, code=2)
    assert re.search(reason, refused.stderr) and not out.exists()
    assert partial.read_bytes() == (kept[:-5] if change == "cut" else kept)  # nothing is lost


def test_a_run_without_results_leaves_nothing(model, images, tmp_path):
    images[0].write_bytes(b"no image")
    out = tmp_path / "new" / "out.jsonl"
    refused = run("predict", model, tmp_path / "images", "--out", out, "--resume", code=2)
    assert "00000.png: cannot be read as an image" in refused.stderr
    assert not out.parent.exists()


@pytest.mark.parametrize("to_file", [False, True])
def test_what_other_threads_print_is_no_result(to_file, tmp_path, capsys):
    """Ray prints messages to standard output, from a thread of its own."""
    out = tmp_path / "out.txt" if to_file else None
    with results_to(out) as place, result_file.open_output(place) as progress:
        progress.write("a result\n")
        other = Thread(target=print, args=("a message",))
        other.start()
        other.join()
    printed = capsys.readouterr()
    assert (out.read_text() if out else printed.out) == "a result\n"
    assert "a message\n" in printed.err


def test_a_terminal_has_each_result_before_the_next_remark(capsys, monkeypatch):
    """It shows whole lines, while what goes to a pipe waits for more."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = []
    monkeypatch.setattr(sys.stdout, "write", shown.append)
    with results_to(None) as place, result_file.open_output(place) as progress:
        progress.write("ein Ergebnis für alle\n")
        assert shown == ["ein Ergebnis für alle\n"]


def test_what_cannot_be_resumed_is_refused(model, tmp_path):
    refused = run("predict", model, tmp_path, "--resume", code=2)
    assert "--resume: needs --out" in refused.stderr
    refused = run("predict", model, "--out", tmp_path / "out", "--resume", stdin="", code=2)
    assert "standard input cannot be read again" in refused.stderr


def test_two_runs_do_not_write_the_same_file(model, images, tmp_path):
    out = tmp_path / "out.jsonl"
    with result_file.open_output(out, result_file.Command({"verb": "predict"}, {})):
        arguments = ("predict", model, tmp_path / "images", "--out", out, "--resume")
        assert "in use by another run" in run(*arguments, code=2).stderr


def test_bulk_does_not_go_on_with_other_options(model, images, tmp_path, monkeypatch):
    out, folder = tmp_path / "out.jsonl", tmp_path / "images"
    given = {"task": "embed", "out": out, "device": "cpu", "workers": 0, "batch_size": 8}
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        with pytest.raises(Stop):
            regard.bulk(model, folder, options={"normalise": True}, **given)
    for others in ({"normalise": False}, None):
        with pytest.raises(regard.BadInput, match=r"begun by another command .differs in: options"):
            regard.bulk(model, folder, options=others, **given)
    assert regard.bulk(model, folder, options={"normalise": True}, **given).inputs == COUNT
    vectors = [json.loads(line)["vector"] for line in out.read_text().splitlines()]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_image_ends_the_run_or_is_skipped(model, images, workers, tmp_path):
    expected = run("predict", model, tmp_path / "images", *OPTIONS).stdout.splitlines(True)
    images[43].write_bytes(b"no image")
    out, bad = (
        tmp_path / "out.jsonl",
        f"{tmp_path / 'images'}:44: {images[43]}: cannot be read as an image",
    )
    arguments = ["predict", model, tmp_path / "images", *OPTIONS, "--out", out, "--resume"]
    arguments[arguments.index("--workers") + 1] = workers
    refused = run(*arguments, code=2)
    assert refused.stderr.startswith(f"regard: {bad}") and refused.stderr.count("\n") == 1
    partial = out.with_name("out.jsonl.partial")
    assert partial.read_text() == "".join(expected[:43])
    skipped = run(*arguments, "--skip-bad")
    assert "continues after 40 inputs" in skipped.stderr and bad in skipped.stderr
    assert "1 of 60 inputs were skipped" in skipped.stderr
    found = out.read_text().splitlines(True)
    assert [*found[:40], *found[48:]] == [*expected[:40], *expected[48:]]
    record = json.loads(found[43])
    assert record["image"] == str(images[43]) and record["label"] is None
    assert record["error"].startswith(bad)
    near = zip(found[40:43] + found[44:48], expected[40:43] + expected[44:48], strict=True)
    for line, other in near:
        assert json.loads(line)["label"] == json.loads(other)["label"]
    vectors = tmp_path / "vectors.npy"
    run("embed", model, tmp_path / "images", "--out", vectors, "--skip-bad", "--workers", 0)
    assert [*np.flatnonzero(~np.load(vectors).any(1))] == [43]


@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_statistics_of_images_that_workers_decode(model, verb, tmp_path):
    folder = tmp_path / "few"
    write_images(folder, 3)[1].write_bytes(b"no image")
    words = (verb, model, folder, "--device", "cpu", "--skip-bad")
    out = () if verb == "predict" else ("--out", tmp_path / "vectors.npy")
    printed = run(*words, *out, "--workers", 1).stderr
    assert re.search(r"^2 results of 3 inputs, 1 bad, 0 cut, \d+ tokens; ", printed, re.MULTILINE)
    assert ("; label: " if verb == "predict" else "; norm of vector: mean") in printed
    assert re.search(r"^[\d.]+ s: [\d,.]+ inputs/s, ", printed, re.MULTILINE)
    assert "results of" not in run(*words, "--workers", 0).stderr + run(*words).stderr


def test_names_of_any_bytes_are_read_and_printed_on_one_line(model, tmp_path):
    folder = tmp_path / "odd"
    (path,) = write_images(folder, 1)
    names = (b"\xff\xfe.png", b"a\nb\tc.png")
    paths = [
        path.rename(folder / "0" / os.fsdecode(names[0])),
        folder / "0" / os.fsdecode(names[1]),
    ]
    paths[1].write_bytes(paths[0].read_bytes())
    out = tmp_path / "out.jsonl"
    run("predict", model, folder, *OPTIONS, "--out", out, "--resume")
    records = [json.loads(line) for line in out.read_bytes().decode().splitlines()]
    assert [record["image"] for record in records] == sorted(map(str, paths))
    assert all(record["label"] for record in records)
    lines = run("predict", model, folder, "--workers", 0).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == [
        f"{folder}/0/a b c.png",
        f"{folder}/0/\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}.png",
    ]
    paths[0].write_bytes(b"no image")
    skipped = run("predict", model, folder, *OPTIONS, "--skip-bad")
    assert "\\udcff\\udcfe.png: cannot be read as an image" in skipped.stderr
    near = run("neighbours", model, paths[1], folder, "--skip-bad", "--json", "--workers", 0)
    assert json.loads(near.stdout)["neighbours"] == []


@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_a_folder_without_images_is_refused(model, verb, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    for resume in ((), ("--resume",)):
        command = (verb, model, folder, "--out", tmp_path / "out.jsonl", *resume)
        assert "texts: no JPEG, PNG or WebP in this folder" in run(*command, code=2).stderr
    assert [*tmp_path.iterdir()] == [folder]


@pytest.mark.parametrize("name", ["folder", "a.png"])
def test_a_model_of_texts_says_that_it_reads_no_images(name, tmp_path):
    Model(stored_bert("one")).save(tmp_path / "model")
    (tmp_path / "folder").mkdir()
    for verb in ("predict", "embed"):
        refused = run(verb, tmp_path / "model", tmp_path / name, code=2)
        assert f"{name}: this model reads texts" in refused.stderr


def test_a_single_bad_image_is_named_once(model, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    refused = run("predict", model, bad, code=2).stderr
    assert (
        refused.startswith(f"regard: {bad}: cannot be read as an image")
        and refused.count("bad.png") == 1
    )


def test_bad_texts_are_skipped_by_all_who_find_them(tmp_path):
    """Bytes that are no UTF-8, a line that cannot be parsed, and one that the model refuses."""
    stored = stored_bert("one")
    facts = change(stored.facts, segments=1)
    module = facts.build().eval()
    one = LoadedModel(stored.paper, facts, module, stored.tokenizer, stored.labels)
    Model(one).save(tmp_path / "model")
    (tmp_path / "in.txt").write_bytes(b"cat\n\xff\na\tb\tc\ncat\tboat\n\nstorm\n")
    done = run("predict", tmp_path / "model", tmp_path / "in.txt", "--skip-bad", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["label"] is None for one in records] == [False, True, True, True, True, False]
    assert [bool(one.get("error")) for one in records] == [False, True, True, True, False, False]
    assert "in.txt:2: not UTF-8" in done.stderr and "in.txt:4: the model reads one" in done.stderr
    assert "3 of 6 inputs were skipped" in done.stderr


@pytest.mark.slow
def test_memory_does_not_grow_with_the_folder(model, tmp_path):
    """The peak over 1,200 images is that over 200; each would be 768 bytes, or four times that.

    The lower of two peaks counts: what is imported meanwhile is no memory of images.
    """
    peaks = {200: [], 1_200: []}
    for count in peaks:
        write_images(tmp_path / str(count), count, folders=count // 100)
    for count in (*peaks, *peaks):
        gc.collect()
        tracemalloc.start()
        run("predict", model, tmp_path / str(count), *OPTIONS, "--out", tmp_path / "out.jsonl")
        peaks[count].append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (tmp_path / "out.jsonl").read_text().count("\n") == count
    few, many = map(min, peaks.values())
    assert many < few + 600_000  # what the garbage collector has not seen yet


@pytest.mark.slow
def test_few_images_are_decoded_ahead(images, tmp_path):
    """Of an endless folder, as many are read as there are places for."""
    listed = []

    class Endless(ImageSource):
        def lines(self, arrivals):
            for number in range(10**9):
                listed.append(number)
                yield os.fsencode(images[number % COUNT])

    processor = ImageProcessor(size=(8, 8))
    source = Endless("x", lambda line, where: line, processor=processor, workers=1, window=8)
    coming = source.read(source.numbered(Arrivals()), Arrivals())
    for number in range(100):
        line = next(coming)
        assert line.number == number + 1 and line.value.shape == (3, 8, 8)
    coming.close()
    assert len(listed) <= 100 + 5 * 8


@pytest.mark.slow
def test_images_are_decoded_as_their_paths_arrive(images):
    """Whoever writes a path and waits gets its result."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb", buffering=0) as ours:
        arrivals, processor = Arrivals(), ImageProcessor(size=(8, 8))
        source = ImageSource("-", lambda line, where: line, processor=processor, workers=1)
        lines = enumerate((one.strip() for one in arrivals.lines(stream)), start=1)
        coming = source.read(lines, arrivals)
        for number in range(40):  # more than are decoded without a worker
            ours.write(os.fsencode(images[number]) + b"\n")
            assert next(coming).text == str(images[number])
        coming.close()


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on(model, tmp_path):
    write_images(tmp_path / "images", 400)
    out, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    arguments = ("predict", model, tmp_path / "images", *OPTIONS)
    kill = (*arguments, "--out", out, "--resume")
    begin = (
        "from regard.experiments.bulk import result_file; result_file.EVERY = 0; "
        "from regard.cli import main; main()"
    )
    for size in (1, 20_000):
        process = WarmProcess("-c", begin, *kill)
        partial = out.with_name("out.jsonl.partial")
        while process.poll() is None and not (partial.exists() and partial.stat().st_size >= size):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL and not out.exists()
    assert "continues after" in run(*kill).stderr
    run(*arguments, "--out", whole)
    assert out.read_bytes() == whole.read_bytes()
