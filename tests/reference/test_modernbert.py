"""ModernBERT: values of random shapes, windows, keys of config.json, and masked LM."""

import json
import random

import pytest
import torch

import regard
from encoder_families import FAMILIES
from encoder_family import CLOSE, SENTENCES
from regard.core.errors import BadInput
from regard.layers.rotary import LinearScaling
from regard.models.facts import change
from regard.models.label_heads import LabelHead, MLMHead
from regard.models.papers import modernbert
from regard.models.pools import FirstToken, MeanPool
from regard.models.positions import Rotary
from regard.objectives.by_name import ObjectiveTables
from regard.weights.files import read_folder, write_tensors
from small_tokenizers import write_tokenizer

transformers = pytest.importorskip("transformers")

FAMILY = FAMILIES["modernbert"]
FULL, SLIDING = "full_attention", "sliding_attention"


def settings_drawn(seed: int) -> tuple[str, dict]:
    """A random architecture with random sizes and options; each comes about equally often."""
    draw = random.Random(seed)
    kind = [*FAMILY.heads][seed % len(FAMILY.heads)]
    heads, depth = draw.choice([1, 2, 3]), draw.choice([1, 2, 4, 5, 7])
    settings = {
        "hidden_size": heads * draw.choice([4, 6, 10]),
        "num_attention_heads": heads,
        "intermediate_size": draw.choice([8, 22, 40]),
        "num_hidden_layers": depth,
        "local_attention": draw.choice([2, 3, 5, 8, 9]),
        "norm_eps": draw.choice([1e-5, 1e-2]),
        "hidden_activation": draw.choice(["gelu", "silu", "gelu_pytorch_tanh"]),
        "classifier_activation": draw.choice(["gelu", "relu"]),
        "classifier_pooling": draw.choice(["cls", "mean"]),
    }
    for key in ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"):
        settings[key] = draw.random() < 0.5
    for key in ("decoder_bias", "tie_word_embeddings"):
        settings[key] = draw.random() < 0.5
    bases = {FULL: draw.choice([160_000.0, 100.0]), SLIDING: draw.choice([10_000.0, 50.0])}
    if draw.random() < 0.5:
        settings["global_rope_theta"], settings["local_rope_theta"] = bases.values()
        settings["global_attn_every_n_layers"] = draw.choice([1, 2, 3, 4])
    else:
        scaling = draw.choice([{"rope_type": "default"}, {"rope_type": "linear", "factor": 4.0}])
        rope = {name: {"rope_theta": base, **scaling} for name, base in bases.items()}
        settings["rope_parameters"] = rope
        settings["layer_types"] = [draw.choice([FULL, SLIDING]) for _ in range(depth)]
    return kind, settings


@pytest.mark.thinned
@pytest.mark.parametrize("seed", range(72))
def test_random_shapes_agree_on_ragged_rows(seed, tmp_path):
    kind, settings = settings_drawn(seed)
    FAMILY.check_values(kind, settings, tmp_path)


def test_random_shapes_come_back_bit_for_bit(tmp_path):
    for seed in range(0, 72, 5):
        kind, settings = settings_drawn(seed)
        (tmp_path / str(seed)).mkdir()
        FAMILY.check_folder(kind, tmp_path / str(seed), **settings)


def test_masked_lm_of_30_percent_trains_and_fills_masks(tmp_path):
    model = FAMILY.pretrain(tmp_path, "masked-lm = { rate = 0.3 }")
    (filled,) = model.fill(["The old [MASK] mended his nets."])
    assert len(filled.blanks) == 1 and len(filled.blanks[0]) == 5
    model.save(tmp_path / "hf", "hf")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "hf", local_files_only=True
    )
    assert type(theirs) is transformers.ModernBertForMaskedLM
    ids = theirs.config.pad_token_id, theirs.config.cls_token_id
    assert ids == (model.tokenizer.special_ids["pad_token"], None)  # not those of the published
    (vector_D,), (scores,) = model.embed(["The old sailor"]), model.score(["The old sailor"])
    assert vector_D.isfinite().all() and all(score < 0 for score in scores)
    own = ObjectiveTables.default_keys({"paper": "modernbert"})  # of recipes without [objective]
    assert own == {"masked-lm": {"rate": 0.3}}


@torch.no_grad()
def test_texts_are_read_by_the_tokenizer_of_the_folder(tmp_path):
    """States, and the probabilities of words in a blank, from texts."""
    write_tokenizer(tmp_path, "modernbert")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("pad", "cls")}
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 90, **ids}
    theirs = FAMILY.reference("ModernBertForMaskedLM", **sizes)
    theirs.save_pretrained(tmp_path)
    model, texts, blank = regard.load(tmp_path, "cpu"), SENTENCES[:3], ["The  sea [MASK] calm."]
    for text, states_TD in zip(texts, model.encode(texts), strict=True):
        expected = theirs.model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        torch.testing.assert_close(states_TD, expected, **CLOSE)
    (filled,), inputs = model.fill(blank), tokenizer(blank, return_tensors="pt")
    (logits_V,) = theirs(**inputs).logits[inputs.input_ids == tokenizer.mask_token_id]
    expected = logits_V.softmax(-1).topk(5).values.tolist()
    assert [fill.probability for fill in filled.blanks[0]] == pytest.approx(expected, rel=1e-4)


@torch.no_grad()
def test_rows_of_mixed_length_are_encoded_as_each_alone(tmp_path):
    """Lengths below, at and far above the window; the reference pads, and agrees."""
    theirs = FAMILY.reference("ModernBertModel", max_position_embeddings=300, local_attention=16)
    theirs.save_pretrained(tmp_path)
    model, draw = regard.load(tmp_path, "cpu"), random.Random(3)
    rows = [[draw.randrange(1, 60) for _ in range(size)] for size in (300, 1, 8, 9, 17, 120, 2)]
    together, alone = model.encode(rows), [model.encode([row])[0] for row in rows]
    padded = torch.tensor([row + [0] * (300 - len(row)) for row in rows])
    expected = theirs(padded, attention_mask=(padded > 0).long()).last_hidden_state
    for row, states_TD, own_TD, padded_LD in zip(rows, together, alone, expected, strict=True):
        torch.testing.assert_close(states_TD, own_TD, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(states_TD, padded_LD[: len(row)], **CLOSE)


def test_a_window_limits_what_a_token_reads(tmp_path):
    """With windows in all layers, a token reads at most their sum; else the whole row."""
    kinds, row = {SLIDING: [SLIDING] * 2, FULL: [SLIDING, FULL]}, [5] * 20
    for name, layer_types in kinds.items():
        settings = {"num_hidden_layers": 2, "layer_types": layer_types, "local_attention": 5}
        FAMILY.reference("ModernBertModel", **settings).save_pretrained(tmp_path / name)
        before_TD, after_TD = regard.load(tmp_path / name, "cpu").encode([row, [*row[:-1], 6]])
        differs = (before_TD - after_TD).abs().amax(-1) > 1e-6
        first = 20 - 1 - 2 * 2 if name == SLIDING else 0
        assert differs.tolist() == [place >= first for place in range(20)]


PUBLISHED = {  # the keys of 2024 that decide values
    "architectures": ["ModernBertForMaskedLM"],
    "classifier_pooling": "mean",
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160_000.0,
    "layer_norm_eps": 1e-5,
    "local_attention": 128,
    "local_rope_theta": 10_000.0,
    "position_embedding_type": "absolute",
    "reference_compile": None,
}


def test_folders_of_2024_and_of_today_are_the_same_model():
    today = transformers.ModernBertConfig(**PUBLISHED).to_dict()
    assert "layer_types" in today and "layer_types" not in PUBLISHED
    for config in (PUBLISHED, today, {}):
        assert modernbert.HF.facts_of(config, ()) == modernbert.BASE


@torch.no_grad()
def test_a_folder_of_2024_has_the_same_values(tmp_path):
    FAMILY.reference("ModernBertForMaskedLM").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    del config["layer_types"], config["rope_parameters"]
    own = {"global_attn_every_n_layers": 2, "global_rope_theta": 70.0, "local_rope_theta": 20.0}
    path.write_text(json.dumps({**config, **PUBLISHED, **own, "local_attention": 5}))
    theirs = transformers.ModernBertForMaskedLM.from_pretrained(tmp_path).eval()
    model, row = regard.load(tmp_path, "cpu"), FAMILY.rows()[2].tokens
    assert model.facts.trunk.stack.windows == (0, 2)
    torch.testing.assert_close(
        model.logits([row])[0], theirs(torch.tensor([row])).logits[0], **CLOSE
    )
    model.save(tmp_path / "again", "hf")
    assert json.loads((tmp_path / "again" / "config.json").read_text()) == json.loads(
        path.read_text()
    )


def test_files_of_2024_may_have_one_base():
    facts = modernbert.HF.facts_of({"global_rope_theta": 99.0, "local_rope_theta": None}, ())
    assert facts.trunk.embed.position == Rotary(8_192, base=99.0, local_base=99.0)


@pytest.mark.parametrize("windows", [(), (0, 7), (0, 7, 7), (7,), (7, 0, 0), (0, 0, 7, 7)])
@pytest.mark.parametrize("depth", [4, 5, 22])
def test_keys_of_both_ages_are_written(windows, depth):
    facts = change(modernbert.BASE, windows=windows, depth=depth, scaling=LinearScaling(2.0))
    config = modernbert.HF.config_of(facts)
    assert modernbert.HF.facts_of(config, ()) == facts
    expected = [(windows or (0,))[layer % len(windows or (0,))] for layer in range(depth)]
    theirs = transformers.ModernBertConfig(**config)
    sizes = {FULL: 0, SLIDING: theirs.sliding_window}
    assert [sizes[kind] for kind in theirs.layer_types] == expected
    if not windows or (windows[0] == 0 and 0 not in windows[1:]):  # what 4.48 can express
        every = config["global_attn_every_n_layers"]
        half = config.get("local_attention", 128) // 2
        assert [half if layer % every else 0 for layer in range(depth)] == expected
    assert (config["global_rope_theta"], config["local_rope_theta"]) == (160_000.0, 10_000.0)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"local_attention": 1}, "local_attention must be a whole number, at least 2, not 1"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers must be .* at least 1"),
        ({"layer_types": [FULL]}, "layer_types must be 22 of full_attention, sliding_attention"),
        ({"layer_types": ["chunked"] * 22}, "layer_types must be 22 of"),
        ({"layer_types": [{}] * 22}, "layer_types must be 22 of"),
        ({"layer_types": 3}, "layer_types must be 22 of .*, not 3"),
        ({"rope_parameters": {"rope_theta": 5.0}}, "rope_parameters must have full_attention and"),
        ({"rope_parameters": {FULL: 5.0}}, "full_attention must be a table, not 5.0"),
        ({"rope_parameters": {FULL: {"rope_type": "yarn"}}}, "full_attention: rope_type is 'yarn'"),
        ({"rope_parameters": {FULL: {"rope_type": "linear", "factor": 2.0}}}, "must be the same"),
        ({"global_rope_theta": -1.0}, "base must be above 0"),
        ({"local_rope_theta": 0}, "local_base must be above 0, not 0"),
        ({"norm_bias": "no"}, "norm_bias must be true or false, not 'no'"),
        ({"classifier_pooling": "max"}, "classifier_pooling is 'max'; supported: cls, mean"),
        ({"classifier_pooling": ["cls"]}, r"classifier_pooling is \['cls'\]; supported"),
        ({"hidden_activation": "mish"}, "hidden_activation is 'mish'; supported: "),
        ({"quantization_config": {"bits": 4}}, "quantization_config is"),
    ],
)
def test_keys_that_are_not_supported_are_refused_by_name(keys, reason):
    with pytest.raises(BadInput, match=reason):
        modernbert.HF.facts_of(keys, ())


def test_facts_without_keys_are_refused():
    pooled = change(modernbert.BASE, pool=FirstToken(dense=False))
    both = modernbert.PAPER.fit_heads(pooled.with_heads(MLMHead(), LabelHead(3)))
    assert both.pool == MeanPool() and both.head("label").outputs == 3
    label = both.with_heads(both.head("label"))
    assert modernbert.HF.config_of(label)["classifier_pooling"] == "mean"
    for facts, lost in (
        (change(modernbert.BASE, dropout=0.1), "dropout is 0.1, not 0.0"),
        (change(modernbert.BASE, windows=(0, 64, 32)), r"windows is \(0, 64, 32\)"),
        (change(modernbert.BASE, norm_kind="rms"), "norm_kind is 'rms', not 'layer-no-bias'"),
        (both, "output_heads.mlm"),
        (change(label, pool=FirstToken()), "pool"),
    ):
        with pytest.raises(
            BadInput, match=f"ModernBERT format cannot express this model: .*{lost}"
        ):
            modernbert.HF.config_of(facts)
    with pytest.raises(BadInput, match="rope_parameters: positions must be rotary, not Learned"):
        modernbert.HF.config_of(change(modernbert.BASE, position="learned"))


def test_tied_vectors_may_be_stored_twice(tmp_path):
    FAMILY.reference("ModernBertForMaskedLM", decoder_bias=False).save_pretrained(tmp_path)
    tensors = read_folder(tmp_path)
    assert not any(name.startswith("decoder.") for name in tensors)
    before = regard.load(tmp_path, "cpu").logits([[5, 6]])[0]
    vectors_VD = tensors["model.embeddings.tok_embeddings.weight"].clone()
    write_tensors(tmp_path / "model.safetensors", {**tensors, "decoder.weight": vectors_VD})
    model = regard.load(tmp_path, "cpu")
    assert model.facts.head("mlm").tied and not model.facts.head("mlm").bias
    assert torch.equal(model.logits([[5, 6]])[0], before)


@pytest.mark.parametrize("size", ["base", "large"])
def test_sizes_are_those_of_the_published_models(size):
    facts = modernbert.PAPER.sizes[size]
    with_head = modernbert.PAPER.fit_heads(facts.with_heads(MLMHead()))
    exact = {"base": (149_014_272, 149_655_232), "large": (394_781_696, 395_881_664)}[size]
    assert tuple(map(modernbert.PAPER.parameters, (facts, with_head))) == exact
    with torch.device("meta"):
        config = transformers.ModernBertConfig(**modernbert.HF.config_of(with_head))
        theirs = transformers.ModernBertForMaskedLM(config)
    assert sum(each.numel() for each in theirs.parameters()) == exact[1]
    assert sum(each.numel() for each in theirs.model.parameters()) == exact[0]
