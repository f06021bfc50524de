"""The benchmark of GPT-2: systems learn the same rows alike, and all of it runs at tiny size."""

import copy
import json
import sys

import numpy as np
import pytest
import torch

from regard.ground.batch import BatchLimits
from regard.models.facts import change
from regard.models.papers import gpt2

pytest.importorskip("transformers")
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "peers",
    [
        [],
        pytest.param(["plain"], marks=pytest.mark.slow),
        pytest.param(["plain", "eager", "compiled"], marks=pytest.mark.slow),
    ],
)
def test_it_runs(peers, monkeypatch, capsys):
    import pretrain_gpt2

    monkeypatch.setattr(sys, "argv", ["pretrain_gpt2", "--tiny", "--peers", *peers])
    pretrain_gpt2.main()
    *systems, place = map(json.loads, capsys.readouterr().out.splitlines())
    names = ["regard", *(pretrain_gpt2.PEERS[one].name for one in peers)]
    assert [one["system"] for one in systems] == names
    assert all(one["tokens_per_second"][0] > 0 for one in systems)
    assert len({round(one["first_loss"], 2) for one in systems}) == 1
    assert place["rows"] == 4 and place["length"] == 64


@pytest.mark.slow
def test_all_systems_have_the_same_losses_with_the_same_weights(monkeypatch):
    """In fp32; also after steps, by the same optimiser."""
    import pretrain_gpt2

    facts = pretrain_gpt2.OBJECTIVE.fit(change(gpt2.SMALL, **pretrain_gpt2.TINY))
    facts = change(facts, dropout=0.0, attention_dropout=0.0)
    monkeypatch.setattr(pretrain_gpt2, "half", lambda device: torch.autocast("cpu", enabled=False))
    torch.manual_seed(3)
    model = facts.build()
    steps = [pretrain_gpt2.ours(copy.deepcopy(model), BatchLimits(4 * 20, 4, 20), CPU)]
    for _, like, compiled in pretrain_gpt2.PEERS.values():
        steps.append(pretrain_gpt2.theirs(like(model, facts), CPU, compiled=compiled))
    rows = pretrain_gpt2.rows_of(12, 20, 320, np.random.default_rng(1))
    for batch in (rows[:4], rows[4:8], rows[8:]):
        expected, *losses = (step(batch) for step in steps)
        for loss in losses:
            torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)


def test_tokens_that_fill_up_the_vocabulary_have_zero_vectors():
    import pretrain_gpt2
    from plain_gpt import PlainGPT

    facts = pretrain_gpt2.OBJECTIVE.fit(change(gpt2.SMALL, **pretrain_gpt2.TINY | {"vocab": 300}))
    model = facts.build()
    token = PlainGPT.like(model, facts).token.weight
    assert len(token) == 320 and not token[300:].any()
    assert torch.equal(token[:300], model.trunk.embed.token.weight)
