"""Tokenizers of today's models: tokenizer.json decides ids, rows and texts, as in ``transformers``."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.ground.errors import BadInput
from regard.text.continuation import Continuation, StopStrings, TextStream
from regard.text.families.unchanged_bpe import DecoderBPE, EncoderBPE
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer
from small_tokenizers import AWKWARD, SHAPES, TEXTS, write_tokenizer

transformers = pytest.importorskip("transformers")

FAMILIES = {name: EncoderBPE() if name == "modernbert" else DecoderBPE() for name in SHAPES}
DECODERS = [name for name in SHAPES if name != "modernbert"]


def load(folder, name) -> EncoderTokenizer:
    ours = EncoderTokenizer.load(folder, family=FAMILIES[name])
    assert ours is not None
    return ours


def reference(folder, name):
    """AutoTokenizer where it uses tokenizer.json, else the class that does."""
    if not SHAPES[name].auto:
        return transformers.PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    (folder / "config.json").write_text(json.dumps({"model_type": SHAPES[name].model_type}))
    return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    folders = {name: write_tokenizer(folder / name, name) for name in SHAPES}
    return {name: (load(at, name), reference(at, name)) for name, at in folders.items()}


def check(ours, theirs, text):
    ids = ours.words.encode(text)
    assert ids == theirs.encode(text, add_special_tokens=False, split_special_tokens=True)
    assert ours.words.encode_all([text]) == [ids]
    row = ours.row(ids).tokens.tolist()
    assert row == theirs(text, split_special_tokens=True).input_ids
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    assert ours.decode(ids) == theirs.decode(ids, **options)
    assert ours.decode(row) == theirs.decode(row, **options)


@pytest.mark.parametrize("name", SHAPES)
def test_ids_rows_and_texts(both, name):
    ours, theirs = both[name]
    assert len(ours.words) == len(theirs)
    for text in (*TEXTS, *AWKWARD):
        check(ours, theirs, text)
    pair = theirs(*TEXTS[:2], return_token_type_ids=True)
    row = ours.row(*ours.words.encode_all(TEXTS[:2]))
    assert row.tokens.tolist() == pair.input_ids
    assert row.segments.tolist() == pair.token_type_ids


LETTERS = st.sampled_from([*"Theold man€🙂é\n\t'1 9  ▁東\u0301", "<tool>", "[MASK]", "<s>"])
STRINGS = st.lists(LETTERS | st.characters(codec="utf-8"), max_size=20).map("".join)


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=60, deadline=None)
@given(text=STRINGS)
def test_any_text(both, name, text):
    check(*both[name], text)


@pytest.mark.parametrize("name", SHAPES)
def test_special_tokens_by_role(both, name):
    ours, theirs = both[name]
    expected = {role: str(token) for role, token in theirs.special_tokens_map.items()}
    expected.pop("additional_special_tokens", None)
    assert ours.names == expected
    for role in expected:
        assert ours.words.number(expected[role]) == getattr(theirs, f"{role}_id")


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_streamed_text_is_the_whole_text(both, name, data):
    words = both[name][0].words
    ids = st.lists(st.integers(0, len(words) - 1), max_size=12) | STRINGS.map(words.encode)
    prompt, tokens = data.draw(ids), data.draw(ids)
    stops = data.draw(st.lists(LETTERS, max_size=2).map(tuple))
    continuation = Continuation(words.decode, prompt, words.byte_ids)
    stream = TextStream(continuation, StopStrings(words.decode, stops))
    pieces = [*map(stream.add, tokens), stream.end()]
    whole = Continuation(words.decode, prompt).text(tokens)
    assert "".join(pieces) == StopStrings(words.decode, stops).cut(whole)
