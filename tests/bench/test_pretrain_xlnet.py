"""The benchmark of XLNet: both systems learn the same rows, and all of it runs at tiny size."""

import json
import sys

import numpy as np
import pytest
import torch

from regard.ground.batch import BatchLimits
from regard.models.facts import change
from regard.models.formats import folder as folders
from regard.models.formats.loaded_model import LoadedModel
from regard.models.papers import xlnet
from regard.objectives.permutation_lm import PermutationLM
from regard.objectives.sum import Sum

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")


@pytest.mark.parametrize("memory", [0, 8])
def test_it_runs(memory, monkeypatch, capsys):
    import pretrain_xlnet

    monkeypatch.setattr(sys, "argv", ["pretrain_xlnet", "--tiny", "--memory", str(memory)])
    pretrain_xlnet.main()
    *systems, place = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["system"] for one in systems][:2] == ["regard", "transformers"]
    assert all(one["tokens_per_second"][0] > 0 for one in systems)
    assert place["predicted"] == 32 // 6 and place["memory"] == memory


@pytest.mark.parametrize("memory", [0, 5])
def test_both_systems_have_the_same_losses_with_the_same_weights(memory, monkeypatch, tmp_path):
    """Without dropout, in fp32; also after a step, with the memory of the first."""
    import pretrain_xlnet

    facts = change(xlnet.BASE, **pretrain_xlnet.TINY, dropout=0.0)
    facts = Sum(PermutationLM()).fit(change(facts, attention_dropout=0.0))
    torch.manual_seed(3)
    module = facts.build()
    folders.write(tmp_path, LoadedModel(xlnet.PAPER, facts, module), "hf")
    same = transformers.XLNetLMHeadModel.from_pretrained(tmp_path, mem_len=memory or None)
    monkeypatch.setattr("transformers.XLNetLMHeadModel", lambda config: same)
    monkeypatch.setattr(type(facts), "build", lambda self: module)
    monkeypatch.setattr(pretrain_xlnet, "half", lambda device: torch.autocast("cpu", enabled=False))
    limits = BatchLimits(4 * 20, 4, 20)
    ours = pretrain_xlnet.ours(facts, limits, memory, CPU)
    theirs = pretrain_xlnet.theirs(facts, memory, CPU, "eager")
    rows = pretrain_xlnet.rows_of(8, 20, 1_000, np.random.default_rng(1))
    for batch in (rows[:4], rows[4:]):
        torch.testing.assert_close(ours(batch), theirs(batch), rtol=1e-5, atol=1e-5)
