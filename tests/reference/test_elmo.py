"""ELMo against its published equations in slow loops, and against a published checkpoint."""

import json
import os
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

import regard
from closeness import VALUES
from small_elmo import OPTIONS, SlowELMo, write_elmo

h5py = pytest.importorskip("h5py")

SENTENCES = [
    ["The", "crème", "brûlée", "was", "unforgettably", "good", "."],
    ["No"],
    ["Who", "would", "n't", "…", "supercalifragilistic", "?"],
]


def changed(**lstm) -> dict:
    options = deepcopy(OPTIONS)
    options["lstm"] |= lstm
    return options


def assert_same_layers(folder: Path) -> SlowELMo:
    """All layers of all sentences, the state carried from each to the next."""
    model, slow = regard.load(folder, "cpu"), SlowELMo(folder)
    model.module.double()  # large weights make differences grow from word to word
    expected = [slow.layers(words) for words in SENTENCES]
    for layer in range(3):
        states = model.encode(SENTENCES, layer, carry=True, as_numpy=True)
        for one, of_layers in zip(states, expected, strict=True):
            np.testing.assert_allclose(one, of_layers[layer], atol=1e-5)
    return slow


@pytest.mark.parametrize("skip", [True, False])
def test_all_layers_are_those_of_slow_loops(tmp_path, skip):
    assert_same_layers(write_elmo(tmp_path, changed(use_skip_connections=skip)))


def test_clipping_acts_on_cells_and_on_projections(tmp_path):
    slow = assert_same_layers(write_elmo(tmp_path / "large", scale=10.0))
    assert slow.clipped["cell"] > 0 and slow.clipped["projection"] > 0
    states = {}
    for cell, projection in ((3, 3), (None, 3), (3, None)):
        folder = tmp_path / f"{cell}-{projection}"
        write_elmo(folder, changed(cell_clip=cell, proj_clip=projection), scale=10.0)
        assert_same_layers(folder)
        model = regard.load(folder, "cpu")
        states[cell, projection] = model.encode(SENTENCES, 1, carry=True, as_numpy=True)[2]
    assert np.abs(states[3, 3]).max() <= 3 < np.abs(states[3, None]).max()
    assert np.abs(states[3, 3] - states[None, 3]).max() > 1e-3


def test_without_carrying_every_text_begins_anew_and_order_does_not_matter(tmp_path):
    folder = write_elmo(tmp_path)
    model = regard.load(folder, "cpu")
    together = model.encode(SENTENCES, as_numpy=True)
    for words, states in zip(SENTENCES, together, strict=True):
        np.testing.assert_allclose(states, SlowELMo(folder).layers(words)[-1], atol=1e-5)
    carried = model.encode(SENTENCES, carry=True, as_numpy=True)
    np.testing.assert_allclose(carried[0], together[0], **VALUES)
    assert np.abs(carried[1] - together[1]).max() > 1e-3


def published() -> Path:
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder with data")
    folder = Path(os.environ["REGARD_DATA"]) / "elmo"
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    return folder


def test_the_published_checkpoint_with_state_carried_over_ten_sentences():
    folder = published()
    sentences = json.loads((folder / "sentences.json").read_text())[0]
    states = regard.load(folder, "cpu").encode(
        [sentence.split() for sentence in sentences], carry=True, as_numpy=True
    )
    with h5py.File(folder / "lm_embeddings_0.hdf5") as file:
        expected = [np.concatenate(file[str(number)][()], axis=-1) for number in range(10)]
    for one, other in zip(states, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_the_published_checkpoint_is_written_bit_for_bit(tmp_path):
    folder = published()
    regard.load(folder, "cpu").save(tmp_path / "copy", "elmo")
    with (
        h5py.File(folder / "lm_weights.hdf5") as ours,
        h5py.File(tmp_path / "copy" / "weights.hdf5") as copy,
    ):
        names: list[str] = []
        ours.visititems(lambda name, one: names.append(name) if hasattr(one, "shape") else None)
        assert len(names) == 33
        assert all(np.array_equal(ours[name][()], copy[name][()]) for name in names)
