"""Training on a mixture of corpora: shares in the log, exact resuming, prepared data, mistakes."""

import json
import shutil
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from regard.core.errors import BadInput
from regard.data.batches.sampler import START
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.steps import read_steps
from regard.training.prepared_data import prepare_data
from regard.training.recipe import read
from regard.training.run import prepare
from small import journal_of, tensors_of, write_corpus
from small_documents import write_animals
from small_labels import write_owls
from small_ranks import STILL, losses
from small_rnn import write_streams
from thread_ranks import run_ranks
from verb import run

ALONE = World(0, 1, torch.device("cpu"))
MIX = "data.mix={news=3.0, web=1.0}"


def write_corpora(folder):
    """Two corpora of pairs, of 40 and 120, and a recipe that mixes them 3 to 1."""
    recipe = write_corpus(folder)
    for name, lines in (("news", 40), ("web", 120)):
        (folder / name).mkdir()
        for side in ("src", "tgt"):
            text = (folder / f"train.{side}").read_text().splitlines(True)[:lines]
            (folder / name / f"train.{side}").write_text("".join(text))
    for side in ("src", "tgt"):
        (folder / f"train.{side}").unlink()
    text = recipe.read_text().replace("[text]", "[data.mix]\nnews = 3.0\nweb = 1.0\n\n[text]")
    recipe.write_text(text)
    return recipe


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("corpora")).parent


def prepared(corpora, out, *settings, **limits):
    return prepare(read(corpora / "small.toml", settings), out, ALONE, data=corpora, **limits)


def test_the_log_counts_the_examples_of_each_corpus(corpora, tmp_path):
    out = tmp_path / "run"
    short = ("--set", "train.steps=6", "--set", "data.test=")
    done = run("train", corpora / "small.toml", "--data", corpora, "--out", out, *short)
    said = done.stderr
    assert "an epoch has 160 examples: news 75.0% (120 examples, 3 rounds), web 25.0%" in said
    assert "  news " in said and "%  web " in said
    last = [line for line in journal_of(out) if line["event"] == "train"][-1]
    news, web = last["news examples"], last["web examples"]
    assert news + web > 50 and 0.65 < news / (news + web) < 0.85
    dry = ("--data", corpora, "--dry-run", "--device", "cpu")
    said = run("train", corpora / "small.toml", *dry).stdout
    assert "train 160, dev 12" in said and "news 75.0%" in said


@pytest.mark.parametrize("dropout", ["text.dropout=0.0", "text.dropout=0.2"])
def test_a_mixture_is_resumed_exactly(corpora, tmp_path, dropout):
    whole = prepared(corpora, tmp_path / "whole", dropout)
    *_, end = train(whole.job)
    stop = iter([False] * 4 + [True])
    part = prepared(corpora, tmp_path / "part", dropout, stop_requested=lambda: next(stop))
    *_, stopped = train(part.job)
    assert stopped.progress.step == 5 and sum(stopped.progress.corpora.values()) > 0
    part.release()
    again = prepared(corpora, tmp_path / "part", dropout, resume=True)
    *_, resumed = train(again.job, resume=True)
    assert resumed.progress.corpora == end.progress.corpora
    assert tensors_of(tmp_path / "part", 12) == tensors_of(tmp_path / "whole", 12)


def test_any_number_of_processes_reads_the_same_steps(corpora, tmp_path):
    """Two processes read the rows of one, half of them each."""
    job = prepared(corpora, tmp_path / "run").job
    alone = [*islice(read_steps(job, START), 12)]

    def steps(world):
        return [*islice(read_steps(replace(job, world=world), START), 12)]

    for whole, *parts in zip(alone, *run_ranks(2, steps), strict=True):
        for part in parts:
            assert part.sums.corpora == whole.sums.corpora and part.cursor == whole.cursor
        rows = [_texts(part) for part in parts]
        assert sorted(rows[0] + rows[1]) == sorted(_texts(whole))


def _texts(step):
    return [repr([list(side) for side in pair]) for part in step.slices for pair in part.examples]


@pytest.mark.slow
def test_two_ranks_give_the_same_losses(tmp_path):
    alone, together = losses(write_corpora(tmp_path), STILL)
    assert len(alone) == 14 and together == pytest.approx(alone, abs=1e-5)


def test_prepared_corpora_are_mixed_by_any_weights(corpora, tmp_path):
    recipe, folder = corpora / "small.toml", tmp_path / "prepared"
    done = run("prepare", recipe, "--data", corpora, "--out", folder)
    assert "training (news): 40 examples" in done.stdout
    assert "training (web): 120 examples" in done.stdout
    record = json.loads((folder / "prepared.json").read_text())
    assert {*record["sets"]} == {"mix.news", "mix.web", "dev"}
    train = ("train", recipe, "--data", corpora, "--device", "cpu", "--set", "train.steps=2")
    run(*train, "--out", tmp_path / "a", code=None)
    run(*train, "--out", tmp_path / "b", "--prepared", folder, code=None)
    weights = [tmp_path / name / "model" / "model.safetensors" for name in "ab"]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    other = ("--set", "data.mix.web=9", "--out", tmp_path / "c", "--prepared", folder)
    assert "web 75.0%" in run(*train, *other, code=None).stderr
    less = ("--set", "data.mix={news=1.0}", "--out", tmp_path / "d", "--prepared", folder)
    assert "differs in: data" in run(*train, *less, code=2).stderr


def test_a_corpus_in_a_folder_of_a_folder_has_shards_of_its_own(corpora, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(corpora, data)
    (data / "old").mkdir()
    shutil.copytree(data / "news", data / "old" / "news")
    settings = ('data.mix={"old/news"=1.0, "news"=1.0}',)
    prepare_data(read(data / "small.toml", settings), tmp_path / "out", data=data)
    names = {path.name for path in (tmp_path / "out" / "data").iterdir()}
    assert "mix.old%2Fnews.json" in names and "mix.news.json" in names


@pytest.fixture(scope="module")
def animals(tmp_path_factory):
    """Two corpora of documents, and a development set."""
    folder = write_animals(tmp_path_factory.mktemp("animals"))
    documents = (folder / "animals.txt").read_text().strip().split("\n\n")
    for name, part in (("news", documents[:4]), ("web", documents[4:20])):
        (folder / name).mkdir()
        (folder / name / "animals.txt").write_text("\n\n".join(part) + "\n")
    (folder / "dev.txt").write_text("\n\n".join(documents[20:]) + "\n")
    return folder


def pretraining(animals, out, *settings, resume=False, **limits):
    words = (MIX, "data.dev={documents='dev.txt'}", *settings)
    recipe = read(animals / "animals.toml", words)
    return prepare(recipe, out, ALONE, data=animals, resume=resume, **limits)


@pytest.mark.parametrize("setting", ["objective.next-sentence={}", "objective.next-sentence=false"])
def test_documents_are_mixed_and_resumed(animals, tmp_path, setting):
    whole = pretraining(animals, tmp_path / "whole", setting)
    mixture = whole.job.sampler.dataset
    shares = mixture.shares
    assert shares["news"] == pytest.approx(0.75 * len(mixture), abs=1)
    assert shares["news"] > 2 * len(mixture.corpora["news"])  # it is read again and again
    *_, end = train(whole.job)
    stop = iter([False] * 4 + [True])
    part = pretraining(animals, tmp_path / "part", setting, stop_requested=lambda: next(stop))
    [*train(part.job)]
    part.release()
    again = pretraining(animals, tmp_path / "part", setting, resume=True)
    *_, resumed = train(again.job, resume=True)
    assert resumed.progress.corpora == end.progress.corpora
    assert tensors_of(tmp_path / "part", 12) == tensors_of(tmp_path / "whole", 12)


def test_masks_of_a_repeated_document_differ_by_round(animals, tmp_path):
    """A corpus of one row that is read several times in an epoch has other masks each time."""
    job = pretraining(animals, tmp_path / "run", "objective.next-sentence=false").job
    mixture, seen = job.sampler.dataset, {}
    for example in mixture.read(0, np.arange(mixture.shares["news"])):
        tokens = np.array(example.row.tokens)
        tokens[example.positions["mlm"]] = example.targets["mlm"]
        seen.setdefault(tokens.tobytes(), []).append(tuple(example.positions["mlm"]))
    repeated = [masks for masks in seen.values() if len(masks) > 1]
    assert repeated and all(len({*masks}) > 1 for masks in repeated)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.mix.news=0", r"data\.mix\.news: Input should be greater than 0"),
        ("data.mix.news=-1.5", r"data\.mix\.news: Input should be greater than 0"),
        ("data.mix=3", r"data\.mix: write a table of weights by folder"),
        ("data.mix.blog=1.0", r"blog: no such folder; data\.mix names it as a corpus"),
        *(
            (f'data.mix={{"{name}"=1.0}}', rf"data\.mix: '{name}' is not the name of a folder in")
            for name in ("../corpora", "news/../../web", "/tmp", "", ".")
        ),
        ("data.dev={held_out=3}", "dev.held_out cannot be used with mix"),
        ("data.train={source='-', target='train.tgt'}", "train cannot be standard input"),
        ("data.train={documents='train.src'}", "documents can only be used with task"),
        ("data.train={source='train.src', target='x'}", r"news/x: cannot be read \(No such file"),
    ],
)
def test_mistakes(corpora, tmp_path, setting, message):
    with pytest.raises(BadInput, match=message) as error:
        prepared(corpora, tmp_path / "run", setting)
    assert "\n" not in str(error.value) and not (tmp_path / "run").exists()


def test_an_empty_corpus_is_refused(corpora, animals, tmp_path):
    for folder, name in ((corpora, "small.toml"), (animals, "animals.toml")):
        data = tmp_path / name
        shutil.copytree(folder, data)
        for path in (data / "web").iterdir():
            path.write_text("")
        settings = () if folder == corpora else (MIX, "data.dev={documents='dev.txt'}")
        with pytest.raises(BadInput, match=r"data\.mix\.web: no (pairs|documents) in "):
            prepare(read(data / name, settings), tmp_path / "run", ALONE, data=data)


def test_streams_and_other_tasks_cannot_be_mixed(tmp_path):
    with pytest.raises(BadInput, match=r"data\.mix cannot be used with task 'classify'"):
        read(write_owls(tmp_path), (MIX,))
    write_streams(tmp_path)
    with pytest.raises(BadInput, match=r"data\.mix cannot be used where each row of a batch"):
        read(tmp_path / "lstm.toml", (MIX, "data.dev={documents='dev.txt'}"))
