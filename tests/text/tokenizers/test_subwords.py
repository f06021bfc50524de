"""Raw text in, the same text out; pieces, spans and words; files."""

import copy
import json
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from regard.core.errors import BadInput, DataWarning
from regard.text.tokenizers.plain_tokenizer import train_subwords
from regard.text.tokenizers.subwords import ShortWords, Subwords
from regard.text.words import word_spans

CHARACTERS = st.characters(exclude_categories=["Cs"])  # surrogates are no text
SPACES = ("  ", "\n", "\r\n", "\t", "\0", "\u00a0", "\u3000", "\u200d")
MARKS = ("▁", "Ġ", "##", "'", "<s>", "</s>", "<pad>", "<unk>", "<0x41>", "[UNK]", "\ufffd")
ACCENTS = ("e\u0301", "\u0301", "a\u0315\u0300b", "\u1112\u1161\u11ab", "क्षि", "İ")
OTHERS = (" the", "storm", "日本", "ﬁ", "ß", "12", "१२")
AWKWARD = st.sampled_from(SPACES + MARKS + ACCENTS + OTHERS)
TEXTS = st.one_of(st.text(CHARACTERS), st.lists(AWKWARD | st.text(CHARACTERS)).map("".join))


@given(TEXTS)
@example("")
@example(" ")
@example("  the  storm \n\n ")
@example("▁the▁storm ▁ Ġthe")
@example("</s> <s>the<unk> <0x41>")
@settings(deadline=None, max_examples=150)
def test_every_text_comes_back(bytesafe: Subwords, text: str) -> None:
    ids = bytesafe.encode(text)
    assert bytesafe.decode(ids) == bytesafe.normalise(text)
    assert not set(ids) & {0, 1, 2, 3}
    assert bytesafe.unknown(text) == []


USED = 0x32000  # characters beyond are unassigned, marks of variants or private


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_every_character_comes_back(bytesafe: Subwords, step: int) -> None:
    """All that are used, and one of ``step`` others, which are bytes to every vocabulary."""
    codes = (*range(0xD800), *range(0xE000, USED), *range(USED, 0x110000, step))
    characters = [chr(code) for code in codes]
    texts = ["".join(characters[i : i + 512]) for i in range(0, len(characters), 512)]
    for text, ids in zip(texts, bytesafe.encode_all(texts), strict=True):
        assert bytesafe.decode(ids) == bytesafe.normalise(text)


@given(TEXTS)
@settings(deadline=None)
def test_without_normalisation_every_text_comes_back_untouched(plain: Subwords, text: str) -> None:
    assert plain.decode(plain.encode(text)) == text == plain.normalise(text)


@pytest.fixture(scope="module", params=["bpe", "byte-bpe", "unigram"])
def plain(request: pytest.FixtureRequest, english: tuple[str, ...]) -> Subwords:
    return train_subwords(english, request.param, 330, normalise="none")


def test_special_tokens_are_left_out_of_text(subwords: Subwords) -> None:
    ids = [subwords.bos, *subwords.encode("the storm"), subwords.eos, subwords.pad, subwords.pad]
    assert subwords.decode(ids) == "the storm"


def test_special_tokens_in_a_text_are_text(subwords: Subwords) -> None:
    ids = subwords.encode("the </s> <pad> <s> storm")
    assert not set(ids) & {subwords.pad, subwords.bos, subwords.eos}


def test_many_texts_at_once(subwords: Subwords, english: tuple[str, ...]) -> None:
    assert subwords.encode_all(iter(english)) == [subwords.encode(text) for text in english]
    assert subwords.encode_all([]) == []


def test_pieces_are_readable(bytesafe: Subwords) -> None:
    def pieces(text: str) -> list[str]:
        return bytesafe.pieces(bytesafe.encode(text))

    assert "".join(pieces("the cat zählte")) == "▁the▁cat▁zählte"
    assert pieces("日") == ["▁", "<0xE6>", "<0x97>", "<0xA5>"]
    assert bytesafe.kind != "byte-bpe" or pieces("\t\n") == ["▁", "⇥", "⏎"]


@given(TEXTS)
@settings(deadline=None, max_examples=80)
def test_spans_cover_the_text_in_order(subwords: Subwords, text: str) -> None:
    cut = subwords.segment(text)
    assert list(cut.ids) == subwords.encode(text)
    assert len(cut.ids) == len(cut.spans) == len(cut.words)
    assert all(0 <= start <= end <= len(text) for start, end in cut.spans)
    assert [span.start for span in cut.spans] == sorted(span.start for span in cut.spans)
    covered = {at for start, end in cut.spans for at in range(start, end)}
    assert all(at in covered for at, character in enumerate(text) if not character.isspace())


@pytest.mark.thinned
@given(TEXTS)
@settings(deadline=None, max_examples=80)
def test_every_piece_of_a_word_knows_its_word(subwords: Subwords, text: str) -> None:
    words, cut = word_spans(text), subwords.segment(text)
    for span, word in zip(cut.spans, cut.words, strict=True):
        touched = [
            i for i, (start, end) in enumerate(words) if max(start, span.start) < min(end, span.end)
        ]
        assert word == (touched[0] if touched else None)
    assert {i for i in cut.words if i is not None} <= set(range(len(words)))


def test_spans_and_words_of_a_sentence(subwords: Subwords) -> None:
    text = "The  keeper's boat."
    cut = subwords.segment(text)
    pieces = list(zip(cut.spans, cut.words, strict=True))
    covered = ["".join(text[a:b] for (a, b), word in pieces if word == i) for i in range(4)]
    assert [word.strip() for word in covered] == ["The", "keeper's", "boat", "."]


def test_a_melted_accent_belongs_to_its_letter(subwords: Subwords) -> None:
    assert subwords.segment("a\u0308 o\u0308").spans[-1].end == 5
    assert subwords.segment("a\u0308o").spans[-2:] in (((0, 2), (2, 3)), ((0, 0), (0, 3)))


def test_the_space_put_before_a_text_covers_nothing(bytesafe: Subwords) -> None:
    cut = bytesafe.segment("日")
    assert cut.spans == ((0, 0), (0, 1), (0, 1), (0, 1))
    assert cut.words == (None, 0, 0, 0)


def test_wordpiece_names_what_it_does_not_know(wordpiece: Subwords) -> None:
    text = "the storm, the ключ and 日本! the sailor's λ-storm"
    assert [text[a:b] for a, b in wordpiece.unknown(text)] == ["ключ", *"日本!", "λ-storm"]
    assert wordpiece.unknown("the storm") == []
    assert wordpiece.unk in wordpiece.encode("ключ")


def test_wordpiece_names_words_too_long_for_it(wordpiece: Subwords) -> None:
    assert wordpiece.unknown("the " + 101 * "s") == [(4, 105)]


@pytest.mark.parametrize(
    "text",
    [
        "The keeper's cat (singing) counted 12 gulls, 3 boats.",
        "3.5 storms; 7:45... one-two",
        "日本",
    ],
)
def test_wordpiece_puts_spaces_where_texts_have_them(text: str) -> None:
    trained = train_subwords([text, text], "wordpiece", 200)
    assert trained.decode(trained.encode(text)) == text


def test_a_saved_vocabulary_is_the_same(subwords: Subwords, tmp_path: Path) -> None:
    subwords.save(tmp_path / "tokenizer.json")
    again = Subwords.load(tmp_path / "tokenizer.json")
    text = "</s> the storm, zählte ▁ 日"
    assert again.encode(text) == subwords.encode(text)
    assert again.decode(again.encode(text)) == subwords.decode(subwords.encode(text))
    assert (again.fingerprint, again.kind, len(again)) == (
        subwords.fingerprint,
        subwords.kind,
        len(subwords),
    )


def test_copies_still_take_text_for_text(bytesafe: Subwords) -> None:
    for again in (copy.deepcopy(bytesafe), pickle.loads(pickle.dumps(bytesafe))):
        assert again.encode("a </s>") == bytesafe.encode("a </s>")
        assert again.fingerprint == bytesafe.fingerprint


def test_transformers_reads_the_file(subwords: Subwords, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    subwords.save(tmp_path / "tokenizer.json")
    reader = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    text = "The storm  came ▁ to 12 boats."
    assert reader(text)["input_ids"] == subwords.encode(text)
    ids = [subwords.bos, *subwords.encode(text), subwords.eos]
    assert reader.decode(ids, skip_special_tokens=True) == subwords.decode(ids)


def test_fingerprints_tell_vocabularies_apart(
    vocabularies: dict[str, Subwords], english: tuple[str, ...]
) -> None:
    names = {v.fingerprint for v in vocabularies.values()}
    names |= {
        train_subwords(english, "bpe", 330, lower=lower).fingerprint for lower in (False, True)
    }
    assert len(names) == len(vocabularies) + 2


@pytest.mark.parametrize("content", [b"", b"{}", b'{"model": ', b"\xff\xfe", b'{"version": "1.0"}'])
def test_a_broken_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"tokenizer\.json: not a tokenizer") as caught:
        Subwords.load(path)
    assert "\n" not in str(caught.value)


def renumbered(subwords: Subwords, path: Path, **ids: int) -> Path:
    """The same vocabulary with other ids for some pieces."""
    subwords.save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    for token in content["added_tokens"]:
        token["id"] = ids.get(token["content"], token["id"])
    content["model"]["vocab"] |= ids
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("number", [10**9, 2**32, 2**70, -1, True, 1.0, "1", None])
def test_ids_that_none_has_are_refused_before_the_library_reads_them(
    vocabularies: dict[str, Subwords], tmp_path: Path, number: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would allocate memory by the largest id."""
    forbidden = "regard.text.tokenizers.subwords._parse"
    monkeypatch.setattr(forbidden, lambda content: pytest.fail("the library read it"))
    for kind in ("bpe", "wordpiece"):
        path = renumbered(vocabularies[kind], tmp_path / "tokenizer.json", e=number)
        with pytest.raises(BadInput, match=r"tokenizer\.json: .*must map pieces to ids"):
            Subwords.load(path)


def test_pieces_of_the_same_id_are_refused(
    vocabularies: dict[str, Subwords], tmp_path: Path
) -> None:
    bpe = vocabularies["bpe"]
    path = renumbered(bpe, tmp_path / "tokenizer.json", e=bpe.number("t"))
    with pytest.raises(BadInput, match="have the same id"):
        Subwords.load(path)


def test_an_id_that_is_left_out_counts(vocabularies: dict[str, Subwords], tmp_path: Path) -> None:
    bpe = vocabularies["bpe"]
    path = renumbered(bpe, tmp_path / "tokenizer.json", e=len(bpe) + 5)
    again = Subwords.load(path)
    assert len(again) == len(bpe) + 6
    assert again.pieces([len(bpe) + 5, bpe.number("e")]) == ["e", ""]


def test_added_tokens_have_the_ids_they_say(
    vocabularies: dict[str, Subwords], tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    vocabularies["bpe"].save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["added_tokens"][2]["id"] = 77
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(BadInput, match=r"'</s>' has the id 77, but the library assigns 2"):
        Subwords.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.json: cannot be read \(No such file"):
        Subwords.load(tmp_path / "nowhere.json")


def test_vocabularies_of_others(tmp_path: Path) -> None:
    """A BERT-like file: other special names, padding and truncation switched on, no <s>."""
    vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "storm": 4, "##s": 5}
    other = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    other.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    other.enable_padding(length=9)
    other.enable_truncation(1)
    other.save(str(tmp_path / "tokenizer.json"))
    subwords = Subwords.load(tmp_path / "tokenizer.json")
    assert (subwords.pad, subwords.unk, subwords.bos, subwords.eos) == (0, 1, 2, 3)
    assert subwords.encode("storms storm") == [4, 5, 4]
    assert subwords.normalise("Storms") == "Storms"


def test_a_token_that_is_not_there_is_named(tmp_path: Path) -> None:
    subwords = Subwords(Tokenizer(models.BPE({"a": 0}, [])))
    assert subwords.unknown("a") == []
    with pytest.raises(BadInput, match="<pad>"):
        _ = subwords.pad


def test_the_file_is_plain_json(bytesafe: Subwords, tmp_path: Path) -> None:
    bytesafe.save(tmp_path / "tokenizer.json")
    content = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert [t["content"] for t in content["added_tokens"]] == ["<pad>", "<s>", "</s>", "<unk>"]


def test_the_library_draws_no_bar_of_its_own(monkeypatch):
    """Progress is an event for whoever listens: see tests/core/test_progress.py."""
    shown, trainer = [], trainers.BpeTrainer

    def noted(**settings):
        shown.append(settings["show_progress"])
        return trainer(**settings)

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(trainers, "BpeTrainer", noted)
    train_subwords(["the cat sat on the mat"], "bpe", 300)
    assert shown and not any(shown)


LONG = "ab" * 100_000


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "wordpiece"])
def test_long_words_are_cut_for_learning_and_said(kind):
    """Of 200,000 letters, each of the first merges would take seconds."""
    texts = ["the cat sat", f"the {LONG} mat", "x" + " " * 5_000 + "y"] * 2
    remark = r"data\.train: 4 words of more than 2,000 characters were cut .* \(.* has 200,000\)"
    with pytest.warns(DataWarning, match=remark):
        words = train_subwords(texts, kind, 400)
    assert words.decode(words.encode("the cat sat")) == "the cat sat"


RUNS = st.sampled_from(["a" * 1_999, "b" * 2_001, " ", "\n" * 3_000, "c" * 9_000])


@given(st.lists(RUNS, max_size=5))
def test_short_words_are_the_text_in_parts(parts):
    text, short = "".join(parts), ShortWords(["".join(parts)])
    cut = [*short]
    assert "".join(cut) == text
    assert all(len(run) <= 2_000 for part in cut for run in re.findall(r"\S+|\s+", part))
    long = [run for run in re.findall(r"\S+|\s+", text) if len(run) > 2_000]
    assert (short.long_words, short.longest) == (len(long), max(map(len, long), default=0))
    if not long:
        assert cut == [text]
