"""Text as corpora for word alignment write it."""

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.hansards import LANGUAGES, english, french

TEXT = st.text(st.sampled_from("aeé lqudns'’.,-1 M%«\u0301_Û\n"), max_size=40)


@pytest.mark.parametrize(
    ("raw", "spaced"),
    [
        ("L'idée de l’Union", "Le idée de le Union"),
        ("j'ai dit qu'il s'agit d'un essai", "je ai dit que il se agit de un essai"),
        ("jusqu'à lorsqu'on puisqu'elle", "jusque à lorsque on puisque elle"),
        ("quelqu'un", "quelque un"),
        (
            "du pain, des mots, au ciel, aux arts",
            "de le pain , de les mots , à le ciel , à les arts",
        ),
        ("Aux États-Unis", "À les États - Unis"),
        ("au-delà du possible", "au - delà de le possible"),
        ("le prud'homme d'O'Neill", "le prud'homme de O'Neill"),
        ("aujourd'hui", "aujourd' hui"),
        ("C'est-à-dire : oui!", "Ce est - à - dire : oui !"),
        ("M. Smith paie 1,5 % ou 30,000 $.", "M. Smith paie 1,5 % ou 30,000 $ ."),
        ("«oui»... du20", "« oui » ... du20"),
        ("e\u0301tat de l'e\u0301tat", "état de le état"),
    ],
)
def test_french_is_written_out(raw, spaced):
    assert french(raw) == spaced


@pytest.mark.parametrize(
    ("raw", "spaced"),
    [
        ("Mr. Speaker's question, please!", "Mr. Speaker 's question , please !"),
        ("the Hon. member for St. John", "the Hon. member for St. John"),
        ("We don't say no.", "We don 't say no ."),
        ("Motion No. 1", "Motion No. 1"),
        ("at 5.30 p.m. in the 1960s, .5 per cent", "at 5.30 p.m. in the 1960s , .5 per cent"),
        ("a mail-in vote -- or two...", "a mail - in vote -- or two ..."),
        ("of our own, du Pont", "of our own , du Pont"),
    ],
)
def test_english_words_stand_alone(raw, spaced):
    assert english(raw) == spaced


@pytest.mark.parametrize("language", LANGUAGES)
@given(text=TEXT)
def test_what_is_spaced_stays_so(language, text):
    once = LANGUAGES[language](text)
    assert LANGUAGES[language](once) == once
    assert once == " ".join(once.split())


@given(text=TEXT)
def test_english_keeps_every_character(text):
    kept = normalize("NFC", text).replace("’", "'")
    assert english(text).replace(" ", "") == "".join(kept.split())
