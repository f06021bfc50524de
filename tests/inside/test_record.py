"""Records: values of one input with labels, and nothing else of the model changes."""

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from regard import BadInput, Model, Record, Tape
from regard.inside.attention.attention_record import unpack_weights
from regard.inside.record import of_one_input, record
from regard.inside.record_file import VERSION, SavedValues, write
from small_bert import model as small_encoder
from small_families import FACTS, IDS, OTHER_IDS, small_family
from small_images import small_vit
from small_mistakes import TRANSLATORS, small_translator

TEXT = "the old cat came"


@pytest.fixture(scope="module")
def model():
    return small_encoder("words")


def test_values_are_those_of_a_tape(model):
    (record,) = model.record(
        [TEXT], values=["weights", "queries", "head_outputs", "states", "logits"]
    )
    tape = Tape("*")
    model.logits([TEXT], tape=tape)
    for name, value in record.items():
        there = tape.records[name].float().numpy()
        np.testing.assert_allclose(value, there[0] if name.endswith("weights") else there)
    tokens, heads = len(record.key_labels["trunk"].subwords), model.facts.trunk.stack.heads
    assert record["trunk.blocks.1.attention.weights"].shape == (heads, tokens, tokens)
    assert record["trunk.blocks.0.attention.queries"].shape[:2] == (tokens, heads)
    assert record["trunk.blocks.0.attention.head_outputs"].shape[:2] == (tokens, heads)


def test_head_outputs_are_weighted_values(model):
    (record,) = model.record([TEXT], values=["weights", "values", "head_outputs"])
    path = "trunk.blocks.1.attention"
    mixed = np.einsum("hls,shk->lhk", record[f"{path}.weights"], record[f"{path}.values"])
    np.testing.assert_allclose(mixed, record[f"{path}.head_outputs"], atol=1e-6)


def test_only_the_layers_asked_for_are_recorded(model):
    (record,) = model.record([TEXT], layers=[-1], values=["weights", "states"])
    assert set(record) == {"trunk.blocks.1.attention.weights", "trunk.blocks.1.output"}
    encoder = record.attention("encoder")
    assert [len(layer) for layer in encoder.layers] == [0, model.facts.trunk.stack.heads]
    first, last = (encoder.map().select(layer=number) for number in (None, 1))
    np.testing.assert_array_equal(first, last)
    with pytest.raises(BadInput, match="no such head"):
        encoder.map().select(layer=0)


def test_the_difference_to_a_plain_run_is_stated(model):
    (record,) = model.record([TEXT])
    assert record.difference < 1e-5
    assert f"difference {record.difference:.1e}" in repr(record)


def test_gradients_flow_through_a_tape(model):
    tape = Tape("trunk.blocks.0.attention.head_outputs")
    outputs = model.inspected.run([model.inspected.read(TEXT)], tape)
    (value,) = tape.records.values()
    (gradient,) = torch.autograd.grad(outputs.encoded.states_TD.sum(), value)
    assert gradient.shape == value.shape and gradient.abs().sum() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": []}, "layers: empty; leave it out for all"),
        ({"layers": [2]}, "layers must be at most 1, not 2"),
        ({"layers": ["a"]}, "layers must be a whole number"),
        ({"values": ["weight"]}, "values: 'weight' is not one of scores, weights"),
        ({"values": ["cross_outputs"]}, "values: this model has no cross_outputs"),
    ],
)
def test_what_cannot_be_recorded_is_refused(model, options, message):
    with pytest.raises(BadInput, match=message):
        model.record([TEXT], **options)


def test_values_that_were_not_recorded_are_named(model):
    (record,) = model.record([TEXT], layers=[0], values=["states"])
    with pytest.raises(BadInput, match=r"weights of the encoder attention were not recorded"):
        record.attention()
    with pytest.raises(BadInput, match=r"there are: trunk\.blocks\.0\.output"):
        record["trunk.blocks.1.output"]


def test_a_saved_record_is_the_same_to_eight_bits(model, tmp_path):
    kinds = ["weights", "scores", "head_outputs", "states"]
    (record,) = model.record([TEXT], values=kinds)
    path = tmp_path / "new" / "record.safetensors"
    record.save(path)
    loaded = Record.load(path)
    assert loaded.query_labels == record.query_labels and loaded.key_labels == record.key_labels
    assert loaded.sites == record.sites and loaded.difference == record.difference
    assert [*loaded] == [*record]
    for name, value in record.items():
        bound = (
            np.sqrt(value) / 255 + 4e-6 if name.endswith("weights") else np.abs(value).max() / 254
        )
        assert (np.abs(loaded[name] - value) <= bound + 1e-7).all()
    assert repr(loaded) == repr(record)
    assert loaded.attention().map().select().shape == record.attention().map().select().shape


def test_a_saved_record_is_read_value_by_value(model, tmp_path, monkeypatch):
    (record,) = model.record([TEXT])
    record.save(tmp_path / "r.safetensors")
    loaded, read = Record.load(tmp_path / "r.safetensors"), []
    take = SavedValues.__getitem__
    monkeypatch.setattr(
        SavedValues, "__getitem__", lambda s, name: read.append(name) or take(s, name)
    )
    loaded["trunk.blocks.1.attention.weights"]
    assert read == ["trunk.blocks.1.attention.weights"]


def test_records_of_images(tmp_path):
    pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(3).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    (record,) = small_vit(size=(8, 12), width=12, depth=2, heads=3).record([pixels])
    record.save(tmp_path / "r.safetensors")
    loaded = Record.load(tmp_path / "r.safetensors")
    assert np.array_equal(loaded.image.pixels_HWC, record.image.pixels_HWC)
    assert loaded.image.grid == record.image.grid and loaded.image.tokens == record.image.tokens
    assert [*loaded] == [*record]


@pytest.mark.parametrize("family", [name for name in FACTS if name != "vit"])
def test_ids_are_recorded_without_a_tokenizer(family):
    model = small_family(family)
    paired = len(model.facts.sides) > 1
    given = (IDS, OTHER_IDS) if paired else (IDS,)
    rows = model.label(given if paired else IDS)
    recorded, _ = record(model, rows, values=["weights", "states"], compare=True)
    for site in model.sites:
        shown = recorded.attention(site.name).map()
        names = ["⟨begin⟩", *map(str, OTHER_IDS)] if paired else [*map(str, IDS)]
        keys = [*map(str, IDS)] if site.name in ("encoder", "cross") else names
        assert [*shown.keys] == keys
    # Logits of an output layer with weights of size 1 are √width times as large.
    larger = model.facts.encoder.width**0.5 if getattr(model.facts, "head_std", None) else 1.0
    assert recorded.difference < 1e-5 * larger
    side = model.facts.sides[0]
    assert [*np.asarray(rows[side].row.tokens)] == IDS
    if paired:
        assert rows["target"].queries.subwords == (*map(str, OTHER_IDS), "⟨end⟩")
        ((source, _),) = model.read_pairs([given])
        assert source == IDS
    else:
        with pytest.raises(BadInput, match="give one list"):
            model.label((IDS, OTHER_IDS))


def test_a_text_without_a_tokenizer_is_refused_by_what_reads_ids():
    with pytest.raises(
        BadInput, match=r"no tokenizer files: from Python, record\(\) reads token ids"
    ):
        small_family("bert").read(TEXT)


def test_ids_give_what_their_text_gives(model):
    (row,) = model.runner.read_rows([TEXT])
    (expected,) = model.record([TEXT], values=["weights", "states"])
    for ids in (row.tokens, row.tokens.tolist(), (*row.tokens.tolist(),), torch.tensor(row.tokens)):
        (found,) = model.record([ids], values=["weights", "states"])
        assert found.keys() == expected.keys() and found.difference == expected.difference
        for name, value in found.items():
            np.testing.assert_array_equal(value, expected[name])
        ours, theirs = found.key_labels["trunk"], expected.key_labels["trunk"]
        assert ours.subwords == theirs.subwords
    refused = {"nor token ids": [1.5], "no tokens": (), "vocabulary": [10**6]}
    for message, wrong in (refused | {"more than two texts": ("a", "b", "c")}).items():
        with pytest.raises(BadInput, match=message):
            model.record([wrong])


def test_a_translator_translates_ids_that_have_no_target():
    model = Model(small_translator(next(iter(TRANSLATORS))))
    (ids,) = model.translator.read_rows(["the owl"])
    ((best, *_),) = model.translate([ids])
    (found,), (expected,) = model.record([ids]), model.record([(ids, best.hypothesis.tokens)])
    assert found.keys() == expected.keys() and len(found)
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name])
    assert found.difference < 1e-5


def test_a_record_is_a_mapping(model):
    (record,) = model.record([TEXT], layers=[0], values=["weights", "states"])
    names = ["trunk.blocks.0.attention.weights", "trunk.blocks.0.output"]
    assert [*record] == [*record.keys()] == names and len(record) == 2
    assert names[0] in record and "x" not in record and record.get("x") is None
    assert all(value is record[name] for name, value in dict(record).items())
    assert record == record and record != model.record([TEXT])[0] and {record}


def test_only_weights_and_scores_lose_the_axis_of_inputs():
    value = torch.rand(1, 2, 3, 4)
    assert of_one_input("trunk.blocks.0.attention.scores", value).shape == (2, 3, 4)
    assert of_one_input("trunk.blocks.0.output", value).shape == (1, 2, 3, 4)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x08\0\0\0\0\0\0\0{}      "])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "r.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"r\.safetensors: (?:cannot be read as|not) a record"):
        Record.load(path)


def test_a_damaged_description_is_refused(tmp_path):
    write(tmp_path / "r.safetensors", {"a.weights": np.zeros((1, 2, 2))}, {"queries": 3})
    with pytest.raises(BadInput, match=r"r\.safetensors: a damaged record"):
        Record.load(tmp_path / "r.safetensors")


@pytest.mark.parametrize("metadata", [{}, {"record": "{"}])
def test_a_damaged_json_description_is_refused(tmp_path, metadata):
    path, content = tmp_path / "r.safetensors", {"a.weights": np.zeros((1, 2, 2), np.uint8)}
    save_file(content, path, {"format": VERSION, **metadata})
    with pytest.raises(BadInput, match=r"r\.safetensors: a damaged record"):
        Record.load(path)


def test_a_record_shows_its_attention_in_a_notebook(model):
    (record,) = model.record([TEXT], layers=[1])
    bundle = record._repr_mimebundle_()
    assert record.title == "[CLS] the old cat came [SEP]" and bundle["text/plain"] == repr(record)
    assert bundle["image/svg+xml"].startswith("<svg") and "<iframe srcdoc=" in bundle["text/html"]
    (shown,) = record.maps
    weights = unpack_weights(view := record.view_record(), view.json["maps"][0]["mean"])
    np.testing.assert_allclose(weights[0], shown.select(1), atol=1e-4)


def test_a_record_without_weights_is_a_line_in_a_notebook(model):
    (record,) = model.record([TEXT], values="states")
    assert record._repr_mimebundle_() == {"text/plain": repr(record)}
    assert record._repr_html_() is None and record.svg() == ""
    with pytest.raises(BadInput, match="no attention weights were recorded"):
        record.html()
