"""Pre-training by span corruption end to end: it learns, resumes exactly, and fills spans."""

import itertools

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.objectives.span_corruption import SpanCorruption
from regard.training.loop.events import DevEvent
from small_runs import prepared
from small_spans import write_spans

HEAD = SpanCorruption.head


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_spans(tmp_path_factory.mktemp("spans"))


def restored(example, words):
    """The tokens of a row before corruption."""
    marks, targets = {*words.sentinels}, example.targets[HEAD][1:-1]
    at = [i for i, token in enumerate(targets) if token in marks]
    spans = {targets[a]: targets[a + 1 : b] for a, b in itertools.pairwise(at)}
    row = example.row.tokens[:-1]
    return [int(word) for token in row for word in (spans[token] if token in marks else [token])]


def test_rows_restore_the_documents(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run")
    words, dataset = run.tokenizer.source, run.job.sampler.dataset
    rows = dataset.read(0, np.arange(len(dataset)))
    size = SpanCorruption().draw.row_size(32)
    texts = corpus.with_name("train.txt").read_text().split("\n\n")
    tokens = [token for text in texts for token in words.encode(text)]
    assert [token for row in rows for token in restored(row, words)] == tokens[
        : sum(len(restored(row, words)) for row in rows)
    ]
    assert len(tokens) - sum(len(restored(row, words)) for row in rows) <= 1
    assert {len(restored(row, words)) for row in rows[:-1]} == {size}
    lengths = dataset.lengths(run.job.objective, 0, np.arange(len(dataset)))
    assert lengths.tolist() == [[*run.job.objective.length(row)] for row in rows]
    assert lengths.max() <= 32
    for row in rows:
        assert row.row.tokens[-1] == words.eos == row.targets[HEAD][-1]
        assert row.targets[HEAD][0] == words.pad
    again = dataset.read(1, np.arange(len(dataset)))
    assert any(
        a.row.tokens.tolist() != b.row.tokens.tolist() for a, b in zip(rows, again, strict=True)
    )
    run.release()


def test_it_learns_to_fill_spans(corpus, tmp_path):
    settings = {
        "model.change": {"width": 32, "inner": 64, "depth": 1, "heads": 2, "dropout": 0.0},
        "train.steps": 150,
        "train.evaluate_every": 25,
        "train.checkpoint_every": 150,
        "train.smoothing": 0.0,
    }
    events = [*regard.train(corpus, corpus.parent, tmp_path / "run", settings=settings)]
    figures = [event.verdict.figures for event in events if isinstance(event, DevEvent)]
    assert figures[-1]["loss"] < 0.7 * figures[0]["loss"]
    assert figures[-1]["accuracy"] > figures[0]["accuracy"]
    assert figures[-1]["perplexity"] == pytest.approx(np.exp(figures[-1]["loss"]))
    model = regard.load(tmp_path / "run" / "model", "cpu")
    (best, *_), *_ = model.translate(["ada bit <extra_id_0> elf fox gnu"])
    assert best.text.startswith("<extra_id_0>")
    model.save(tmp_path / "again")
    again = regard.load(tmp_path / "again", "cpu")
    assert (
        again.translate(["ada <extra_id_0> cow"])[0][0]
        == (model.translate(["ada <extra_id_0> cow"])[0][0])
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["model.paper=bert", "model.size=tiny", "model.change={}"], "is not an encoder-decoder"),
        (["objective.masked-lm.rate=0.1"], "span-corruption and masked-lm cannot be combined"),
        (["batches.longest=3"], "batches.longest: 3 tokens have no room for a span"),
        (["text.lower=true"], "text.lower cannot be used"),
        (["objective.span-corruption.rate=0.9"], "objective.span-corruption.rate"),
        (["data.test={documents='dev.txt'}"], "data.test"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(corpus, settings, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        prepared(corpus, tmp_path / "run", *settings)


def test_other_objectives_need_another_model(corpus, tmp_path):
    settings = "objective.span-corruption=false", "objective.masked-lm.rate=0.1"
    with pytest.raises(BadInput, match=r"model.paper: transformer is an encoder-decoder"):
        prepared(corpus, tmp_path / "run", *settings)


def test_pretraining_goes_on_from_a_folder(corpus, tmp_path):
    [*regard.train(corpus, corpus.parent, tmp_path / "run", device="cpu")]
    start = tmp_path / "run" / "model"
    settings = [f"model.start={start}", "model.size=", "text=false", "model.change={}"]
    run = prepared(corpus, tmp_path / "on", *settings)
    given = regard.load(start, "cpu").module.state_dict()
    now = run.job.model.state_dict()
    assert all(torch.equal(given[name], now[name]) for name in given)
    run.release()
