"""ALBERT's tokenizer: ids, rows, masks and files as in ``transformers`` and SentencePiece."""

import io
import json
import os
import unicodedata
from pathlib import Path
from random import Random

import numpy as np
import pytest
import sentencepiece

from encoder_family import SENTENCES
from regard.core.errors import BadInput
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer
from regard.text.tokenizers.sentencepiece import read_unigram
from regard.text.tokenizers.unigram import Unigram
from verb import run

transformers = pytest.importorskip("transformers")

CORPUS = (
    *SENTENCES[:3],
    "In 1,234 of 9, and 2019, or 3.5 cases; it cost 1,000 pounds.",
    "''Quoted'' and ``quoted'' \"words\", don't, (brackets) - dashes.",
)
AWKWARD = (
    *("", " ", "a", "  two  spaces\t\n", "naïve Café Ångström", "ﬁne ½ Ⅷ", "``a''", "1,234, 9,"),
    *("日本の 🐋!", "don't </s> [SEP] <unk>", "\u200b", "e\u0301", "ÀÉ", "2019,", "x" * 40, "▁a ▁"),
)
SYMBOLS = ["[MASK]", "(", ")"]


def processor() -> tuple[bytes, sentencepiece.SentencePieceProcessor]:
    """A model in the form of ALBERT's own."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text.lower() for text in CORPUS * 4]),
        model_writer=file,
        vocab_size=150,
        model_type="unigram",
        **{"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
        **{"pad_piece": "<pad>", "bos_piece": "[CLS]", "eos_piece": "[SEP]"},
        user_defined_symbols=SYMBOLS,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    model = file.getvalue()
    return model, sentencepiece.SentencePieceProcessor(model_proto=model)


@pytest.fixture(scope="module")
def pieces():
    return processor()


def reference(pieces, **settings):
    """The tokenizer of ``transformers``, given what is in the file."""
    model, charsmap = read_unigram(pieces[0])
    scores = [
        (text, score - 100.0 * (text[-1:] == "," and text[-2:-1].isdigit()))
        for text, score in model
    ]
    given = {"_spm_precompiled_charsmap": charsmap, "mask_token": "[MASK]", **settings}
    return transformers.AlbertTokenizer(vocab=scores, **given)


def published(text: str, theirs: sentencepiece.SentencePieceProcessor) -> list[int]:
    """The ids of a text by the rules of ALBERT's own code: a number and a comma are cut again."""
    plain = " ".join(text.split()).replace("``", '"').replace("''", '"')
    plain = unicodedata.normalize("NFKD", plain).lower()
    plain = "".join(one for one in plain if not unicodedata.combining(one))
    pieces = []
    for piece in theirs.encode(plain, out_type=str):
        if piece.endswith(",") and piece[-2:-1].isdigit():
            number = theirs.encode(piece[:-1].replace("▁", ""), out_type=str)
            if not piece.startswith("▁"):
                number = [number[0].removeprefix("▁"), *number[1:]]
            pieces += [*filter(None, number), ","]
        else:
            pieces.append(piece)
    return theirs.piece_to_id(pieces)


def test_the_model_is_what_sentencepiece_reads(pieces):
    data, theirs = pieces
    ours, charsmap = read_unigram(data)
    assert [text for text, _ in ours] == [theirs.id_to_piece(i) for i in range(len(ours))]
    scores = [theirs.get_score(i) for i in range(len(ours))]
    np.testing.assert_allclose([score for _, score in ours], scores)
    assert len(ours) == theirs.get_piece_size() and charsmap


@pytest.mark.parametrize("settings", [{}, {"do_lower_case": False}, {"keep_accents": True}])
def test_ids_are_those_of_the_reference(pieces, settings, tmp_path):
    (tmp_path / "spiece.model").write_bytes(pieces[0])
    named = {"tokenizer_class": "AlbertTokenizer", **settings}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
    ours, theirs = EncoderTokenizer.load(tmp_path), reference(pieces, **settings)
    assert isinstance(ours.family, Unigram)
    for text in (*CORPUS, *AWKWARD):
        ids, spans = ours.words.cut(text)
        coded = theirs(text, return_offsets_mapping=True, split_special_tokens=True)
        assert ours.row(ids).tokens.tolist() == coded["input_ids"], text
        assert spans == coded["offset_mapping"][1:-1]
    a, b = ours.words.encode_all(CORPUS[:2])
    row, coded = ours.row(a, b), theirs(*CORPUS[:2], return_token_type_ids=True)
    assert row.tokens.tolist() == coded["input_ids"]
    assert row.segments.tolist() == coded["token_type_ids"]
    for text in ("the [MASK] came", "[MASK]", "a[MASK]b  [MASK]"):
        assert ours.masked(text) == theirs(text, add_special_tokens=False)["input_ids"]


def test_pieces_are_those_of_the_published_code(pieces, tmp_path):
    (tmp_path / "spiece.model").write_bytes(pieces[0])
    ours, theirs = EncoderTokenizer.load(tmp_path), pieces[1]
    for text in (*CORPUS, "Café ``Noir''", "(in 2019), 3(5) (9,", "x9,9 1,234,", ")("):
        assert ours.words.encode(text) == published(text, theirs), text


PARTS = (
    *("1999,", "9,9", "1,234", "in 2019,", "x9,", "9,a", "1,000,000", "storm", "May 5, 1999, a"),
    *("(1,2)", "3.5,", "²,", "½,", "$9,", "-1,", "19 , 99", "1,,2", 'say "hi".', "end. Next", "–"),
)


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="REGARD_DATA names no folder with data")
def test_numbers_and_signs_in_the_published_vocabulary(tmp_path):
    """All but few of many strings of numbers: the penalty of ``Unigram`` cuts 12,100, otherwise."""
    model = (Path(os.environ["REGARD_DATA"]) / "tokenizers/albert.spiece.model").read_bytes()
    (tmp_path / "spiece.model").write_bytes(model)
    ours, theirs = EncoderTokenizer.load(tmp_path), sentencepiece.SentencePieceProcessor()
    theirs.LoadFromSerializedProto(model)
    assert ours.words.pieces(ours.words.encode("In 1999, (3.5)")) == [
        *("▁in", "▁1999", ",", "▁", "(", "3", ".", "5", ")")
    ]
    draw = Random(0)
    texts = [draw.choice(("", " ")).join(draw.choices(PARTS, k=4)) for _ in range(2_500)]
    unlike = [text for text in texts if ours.words.encode(text) != published(text, theirs)]
    assert len(unlike) <= 10, unlike


def test_a_folder_as_published_is_read_and_saved(pieces, tmp_path):
    """tokenizer.json with a table of characters, and a mask that takes the space before it."""
    theirs = reference(pieces, mask_token=transformers.AddedToken("[MASK]", lstrip=True))
    theirs.save_pretrained(tmp_path / "theirs")
    ours = EncoderTokenizer.load(tmp_path / "theirs")
    assert ours.words.strips_left(ours.mask)
    (tmp_path / "ours").mkdir()
    ours.save(tmp_path / "ours")
    (tmp_path / "ours" / "config.json").write_text('{"model_type": "albert"}')
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours", local_files_only=True)
    assert type(again) is transformers.AlbertTokenizer
    for text in (*CORPUS, *AWKWARD):
        expected = theirs(text, split_special_tokens=True)["input_ids"]
        assert ours.row(ours.words.encode(text)).tokens.tolist() == expected, text
        assert again(text, split_special_tokens=True)["input_ids"] == expected
    assert ours.masked("the  [MASK] came") == again("the  [MASK] came")["input_ids"][1:-1]


@pytest.mark.parametrize("lower", [True, False])
def test_a_learned_tokenizer_is_read_by_the_reference(lower, tmp_path):
    ours = train_encoder_tokenizer(CORPUS * 3, "unigram", 140, lower=lower, longest=20)
    again = train_encoder_tokenizer(CORPUS[::-1] * 3, "unigram", 140, lower=lower, longest=20)
    assert ours.words.fingerprint == again.words.fingerprint  # the order does not matter
    assert [
        ours.pad,
        ours.unk,
        ours.template.special["cls"],
        ours.template.special["sep"],
        ours.mask,
    ] == [0, 1, 2, 3, 4]
    ours.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert type(theirs) is transformers.AlbertTokenizer
    loaded = EncoderTokenizer.load(tmp_path)
    for text in (*CORPUS, *AWKWARD):
        expected = theirs(text, split_special_tokens=True)["input_ids"]
        for one in (ours, loaded):
            assert one.row(one.words.encode(text)).tokens.tolist() == expected, text
    ids = ours.words.encode("The old sailor")
    assert [not one.startswith("▁") for one in ours.words.pieces(ids)] == list(ours.continues[ids])
    assert ours.decode(ids) == ("the old sailor" if lower else "The old sailor")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("spiece.model", b"", "not a SentencePiece model"),
        ("spiece.model", b"\xff\xff\xff", "not a SentencePiece model"),
        ("tokenizer.json", b'{"model": {"type": "Unigram", "vocab": {"a": 1}}}', "is not a list"),
        ("tokenizer.json", b'{"model": {"type": "Unigram", "vocab": [["a"]]}}', "is not a list"),
        (
            "tokenizer.json",
            b'{"model": {"type": "Unigram", "vocab": [["a", 0], ["a", 1]]}}',
            "a piece is listed twice",
        ),
        ("tokenizer.json", b'{"model": {"type": "BPE", "vocab": {}}}', "not a Unigram vocabulary"),
    ],
)
def test_bad_files_are_refused_in_one_line(name, content, message, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "AlbertTokenizer"}')
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=message) as caught:
        EncoderTokenizer.load(tmp_path)
    assert name in str(caught.value)


def test_a_conversion_is_checked_without_a_tokenizer_that_the_reference_cannot_read(
    pieces, tmp_path, monkeypatch
):
    def unreadable(*_, **__):
        raise ValueError("`tiktoken`\nis required")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", unreadable)
    sizes = {"hidden_size": 12, "num_attention_heads": 2, "intermediate_size": 8}
    vocab = len(read_unigram(pieces[0])[0])
    config = transformers.AlbertConfig(vocab_size=vocab, embedding_size=5, **sizes)
    transformers.AlbertForMaskedLM(config).save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "spiece.model").write_bytes(pieces[0])
    done = run("convert", tmp_path / "theirs", tmp_path / "ours", "--to", "regard", "--check")
    said = "transformers cannot read the tokenizer (`tiktoken` is required): ids of texts"
    assert said in " ".join(done.stderr.split())
    assert done.stdout.splitlines()[-1].split() == ["ids", "of", "texts", "0", "–"]
    assert (tmp_path / "ours" / "config.json").exists()
