"""A part of an objective without targets adds 0 to a step, and reports name it."""

import pytest
import torch

from regard.core.batch import IGNORED
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.next_sentence import SentencePairObjective
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.loop.trainer import Trainer, share_of
from regard.training.recipe import read
from regard.training.run import prepare
from regard.weights.files import weights_of
from small_documents import write_animals

STEPS = ("train.steps=3", "train.evaluate_every=3")


@pytest.fixture
def prepared(tmp_path):
    write_animals(tmp_path, 8, 10)

    def make(*settings):
        recipe = read(tmp_path / "animals.toml", [*STEPS, *settings])
        out = tmp_path / "-".join(["run", *settings])
        return prepare(recipe, out, World(0, 1, torch.device("cpu")), data=tmp_path)

    return make


def without_targets(monkeypatch, *kinds):
    """Rows that have no targets of these objectives."""
    for kind in kinds:
        packed = kind.pack_targets

        def ignore(*given, packed=packed):
            return torch.full_like(packed(*given), IGNORED)

        monkeypatch.setattr(kind, "pack_targets", ignore)
        monkeypatch.setattr(kind, "weight", lambda *_: 0.0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_part_without_targets_changes_no_weights_and_is_named(prepared, monkeypatch, smoothing):
    without_targets(monkeypatch, SentencePairObjective)
    run = prepared(f"train.smoothing={smoothing}")
    before = {name: x.clone() for name, x in weights_of(run.job.model).items()}
    events = [*train(run.job)]
    reports = [event for event in events if isinstance(event, ReportEvent)]
    assert [event.absent for event in reports] == [("sentence_pair",)] * 3
    assert str(reports[0]).endswith("left  no targets: sentence_pair")
    assert reports[0].nll == pytest.approx(4.5, abs=1.0)  # of masked LM alone
    (dev,) = (event.verdict.figures for event in events if isinstance(event, DevEvent))
    assert dev["loss"] == pytest.approx(reports[-1].nll, abs=1.0) and "pair_accuracy" not in dev
    after = weights_of(run.job.model)
    assert all(tensor.isfinite().all() for tensor in after.values())
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and not any("sentence_pair" in name for name in changed)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_step_without_any_target_is_a_step_that_learns_nothing(prepared, monkeypatch, smoothing):
    without_targets(monkeypatch, MaskedLM, SentencePairObjective)
    run = prepared(f"train.smoothing={smoothing}", "optimiser.kind=adam")
    before = {name: x.clone() for name, x in weights_of(run.job.model).items()}
    reports = [event for event in train(run.job) if isinstance(event, ReportEvent)]
    assert [(event.loss, event.absent) for event in reports] == [(0, ("mlm", "sentence_pair"))] * 3
    assert all(torch.equal(before[name], x) for name, x in weights_of(run.job.model).items())


def test_the_first_loss_is_that_of_all_parts(prepared, monkeypatch):
    """A run is judged by it: with a part that comes later it would seem to explode."""
    weight = Trainer._total_weight

    def without_first(trainer, rows):
        there = torch.tensor([1.0, float(trainer.progress.step > 0)])
        return weight(trainer, rows) * there

    monkeypatch.setattr(Trainer, "_total_weight", without_first)
    trainer = Trainer(prepared().job)
    trainer.start(resume=False)
    trainer.step()
    assert trainer.progress.first_loss is None
    trainer.step()
    assert trainer.progress.first_loss is not None
    assert trainer.report().absent == ()


def test_of_a_part_that_never_comes_the_first_report_is_the_first_loss(prepared, monkeypatch):
    without_targets(monkeypatch, SentencePairObjective)
    *_, end = train(prepared().job)
    assert end.progress.first_loss == pytest.approx(4.5, abs=1.0)


def test_shares_are_quotients_or_0():
    shares = share_of(2.0, torch.tensor([4.0, 0.0], dtype=torch.float64))
    assert shares.tolist() == [0.5, 0.0]
    assert share_of(2.0, torch.tensor(0.0)).item() == 0.0
