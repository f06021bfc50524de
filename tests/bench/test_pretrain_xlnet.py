"""The benchmark of XLNet: both systems learn the same rows, and all of it runs at tiny size."""

import pytest
import torch

from regard.core.batch import BatchLimits
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import xlnet

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")


@pytest.mark.parametrize("memory", [0, 8])
def test_it_runs(memory, printed):
    import pretrain_xlnet

    *systems, place = printed(pretrain_xlnet, "--tiny", "--memory", str(memory))
    assert [one["system"] for one in systems] == ["regard", "transformers"]
    assert all(one["tokens_per_second"][0] > 0 for one in systems)
    assert place["predicted"] == 32 // 6 and place["memory"] == memory


@pytest.mark.parametrize("memory", [0, 5])
def test_both_systems_have_the_same_losses_with_the_same_weights(memory, monkeypatch, tmp_path):
    """Without dropout, in fp32; also after a step, with the memory of the first."""
    import pretrain_xlnet
    from peers.xlnet import ARRAYS, training_step

    facts = pretrain_xlnet.facts_of("base", tiny=True)
    facts = change(facts, dropout=0.0, attention_dropout=0.0)
    torch.manual_seed(3)
    module = facts.build()
    folders.write(tmp_path, LoadedModel(xlnet.PAPER, facts, module), "hf")
    same = transformers.XLNetLMHeadModel.from_pretrained(tmp_path, mem_len=memory or None)
    monkeypatch.setattr(type(facts), "build", lambda self: module)
    optimiser, context = pretrain_xlnet.ADAMW, pretrain_xlnet.CONTEXT
    ours = pretrain_xlnet.our_step(facts, BatchLimits(4 * 20, 4, 20), memory)
    theirs = training_step("eager", same, context, memory, optimiser, CPU)
    rows = pretrain_xlnet.rows_of(8, 20, 1_000)
    for batch in (rows[:4], rows[4:]):
        arrays = pretrain_xlnet.as_arrays(batch)
        loss = theirs([arrays[name] for name in ARRAYS])
        torch.testing.assert_close(ours(batch), loss, rtol=1e-5, atol=1e-5)
