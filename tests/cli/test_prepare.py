"""Data that is prepared once: the same bytes whoever tokenises, and the same training."""

import json
from functools import partial

import numpy as np
import pytest

from regard.data.batches import shards
from regard.data.batches.shards import Chunk, TokenShard, write_staged
from regard.ground.workers import Workers
from regard.training import prepared_data
from regard.training.prepared_data import prepare_data, shard_statistics
from regard.training.recipe import read
from small import write_corpus
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
    monkeypatch.setattr(prepared_data, "HASHES", 4)
    monkeypatch.setattr(shards, "CHUNK", 3)
    sides = [[[1, 2], [1], [1, 2], [3], [1, 2], [1, 2]], [[5], [6], [5], [], [7], [5]]]
    paths = [tmp_path / f"train.{side}" for side in ("source", "target")]
    write_staged(paths, [9, 9], [Chunk(sides)], tmp_path / "train.json")
    found = shard_statistics(tmp_path / "train")
    assert (found.examples, found.duplicates) == (6, 2)
    assert found.lengths["source"]["tokens"] == 10 and found.lengths["source"]["longest"] == 2
    assert found.lengths["target"]["mean"] == 5 / 6
    rows = [row for block in TokenShard.blocks_at(paths[0]) for row in block]
    assert all(np.array_equal(row, other) for row, other in zip(rows, sides[0], strict=True))
    assert shard_statistics(tmp_path / "other") is None
