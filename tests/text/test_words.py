"""Words by script: what spaces and punctuation set apart, and characters where nothing does."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.words import word_spans, words

BEFORE = re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]")  # the whole rule for scripts with spaces
UNSPACED = (
    "我喜欢学习机器翻译。、「」々〇ーカタカナﾊﾝｶｸひらがなゞภาษาไทยำ่ๆລາວພາສາខ្មែរមြန်မာမြစ်ကမ္ဘာ𠮷"
)
letters = st.text(st.sampled_from(UNSPACED + "abcdeéß 0129\t.,'’-!?ٱ한국어Ωжे")) | st.text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我喜欢学习机器翻译。", "我 喜 欢 学 习 机 器 翻 译 。"),
        ("我喜欢 regard 模型", "我 喜 欢 regard 模 型"),
        ("A股2023年涨了3.5%", "A 股 2023 年 涨 了 3 . 5 %"),
        ("コーヒーが人々。", "コー ヒー が 人々 。"),
        ("がぎ", "が ぎ"),  # a voicing mark of its own belongs to its character
        ("ภาษาไทย ๒๕๖๐", "ภ า ษ า ไ ท ย ๒๕๖๐"),
        ("ที่น้ำ", "ที่ น้ำ"),
        ("ພາສາລາວ", "ພ າ ສ າ ລ າ ວ"),
        ("ខ្មែរ", "ខ្មែ រ"),  # a consonant written below belongs to the one above it
        ("မြန်မာ", "မြ န် မာ"),
        ("𠮷野家", "𠮷 野 家"),
        ("don’t re-use 大-小 it", "don’t re-use 大 - 小 it"),
        ("한국어는 띄어 씁니다.", "한국어는 띄어 씁니다 ."),
        ("हिन्दी भाषा", "हिन्दी भाषा"),
    ],
)
def test_words_by_script(text, expected):
    assert words(text) == expected.split(" ")


@given(letters)
def test_words_and_the_spaces_between_them_are_the_text(text):
    found = word_spans(text)
    at = 0
    for start, end in found:
        assert at <= start < end and not text[at:start].strip()
        assert not any(character.isspace() for character in text[start:end])
        at = end
    assert not text[at:].strip()


@given(
    st.text(st.characters(max_codepoint=0x7F))
    | st.from_regex(r"[a-zàéß'’\- .,0-9]*", fullmatch=True)
)
def test_where_words_have_spaces_nothing_else_counts(text):
    assert words(text) == BEFORE.findall(text)


@given(st.text(st.sampled_from("aé’'-_ 3.“”—\u0301\u200d中ก\n")))
def test_words_are_those_of_their_spans(text):
    assert words(text) == [text[start:end] for start, end in word_spans(text)]
