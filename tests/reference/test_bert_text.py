"""F9: texts become what ``transformers`` makes of them, from the same folder."""

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer

transformers = pytest.importorskip("transformers")

CORPUS = (
    "The old sailor mended his nets before the storm came in, unbelievably slowly.",
    "Nobody believed that the lighthouse keeper's cat could read: Überraschung!",
    "She counted 12 gulls, 3 boats and one very small whale; naïve café résumé.",
    "日本 の 猫 は 小さい 。 猫 は 日本 で 読む 。",
    "Singing sailors sing; the storm is storming, the nets are netted, readers read reading.",
)
AWKWARD = (
    "",
    " \t\n ",
    "The STORM came in.",
    "Ünbelievable naïve cafe\u0301 RE\u0301SUME\u0301 İstanbul ß ﬁ",
    "日本の猫 reads小さいbooks。",
    "emoji 🙂👩‍👩‍👧 and 🇩🇪 flags",
    "control\x00 \x01characters\x7f \u200bzero\u200dwidth \ufffd\u00ad soft",
    "spaces\u00a0of\u3000every\u2028kind\u2029here\x85there",
    "a" * 99 + " " + "a" * 100 + " " + "a" * 101 + " " + "storm" * 60,
    "don't stop--believing... (well) $3.50 ^`~+<=>|",
    "## ##a a##b #",
    "ひらがな カタカナ 한국어 русский العربية हिन्दी",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U00020000\U0002b740 ½ ² Ⅷ",
    "\u0301 \u0301a a\u0315\u0300b",
)
SPECIAL = "the [SEP] storm[MASK] [CLS] [PAD] [UNK] ##s [mask]"


def write(folder: Path, **settings) -> Path:
    """A vocabulary with its configuration, and config.json as a model's folder has it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = train_encoder_tokenizer(
        CORPUS, "wordpiece", 260, lower=settings.get("do_lower_case", True)
    )
    (folder / "vocab.txt").write_bytes(text.files["vocab.txt"])
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return with_model(folder)


def with_model(folder: Path) -> Path:
    (folder / "config.json").write_text('{"model_type": "bert"}')
    return folder


def both(folder: Path):
    ours = EncoderTokenizer.load(folder)
    assert ours is not None
    return ours, transformers.AutoTokenizer.from_pretrained(folder)


FOLDERS = {
    "uncased": {},
    "cased": {"do_lower_case": False, "model_max_length": 512},
    "accents": {"do_lower_case": True, "strip_accents": False},
    "bare": {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
    "old": {"do_lower_case": False, "tokenizer_class": "BertTokenizerFast", "unk_token": "[UNK]"},
}


@pytest.fixture(scope="module", params=[*FOLDERS, "saved", "trained", "json alone", "as it stands"])
def pair(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    if request.param in FOLDERS:
        return both(write(folder, **FOLDERS[request.param]))
    if request.param == "saved":  # by transformers, from vocab.txt: no special_tokens_map.json
        written = write(folder / "first", do_lower_case=False)
        transformers.AutoTokenizer.from_pretrained(written).save_pretrained(folder)
        return both(with_model(folder))
    train_encoder_tokenizer(CORPUS, "wordpiece", 260, lower=False).save(folder)
    if request.param == "json alone":  # then the class's own settings hold, not the file's
        (folder / "vocab.txt").unlink()
        (folder / "tokenizer_config.json").unlink()
    if request.param == "as it stands":
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[CLS]"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return both(with_model(folder))


def assert_same_row(row, coded):
    assert row.tokens.tolist() == coded["input_ids"]
    assert row.segments.tolist() == coded["token_type_ids"]


def assert_same_texts(ours, theirs, texts):
    for text in texts:
        ids, spans = ours.words.cut(text)
        coded = theirs(text, return_offsets_mapping=True, return_token_type_ids=True)
        assert_same_row(ours.row(ids), coded)
        assert spans == coded["offset_mapping"][1:-1], text
        assert ids == ours.words.encode(text) == list(ours.words.segment(text).ids)
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def test_texts(pair):
    ours, theirs = pair
    assert_same_texts(ours, theirs, (*CORPUS, *AWKWARD))
    assert len(ours.words) == len(theirs)
    named = (
        ours.pad,
        ours.unk,
        ours.template.special["cls"],
        ours.template.special["sep"],
        ours.mask,
    )
    assert (
        named
        == (
            theirs.pad_token_id,
            theirs.unk_token_id,
            theirs.cls_token_id,
            theirs.sep_token_id,
            theirs.mask_token_id,
        )
        or theirs.mask_token_id is None
    )
    assert ours.longest == (theirs.model_max_length if theirs.model_max_length < 1e6 else None)


@pytest.mark.thinned
def test_every_character(pair):
    ours, theirs = pair
    letters = [chr(i) for i in range(0x11000) if not 0xD800 <= i < 0xE000]
    texts = ["a".join(letters[i : i + 256]) for i in range(0, len(letters), 256)]
    theirs_ids = theirs(texts, add_special_tokens=False)["input_ids"]
    assert ours.words.encode_all(texts) == theirs_ids


def test_pairs(pair):
    ours, theirs = pair
    for a, b in zip(AWKWARD, reversed(CORPUS + AWKWARD), strict=False):
        row = ours.row(ours.words.encode(a), ours.words.encode(b))
        coded = theirs([a], [b], return_token_type_ids=True)  # alone, b="" would count as no b
        assert_same_row(row, {key: rows[0] for key, rows in coded.items()})


def test_special_strings_are_text_except_where_masks_are_read(pair):
    ours, theirs = pair
    ids = ours.words.encode(SPECIAL)
    assert ids == theirs(SPECIAL, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert not set(ids) & (ours.special - {ours.unk})
    masked = "[MASK] the [MASK][MASK] storm [MASK]"
    if theirs.mask_token_id is not None:
        assert ours.masked(masked) == theirs(masked, add_special_tokens=False)["input_ids"]
    assert ours.masked("") == []


@pytest.fixture(scope="module")
def cased(tmp_path_factory):
    return both(write(tmp_path_factory.mktemp("cased"), do_lower_case=False))


@pytest.mark.parametrize("longest", [4, 5, 6, 7, 8, 11, 12])
@pytest.mark.parametrize("lengths", [(1, 1), (4, 4), (5, 4), (4, 5), (2, 9), (9, 2), (20, 20)])
def test_the_longer_is_cut_first(cased, lengths, longest):
    ours, theirs = cased
    a, b = ("a " * length for length in lengths)
    ids = [ours.words.encode(text) for text in (a, b)]
    coded = theirs(a, b, truncation="longest_first", max_length=longest)
    assert_same_row(ours.row(*ids, longest), coded)
    assert_same_row(
        ours.row(ids[0], longest=longest), theirs(a, truncation=True, max_length=longest)
    )
    if lengths[0] + 3 < longest:
        coded = theirs(a, b, truncation="only_second", max_length=longest)
        assert_same_row(ours.template.row(*ids, longest, only_second=True), coded)


@pytest.mark.parametrize("longest", [None, 7, 8, 9, 10, 30])
def test_words_of_a_sentence(cased, longest):
    ours, theirs = cased
    words = [
        "The",
        "unbelievably",
        "\x00",
        "don't",
        "",
        "日本の",
        "a b",
        "storm",
        "[",
        "x" * 101,
        "!",
    ]
    row, numbers, first_tokens = ours.template.row_of_words(ours.words.encode_all(words), longest)
    cut = {"truncation": True, "max_length": longest} if longest else {}
    coded = theirs(words, is_split_into_words=True, **cut)
    assert_same_row(row, coded)
    owners = coded.word_ids()
    assert numbers == [i for i in range(len(words)) if i in owners]
    assert first_tokens == [owners.index(i) for i in numbers]


@pytest.mark.parametrize(("longest", "stride"), [(24, 0), (24, 5), (25, 9), (40, 16), (384, 128)])
def test_windows_of_a_context(cased, longest, stride):
    ours, theirs = cased
    question = "Who mended the nets?"
    for context in ("", "storm", " ".join(CORPUS), " ".join(AWKWARD), "a " * 33):
        windows = ours.windows(question, context, longest, stride)
        coded = theirs(
            [question],
            [context],
            truncation="only_second",
            max_length=longest,
            stride=stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        assert len(windows) == len(coded["input_ids"])
        for number, (row, spans, _) in enumerate(windows):
            assert row.tokens.tolist() == coded["input_ids"][number]
            assert row.segments.tolist() == coded["token_type_ids"][number]
            offsets, places = coded["offset_mapping"][number], coded.sequence_ids(number)
            assert list(spans) == [
                span if place == 1 else None for span, place in zip(offsets, places, strict=True)
            ]


@pytest.mark.parametrize(("longest", "stride"), [(24, 0), (24, 5), (25, 9), (40, 16), (384, 128)])
def test_windows_of_a_text(cased, longest, stride):
    ours, theirs = cased
    for text in ("", "storm", " ".join(CORPUS), " ".join(AWKWARD), "a " * 33):
        coded = theirs(
            text, truncation=True, max_length=longest, stride=stride, return_overflowing_tokens=True
        )
        (windows,) = ours.window_rows([text], longest, stride)
        assert [row.tokens.tolist() for row in windows] == coded["input_ids"]
        assert [row.segments.tolist() for row in windows] == coded["token_type_ids"]


def test_a_saved_folder_gives_the_same_ids_to_both(tmp_path):
    trained = train_encoder_tokenizer(CORPUS, "wordpiece", 260, lower=True)
    trained.save(with_model(tmp_path))
    ours, theirs = both(tmp_path)
    assert type(theirs).__name__ == "BertTokenizer"
    assert theirs.get_vocab() == {p: i for i, p in enumerate(ours.words.pieces(range(len(theirs))))}
    for text in AWKWARD:
        assert trained.words.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
    for one in ("vocab.txt", "tokenizer.json"):  # either is enough
        alone = tmp_path / one.split(".")[0]
        ours.save(with_model_at(alone))
        (alone / one).unlink()
        assert_same_texts(*both(alone), AWKWARD)


def with_model_at(folder: Path) -> Path:
    folder.mkdir()
    return with_model(folder)


@pytest.mark.parametrize(
    "lines",
    [
        "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\nstorm\r\n##s\r\n",
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nstorm\n\n##s\n\nthe\n\n\n",
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nstorm\n##s\nstorm\n##s\nthe",
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nstorm \n##s\u3000\n \nthe\t\n",
    ],
    ids=["CRLF", "empty lines", "twice the same", "spaces"],
)
def test_untidy_vocabularies(tmp_path, lines):
    with_model(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(lines.encode())
    ours, theirs = both(tmp_path)
    assert_same_texts(ours, theirs, ["the storms", "storm s the the storm", *AWKWARD])
    assert len(ours.words) == len(lines.removesuffix("\n").split("\n"))


def test_added_tokens(tmp_path):
    folder = write(tmp_path / "first", do_lower_case=True)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    theirs.add_tokens(["Grauwal", "<tag>"])
    theirs.add_special_tokens({"additional_special_tokens": ["[ENTITY]"]})
    theirs.save_pretrained(tmp_path)
    ours, theirs = both(with_model(tmp_path))
    assert len(ours.words) == len(theirs) == len(EncoderTokenizer.load(folder).words) + 3
    assert_same_texts(ours, theirs, ["a grauwal, a Grauwal<tag>s <TAG>", *CORPUS])


def test_other_names_for_special_tokens(tmp_path):
    mask = {"__type": "AddedToken", "content": "<mask>", "lstrip": True}
    folder = write(tmp_path, cls_token="<cls>", mask_token=mask)
    lines = (folder / "vocab.txt").read_text(encoding="utf-8")
    lines = lines.replace("[CLS]", "<cls>").replace("[MASK]", "<mask>")
    (folder / "vocab.txt").write_text(lines, encoding="utf-8")
    (folder / "special_tokens_map.json").write_text('{"sep_token": "[UNK]"}')  # goes before
    ours, theirs = both(folder)
    assert_same_texts(ours, theirs, CORPUS)
    assert (ours.template.special["cls"], ours.template.special["sep"], ours.mask) == (2, 1, 4)
    assert ours.masked("a <mask> [MASK]")[1] == 4 == theirs.mask_token_id


@pytest.mark.parametrize("name", ["cased", "uncased"])
def test_published_vocabularies(tmp_path, name):
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder with data")
    path = Path(os.environ["REGARD_DATA"]) / "tokenizers" / f"bert-base-{name}.vocab.txt.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    (tmp_path / "vocab.txt").write_bytes(gzip.decompress(path.read_bytes()))
    settings = {"do_lower_case": name == "uncased", "model_max_length": 512}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    ours, theirs = both(with_model(tmp_path))
    draw = random.Random(0)
    letters = [chr(i) for i in range(0x11000) if not 0xD800 <= i < 0xE000]
    drawn = ["".join(draw.choices(letters, k=40)) for _ in range(200)]
    assert_same_texts(ours, theirs, [*CORPUS, *AWKWARD, *drawn])
    assert len(ours.words) == {"cased": 28_996, "uncased": 30_522}[name]
