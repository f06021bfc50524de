"""The benchmark of AWD-LSTM: the plain loop is the same model, and all of it runs at tiny size."""

import numpy as np
import torch

from regard.models.facts import change

CPU = torch.device("cpu")
RATES = ("word_dropout", "dropout", "input_dropout", "hidden_dropout", "weight_drop")


def test_it_runs(printed):
    import lstm_lm

    *systems, place = printed(lstm_lm, "--tiny")
    assert [one["system"] for one in systems] == ["regard", "plain loop, LSTM in fp32"]
    assert all(one["tokens_per_second"][0] > 0 for one in systems)
    assert place["rows"] == 4


def test_both_have_the_same_losses_with_the_same_weights(monkeypatch):
    """Without dropout and penalties; also after the first step, with the state that it left."""
    import lstm_lm
    from peers.plain_lstm import PlainLM, training_step

    facts = change(lstm_lm.facts_of(tiny=True), **dict.fromkeys(RATES, 0.0))
    torch.manual_seed(3)
    module = facts.build()
    same = PlainLM(200, lstm_lm.widths_of(facts, 24), torch.float32)
    same.embed.weight.data.copy_(module.trunk.embed.token.weight)
    for lstm, layer in zip(same.lstms, module.trunk.layers, strict=True):
        lstm.load_state_dict(layer.kernel.state_dict())
    monkeypatch.setattr(type(facts), "build", lambda self: module)
    ours = lstm_lm.our_step(facts, 4, {})
    theirs = training_step(same, lstm_lm.ADAMW, CPU)
    for words_BL in np.random.default_rng(1).integers(0, 200, (3, 4, 13)):
        torch.testing.assert_close(ours(words_BL), theirs(words_BL), rtol=1e-5, atol=1e-5)
