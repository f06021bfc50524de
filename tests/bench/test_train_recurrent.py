"""The benchmark of Bahdanau's translator: all of it runs at tiny size, and its losses agree."""

import gzip
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from regard.core.batch import RectangleLimits

CPU = torch.device("cpu")
joeynmt = pytest.mark.skipif(find_spec("joeynmt") is None, reason="JoeyNMT is not installed")


@pytest.mark.slow
def test_it_runs(printed):
    import train_recurrent

    *systems, place = printed(train_recurrent, "--tiny")
    assert [one["system"] for one in systems][:2] == ["regard", "regard, eager"]
    assert all(one["tokens_per_second"][0] > 0 for one in systems)
    assert place["pairs"] == 64 and systems[0]["batches"] > 1


def test_rectangles_and_free_shapes_have_the_same_losses(printed):
    import train_recurrent

    *steps, apart = printed(train_recurrent, "--tiny", "--curves", "5")
    assert [one["step"] for one in steps] == [0, 1, 2, 3, 4]
    assert len({one["regard"] for one in steps}) == 5  # it learns
    assert apart["largest"] < 1e-5


def test_both_systems_read_every_pair_once():
    import train_recurrent
    from corpus import bucketed_pairs, short_pairs

    pairs = short_pairs(100, 1_000, 96)
    packed = train_recurrent.packed(pairs, RectangleLimits(256, 512, 96))
    for batches in (packed, bucketed_pairs(pairs, 256)):
        assert sorted(map(id, pairs)) == sorted(id(pair) for batch in batches for pair in batch)
    lengths = [len(source) for source, _ in pairs]
    assert 11 < np.mean(lengths) < 15 and 3 < np.std(lengths) < 5


def test_real_pairs_are_read_in_subwords(tmp_path, monkeypatch):
    import train_recurrent

    monkeypatch.setattr(train_recurrent, "VOCAB", 300)
    for name in train_recurrent.FILES:
        with gzip.open(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write("a dog runs .\n" * 4)
    pairs = train_recurrent.multi30k(tmp_path, 3)
    assert len(pairs) == 3 and all(0 < len(side) < 10 for pair in pairs for side in pair)


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 3])
def test_its_translations_are_timed(beam, printed):
    import translate

    *systems, _ = printed(translate, "--tiny", "--recurrent", "--beam", str(beam))
    assert {one["batch"] for one in systems} == {1, 4}
    assert systems[0]["system"] == "regard fp32, torch" and systems[0]["beam"] == beam
    assert all(one["tokens_per_second"][0] > 0 for one in systems)


@joeynmt
def test_the_peer_learns_and_ignores_padding():
    """The loss of two sentences together is that of both alone."""
    import train_recurrent
    from corpus import short_pairs
    from peers.joeynmt import JoeyModel, import_joeynmt, training_step

    import_joeynmt(None)
    pairs = short_pairs(2, 1_000, 96)
    assert len(pairs[0][0]) != len(pairs[1][0])

    def new_step():
        torch.manual_seed(1)
        model = JoeyModel(1_000, width=32, embedding=16, dropout=0.0)
        return training_step(model, train_recurrent.ADAM, CPU, "fp32")

    losses = [float(new_step()(batch)) for batch in (pairs, pairs[:1], pairs[1:])]
    sizes = [len(target) + 1 for _, target in pairs]
    assert losses[0] == pytest.approx(np.average(losses[1:], weights=sizes), rel=1e-5)
    step = new_step()
    assert float(step(pairs)) > float([step(pairs) for _ in range(5)][-1])
