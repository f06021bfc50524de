"""ALBERT: sizes, groups of layers, and what it is pre-trained on."""

import re

import pytest
import torch

import regard
from encoder_families import FAMILIES
from encoder_family import FILES
from regard.core.errors import BadInput
from regard.models.facts import difference
from regard.models.papers import albert, bert
from verb import run

transformers = pytest.importorskip("transformers")

FAMILY = FAMILIES["albert"]


def test_no_architecture_is_left_out():
    known = {name for name in dir(transformers) if name.startswith("AlbertFor")}
    assert {*FAMILY.heads} == {*albert.ARCHITECTURES.heads} == {"AlbertModel"} | known


def test_sizes_are_those_of_the_published_models():
    counts = {name: albert.PAPER.parameters(facts) for name, facts in albert.PAPER.sizes.items()}
    exact = {"base": 11_683_584, "large": 17_683_968, "xlarge": 58_724_864, "xxlarge": 222_595_584}
    assert counts == exact | {f"{name}-v2": count for name, count in exact.items()}
    for name, count in counts.items():
        assert count == pytest.approx(albert.PAPER.published[name], rel=0.06)


def test_an_empty_configuration_is_the_largest_size():
    config = transformers.AlbertConfig().to_dict()
    assert albert.HF.facts_of({}, ()) == albert.HF.facts_of(config, ())
    assert albert.HF.facts_of({}, ("pooler.weight",)) == albert.PAPER.sizes["xxlarge-v2"]


def test_dropout_is_that_of_the_first_sizes_only():
    rates = {
        name: (facts.trunk.stack.dropout, facts.trunk.stack.attention_dropout)
        for name, facts in albert.PAPER.sizes.items()
    }
    assert {name for name, rate in rates.items() if rate == (0.1, 0.1)} == {
        *("base", "large", "xlarge")
    }
    assert {*rates.values()} == {(0.1, 0.1), (0.0, 0.0)}


def test_what_changed_since_bert():
    assert difference(bert.BASE, albert.BASE).keys() == {
        "trunk.embed.vocab",
        "trunk.embed.embedding_size",
        "trunk.stack.activation",
        "trunk.stack.shared_groups",
    }
    printed = run("papers", "BERT", "ALBERT").output
    assert "embedding_size" in printed and "shared_groups" in printed


def test_groups_of_several_layers():
    stack = albert.HF.facts_of({"inner_group_num": 2, "num_hidden_layers": 3}, ()).trunk.stack
    assert (stack.depth, stack.group_depth, stack.block_numbers) == (6, 2, (0, 1, 0, 1, 0, 1))
    with pytest.raises(
        BadInput, match="inner_group_num and num_hidden_layers must be integers above 0, not 0"
    ):
        albert.HF.facts_of({"inner_group_num": 0}, ())


def test_masked_lm_with_sentence_order_trains_and_is_tuned(tmp_path):
    objectives = "masked-lm = { ngrams = 3 }\nsentence-order = {}\n"
    model = FAMILY.pretrain(tmp_path, objectives)
    assert model.facts.head_names == ("mlm", "sentence_pair")
    assert model.facts.head("sentence_pair").dropout == 0.1
    (filled,) = model.fill(["The old [MASK] mended his nets."])
    assert len(filled.blanks) == 1 and len(filled.blanks[0]) == 5
    model.save(tmp_path / "hf", "hf")
    theirs = transformers.AutoModelForPreTraining.from_pretrained(
        tmp_path / "hf", local_files_only=True
    )
    assert type(theirs) is transformers.AlbertForPreTraining
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf", local_files_only=True)
    pair = ("The old sailor mended his nets.", "The storm came in.")
    with torch.no_grad():
        logits = theirs.eval()(**tokenizer(*pair, return_tensors="pt")).sop_logits[0]
    (found,) = regard.load(tmp_path / "hf", "cpu").predict([pair])
    expected = dict(zip(("InOrder", "Swapped"), logits.softmax(0).tolist(), strict=True))
    assert found.probabilities == pytest.approx(expected, abs=1e-5)
    recipe = (tmp_path / "r.toml").read_text()
    tsv = '{ reader = "tsv", file = "a.tsv", options = { texts = ["text"], label = "label" } }'
    (tmp_path / "a.tsv").write_text(FILES["classify"][2])
    start = recipe[: recipe.index("[objective]")]
    start = start.replace('task = "pretrain"', 'task = "classify"')
    start = re.sub(r"(train|dev) = \{.*\}", rf"\1 = {tsv}", start)
    start = re.sub(r"\[text\]\nvocab = 300\n", "", start)
    start = re.sub(r"paper = .*\nchange = .*", 'start = "run/model"', start)
    (tmp_path / "tune.toml").write_text(start)
    run("train", tmp_path / "tune.toml", "--data", tmp_path, "--out", tmp_path / "tuned")
    tuned = regard.load(tmp_path / "tuned" / "model", "cpu")
    assert tuned.paper is albert.PAPER and len(tuned.predict(["the sea"])) == 1
