"""T5's tokenizer: ids, rows, sentinels and files as in ``transformers`` and SentencePiece."""

import io
import json
import pickle

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from encoder_family import SENTENCES
from regard.core.errors import BadInput
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer
from regard.text.tokenizers.list import TOKENIZERS
from regard.text.tokenizers.sentencepiece import read_unigram
from regard.text.tokenizers.t5 import T5Tokenizer, load_t5_tokenizer
from regard.text.tokenizers.unigram import T5Unigram

transformers = pytest.importorskip("transformers")
from transformers.convert_slow_tokenizer import T5Converter  # noqa: E402

CORPUS = (
    *SENTENCES[:3],
    "In 1,234 of 9, and 2019, or 3.5 cases; it cost 1,000 pounds.",
    "translate English to German: ''Quoted'' and ``quoted'' \"words\", don't, (brackets) - dashes.",
)
AWKWARD = (
    *("", " ", "a", "  two  spaces\t\n", "naïve Café Ångström", "ﬁne ½ Ⅷ", "``a''", "1,234, 9,"),
    *(
        "日本の 🐋!",
        "\u200b",
        "e\u0301",
        "ÀÉ",
        "2019,",
        "x" * 40,
        "▁a ▁",
        "\u00a0a\u3000b",
        "a\u2581b",
    ),
    *("<extra_id_0>", "a <extra_id_0> b<extra_id_1>c  <extra_id_99>", "<extra_id_0><extra_id_1>"),
    *("<extra_id_100> <extra_id_01> <extra_id_-1>", " <extra_id_7> ", "<EXTRA_ID_0>"),
)


KINDS = ("old", "new", "both", "fast")


def trained(size: int = 150, **settings) -> bytes:
    """A SentencePiece model in the form of T5's own."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 4),
        model_writer=file,
        vocab_size=size,
        model_type="unigram",
        **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
        hard_vocab_limit=False,
        minloglevel=2,
        **settings,
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def model():
    return trained()


def reference(model: bytes, **settings):
    """The tokenizer of ``transformers``, given what is in the file."""
    vocab, charsmap = read_unigram(model)
    settings = {"vocab": vocab, "_spm_precompiled_charsmap": charsmap, **settings}
    return transformers.T5Tokenizer(**T5Converter.convert_from_spm(**settings))


@pytest.fixture(scope="module")
def folders(model, tmp_path_factory):
    """Folders as published in 2019 (spiece.model), today (tokenizer.json), and with both.

    The class of the last reads tokenizer.json as it is.
    """
    old, new, both, fast = (tmp_path_factory.mktemp(name) for name in KINDS)
    (old / "spiece.model").write_bytes(model)
    reference(model).save_pretrained(new)
    reference(model).save_pretrained(both)
    (both / "spiece.model").write_bytes(trained(120))  # it is not read
    reference(model).save_pretrained(fast)
    settings = json.loads((fast / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    (fast / "tokenizer_config.json").write_text(json.dumps(settings))
    return dict(zip(KINDS, (old, new, both, fast), strict=True))


@pytest.fixture(params=KINDS)
def folder(request, folders):
    return folders[request.param]


def test_ids_are_those_of_the_reference(folder, model):
    ours, theirs = T5Tokenizer.load(folder), reference(model)
    assert len(ours.source) == len(theirs)
    texts = [*CORPUS, *AWKWARD]
    expected = [theirs(text)["input_ids"] for text in texts]
    assert [[*ids, ours.source.eos] for ids in ours.source.encode_all(texts)] == expected
    for text, ids in zip(texts, expected, strict=True):
        assert ours.encoder.row(ours.source.encode(text)).tokens.tolist() == ids, text
        assert list(ours.source.segment(text).ids) == ids[:-1]
        sentinels = {*ours.source.sentinels}
        plain = [i for i in ids if i not in sentinels]
        assert ours.target.decode(plain) == theirs.decode(plain, skip_special_tokens=True)
    pair = theirs("The fox", "a dog")["input_ids"]
    a, b = ours.source.encode_all(["The fox", "a dog"])
    assert ours.encoder.row(a, b).tokens.tolist() == pair
    split = theirs("<pad> a </s> <unk>", split_special_tokens=True)["input_ids"]
    assert [*ours.source.encode("<pad> a </s> <unk>"), 1] == split


@given(st.text(max_size=30))
def test_ids_of_any_text(folders, model, text):
    if any(name in text for name in ("<pad>", "</s>", "<unk>")):
        return
    ours, theirs = (cached(folders, model, name) for name in ("ours", "theirs"))
    assert [*ours.source.encode(text), 1] == theirs(text)["input_ids"]


_CACHE: dict[str, object] = {}


def cached(folders, model, name):
    if not _CACHE:
        _CACHE.update(ours=T5Tokenizer.load(folders["old"]), theirs=reference(model))
    return _CACHE[name]


def test_special_ids_and_sentinels(folder):
    ours = T5Tokenizer.load(folder)
    words = ours.target
    assert (words.pad, words.bos, words.eos, words.unk) == (0, 0, 1, 2)
    last = len(words) - 1
    assert words.sentinels == [*range(last, last - 100, -1)]
    assert words.pieces(words.sentinels[:2]) == ["<extra_id_0>", "<extra_id_1>"]
    assert ours.joint and ours.sizes == {"source.vocab": len(words), "target.vocab": len(words)}
    assert ours.special_ids == {"pad_token": 0, "eos_token": 1, "decoder_start_token": 0}
    ids = [0, words.sentinels[0], *words.encode("the dog"), words.sentinels[1], 1]
    assert words.decode(ids) == "<extra_id_0> the dog<extra_id_1>"
    assert words.decode([0, 0, 1]) == ""


def test_folders_are_saved_byte_for_byte(folder, tmp_path):
    ours = T5Tokenizer.load(folder)
    ours.save(tmp_path)
    known = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == known
    again = TOKENIZERS["t5"].load(tmp_path)
    assert again.source.fingerprint == ours.source.fingerprint
    copy = pickle.loads(pickle.dumps(ours))
    assert copy.joint and copy.target.bos == 0
    assert copy.source.encode("a <extra_id_5>") == ours.source.encode("a <extra_id_5>")


def test_an_encoder_alone_reads_texts_and_eos(folders):
    encoder = EncoderTokenizer.load(folders["old"], T5Unigram())
    ours = T5Tokenizer.load(folders["old"])
    assert encoder == ours.of_side("source") or encoder.files == ours.of_side("source").files
    (row,) = encoder.rows(["The fox"])
    assert row.tokens.tolist() == [*encoder.words.encode("The fox"), 1]
    (short,) = encoder.rows(["The fox and the dog"], max_length=3)
    assert len(short.tokens) == 3 and short.tokens[-1] == 1
    assert encoder.template.template.summary is None


@pytest.mark.parametrize("space", ["", "▁"])
def test_a_vocabulary_may_have_its_own_sentinels(space, tmp_path):
    """mT5's model has them, and no others are added (``extra_ids`` is 0)."""
    names = [f"{space}<extra_id_{number}>" for number in reversed(range(100))]
    data = trained(250, user_defined_symbols=names)
    (tmp_path / "spiece.model").write_bytes(data)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 0}))
    added = [transformers.AddedToken(name, normalized=False, special=False) for name in names]
    theirs = reference(data, extra_ids=0, additional_special_tokens=added)
    ours = T5Tokenizer.load(tmp_path)
    pieces = [text for text, _ in read_unigram(data)[0]]
    assert len(ours.source) == len(theirs) == len(pieces)
    assert ours.source.sentinels == [pieces.index(name) for name in reversed(names)]
    text = "the <extra_id_0> dog <extra_id_1>"
    ids = ours.source.encode(text)
    assert [i for i in ids if i in ours.source.sentinels] == ours.source.sentinels[:2]
    assert [*ids, 1] == theirs(text)["input_ids"]
    assert ours.target.decode(ids) == theirs.decode(ids)


def test_fewer_sentinels(model, tmp_path):
    (tmp_path / "spiece.model").write_bytes(model)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 3}))
    ours, theirs = T5Tokenizer.load(tmp_path), reference(model, extra_ids=3)
    assert len(ours.source) == len(theirs) and len(ours.source.sentinels) == 3
    text = "a <extra_id_2> b <extra_id_3>"
    assert [*ours.source.encode(text), 1] == theirs(text)["input_ids"]


def test_a_learned_tokenizer_is_read_by_the_reference(tmp_path):
    learned = train_encoder_tokenizer(CORPUS * 4, "t5-unigram", 220, lower=False, longest=None)
    ours = T5Tokenizer.of(learned)
    assert len(ours.source) <= 220 and len(ours.source.sentinels) == 100
    assert ours.source.sentinels[0] == len(ours.source) - 1
    ours.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(theirs, transformers.T5Tokenizer)
    for text in (*CORPUS, *AWKWARD):
        assert [*ours.source.encode(text), 1] == theirs(text)["input_ids"], text
    assert T5Tokenizer.load(tmp_path).source.fingerprint == ours.source.fingerprint
    label = ours.label("the dog", "a <extra_id_0>")
    assert np.array_equal(label["source"].row.tokens, [*ours.source.encode("the dog"), 1])


def test_config_names_the_first_input_of_the_decoder(folder):
    keys = {"decoder_start_token_id": 3, "eos_token_id": 1}
    assert load_t5_tokenizer(folder, keys).target.bos == 3
    assert load_t5_tokenizer(folder, {"decoder_start_token_id": None}).target.bos == 0
    with pytest.raises(BadInput, match=r"decoder_start_token_id must be a token id, not 'x'"):
        load_t5_tokenizer(folder, {"decoder_start_token_id": "x"})
    with pytest.raises(BadInput, match=r"eos_token_id is 5, but the vocabulary has 1"):
        load_t5_tokenizer(folder, {"eos_token_id": 5})


def test_folders_that_do_not_fit_are_refused(model, tmp_path):
    assert load_t5_tokenizer(tmp_path, {}) is None
    with pytest.raises(BadInput, match=r"has neither tokenizer.json nor spiece.model"):
        T5Tokenizer.load(tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"no model")
    with pytest.raises(BadInput, match=r"spiece.model: not a SentencePiece model"):
        load_t5_tokenizer(tmp_path, {})
    (tmp_path / "spiece.model").write_bytes(model)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": -1}))
    with pytest.raises(BadInput, match=r"extra_ids must be from 0 to 100, not -1"):
        load_t5_tokenizer(tmp_path, {})
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLNetTokenizer"}')
    with pytest.raises(BadInput, match=r"T5Tokenizer|has no <s>|has no <cls>"):
        load_t5_tokenizer(tmp_path, {})
