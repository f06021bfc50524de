"""Folders in the forms of the Hugging Face hub: ids, logits and states as in ``transformers``, and
a round trip that keeps every tensor, every key and every tokenizer file.
"""

import json
from dataclasses import replace
from inspect import signature
from itertools import product

import pytest
import torch

import regard
from bert_folders import quietly
from hub_folders import FAMILIES, FolderForm, forms_of, spiece_reference, write_folder
from regard.core.batch import pack_images, pack_rows
from regard.weights.files import read_folder, write_tensors

transformers = pytest.importorskip("transformers")

TEXTS = (
    "The old sailor",
    "",
    "naïve café in 2019, 3.5 (or 1,234): don't!",
    " two  spaces\n東京 🙂",
)
PAIRS = (("Ada met Charles", "in London."), ("no second text", ""))
SEGMENTED = ("wordpiece", "unigram", "xlnet-unigram")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
LOGITS = {"mlm": "prediction_logits", "sentence_pair": "seq_relationship_logits"}
CASES = {
    f"{name}-{kind}": (name, form)
    for name, family in FAMILIES.items()
    for kind, form in forms_of(family)
}
TEXT_FORMS = {"text": ("new", "old", "files"), "settings": ("full", "bare", "none")}
WEIGHT_FORMS = {
    "weights": ("safetensors", "both", "bin", "shards"),
    "prefix": (True, False),
    "old": (True, False),
    "least": (True, False),
}


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "form"), CASES.values(), ids=CASES)
def test_a_folder_of_the_hub(name, form, tmp_path):
    check(FAMILIES[name], form, tmp_path)


KEYS = [  # of config.json, which published folders of other families than these have
    *(("bert-base-uncased", "hidden_act", name) for name in ("gelu_python", "gelu_accurate")),
    ("bert-base-uncased", "hidden_act", "gelu_fast"),
    *(
        ("bert-base-uncased", "hidden_act", "quick_gelu"),
        ("gpt2", "activation_function", "gelu_fast"),
    ),
    *(("gpt2", "activation_function", "quick_gelu"), ("gpt2", "reorder_and_upcast_attn", True)),
    *(("opus-mt-en-de", "activation_function", "quick_gelu"), ("roberta-base", "pad_token_id", 3)),
    ("vit-base-patch16-224", "hidden_act", "quick_gelu"),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "key", "value"), KEYS)
def test_a_key_that_changes_the_model_or_does_not(name, key, value, tmp_path):
    family = FAMILIES[name]
    check(replace(family, config={**family.config, key: value}), FolderForm(), tmp_path)


@pytest.mark.parametrize("name", ["roberta-base", "distilbert-base-uncased", "albert-base-v2"])
def test_norms_of_which_some_have_old_names(name, tmp_path):
    """Only those called LayerNorm have them, which are all that ``transformers`` renames."""
    theirs, ours, again = (tmp_path / name for name in ("theirs", "ours", "again"))
    theirs.mkdir()
    write_folder(theirs, FAMILIES[name], FolderForm())
    tensors = read_folder(theirs)
    for today, old in (
        ("LayerNorm.weight", "LayerNorm.gamma"),
        ("LayerNorm.bias", "LayerNorm.beta"),
    ):
        tensors = {name.replace(today, old): tensor for name, tensor in tensors.items()}
    assert any("layer_norm.weight" in name for name in tensors)
    write_tensors(theirs / "model.safetensors", tensors)
    load = transformers.AutoModelForMaskedLM.from_pretrained
    check_values(regard.load(theirs, "cpu"), quietly(lambda: load(theirs)), FAMILIES[name].kind)
    regard.load(theirs, "cpu").save(ours, "regard")
    regard.load(ours, "cpu").save(again, "hf")
    check_round_trip(theirs, again)


WORDPIECE = ["bert-base-uncased", "distilbert-base-uncased", "electra-small-discriminator"]


@pytest.mark.parametrize("name", WORDPIECE)
@pytest.mark.parametrize("lower", [True, False])
def test_letter_case_is_that_of_tokenizer_config(name, lower, tmp_path):
    """Without its key texts are lower-cased, whatever tokenizer.json says."""
    write_folder(tmp_path, FAMILIES[name], FolderForm(settings="none"))
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["normalizer"]["lowercase"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    if not lower:
        (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    theirs = quietly(lambda: transformers.AutoTokenizer.from_pretrained(tmp_path))
    texts = ("The Old Sailor", "the old sailor")
    cased, plain = (row.tokens.tolist() for row in regard.load(tmp_path).tokenizer.rows(texts))
    assert [cased, plain] == theirs([*texts]).input_ids
    assert (cased == plain) is lower


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_form_of_a_folder(name, tmp_path):
    for axes in (TEXT_FORMS, WEIGHT_FORMS):
        for values in product(*axes.values()):
            folder = tmp_path / "-".join(map(str, values))
            folder.mkdir()
            check(FAMILIES[name], FolderForm(**dict(zip(axes, values, strict=True))), folder)


def check(family, form, folder):
    """Ids, values and the round trip of a family in one form."""
    theirs, ours = folder / "theirs", folder / "ours"
    theirs.mkdir()
    reference = write_folder(theirs, family, form)
    model = regard.load(theirs, "cpu")
    check_ids(model.tokenizer, theirs, family, form)
    check_values(model, reference, family.kind)
    model.save(ours, "hf")
    check_round_trip(theirs, ours)
    check_values(regard.load(ours, "cpu"), reference, family.kind)


def check_ids(ours, folder, family, form):
    """The rows of texts and pairs, special tokens and segments included."""
    if not family.kind:
        assert ours.shape == (3, 8, 8)
        return
    if form.text == "files" and (folder / "spiece.model").exists():
        theirs = spiece_reference(family.kind)
    else:
        load = transformers.AutoTokenizer.from_pretrained
        theirs = quietly(lambda: load(folder, local_files_only=True))
    if family.kind == "marian":
        for text in TEXTS:
            assert [*ours.source.encode(text), ours.source.eos] == theirs(text).input_ids
        return
    options = {"split_special_tokens": True, "return_token_type_ids": True}
    for texts in (*((text,) for text in TEXTS), *PAIRS):
        (row,) = ours.rows([texts if len(texts) == 2 else texts[0]])
        coded = theirs(*([text] for text in texts), **options)  # alone, an empty one is left out
        assert row.tokens.tolist() == coded.input_ids[0], texts
        if family.kind in SEGMENTED:
            assert row.segments.tolist() == coded.token_type_ids[0]


@torch.no_grad()
def check_values(model, reference, kind):
    """Logits of all heads, and the last states where there is no head."""
    if kind == "marian":
        (source_BS, target_BT) = torch.tensor([[5, 9, 7, 0]]), torch.tensor([[11, 6, 3]])
        start = torch.tensor([[reference.config.decoder_start_token_id]])
        given = torch.cat([start, target_BT], 1)
        expected = reference(input_ids=source_BS, decoder_input_ids=given).logits[0]
        (logits_TV,) = model.logits([(source_BS[0].tolist(), target_BT[0].tolist())])
        torch.testing.assert_close(logits_TV, expected, **CLOSE)
        return
    if not kind:
        pixels = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        expected = reference(pixels).logits
        by_head = model.module(pack_images(pixels)).by_head
        torch.testing.assert_close(by_head["label"], expected, **CLOSE)
        return
    row = model.tokenizer.rows([TEXTS[0]])[0]
    ids = torch.tensor([row.tokens.tolist()])
    segments = {"token_type_ids": torch.tensor([row.segments.tolist()])}
    takes = kind in SEGMENTED and segments.keys() <= signature(reference.forward).parameters.keys()
    outputs = model.module(pack_rows([row]))
    expected = reference(input_ids=ids, output_hidden_states=True, **segments if takes else {})
    torch.testing.assert_close(outputs.encoded.states_TD, expected.hidden_states[-1][0], **CLOSE)
    for head, logits in outputs.by_head.items():
        wanted = getattr(expected, LOGITS.get(head, ""), None)
        wanted = expected.logits if wanted is None else wanted
        torch.testing.assert_close(logits, wanted.view_as(logits), **CLOSE)


def check_round_trip(before, after):
    """Tensors have the same bits, config.json the same keys, other files the same bytes."""
    one, other = read_folder(before), read_folder(after)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert all(one[name].dtype == other[name].dtype for name in one)
    weights = ("model", "pytorch_model")
    names = {path.name for path in before.iterdir() if not path.name.startswith(weights)}
    assert {path.name for path in after.iterdir()} == {*names, "model.safetensors"}
    configs = [json.loads((folder / "config.json").read_text()) for folder in (before, after)]
    assert configs[0] == configs[1]
    for name in names - {"config.json"}:
        assert (before / name).read_bytes() == (after / name).read_bytes(), name
