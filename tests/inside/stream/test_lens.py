"""The logit lens reads the last layer as the model does, and earlier layers by the same head."""

import numpy as np
import pytest
import torch

from regard import BadInput
from regard.core.tape import Tape
from regard.inside.stream import copies
from regard.inside.stream.lens import logit_lens
from small_bert import model as small_bert
from small_families import small_family, small_rows
from small_rnn_lm import small_lstm

FAMILIES = ["bert", "bert-label", "gpt2", "llama", "t5", "translator-pre", "xlnet", "vit"]


def lens_of(name):
    model = small_family(name)
    return model, logit_lens(model, name, small_rows(model))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_last_layer_is_the_model(name):
    model, lens = lens_of(name)
    with torch.inference_mode():
        (logits_PV,) = model.run([small_rows(model)]).by_head.values()
    expected_P = logits_PV.softmax(-1).max(-1)
    np.testing.assert_allclose(lens.probabilities_LP[-1], expected_P.values, atol=1e-5)
    assert lens.layers == ("embedding", "layer 0", "layer 1")
    assert len(lens.tokens) == len(logits_PV)
    np.testing.assert_array_equal(lens.final_LP[-1], lens.probabilities_LP[-1])
    assert (lens.ranks_LP[-1] == 1).all() and (lens.ranks_LP >= 1).all()
    assert not np.allclose(lens.final_LP[0], lens.final_LP[-1], atol=1e-3)


def test_an_earlier_layer_is_read_by_the_final_norm_and_the_head():
    model, lens = lens_of("gpt2")
    tape, rows = Tape("trunk.blocks.0.output"), small_rows(model)
    with torch.inference_mode():
        best_T = model.run([rows], tape).by_head["next_token"].argmax(-1)
        trunk, output = model.module.trunk, model.module.output
        p_TV = output(trunk.norm(tape.records["trunk.blocks.0.output"])).softmax(-1)
    np.testing.assert_allclose(lens.probabilities_LP[1], p_TV.max(-1).values, atol=1e-5)
    assert lens.tops[1] == tuple(str(index) for index in p_TV.argmax(-1).tolist())
    own_T = p_TV.gather(1, best_T[:, None])
    np.testing.assert_allclose(lens.final_LP[1], own_T[:, 0], atol=1e-5)
    np.testing.assert_array_equal(lens.ranks_LP[1], 1 + (p_TV > own_T).sum(1))


def test_copies_run_in_as_many_batches_as_memory_allows(monkeypatch):
    _, together = lens_of("t5")
    monkeypatch.setattr(copies, "TOKENS", 6)
    _, apart = lens_of("t5")
    np.testing.assert_allclose(together.final_LP, apart.final_LP, atol=1e-5)
    np.testing.assert_array_equal(together.ranks_LP, apart.ranks_LP)


def test_views():
    model = small_bert("one").inspected
    lens = logit_lens(model, "cat", model.read("the old cat came"))
    assert lens.tokens == ("output",) and lens.columns == ["layer", "0 output"]
    assert lens.cells[-1][0] == "layer 1" and lens.cells[-1][1].endswith("#1")
    assert {top for (top,) in lens.tops} <= {"bad", "fair", "good"}
    assert "logit lens" in lens.text() and lens.svg().startswith("<svg")
    record = lens.to_json()
    assert record["rank"] == lens.ranks_LP.tolist() and record["rank"][-1] == [1]
    np.testing.assert_allclose(record["probability"], lens.probabilities_LP, atol=1e-6)
    np.testing.assert_allclose(record["final_probability"], lens.final_LP, atol=1e-6)
    assert record["final_probability"][0] != record["probability"][0]


def test_models_without_a_residual_stream_are_refused():
    model = small_lstm()
    with pytest.raises(BadInput, match="no residual stream"):
        logit_lens(model, "", small_rows(model))
