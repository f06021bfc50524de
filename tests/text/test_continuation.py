"""Texts after a prompt: whole or piece by piece, cut at stop strings."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.text.continuation import Continuation, StopStrings, TextStream
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from small_gpt import TEXTS, VOCAB

WORDS = train_encoder_tokenizer(TEXTS, "gpt2-bpe", VOCAB, lower=False, longest=None).words
LETTERS = st.text(st.sampled_from("Theold man€🙂é\n"), max_size=12)


def pieces(tokens, prompt=(), stops=()):
    text = TextStream(Continuation(WORDS.decode, prompt), StopStrings(WORDS.decode, stops))
    return [*map(text.add, tokens), text.end()]


@settings(max_examples=150, deadline=None)
@example(tokens=[95, *WORDS.encode("é")], prompt=[], stops=("é",))
@example(tokens=[95, *WORDS.encode("é")], prompt=[], stops=("éT",))
@given(
    tokens=st.lists(st.integers(0, VOCAB - 1), max_size=12) | LETTERS.map(WORDS.encode),
    prompt=LETTERS.map(WORDS.encode) | st.lists(st.integers(0, VOCAB - 1), max_size=12),
    stops=st.lists(LETTERS.filter(len), max_size=2).map(tuple),
)
def test_a_stream_is_the_whole_text_cut(tokens, prompt, stops):
    ends = StopStrings(WORDS.decode, stops)  # generation ends with the first that is complete
    tokens = next((tokens[:n] for n in range(1, len(tokens)) if ends(tokens[:n])), tokens)
    whole = Continuation(WORDS.decode, prompt).text(tokens)
    found = pieces(tokens, prompt, stops)
    assert "".join(found) == StopStrings(WORDS.decode, stops).cut(whole)
    for count in range(1, len(tokens) + 1):  # what is given of broken characters is final
        given = "".join(found[:count])
        after = Continuation(WORDS.decode, prompt).text(tokens[:count])[len(given) :]
        assert not given.endswith("\ufffd") or after.strip("\ufffd")


@settings(max_examples=60, deadline=None)
@given(text=LETTERS, stop=LETTERS.filter(len))
def test_a_stop_string_is_found_as_soon_as_it_is_complete(text, stop):
    tokens = WORDS.encode(text + stop + text)
    test = StopStrings(WORDS.decode, (stop,))
    ends = [n for n in range(1, len(tokens) + 1) if test(tokens[:n])]
    first = next(n for n in range(1, len(tokens) + 1) if stop in WORDS.decode(tokens[:n]))
    assert ends[0] == first


def test_halves_of_characters_are_held_back():
    tokens = [token for byte in "a🙂b" for token in WORDS.encode(byte)]
    single = WORDS.encode("日")
    assert len(single) == 3 and pieces(single) == ["", "", "日", ""]
    assert pieces(single[:2]) == ["", "", "\ufffd"]
    assert "".join(pieces(tokens)) == "a🙂b"


def test_the_beginning_of_a_stop_string_is_held_back():
    tokens = [token for letter in "xabaY" for token in WORDS.encode(letter)]
    assert pieces(tokens, stops=("aba!",)) == ["x", "", "", "", "abaY", ""]
    assert pieces(tokens, stops=("aba",)) == ["x", "", "", "", "", ""]


def test_a_space_that_decoding_drops_stands_between_prompt_and_text():
    def decode(tokens):
        return " ".join("abc"[token] for token in tokens)

    assert Continuation(decode, [0, 1]).text([2, 0]) == " c a"
    assert Continuation(decode).text([2, 0]) == "c a"


@pytest.mark.parametrize("strings", [("",), "end", (3,)])
def test_stop_strings_that_make_no_sense(strings):
    with pytest.raises(BadInput):
        StopStrings(WORDS.decode, strings)
