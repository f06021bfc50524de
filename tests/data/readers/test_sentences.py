"""Sentence splitting: abbreviations, quotes, numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.readers.sentences import sentences
from work import ends


@pytest.mark.parametrize(
    "text",
    [
        "He came. | She left! | Did they? | Yes.",
        "“Stop!” he cried. | “Why?” | (Nobody knew.) | [Exit.]",
        "'Go on.' | She went on.",
        "Mr. Brown met Mrs. J. R. Smith and Dr. Who at St. Ives.",
        "The U.S. Army paid $3.50 for 1,000 of them, i.e. Half a cent each.",
        "See No. 7, vol. 3, p. 12, of Jan. 5. | He said no. | They left.",
        "It was I. | He knew it.",
        "We met at 5 p.m. | Then we left.",
        "Well... he said nothing. | But then... | Silence… | Nothing. . . . | At last.",
        "What?! | Never!!! so it went",
        "In 1990. | 5 men came.",
        "Élan vital. | Über alles. | Ça va?",
        "彼は来た。 | 彼女は「なぜ？」 | と言った！",
        "no end and no capital",
        "a.b.c is a name. | X",
    ],
)
def test_where_sentences_end(text):
    expected = text.split(" | ")
    assert [*sentences(text.replace(" | ", "" if "。" in text else " "))] == expected


def test_space_around_is_left_out():
    assert [*sentences("  One.\t Two. \n")] == ["One.", "Two."]
    assert [*sentences(" \n ")] == []


@given(st.text(alphabet='aB. !?…"(“”)1。\n', max_size=40))
def test_nothing_but_space_is_lost(text):
    cut = [*sentences(text)]
    assert "".join("".join(cut).split()) == "".join(text.split())
    assert all(one == one.strip() != "" for one in cut)


@pytest.mark.parametrize(
    "text", ["a" * 10**6, "." * 10**6, ". " * 10**5, '."' * 10**5, ' "' * 10**6]
)
def test_strange_text_takes_no_longer(text):
    with ends():
        list(sentences(text + "b"))
        list(sentences("x. " + text))
