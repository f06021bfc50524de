"""Labels by name, and a folder that gives them back."""

import json

import pytest

from regard.ground.errors import BadInput
from regard.text.labels import LabelledText, Labels
from regard.text.train_tokenizer import train

WRITTEN = {"0": "negative", "1": "positive"}


@pytest.fixture
def text():
    words = train(["a good film", "a bad film"], "bpe", 300)
    return LabelledText(words, Labels.of(["1", "0", "1"], WRITTEN))


def test_labels_are_numbered_by_name():
    labels = Labels.of(["1", "0", "1"], WRITTEN)
    assert labels.names == ("negative", "positive") and len(labels) == 2
    assert labels.encode_all(["1", "0", " positive"]) == [[1], [0], [1]]
    assert labels.encode_dropped("1", 0.5, (1, 2)) == [1]
    assert labels.name("1") == "positive"
    with pytest.raises(BadInput, match=r"^a\.tsv:3: no label is called '2'; known: neg"):
        labels.name("2", "a.tsv:3")
    with pytest.raises(BadInput, match="two labels or more"):
        Labels.of(["a", "a"], {})


def test_a_fingerprint_names_the_content():
    one, other = Labels.of("ab", {}), Labels.of("ab", {"a": "c"})
    assert one.fingerprint == Labels.of("ba", {}).fingerprint != other.fingerprint


def test_a_folder_gives_them_back(text, tmp_path):
    text.save(tmp_path)
    again = LabelledText.load(tmp_path)
    assert again.labels == text.labels
    assert again.words.fingerprint == text.words.fingerprint
    assert again.sides == (again.words, again.labels)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"names": "ab", "written": {}}, "names or written is missing"),
        ({"names": ["a"]}, "names or written is missing"),
        ({"names": ["a", 1], "written": {}}, "a label is not text"),
    ],
)
def test_a_file_that_is_none_of_ours_is_said(text, tmp_path, content, said):
    text.save(tmp_path)
    (tmp_path / "labels.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match=f"labels.json: {said}"):
        LabelledText.load(tmp_path)
