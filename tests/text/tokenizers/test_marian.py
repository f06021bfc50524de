"""Marian vocabularies: the ids of ``transformers``, spans, and files given back as they were."""

import json
import pickle
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marian_folders import CODES, reference_tokenizer, sentences, write_text
from regard.core.errors import BadInput
from regard.text.text_tables import EncoderTextConfig, TranslationTextConfig
from regard.text.tokenizers.marian_spm import FILES, MarianTokenizer, train_marian_tokenizer
from regard.text.tokenizers.translation_tokenizer import (
    TranslationTokenizer,
    train_translation_tokenizer,
)
from regard.text.words import word_spans

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

SPECIAL = ("</s>", "<unk>", "<pad>")
ODD = (
    "",
    " ",
    "\t\n",
    " two  spaces ",
    "ﬁne ½ … e\u0301 é",
    "日本語 한국 😀a😀😀",
    "\u200b zero\u200bwidth \u00ad",
    "nul\x00 \x1b[0m",
    "▁ underline ▁",
    ">>deu<<",
    ">>deu<< The old man",
    ">>deu<<The",
    ">>nosuch<< The",
    " >>deu<< The",
    ">>deu The",
    ">><<",
    ">>fra<< >>deu<< a << b",
    "</ s> < pad >",
)

scraps = (*CODES, " ", "a", "The", "old", "▁", "ﬁ", "…", "é", "日本", "x\u0301", ".", ",", "!")
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.lists(st.sampled_from(scraps), max_size=9).map("".join),
)


@pytest.fixture(scope="module", params=["shared", "separate"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    write_text(folder, separate=request.param == "separate")
    return folder


@pytest.fixture(scope="module")
def text(folder):
    return MarianTokenizer.load(folder)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    write_text(folder)
    return folder


def test_ids_are_those_of_the_reference(folder, text):
    tokenizer = reference_tokenizer(folder)
    pairs = [*sentences()[:40], *((odd, odd) for odd in ODD)]
    for source, target in pairs:
        assert [*text.source.encode(source), text.source.eos] == tokenizer(source).input_ids
        wanted = tokenizer(text_target=target).input_ids
        assert [*text.target.encode(target), text.target.eos] == wanted


@given(texts)
def test_ids_of_any_text(folder, text, given):
    if any(name in given for name in SPECIAL):
        return
    tokenizer = reference_tokenizer(folder)
    assert [*text.source.encode(given), text.source.eos] == tokenizer(given).input_ids
    assert [*text.target.encode(given), text.target.eos] == tokenizer(text_target=given).input_ids


@pytest.mark.parametrize("given", ["a </s> b", "<pad>", "<unk> <unk>", "</s>", ">>deu<< </s>"])
def test_the_names_of_special_tokens_are_text(folder, text, given):
    """As the reference has it when asked to, and never an end in the middle."""
    ids = text.source.encode(given)
    wanted = reference_tokenizer(folder)(given, split_special_tokens=True).input_ids
    assert [*ids, text.source.eos] == wanted
    assert not {text.source.eos, text.source.pad} & set(ids)


def test_texts_are_those_of_the_reference(folder, text):
    tokenizer = reference_tokenizer(folder)
    for source, target in [*sentences()[:40], *((odd, odd) for odd in ODD)]:
        ids = [*text.target.encode(target), text.target.eos]
        assert text.target.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True)
        if not tokenizer.separate_vocabs:  # the reference decodes one vocabulary only
            ids = text.source.encode(source)
            wanted = tokenizer.decode(ids, skip_special_tokens=True, use_source_tokenizer=True)
            assert text.source.decode(ids) == wanted
    assert text.target.decode(text.target.encode(sentences()[0][1])) == sentences()[0][1]


@given(st.lists(st.integers(0, 180), max_size=12))
def test_any_ids_can_be_read(folder, text, ids):
    wanted = reference_tokenizer(folder).decode(ids, skip_special_tokens=True)
    assert text.target.decode(ids) == wanted
    assert len(text.target.pieces(ids)) == len(ids)


def test_ids_that_no_piece_has(text):
    assert text.target.decode([99_999, text.target.eos]) == ""
    assert text.target.pieces([99_999]) == [""]


def test_spaces_are_tidied_if_the_folder_says_so(shared, tmp_path):
    for name in FILES:
        if (shared / name).exists():
            (tmp_path / name).write_bytes((shared / name).read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"clean_up_tokenization_spaces": true}')
    text, tokenizer = MarianTokenizer.load(tmp_path), reference_tokenizer(tmp_path)
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    ids = [vocabulary[piece] for piece in ("▁the", "▁", ".", "▁", ",", "▁to")]
    assert text.target.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True) == "the., to"
    assert MarianTokenizer.load(shared).target.decode(ids) == "the . , to"


@given(texts)
def test_a_segmented_text_has_the_same_ids_and_spans_in_order(text, given):
    cut = text.source.segment(given)
    assert list(cut.ids) == text.source.encode(given)
    assert len(cut.spans) == len(cut.words) == len(cut.ids)
    assert all(0 <= start <= end <= len(given) for start, end in cut.spans)
    assert [span.start for span in cut.spans] == sorted(span.start for span in cut.spans)
    words = len(word_spans(given))
    assert all(word is None or 0 <= word < words for word in cut.words)


def test_spans_are_what_the_pieces_say(text):
    for source, _ in sentences()[:20]:
        cut = text.source.segment(source)
        for piece, (start, end) in zip(text.source.pieces(cut.ids), cut.spans, strict=True):
            assert source[start:end].replace(" ", "▁").lstrip("▁") == piece.lstrip("▁")
        assert "".join(source[start:end] for start, end in cut.spans) == source


def test_a_code_and_a_character_of_several_pieces_have_spans(text):
    given = ">>deu<< The…"
    cut = text.source.segment(given)
    assert text.source.pieces(cut.ids)[0] == given[slice(*cut.spans[0])] == ">>deu<<"
    dots = [given[start:end] for start, end in cut.spans if start >= given.index("…")]
    assert dots == ["…"] * 3


def test_unknown_words_are_named(text):
    given = "The 日本 man"
    assert [given[start:end] for start, end in text.source.unknown(given)] == ["日本"]
    assert text.source.unk in text.source.encode(given)
    assert text.source.unknown("The man") == []
    given = ">>nosuch<< The"
    assert [given[start:end] for start, end in text.source.unknown(given)] == [">>nosuch<<"]


def test_what_a_decoder_begins_with(folder):
    text = MarianTokenizer.load(folder)
    assert text.target.bos == text.target.pad == text.source.pad
    assert MarianTokenizer.load(folder, bos=5).target.bos == 5
    assert text.source.kind == "sentencepiece"


def test_a_vocabulary_can_be_sent_to_another_process(text):
    again = pickle.loads(pickle.dumps(text.source))
    assert again.encode(sentences()[0][0]) == text.source.encode(sentences()[0][0])
    assert again.fingerprint == text.source.fingerprint != text.target.fingerprint
    assert len(again) == len(text.source)
    assert pickle.loads(pickle.dumps(text)).files == text.files


def test_files_are_saved_as_they_were(folder, text, tmp_path):
    train_translation_tokenizer(["a b"], ["a b"], "bpe", 300, joint=True).save(tmp_path)
    text.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in folder.iterdir()}
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    text.source.save(tmp_path / "again.spm")
    assert (tmp_path / "again.spm").read_bytes() == (folder / "source.spm").read_bytes()


def test_another_kind_of_vocabulary_takes_its_place(text, tmp_path):
    text.save(tmp_path)
    train_translation_tokenizer(["a b"], ["a b"], "bpe", 300, joint=True).save(tmp_path)
    assert not (tmp_path / "source.spm").exists()
    assert TranslationTokenizer.load(tmp_path).joint


def test_merges_are_not_dropped(text):
    with pytest.raises(BadInput, match="this one is sentencepiece"):
        text.source.encode_dropped("a", 0.1, (1,))


@pytest.fixture
def copy(shared, tmp_path):
    for path in shared.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def settings(**changes):
    return lambda folder: (folder / "tokenizer_config.json").write_text(json.dumps(changes))


def vocabulary(change):
    def damage(folder):
        found = json.loads((folder / "vocab.json").read_text())
        change(found)
        (folder / "vocab.json").write_text(json.dumps(found))

    return damage


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "target.spm").unlink(), r"needs target\.spm"),
        (lambda folder: (folder / "vocab.json").unlink(), r"needs vocab\.json"),
        (lambda folder: (folder / "source.spm").write_bytes(b"junk"), r"source\.spm: not a Sente"),
        (lambda folder: (folder / "source.spm").write_bytes(b""), r"source\.spm: not a Sentence"),
        (
            lambda folder: (folder / "vocab.json").write_text("[]"),
            r"vocab\.json: not a JSON object",
        ),
        (vocabulary(lambda found: found.pop("<pad>")), r"vocab\.json: has no <pad>"),
        (vocabulary(lambda found: found.update(a="b")), r"vocab\.json: .* must map pieces to ids"),
        (vocabulary(lambda found: found.update(a=-1)), r"vocab\.json: .* must map pieces to ids"),
        (
            vocabulary(lambda found: found.update(a=2**63)),
            r"vocab\.json: .* must map pieces to ids",
        ),
        (settings(separate_vocabs=True), r"target_vocab\.json: cannot be read"),
        (settings(sp_model_kwargs={"nbest_size": 3}), "sp_model_kwargs are not supported"),
        (settings(additional_special_tokens=["<x>"]), r"added tokens are not supported \('<x>'\)"),
        (settings(added_tokens_decoder={"9": {"content": "<y>"}}), r"not supported \('<y>'\)"),
        (settings(extra_special_tokens=7), r"added tokens are not supported \('7'\)"),
        (lambda folder: (folder / "added_tokens.json").write_text('{"<z>": 9}'), r"\('<z>'\)"),
        (settings(unk_token="<none>"), r"vocab\.json: has no <none>"),
    ],
)
def test_what_is_wrong_with_a_folder_is_reported(copy, damage, said):
    damage(copy)
    with pytest.raises(BadInput, match=said) as caught:
        MarianTokenizer.load(copy)
    assert "\n" not in str(caught.value)


def test_both_sides_must_end_alike(folder, tmp_path):
    write_text(tmp_path, separate=True)
    found = json.loads((tmp_path / "target_vocab.json").read_text())
    found["</s>"], found["<unk>"] = found["<unk>"], found["</s>"]
    (tmp_path / "target_vocab.json").write_text(json.dumps(found))
    with pytest.raises(BadInput, match=r"target_vocab\.json: </s> has id 1, but 0 in vocab\.json"):
        MarianTokenizer.load(tmp_path)


def test_special_tokens_are_named_in_either_file(copy):
    properties = {"content": "</s>", "special": True}
    (copy / "tokenizer_config.json").unlink()
    assert MarianTokenizer.load(copy).source.eos == 0
    (copy / "special_tokens_map.json").write_text(json.dumps({"eos_token": properties}))
    assert MarianTokenizer.load(copy).source.eos == 0
    listed = {"0": properties, "1": {"content": "<unk>"}, "9": {"content": "<pad>"}}
    settings(added_tokens_decoder=listed, eos_token=properties)(copy)
    assert MarianTokenizer.load(copy).source.eos == 0


def test_without_the_library_it_says_what_to_install(copy, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(BadInput, match=r"source\.spm: this model needs the library sentencepiece"):
        MarianTokenizer.load(copy)


ENGLISH, GERMAN = (
    ["The old man reads.", "A café, ½ price."],
    ["Der alte Mann liest.", "Ein Café für ½."],
)


def learn(sources=ENGLISH, targets=GERMAN, vocab=60, normalise="nfkc", lower=False):
    return train_marian_tokenizer(sources, targets, vocab=vocab, normalise=normalise, lower=lower)


def test_a_learned_tokenizer_is_the_one_that_is_read(tmp_path):
    learned = learn()
    learned.save(tmp_path)
    again = MarianTokenizer.load(tmp_path)
    reference = reference_tokenizer(tmp_path)
    assert learned.joint and again.joint and again.files == learned.files
    assert again.source.fingerprint == learned.source.fingerprint
    for text in (*ENGLISH, *GERMAN, *ODD):
        ids = learned.source.encode(text)
        assert ids == again.source.encode(text) == reference(text).input_ids[:-1]
        assert learned.target.decode(ids) == reference.decode(ids, skip_special_tokens=True)


def test_learning_does_not_depend_on_the_order_of_texts():
    assert learn().files == learn(ENGLISH[::-1], GERMAN[::-1]).files == learn(GERMAN, ENGLISH).files


def test_every_character_of_the_texts_has_a_piece():
    learned = learn()
    for text in (*ENGLISH, *GERMAN):
        assert not learned.source.unknown(text)
        assert learned.source.decode(learned.source.encode(text)) == text.replace("½", "1⁄2")
    assert learned.source.unknown("The 日本 man") == [(4, 6)]


def test_the_size_is_a_limit():
    texts = [*zip(*sentences(), strict=True)]
    assert len(learn(*texts, vocab=150).source) == 150
    assert len(learn(*texts, vocab=10_000).source) < 2_000
    for vocab in (1, 2, 12):
        small = f"text.vocab: a vocabulary of {vocab} is too small for the characters"
        with pytest.raises(BadInput, match=small) as refused:
            learn(vocab=vocab)
        least = int(re.findall(r"write (\d+) or more", str(refused.value))[0])
        assert len(learn(vocab=least).source) <= least


def test_normalisation_is_part_of_the_model():
    plain, lower = learn(normalise="none").source, learn(lower=True).source
    assert plain.decode(plain.encode("½ Café")) == "½ Café"
    assert lower.decode(lower.encode("Der CAFÉ")) == "der café"


def test_without_texts():
    with pytest.raises(BadInput, match="no text to learn"):
        learn(["", " "], [""])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"joint": False}, "needs joint = true"),
        ({"normalise": "nfc"}, 'needs normalise = "nfkc", or "none" without lower'),
        ({"normalise": "none", "lower": True}, "without lower"),
        ({"dropout": 0.1}, "needs a BPE vocabulary"),
    ],
)
def test_keys_that_do_not_fit(keys, message):
    with pytest.raises(ValueError, match=message):
        TranslationTextConfig(kind="sentencepiece", **keys)


def test_the_default_normalisation_is_that_of_the_kind():
    assert TranslationTextConfig(kind="sentencepiece").normalise == "nfkc"
    assert TranslationTextConfig().normalise == "nfc"
    with pytest.raises(ValueError, match="no kind 'sentencepiece'"):
        EncoderTextConfig(kind="sentencepiece")
