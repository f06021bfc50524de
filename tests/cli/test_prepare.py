"""Data that is prepared once: the same bytes whoever tokenises, and the same training."""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.core.workers import Workers
from regard.data.batches import shards
from regard.data.batches.shards import (
    Chunk,
    TokenShard,
    count_bits,
    read_blocks,
    repeated_rows,
    write_staged,
    write_unique,
)
from regard.training.prepared_data import prepare_data, shard_statistics
from regard.training.recipe import read
from small import write_corpus
from small_documents import write_animals
from small_labels import write_owls
from verb import run


class Inline(Workers):
    """Workers in this process."""

    def __init__(self, begin):
        super().__init__(3)
        self.work, self.jobs = begin(), 0

    def close(self):
        self.work = None

    def submit(self, job):
        self.jobs += 1
        return partial(self.work, *job)


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path, depth=1)
    return tmp_path


def files_of(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def test_workers_write_the_same_bytes(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "CHUNK", 7)
    recipe, started = read(corpus / "small.toml"), []

    def start(begin):
        started.append(Inline(begin))
        return started[-1]

    prepare_data(recipe, tmp_path / "alone", data=corpus)
    prepare_data(recipe, tmp_path / "shared", data=corpus, start_workers=start)
    assert files_of(tmp_path / "alone") == files_of(tmp_path / "shared")
    assert [one.jobs > 1 for one in started] == [True, True]  # of train and dev


def test_training_reads_what_was_prepared(corpus, tmp_path):
    prepared, recipe = tmp_path / "prepared", corpus / "small.toml"
    done = run("prepare", recipe, "--data", corpus, "--out", prepared)
    assert "training: " in done.stdout and "duplicates" in done.stdout
    record = json.loads((prepared / "prepared.json").read_text())
    assert record["complete"] and {*record["sets"]} == {"train", "dev"}
    before = files_of(prepared)
    train = ("train", recipe, "--data", corpus, "--device", "cpu", "--set", "train.steps=2")
    run(*train, "--out", tmp_path / "a", code=None)
    run(*train, "--out", tmp_path / "b", "--prepared", prepared, code=None)
    weights = [tmp_path / name / "model" / "model.safetensors" for name in "ab"]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert files_of(prepared) == before and not (tmp_path / "b" / "data").exists()
    changed = run(
        *train, "--set", "text.vocab=30", "--out", tmp_path / "c", "--prepared", prepared, code=2
    )
    assert "was prepared by another recipe (differs in: text)" in changed.stderr
    source = next(path for path in corpus.glob("train*") if path.is_file())
    source.write_text(source.read_text() + source.read_text().splitlines(True)[0])
    changed = run(*train, "--out", tmp_path / "d", "--prepared", prepared, code=2)
    assert "was not prepared from these files" in changed.stderr
    assert files_of(prepared) == before and not (tmp_path / "d").exists()


def test_what_is_complete_is_kept_and_what_was_stopped_is_done_again(corpus, tmp_path, monkeypatch):
    recipe, out = read(corpus / "small.toml"), tmp_path / "prepared"
    with monkeypatch.context() as patch:
        patch.setattr(shards._Staged, "publish", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare_data(recipe, out, data=corpus)
    train = ("train", corpus / "small.toml", "--data", corpus, "--out", tmp_path / "run")
    refused = run(*train, "--prepared", out, code=2)
    assert "is incomplete; prepare the data again" in refused.stderr
    learned = (out / "text").stat().st_mtime_ns
    prepare_data(recipe, out, data=corpus)
    assert (out / "text").stat().st_mtime_ns == learned
    files = {path: path.stat().st_mtime_ns for path in (out / "data").iterdir()}
    prepare_data(recipe, out, data=corpus)
    assert files == {path: path.stat().st_mtime_ns for path in (out / "data").iterdir()}


def test_a_tokenizer_is_learned_anew_from_changed_files(corpus, tmp_path):
    recipe, out = corpus / "small.toml", tmp_path / "prepared"
    prepare = ("prepare", recipe, "--data", corpus, "--out")
    run(*prepare, out)
    learned = files_of(out / "text")
    for side in ("src", "tgt"):
        path = corpus / f"train.{side}"
        path.write_text(path.read_text().upper())
    run(*prepare, out)
    run(*prepare, tmp_path / "new")
    assert files_of(out / "text") == files_of(tmp_path / "new" / "text") != learned
    assert files_of(out / "data") == files_of(tmp_path / "new" / "data")


def test_a_tokenizer_of_documents_is_learned_anew(tmp_path):
    folder = write_animals(tmp_path)
    recipe, out = read(folder / "animals.toml"), tmp_path / "prepared"
    prepare_data(recipe, out, data=folder)
    learned, path = files_of(out / "text"), folder / "animals.txt"
    path.write_text(path.read_text().replace("a", "o"))
    prepare_data(recipe, out, data=folder)
    prepare_data(recipe, tmp_path / "new", data=folder)
    assert files_of(out / "text") == files_of(tmp_path / "new" / "text") != learned


def stop(*_):
    raise KeyboardInterrupt


def test_other_folders_and_tasks_are_refused(corpus, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    command = ("prepare", corpus / "small.toml", "--data", corpus, "--out")
    assert "has files that were not prepared" in run(*command, tmp_path / "mine", code=2).stderr
    labels = write_owls(tmp_path)
    refused = run("prepare", labels, "--data", tmp_path, "--out", tmp_path / "no", code=2)
    assert "keeps its examples in memory" in refused.stderr and not (tmp_path / "no").exists()


def test_statistics_count_lengths_and_duplicates(tmp_path, monkeypatch):
    """Duplicates are pairs of equal sides; they are counted in parts of few hashes."""
    monkeypatch.setattr(shards, "HASHES", 4)
    monkeypatch.setattr(shards, "CHUNK", 3)
    monkeypatch.setattr(shards, "BLOCK", 4)
    sides = [[[1, 2], [1], [1, 2], [3], [1, 2], [1, 2]], [[5], [6], [5], [], [7], [5]]]
    paths = [tmp_path / f"train.{side}" for side in ("source", "target")]
    write_staged(paths, [9, 9], [Chunk(sides)], tmp_path / "train.json")
    found = shard_statistics(tmp_path / "train")
    assert (found.examples, found.duplicates) == (6, 2)
    assert found.lengths["source"]["tokens"] == 10 and found.lengths["source"]["longest"] == 2
    assert found.lengths["target"]["mean"] == 5 / 6
    blocks = [*read_blocks(paths)]
    assert [len(source) for source, _ in blocks] == [1, 1, 1, 2, 1]
    rows = [row for source, _ in blocks for row in source]
    assert all(np.array_equal(row, other) for row, other in zip(rows, sides[0], strict=True))
    assert shard_statistics(tmp_path / "other") is None


ROWS = st.lists(st.tuples(*[st.lists(st.integers(0, 1), max_size=2)] * 2), min_size=1, max_size=30)
FEW = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@settings(**FEW, max_examples=40)
@given(ROWS, st.integers(1, 5), st.integers(1, 4))
def test_the_first_of_equal_rows_stays(tmp_path, rows, chunk, hashes):
    """Whatever the sizes of chunks and of parts, in the order of the files."""
    paths = [tmp_path / f"train.{side}" for side in ("source", "target")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "HASHES", hashes)
        patch.setattr(shards, "CHUNK", chunk)
        patch.setattr(shards, "BLOCK", 3)
        parts = [rows[i : i + chunk] for i in range(0, len(rows), chunk)]
        chunks = [Chunk([*zip(*part, strict=True)]) for part in parts]
        left_out = write_unique(paths, [2, 2], chunks, tmp_path / "train.json")
        bits = repeated_rows(paths)
    first = [*dict.fromkeys((tuple(source), tuple(target)) for source, target in rows)]
    written = [[tuple(row.tolist()) for row in TokenShard(path)] for path in paths]
    assert [*zip(*written, strict=True)] == first
    assert left_out == len(rows) - len(first) and count_bits(bits) == 0
    assert not [*tmp_path.glob("all.*")]


def repeat_lines(corpus, times):
    for side in ("src", "tgt"):
        path = corpus / f"train.{side}"
        path.write_text(path.read_text() * times)


def test_duplicates_are_left_out_whoever_tokenises(corpus, tmp_path, monkeypatch):
    """The training set is that of the lines without repetition; the development set stays."""
    monkeypatch.setattr(shards, "CHUNK", 7)
    repeat_lines(corpus, 2)
    for side in ("src", "tgt"):
        path = corpus / f"dev.{side}"
        path.write_text(path.read_text() * 2)
    recipe, unique = read(corpus / "small.toml"), {"deduplicate": True, "data": corpus}
    counted = prepare_data(recipe, tmp_path / "all", data=corpus)["train"]
    found = prepare_data(recipe, tmp_path / "alone", **unique)
    prepare_data(recipe, tmp_path / "shared", start_workers=Inline, **unique)
    assert files_of(tmp_path / "alone") == files_of(tmp_path / "shared")
    assert counted.duplicates >= 120 and found["train"].duplicates == 0
    assert found["train"].left_out == counted.duplicates
    assert found["train"].examples == counted.examples - counted.duplicates
    assert found["dev"].examples == 24 and found["dev"].duplicates >= 12
    left_out = f"{counted.duplicates} duplicates left out"
    assert left_out in next(found["train"].lines)


def test_data_that_is_refused_leaves_no_folder(corpus, tmp_path):
    with (corpus / "train.src").open("a") as file:
        file.write("one line more\n")
    words = ("prepare", corpus / "small.toml", "--data", corpus, "--out")
    assert "train.src" in run(*words, tmp_path / "deep" / "prepared", code=2).stderr
    assert not (tmp_path / "deep").exists()
    refused = run(*words, corpus / "small.toml", code=2).stderr
    assert "small.toml" in refused and "not prepared" not in refused


def test_training_reads_a_folder_without_duplicates(corpus, tmp_path):
    repeat_lines(corpus, 2)
    recipe, out = corpus / "small.toml", tmp_path / "prepared"
    prepare = ("prepare", recipe, "--data", corpus, "--out", out)
    assert "duplicates left out" in run(*prepare, "--deduplicate").stdout
    refused = run(*prepare, code=2).stderr
    assert "was prepared with --deduplicate; give the option, or choose another folder" in refused
    train = ("train", recipe, "--data", corpus, "--device", "cpu", "--set", "train.steps=1")
    run(*train, "--out", tmp_path / "run", "--prepared", out, code=None)
    assert not (tmp_path / "run" / "data").exists()
    held_out = ("--set", "data.dev={held_out=4}", "--deduplicate", "--out", tmp_path / "no")
    refused = run("prepare", recipe, "--data", corpus, *held_out, code=2).stderr
    assert "duplicates cannot be left out: data.dev.held_out" in refused
    assert not (tmp_path / "no").exists()


def test_documents_that_occur_before_are_left_out(tmp_path):
    folder = write_animals(tmp_path)
    text = (folder / "animals.txt").read_text().strip()
    (folder / "animals.txt").write_text(f"{text}\n\n{text}\n")
    (folder / "dev.txt").write_text(text + "\n")
    recipe = read(folder / "animals.toml", ["data.dev={documents='dev.txt'}"])
    every = prepare_data(recipe, tmp_path / "all", data=folder)["train"]
    unique = prepare_data(recipe, tmp_path / "unique", data=folder, deduplicate=True)["train"]
    assert (every.examples, every.duplicates) == (48, 24)
    assert (unique.examples, unique.duplicates, unique.left_out) == (24, 0, 24)
