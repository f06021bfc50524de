"""The benchmark of ViT: systems learn the same images alike, and all of it runs at tiny size."""

import copy
import json
import sys
from itertools import pairwise

import pytest
import torch

from regard.models.facts import LabelHead, change
from regard.models.papers import vit

CPU = torch.device("cpu")
OF_TRANSFORMERS = ("eager", "compiled")


@pytest.mark.parametrize(
    "options",
    [["--peers"], ["--augment", "--peers"], pytest.param([], marks=pytest.mark.slow)],
)
def test_it_runs(options, monkeypatch, capsys):
    import train_vit

    if not options:
        pytest.importorskip("timm")
    monkeypatch.setattr(sys, "argv", ["train_vit", "--tiny", *options])
    train_vit.main()
    *systems, place = map(json.loads, capsys.readouterr().out.splitlines())
    peers = [] if options else [train_vit.PEERS[one].name for one in train_vit.USUAL]
    assert [one["system"] for one in systems] == ["regard", *peers]
    assert all(one["images_per_second"][0] > 0 for one in systems)
    assert all(
        abs(one["first_loss"] - other["first_loss"]) < 0.01 for one, other in pairwise(systems)
    )
    assert place["rows"] == 4 and place["augmented"] == ("--augment" in options)


@pytest.mark.parametrize("names", [OF_TRANSFORMERS[:1], pytest.param(None, marks=pytest.mark.slow)])
def test_all_systems_have_the_same_losses_with_the_same_weights(names, monkeypatch):
    """In fp32; also after steps, by the same optimiser."""
    import train_vit

    pytest.importorskip("transformers" if names else "timm")
    facts = change(vit.BASE, output_heads=(LabelHead(train_vit.LABELS),), **train_vit.TINY)
    monkeypatch.setattr(train_vit, "half", lambda device: torch.autocast("cpu", enabled=False))
    torch.manual_seed(3)
    model, batches = facts.build(), train_vit.batches_of(3, 4, 16, CPU)
    step = train_vit.ours(copy.deepcopy(model), CPU)
    expected = [step(batch) for batch in batches]
    for peer in (train_vit.PEERS[one] for one in names or train_vit.USUAL):
        step = train_vit.theirs(peer.read(model, facts), CPU, **peer.compiled)
        losses = [step(train_vit.numbers_of(batch)) for batch in batches]
        torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-5)
