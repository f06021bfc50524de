"""The tour ends by comparing what it measured with what is expected."""

from types import SimpleNamespace

import pytest
import typer

from regard.cli.verbs.tour import tour
from regard.ground.errors import BadInput
from regard.ground.lock import FolderLock
from regard.metrics.translation import MetricScore
from regard.tour import steps as tours


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
            monkeypatch.setattr(tours, name, lambda *_, value=value: value)
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
