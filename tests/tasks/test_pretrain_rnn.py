"""Recurrent language models on streams of text: state is carried, in training and evaluation."""

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.core.pytree import tensors_in
from regard.objectives.causal_lm import CausalLM
from regard.objectives.sum import Sum
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.loop.trainer import Trainer
from regard.training.recipe import read
from regard.weights.files import weights_of
from small_labels import write_owls
from small_rnn import prepared, write_streams
from small_runs import check_resume, losses
from verb import run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_streams(tmp_path_factory.mktemp("animals"))


@pytest.mark.thinned
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_it_learns(corpus, tmp_path, cell):
    once = [f"train.{what}=60" for what in ("steps", "evaluate_every", "checkpoint_every")]
    settings = (*once, "optimiser.rate=2e-2")
    run = prepared(corpus, tmp_path / "run", *settings, f"model.change.cell={cell}")
    events = list(train(run.job))
    first, *_, last = [event.loss for event in events if isinstance(event, ReportEvent)]
    assert last < 0.8 * first
    (dev,) = [event.verdict.figures for event in events if isinstance(event, DevEvent)]
    assert dev["perplexity"] == pytest.approx(np.exp(dev["loss"])) and dev["accuracy"] > 10


def test_resume_with_a_carried_state_is_exact(corpus, tmp_path):
    settings = ("train.steps=9", "model.change.dropout=0.3", "model.change.weight_drop=0.2")

    def begin(out, resume):
        return prepared(corpus, out, *settings, resume=resume)

    assert check_resume(begin, tmp_path, 6, 4).job.sampler.streams == 8


def test_the_state_is_carried_without_its_gradient(corpus, tmp_path):
    trainer = Trainer(prepared(corpus, tmp_path, "train.steps=99").job)
    trainer.start(False)
    trainer.step()
    begins, *states = tensors_in(trainer.carried.tree)
    assert begins.shape == (8, 1) and not begins.any()
    assert [one.shape for one in states] == [(8, 24)] * 4
    assert all(one.any() and not one.requires_grad for one in states)


@pytest.mark.parametrize(
    "setting,captured,rectangle",
    [
        ("model.change.cell=rnn", True, True),
        ("model.change.cell=lstm", True, True),
        ("optimiser.kind=sgd", False, True),
        ('objective.causal-lm.rows="documents"', False, False),
    ],
)
def test_steps_over_streams_are_captured_on_cuda(corpus, tmp_path, setting, captured, rectangle):
    trainer = Trainer(prepared(corpus, tmp_path, setting).job)
    trainer.start(False)
    model = trainer.trainable
    model.world = World(0, 1, torch.device("cuda"))  # as the loop would see it there
    assert model.captures is captured and not model.compiles
    examples = next(iter(trainer.steps)).slices[0].examples
    assert model._collate(examples).inputs.layout.full is rectangle


def test_the_development_set_is_one_text_for_any_length_of_rows(corpus, tmp_path):
    """Perplexity over chunks with carried state is that of whole streams."""
    found = []
    for number, longest in enumerate((4, 32)):
        settings = (f"batches.longest={longest}", "train.seed=3")
        run = prepared(corpus, tmp_path / str(number), *settings)
        found.append(run.job.evaluate(run.job.model.eval()).figures["loss"])
    assert found[0] == pytest.approx(found[1], abs=1e-5)


def test_rows_may_be_documents(corpus, tmp_path):
    run = prepared(corpus, tmp_path, "objective.causal-lm.rows=documents", "train.steps=2")
    assert run.job.sampler.streams == 0 and len(losses(run)) == 2


def test_what_cannot_be_streams(corpus, tmp_path):
    too_few = r"animals\.txt: [\d,]+ tokens are too few for 90,000 streams of text; batches\.rows"
    with pytest.raises(BadInput, match=too_few):
        prepared(corpus, tmp_path, "batches.tokens=9999999", "batches.rows=90000")
    with pytest.raises(
        BadInput, match=r"batches\.mixed cannot be used: this model reads rows in order"
    ):
        prepared(corpus, tmp_path / "b", "batches.mixed=true")
    with pytest.raises(BadInput, match="rows: 'streams' needs recurrent layers"):
        prepared(corpus, tmp_path, "model.source=gpt-2", "model.change={}")


def test_penalties_are_part_of_the_loss_and_not_of_the_likelihood(corpus, tmp_path):
    nlls, found = [], []
    for number, settings in enumerate(((), ("ar=2", "tar=1"))):
        keys = [f"objective.causal-lm.{key}" for key in settings]
        run = prepared(corpus, tmp_path / str(number), "train.steps=1", *keys)
        (report,) = [event for event in train(run.job) if isinstance(event, ReportEvent)]
        nlls.append(report.nll)
        found.append(report.loss)
    assert nlls[0] == pytest.approx(nlls[1]) == pytest.approx(found[0]) and found[1] > found[0]
    penalised = CausalLM("streams", ar=2.0, tar=1.0)
    model = run.job.model
    batch = Sum(penalised).collate(next(run.job.sampler.batches())[1].read())
    outputs = model(batch.inputs)
    states_BLD = outputs.encoded.undropped_TD.view(8, 32, -1)
    expected = 2 * states_BLD.square().mean() + states_BLD.diff(dim=1).square().mean()
    loss, nll = penalised.loss(outputs, batch)
    torch.testing.assert_close(loss - nll, expected * 8 * 32)


def test_lengths_that_do_not_fit_are_refused(corpus, tmp_path):
    with pytest.raises(BadInput, match=r"mean_length: parts of 40 .*longest \(32\)"):
        prepared(corpus, tmp_path, "objective.causal-lm.mean_length=40")
    settings = ["objective.causal-lm.rows=blocks", "objective.causal-lm.mean_length=4"]
    with pytest.raises(BadInput, match="needs rows = 'streams'"):
        read(corpus / "lstm.toml", settings)


def test_a_trained_model_is_a_start_for_other_texts_and_for_labels(corpus, tmp_path):
    run("train", corpus / "lstm.toml", "--data", corpus, "--out", tmp_path / "first")
    start = (f"model.start={tmp_path}/first/model", "model.size=", "text=false", "model.change={}")
    paper = ("--set", "model.paper=zaremba")
    again = prepared(corpus, tmp_path / "again", *start, "optimiser.rate=1e-9", "train.steps=1")
    trained = regard.load(tmp_path / "first" / "model")
    first, second = weights_of(trained.module), weights_of(again.job.model)
    assert all(torch.equal(first[name], second[name]) for name in first)
    table = write_owls(tmp_path)
    words = [word for one in start for word in ("--set", one)]
    done = run("train", table, "--data", tmp_path, "--out", tmp_path / "owls", *words, *paper)
    assert "accuracy" in done.output
    classifier = regard.load(tmp_path / "owls" / "model")
    assert classifier.paper.name == "Zaremba" and len(classifier.predict(["an owl", "a cat"])) == 2
