"""``--dry-run`` reads everything, says what training would be, and leaves nothing behind."""

import re
import tempfile
from dataclasses import replace

import numpy as np
import pytest

from regard.core.batch import BatchLimits
from regard.data.batches.sampler import Sampler
from regard.training import parallel
from regard.training.dry_run import EpochSize, count_epoch
from small import RECIPE, write_corpus
from small_labels import write_owls
from small_ranks import RECURRENT
from small_tuning import write_start, write_tuning
from verb import run


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder to work in, another for temporary files, and what lies in both."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(desk):
    """All but what torch writes among temporary files."""
    return sorted(path for path in desk.rglob("*") if not path.name.startswith("torchinductor"))


def tried(desk, recipe, *options):
    """What a dry run says, by its first word; nothing is there afterwards that was not before."""
    before = files_in(desk)
    said = run("train", recipe, "--data", desk, "--device", "cpu", "--dry-run", *options).stdout
    assert files_in(desk) == before
    assert said.endswith("nothing was written\n")
    return dict(re.findall(r"(?m)^(an? \w+|dropped|\w+) +(.*)$", said)), said


def test_a_translator(desk):
    write_corpus(desk)
    said, _ = tried(desk, desk / "small.toml")
    assert said["pairs"] == "train 120, dev 12, test 12"
    assert said["dropped"] == "none"
    assert said["vocabulary"] == "320"
    assert re.fullmatch(r"[\d,]+, all are trained", said["parameters"])
    assert re.fullmatch(r"\d+ batches, [\d,]+ tokens", said["an epoch"])
    assert said["training"].startswith("12 steps, ")
    assert "cpu, fp32: as asked; median of 12" in said["a step"]
    assert "on this machine, without scoring the development set" in said["estimated"]


def test_what_is_left_out_is_counted(desk):
    write_corpus(desk)
    source = desk / "train.src"
    lines = source.read_text().splitlines()
    source.write_text("\n".join(["", "owl " * 40, *lines[2:]]) + "\n")
    said, _ = tried(desk, desk / "small.toml", "--skip-bad")
    assert said["pairs"] == "train 119, dev 12, test 12"
    assert "1 empty" in said["dropped"] and "1 longer than 32 tokens" in said["dropped"]
    refused = run("train", desk / "small.toml", "--data", desk, "--dry-run", code=2)
    assert "train.src:1" in refused.stderr and not (desk / "runs").exists()


@pytest.mark.parametrize("kind", ["one", "number", "tags", "answer", "choose"])
def test_an_encoder_that_is_tuned(desk, kind):
    recipe = write_tuning(desk, kind)
    write_start(desk / "start")
    begin = ("model.start=start", "model.size=", "text=false", "model.change={}", "train.steps=3")
    options = [word for setting in begin for word in ("--set", setting)]
    frozen = ("--set", 'optimiser.freeze=["embed"]')
    said, _ = tried(desk, recipe, *options, *frozen)
    assert said["examples"] == "train 96, dev 24, test 24"
    assert ("labels" in said) == (kind in ("one", "tags"))
    every, trained = map(int, re.findall(r"[\d]+", said["parameters"].replace(",", "")))
    assert trained < every
    assert "median of 3" in said["a step"]


def test_a_classifier_and_its_seeds(desk):
    recipe = write_owls(desk)
    said, whole = tried(desk, recipe, "--seeds", 3, "--set", "train.steps=2")
    assert said["examples"].startswith("train 240, dev 40") and said["labels"] == "2"
    assert "all 3 seeds: about " in whole


def test_faults_of_the_data_are_printed(desk):
    header, rows = "text,label\n", [f"owl {n},hoot\ncow {n},moo\n" for n in range(20)]
    (desk / "train.csv").write_text(header + "".join(rows) + "owl 1,hoot\nowl 2,moo\n")
    (desk / "test.csv").write_text(header + "owl 3,hoot\nyak,moo\n")
    recipe = desk / "first.toml"
    run("new", desk / "train.csv", "--out", recipe)
    recipe.write_text(recipe.read_text().replace("held_out = 4", "held_out = 30"))
    said, whole = tried(desk, recipe, "--set", "train.epochs=1")
    assert said["labels"] == "2" and "train 12, dev 30, test 2" in whole
    counts = dict(re.findall(r"counts      (\w+): (.*)", whole))
    totals = {name: sum(map(int, re.findall(r"' (\d+)", line))) for name, line in counts.items()}
    assert totals == {"train": 12, "dev": 30, "test": 2}
    assert "counts      test: 'hoot' 1 (50.0%), 'moo' 1 (50.0%)" in whole
    leaks = re.findall(r"leaks +test: (\d) of 2 examples are also in (?:train|dev)", whole)
    assert sum(map(int, leaks)) == 1 and "lengths     test: 1 to 2 words" in whole


def test_a_header_taken_as_an_example_shows_up(desk):
    rows = "".join(f"owl {n},hoot\ncow {n},moo\n" for n in range(20))
    (desk / "train.csv").write_text("text,label\n" + rows)
    recipe = desk / "first.toml"
    run("new", desk / "train.csv", "--out", recipe)
    numbers = "options = { texts = [0], label = 1, header = false }"
    recipe.write_text(re.sub("options = {.*?} }", numbers + " }", recipe.read_text()))
    _, whole = tried(desk, recipe, "--set", "train.epochs=1")
    assert "'label' 1 (" in whole


@pytest.mark.slow
def test_a_ladder_is_tried_rung_by_rung(desk):
    write_corpus(desk)
    model = 'model = {{ size = "laptop", change = {{ width = {}, heads = 2 }} }}\n'
    rung = '[[rung]]\nname = "{}"\n' + model
    (desk / "ladder.toml").write_text(RECIPE + rung.format("narrow", 8) + rung.format("wide", 16))
    _, said = tried(desk, desk / "ladder.toml", "--set", "train.steps=2")
    assert said.startswith("narrow\n") and "\nwide\n" in said and "all 2 rungs: about " in said
    assert len(set(re.findall(r"parameters +([\d,]+)", said))) == 2
    _, said = tried(desk, desk / "ladder.toml", "--set", "train.steps=2", "--seeds", 2)
    assert "all 2 rungs, 2 seeds: about " in said
    _, said = tried(desk, desk / "ladder.toml", "--rung", "wide", "--set", "train.steps=2")
    assert "narrow" not in said and "all " not in said.replace("all are", "")


PRETRAIN = """
task = "pretrain"

[data]
train = { documents = "animals.txt" }
dev = { held_out = 2 }

[text]
kind = "wordpiece"
vocab = 110

[model]
paper = "bert"
size = "tiny"
change = { width = 16, inner = 32, depth = 1, heads = 2, longest = 32 }

[batches]
tokens = 256
longest = 32

[optimiser]
rate = 5e-3

[train]
steps = 2
precision = "fp32"
"""


def test_documents_to_pretrain_on(desk):
    recipe, sentences = desk / "animals.toml", "the owl sees a cow\na dog sees the hen\n"
    recipe.write_text(PRETRAIN)
    (desk / "animals.txt").write_text("\n".join([sentences * 6] * 12))
    said, _ = tried(desk, recipe)
    assert said["documents"] == "train 10, dev 2" and said["training"].startswith("2 steps")


def test_it_neither_resumes_nor_spends_more_than_its_budget(desk):
    write_corpus(desk)
    run("train", desk / "small.toml", "--data", desk, "--dry-run", "--resume", code=2)
    said, _ = tried(desk, desk / "small.toml", "--set", "train.steps=1000000", "--budget", "2s")
    assert "would end it after about" in said["budget"]


def test_a_long_epoch_is_estimated():
    class Thousand:
        window = 100

        def __len__(self):
            return 1_000

        def lengths(self, length, epoch, indices):
            return np.array([length(index) for index in indices])

    sampler = Sampler(Thousand(), lambda index: (4,), BatchLimits(16, 4, 8), seed=1)
    assert count_epoch(sampler) == EpochSize(250, 4_000)
    assert count_epoch(sampler, limit=-1.0) == EpochSize(250, 4_000, estimated=True)
    short = replace(sampler, objective=lambda index: (9 if index % 2 else 4,))
    assert np.isclose(count_epoch(short).tokens, 2_000)
    assert short.dropped["longer than 8 tokens"] == 500


def test_memory_and_time_of_one_of_many_processes(desk):
    write_corpus(desk)
    sharded = ("--set", "distributed.kind=fsdp", "--ranks", "64", "--gpu", "h100-80g")
    said, whole = tried(desk, desk / "small.toml", *sharded)
    assert said["processes"] == "64, distributed.kind = 'fsdp'"
    assert said["fits"] == "h100-80g: 73.6 GiB are usable"
    expected = r"at least [\d.e-]+ s: [\d.e+]+ FLOPs at 43% MFU of 784 TFLOP/s \(as GPT-2 XL on .*"
    assert re.fullmatch(expected, said["a step"])
    assert said["weights"].endswith(" MiB") and "not counted" not in whole
    alone, whole = tried(desk, desk / "small.toml", *sharded[2:3], "1", *sharded[4:])
    assert "at 52% MFU of 784 TFLOP/s (as GPT-2 on one H200" in alone["a step"]
    _, divided = tried(desk, desk / "small.toml", *sharded[:3], "1", *sharded[4:])
    assert divided == whole  # one process has nothing to divide


def test_whole_gradients_are_not_divided_however_large_the_model(desk, monkeypatch):
    write_corpus(desk)
    monkeypatch.setattr(parallel, "ROOM", 0.0)
    options = ("--ranks", "4", "--gpu", "t4-16g", "--set")
    said, _ = tried(desk, desk / "small.toml", *options, "distributed.exact=true")
    assert said["processes"] == "4, distributed.kind = 'ddp'"
    said, _ = tried(desk, desk / "small.toml", *options, "distributed.reshard=false")
    assert said["processes"] == "4, distributed.kind = 'fsdp'"


def test_memory_that_is_not_counted_is_named(desk):
    write_corpus(desk)
    changes = [word for change in RECURRENT for word in ("--set", change)]
    _, said = tried(desk, desk / "small.toml", "--ranks", "2", *changes)
    assert "\nnot counted activations of recurrent and convolutional layers\n" in said
