"""DeiT beside ``transformers``: both tokens, both heads, folders both ways, and its sizes."""

import json

import pytest
import torch

from regard.core.batch import pack_images
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead
from regard.models.papers import deit
from regard.models.papers.deit import DistilledLabelHead
from regard.models.pools import FirstToken
from regard.models.start import copy_start
from regard.text.label_sets import SingleLabelSet
from regard.weights.files import read_folder

transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "num_labels": 3}
SIZES |= {"intermediate_size": 20, "image_size": 8, "patch_size": 4}
HEADS = {
    "DeiTModel": (),
    "DeiTForImageClassification": (LabelHead(3),),
    "DeiTForImageClassificationWithTeacher": (DistilledLabelHead(3),),
}


def reference(kind):
    torch.manual_seed(0)
    model = getattr(transformers, kind)(transformers.DeiTConfig(**SIZES))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("size", [8, 12])
@pytest.mark.parametrize("kind", HEADS)
@torch.no_grad()
def test_values_agree_at_every_resolution(kind, size, tmp_path):
    theirs = reference(kind)
    theirs.save_pretrained(tmp_path)
    ours, given = folders.read(tmp_path), torch.randn(2, 3, size, size)
    assert ours.paper is deit.PAPER and ours.facts.output_heads == HEADS[kind]
    expected = theirs(given, interpolate_pos_encoding=True)
    found = ours.module(pack_images(given))
    if HEADS[kind]:
        torch.testing.assert_close(found.by_head["label"], expected.logits, **CLOSE)
    else:
        states = found.encoded.states_TD.view_as(expected.last_hidden_state)
        torch.testing.assert_close(states, expected.last_hidden_state, **CLOSE)
        torch.testing.assert_close(found.pooled_BD, expected.pooler_output, **CLOSE)


@pytest.mark.parametrize("kind", HEADS)
def test_a_folder_comes_back_bit_for_bit(kind, tmp_path):
    reference(kind).save_pretrained(tmp_path / "theirs")
    for name, source, format in (("ours", "theirs", "regard"), ("again", "ours", "hf")):
        (tmp_path / name).mkdir()
        folders.write(tmp_path / name, folders.read(tmp_path / source), format)
    before, after = (read_folder(tmp_path / name) for name in ("theirs", "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    configs = [(tmp_path / name / "config.json").read_text() for name in ("theirs", "again")]
    assert json.loads(configs[0]) == json.loads(configs[1])


def test_a_new_folder_names_its_architecture(tmp_path):
    small = change(deit.TINY, width=12, depth=1, heads=2, inner=16, patch_size=4, image_size=8)
    facts = change(small, output_heads=(DistilledLabelHead(3),), pool=deit.DISTILLED.pool)
    assert deit.HF.architecture(facts) == "DeiTForImageClassificationWithTeacher"
    plain = change(small, output_heads=(LabelHead(3),))
    assert deit.HF.architecture(plain) == "DeiTForImageClassification"
    assert deit.HF.architecture(small) == "DeiTModel"
    assert deit.PAPER.fit_heads(plain) == plain and plain.pool == FirstToken(dense=False)


@torch.no_grad()
def test_a_start_with_both_heads_is_tuned_with_one(tmp_path):
    reference("DeiTForImageClassificationWithTeacher").save_pretrained(tmp_path)
    start = folders.read(tmp_path)
    facts = deit.PAPER.fit_heads(change(start.facts, output_heads=(LabelHead(3),)))
    model, labels = facts.build(), SingleLabelSet(start.labels.names)
    before = model.heads["label"].out.weight.clone()
    copy_start(start, model, "label", labels.order_in(start.labels))
    assert torch.equal(model.heads["label"].out.weight, before)
    given = pack_images(torch.randn(2, 3, 8, 8))
    torch.testing.assert_close(
        model(given).encoded.states_TD, start.module(given).encoded.states_TD
    )


@pytest.mark.parametrize(
    ("size", "count"), [("tiny", 5_910_800), ("small", 22_436_432), ("base", 87_338_192)]
)
def test_sizes_have_as_many_parameters_as_in_timm(size, count):
    """With both heads of 1,000 classes, as its tables have them."""
    heads = (DistilledLabelHead(1_000),)
    facts = change(deit.PAPER.sizes[size], output_heads=heads, pool=deit.DISTILLED.pool)
    assert deit.PAPER.parameters(facts) == count
    assert LoadedModel(deit.PAPER, facts, torch.nn.Identity()).facts.sizes["labels"] == 1_000
