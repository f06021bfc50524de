"""F9: a folder that is wrong is refused in one line, and nothing in it is ever run."""

import json
import os
import pickle
import shutil
import struct
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bert_folders import write_bert
from regard.core.errors import BadInput, DataWarning
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights.files import read_folder, write_tensors

pytest.importorskip("transformers")

WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"
fuzzed = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return write_bert(tmp_path_factory.mktemp("sound") / "folder", "one label", text=True)


@pytest.fixture
def copy(sound, tmp_path) -> Path:
    return shutil.copytree(sound, tmp_path / "copy")


def read(folder: Path) -> LoadedModel | None:
    """What is in it, or nothing: another exception than ours is passed on."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # a remark on an unknown setting
            return folders.read(folder)
    except BadInput as error:
        assert "\n" not in str(error) and str(folder) in str(error)
        return None


def refused(folder: Path, said: str) -> str:
    with pytest.raises(BadInput) as caught:
        folders.read(folder)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


@st.composite
def damaged(draw, content: bytes):
    """A few bytes put in place of others, a part left out, or the end cut off."""
    start = draw(st.integers(0, len(content)))
    length = draw(st.integers(0, 8) | st.integers(0, len(content)))
    return content[:start] + draw(st.binary(max_size=8)) + content[start + length :]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**31, 2**63, 10**30, 1e308, float("nan"), "", "gelu", "0"])
    | st.floats()
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@fuzzed
@given(st.data())
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_damaged_text_files(copy, sound, name, data):
    (copy / name).write_bytes(data.draw(damaged((sound / name).read_bytes())))
    read(copy)


@fuzzed
@given(st.data())
def test_a_damaged_list_of_words(copy, sound, data):
    (copy / "tokenizer.json").unlink(missing_ok=True)
    (copy / "vocab.txt").write_bytes(data.draw(damaged((sound / "vocab.txt").read_bytes())))
    read(copy)


KEYS = (
    *("model_type", "architectures", "vocab_size", "hidden_size", "num_hidden_layers"),
    *("num_attention_heads", "intermediate_size", "hidden_act", "hidden_dropout_prob"),
    *("attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size"),
    *("initializer_range", "layer_norm_eps", "classifier_dropout", "tie_word_embeddings"),
    *("id2label", "label2id", "num_labels", "problem_type", "is_decoder", "pruned_heads"),
)


@settings(fuzzed, max_examples=60)
@given(st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=2))
@example({"architectures": []})
@example({"architectures": [["BertModel"]]})
@example({"id2label": None, "num_labels": 10**12})
@example({"id2label": None, "num_labels": "2"})
@example({"problem_type": []})
@example({"classifier_dropout": "often"})
@example({"num_hidden_layers": 10**9})
@example({"vocab_size": 10**30})
@example({"initializer_range": -1.0})
@example({"layer_norm_eps": 0})
def test_settings_of_any_kind(copy, sound, changes):
    config = json.loads((sound / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, **changes}))
    read(copy)


@pytest.fixture
def ours(sound, tmp_path) -> Path:
    """The same in our own form."""
    folders.write(tmp_path / "ours", folders.read(sound))
    return tmp_path / "ours"


FIELDS = (
    *("facts", "facts.trunk", "facts.trunk.stack", "facts.trunk.embed", "facts.pool", "notes"),
    *("facts.trunk.embed.position", "facts.trunk.stack.depth", "facts.trunk.stack.activation"),
    *("facts.output_heads", "facts.output_heads.0", "facts.output_heads.0.outputs"),
    *("facts.output_heads.0.dropout", "facts.output_heads.0.dense", "facts.init_std"),
    *("facts.pool.dense", "hf", "hf.config", "hf.tied", "hf.bare", "hf.old", "paper", "regard"),
    "tokenizer",
)


@settings(fuzzed, max_examples=60)
@given(st.sampled_from(FIELDS), values)
@example("facts.trunk.stack", 3)
@example("facts.trunk.stack.depth", 10**9)
@example("facts.output_heads.0", [])
@example("facts.output_heads", {})
@example("hf.tied", 3)
@example("hf.config", "no")
@example("paper", "lin")
def test_settings_of_any_kind_in_our_own_form(ours, field, value):
    content = (ours / "config.json").read_bytes()
    config = part = json.loads(content)
    *steps, last = (int(step) if step.isdigit() else step for step in field.split("."))
    for step in steps:
        part = part[step]
    part[last] = value
    try:
        (ours / "config.json").write_text(json.dumps(config))
        with suppress(BadInput):
            folders.read(ours)
    finally:
        (ours / "config.json").write_bytes(content)


@settings(fuzzed, max_examples=60)
@given(st.data())
def test_damaged_tensors(copy, sound, data):
    content = (sound / WEIGHTS).read_bytes()
    length = 8 + struct.unpack("<Q", content[:8])[0]
    header, body = content[:length], content[length:]
    if data.draw(st.booleans(), "header"):
        header = data.draw(damaged(header))
    else:
        body = data.draw(damaged(body))
    (copy / WEIGHTS).write_bytes(header + body)
    read(copy)


DTYPES = ("F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "F8_E8M0", "F4", "C64", "X")


@fuzzed
@given(
    st.sampled_from([*DTYPES, 3, None]),
    st.lists(st.sampled_from([0, 1, 3, 12, -1, 2**40, 2**63]), max_size=3),
    st.lists(st.sampled_from([0, 4, 36, 144, 10**9, -4]), min_size=2, max_size=2),
)
def test_headers_that_say_anything(copy, sound, dtype, shape, offsets):
    content = (sound / WEIGHTS).read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    header["classifier.weight"] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    said = json.dumps(header).encode()
    (copy / WEIGHTS).write_bytes(struct.pack("<Q", len(said)) + said + content[8 + size :])
    read(copy)


@pytest.fixture
def pickled(copy) -> Path:
    torch.save(read_folder(copy), copy / PICKLE)
    (copy / WEIGHTS).unlink()
    return copy


@settings(fuzzed, max_examples=60)
@given(st.data())
def test_a_damaged_pickle(pickled, data):
    content = (pickled / PICKLE).read_bytes()
    try:
        (pickled / PICKLE).write_bytes(data.draw(damaged(content)))
        read(pickled)
    finally:
        (pickled / PICKLE).write_bytes(content)


class Trap:
    """What makes a file when it is unpickled."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def traps(path: Path):
    return {
        "system": Trap(os.system, f"touch {path}"),
        "open": Trap(open, str(path), "w"),
        "eval": Trap(eval, f"open({str(path)!r}, 'w')"),
        "mkdir": Trap(os.mkdir, str(path)),
        "save": Trap(torch.save, 1, str(path)),
    }


@pytest.mark.parametrize("name", traps(Path()))
@pytest.mark.parametrize("place", ["whole", "tensor", "name", "bare pickle", "part"])
def test_no_code_is_run(copy, tmp_path, name, place):
    made = tmp_path / "made"
    trap, tensors = traps(made)[name], read_folder(copy)
    (copy / WEIGHTS).unlink()
    if place == "bare pickle":
        (copy / PICKLE).write_bytes(pickle.dumps(trap))
    elif place == "part":
        torch.save({**tensors, "x": trap}, copy / "a.bin")
        index = {"weight_map": dict.fromkeys([*tensors, "x"], "a.bin")}
        (copy / f"{PICKLE}.index.json").write_text(json.dumps(index))
    else:
        whole = {"whole": trap, "tensor": {**tensors, "x": trap}, "name": {**tensors, trap: 1}}
        torch.save(whole[place], copy / PICKLE)
    refused(copy, "is damaged or holds more than tensors")
    assert not made.exists()


def test_the_traps_work(tmp_path):
    for name in ("system", "mkdir", "save"):
        pickle.loads(pickle.dumps(traps(tmp_path / name)[name]))
        assert (tmp_path / name).exists()


def test_all_that_does_not_fit_is_in_one_line(copy):
    tensors = read_folder(copy)
    del tensors["classifier.bias"], tensors["bert.encoder.layer.1.attention.self.key.weight"]
    tensors["bert.encoder.layer.2.output.dense.bias"] = torch.zeros(12)
    tensors["lm_head.weight"] = torch.zeros(3)
    tensors["bert.pooler.dense.weight"] = torch.zeros(12, 13)
    tensors["bert.embeddings.LayerNorm.bias"] = torch.zeros(12, dtype=torch.int64)
    write_tensors(copy / WEIGHTS, tensors)
    said = refused(copy, "tensors do not fit the model; missing: ")
    for fault in (
        "missing: bert.encoder.layer.1.attention.self.key.weight, classifier.bias;",
        "unknown: bert.encoder.layer.2.output.dense.bias, lm_head.weight;",
        "misshapen: bert.pooler.dense.weight is [12, 13], not [12, 12];",
        "mistyped: bert.embeddings.LayerNorm.bias is int64, not float32",
    ):
        assert fault in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "bart"}, "model_type 'bart' is not supported, only marian, "),
        ({"is_decoder": True}, "is_decoder is True, and only False is supported"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"pruned_heads": {"1": [0]}}, "pruned_heads is {'1': [0]}"),
        ({"quantization_config": {"bits": 8}}, "quantization_config"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'; supported: gelu, relu"),
        ({"hidden_size": "wide"}, "config.json: hidden_size: width of Stack must be int"),
        ({"num_attention_heads": 5}, "is not divisible by 5 heads"),
        ({"num_hidden_layers": 3}, "missing: bert.encoder.layer.2.attention.self.query.weight"),
        ({"num_hidden_layers": 1}, "unknown: bert.encoder.layer.1."),
        ({"num_hidden_layers": 10**9}, "1000000000 layers, but the file has only 41 tensors"),
        ({"hidden_size": 24}, "bert.embeddings.LayerNorm.bias is [12], not [24]"),
        ({"vocab_size": 10**12}, "not [1000000000000, 12]"),
        ({"max_position_embeddings": 17}, "position_embeddings.weight is [16, 12], not [17, 12]"),
        ({"type_vocab_size": 0}, "unknown: bert.embeddings.token_type_embeddings.weight"),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob: dropout must be at least 0"),
        (
            {"classifier_dropout": "often"},
            "classifier_dropout: dropout of LabelHead must be float, not 'often'",
        ),
        (
            {"id2label": {"0": "a", "2": "b"}},
            "id2label must have the indices 0, 1, 2, …, not [0, 2]",
        ),
        ({"id2label": {"0": "a"}, "label2id": None}, "classifier.bias is [3], not [1]"),
        ({"num_labels": 2}, "num_labels is 2, but id2label has 3 labels"),
        ({"label2id": {"a": 0, "b": 1, "c": 2}}, "label2id {'a': 0, 'b': 1, 'c': 2} contradicts"),
        (
            {"label2id": {"LABEL_0": 0}},
            "label2id {'LABEL_0': 0} contradicts id2label {0: 'LABEL_0', ",
        ),
        ({"label2id": [0, 1, 2]}, "label2id [0, 1, 2] contradicts id2label"),
        (
            {"problem_type": "guess"},
            "problem_type is 'guess', not one of single_label_classification",
        ),
        ({"id2label": None, "num_labels": 10**12}, "num_labels must be from 1 to"),
    ],
)
def test_unsupported_values_of_a_configuration_are_refused(copy, changes, said):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, **changes}))
    refused(copy, said)


def test_a_folder_without_weights_or_with_a_wrong_index(copy, tmp_path):
    (copy / WEIGHTS).rename(tmp_path / "aside")
    refused(copy, "has no weights (model.safetensors, pytorch_model.bin or an index of parts)")
    index = copy / f"{WEIGHTS}.index.json"
    for content, said in (
        ("[]", "not a JSON object"),
        ("{}", "has no weight_map"),
        ('{"weight_map": {"x": "../aside"}}', "'../aside' is not a file of its folder"),
        ('{"weight_map": {"x": 3}}', "3 is not a file of its folder"),
        ('{"weight_map": {"x": "nowhere"}}', "nowhere: cannot be read"),
    ):
        index.write_text(content)
        refused(copy, said)


def test_a_vocabulary_that_the_model_does_not_know(copy):
    tensors = read_folder(copy)
    name = "bert.embeddings.word_embeddings.weight"
    write_tensors(copy / WEIGHTS, {**tensors, name: tensors[name][:50]})
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "vocab_size": 50}))
    refused(copy, f"{len(tensors[name])} tokens, but the model has 50")


def test_norms_spelled_both_ways(copy):
    tensors = read_folder(copy)
    norm = "bert.embeddings.LayerNorm"
    both = {**tensors, f"{norm}.gamma": tensors[f"{norm}.weight"] + 1}
    write_tensors(copy / WEIGHTS, both)
    refused(copy, f"doubled: {norm}.weight is also {norm}.gamma")


def test_a_sound_folder_is_read(sound):
    stored = read(sound)
    assert stored is not None and isinstance(stored.tokenizer, EncoderTokenizer) and stored.labels
