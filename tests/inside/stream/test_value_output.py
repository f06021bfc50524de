"""W_V · W_O of a head is what it writes, and copying heads have positive eigenvalues."""

import pytest
import torch

from regard import BadInput
from regard.ground.tape import Tape
from regard.inside.stream.value_output import attention_module, copying_scores, value_output
from small_families import small_family, small_rows


@pytest.mark.parametrize("name", ["gpt2", "llama", "albert", "xlnet", "translator"])
def test_heads_write_weighted_states_times_their_matrix(name):
    """Without biases, the outputs of all heads are A_h x W_V W_O, summed over heads."""
    model = small_family(name)
    for site in model.facts.attention_sites:
        path = site.tape_path.format(layer=1)
        attention = attention_module(model, site, 1)
        tape = Tape(f"{path}.weights", f"{path}.values", f"{path}.head_outputs")
        with torch.inference_mode():
            model.run([small_rows(model)], tape)
            values_SHK = tape.records[f"{path}.values"]
            outputs_THK = tape.records[f"{path}.head_outputs"]
            width = attention.o.weight.shape[0]
            x_SD = torch.randn(len(values_SHK), width)
            projection = getattr(attention, "qkv", None) or attention.kv
            v_SHK = attention.heads.split_keys(
                (x_SD @ projection.weight.T)[:, -attention.heads.keys - attention.heads.values :]
            )[1]
            group = attention.heads.count // attention.heads.kv
            for head in range(attention.heads.count):
                written_SD = v_SHK[:, head // group] @ _output(attention, head).T
                torch.testing.assert_close(x_SD @ value_output(attention, head), written_SD)
            weights_HLS = tape.records[f"{path}.weights"][0]
            mixed = torch.einsum(
                "hls,shk->lhk", weights_HLS, values_SHK.repeat_interleave(group, 1)
            )
            torch.testing.assert_close(mixed, outputs_THK, atol=1e-5, rtol=1e-5)


def _output(attention, head):
    size = attention.heads.value
    return attention.o.weight[:, head * size : (head + 1) * size]


def test_the_score_is_that_of_the_whole_matrix():
    model = small_family("llama")
    (site,) = model.facts.attention_sites
    scores = copying_scores(model)
    embedding_VD = model.module.trunk.embed.token.weight.double()
    unembedding_VD = model.module.output.weight.double()
    assert [len(each) for each in scores] == [4, 4]
    for layer, head in ((0, 0), (1, 3)):
        matrix = value_output(attention_module(model, site, layer), head).double()
        values = torch.linalg.eigvals(embedding_VD @ matrix @ unembedding_VD.T)
        expected = (values.sum().real / values.abs().sum()).item()
        assert scores[layer][head] == pytest.approx(expected, abs=1e-5)


def test_only_causal_models_have_copying_scores():
    with pytest.raises(BadInput, match="not causal"):
        copying_scores(small_family("bert"))
    with pytest.raises(BadInput, match="head must be at most 1, not 2"):
        value_output(small_family("gpt2").module.trunk.blocks[0].attention, 2)
