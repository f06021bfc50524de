"""The benchmark of AWD-LSTM: the plain loop is the same model, and all of it runs at tiny size."""

import json
import sys

import numpy as np
import torch

from regard.models.facts import NextTokenHead, change
from regard.models.papers import awd_lstm

CPU = torch.device("cpu")


def test_it_runs(monkeypatch, capsys):
    import lstm_lm

    monkeypatch.setattr(sys, "argv", ["lstm_lm", "--tiny"])
    lstm_lm.main()
    *systems, place = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["system"] for one in systems][:2] == ["regard", "plain loop, LSTM in fp32"]
    assert all(one["tokens_per_second"][0] > 0 for one in systems)
    assert place["rows"] == 4


def test_both_have_the_same_losses_with_the_same_weights(monkeypatch):
    """Without dropout, in fp32; also after the first step, with the state that it left."""
    import lstm_lm

    rates = ("word_dropout", "dropout", "input_dropout", "hidden_dropout", "weight_drop")
    facts = change(awd_lstm.WIKITEXT_2, **lstm_lm.TINY, **dict.fromkeys(rates, 0.0))
    facts = awd_lstm.PAPER.fit_heads(facts.with_heads(NextTokenHead()))
    torch.manual_seed(3)
    module, same = facts.build(), lstm_lm.PlainLM(facts, torch.float32)
    same.embed.weight.data.copy_(module.trunk.embed.token.weight)
    for one, other in zip(same.lstms, module.trunk.layers, strict=True):
        one.load_state_dict(other.kernel.state_dict())
    monkeypatch.setattr(type(facts), "build", lambda self: module)
    monkeypatch.setattr(lstm_lm, "PlainLM", lambda *given: same)
    monkeypatch.setattr(lstm_lm, "half", lambda device: torch.autocast("cpu", enabled=False))
    monkeypatch.setattr(lstm_lm, "CausalLM", lambda form, ar, tar: lstm_lm_objective(form))
    ours, theirs = lstm_lm.ours(facts, 4, CPU), lstm_lm.plain(facts, torch.float32, CPU)
    for words_BL in np.random.default_rng(1).integers(0, 200, (3, 4, 13)):
        torch.testing.assert_close(ours(words_BL), theirs(words_BL), rtol=1e-5, atol=1e-5)


def lstm_lm_objective(form):
    """The loss of the plain loop has no penalties."""
    from regard.objectives.causal_lm import CausalLM

    return CausalLM(form)
