"""Removal of heads: the outputs of masked heads, from a smaller model."""

import numpy as np
import pytest
import torch

import regard
from bert_folders import write_bert
from regard import BadInput, Tape
from regard.inside.pruning.remove_heads import Head, heads_of, prunable_sites, remove_heads
from small_bert import SENTENCES
from small_bert import model as small_encoder
from small_gpt import small_gpt2


def masked(model, heads):
    """Tape that sets the outputs of heads to 0."""
    paths = {site.name: site.tape_path for site in model.facts.attention_sites}
    names = {f"{paths[site].format(layer=layer)}.head_outputs": [] for site, layer, _ in heads}
    for site, layer, number in heads:
        names[f"{paths[site].format(layer=layer)}.head_outputs"].append(number)

    def edit(name, value_THK):
        return value_THK.index_fill(1, torch.tensor(names[name]), 0)

    return Tape(edits=dict.fromkeys(names, edit))


def parameters(model):
    return sum(tensor.numel() for tensor in model.module.parameters())


@pytest.fixture(scope="module")
def translator(small_run):
    return regard.load(small_run / "run" / "model", "cpu")


PAIRS = [("dog cow pig owl", "owl pig cow dog"), ("rat hen", "hen rat")]
REMOVED = {
    "encoder": [Head("encoder", 0, 1)],
    "decoder": [Head("decoder", 0, 0), Head("decoder", 1, 1)],
    "cross": [Head("cross", 1, 0), Head("cross", 1, 1)],  # a whole layer
    "all": [Head("encoder", 0, 1), Head("encoder", 1, 1), Head("decoder", 0, 0)],
}


@pytest.mark.parametrize("heads", REMOVED.values(), ids=REMOVED)
def test_a_translator_without_heads_is_one_with_masked_heads(translator, heads, tmp_path):
    smaller = regard.Model(remove_heads(translator._loaded, heads))
    smaller.save(tmp_path / "smaller")
    smaller = regard.load(tmp_path / "smaller", "cpu")
    expected = translator.logits(PAIRS, tape=masked(translator, heads))
    for own, theirs in zip(smaller.logits(PAIRS), expected, strict=True):
        torch.testing.assert_close(own, theirs, rtol=0, atol=1e-5)
    whole = translator.logits(PAIRS)
    assert max(float((a - b).abs().max()) for a, b in zip(whole, expected, strict=True)) > 1e-3
    # A head of size 8: rows of q, k, v with their bias, columns of o.
    assert parameters(translator) - parameters(smaller) == len(heads) * 8 * (3 * 17 + 16)


def test_a_smaller_translator_searches_as_a_masked_one(translator):
    heads = [*REMOVED["cross"], *REMOVED["encoder"], Head("decoder", 1, 0), Head("decoder", 1, 1)]
    smaller, texts = regard.Model(remove_heads(translator._loaded, heads)), [a for a, _ in PAIRS]
    expected = translator.translate(texts, tape=masked(translator, heads))
    for own, theirs in zip(smaller.translate(texts), expected, strict=True):
        assert [each.text for each in own] == [each.text for each in theirs]
        np.testing.assert_allclose(
            [each.score for each in own], [each.score for each in theirs], atol=1e-4
        )


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_layers_without_heads_run_in_other_precisions(translator, precision):
    heads = [*REMOVED["cross"], Head("encoder", 0, 0), Head("encoder", 0, 1)]
    loaded = remove_heads(translator._loaded, heads)
    own = regard.Model(loaded, precision).logits(PAIRS)
    tolerance = {"fp32": 1e-5, "int8": 0.1}[precision]
    for logits, expected in zip(own, regard.Model(loaded).logits(PAIRS), strict=True):
        torch.testing.assert_close(logits, expected, rtol=0, atol=tolerance * expected.abs().max())
    assert regard.Model(loaded, precision).translate(["dog cow"])


@pytest.mark.parametrize("model", [small_encoder("one"), small_gpt2()], ids=["BERT", "GPT-2"])
def test_encoders_and_causal_models_without_heads(model):
    (site,) = prunable_sites(model.facts)
    for heads in ([Head(site.name, 0, 1)], heads_of(site)):
        smaller = regard.Model(remove_heads(model._loaded, heads))
        expected = model.logits(SENTENCES[:2], tape=masked(model, heads))
        for own, theirs in zip(smaller.logits(SENTENCES[:2]), expected, strict=True):
            torch.testing.assert_close(own, theirs, rtol=0, atol=1e-5)


def test_generation_without_heads():
    model = small_gpt2()
    heads = [Head("decoder", 0, 0), Head("decoder", 0, 1), Head("decoder", 1, 0)]
    smaller = regard.Model(remove_heads(model._loaded, heads))
    prompts = ["The old man", "A dog barks"]
    expected = model.generate(prompts, max_new_tokens=6, tape=masked(model, heads))
    own = smaller.generate(prompts, max_new_tokens=6)
    assert [one[0].text for one in own] == [one[0].text for one in expected]


def test_a_published_model_is_that_of_transformers_with_masked_heads(tmp_path):
    from transformers import BertModel

    write_bert(tmp_path)
    model = regard.load(tmp_path, "cpu")
    theirs = BertModel.from_pretrained(tmp_path).eval()
    (site,) = prunable_sites(model.facts)
    size = model.facts.trunk.stack.width // site.heads[0]
    heads = [head for head in heads_of(site) if head.number == head.layer % 2]
    with torch.no_grad():
        for _, layer, number in heads:
            output = theirs.encoder.layer[layer].attention.output.dense
            output.weight[:, number * size : (number + 1) * size] = 0
    ids = [[5, 6, 7, 8], [9, 10]]
    smaller = regard.Model(remove_heads(model._loaded, heads))
    for row, states_TD in zip(ids, smaller.encode(ids), strict=True):
        expected = theirs(torch.tensor([row])).last_hidden_state[0]
        torch.testing.assert_close(states_TD, expected, rtol=0, atol=1e-5)
    smaller.save(tmp_path / "smaller")  # with the files of the Hugging Face folder
    again = regard.load(tmp_path / "smaller", "cpu")
    torch.testing.assert_close(again.encode(ids), smaller.encode(ids), rtol=0, atol=0)


def test_heads_keep_their_first_numbers(translator):
    once = remove_heads(translator._loaded, [Head("encoder", 0, 0)])
    assert once.notes["head_numbers"] == {"encoder": [[1], [0, 1]]}
    other = remove_heads(once, [Head("encoder", 1, 0)])  # layer 0 has its second head as before
    assert other.notes["head_numbers"] == {"encoder": [[1], [1]]}
    twice = remove_heads(once, [Head("encoder", 0, 0), Head("cross", 1, 1)])
    assert twice.notes["head_numbers"] == {"encoder": [[], [0, 1]], "cross": [[0, 1], [0]]}
    assert "head_numbers" not in translator.notes
    heads = [Head("encoder", 0, 0), Head("encoder", 0, 1), Head("cross", 1, 1)]
    both = regard.Model(remove_heads(translator._loaded, heads)).logits(PAIRS)
    for own, expected in zip(regard.Model(twice).logits(PAIRS), both, strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=0)


def test_an_alignment_method_does_not_outlive_its_heads(translator):
    model = regard.Model(remove_heads(translator._loaded, []))
    model.alignment_method = regard.AlignmentMethod(1, 1)
    kept = remove_heads(model._loaded, [Head("encoder", 0, 0)])
    assert kept.notes["alignment"]["head"] == 1
    assert "alignment" not in remove_heads(model._loaded, [Head("cross", 1, 0)]).notes


def test_views_of_a_smaller_model_show_the_heads_that_stay(translator):
    heads = [Head("encoder", 0, 1), Head("encoder", 1, 0), Head("encoder", 1, 1)]
    smaller = regard.Model(remove_heads(translator._loaded, heads))
    (record,) = smaller.record([PAIRS[0]])
    assert record.difference < 1e-5
    assert [len(layer) for layer in record.attention("encoder").layers] == [1, 0]


def test_what_cannot_be_removed_is_refused(translator, owl_run):
    with pytest.raises(BadInput, match="no attention called 'encodr'; did you mean 'encoder'"):
        prunable_sites(translator.facts, ["encodr"])
    with pytest.raises(BadInput, match="encoder: there is no head 2 in layer 0"):
        remove_heads(translator._loaded, [Head("encoder", 0, 2)])
    pooled = regard.load(owl_run / "run" / "model", "cpu")
    with pytest.raises(BadInput, match="only layers of a Transformer can differ"):
        prunable_sites(pooled.facts)
