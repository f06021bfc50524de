"""Recurrent language models as people use them: states, logits, generation, folders, verbs."""

import json
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

import regard
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.papers import awd_lstm, zaremba
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from verb import run

TEXTS = ["a b c a b c a", "b", "c c a b a b a c b"]
PAPERS = {"zaremba": zaremba, "awd-lstm": awd_lstm}


@pytest.fixture(scope="module", params=PAPERS)
def model(request):
    torch.manual_seed(4)
    paper = PAPERS[request.param].PAPER
    tokenizer = train_encoder_tokenizer(TEXTS, "word-level", 300, lower=False, longest=None)
    facts = paper.sizes[paper.default_size]
    facts = change(facts, width=8, embedding=6, vocab=len(tokenizer.words), initial="learned")
    if facts.trunk.stack.last_width:
        facts = change(facts, last_width=6)
    facts = paper.fit_heads(facts.with_heads(NextTokenHead()))
    module = facts.build().eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.7)
    return regard.Model(LoadedModel(paper, facts, module, tokenizer))


def test_states_and_logits_of_texts(model):
    states, logits = model.encode(TEXTS), model.logits(TEXTS)
    assert [len(one) for one in states] == [7, 1, 9]
    module = model.module
    for text, state_TD, logits_TV in zip(TEXTS, states, logits, strict=True):
        ids = torch.tensor(model.tokenizer.words.encode(text))
        x_TD = module.trunk.embed.token(ids)
        for layer, begin_PD in zip(module.trunk.layers, module.trunk.initial.layers, strict=True):
            x_TD, _ = layer.kernel(x_TD, tuple(begin_PD[:, None]))
        torch.testing.assert_close(state_TD, x_TD, rtol=1e-5, atol=1e-5)
        expected_TV = x_TD @ module.output.weight.T + module.output.bias
        torch.testing.assert_close(logits_TV, expected_TV, rtol=1e-5, atol=1e-5)
    assert model.embed(TEXTS, pool="mean").shape == (3, states[0].shape[1])
    assert len(model.encode(TEXTS, layer=1)[0]) == 7


def test_broken_states_are_reported_with_the_weight(model):
    broken = deepcopy(model.module)
    broken.trunk.layers[0].kernel.weight_hh_l0.data[0, 0] = float("nan")
    model = regard.Model(replace(model._loaded, module=broken))
    for carry in (False, True):
        with pytest.raises(BadInput, match=r"the weight \S+weight_hh_l0 is NaN .*\(1 of "):
            model.encode(TEXTS, carry=carry)


def test_there_is_no_attention_to_score(model):
    with pytest.raises(regard.BadInput, match="this model has no attention to show"):
        model.induction("a b a b")


def greedy(model, prompt, most):
    """One forward pass over all tokens for each new one."""
    ids = model.tokenizer.words.encode(prompt)
    new = []
    while len(new) < most and model.tokenizer.words.number("<eos>") not in new:
        new.append(int(model.logits([ids + new])[0][-1].argmax()))
    return new


def test_generation_carries_the_state(model):
    prompts = ["a b c", "b", "c a b a b"]

    def tokens(prompts, **options):
        found = model.generate(prompts, min_new_tokens=1, max_new_tokens=6, **options)
        return [best.hypothesis.tokens for best, *_ in found]

    for prompt, found in zip(prompts, model.generate(prompts, max_new_tokens=6), strict=True):
        new = [token for token in greedy(model, prompt, 6) if token != 1]
        assert [*found[0].hypothesis.tokens] == new
        assert found[0].text.split() == model.tokenizer.words.pieces(new)
        assert "".join(model.stream(prompt, max_new_tokens=6)).split() == found[0].text.split()
    for search in (regard.Greedy(), regard.Beam(3), regard.Sample(temperature=0.8, seed=2)):
        together = tokens(prompts, search=search)
        assert tokens(prompts, search=search, batch_size=1) == together
        assert all(together)


def test_the_state_stays_in_fp32_unless_told_otherwise(model, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "regard.generation.choose_engine", lambda *given: seen.append(given[1]) or given
    )
    for precision in ("auto", "bf16"):
        model.runner.choice(precision)
    assert seen == ["fp32", "bf16"]


def test_folders_keep_everything(model, tmp_path):
    model.save(tmp_path, "regard")
    loaded = regard.load(tmp_path)
    assert loaded.facts == model.facts and loaded.paper is model.paper
    for one, other in zip(loaded.logits(TEXTS), model.logits(TEXTS), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
    for precision in ("fp32", "int8"):
        other = regard.load(tmp_path, precision=precision)
        assert len(other.generate(["a b"], max_new_tokens=3)) == 1
    printed = run("generate", tmp_path, "--max-new-tokens", "4", "--json", stdin="a b c\n")
    record = json.loads(printed.stdout)
    assert record["ended"] in ("eos", "length")


def test_papers_lists_them():
    shown = run("papers").stdout
    assert "Zaremba" in shown and "AWD-LSTM" in shown
    sizes = run("papers", "awd-lstm").stdout
    assert "wikitext-2" in sizes and "33" in sizes
    changed = run("papers", "zaremba", "awd-lstm").stdout
    assert "weight_drop" in changed and "locked" in changed
