"""Folders of ELMo as published: read, written bit for bit, and refused where something is wrong."""

import json
from copy import deepcopy

import numpy as np
import pytest

import regard
from regard.core.errors import BadInput
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import elmo
from regard.models.papers.elmo import BiLMHead
from small_bert import model as small_bert
from small_elmo import OPTIONS, write_elmo
from verb import run

h5py = pytest.importorskip("h5py")


@pytest.mark.parametrize("size, count", [("small", 13_593_296), ("medium", 28_027_728)])
def test_sizes(size, count):
    assert elmo.PAPER.parameters(elmo.PAPER.sizes[size]) == count
    assert round(count, -5) == elmo.PAPER.published[size]


def test_the_original_size():
    assert elmo.PAPER.parameters(elmo.ORIGINAL) == 93_600_848
    assert elmo.PAPER.published["original"] == 93_600_000


def tensors(path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, one: found.update({name: one[()]} if hasattr(one, "shape") else {})
        )
    return found


def test_a_folder_is_written_bit_for_bit(tmp_path):
    folder = write_elmo(tmp_path / "published")
    regard.load(folder, "cpu").save(tmp_path / "own")
    regard.load(tmp_path / "own", "cpu").save(tmp_path / "again", "elmo")
    before, after = (tensors(tmp_path / name / "weights.hdf5") for name in ("published", "again"))
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    options = json.loads((tmp_path / "again" / "options.json").read_text())
    assert options.pop("dropout") == 0.0
    assert options == OPTIONS


def test_names_of_published_files(tmp_path):
    folder = write_elmo(tmp_path)
    for name in ("options.json", "weights.hdf5"):
        (folder / name).rename(folder / f"elmo_2x6_4_{name}")
    assert regard.load(folder, "cpu").facts.trunk.stack.cells == 6


def test_convert_reads_and_writes_it(tmp_path):
    write_elmo(tmp_path / "published")
    for source, target, format in (("published", "own", "regard"), ("own", "back", "elmo")):
        out = run("convert", tmp_path / source, tmp_path / target, "--to", format, "--check")
        assert "block 2" in out.output
    texts = ["A cat sat.", "So did I"]
    states = [regard.load(tmp_path / name, "cpu").encode(texts) for name in ("published", "back")]
    assert all((a == b).all() for a, b in zip(*states, strict=True))


def test_convert_does_not_compare_the_softmax_which_is_no_part_of_the_format(tmp_path):
    published = regard.load(write_elmo(tmp_path / "published"), "cpu")
    facts = published.facts.with_heads(BiLMHead(words=5))
    module = facts.build()
    module.trunk.load_state_dict(published.module.trunk.state_dict())
    own = LoadedModel(elmo.PAPER, facts, module, published.tokenizer)
    folders.write(tmp_path / "own", own)
    done = run("convert", tmp_path / "own", tmp_path / "back", "--to", "elmo", "--check")
    assert "the format elmo has no heads: bilm not written and not compared" in done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("bilm logits"))
    assert line.split()[-1] == "–"
    one, other = (tensors(tmp_path / name / "weights.hdf5") for name in ("published", "back"))
    assert one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


def broken(tmp_path, change) -> str:
    options = deepcopy(OPTIONS)
    change(options)
    folder = write_elmo(tmp_path)
    (folder / "options.json").write_text(json.dumps(options))
    with pytest.raises(BadInput) as error:
        regard.load(folder, "cpu")
    assert str(tmp_path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda o: o["lstm"].pop("dim"), "has no lstm.dim"),
        (lambda o: o.pop("char_cnn"), "has no char_cnn.embedding.dim"),
        (lambda o: o["lstm"].update(dim=7), "tensors do not fit the model"),
        (lambda o: o["lstm"].update(dim="x"), "lstm.dim"),
        (lambda o: o["lstm"].update(n_layers=10**9), "layers, but the file has only"),
        (lambda o: o["lstm"].update(n_layers=3), "missing: RNN_0/RNN/MultiRNNCell/Cell2"),
        (lambda o: o["char_cnn"].update(n_highway=10**9), "highway layers, but the file has only"),
        (lambda o: o["char_cnn"].update(n_characters=300), "n_characters is 300, not 261 or 262"),
        (lambda o: o["char_cnn"].update(activation="cosine"), "activation is 'cosine'"),
        (lambda o: o["char_cnn"].update(filters=[[0, 1]]), "char_cnn.filters"),
        (lambda o: o["char_cnn"].update(filters="x"), "char_cnn.filters"),
        (lambda o: o["char_cnn"].update(filters=[]), "filters is empty"),
        (
            lambda o: o["char_cnn"].update(max_characters_per_token=2),
            "filters: the width of (3, 4) is 3 characters, above longest (2)",
        ),
        (lambda o: o["lstm"].update(cell_clip=0), "cell_clip must be above 0, not 0"),
        (lambda o: o["lstm"].update(proj_clip=-3.0), "projection_clip must be above 0, not -3.0"),
        (lambda o: o.update(bidirectional=False), "bidirectional is False"),
    ],
)
def test_wrong_options_are_named(tmp_path, change, message):
    assert message in broken(tmp_path, change)


def test_damaged_weights_and_two_files_of_weights(tmp_path):
    folder = write_elmo(tmp_path)
    (folder / "more_weights.hdf5").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="must have exactly one file"):
        regard.load(folder, "cpu")
    (folder / "weights.hdf5").unlink()
    with pytest.raises(BadInput, match="cannot be read as HDF5"):
        regard.load(folder, "cpu")


def test_other_models_cannot_be_written_so(tmp_path):
    with pytest.raises(BadInput, match="supports only ELMo"):
        small_bert("one").save(tmp_path / "copy", "elmo")


def test_a_folder_with_another_model_is_not_overwritten(tmp_path):
    model = regard.load(write_elmo(tmp_path / "published"), "cpu")
    with pytest.raises(BadInput, match="another format"):
        model.save(tmp_path / "published", "regard", overwrite=True)


def test_without_h5py_one_line_says_so(tmp_path, monkeypatch):
    folder = write_elmo(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(BadInput, match="need the library h5py"):
        regard.load(folder, "cpu")


def test_tensors_that_are_no_numbers_are_refused(tmp_path):
    folder = write_elmo(tmp_path)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file.create_dataset("note", data="text")
    with pytest.raises(BadInput, match="unknown: note"):
        regard.load(folder, "cpu")
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["note"], file["CNN/b_cnn_0"]
        file.create_dataset("CNN/b_cnn_0", data="text")
    with pytest.raises(BadInput, match="CNN/b_cnn_0 holds no floating-point numbers"):
        regard.load(folder, "cpu")


def test_weights_in_double_precision_are_named(tmp_path):
    folder = write_elmo(tmp_path)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        values = file["char_embed"][()]
        del file["char_embed"]
        file.create_dataset("char_embed", data=values.astype("float64"))
    with pytest.raises(BadInput, match="mistyped: char_embed is float64, not float32"):
        regard.load(folder, "cpu")
