"""GPT and GPT-2: both heads at once, old files, conversions, and sizes."""

import json

import pytest
import torch

import regard
from encoder_families import FAMILIES
from encoder_family import CLOSE
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.heads import NextTokenHead
from regard.models.label_heads import LabelHead
from regard.models.papers import gpt, gpt2
from regard.models.pools import LastToken
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.weights.files import read_folder, write_tensors
from small_gpt import TEXTS
from verb import run

transformers = pytest.importorskip("transformers")

GPT, GPT2 = FAMILIES["gpt"], FAMILIES["gpt-2"]
FAMILY = {kind: family for family in (GPT, GPT2) for kind in family.heads}
LM = ("OpenAIGPTLMHeadModel", "GPT2LMHeadModel")


@pytest.mark.parametrize("kind", ["OpenAIGPTDoubleHeadsModel", "GPT2DoubleHeadsModel"])
@torch.no_grad()
def test_both_heads_are_served(kind, tmp_path):
    """Tokens are predicted unless choices are asked for; ``predict`` compares choices."""
    family, paper = FAMILY[kind], FAMILY[kind].paper
    lower = paper is gpt.PAPER
    tokenizer = train_encoder_tokenizer(["abc", "ab bc ca"], paper.tokenizer, 300, lower=lower)
    theirs = family.reference(kind, vocab_size=len(tokenizer.words))
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    model, rows = regard.load(tmp_path, "cpu"), [[1, 2, 3], [4, 5]]
    expected = [theirs(torch.tensor([row])) for row in rows]
    for head, key in ((None, "logits"), ("next_token", "logits"), ("choice", "mc_logits")):
        for found, outputs in zip(model.logits(rows, head=head), expected, strict=True):
            torch.testing.assert_close(found, outputs[key].view_as(found), **CLOSE)
    text, choices = "ab", ["bc", "ca ab", "c"]
    pairs = [tokenizer.row(*tokenizer.words.encode_all([text, one])).tokens for one in choices]
    logits = torch.cat([theirs(torch.tensor(row[None])).mc_logits.view(1) for row in pairs])
    (choice,) = model.predict([(text, choices)])
    assert choice.probabilities == pytest.approx(logits.softmax(0).tolist(), abs=1e-5)
    with pytest.raises(BadInput, match=r"^head must be one of next_token, choice, not 'label'$"):
        model.logits(rows, head="label")


@pytest.mark.parametrize("kind", LM)
def test_a_folder_without_tokenizer_files_has_logits(kind, tmp_path):
    theirs, row = FAMILY[kind].reference(kind), FAMILY[kind].rows()[0]
    theirs.save_pretrained(tmp_path)
    model = regard.load(tmp_path, "cpu")
    (logits_TV,) = model.logits([row.tokens])
    torch.testing.assert_close(logits_TV, theirs(torch.tensor([row.tokens])).logits[0], **CLOSE)


@pytest.mark.parametrize("kind", LM)
def test_old_files_without_prefix_and_with_masks_come_back(kind, tmp_path):
    """As published: no prefix, and the causal masks of each layer among the tensors."""
    FAMILY[kind].reference(kind).save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "model.safetensors"
    file = {name.removeprefix("transformer."): x for name, x in read_folder(path.parent).items()}
    for layer in range(2):
        file[f"h.{layer}.attn.bias"] = torch.tril(torch.ones(1, 1, 20, 20)).to(torch.uint8)
        file[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    write_tensors(path, file)
    regard.load(path.parent, "cpu").save(tmp_path / "ours", "regard")
    regard.load(tmp_path / "ours", "cpu").save(tmp_path / "again", "hf")
    again = read_folder(tmp_path / "again")
    assert again.keys() == file.keys()
    assert all(torch.equal(again[name], tensor) for name, tensor in file.items())


def test_the_head_of_a_tied_model_is_known_by_its_architecture_or_its_tensor(tmp_path):
    GPT2.reference("GPT2LMHeadModel").save_pretrained(tmp_path)
    assert "lm_head.weight" not in read_folder(tmp_path)
    assert folders.read(tmp_path).facts.output_heads == (NextTokenHead(),)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["GPT2Model"]}))
    assert folders.read(tmp_path).facts.output_heads == ()
    file = read_folder(tmp_path)
    write_tensors(
        tmp_path / "model.safetensors",
        {**file, "lm_head.weight": file["transformer.wte.weight"].clone()},
    )
    assert folders.read(tmp_path).facts.output_heads == (NextTokenHead(),)


def test_sizes_are_those_of_the_published_models():
    exact = {size: gpt2.PAPER.parameters(facts) for size, facts in gpt2.PAPER.sizes.items()}
    sizes = {"small": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "xl": 1_557_611_200}
    assert exact == sizes
    assert gpt.PAPER.parameters(gpt.BASE) == 116_534_784


def test_facts_that_a_config_cannot_express_and_keys_that_are_not_supported():
    with pytest.raises(BadInput, match=r"the GPT format cannot express .*inner is 20, not 3072"):
        gpt.HF.config_of(change(gpt.BASE, inner=20))
    assert gpt2.HF.config_of(change(gpt2.SMALL, inner=20))["n_inner"] == 20
    assert gpt2.HF.config_of(gpt2.MEDIUM)["n_inner"] is None
    key = "scale_attn_by_inverse_layer_idx"
    with pytest.raises(BadInput, match=f"{key} is True, and only False is supported"):
        gpt2.HF.facts_of({key: True}, ())
    with pytest.raises(BadInput, match="afn is 'gelu_new'; supported: gelu, relu"):
        gpt.HF.facts_of({"afn": "gelu_new"}, ())


@pytest.mark.parametrize("kind", ["OpenAIGPTDoubleHeadsModel", "GPT2DoubleHeadsModel"])
def test_a_second_head_without_a_layer_is_refused_by_its_key(kind, tmp_path):
    """It has no tensors by which it could be missed."""
    FAMILY[kind].reference(kind, summary_use_proj=False).save_pretrained(tmp_path)
    message = f"architectures: the choice head of {kind}: summary_use_proj is False, and only True"
    with pytest.raises(BadInput, match=message):
        regard.load(tmp_path, "cpu")


def test_an_empty_config_is_the_published_model():
    assert gpt2.HF.facts_of({}, ()) == gpt2.SMALL
    assert gpt.HF.facts_of({}, ()) == gpt.BASE


def test_dropout_of_the_embedding_follows_the_stack_unless_it_differs():
    facts = gpt2.HF.facts_of({"embd_pdrop": 0.3, "resid_pdrop": 0.3}, ())
    assert facts.trunk.embed.embedding_dropout is None
    small = {"width": 12, "heads": 2, "depth": 1, "vocab": 9}
    changed = change(facts, **{"stack.dropout": 0.2}, **small)
    assert changed.build().trunk.embed.dropout.rate == 0.2
    facts = gpt2.HF.facts_of({"embd_pdrop": 0.0}, ())
    assert change(facts, **small).build().trunk.embed.dropout.rate == 0
    config = gpt2.HF.config_of(facts)
    assert (config["embd_pdrop"], config["resid_pdrop"]) == (0.0, 0.1)


def test_layers_that_add_to_the_states_start_smaller():
    torch.manual_seed(0)
    module = change(gpt2.SMALL, width=128, heads=2, inner=512, depth=8, vocab=50).build()
    block = module.trunk.blocks[3]
    for scaled in (block.attention.o, block.mlp.down):
        assert scaled.weight.detach().std().item() == pytest.approx(
            0.02 / 4, rel=0.05
        )  # 2 · 8 such layers
    for whole in (block.attention.qkv, block.mlp.up):
        assert whole.weight.detach().std().item() == pytest.approx(0.02, rel=0.05)


def test_a_classifier_reads_the_last_token():
    fitted = gpt2.PAPER.fit_heads(gpt2.SMALL.with_heads(NextTokenHead()))
    assert fitted.pool is None
    fitted = gpt2.PAPER.fit_heads(
        change(gpt2.SMALL, pool=LastToken(), output_heads=(LabelHead(3),))
    )
    assert fitted.output_heads == (LabelHead(3, bias=False),) and fitted.pool == LastToken()


@pytest.mark.parametrize("kind", LM)
def test_convert_compares_with_the_reference(kind, tmp_path):
    FAMILY[kind].reference(kind).save_pretrained(tmp_path / "theirs")
    ours, back = (str(tmp_path / name) for name in ("ours", "back"))
    run("convert", str(tmp_path / "theirs"), ours, "--to", "regard", "--check")
    said = run("convert", ours, back, "--to", "hf", "--check")
    assert "next_token logits" in said.stdout


@pytest.mark.thinned
@pytest.mark.parametrize("kind", FAMILY)
def test_convert_compares_texts_with_the_reference(kind, tmp_path):
    """Pairs of texts too, whose segments the tokenizer of the reference counts and no GPT reads."""
    paper, lower = FAMILY[kind].paper, FAMILY[kind] is GPT
    tokenizer = train_encoder_tokenizer(TEXTS, paper.tokenizer, 300, lower=lower)
    theirs = FAMILY[kind].reference(kind, vocab_size=len(tokenizer.words), n_positions=64)
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    order = ("convert", tmp_path / "theirs", tmp_path / "ours", "--to", "regard", "--check")
    records = [json.loads(line) for line in run(*order, "--json").stdout.splitlines()]
    assert records[-1] == {"layer": "ids of texts", "read back": 0, "transformers": 0}
