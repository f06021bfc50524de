from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from regard.views.markup import clip, escape_controls, escape_line


def test_nothing_steers_the_terminal():
    assert escape_controls("\x1b[31m") == "␛[31m"
    assert escape_controls("a\nb\tc") == "a␊b␉c"
    assert escape_controls("\xa0") == "␣"
    assert escape_controls("\u202e\ud800\x7f") == "\ufffd" * 3


def test_writing_that_needs_joiners_keeps_them():
    assert escape_controls("می\u200cخواهم") == "می\u200cخواهم"


def test_clip_ends_in_a_sign_where_it_cuts():
    assert clip("attention", 9) == "attention"
    assert clip("attention", 5) == "atte…"
    assert clip("日本語", 5) == "日本…"  # wide letters take two columns


def test_one_line_folds_white_space():
    assert escape_line(" two\n\n lines ") == "two lines"


@given(st.text(), st.integers(1, 30))
def test_a_clipped_label_fits_and_is_printable(label, width):
    clipped = clip(label, width)
    assert cell_len(clipped) <= width
    assert all(each.isprintable() or each in "\u200c\u200d" for each in clipped)
