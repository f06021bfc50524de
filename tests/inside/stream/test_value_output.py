"""W_V · W_O of a head is what it writes, and copying heads have positive eigenvalues."""

import pytest
import torch

from regard import BadInput
from regard.inside.stream.value_output import attention_module, copying_scores, value_output
from small_families import small_family


@pytest.mark.parametrize("name", ["gpt2", "llama", "albert", "xlnet", "translator"])
def test_a_head_projects_states_to_values_and_values_to_states(name):
    model = small_family(name)
    for site in model.facts.attention_sites:
        attention = attention_module(model, site, 1)
        heads = attention.heads
        x_TD = torch.randn(3, attention.o.weight.shape[0])
        projection = getattr(attention, "qkv", None) or attention.kv
        inputs_TF = (x_TD @ projection.weight.T)[:, -heads.keys - heads.values :]
        _, values_THK = heads.split_keys(inputs_TF)
        for head in range(heads.count):
            of_head_DK = attention.o.weight[:, head * heads.value : (head + 1) * heads.value]
            group = head // (heads.count // heads.kv)
            expected_TD = values_THK[:, group] @ of_head_DK.T
            torch.testing.assert_close(x_TD @ value_output(attention, head), expected_TD)


def test_layers_that_share_weights_have_one_module():
    model = small_family("albert")
    (site,) = model.facts.attention_sites
    assert attention_module(model, site, 0) is attention_module(model, site, 1)


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
