"""Tables that lose nothing."""

from hypothesis import given
from hypothesis import strategies as st

from regard.cli.io.console import OUT, print_tables
from regard.experiments.result import plain_table, table_lines

COLUMNS = ["model", "BLEU", "5–8 words", "9–10", "parameters", "tokens/s"]
ROWS = [["no attention", "25.5", "26.2", "30.9", "15,548,416", "65,400"], ["R[&]D", *"12345"]]


def said(width):
    return [line.plain for line in table_lines(COLUMNS, ROWS, (0,), width)]


def test_it_is_as_wide_as_it_needs_to_be():
    assert said(None) == [
        "model         BLEU  5–8 words  9–10  parameters  tokens/s",
        "no attention  25.5       26.2  30.9  15,548,416    65,400",
        "R[&]D            1          2     3           4         5",
    ]
    assert said(60) == said(None)


def test_headings_give_way_and_numbers_do_not():
    assert said(55)[:3] == [
        "                      5–8",
        "model         BLEU  words  9–10  parameters  tokens/s",
        "no attention  25.5   26.2  30.9  15,548,416    65,400",
    ]
    assert said(20)[1:3] == [
        "model         BLEU  wor…  9–10  parameters  token…",
        "no attention  25.5  26.2  30.9  15,548,416  65,400",
    ]


def test_headings_keep_their_digits():
    (head, _) = (line.plain for line in table_lines(["model", "11–12"], [["a", "1"]], (0,), 4))
    assert head == "mo…  11–12"


@given(st.integers(1, 80) | st.none())
def test_no_cell_is_ever_cut(width):
    *_, first, second = said(width)
    assert first.split("  ")[0] == ROWS[0][0] and first.split()[2:] == ROWS[0][1:]
    assert second.split() == ROWS[1]


def test_pipes_have_no_width(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    print_tables([plain_table(COLUMNS, ROWS)])
    assert OUT.is_terminal or capsys.readouterr().out.splitlines() == said(None)
