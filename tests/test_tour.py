"""The tour ends by comparing what it measured with what is expected."""

import os
import signal
from types import SimpleNamespace

import pytest
import typer

from regard import tour as tours
from regard.cli.verbs.tour import tour
from regard.core.errors import BadInput
from regard.core.lock import FolderLock
from regard.metrics.translation import MetricScore
from regard.training.loop.trainer import Trainer
from small import tensors_of


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A tour that trains nothing and measures these."""

    def take(bleu, aer, quick=False):
        steps = {
            "_language": None,
            "_train": None,
            "_translate": MetricScore("BLEU", bleu, ""),
            "_align": SimpleNamespace(aer=aer),
            "_look": None,
            "_what_next": None,
        }
        for name, value in steps.items():
            monkeypatch.setattr(tours.Tour, name, lambda *_, value=value: value)
        tour(tmp_path / "tour", quick=quick)

    return take


def test_a_tour_with_the_scores_that_were_seen_succeeds(measured, capsys):
    for bleu, aer in [(92.9, 0.222), (95.1, 0.178)]:
        measured(bleu, aer)
        said = capsys.readouterr().out
        assert said.count(": reached") == 2 and "NOT" not in said


@pytest.mark.parametrize(("bleu", "aer"), [(89.9, 0.2), (94.0, 0.27)])
def test_a_tour_below_its_expected_scores_fails(measured, capsys, bleu, aer):
    with pytest.raises(typer.Exit) as ended:
        measured(bleu, aer)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().out.count("NOT reached") == 1


def test_a_second_tour_keeps_the_lock_while_it_clears_the_first(measured, monkeypatch, tmp_path):
    measured(94.0, 0.2)
    (tmp_path / "tour" / "corpus").mkdir()
    claim = tours.claim

    def claim_later(out, recipe):
        with pytest.raises(BadInput, match="in use by another run"):
            FolderLock(out)
        assert not (out / "corpus").exists()
        return claim(out, recipe)

    monkeypatch.setattr(tours, "claim", claim_later)
    measured(94.0, 0.2)
    assert FolderLock(tmp_path / "tour").held  # and released at the end


def test_a_quick_tour_expects_nothing(measured, capsys):
    measured(3.0, 0.9, quick=True)
    assert "reached" not in capsys.readouterr().out


TINY = (
    *("train.steps=8", "train.evaluate_every=4", "train.checkpoint_every=3"),
    "model.change={width=16, inner=16, depth=1, heads=2}",
    *("text.vocab=400", "batches.tokens=128"),
)


@pytest.fixture
def tiny_tour(monkeypatch, tmp_path):
    """A tour that trains for a moment and looks at nothing."""
    monkeypatch.setattr(tours, "QUICK", TINY)
    for name in ("_translate", "_align", "_what_next"):
        monkeypatch.setattr(tours.Tour, name, lambda *_: None)
    look = "_look", lambda tour, *_: (tour.out / "look.html").touch()
    monkeypatch.setattr(tours.Tour, *look)
    return lambda name="tour": tour(tmp_path / name, quick=True)


def end_at(monkeypatch, number, ending):
    """The tour ends in the middle of a step."""
    step = Trainer.step

    def until(trainer):
        step(trainer)
        if trainer.progress.step == number:
            ending()

    monkeypatch.setattr(Trainer, "step", until)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_tour_that_is_interrupted_goes_on_as_if_it_had_not_been(
    tiny_tour, monkeypatch, tmp_path, capsys, number
):
    tiny_tour("straight")
    before = signal.signal(number, signal.default_int_handler)  # ignored in background shells
    try:
        with monkeypatch.context() as patched:
            end_at(patched, 5, lambda: os.kill(os.getpid(), number))
            with pytest.raises(typer.Exit) as ended:
                tiny_tour()
    finally:
        signal.signal(number, before)
    assert ended.value.exit_code == 128 + number
    said = capsys.readouterr().err
    assert f"`regard tour --out {tmp_path / 'tour'} --quick` goes on from there" in said
    tiny_tour()
    assert "resumed after step 5" in capsys.readouterr().err
    assert tensors_of(tmp_path / "tour", 8) == tensors_of(tmp_path / "straight", 8)
    tiny_tour()
    assert "resumed" not in capsys.readouterr().err  # a finished tour is begun again


def test_a_tour_that_is_killed_goes_on_from_its_last_checkpoint(
    tiny_tour, monkeypatch, tmp_path, capsys
):
    class Killed(BaseException):
        pass

    def kill():
        raise Killed

    tiny_tour("straight")
    with monkeypatch.context() as patched:
        end_at(patched, 5, kill)
        with pytest.raises(Killed):
            tiny_tour()
    capsys.readouterr()
    tiny_tour()
    assert "resumed after step 4" in capsys.readouterr().err  # the best so far
    assert tensors_of(tmp_path / "tour", 8) == tensors_of(tmp_path / "straight", 8)


def test_a_tour_of_other_settings_is_begun_again(tiny_tour, monkeypatch, tmp_path, capsys):
    with monkeypatch.context() as patched:
        end_at(patched, 5, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(typer.Exit):
            tiny_tour()
    monkeypatch.setattr(tours, "QUICK", (*TINY[1:], "train.steps=6"))
    tiny_tour()
    assert "resumed" not in capsys.readouterr().err
