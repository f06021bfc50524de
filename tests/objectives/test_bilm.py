"""Language models in both directions: targets, loss, carried state, and a training run."""

import tomllib
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.core.batch import IGNORED
from regard.core.errors import BadInput
from regard.data.batches.document_dataset import DocumentDataset, TextStreams
from regard.data.rows.block_plans import ChunkLengths
from regard.data.rows.documents import Documents
from regard.models.facts import change
from regard.models.papers import bert, elmo
from regard.models.papers.elmo import BiLMHead
from regard.objectives.bilm import BiLM
from regard.objectives.sum import Sum
from regard.text.tokenizers.word_level import CharacterTokenizer, CharacterVocabulary
from regard.text.vocabulary import Lexicon
from small_documents import RECIPE, write_animals

SMALL = {
    "width": 6,
    "cells": 8,
    "filters": ((1, 4), (2, 8)),
    "longest": 12,
    "character_size": 4,
    "highways": 1,
    "dropout": 0.0,
}
LEXICON = Lexicon.learn(["an owl saw an ox", "an owl ran"], 9)
WORDS = 6  # predicted: <UNK> <S> </S> an owl ox
TOKENIZER = CharacterTokenizer(CharacterVocabulary(12), LEXICON)


def chunks(*sentences, rows=1, longest=4):
    """The chunks of all streams of a text, in the order in which they are read."""
    objective = Sum(BiLM(words=WORDS))
    documents = Documents.of([[LEXICON.encode(sentence) for sentence in sentences]])
    plan = objective.row_maker.rows(documents, TOKENIZER.template, longest, 0)
    dataset = DocumentDataset(documents, plan, objective.annotator(TOKENIZER), 0)
    return TextStreams.of(dataset, rows, ChunkLengths(longest)).read_all()


def small_model():
    """Its word vectors and states are large enough for every word to count."""
    torch.manual_seed(0)
    facts = change(elmo.SMALL, **SMALL).with_heads(BiLMHead(WORDS))
    model = facts.build().eval()
    with torch.no_grad():
        for layer in model.trunk.blocks:
            layer.bias.normal_()
            layer.projection.mul_(3)
    return model


def losses_and_states(model, examples, rows=1):
    """(tokens, 2) losses of each stream, 0 where there is no target, and the state at each cut."""
    objective, losses = Sum(BiLM(words=WORDS)), [[] for _ in range(rows)]
    states = [objective.initial_state(model, rows)]
    for first in range(0, len(examples), rows):
        batch = replace(objective.collate(examples[first : first + rows]), state=states[-1])
        outputs = objective.outputs(model, batch)
        logits_NV, targets_N = outputs.by_head["bilm"].flatten(0, 1), batch.targets["bilm"].ravel()
        losses_N = F.cross_entropy(logits_NV, targets_N, reduction="none").view(rows, -1, 2)
        for row, losses_L2 in enumerate(losses_N):
            losses[row].append(losses_L2)
        states.append(outputs.encoded.state)
        total, nll, *_ = objective(model, batch)
        torch.testing.assert_close(total, losses_N.sum())
        assert nll == total.detach()
    return [torch.cat(one) for one in losses], states


def read_slowly(model, way, words):
    """The published equations, word by word, over what one direction reads: losses and states."""
    spelled = torch.from_numpy(TOKENIZER.words.spell_all(LEXICON))
    ids = [LEXICON.ids[word] for word in words]
    vectors = model.trunk.embed.static(spelled[ids[:-1]])
    states = [(torch.zeros(6), torch.zeros(8)) for _ in model.trunk.blocks]
    losses, after = [], []
    for number, x in enumerate(vectors):
        for depth, layer in enumerate(model.trunk.blocks):
            h, c = states[depth]
            write, new, keep, read = (torch.cat([x, h]) @ layer.gates[way] + layer.bias[way]).chunk(
                4
            )
            c = (torch.sigmoid(keep + 1) * c + torch.sigmoid(write) * torch.tanh(new)).clamp(-3, 3)
            h = ((torch.sigmoid(read) * torch.tanh(c)) @ layer.projection[way]).clamp(-3, 3)
            states[depth] = h, c
            x = x + h if depth else h
        logits, follows = model.heads["bilm"].out(x), words[number + 1]
        learned = follows != ("</S>" if way else "<S>")
        target = ids[number + 1] if ids[number + 1] < WORDS else LEXICON.ids["<UNK>"]
        losses.append(-logits.log_softmax(-1)[target] if learned else torch.zeros(()))
        after.append([*states])
    return torch.stack(losses), after


def framed(sentence, way):
    words = ["<S>", *sentence.split(), "</S>"]
    return words[::-1] if way else words


def test_a_lexicon_has_words_by_frequency():
    assert LEXICON.words == ("<UNK>", "<S>", "</S>", "an", "owl", "ox", "ran", "saw")
    assert LEXICON.encode("an owl flew") == [1, 3, 4, 0, 2]
    assert LEXICON.encode(" ") == []


def test_a_lexicon_is_saved_and_loaded(tmp_path):
    TOKENIZER.save(tmp_path)
    assert CharacterTokenizer.load(tmp_path).lexicon == LEXICON
    (tmp_path / "lexicon.txt").write_text("<UNK>\n<S>\nowl\nowl\n")
    with pytest.raises(BadInput, match="occurs twice"):
        CharacterTokenizer.load(tmp_path)


def test_the_backward_model_reads_reversed_sentences():
    first, second, _ = chunks("an owl saw", "ox", "an")
    read = [TOKENIZER.words.pieces(first.row.tokens[:, way]) for way in (0, 1)]
    assert read == [["<S>", "an", "owl", "saw"], ["</S>", "saw", "owl", "an"]]
    following, before = first.targets["bilm"].T.tolist()
    assert following == [3, 4, 0, 2]  # "saw" is beyond the softmax
    assert before == [0, 4, 3, 1]
    read = [TOKENIZER.words.pieces(second.row.tokens[:, way]) for way in (0, 1)]
    assert read == [["</S>", "<S>", "ox", "</S>"], ["<S>", "</S>", "ox", "<S>"]]
    following, before = second.targets["bilm"].T.tolist()
    assert following == [IGNORED, 5, 2, IGNORED]  # a new sentence is not learned
    assert before == [IGNORED, 5, 1, IGNORED]
    assert BiLM(words=WORDS).weight(second) == 4


SENTENCES = ["an owl saw an ox", "ox ran", "an ox saw", "an owl ran an ox an owl", "ran"]


@pytest.mark.parametrize("rows, longest", [(1, 4), (2, 3), (3, 5)])
def test_losses_and_carried_states_are_those_of_a_loop_over_each_text(rows, longest):
    model = small_model()
    with torch.no_grad():
        examples = chunks(*SENTENCES, rows=rows, longest=longest)
        losses, states = losses_and_states(model, examples, rows)
        for way in (0, 1):
            text = [word for sentence in SENTENCES for word in framed(sentence, way)]
            length = (len(text) - 1) // rows
            for row in range(rows):
                words = text[row * length : (row + 1) * length + 1]
                expected, after = read_slowly(model, way, words)
                torch.testing.assert_close(losses[row][:, way], expected)
                for cut, state in enumerate(states[1:], start=1):
                    end = after[min(cut * longest, length) - 1]
                    for (h, c), (slow_h, slow_c) in zip(state, end, strict=True):
                        torch.testing.assert_close(h[row, way], slow_h)
                        torch.testing.assert_close(c[row, way], slow_c)


def test_state_dropout_starts_rows_anew_in_training_only():
    torch.manual_seed(0)
    rows, objective = 64, Sum(BiLM(words=WORDS))
    facts = change(elmo.SMALL, **SMALL, state_dropout=0.5).with_heads(BiLMHead(WORDS))
    model = facts.build()
    batch = objective.collate(chunks(*SENTENCES, longest=2)[:1] * rows)
    new = model.trunk.new_state(rows)
    carried = tuple(tuple(part + 1 for part in layer) for layer in new)

    def end_of_rows(state):
        """The memory cells of the first layer after the batch."""
        outputs = objective.outputs(model, replace(batch, state=state))
        return outputs.encoded.state[0][1].flatten(1)

    model.eval()
    after_new, after_carried = end_of_rows(new), end_of_rows(carried)
    assert not torch.isclose(after_new, after_carried).all(dim=1).any()
    model.train()
    ends = end_of_rows(carried)
    starts_anew = torch.isclose(ends, after_new).all(dim=1)
    assert 16 < starts_anew.sum() < 48
    torch.testing.assert_close(ends, after_new.where(starts_anew[:, None], after_carried))


def test_no_word_is_predicted_from_words_before_it_in_its_sentence_backward():
    model, at = small_model(), 3  # the place of the word that changes, among 9
    words = ["an", "owl", "saw", "an", "ox", "ran", "an", "owl", "saw"]
    changed = [*words[:at], "ox", *words[at + 1 :]]
    with torch.no_grad():
        read = [
            losses_and_states(model, chunks("ox ran", " ".join(text), longest=3))[0][0]
            for text in (words, changed)
        ]
    same_L2 = read[0] == read[1]
    begin = len(framed("ox ran", 0))
    place = begin + 1 + at, begin + len(words) - at  # of the word, in the text of each direction
    for way in (0, 1):
        assert same_L2[: place[way] - 1, way].all()  # as if the word were not there
        assert not same_L2[place[way] - 1 :, way].any()  # predicted, then read


def test_other_models_are_refused():
    with pytest.raises(BadInput, match="only ELMo's stack has language models in both directions"):
        BiLM().check(bert.TINY)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = write_animals(tmp_path_factory.mktemp("animals"))
    recipe = tomllib.loads(RECIPE)
    recipe |= {
        "text": {"vocab": 40},
        "objective": {"bilm": {"words": 30}},
        "model": {"paper": "elmo", "size": "small", "change": {**SMALL, "filters": [[1, 4]]}},
        "batches": {"tokens": 160, "rows": 16, "longest": 10},
    }
    recipe["train"] |= {"steps": 24, "evaluate_every": 12, "checkpoint_every": 12}
    return folder, recipe


def test_it_is_trained_from_raw_text(recipe, tmp_path):
    folder, recipe = recipe
    dev = [
        event.verdict.figures
        for event in regard.train(recipe, data=folder, out=tmp_path / "run")
        if type(event).__name__ == "DevEvent"
    ]
    assert dev[1]["perplexity"] < dev[0]["perplexity"] < 30
    assert {"forward_perplexity", "backward_perplexity"} <= dev[0].keys()
    model = regard.load(tmp_path / "run" / "model", "cpu")
    (states,) = model.encode(["seal otter."])
    assert states.shape == (3, 12)
    assert model.logits(["seal otter."])[0].shape == (5, 2, 30)
    pytest.importorskip("h5py")
    model.save(tmp_path / "published", "elmo")
    (copy,) = regard.load(tmp_path / "published", "cpu").encode(["seal otter."])
    assert torch.equal(states, copy)


@pytest.mark.slow
def test_resume_is_bit_exact_with_carried_state(recipe, tmp_path):
    folder, recipe = recipe
    half = {**recipe, "train": {**recipe["train"], "steps": 12}}
    for out, given in (("whole", recipe), ("parts", half)):
        list(regard.train(given, data=folder, out=tmp_path / out))
    list(regard.train(recipe, data=folder, out=tmp_path / "parts", resume=True))
    whole, parts = (
        regard.load(tmp_path / name / "model", "cpu").module.state_dict()
        for name in ("whole", "parts")
    )
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_no_more_words_are_predicted_than_are_read(recipe, tmp_path):
    folder, given = recipe
    refused = {**given, "objective": {"bilm": {"words": 41}}}
    fault = r"objective\.bilm\.words: 41 is above the size of the vocabulary, 40 \(text\.vocab\)$"
    with pytest.raises(BadInput, match=fault):
        list(regard.train(refused, data=folder, out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()
