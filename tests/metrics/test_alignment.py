"""Alignment files, the error rate of Och & Ney (2003), and the kinds of links."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.metrics.links import (
    AlignmentScore,
    GoldLinks,
    alignment_error_rate,
    format_pharaoh,
    groups,
    link_types,
    parse_gold,
)

indices = st.integers(0, 6)
some_links = st.frozensets(st.tuples(indices, indices))
golds = st.builds(GoldLinks, some_links, some_links)


@given(some_links)
def test_what_is_written_is_read_back(links):
    assert parse_gold(format_pharaoh(links), 0, "x:1").sure == links


def test_pharaoh_lines():
    assert parse_gold(" 1-2  0-0 0-0\n", 0, "x:1").sure == {(0, 0), (1, 2)}
    assert parse_gold("", 0, "x:1").possible == frozenset()
    assert format_pharaoh(frozenset({(10, 0), (2, 1), (2, 0)})) == "2-0 2-1 10-0"


@pytest.mark.parametrize("base", [0, 1])
def test_gold_lines_have_sure_and_possible_links(base):
    line = " ".join(
        f"{i + base}{mark}{j + base}" for i, mark, j in [(0, "-", 0), (1, "p", 2), (3, "?", 1)]
    )
    gold = parse_gold(line, base, "gold:1")
    assert gold.sure == {(0, 0)}
    assert gold.possible == {(0, 0), (1, 2), (3, 1)}
    assert parse_gold("", base, "gold:1") == GoldLinks(frozenset(), frozenset())


def test_sure_links_are_possible_too():
    assert GoldLinks(frozenset({(0, 0)}), frozenset()).possible == {(0, 0)}


@pytest.mark.parametrize(
    "written", ["0", "0-", "-1-2", "a-b", "1-2-3", "0:0", "1.0-2", "٣-٣", "9" * 5000 + "-0"]
)
def test_malformed_links_are_named_with_their_place(written):
    with pytest.raises(BadInput, match=r"^links\.txt:7: .* is not a link"):
        parse_gold(f"0-0 {written}", 0, "links.txt:7")
    with pytest.raises(BadInput, match=r"^gold\.txt:7: .* is not a link"):
        parse_gold(f"1-1 {written}", 1, "gold.txt:7")


def test_links_out_of_range():
    with pytest.raises(BadInput, match=r"^gold:2: link '0-1' is out of range: words count from 1"):
        parse_gold("1-1 0-1", 1, "gold:2")
    with pytest.raises(BadInput, match=r"^x:5: link '3-0' is .* 3 source and 2 target words"):
        parse_gold("2-1 3-0", 0, "x:5", lengths=(3, 2))
    with pytest.raises(BadInput, match=r"^gold:5: link '1p3' is out of range"):
        parse_gold("3-2 1p3", 1, "gold:5", lengths=(3, 2))
    assert parse_gold("3-2", 1, "gold:5", lengths=(3, 2)).sure == {(2, 1)}


def test_error_rate_by_hand():
    """Over both pairs: |A| 5, |S| 3, |A∩S| 2, |A∩P| 4."""
    hypotheses = [frozenset({(0, 0), (1, 1), (2, 0)}), frozenset({(0, 0), (0, 1)})]
    gold = [
        GoldLinks(sure=frozenset({(0, 0), (1, 1)}), possible=frozenset({(2, 2)})),
        GoldLinks(sure=frozenset({(1, 1)}), possible=frozenset({(0, 0), (0, 1)})),
    ]
    score = alignment_error_rate(hypotheses, gold)
    assert score == AlignmentScore(
        aer=pytest.approx(1 - (2 + 4) / (5 + 3)), precision=4 / 5, recall=2 / 3, links=5
    )


def test_empty_alignments():
    nothing, one = frozenset(), frozenset({(0, 0)})
    assert alignment_error_rate([], []) == AlignmentScore(0, 1, 1, 0)
    assert alignment_error_rate([nothing], [GoldLinks(nothing, nothing)]) == AlignmentScore(
        0, 1, 1, 0
    )
    assert alignment_error_rate([nothing], [GoldLinks(one, one)]) == AlignmentScore(1, 1, 0, 0)
    assert alignment_error_rate([one], [GoldLinks(nothing, nothing)]) == AlignmentScore(1, 0, 1, 1)
    assert alignment_error_rate([one], [GoldLinks(nothing, one)]) == AlignmentScore(0, 1, 1, 1)


def test_as_many_alignments_as_golds():
    with pytest.raises(BadInput, match="alignments of 1 sentence pairs, but gold links of 0"):
        alignment_error_rate([frozenset()], [])


@given(st.lists(st.tuples(some_links, golds), max_size=4))
def test_error_rate_is_a_fraction_and_all_sure_links_alone_make_no_error(pairs):
    score = alignment_error_rate([links for links, _ in pairs], [gold for _, gold in pairs])
    assert 0 <= score.aer <= 1
    assert 0 <= score.precision <= 1
    assert 0 <= score.recall <= 1
    gold = [gold for _, gold in pairs]
    for perfect in ([each.sure for each in gold], [each.possible for each in gold]):
        assert alignment_error_rate(perfect, gold).aer == 0


def test_kinds_with_a_spurious_and_a_fertile_word():
    """Snow fell yesterday / la neige est tombée hier: nothing says "la", "fell" says two words."""
    links = parse_gold("0-1 1-2 1-3 2-4", 0, "x:1").sure
    found = link_types(links, source_length=3, target_length=5)
    assert found == {
        "1-1": 2,
        "1-n": 1,
        "n-1": 0,
        "n-m": 0,
        "spurious": 1,
        "unaligned": 0,
        "fertile": 1,
    }


def test_kinds_many_to_one_many_to_many_and_unaligned():
    links = parse_gold("0-0 1-0 2-1 2-2 3-2", 0, "x:1").sure
    found = link_types(links, source_length=5, target_length=3)
    assert found["n-1"] == found["n-m"] == 1
    assert found["1-1"] == found["1-n"] == found["spurious"] == 0
    assert found["unaligned"] == 1
    assert found["fertile"] == 1


def test_kinds_of_nothing():
    found = link_types(frozenset(), 2, 3)
    assert (found["spurious"], found["unaligned"]) == (3, 2)
    assert sum(found.values()) == 5


@pytest.mark.parametrize("link", [(2, 0), (0, 2), (-1, 0)])
def test_kinds_wants_links_inside_the_pair(link):
    with pytest.raises(ValueError, match="outside 2 x 2 words"):
        link_types(frozenset({link}), 2, 2)


@given(some_links)
def test_groups_part_the_links(links):
    found = groups(links)
    assert {
        (i, j) for i, j in links for sources, targets in found if i in sources and j in targets
    } == links
    sources = [i for group in found for i in group[0]]
    targets = [j for group in found for j in group[1]]
    assert sorted(sources) == sorted({i for i, _ in links})
    assert sorted(targets) == sorted({j for _, j in links})


@given(some_links)
def test_groups_cannot_be_split(links):
    """From any word of a group every other word of it is reached along links."""
    for sources, targets in groups(links):
        reached = {min(sources)}
        for _ in range(len(links)):
            seen = {j for i, j in links if i in reached}
            reached |= {i for i, j in links if j in seen}
        assert reached == sources
        assert {j for i, j in links if i in reached} == targets


@given(some_links)
def test_kinds_account_for_every_group_and_word(links):
    found = link_types(links, 7, 7)
    shapes = found["1-1"] + found["1-n"] + found["n-1"] + found["n-m"]
    assert shapes == len(groups(links))
    assert found["spurious"] == 7 - len({j for _, j in links})
    assert found["unaligned"] == 7 - len({i for i, _ in links})
