"""BERT's folders: what is read, what is refused, what is handed on."""

import json
import pickle

import pytest

from regard.core.errors import BadInput
from regard.text.label_sets import labels_from_config
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer

LINES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "storm", "##s", "[", "]", "sep")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path


@pytest.fixture(scope="module")
def trained(english):
    return train_encoder_tokenizer(english, "wordpiece", 200, longest=64)


def load(folder) -> EncoderTokenizer:
    text = EncoderTokenizer.load(folder)
    assert text is not None
    return text


def configure(folder, **settings):
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def test_a_folder_without_a_vocabulary(tmp_path):
    assert EncoderTokenizer.load(tmp_path) is None
    assert EncoderTokenizer.load(configure(tmp_path, do_lower_case=True)) is None


def test_a_vocabulary_alone_is_enough(folder):
    text = load(folder)
    assert (
        text.pad,
        text.unk,
        text.template.special["cls"],
        text.template.special["sep"],
        text.mask,
    ) == (0, 1, 2, 3, 4)
    assert text.words.encode("The STORMS rage") == [5, 6, 7, 1]
    assert text.longest is None
    assert text.special == {0, 1, 2, 3, 4}
    assert text.decode([2, 5, 6, 7, 3]) == "the storms"


def test_special_strings_are_text_except_the_mask_token_where_masks_are_read(folder):
    text = load(folder)
    assert text.words.encode("[SEP] storm") == [8, 10, 9, 6]
    assert text.masked("[MASK]the [MASK] [SEP][MASK]") == [4, 5, 4, 8, 10, 9, 4]
    assert text.masked("[mask] the") == [8, 1, 9, 5]


def test_which_pieces_go_on_inside_a_word(folder):
    assert load(folder).continues.tolist() == [piece.startswith("##") for piece in LINES]


def test_settings(folder):
    configure(folder, do_lower_case=False, model_max_length=512)
    assert load(folder).words.encode("The the") == [1, 5]
    assert load(folder).longest == 512


@pytest.mark.parametrize("said", [int(1e30), 1e30, 0, -1, True, "512", None])
def test_lengths_that_mean_none(folder, said):
    assert load(configure(folder, model_max_length=said)).longest is None


def test_rows_words_and_windows(folder):
    text = load(folder)
    ids = text.words.encode("the storm")
    assert text.row(ids, ids, longest=6).tokens.tolist() == [2, 5, 3, 5, 6, 3]
    words = text.pieces(["storms", "the", "storms"])
    row, numbers, first_tokens = text.template.row_of_words(words, longest=6)
    assert row.tokens.tolist() == [2, 6, 7, 5, 6, 3]
    assert (numbers, first_tokens) == ([0, 1, 2], [1, 3, 4])
    rows = text.template.windows_of_words(words, longest=5, overlap=0)
    assert [(row.words, row.first_tokens) for row in rows] == [([0, 1], [1, 3]), ([2], [1])]
    windows = text.windows("the storm", " storms  the storm", 7, stride=1, most_question=1)
    assert [row.tokens.tolist() for row, *_ in windows] == [
        [2, 5, 3, 6, 7, 5, 3],
        [2, 5, 3, 5, 6, 3],
    ]
    assert windows[0].spans == (None, None, None, (1, 6), (6, 7), (9, 12), None)


def test_a_model_must_know_its_ids_and_pool_its_summary_token(folder):
    text, anywhere = load(folder), ("first", "last", None)
    text.check({"tokens": len(LINES)}, anywhere)
    text.check({"tokens": 99}, ("first",))
    with pytest.raises(
        BadInput, match=f"^the tokenizer has {len(LINES)} tokens, but the model has 10$"
    ):
        text.check({"tokens": 10}, anywhere)
    with pytest.raises(BadInput, match="summary token first; the model needs it last or nowhere"):
        text.check({"tokens": 99}, ("last", None))


def test_files_are_copied_byte_for_byte(folder, tmp_path_factory):
    configure(folder, do_lower_case=False, strange={"kept": 1})
    (folder / "special_tokens_map.json").write_text('{ "cls_token":"[CLS]" }')
    (folder / "config.json").write_text("{}")
    there = tmp_path_factory.mktemp("there")
    (there / "tokenizer.json").write_text("of an earlier vocabulary")
    load(folder).save(there)
    names = {"vocab.txt", "tokenizer_config.json", "special_tokens_map.json"}
    assert {path.name for path in there.iterdir()} == names
    assert all((there / name).read_bytes() == (folder / name).read_bytes() for name in names)


def test_what_was_learnt_is_read_again(trained, tmp_path, english):
    trained.save(tmp_path)
    again = load(tmp_path)
    assert again.files == trained.files
    assert again.longest == 64
    assert again.words.encode_all(english) == trained.words.encode_all(english)
    (tmp_path / "tokenizer.json").unlink()
    assert load(tmp_path).words.encode_all(english) == trained.words.encode_all(english)


def test_it_travels_to_other_processes(trained):
    again = pickle.loads(pickle.dumps(trained))
    assert again.words.encode("the storm") == trained.words.encode("the storm")
    assert (again.names, again.longest, again.files) == (
        trained.names,
        trained.longest,
        trained.files,
    )


def test_equal_and_empty_lines_keep_their_ids(folder):
    (folder / "vocab.txt").write_text("\r\n".join([*LINES, "the", "", "storms", "", "##x"]))
    text = load(folder)
    assert text.words.encode("the storms thex") == [11, 13, 11, 15]
    assert len(text.words) == 16


@pytest.mark.parametrize("missing", LINES[:5])
def test_missing_special_tokens(folder, missing):
    (folder / "vocab.txt").write_text("\n".join(line for line in LINES if line != missing))
    with pytest.raises(BadInput, match=r"vocab\.txt: has no \[" + missing[1:-1]):
        EncoderTokenizer.load(folder)


def test_a_vocabulary_that_is_no_text(folder):
    (folder / "vocab.txt").write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(BadInput, match=r"vocab\.txt: not UTF-8 \(byte 6\)"):
        EncoderTokenizer.load(folder)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "'BertJapaneseTokenizer' is not supported"),
        ({"do_lower_case": "no"}, "do_lower_case is neither true nor false"),
        ({"tokenize_chinese_chars": None}, "tokenize_chinese_chars is neither"),
        ({"strip_accents": 1}, "strip_accents is neither"),
        ({"cls_token": 7}, "cls_token is not the name of a token"),
        ({"mask_token": {"special": True}}, "mask_token is not the name"),
        ({"added_tokens_decoder": ["x"]}, "added tokens must be a list"),
        ({"added_tokens_decoder": {"x": {"content": "y"}}}, "added tokens must be a list"),
        (
            {"added_tokens_decoder": {"99": {"content": "y"}}},
            "'y' has the id 99, but the library assigns",
        ),
        (
            {"added_tokens_decoder": {"11": {"content": "y", "lstrip": "x"}}},
            "'y' is not a valid added token",
        ),
        ({"extra_special_tokens": [3]}, "added tokens must be a list"),
    ],
)
def test_wrong_settings(folder, settings, said):
    with pytest.raises(BadInput, match=rf"tokenizer_config\.json: .*{said}"):
        EncoderTokenizer.load(configure(folder, **settings))


def test_added_tokens_are_numbered_on(folder):
    configure(folder, extra_special_tokens=["[ENTITY]"])
    (folder / "added_tokens.json").write_text('{"<tag>": 12, "Wal": 11, "[MASK]": 4}')
    text = load(folder)
    assert len(text.words) == 14
    assert text.words.encode("the wal<tag>[MASK]") == [5, 11, 12, 8, 1, 9]
    assert text.words.number("[ENTITY]") == 13


def change(folder, trained, **changes):
    trained.save(folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    for key, value in changes.items():
        (content["model"] if key in content["model"] else content)[key] = value
    path.write_text(json.dumps(content))
    return folder


FIVE = {name: number for number, name in enumerate(LINES[:5])}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": None}, "not a WordPiece vocabulary$"),
        ({"type": "BPE"}, "not a WordPiece vocabulary, but 'BPE': set tokenizer_class in"),
        ({"vocab": ["the"]}, "must map pieces to ids"),
        ({"vocab": {"the": -1}}, "must map pieces to ids"),
        ({"vocab": {"the": 2**40}}, "must map pieces to ids"),
        ({"vocab": FIVE | {"the": 4}}, "have the same id"),
        ({"vocab": {"the": 0}}, r"'\[PAD\]' has the id 0, but the library assigns 1"),
        ({"vocab": {"the": 0}, "added_tokens": []}, r"has no \[PAD\]"),
        ({"continuing_subword_prefix": "@@"}, "only ## is supported"),
        ({"added_tokens": {}, "vocab": {}}, r"has no \[PAD\]"),
        ({"added_tokens": 7}, "added tokens must be a list"),
    ],
)
def test_wrong_tokenizers(trained, tmp_path, changes, said):
    with pytest.raises(BadInput, match=rf"tokenizer\.json: .*{said}"):
        EncoderTokenizer.load(change(tmp_path, trained, **changes))


def test_the_mask_is_a_token_of_its_own(trained, tmp_path):
    trained.save(tmp_path)
    configure(tmp_path, sep_token="[MASK]")
    with pytest.raises(BadInput, match=r"sep_token and mask_token are both '\[MASK\]'"):
        EncoderTokenizer.load(tmp_path)


def test_ids_that_are_left_out_stay_free(trained, tmp_path):
    text = load(change(tmp_path, trained, vocab=FIVE | {"the": 7}, added_tokens=[]))
    assert len(text.words) == 8
    assert text.words.encode("the no piece 5") == [7, 1, 1, 1]


def test_a_torn_tokenizer(trained, tmp_path):
    trained.save(tmp_path)
    whole = (tmp_path / "tokenizer.json").read_bytes()
    (tmp_path / "tokenizer.json").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match=r"tokenizer\.json: not JSON"):
        EncoderTokenizer.load(tmp_path)


def test_a_class_that_takes_the_file_as_it_stands(trained, tmp_path):
    normaliser = {"type": "Lowercase"}
    change(tmp_path, trained, normalizer=normaliser)
    assert load(tmp_path).words.encode("café") == trained.words.encode("cafe")
    configure(tmp_path, tokenizer_class="PreTrainedTokenizerFast")
    assert load(tmp_path).words.encode("café") == [trained.unk]
    change(tmp_path, trained, post_processor=None)
    configure(tmp_path, tokenizer_class="PreTrainedTokenizerFast")
    with pytest.raises(BadInput, match="its template differs from that of BertTokenizer"):
        EncoderTokenizer.load(tmp_path)
    change(tmp_path, trained, normalizer={"type": "Nonsense"})
    configure(tmp_path, tokenizer_class="PreTrainedTokenizerFast")
    with pytest.raises(BadInput, match=r"tokenizer\.json: not a tokenizer\.json"):
        EncoderTokenizer.load(tmp_path)


def test_no_two_labels_have_one_name():
    assert labels_from_config({"id2label": {"0": "b", "1": "a"}}).names == ("b", "a")
    imagenet = {"id2label": {"0": "crane", "1": "goose", "2": "crane"}}
    imagenet |= {"label2id": {"crane": 2, "goose": 1}}
    assert labels_from_config(imagenet).names == ("crane (0)", "goose", "crane (2)")
    with pytest.raises(BadInput, match=r"id2label gives two labels the name 'a .2.'"):
        labels_from_config({"id2label": {"0": "a (2)", "1": "a", "2": "a"}})
