"""Byte-level BPE: files, ids, rows and masks as ``transformers`` has them."""

import json

import pytest

from regard.core.errors import BadInput
from regard.text.tokenizers.bpe import ByteBPE
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer

transformers = pytest.importorskip("transformers")

CORPUS = (
    "The old sailor mended his nets before the storm came in.",
    "Nobody believed that the lighthouse keeper had a cat which could read.",
    "She counted twelve gulls, three boats and one very small whale.",
)
AWKWARD = ("", " ", "storm", " The  storms\n", "naïve 日本の 🐋!", "don't </s> <mask>", "\u200b")
FILES = {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"}


@pytest.fixture
def folder(tmp_path):
    train_encoder_tokenizer(CORPUS, "byte-bpe", 330, lower=False, longest=64).save(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    return tmp_path


def both(folder):
    ours = EncoderTokenizer.load(folder)
    return ours, transformers.AutoTokenizer.from_pretrained(folder)


def test_it_is_read_and_written(folder, tmp_path_factory):
    ours = EncoderTokenizer.load(folder)
    assert isinstance(ours.family, ByteBPE) and ours.files.keys() == FILES
    for gone in (("vocab.json", "merges.txt"), ("tokenizer.json",)):
        copy = tmp_path_factory.mktemp("copy")
        ours.save(copy)
        for name in gone:
            (copy / name).unlink()
        again = EncoderTokenizer.load(copy)
        assert again.words.encode_all(CORPUS) == ours.words.encode_all(CORPUS)


def test_only_the_version_is_no_merge_of_signs_of_comments(tmp_path):
    """In merges.txt, "# #" makes the headings of Markdown."""
    headings = ["## The storm ## came ### in ### ##"] * 3
    train_encoder_tokenizer(headings, "byte-bpe", 300, lower=False, longest=64).save(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    lines = (tmp_path / "merges.txt").read_text().splitlines()
    assert lines[0].startswith("#version") and "# #" in lines
    (tmp_path / "tokenizer.json").unlink()
    ours, theirs = both(tmp_path)
    ids = ours.words.encode("###")
    assert ids == theirs("###", add_special_tokens=False)["input_ids"] and len(ids) < 3


@pytest.mark.parametrize("spaced", [False, True])
def test_ids_rows_and_offsets(folder, spaced):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "add_prefix_space": spaced}))
    ours, theirs = both(folder)
    assert type(theirs).__name__ == "RobertaTokenizer" and ours.longest == 64
    for text in (*CORPUS, *AWKWARD):
        ids, spans = ours.words.cut(text)
        coded = theirs(text, return_offsets_mapping=True, split_special_tokens=True)
        assert ours.row(ids).tokens.tolist() == coded["input_ids"]
        assert spans == coded["offset_mapping"][1:-1]
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    a, b = (ours.words.encode(text) for text in CORPUS[:2])
    assert ours.row(a, b).tokens.tolist() == theirs(*CORPUS[:2])["input_ids"]


def test_words_are_encoded_as_if_a_space_stood_before_them(folder):
    ours = EncoderTokenizer.load(folder)
    spaced = transformers.AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    words = ["The", "storms", "日本の", "!"]
    row, numbers, first_tokens = ours.template.row_of_words(ours.pieces(words))
    coded = spaced(words, is_split_into_words=True)
    assert row.tokens.tolist() == coded["input_ids"]
    assert numbers == [*range(len(words))]
    assert first_tokens == [coded.word_ids().index(number) for number in numbers]


def test_masks_take_the_space_before_them(folder):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    for token in content["added_tokens"]:
        token["lstrip"] = token["content"] == "<mask>"
    path.write_text(json.dumps(content))
    path = folder / "tokenizer_config.json"
    mask = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "special": True}
    path.write_text(json.dumps({**json.loads(path.read_text()), "mask_token": mask}))
    ours, theirs = both(folder)
    for text in ("The <mask> came in.", "<mask> storm <mask>", "a  <mask><mask>."):
        assert ours.masked(text) == theirs(text, add_special_tokens=False)["input_ids"]


def test_pieces_that_continue_a_word_and_how_they_are_joined(folder):
    ours = EncoderTokenizer.load(folder)
    pieces = ours.words.pieces(range(len(ours.words)))
    assert ours.continues.tolist() == [not piece.startswith("▁") for piece in pieces]
    assert ours.join("The ", "▁storm") + " came" == "The storm came"
    assert ours.join("The storm ", "s") == "The storms" and ours.join("", "▁The") == "The"


def test_a_class_of_no_family(folder):
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BartTokenizer"}')
    with pytest.raises(BadInput, match="the tokenizer_class 'BartTokenizer' is not supported"):
        EncoderTokenizer.load(folder)
    with pytest.raises(BadInput, match="encoders learn wordpiece, byte-bpe or unigram, not"):
        train_encoder_tokenizer(CORPUS, "bpe", 300)


def test_a_tokenizer_as_it_stands(folder):
    ours = EncoderTokenizer.load(folder)
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **ours.names})
    )
    again = EncoderTokenizer.load(folder)
    assert isinstance(again.family, ByteBPE)
    assert again.words.encode_all(AWKWARD) == ours.words.encode_all(AWKWARD)
