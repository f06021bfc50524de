"""Lists of words as inputs, and models that read characters."""

import numpy as np
import pytest

import regard
from closeness import VALUES
from regard import BadInput
from small_bert import model as small_bert
from small_elmo import write_elmo
from verb import run

pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return regard.load(write_elmo(tmp_path_factory.mktemp("elmo")), "cpu")


def test_a_text_is_its_words(model):
    of_text, of_words = model.encode(["A cat, sat.", ["A", "cat", ",", "sat", "."]])
    assert of_text.shape == (5, 8)
    np.testing.assert_allclose(of_text, of_words, **VALUES)


def test_vectors_are_of_words_alone(model):
    texts = ["A cat sat.", "", "So?"]
    states = model.encode(texts)
    mean, most = (model.embed(texts, pool).numpy() for pool in ("mean", "max"))
    np.testing.assert_allclose(mean[0], states[0].mean(0), **VALUES)
    np.testing.assert_allclose(most[2], states[2].amax(0), **VALUES)
    assert states[1].shape == (0, 8) and not mean[1].any()


def test_layer_zero_is_the_word_vector_twice(model):
    (states,) = model.encode([["cat"]], layer=0)
    assert (states[:, :4] == states[:, 4:]).all()


def test_what_it_cannot_do_is_said(model):
    with pytest.raises(BadInput, match="reads characters: give a text or words"):
        model.encode([[1, 2]])
    with pytest.raises(BadInput, match="input 2: 3 is not a text"):
        model.encode([["a"], ["a", 3]])
    with pytest.raises(BadInput, match="no attention to show"):
        model.look("a cat")
    with pytest.raises(BadInput, match="no output head"):
        model.logits(["a cat"])


def test_tape_names(model):
    values = ("gates", "cells", "output")
    blocks = [f"trunk.blocks.{number}.{value}" for number in range(2) for value in values]
    highways = [
        f"trunk.embed.highway.{number}" for number in range(model.facts.trunk.embed.highways)
    ]
    words = ["trunk.embed.filters", *highways, "trunk.embed.projection", "trunk.embed.output"]
    assert model.tape_names() == [*words, *blocks, "trunk.output"]


def test_verbs(model, tmp_path):
    folder = tmp_path / "model"
    model.save(folder)
    out = run("embed", folder, "-", stdin="A cat sat.\n")
    assert np.allclose([float(x) for x in out.stdout.split()], model.embed(["A cat sat."])[0])
    assert "no attention to show" in run("look", folder, "A cat", code=2).output


def test_other_encoders_read_words_too_and_carry_nothing():
    bert = small_bert("one")
    (states,) = bert.encode([["green", "owls"]])
    pieces = bert.tokenizer.pieces(["green", "owls"])
    assert len(states) == sum(map(len, pieces)) + 2  # [CLS] and [SEP]
    with pytest.raises(BadInput, match="has no state to carry"):
        bert.encode(["a"], carry=True)


def test_recurrent_language_models_carry_their_state(tmp_path):
    from regard.models.folders.loaded_model import LoadedModel
    from regard.models.heads import NextTokenHead
    from regard.models.papers import elmo
    from regard.models.rnn import CausalRNNFacts
    from regard.models.tokens import Tokens
    from regard.models.trunk import Trunk
    from regard.models.trunk_with_heads import TrunkWithHeads

    stack = CausalRNNFacts(width=4, embedding=3, depth=2, initial="learned")
    facts = TrunkWithHeads(Trunk(Tokens(9, None), stack), output_heads=(NextTokenHead(False),))
    rnn = regard.Model(LoadedModel(elmo.PAPER, facts, facts.build().eval()))
    (whole,) = rnn.encode([[1, 2, 3, 4, 5]])
    parts = rnn.encode([[1, 2], [3, 4, 5]], carry=True)
    np.testing.assert_allclose(whole, np.concatenate(parts), **VALUES)
