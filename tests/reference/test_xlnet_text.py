"""XLNet's tokenizer: ids, rows, masks and files as in ``transformers`` and SentencePiece."""

import io
import json

import pytest
import sentencepiece

from encoder_family import SENTENCES
from regard.models.papers import xlnet
from regard.text.tokenizers import family_of_kind
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer
from regard.text.tokenizers.sentencepiece import read_unigram
from regard.text.tokenizers.unigram import XLNetUnigram
from regard.text.tokenizers.wordpiece import XLNetWordPiece

transformers = pytest.importorskip("transformers")

CORPUS = (
    *SENTENCES[:3],
    "In 1,234 of 9, and 2019, or 3.5 cases; it cost 1,000 pounds.",
    "''Quoted'' and ``quoted'' \"words\", don't, (brackets) - dashes.",
)
AWKWARD = (
    *("", " ", "a", "  two  spaces\t\n", "naïve Café Ångström", "ﬁne ½ Ⅷ", "``a''", "1,234, 9,"),
    *("日本の 🐋!", "don't </s> <sep> <unk> <eod>", "\u200b", "e\u0301", "ÀÉ", "2019,", "▁a ▁"),
)
CONTROL = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"]
WHOLE = ["<eop>", ".", "(", ")"]


@pytest.fixture(scope="module")
def model():
    """A model made as the paper's own: control symbols, and symbols that are never cut."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 4),
        model_writer=file,
        vocab_size=150,
        model_type="unigram",
        control_symbols=CONTROL,
        user_defined_symbols=WHOLE,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return file.getvalue()


def reference(model, **settings):
    """The tokenizer of ``transformers``, given what is in the file."""
    pieces, charsmap = read_unigram(model)
    scores = [
        (text, score - 100.0 * (text[-1:] == "," and text[-2:-1].isdigit()))
        for text, score in pieces
    ]
    return transformers.XLNetTokenizer(vocab=scores, _spm_precompiled_charsmap=charsmap, **settings)


def check_same(ours, theirs):
    for text in (*CORPUS, *AWKWARD):
        ids, spans = ours.words.cut(text)
        options = {"return_offsets_mapping": True, "return_token_type_ids": True}
        coded = theirs(text, split_special_tokens=True, **options)
        row = ours.row(ids)
        assert row.tokens.tolist() == coded["input_ids"], text
        assert row.segments.tolist() == coded["token_type_ids"]
        assert spans == coded["offset_mapping"][:-2]
    a, b = ours.words.encode_all(CORPUS[:2])
    row, coded = ours.row(a, b), theirs(*CORPUS[:2], return_token_type_ids=True)
    assert (
        row.tokens.tolist() == coded["input_ids"] and row.tokens[-1] == ours.template.special["cls"]
    )
    assert row.segments.tolist() == coded["token_type_ids"] and row.segments[-1] == 2
    for text in ("the <mask> came", "<mask>", "a<mask>b  <mask>"):
        assert ours.masked(text) == theirs(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("settings", [{}, {"do_lower_case": True}])
def test_ids_are_those_of_the_reference(model, settings, tmp_path):
    (tmp_path / "spiece.model").write_bytes(model)
    named = {"tokenizer_class": "XLNetTokenizer", **settings}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
    ours = EncoderTokenizer.load(tmp_path)
    assert isinstance(ours.family, XLNetUnigram)
    check_same(ours, reference(model, **settings))


def test_a_folder_that_names_no_class_is_read_for_its_model(model, tmp_path):
    (tmp_path / "spiece.model").write_bytes(model)
    check_same(xlnet.HF.load_tokenizer(tmp_path, {}), reference(model))


def test_a_folder_as_published_is_read_and_saved(model, tmp_path):
    theirs = reference(model)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = EncoderTokenizer.load(tmp_path / "theirs")
    check_same(ours, theirs)
    (tmp_path / "ours").mkdir()
    ours.save(tmp_path / "ours")
    (tmp_path / "ours" / "config.json").write_text('{"model_type": "xlnet"}')
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours", local_files_only=True)
    assert type(again) is transformers.XLNetTokenizer and again.padding_side == "left"
    check_same(ours, again)


def test_a_tokenizer_as_it_stands(model, tmp_path):
    reference(model).save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | {"tokenizer_class": "TokenizersBackend"}
    path.write_text(json.dumps(settings))
    ours = xlnet.HF.load_tokenizer(tmp_path, {})
    assert isinstance(ours.family, XLNetUnigram)
    check_same(ours, reference(model))


@pytest.mark.parametrize("lower", [True, False])
def test_a_learned_tokenizer_is_read_by_the_reference(lower, tmp_path):
    ours = train_encoder_tokenizer(CORPUS * 3, "xlnet-unigram", 140, lower=lower, longest=20)
    assert ours.words.pieces(range(4)) == ["<unk>", "<s>", "</s>", "<cls>"]
    ours.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert type(theirs) is transformers.XLNetTokenizer and len(theirs) == len(ours.words)
    check_same(ours, theirs)
    check_same(EncoderTokenizer.load(tmp_path), theirs)


def test_other_pieces_in_the_rows_of_xlnet(tmp_path):
    assert family_of_kind("wordpiece", "xlnet-unigram") == "xlnet-wordpiece"
    assert family_of_kind("unigram", "xlnet-unigram") == family_of_kind(None, "xlnet-unigram")
    assert family_of_kind("wordpiece", "byte-bpe") == "wordpiece"
    of_bert = train_encoder_tokenizer(CORPUS * 3, "wordpiece", 140, longest=20)
    ours = train_encoder_tokenizer(CORPUS * 3, "xlnet-wordpiece", 140, longest=20)
    assert ours.words.fingerprint == of_bert.words.fingerprint
    assert [*ours.row([9], [8]).tokens] == [
        9,
        ours.template.special["sep"],
        8,
        ours.template.special["sep"],
        ours.template.special["cls"],
    ]
    ours.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    read = EncoderTokenizer.load(tmp_path)
    assert isinstance(read.family, XLNetWordPiece) and read.longest == 20
    for text in AWKWARD:
        ids = read.words.encode(text)
        assert theirs(text).input_ids == [*read.row(ids).tokens]
        assert theirs(text, "a").input_ids == [*read.row(ids, read.words.encode("a")).tokens]
