"""Tasks of probes: examples of tags, arcs and pairs in files, and samples of them."""

from pathlib import Path

import pytest

from regard.core.errors import BadInput
from regard.inside.probes.probe_tasks import (
    WordPlace,
    read_arc_labels,
    read_arcs,
    read_data,
    read_sense_pairs,
    read_tags,
    tag_columns,
)
from small_probes import PAIRS, write_pairs, write_treebank


@pytest.fixture
def treebank(tmp_path) -> Path:
    return write_treebank(tmp_path / "small.conllu")


@pytest.mark.parametrize(
    "column, labels",
    [
        (None, ["DET", "ADJ", "NOUN", "VERB"]),
        ("upos", ["DET", "ADJ", "NOUN", "VERB"]),
        ("xpos", ["det", "adj", "noun", "verb"]),
        ("deprel", ["det", "amod", "nsubj", "root"]),
        ("6", ["3", "3", "4", "0"]),
    ],
)
def test_tags_are_a_column(treebank, column, labels):
    examples = read_tags(treebank, tag_columns(treebank, column))
    assert examples.labels[:4] == labels
    assert examples.forms[:4] == ["the", "old", "sailor", "sings"]
    assert examples.examples[4].places == (WordPlace(1, 0),)
    assert examples.sentences[1] == ("she", "reads", "books")
    assert examples.groups.tolist() == [0] * 4 + [1] * 3 + [2] * 3 + [3] * 2


def test_a_file_of_other_columns_has_its_tag_in_the_last(tmp_path):
    path = tmp_path / "ner.txt"
    path.write_text("Ada NNP B-PER\nsings VBZ O\n\nshe PRP O\n")
    assert read_tags(path).labels == ["B-PER", "O", "O"]
    assert read_tags(path, tag_columns(path, "1")).labels == ["NNP", "VBZ", "PRP"]


def test_an_arc_is_a_head_with_its_dependent_and_another_word_is_none(treebank):
    examples = read_arcs(treebank, seed=3)
    first = [example for example in examples.examples if example.group == 0]
    assert [example.label for example in first] == ["arc", "no arc"] * 3
    assert first[0].places == (WordPlace(0, 2), WordPlace(0, 0))
    assert first[0].form == "sailor the"
    for arc, other in zip(first[::2], first[1::2], strict=True):
        assert other.places[1] == arc.places[1]
        assert other.places[0] not in arc.places
    assert not any(example.group == 3 for example in examples.examples)  # no third word
    assert examples == read_arcs(treebank, seed=3)


def test_labels_of_arcs_are_relations_without_the_root(treebank):
    examples = read_arc_labels(treebank)
    assert examples.labels == ["det", "amod", "nsubj", "nsubj", "obj", "det", "nsubj", "nsubj"]
    assert examples.examples[2].places == (WordPlace(0, 3), WordPlace(0, 2))


def test_pairs_have_a_word_in_two_sentences(tmp_path):
    examples = read_sense_pairs(write_pairs(tmp_path / "pairs.txt"))
    assert examples.labels == ["T", "F", "T"] and examples.forms == ["bank", "bank", "play"]
    assert examples.examples[1].places == (WordPlace(2, 1), WordPlace(3, 3))
    assert examples.sentences[3] == ("on", "the", "river", "bank")


def test_labels_of_pairs_may_stand_in_a_file_of_gold(tmp_path):
    path = write_pairs(tmp_path / "train.data.txt", tmp_path / "train.gold.txt")
    assert read_sense_pairs(path).labels == [label for _, label in PAIRS]
    (tmp_path / "train.gold.txt").write_text("T\n")
    with pytest.raises(BadInput, match="3 pairs, but 1 labels"):
        read_sense_pairs(path)
    (tmp_path / "train.gold.txt").unlink()
    with pytest.raises(BadInput, match=r"no column of labels.*'gold'"):
        read_sense_pairs(path)


@pytest.mark.parametrize(
    "line, message",
    [
        ("bank\tN\t1-9\ta bank\tthe bank\tT", ":1: '1-9' are not the indices of a word"),
        ("bank\tN\t1\ta bank\tthe bank\tT", ":1: '1' is not two indices"),
        ("bank\tN\t1-1\ta bank\tthe bank\tT\tx\nb\tN\t0-0\tb\tb\tT", "2 pairs, but 1 labels"),
    ],
)
def test_a_bad_pair_is_an_error_with_its_place(tmp_path, line, message):
    path = tmp_path / "pairs.txt"
    path.write_text(line + "\n")
    with pytest.raises(BadInput, match=message):
        read_sense_pairs(path)


def test_a_sample_has_whole_sentences_and_depends_on_the_seed(tmp_path):
    examples = read_tags(write_treebank(tmp_path / "large.conllu", times=20))
    sample = examples.sample(30, seed=1)
    assert 24 <= len(sample.examples) <= 30
    assert sample == examples.sample(30, seed=1) != examples.sample(30, seed=2)
    for example in sample.examples:
        (place,) = example.places
        assert sample.sentences[place.sentence][place.word] == example.form
    sizes = {len(sentence) for sentence in sample.sentences}
    assert len(sample.examples) == sum(map(len, sample.sentences)) and sizes <= {2, 3, 4}
    assert examples.sample(None, seed=1) is examples
    assert len(examples.sample(1, seed=1).sentences) == 1


@pytest.mark.parametrize(
    "task, column, message",
    [
        ("tags", "upps", r"column upps: not one of form, .* and not a number; .*upos"),
        ("tags", "12", "no column 12, counted from 0"),
        ("tags", "feats", "has only the label '_'; a probe needs two or more"),
        ("arcs", "upos", "column upos: the task arcs has no column of tags"),
        ("arc", None, "task arc: not one of tags, arcs"),
    ],
)
def test_what_cannot_be_probed_is_refused(treebank, task, column, message):
    with pytest.raises(BadInput, match=message):
        read_data(task, [treebank] * 3, column)


def test_a_name_of_a_column_needs_a_treebank(tmp_path):
    path = tmp_path / "ner.txt"
    path.write_text("Ada B-PER\nsings O\n")
    with pytest.raises(BadInput, match=r"only CoNLL-U has names of columns"):
        read_data("tags", [path] * 3, "upos")


LAYOUTS = {  # of a word and its tag, with a number of the column of tags
    "tag last": ("{word} {tag}", "1"),
    "tag first": ("{tag}\t{word}", "0"),
    "numbered": ("1 {word} _ {tag}", "3"),
    "CoNLL-U": ("{number}\t{word}\t_\t{tag}\t_\t_\t0\troot\t_\t_", "3"),
}


@pytest.mark.parametrize(
    ("layout", "suffix"),
    [*((layout, "txt") for layout in LAYOUTS), ("tag first", "conll"), ("CoNLL-U", "conllu")],
)
def test_words_are_in_the_column_that_predict_reads(tmp_path, layout, suffix):
    """Files for dev and test may be too short to show their columns: those of train are read."""
    line, number = LAYOUTS[layout]
    sentences = [["Ada", "sings"], ["Paris", "is", "large"], ["rain", "falls"]]
    for name, times in (("train", 8), ("dev", 1)):
        blocks = [
            "\n".join(
                line.format(word=word, number=at, tag="B-PER" if word == "Ada" else "O")
                for at, word in enumerate(sentence, 1)
            )
            for sentence in sentences * times
        ]
        (tmp_path / f"{name}.{suffix}").write_text("\n\n".join(blocks))
    files = [tmp_path / f"{name}.{suffix}" for name in ("train", "dev", "dev")]
    for column in (None, number):
        train, dev, _ = read_data("tags", files, column)
        assert dev.sentences == tuple(map(tuple, sentences))
        assert dev.labels == ["B-PER", *["O"] * 6] and train.labels == dev.labels * 8


def test_a_file_without_examples_is_refused(treebank, tmp_path):
    empty = tmp_path / "empty.conllu"
    empty.write_text("")
    with pytest.raises(BadInput, match=r"empty\.conllu: has no words to probe"):
        read_data("tags", [treebank, treebank, empty])
