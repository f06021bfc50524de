"""C6: Marian folders give what ``transformers`` gives, and go back to it bit for bit."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import regard
from marian_folders import reference_model, reference_tokenizer, sentences, write_marian, write_text
from regard.core.batch import SourceTarget, pack
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.papers import marian, transformer
from regard.models.papers.transformer import LAPTOP
from regard.text.tokenizers.marian_spm import MarianTokenizer
from regard.weights.files import load_weights, read_folder, read_tensors, weights_of
from verb import run

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

KINDS = {
    "tied": {},
    "relu": {"activation_function": "relu", "scale_embedding": False},
    "gelu": {"activation_function": "gelu", "attention_dropout": 0.1, "activation_dropout": 0.2},
    "words untied": {"tie_word_embeddings": False},
    "target tied": {"share_encoder_decoder_embeddings": False},
    "untied": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    "separate": {"separate": True},
    "separate untied": {"separate": True, "tie_word_embeddings": False},
    "half": {"dtype": torch.float16},
    "bfloat16": {"dtype": torch.bfloat16},
}
PAIRS = [*sentences()[:4], ("", "Ein Wort."), (">>deu<< Naïve 日本 words", "")]


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory) -> Path:
    torch.manual_seed(0)
    return write_marian(tmp_path_factory.mktemp("hf") / "folder", **KINDS[request.param])


@pytest.fixture(scope="module")
def tied(tmp_path_factory) -> Path:
    torch.manual_seed(1)
    return write_marian(tmp_path_factory.mktemp("tied") / "folder", num_beams=None)


def ids_of(folder, pairs=PAIRS):
    """What the reference's tokenizer makes of pairs, with the marks that its model is given."""
    tokenizer = reference_tokenizer(folder)
    begin = json.loads((folder / "config.json").read_text())["decoder_start_token_id"]
    return [
        (tokenizer(source).input_ids, [begin, *tokenizer(text_target=target).input_ids[:-1]])
        for source, target in pairs
    ]


@torch.no_grad()
def values_of_reference(folder, ids):
    """Every layer of the reference's model for one pair, by our names."""
    source, target = (torch.tensor([one]) for one in ids)
    found = reference_model(folder)(
        input_ids=source, decoder_input_ids=target, output_hidden_states=True
    )
    sides = {"source": found.encoder_hidden_states, "target": found.decoder_hidden_states}
    values = {
        f"{side}.embed.output" if number == 0 else f"{side}.blocks.{number - 1}.output": one[0]
        for side, states in sides.items()
        for number, one in enumerate(states)
    }
    return {**values, "logits": found.logits[0]}


@torch.no_grad()
def values_of_ours(module, ids):
    tape = Tape("*.embed.output", "*.blocks.?.output", "logits")
    module(SourceTarget(*(pack([one]) for one in ids)), tape=tape)
    return tape.records


def assert_same_bits(one: Path, other: Path):
    here, there = read_folder(one), read_folder(other)
    assert here.keys() == there.keys()
    for name in here:
        assert here[name].dtype == there[name].dtype
        assert torch.equal(here[name].view(torch.uint8), there[name].view(torch.uint8)), name


@pytest.mark.thinned
def test_every_layer_agrees(folder):
    module = regard.load(folder, "cpu").module
    for ids in ids_of(folder):
        ours, theirs = values_of_ours(module, ids), values_of_reference(folder, ids)
        assert ours.keys() == theirs.keys() and len(ours) == 2 + 2 + 3 + 1
        for name, value in theirs.items():
            torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-5, msg=name)
            if len(value) > 1:
                assert value.std(0).max() > 1_000 * 1e-5, name  # or agreeing would say little


@pytest.mark.thinned
def test_the_public_face_agrees_in_a_batch(folder):
    model = regard.load(folder, "cpu")
    ids = ids_of(folder)
    found = model.logits(PAIRS)
    states = {
        layer: model.encode([source for source, _ in PAIRS], layer) for layer in (-1, 0, 1, 2)
    }
    for number, pair in enumerate(ids):
        theirs = values_of_reference(folder, pair)
        torch.testing.assert_close(found[number], theirs["logits"], rtol=1e-5, atol=1e-5)
        for layer, place in ((-1, "blocks.1"), (0, "embed"), (1, "blocks.0"), (2, "blocks.1")):
            wanted = theirs[f"source.{place}.output"]
            torch.testing.assert_close(states[layer][number], wanted, rtol=1e-5, atol=1e-5)
    scores = model.score(PAIRS)
    for (source, target), logits, row in zip(PAIRS, found, scores, strict=True):
        goals = [*model.tokenizer.target.encode(target), model.tokenizer.target.eos]
        wanted = logits.log_softmax(-1)[torch.arange(len(goals)), goals]
        assert row == pytest.approx(wanted.tolist(), abs=1e-5)
        assert model.embed([source]).shape == (1, 16)


def test_late_positions_agree(tied):
    ids = ([5 + i % 90 for i in range(60)], [7 + i % 80 for i in range(64)])
    ours = values_of_ours(regard.load(tied, "cpu").module, ids)
    for name, value in values_of_reference(tied, ids).items():
        torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-5, msg=name)


def test_every_tensor_of_the_file_matters(tied):
    """A tensor that was read to the wrong place, or nowhere, would go unnoticed otherwise."""
    (ids, *_) = ids_of(tied)
    model = regard.load(tied, "cpu")
    module, names = model.module, marian.HF.weights
    before = values_of_ours(module, ids)["logits"]
    tensors = read_tensors(tied / "model.safetensors")
    silent = []
    for name, tensor in tensors.items():
        changed = {**tensors, name: tensor + 0.1 * torch.randn_like(tensor)}
        ours, _ = names.read(changed, weights_of(module), "a file")
        load_weights(module, ours, "a file")
        after = values_of_ours(module, ids)["logits"]
        if torch.allclose(before, after, atol=1e-4):
            silent.append(name)
    # softmax(q·(k + b)) does not depend on b
    assert all(name.endswith("k_proj.bias") for name in silent) and len(silent) == 2 + 3 + 3


@pytest.mark.thinned
def test_round_trips_are_bit_exact(folder, tmp_path):
    regard.load(folder, "cpu").save(tmp_path / "hf", format="hf")
    regard.load(folder, "cpu").save(tmp_path / "regard")
    regard.load(tmp_path / "regard", "cpu").save(tmp_path / "back", format="hf")
    for copy in (tmp_path / "hf", tmp_path / "back"):
        assert_same_bits(folder, copy)
        assert {one.name for one in copy.iterdir()} == {one.name for one in folder.iterdir()}
        for path in folder.iterdir():
            if path.name == "config.json":
                assert json.loads((copy / path.name).read_text()) == json.loads(path.read_text())
            elif path.suffix != ".safetensors":
                assert (copy / path.name).read_bytes() == path.read_bytes()


@pytest.mark.thinned
def test_the_reference_loads_what_was_written(folder, tmp_path):
    regard.load(folder, "cpu").save(tmp_path / "regard")
    regard.load(tmp_path / "regard", "cpu").save(tmp_path / "hf", format="hf")
    for ids, again in zip(ids_of(folder), ids_of(tmp_path / "hf"), strict=True):
        assert ids == again
    one, other = (values_of_reference(place, ids) for place in (folder, tmp_path / "hf"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.thinned
def test_greedy_search_writes_what_the_reference_writes(folder):
    model, reference = regard.load(folder, "cpu"), reference_model(folder)
    texts = [source for source, _ in sentences()[:4]]
    found = model.translate(texts, regard.Greedy())
    begin, pad = model.tokenizer.target.bos, model.tokenizer.target.pad
    for text, (best,) in zip(texts, found, strict=True):
        ids = torch.tensor([reference_tokenizer(folder)(text).input_ids])
        settings = {"num_beams": 1, "do_sample": False, "bad_words_ids": [[pad]], "max_length": 12}
        (wanted,) = reference.generate(input_ids=ids, forced_eos_token_id=None, **settings)
        written = wanted[1:].tolist()
        assert wanted[0] == begin and list(best.hypothesis.tokens)[:11] == written[:11]


def old_file(tied: Path, folder: Path) -> Path:
    """A folder as of 2020: pickled, every tied name and the tables of positions in it."""
    shutil.copytree(tied, folder)
    tensors = read_tensors(folder / "model.safetensors")
    shared = tensors["model.shared.weight"]
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        tensors[f"{name}.weight"] = shared
    model = reference_model(tied).model
    for side in ("encoder", "decoder"):
        table = getattr(model, side).embed_positions.weight.detach()
        tensors[f"model.{side}.embed_positions.weight"] = table
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    return folder


def test_an_old_pickled_folder(tied, tmp_path):
    old = old_file(tied, tmp_path / "old")
    (ids, *_) = ids_of(tied)
    model = regard.load(old, "cpu")
    wanted = values_of_reference(tied, ids)["logits"]
    torch.testing.assert_close(values_of_ours(model.module, ids)["logits"], wanted)
    model.save(tmp_path / "regard")
    regard.load(tmp_path / "regard", "cpu").save(tmp_path / "hf", format="hf")
    assert_same_bits(old, tmp_path / "hf")
    assert torch.equal(values_of_reference(tmp_path / "hf", ids)["logits"], wanted)


def test_a_folder_of_the_bare_model(tied, tmp_path):
    """``MarianModel`` writes no prefix, no bias, and the tables; ``MarianMTModel`` reads that."""
    shutil.copytree(tied, tmp_path / "bare")
    reference_model(tied).model.save_pretrained(tmp_path / "bare")
    names = read_tensors(tmp_path / "bare" / "model.safetensors").keys()
    assert "shared.weight" in names and "final_logits_bias" not in names
    model = regard.load(tmp_path / "bare", "cpu")
    assert not model.facts.head_bias
    (ids, *_) = ids_of(tied)
    wanted = values_of_reference(tmp_path / "bare", ids)["logits"]
    torch.testing.assert_close(values_of_ours(model.module, ids)["logits"], wanted)
    model.save(tmp_path / "regard")
    regard.load(tmp_path / "regard", "cpu").save(tmp_path / "hf", format="hf")
    assert_same_bits(tmp_path / "bare", tmp_path / "hf")


def test_a_model_that_never_was_a_folder(tmp_path):
    """Made by regard, with a SentencePiece vocabulary: ``transformers`` reads it all the same."""
    text_folder = tmp_path / "text"
    text_folder.mkdir()
    vocab, _ = write_text(text_folder)
    text = MarianTokenizer.load(text_folder)
    facts = change(marian.BASE, width=16, depth=2, heads=2, inner=24, vocab=vocab)
    module = facts.build().eval()
    torch.nn.init.normal_(module.head.bias)
    stored = folders.LoadedModel(marian.PAPER, facts, module, text, notes={"cost": 1})
    folders.write(tmp_path / "hf", stored, "hf")
    for ids in ids_of(tmp_path / "hf"):
        theirs = values_of_reference(tmp_path / "hf", ids)["logits"]
        ours = values_of_ours(module, ids)["logits"]
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    again = folders.read(tmp_path / "hf")
    assert again.facts == facts
    assert again.notes["generation"]["bad_words_ids"] == [[vocab - 1]]
    folders.write(tmp_path / "regard", stored)
    assert folders.read(tmp_path / "regard").tokenizer.target.bos == vocab - 1
    plain = replace(stored, paper=transformer.PAPER)
    folders.write(tmp_path / "plain", plain, "hf")
    assert_same_bits(tmp_path / "hf", tmp_path / "plain")


def test_parameters_are_counted_as_the_reference_counts(tied):
    reference, model = reference_model(tied), regard.load(tied, "cpu")
    tables = 2 * reference.model.encoder.embed_positions.weight.numel()
    bias = reference.final_logits_bias.numel()  # a buffer there
    assert model.paper.parameters(model.facts) == reference.num_parameters() - tables + bias


def refused(stored, tmp_path, said):
    with pytest.raises(BadInput, match=said) as caught:
        folders.write(tmp_path / "refused", stored, "hf")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "refused").exists()


def test_what_marian_cannot_express_is_refused(small_run, tmp_path):
    trained = folders.read(small_run / "run" / "model")
    refused(
        trained, tmp_path, r"cannot express this model: .*source.stack.norm is 'pre', not 'post'"
    )
    facts = change(
        marian.BASE, width=8, depth=1, heads=2, inner=8, vocab=len(trained.tokenizer.source)
    )
    fits = replace(trained, facts=facts, module=facts.build())
    refused(fits, tmp_path, "needs SentencePiece models, but this model has a bpe vocabulary")
    refused(replace(fits, tokenizer=None), tmp_path, "this model has no vocabulary")
    assert LAPTOP.source.stack.norm == "pre"
    known = "regard, hf, elmo, timm, onnx"
    with pytest.raises(BadInput, match=f"format must be one of {known}, not 'gguf'"):
        folders.write(tmp_path / "refused", trained, "gguf")


def changed_config(tied: Path, folder: Path, **changes) -> Path:
    shutil.copytree(tied, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "bart"}, "model_type 'bart' is not supported, only marian"),
        ({"normalize_before": True}, "normalize_before is True, and only False is supported"),
        ({"static_position_embeddings": False}, "static_position_embeddings is False"),
        ({"encoder_layerdrop": 0.1}, "encoder_layerdrop is 0.1"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"activation_function": "mish"}, "activation_function is 'mish'; supported: gelu, relu"),
        ({"activation_function": 3}, "activation_function is 3"),
        ({"tie_word_embeddings": "no"}, "must be true or false"),
        (
            {"decoder_vocab_size": 7},
            "share_encoder_decoder_embeddings: vocab_size 297 and decoder_vocab_size 7 differ",
        ),
        ({"d_model": "wide"}, "config.json: d_model: width of Stack must be int"),
        ({"encoder_layers": -1}, "depth must be at least 1"),
        ({"encoder_attention_heads": 3}, "is not divisible by 3 heads"),
        ({"dropout": 2.0}, "dropout must be at least 0"),
        ({"encoder_layers": 3}, r"missing: model\.encoder\.layers\.2\.self_attn\.q_proj\.weight"),
        ({"encoder_layers": 1}, r"unknown: model\.encoder\.layers\.1"),
        ({"d_model": 32}, r"model\.shared\.weight is \[297, 16\], not \[297, 32\]"),
        ({"vocab_size": 10**12, "decoder_vocab_size": None}, "not \\[1000000000000, 16\\]"),
        ({"eos_token_id": 5}, "eos_token_id is 5, but the vocabulary has 0"),
        (
            {"decoder_start_token_id": 9_999},
            "the first token of targets is 9999, but the model has only 297 ids",
        ),
        ({"decoder_start_token_id": "x"}, "decoder_start_token_id must be a token id, not 'x'"),
        ({"quantization_config": {"bits": 8}}, "quantization_config"),
    ],
)
def test_unsupported_values_of_a_configuration_are_refused(tied, tmp_path, changes, said):
    with pytest.raises(BadInput, match=said) as caught:
        regard.load(changed_config(tied, tmp_path / "copy", **changes), "cpu")
    assert "\n" not in str(caught.value)


def test_settings_that_are_not_ours_survive(tied, tmp_path):
    extra = {"task_specific_params": {"x": [1, None]}, "num_beams": 6, "_name": "ä", "silly": 1e-05}
    copy = changed_config(tied, tmp_path / "copy", activation_function="silu", **extra)
    (copy / "generation_config.json").unlink()
    model = regard.load(copy, "cpu")
    assert model.notes["generation"] == {"num_beams": 6, "forced_eos_token_id": 0}
    model.save(tmp_path / "regard")
    regard.load(tmp_path / "regard", "cpu").save(tmp_path / "hf", format="hf")
    one, other = (json.loads((f / "config.json").read_text()) for f in (copy, tmp_path / "hf"))
    assert one == other and other["activation_function"] == "silu"


def test_only_what_changed_is_rewritten(tied, tmp_path):
    stored = folders.read(changed_config(tied, tmp_path / "copy", silly=3))
    folders.write(tmp_path / "hf", replace(stored, facts=change(stored.facts, dropout=0.3)), "hf")
    config = json.loads((tmp_path / "copy" / "config.json").read_text())
    assert json.loads((tmp_path / "hf" / "config.json").read_text()) == {**config, "dropout": 0.3}


def test_generation_settings_come_from_their_own_file_first(tied, tmp_path):
    copy = changed_config(tied, tmp_path / "copy", num_beams=6)
    settings = {"num_beams": 4, "length_penalty": 0.6, "max_length": 99, "bad_words_ids": [[296]]}
    (copy / "generation_config.json").write_text(json.dumps({**settings, "top_k": None}))
    assert regard.load(copy, "cpu").notes["generation"] == settings


def test_without_tokenizer_files_ids_are_served(tied, tmp_path):
    shutil.copytree(tied, tmp_path / "copy")
    for name in ("source.spm", "target.spm", "vocab.json"):
        (tmp_path / "copy" / name).unlink()
    bare, whole = regard.load(tmp_path / "copy", "cpu"), regard.load(tied, "cpu")
    assert bare.tokenizer is None
    assert torch.equal(bare.encode([[5, 6, 0]])[0], whole.encode([[5, 6, 0]])[0])
    source, target = sentences()[0]
    ids, written = whole.tokenizer.source.encode(source), whole.tokenizer.target.encode(target)
    pair = ([*ids, whole.tokenizer.target.eos], written)
    assert torch.equal(bare.logits([pair])[0], whole.logits([(source, target)])[0])
    assert bare.score([pair]) == whole.score([(source, target)])
    (found,), (expected,) = bare.translate([pair[0]])[0], whole.translate([source])[0]
    assert found.hypothesis == expected.hypothesis and (found.text, bool(expected.text)) == ("", 1)
    for do in (bare.translate, bare.encode):
        with pytest.raises(BadInput, match="this folder has no tokenizer files"):
            do([source])
    for do in (bare.score, bare.logits, lambda pairs: list(bare.align(pairs))):
        with pytest.raises(BadInput, match="this folder has no tokenizer files"):
            do([(source, target)])


def test_inside_works_on_it(tied):
    model = regard.load(tied, "cpu")
    source, target = sentences()[0]
    seen = model.look(source, target)
    assert seen.map("cross").keys[:2] == ("His", "neighbour")
    (links,) = model.align([(source, target)])
    assert links
    assert model.translate([source], regard.Beam(2))[0][0].text
    headless = regard.Tape(edits={"target.blocks.*.cross.weights": regard.without_head(0)})
    one, other = (
        model.logits([(source, target)])[0],
        model.logits([(source, target)], tape=headless),
    )
    assert not torch.allclose(one, other[0])


def test_a_folder_of_an_older_regard_still_loads(small_run, tmp_path):
    shutil.copytree(small_run / "run" / "model", tmp_path / "old")
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    assert config["facts"].pop("head_bias") is False
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    assert not regard.load(tmp_path / "old", "cpu").facts.head_bias


def test_nothing_half_written(tied, tmp_path, monkeypatch):
    """A write that fails leaves no config.json, and so no model."""
    model = regard.load(tied, "cpu")
    model.save(tmp_path / "hf", format="hf")
    monkeypatch.setattr("regard.models.folders.hf.write_tensors", fail)
    with pytest.raises(BadInput, match="disk is full"):
        model.save(tmp_path / "hf", format="hf")
    assert not (tmp_path / "hf" / "config.json").exists()


def fail(*_):
    raise BadInput("the disk is full")


REPEAT = "no_repeat_ngram_size"
GENERATION = {
    "beam": {"num_beams": 4, "length_penalty": 1.0},
    "early": {"num_beams": 3, "early_stopping": True, "length_penalty": 0.6},
    "never": {"num_beams": 2, "early_stopping": "never", "no_repeat_ngram_size": 3},
    "greedy": {"num_beams": 1},
    "renormalised": {"num_beams": 4, "renormalize_logits": True},
    "free": {"num_beams": 4, "forced_eos_token_id": None, "min_length": 4},
}


@pytest.mark.thinned
@pytest.mark.parametrize("settings", GENERATION.values(), ids=GENERATION)
def test_a_folder_translates_as_generate_does(settings, tied, tmp_path):
    folder = shutil.copytree(tied, tmp_path / "folder")
    saved = json.loads((folder / "generation_config.json").read_text())
    pad = saved["pad_token_id"]
    said = {**saved, "max_length": 14, "bad_words_ids": [[pad]], **settings}
    (folder / "generation_config.json").write_text(json.dumps(said))
    model, reference = regard.load(folder, "cpu"), reference_model(folder)
    texts = [source for source, _ in sentences()[:4]]
    tokenizer = reference_tokenizer(folder)
    scored = {"return_dict_in_generate": True, "output_scores": True}
    outputs = [
        reference.generate(**tokenizer(text, return_tensors="pt"), **scored) for text in texts
    ]
    for rows in (1, 4):
        translator = model.translator.with_limits(rows)
        found = translator.translate(texts)
        for out, (best, *_) in zip(outputs, found, strict=True):
            tokens = [one for one in out.sequences[0, 1:].tolist() if one != pad]
            ended = (translator.tokenizer.target.eos,) if best.hypothesis.finished else ()
            assert [*best.hypothesis.tokens, *ended] == tokens
            assert best.text == tokenizer.decode(tokens, skip_special_tokens=True)
            if settings["num_beams"] > 1:
                assert best.score == pytest.approx(out.sequences_scores.item(), abs=1e-4)


SETTINGS = [
    ({"bad_words_ids": [[1, 2]]}, "bad_words_ids of several tokens"),
    ({"bad_words_ids": [[58_100]]}, "bad_words_ids has 58100"),
    ({"bad_words_ids": [[-1]]}, "bad_words_ids has -1"),
    ({"bad_words_ids": {"1": 2}}, "bad_words_ids must be lists of ids, not {'1': 2}"),
    ({"forced_eos_token_id": 7}, "forced_eos_token_id is 7"),
    ({"early_stopping": "soon"}, "early_stopping must be true, false or \"never\", not 'soon'"),
    ({"early_stopping": []}, 'early_stopping must be true, false or "never", not []'),
    ({"num_beams": 0}, "num_beams must be at least 1, not 0"),
    ({"num_beams": 4.0}, "num_beams must be a whole number, not 4.0"),
    ({"num_beams": 10**6}, "the size of a beam must be at most 10,000, not 1000000"),
    ({"max_length": 1}, "max_length must be at least 2"),
    ({"max_new_tokens": -5}, "max_new_tokens must be at least 1"),
    ({"length_penalty": "x"}, "length_penalty must be a number, not 'x'"),
    ({"length_penalty": float("nan")}, "length_penalty must be from -50 to 50, not nan"),
    ({"no_repeat_ngram_size": True}, "no_repeat_ngram_size must be a whole number, not True"),
    ({"repetition_penalty": 0}, "a repetition penalty must be positive"),
    ({"repetition_penalty": 10**400}, "repetition_penalty must be from -1e+30 to 1e+30"),
    ({"renormalize_logits": "no"}, "renormalize_logits must be true or false, not 'no'"),
    ({"suppress_tokens": [3]}, "suppress_tokens"),
    ({"do_sample": True}, "do_sample"),
    ({"do_sample": "no"}, "do_sample must be true or false, not 'no'"),
    ({"invented": 1}, "invented 1 is not supported"),
    ({"eos_token_id": 5}, "forced_eos_token_id is 0, and here 5 ends a text; choose a search"),
]


def test_generation_settings_that_cannot_be_followed_are_reported(tied):
    translator = regard.load(tied, "cpu").translator
    for wrong, message in SETTINGS:
        notes = {"generation": {**translator.generation_config, **wrong}}
        model = replace(translator, loaded=replace(translator.loaded, notes=notes))
        with pytest.raises(BadInput, match=f"^generation_config.json: .*{re.escape(message)}"):
            model.translate(["A book."])
    assert model.translate(["A book."], regard.Beam(2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("\xff", "not JSON"),
        ("[" * 9_999, "not JSON"),
    ],
)
def test_a_file_of_settings_that_is_no_object_is_named(tied, tmp_path, text, message):
    folder = shutil.copytree(tied, tmp_path / "folder")
    path = folder / "generation_config.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(BadInput, match=f"^{re.escape(str(path))}: {message}"):
        regard.load(folder, "cpu")


OVERRULED = {
    "greedy": (("--search", "greedy"), {"num_beams": 1}),
    "beam": (("--beam", 2), {"num_beams": 2}),
    "alpha": (("--alpha", 0.2), {"length_penalty": 0.2}),
    "stop": (("--stop", "transformers-early"), {"early_stopping": True}),
    "no-repeat": (("--search", "greedy", "--no-repeat", 2), {"num_beams": 1} | {REPEAT: 2}),
}


@pytest.mark.thinned
@pytest.mark.parametrize(("options", "settings"), OVERRULED.values(), ids=OVERRULED)
def test_an_option_overrules_only_what_it_names(options, settings, tied, tmp_path):
    folder = shutil.copytree(tied, tmp_path / "folder")
    path = folder / "generation_config.json"
    saved = json.loads(path.read_text())
    first = regard.load(folder, "cpu").translate(["A book."])[0][0].hypothesis.tokens
    banned = [[saved["pad_token_id"]], *([token] for token in first[:3])]
    said = {"max_length": 9, "bad_words_ids": banned, "renormalize_logits": True}
    said |= {"num_beams": 4, "min_length": 3, REPEAT: 3}
    path.write_text(json.dumps(saved | said))
    reference, tokenizer = reference_model(folder), reference_tokenizer(folder)
    texts = [source for source, _ in sentences()[:4]]
    stdin = "".join(f"{text}\n" for text in texts)
    done = run("translate", folder, *options, "--device", "cpu", "--json", stdin=stdin)
    for text, line in zip(texts, done.stdout.splitlines(), strict=True):
        (wanted,) = reference.generate(**tokenizer(text, return_tensors="pt"), **settings)
        expected = tokenizer.decode(wanted, skip_special_tokens=True)
        assert json.loads(line)["text"] == expected


@pytest.mark.parametrize("search", ["sample", "mbr", "exact"])
def test_what_a_folder_allows_holds_for_any_search(search, tied, tmp_path):
    folder = shutil.copytree(tied, tmp_path / "folder")
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_length": 5}))
    done = run("translate", folder, "--search", search, "--json", stdin="The old man.\n")
    assert len(json.loads(done.stdout)["tokens"]) <= 4


def test_settings_that_cannot_be_followed_are_named_where_a_search_is(tied, tmp_path):
    folder = shutil.copytree(tied, tmp_path / "folder")
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "penalty_alpha": 0.6}))
    refused = run("translate", folder, stdin="A book.\n", code=2)
    assert "penalty_alpha 0.6 is not supported" in refused.stderr
    done = run("translate", folder, "--search", "greedy", stdin="A book.\n")
    assert "not used: generation_config.json: penalty_alpha 0.6" in done.stderr
