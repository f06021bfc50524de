"""ViT beside ``transformers``: values, folders both ways, other resolutions, and its sizes."""

import json

import pytest
import torch

from regard.core.batch import pack_images
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead
from regard.models.papers import vit
from regard.models.pools import MeanPool
from regard.models.start import copy_start
from regard.weights.files import read_folder
from verb import run

transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
SIZES |= {"intermediate_size": 20, "image_size": 12, "patch_size": 4}
SETTINGS = (
    {},
    {"num_channels": 1, "patch_size": 6, "hidden_act": "relu"},
    {"image_size": 16, "patch_size": 2, "num_hidden_layers": 1, "layer_norm_eps": 1e-6},
    {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2},
    {"image_size": [8, 12], "patch_size": [4, 3]},
    {"image_size": [16, 8], "hidden_act": "quick_gelu"},
)
HEADS = {"ViTModel": [], "ViTForImageClassification": ["label"]}


def shaken(model):
    """A model whose biases and norms differ from their start."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def reference(kind, **settings):
    torch.manual_seed(0)
    pooled = {} if HEADS[kind] else {"add_pooling_layer": settings.pop("pooler", True)}
    config = transformers.ViTConfig(**SIZES | {"num_labels": 3} | settings)
    return shaken(getattr(transformers, kind)(config, **pooled))


def pixels(channels=3, height=12, width=12, count=3):
    draw = torch.Generator().manual_seed(1)
    return torch.randn(count, channels, height, width, generator=draw)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", HEADS)
@torch.no_grad()
def test_states_pools_and_logits_agree(kind, settings, tmp_path):
    theirs = reference(kind, **settings)
    theirs.save_pretrained(tmp_path)
    ours, size = folders.read(tmp_path), theirs.config.image_size
    given = pixels(theirs.config.num_channels, *(size if isinstance(size, list) else [size] * 2))
    found, expected = ours.module(pack_images(given)), theirs(given, output_hidden_states=True)
    assert ours.paper is vit.PAPER and [*found.by_head] == HEADS[kind]
    if kind == "ViTModel":
        states = found.encoded.states_TD.view_as(expected.last_hidden_state)
        torch.testing.assert_close(states, expected.last_hidden_state, **CLOSE)
        torch.testing.assert_close(found.pooled_BD, expected.pooler_output, **CLOSE)
    else:
        torch.testing.assert_close(found.by_head["label"], expected.logits, **CLOSE)


@pytest.mark.parametrize("size", [(12, 12), (20, 20), (8, 8), (16, 24), (4, 4)])
@torch.no_grad()
def test_images_of_other_sizes_have_interpolated_positions(size, tmp_path):
    theirs = reference("ViTModel")
    theirs.save_pretrained(tmp_path)
    given = pixels(3, *size)
    expected = theirs(given, interpolate_pos_encoding=True).last_hidden_state
    found = folders.read(tmp_path).module(pack_images(given)).encoded.states_TD
    torch.testing.assert_close(found.view_as(expected), expected, **CLOSE)


@pytest.mark.thinned
@pytest.mark.parametrize("settings", [{}, {"image_size": [8, 12], "patch_size": [4, 3]}])
@pytest.mark.parametrize("kind", [*HEADS, "without pooler"])
def test_a_folder_comes_back_bit_for_bit(kind, settings, tmp_path):
    settings = settings if kind in HEADS else {**settings, "pooler": False}
    theirs = reference(kind if kind in HEADS else "ViTModel", **settings)
    theirs.save_pretrained(tmp_path / "theirs")
    preprocessor = '{"image_mean": [0.5, 0.5, 0.5],\n "size": {"height": 12, "width": 12}}'
    (tmp_path / "theirs" / "preprocessor_config.json").write_text(preprocessor)
    for name, source, format in (("ours", "theirs", "regard"), ("again", "ours", "hf")):
        (tmp_path / name).mkdir()
        folders.write(tmp_path / name, folders.read(tmp_path / source), format)
    before, after = (read_folder(tmp_path / name) for name in ("theirs", "again"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    configs = [(tmp_path / name / "config.json").read_text() for name in ("theirs", "again")]
    assert json.loads(configs[0]) == json.loads(configs[1])
    assert (tmp_path / "again" / "preprocessor_config.json").read_text() == preprocessor


def test_both_sides_of_a_square_may_be_written(tmp_path):
    reference("ViTModel", image_size=[12, 12], patch_size=[4, 4]).save_pretrained(tmp_path)
    ours = folders.read(tmp_path)
    assert (ours.facts.trunk.embed.image_size, ours.facts.trunk.embed.patch_size) == (12, 4)
    (tmp_path / "again").mkdir()
    folders.write(tmp_path / "again", ours, "hf")
    configs = [
        json.loads((one / "config.json").read_text()) for one in (tmp_path, tmp_path / "again")
    ]
    assert configs[0] == configs[1]


def test_two_labels_of_imagenet_have_one_name(tmp_path):
    """A bird and a machine are called "crane": every published classifier of ImageNet has both."""
    names = {0: "crane", 1: "goose", 2: "crane"}
    settings = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    theirs = reference("ViTForImageClassification", **settings)
    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "again").mkdir()
    ours = folders.read(tmp_path / "theirs")
    assert ours.labels.names == ("crane (0)", "goose", "crane (2)")
    folders.write(tmp_path / "again", ours, "hf")
    configs = [(tmp_path / name / "config.json").read_text() for name in ("theirs", "again")]
    assert json.loads(configs[0]) == json.loads(configs[1])


def test_a_new_folder_is_read_by_the_reference(tmp_path):
    facts = change(vit.TINY, width=12, depth=1, heads=2, inner=16, patch_size=4, image_size=8)
    facts = change(facts, output_heads=(LabelHead(5),), drop_path=0.1)
    module = shaken(facts.build()).eval()
    folders.write(tmp_path, LoadedModel(vit.PAPER, facts, module), "hf")
    assert folders.read(tmp_path).facts == facts
    theirs, info = transformers.ViTForImageClassification.from_pretrained(
        tmp_path, output_loading_info=True, local_files_only=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    given = pixels(3, 8, 8)
    with torch.no_grad():
        expected, found = theirs.eval()(given).logits, module(pack_images(given)).by_head["label"]
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("qkv_bias", False),
        ("pooler_act", "relu"),
        ("pooler_output_size", 7),
        ("image_size", [12, 18]),
        ("image_size", [12, 16, 16]),
        ("image_size", [0, 16]),
        ("image_size", "12"),
        ("patch_size", 5),
    ],
)
def test_what_is_not_supported_is_named(key, value, tmp_path):
    reference("ViTModel").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(BadInput, match="image_size" if key == "patch_size" else key):
        folders.read(tmp_path)


def test_what_transformers_cannot_say_is_not_written(tmp_path):
    small = change(vit.TINY, width=12, depth=1, heads=2, inner=16, patch_size=4, image_size=8)
    for changes in ({"positions": "sinusoid"}, {"layer_scale": 0.1}, {"pool": MeanPool()}):
        facts = change(small, **changes)
        with pytest.raises(BadInput, match="cannot express this model"):
            folders.write(tmp_path, LoadedModel(vit.PAPER, facts, facts.build()), "hf")


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("hf", r"the ViT format .*: pool is MeanPool\(\), not FirstToken\(dense=False\); train"),
        ("timm", "the timm format cannot express this model: global_pool 'avg' is supported"),
    ],
)
def test_a_mean_beside_a_class_token_is_not_written(to, said, tmp_path):
    small = change(vit.TINY, width=12, depth=1, heads=2, inner=16, patch_size=4, image_size=8)
    facts = change(small, output_heads=(LabelHead(3),), pool=MeanPool())
    with pytest.raises(BadInput, match=said):
        folders.write(tmp_path, LoadedModel(vit.PAPER, facts, facts.build()), to)


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("tiny", 5_717_416),
        ("small", 22_050_664),
        ("base", 86_567_656),
        ("base-32", 88_224_232),
        ("large", 304_326_632),
        ("huge", 632_045_800),
    ],
)
def test_sizes_have_as_many_parameters_as_in_timm(size, count):
    """With a head of 1,000 classes, as its tables have them."""
    facts = change(vit.PAPER.sizes[size], output_heads=(LabelHead(1_000),))
    assert vit.PAPER.parameters(facts) == count


@pytest.mark.parametrize("positions", ["learned", "sinusoid"])
@torch.no_grad()
def test_a_start_is_fitted_to_another_resolution(positions):
    """Positions are interpolated once, so that a model begins as the start reads larger images."""
    small = change(vit.TINY, width=12, depth=1, heads=2, inner=16, patch_size=4, image_size=8)
    before = change(small, positions=positions)
    start = LoadedModel(vit.PAPER, before, shaken(before.build()))
    model = shaken(change(before, image_size=20).build())
    copy_start(start, model)
    given = pack_images(pixels(3, 20, 20))
    torch.testing.assert_close(
        model(given).encoded.states_TD, start.module(given).encoded.states_TD, **CLOSE
    )
    with pytest.raises(BadInput, match=r"projection.weight has another shape"):
        copy_start(start, change(before, patch_size=2).build())


@pytest.mark.parametrize("kind", HEADS)
def test_conversion_is_checked_by_images(kind, tmp_path):
    reference(kind).save_pretrained(tmp_path / "theirs")
    order = ("convert", tmp_path / "theirs", tmp_path / "ours", "--to", "regard", "--check")
    records = [json.loads(line) for line in run(*order, "--json").stdout.splitlines()]
    layers = {one["layer"]: (one["read back"], one["transformers"]) for one in records}
    assert max(both[1] for layer, both in layers.items() if layer != "pooled") < 1e-5
    assert max(both[0] for both in layers.values()) == 0
    assert {"embedding", "block 1", "block 2", "final norm"} <= layers.keys()
