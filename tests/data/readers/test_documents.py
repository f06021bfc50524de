"""A running text in parts: the tokens of the whole text, in little memory."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.batches import shards
from regard.data.readers import document_files as parts
from regard.data.readers import text_files
from regard.data.readers.document_files import TextFile
from regard.data.readers.sources import sample_texts
from regard.data.rows.documents import tokenize_documents
from regard.tasks import pretrain
from regard.text.tokenizers import FAMILIES
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from warm import WarmProcess

WORDS = ["a", "An", "the", "dog's", "cats,", "3.5", "don't", "“so”", "Übermut", "naïve", "_x_"]
WORDS += ["你好世界", "...", "\t", "\r", "\n", "\n\n"]
PIECES = st.lists(st.sampled_from([*WORDS, " ", "\n", "  ", "\u2028", "é", "'s", "<unk>"]))


def corpus(count: int = 3_000, seed: int = 0) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choices(WORDS, k=count))


@pytest.fixture(scope="module", params=[family.name for family in FAMILIES])
def tokenizer(request):
    lower = request.param == "gpt-bpe"
    return train_encoder_tokenizer([corpus()], request.param, 400, lower=lower, longest=None)


def encoded(encode, pieces: list[str]) -> list[int]:
    return [token for ids in encode(pieces) for token in ids]


@given(st.data())
def test_the_tokens_of_parts_are_those_of_the_whole(tokenizer, data):
    text = data.draw(st.one_of(PIECES.map("".join), PIECES.map(" ".join), st.text()))
    encode = tokenizer.training_words.encode_all
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parts, "SIZE", data.draw(st.integers(1, 12)))
        size = data.draw(st.integers(1, 30))
        blocks = [text[at : at + size] for at in range(0, len(text), size)]
        pieces = [*parts.text_parts(blocks, at_lines=parts.cuts_at_lines(encode))]
    assert "".join(pieces) == text and all(pieces)
    assert encoded(encode, pieces) == encoded(encode, [text])


@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_a_vocabulary_learned_from_parts_is_that_of_the_whole(family, monkeypatch):
    text, lower = corpus(), family == "gpt-bpe"
    monkeypatch.setattr(parts, "SIZE", 100)
    pieces = [*parts.text_parts([text])]
    assert len(pieces) > 50
    learned = [
        train_encoder_tokenizer(texts, family, 400, lower=lower, longest=None)
        for texts in ([text], pieces)
    ]
    assert learned[0].training_words.fingerprint == learned[1].training_words.fingerprint


def test_a_tokenizer_that_adds_a_space_is_not_cut_at_lines():
    assert parts.cuts_at_lines(lambda texts: [text.encode() for text in texts])
    assert not parts.cuts_at_lines(lambda texts: [b" " + text.encode() for text in texts])
    text = "你好\n世界" * 40_000
    assert len([*parts.text_parts([text])]) > 1
    assert [*parts.text_parts([text], at_lines=False)] == [text]


@given(st.lists(st.sampled_from(["\r", "\n", "\r\n", "é", "x", "\ufeff", "你"])), st.integers(1, 7))
def test_blocks_are_the_text_whatever_their_size(tmp_path_factory, letters, size):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes("".join(letters).encode())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(text_files, "BLOCK", size)
        blocks = [*text_files.text_blocks(path)]
    lines = text_files.ended_lines(path)
    assert "".join(blocks) == b"".join(lines).decode() and all(blocks)


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize(
    "content", [b"ab\xff", b"one\r\ntwo\n\xc3\xa9\xff x", b"\n\n\xe4\xbd", b"a\xffb\n"]
)
def test_a_wrong_byte_is_located_as_in_lines(tmp_path, monkeypatch, content, size):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    monkeypatch.setattr(text_files, "BLOCK", size)
    with pytest.raises(BadInput) as by_line:
        list(text_files.read_lines(path))
    with pytest.raises(BadInput) as by_block:
        list(text_files.text_blocks(path))
    assert str(by_block.value) == str(by_line.value)


@pytest.mark.parametrize("whole", [True, False])
def test_the_shard_of_a_text_does_not_depend_on_its_parts(tmp_path, monkeypatch, whole):
    path = tmp_path / "text.txt"
    path.write_text("One is here. Two is there.\n\nThree of them\n" * 50)

    def encode(texts):
        return [[len(word) for word in text.split()] for text in texts]

    def store(name):
        source = TextFile(str(path))
        options = {"vocab": 20, "fingerprint": "", "whole": whole}
        return tokenize_documents(tmp_path / name, "train", source, encode, **options)

    once = store("once")
    monkeypatch.setattr(parts, "SIZE", 40)
    monkeypatch.setattr(shards, "CHUNK", 3)
    often = store("often")
    assert len(once) == len(often) == 1
    assert np.array_equal(once.rows[0], often.rows[0]) and once.checksum == often.checksum
    assert np.array_equal(once.sentences[0], often.sentences[0])
    assert len(often.sentences[0]) == (1 if whole else 150)
    for file in (tmp_path / "once").iterdir():
        assert file.read_bytes() == (tmp_path / "often" / file.name).read_bytes()


def test_an_empty_text_has_one_empty_part(tmp_path):
    (tmp_path / "a.txt").touch()
    source = TextFile(str(tmp_path / "a.txt"))
    for whole in (True, False):
        assert [*source.parts(None, whole=whole, at_lines=True)] == [([], True)]


def test_a_line_longer_than_the_sample_gives_words(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain, "SAMPLE", 50_000)
    monkeypatch.setattr(parts, "SIZE", 1_000)
    line = " ".join(random.Random(0).choices(["dog", "cat", "owl"], k=50_000))
    (tmp_path / "a.txt").write_text(line)
    source = TextFile(str(tmp_path / "a.txt"))
    texts = [part.texts[0] for part in source.parts(None, whole=True, at_lines=True)]
    taken = [*sample_texts(iter(texts), 50_000 / len(line))]
    assert 40_000 < sum(map(len, taken)) <= 50_000
    half = len(line) // 2
    assert any(text in line[half:] for text in taken)  # from all over the text


PEAK = """
import json, sys
from pathlib import Path
from regard.data.rows.documents import tokenize_documents
from regard.data.readers.document_files import TextFile
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
folder = Path(sys.argv[1])
words = train_encoder_tokenizer(
    [(folder / "small.txt").read_text()], "gpt2-bpe", 400, lower=False, longest=None
).training_words
def peak(name):
    Path("/proc/self/clear_refs").write_text("5")
    options = {"vocab": len(words), "fingerprint": "", "whole": True}
    tokenize_documents(folder, name, TextFile(f"{folder / name}.txt"), words.encode_all, **options)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(json.dumps([peak("small"), peak("medium"), peak("large")]))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path):
    line = " ".join(random.Random(0).choices(["dog", "cat", "owl", "never", "night"], k=200))
    for name, count in {"small": 500, "medium": 5_000, "large": 20_000}.items():
        (tmp_path / f"{name}.txt").write_text(f"{line}\n" * count)
    process = WarmProcess("-c", PEAK, tmp_path)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    _, medium, large = json.loads(output)
    assert large - medium < 40 << 20  # 15 MB more of text
