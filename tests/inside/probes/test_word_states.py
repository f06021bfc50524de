"""States of words at every layer are those of ``encode``, for every family."""

from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from marian_folders import write_marian
from regard.api import Model
from regard.core.errors import BadInput
from regard.inside.probes.probe_models import with_random_weights
from regard.inside.probes.probe_tasks import ProbeExample, ProbeSet, WordPlace
from regard.inside.probes.word_states import layer_numbers, read_states
from small_bert import LONGEST
from small_bert import model as small_bert
from small_gpt import write_gpt2
from small_mistakes import TRANSLATORS, language_model, small_translator

FROZEN = Path(__file__).parents[2] / "safety" / "frozen" / "models"
FAMILIES = ("elmo", "bert", "gpt2", "marian", "lstm", *TRANSLATORS)
SENTENCES = (("the", "old", "sailor", "mended"), ("she", "counted", "twelve", "gulls", "."))


def every_word(sentences=SENTENCES) -> ProbeSet:
    places = [WordPlace(n, at) for n, words in enumerate(sentences) for at in range(len(words))]
    examples = [ProbeExample((place,), "", "", place.sentence) for place in places]
    return ProbeSet(tuple(sentences), tuple(examples))


def small_model(name: str, folder: Path) -> regard.Model:
    """Small model of a family, with random weights and a vocabulary."""
    if name in TRANSLATORS:
        return Model(small_translator(name))
    pytest.importorskip("h5py") if name == "elmo" else None
    written = {
        "elmo": lambda: FROZEN / "elmo-elmo",
        "bert": lambda: FROZEN / "hf-bert-base-uncased",
        "gpt2": lambda: write_gpt2(folder),
        "marian": lambda: write_marian(folder),
        "lstm": lambda: language_model().save(folder) or folder,
    }
    return regard.load(written[name](), "cpu")


@pytest.mark.parametrize("name", FAMILIES)
def test_states_are_means_over_the_tokens_of_each_word(name, tmp_path):
    model = small_model(name, tmp_path / name)
    recorded = read_states(model.inspected, every_word())
    assert recorded.known.all()
    texts = [" ".join(words) for words in SENTENCES]
    tokens = model.tokens(texts)
    assert [each.words for each in tokens] == [*SENTENCES]
    assert [*recorded.layers] == [*range(model.facts.encoder.stack.depth + 1)]
    for layer, states_ND in recorded.layers.items():
        encoded = model.encode(texts, layer)
        expected = [of.of_words(states) for of, states in zip(tokens, encoded, strict=True)]
        torch.testing.assert_close(torch.from_numpy(states_ND), torch.cat(expected).float().cpu())


def test_a_word_may_have_its_first_or_last_state():
    model = small_bert("states")
    texts = [" ".join(words) for words in SENTENCES]
    tokens, encoded = model.tokens(texts), model.encode(texts, 1)
    assert any(len(group) > 1 for each in tokens for group in each.groups)
    for pieces, place in (("first", 0), ("last", -1)):
        (states_ND,) = read_states(model.inspected, every_word(), [1], pieces).layers.values()
        expected = [
            states[group[place]]
            for of, states in zip(tokens, encoded, strict=True)
            for group in of.groups
        ]
        torch.testing.assert_close(torch.from_numpy(states_ND), torch.stack(expected))


def test_two_words_have_their_states_and_the_product():
    model = small_bert("states").inspected
    words = read_states(model, every_word(), [2]).layers[2]
    examples = [ProbeExample((WordPlace(1, 3), WordPlace(0, 1)), "", "", 0)]
    pair = ProbeSet(SENTENCES, tuple(examples))
    (features_D,) = read_states(model, pair, [2]).layers[2]
    first, second = words[7], words[1]
    np.testing.assert_allclose(features_D, np.concatenate([first, second, first * second]), 1e-5)


@pytest.mark.parametrize("kind", ["bert", "gpt"])
def test_a_sentence_that_is_too_long_is_left_out(kind, tmp_path):
    model = small_bert("states") if kind == "bert" else regard.load(write_gpt2(tmp_path), "cpu")
    examples = every_word((("the", "old", "cat"), ("sailor",) * LONGEST, ("she",)))
    recorded = read_states(model.inspected, examples, [0])
    assert recorded.known.tolist() == [True] * 3 + [False] * LONGEST + [True]
    assert len(recorded.layers[0]) == 4
    with pytest.raises(BadInput, match="every sentence has more tokens"):
        read_states(model.inspected, every_word((("sailor",) * LONGEST,)))


def test_random_weights_are_new_ones_by_seed_and_change_nothing_else():
    model = small_bert("states").inspected
    torch.manual_seed(3)
    before = torch.get_rng_state()
    drawn = [with_random_weights(model, seed) for seed in (1, 1, 2)]
    assert torch.equal(torch.get_rng_state(), before)
    one, same, other = (read_states(each, every_word()).layers[2] for each in drawn)
    own = read_states(model, every_word()).layers[2]
    assert np.array_equal(one, same) and not np.allclose(one, other)
    assert one.shape == own.shape and not np.allclose(one, own)
    assert drawn[0].facts == model.facts and drawn[0].tokenizer is model.tokenizer


def test_layers_are_those_of_the_model():
    model = small_bert("states").inspected
    assert layer_numbers(model, None) == [0, 1, 2] and layer_numbers(model, [2, 0]) == [0, 2]
    with pytest.raises(BadInput, match=r"layers .*2"):
        layer_numbers(model, [3])


def test_broken_states_are_refused():
    model = small_bert("states")
    with torch.no_grad():
        next(model.module.trunk.blocks[1].parameters()).fill_(float("nan"))
    with pytest.raises(BadInput, match="NaN or infinite"):
        read_states(model.inspected, every_word())
