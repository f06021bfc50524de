"""Folders of ``timm``: values, tensors both ways, images as it reads them, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard.core.batch import pack_images
from regard.core.errors import BadInput
from regard.images.processor import ImageProcessor
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead
from regard.models.papers import bert, deit, vit
from regard.models.papers.deit import DistilledLabelHead
from regard.models.pools import FirstToken, FirstTokens, MeanPool
from regard.text.label_sets import SingleLabelSet
from regard.weights.files import read_folder, write_tensors
from timm_peer import import_timm

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SMALL = change(vit.TINY, width=12, depth=2, heads=3, inner=24, patch_size=4, image_size=8)
SETTINGS = (
    {},
    {"layer_scale": 0.3, "drop_path": 0.2, "channels": 1},
    {"prefix_tokens": 0, "pool": MeanPool()},
    {"image_size": 16, "patch_size": 2, "inner": 30},
    {"image_size": (8, 12), "patch_size": (4, 3)},
    {"normed": True, "eps": 1e-5},
    {"normed": True, "eps": 1e-5, "activation": "gelu-sigmoid", "channels": 1},
)


def model(**changes):
    torch.manual_seed(0)
    facts = change(SMALL, output_heads=(LabelHead(3),), **changes)
    channels = facts.trunk.embed.channels
    reading = {"mean": (0.4,) * channels, "std": (0.2,) * channels, "crop_offset": "round"}
    height, width = facts.trunk.embed.image
    size = 10 if height == width else (height, width)
    processor = ImageProcessor(size=size, crop=(height, width), **reading)
    module = facts.build().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return LoadedModel(vit.PAPER, facts, module, processor, SingleLabelSet(("a", "b", "c")))


@pytest.mark.thinned
@pytest.mark.parametrize("changes", SETTINGS)
@torch.no_grad()
def test_timm_reads_what_is_written(changes, tmp_path):
    timm = import_timm()
    ours = model(**changes)
    folders.write(tmp_path, ours, "timm")
    theirs = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    embed = ours.facts.trunk.embed
    given = torch.randn(2, embed.channels, *embed.image)
    torch.testing.assert_close(
        ours.module(pack_images(given)).by_head["label"], theirs(given), **CLOSE
    )
    states = ours.module(pack_images(given)).encoded.states_TD.view(2, -1, 12)
    torch.testing.assert_close(states, theirs.forward_features(given), **CLOSE)


def distilled():
    torch.manual_seed(0)
    sizes = {"width": 12, "depth": 2, "heads": 3, "inner": 24, "patch_size": 4, "image_size": 8}
    facts = change(
        deit.TINY, **sizes, pool=FirstTokens(2), output_heads=(DistilledLabelHead(3),), init_std=0.5
    )
    processor, labels = ImageProcessor(size=10, crop=(8, 8)), SingleLabelSet(("a", "b", "c"))
    return LoadedModel(deit.PAPER, facts, facts.build().eval(), processor, labels)


@torch.no_grad()
def test_timm_reads_a_model_with_a_distillation_token(tmp_path):
    timm, ours = import_timm(), distilled()
    folders.write(tmp_path, ours, "timm")
    theirs = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    given = torch.randn(2, 3, 8, 8)
    outputs = ours.module(pack_images(given))
    torch.testing.assert_close(outputs.by_head["label"], theirs(given), **CLOSE)
    theirs.set_distilled_training(True)
    expected = torch.stack(theirs.train()(given))
    torch.testing.assert_close(outputs.by_head["label_layers"], expected, **CLOSE)


@torch.no_grad()
def test_a_published_deit_is_read(tmp_path):
    timm = import_timm()
    hub = timm.models._hub
    torch.manual_seed(0)
    arguments = {"img_size": 32, "depth": 2}
    name = "deit_tiny_distilled_patch16_224"
    theirs = timm.create_model(name, num_classes=5, **arguments).eval()
    hub.save_for_hf(theirs, tmp_path, model_args=arguments, safe_serialization=True)
    ours = regard.load(tmp_path, "cpu")
    given = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(torch.stack(ours.logits([*given])), theirs(given), **CLOSE)
    assert ours.paper.name == "DeiT"


def test_both_heads_come_back_bit_for_bit(tmp_path):
    ours = distilled()
    for name, format in (("one", "timm"), ("two", "hf"), ("three", "timm")):
        (tmp_path / name).mkdir()
        folders.write(tmp_path / name, ours, format)
        ours = folders.read(tmp_path / name)
        assert ours.paper is deit.PAPER
    before, after = (read_folder(tmp_path / name) for name in ("one", "three"))
    assert before.keys() == after.keys() and {"dist_token", "head_dist.weight"} <= before.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    assert config["architecture"] == "deit_base_distilled_patch16_224"
    assert config["pretrained_cfg"]["classifier"] == ["head", "head_dist"]
    one_head = change(ours.facts, pool=FirstToken(dense=False), output_heads=(LabelHead(3),))
    plain = replace(ours, facts=one_head, module=one_head.build())
    with pytest.raises(BadInput, match="the timm format cannot express"):
        folders.write(tmp_path / "one", plain, "timm")


@pytest.mark.parametrize("changes", SETTINGS)
def test_facts_and_reading_survive_writing(changes, tmp_path):
    before = model(**changes)
    folders.write(tmp_path, before, "timm")
    after = folders.read(tmp_path)
    assert after.facts == before.facts and after.tokenizer == before.tokenizer
    one, other = before.module.state_dict(), after.module.state_dict()
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


PLAIN, CLIP = "vit_tiny_patch16_224", "vit_base_patch16_clip_quickgelu_224"


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        (PLAIN, {"img_size": 32, "init_values": 0.1}, (3, 32, 32)),
        (PLAIN, {"img_size": 32, "in_chans": 1}, (1, 32, 32)),
        (PLAIN, {"img_size": (32, 48), "patch_size": (16, 8)}, (3, 32, 48)),
        (CLIP, {"img_size": 32, "embed_dim": 48}, (3, 32, 32)),
    ],
)
@torch.no_grad()
def test_folders_of_timm_are_read(name, arguments, shape, tmp_path):
    timm = import_timm()
    hub = timm.models._hub
    torch.manual_seed(0)
    arguments |= {"depth": 2}
    theirs = timm.create_model(name, num_classes=5, **arguments).eval()
    hub.save_for_hf(theirs, tmp_path, model_args=arguments, safe_serialization=True)
    ours = regard.load(tmp_path, "cpu")
    given = torch.randn(2, *shape)
    expected = theirs(given)
    torch.testing.assert_close(torch.stack(ours.logits([*given])), expected, **CLOSE)
    if name is PLAIN and shape[1] == shape[2]:
        settings = dict.fromkeys(("mean", "std"), (0.5,) * shape[0])
        expected = ImageProcessor(
            size=35, crop=(32, 32), resample=3, crop_offset="round", **settings
        )
        assert ours.tokenizer == expected
    assert ours.labels.names == tuple(f"LABEL_{number}" for number in range(5))


@pytest.mark.parametrize(
    ("channels", "mean", "std", "read"),
    [
        (1, [0.5] * 3, [0.5] * 3, ((0.5,), (0.5,))),  # how timm saves a grey model
        (1, [0.3], [0.2], ((0.3,), (0.2,))),
        (3, [0.5], [0.2], ((0.5,) * 3, (0.2,) * 3)),
        (1, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225], None),
        (1, None, None, None),
    ],
)
@torch.no_grad()
def test_a_grey_model_is_read(channels, mean, std, read, tmp_path):
    """Without a processor, where its folder has the numbers of colours, it reads arrays."""
    before = model(channels=channels)
    folders.write(tmp_path, before, "timm")
    config = json.loads((tmp_path / "config.json").read_text())
    config["pretrained_cfg"] |= {"mean": mean, "std": std}
    (tmp_path / "config.json").write_text(json.dumps(config))
    ours = regard.load(tmp_path, "cpu")
    assert (ours.tokenizer and (ours.tokenizer.mean, ours.tokenizer.std)) == read
    given = torch.randn(2, channels, 8, 8)
    expected = before.module(pack_images(given)).by_head["label"]
    torch.testing.assert_close(torch.stack(ours.logits([*given])), expected, **CLOSE)
    if read:
        pytest.importorskip("PIL")
        image = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
        assert len(ours.predict([image])) == 1
    ours.save(tmp_path / "again", "timm")
    assert regard.load(tmp_path / "again", "cpu").tokenizer == ours.tokenizer


@pytest.mark.parametrize("keep_unknown", [False, True])
def test_unknown_tensors_are_refused_with_what_helps(tmp_path, keep_unknown):
    folders.write(tmp_path, model(), "timm")
    tensors = {**read_folder(tmp_path), "more": torch.zeros(1)}
    write_tensors(tmp_path / "model.safetensors", tensors)
    with pytest.raises(BadInput, match=r"unknown: more; .*delete them from a copy"):
        regard.load(tmp_path, "cpu", keep_unknown=keep_unknown)


def test_tensors_come_back_bit_for_bit(tmp_path):
    ours = model()
    for name, format in (("one", "timm"), ("two", "regard"), ("three", "timm")):
        (tmp_path / name).mkdir()
        folders.write(tmp_path / name, ours, format)
        ours = folders.read(tmp_path / name)
    before, after = (read_folder(tmp_path / name) for name in ("one", "three"))
    assert before.keys() == after.keys() and "blocks.0.attn.qkv.weight" in before
    assert all(torch.equal(before[name], after[name]) for name in before)
    configs = [(tmp_path / name / "config.json").read_text() for name in ("one", "three")]
    assert configs[0] == configs[1]
    assert ours.tokenizer.size == 10 and ours.labels.names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("size", "crop", "share"),
    [(256, 224, 0.875), (235, 224, 0.9532), (38, 32, 0.8421), ((8, 8), 8, 1.0)],
)
def test_the_size_of_images_survives(size, crop, share, tmp_path):
    """timm resizes to floor(crop / crop_pct), and takes crop_pct to be 0.875 if it is not there."""
    ours = model(image_size=crop, patch_size=8)
    processor = ImageProcessor(size=size, crop=(crop, crop), crop_offset="round")
    written = LoadedModel(ours.paper, ours.facts, ours.module, processor, ours.labels)
    folders.write(tmp_path, written, "timm")
    config = json.loads((tmp_path / "config.json").read_text())["pretrained_cfg"]
    assert config["crop_pct"] == pytest.approx(share, abs=1e-4)
    assert int(crop / config["crop_pct"]) == (size if config["crop_mode"] == "center" else 8)
    assert config["crop_mode"] == ("squash" if isinstance(size, tuple) else "center")
    assert folders.read(tmp_path).tokenizer == processor


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architecture": "vit_base_patch16_siglip_224"}, "is not supported; supported: "),
        ({"model_args": {"qk_norm": True}}, "model_args: qk_norm is not supported"),
        ({"model_args": {"global_pool": "map"}}, "global_pool is 'map'"),
        ({"model_args": {"global_pool": "avg"}}, "only without class token"),
        (
            {"model_args": {"class_token": False}},
            "global_pool is 'token', but class_token is false",
        ),
        ({"pretrained_cfg": {"mean": 3, "std": 3}}, "config.json"),
    ],
)
def test_what_is_not_supported_is_named(changes, reason, tmp_path):
    folders.write(tmp_path, model(), "timm")
    config = json.loads((tmp_path / "config.json").read_text())
    changes = {
        key: {**config[key], **value} if key == "model_args" else value
        for key, value in changes.items()
    }
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(BadInput, match=reason):
        folders.read(tmp_path)


def test_what_timm_cannot_say_is_not_written(tmp_path):
    for ours in (model(positions="sinusoid"), model(eps=1e-12), model(activation="relu")):
        with pytest.raises(BadInput, match="the timm format cannot express"):
            folders.write(tmp_path, ours, "timm")
    ours = model()
    for size in (None, (10, 11), (8, 20)):
        resized = replace(ours, tokenizer=replace(ours.tokenizer, size=size))
        with pytest.raises(BadInput, match="cannot express this combination of resize and crop"):
            folders.write(tmp_path, resized, "timm")
    limited = replace(ours, tokenizer=replace(ours.tokenizer, longest_edge=9))
    with pytest.raises(BadInput, match="the timm format cannot express a longest_edge"):
        folders.write(tmp_path, limited, "timm")
    tiny = change(bert.TINY, width=8, heads=2, inner=8, vocab=9)
    with pytest.raises(BadInput, match="BERT: the timm format supports only"):
        folders.write(tmp_path, LoadedModel(bert.PAPER, tiny, tiny.build()), "timm")


@pytest.mark.parametrize("shape", [(20, 20), (20, 27), (31, 20), (14, 11), (11, 15)])
def test_the_middle_is_where_torchvision_crops(shape, tmp_path):
    """Its offset is round(rest / 2.0), also in a folder of our own."""
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "own").mkdir()
    folders.write(tmp_path / "own", change_config(tmp_path, crop_pct=8 / 11.5), "regard")
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    height, width = (11 if side == min(shape) else int(11 * side / min(shape)) for side in shape)
    resized = np.array(image.fromarray(pixels).resize((width, height), image.Resampling.BILINEAR))
    top, left = (round((side - 8) / 2.0) for side in (height, width))
    expected = resized[top : top + 8, left : left + 8].transpose(2, 0, 1)
    for folder in (tmp_path, tmp_path / "own"):
        np.testing.assert_array_equal(folders.read(folder).tokenizer.resized(pixels), expected)


SHAPES = ((1, 1), (1, 7), (9, 1), (8, 8), (11, 11), (20, 27), (31, 20), (14, 61), (223, 225))


@pytest.mark.thinned
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear", "lanczos", "nearest"])
@pytest.mark.parametrize("mode", ["center", "squash"])
def test_images_are_read_as_timm_does(mode, interpolation, tmp_path):
    data = import_timm().data
    image = pytest.importorskip("PIL.Image")
    draw = np.random.default_rng(0)
    reading = {"interpolation": interpolation, "mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.4)}
    for share in (1.0, 0.95, 0.9, 0.875, 0.72):
        ours = change_config(tmp_path, crop_pct=share, crop_mode=mode, **reading).tokenizer
        theirs = data.create_transform((3, 8, 8), crop_pct=share, crop_mode=mode, **reading)
        for shape in SHAPES:
            pixels = draw.integers(0, 256, (*shape, 3), dtype=np.uint8)
            (row,) = ours.rows([pixels])
            expected = theirs(image.fromarray(pixels)).numpy()
            np.testing.assert_allclose(row.read(), expected, rtol=0, atol=1e-6)


def change_config(folder, **reading):
    """The model of a folder of timm that says so how images are read; None removes a key."""
    folders.write(folder, model(), "timm")
    config = json.loads((folder / "config.json").read_text())
    about = {**config["pretrained_cfg"], **reading}
    config["pretrained_cfg"] = {key: value for key, value in about.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return folders.read(folder)


def test_what_a_folder_leaves_out_is_as_in_timm(tmp_path):
    left_out = dict.fromkeys(("interpolation", "mean", "std", "crop_pct", "crop_mode"))
    assert change_config(tmp_path, **left_out).tokenizer == ImageProcessor(
        size=9,
        crop=(8, 8),
        resample=3,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        crop_offset="round",
    )


def test_both_sides_of_a_square_may_be_written(tmp_path):
    before = change_config(tmp_path).facts
    config = json.loads((tmp_path / "config.json").read_text())
    config["model_args"] |= {"img_size": [8, 8], "patch_size": [4, 4]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert folders.read(tmp_path).facts == before


def test_an_old_folder_says_at_the_top_how_images_are_read(tmp_path):
    before = change_config(tmp_path).tokenizer
    config = json.loads((tmp_path / "config.json").read_text())
    about = config.pop("pretrained_cfg")
    (tmp_path / "config.json").write_text(json.dumps(about | config))
    assert folders.read(tmp_path).tokenizer == before


def test_the_middle_of_an_image_is_read(tmp_path):
    pytest.importorskip("PIL")
    folders.write(tmp_path, model(), "timm")
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    (row,) = folders.read(tmp_path).tokenizer.rows([image])
    assert row.read().shape == (3, 8, 8)
