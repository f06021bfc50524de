"""CoVe: the frozen encoder of a translator, recurrent or not, gives features of words."""

import numpy as np
import pytest
import torch

import regard
from regard.core.batch import pack_rows
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.features import Features
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import cove, gehring, transformer
from regard.text.tokenizers.translation_tokenizer import train_translation_tokenizer
from regard.text.tokenizers.word_level import WordPieces
from small import WORDS
from small_tuning import write_start
from small_words import recipe_of, refused, trained

TEXTS = [" ".join(WORDS)] * 3
RNN = {"embedding": 6, "source.width": 4, "target.width": 8}
TRANSLATORS = {
    "recurrent": (cove.PAPER, change(cove.MT_LSTM, **RNN)),
    "transformer": (
        transformer.PAPER,
        change(transformer.LAPTOP, width=8, inner=8, heads=2, depth=2),
    ),
}


@pytest.fixture(scope="module", params=TRANSLATORS)
def translator(request, tmp_path_factory):
    paper, facts = TRANSLATORS[request.param]
    tokenizer = train_translation_tokenizer(TEXTS, TEXTS, "bpe", 290, joint=True)
    facts, folder = change(facts, vocab=len(tokenizer.source)), tmp_path_factory.mktemp("folder")
    torch.manual_seed(3)
    folders.write(folder, LoadedModel(paper, facts, facts.build(), tokenizer))
    return folder


@pytest.fixture
def recipe(translator, tmp_path):
    content = recipe_of(tmp_path, "one")
    sizes = {"trunk.stack.width": 8, "trunk.stack.embedding": 16, "inner": 4}
    content["model"] = {"paper": "cove", "size": "classifier", "features": str(translator)}
    content["model"] |= {"change": sizes}
    content["train"]["steps"] = 2
    return content


def test_a_word_has_the_mean_of_its_pieces_in_the_translator(recipe, translator, tmp_path):
    model = trained(recipe, tmp_path, tmp_path / "run")
    words = ["dog", "owlish", "pig"]
    inputs = pack_rows(model.encoder.read_rows([words, ["gnu"]]))
    (features_TD,) = model.module.trunk.frozen(inputs.tokens_T[:, 1:], inputs.layout)
    start = regard.load(translator, "cpu")
    states_ND, other_ND = start.encode([" ".join(words), "gnu"])
    pieces = [len(start.tokenizer.source.encode(word)) for word in words]
    assert max(pieces) > 1 and len(states_ND) == sum(pieces) + 1
    begin, *means, end = features_TD[: len(words) + 2]
    assert not begin.any()
    for mean_D, of_word in zip([*means, end], states_ND.split([*pieces, 1]), strict=True):
        torch.testing.assert_close(mean_D, of_word.mean(0))
    torch.testing.assert_close(features_TD[len(words) + 3], other_ND[:-1].mean(0))
    own, given = model.module.trunk.frozen.trunk.state_dict(), start.module.source.state_dict()
    assert all(torch.equal(own[name], given[name]) for name in given)
    assert model.predict(["dog owl"])[0].label in ("no", "owl")
    assert model.facts.trunk.features.layers == "top"


def test_words_are_read_as_in_the_text(translator):
    vocabulary = regard.load(translator, "cpu").tokenizer.source
    pieces = WordPieces(vocabulary, longest=3)
    spelled = pieces.spell(["dog", "owlishness"])
    ids = vocabulary.encode("dog owlishness")
    count = len(vocabulary.encode("dog"))
    assert spelled[0].tolist() == [*(i + 1 for i in ids[:count]), *[0] * (3 - count)]
    assert spelled[1].tolist() == [i + 1 for i in ids[count : count + 3]]
    assert pieces.eos[0] == vocabulary.eos + 1 and not pieces.bos.any()
    assert pieces.spell([]).shape == (0, 3) and spelled.dtype == np.int32


def test_what_gives_no_features_is_refused(recipe, tmp_path):
    elsewhere = {**recipe["model"], "features": str(write_start(tmp_path / "bert"))}
    said = refused({**recipe, "model": elsewhere}, tmp_path)
    assert said == "model.features: features need ELMo or a translator; this model is neither"
    with pytest.raises(BadInput, match="set pieces"):
        Features(cove.MT_LSTM.source, layers="top")
    with pytest.raises(BadInput, match="with learned positions is not supported"):
        Features(gehring.BASE.source, pieces=8)
