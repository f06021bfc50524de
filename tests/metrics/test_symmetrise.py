"""Symmetrisation against the published loops over all cells, and what must hold of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.metrics.links import HOW, flipped, parse_gold, symmetrised

SIZE = 6
index = st.integers(0, SIZE - 1)
some_links = st.frozensets(st.tuples(index, index), max_size=14)


def published(forward, backward, how):
    """Koehn et al.'s loops, word by word over a table of truths."""
    either, words = forward | backward, range(SIZE)
    table = {(s, t): (s, t) in forward & backward for s in words for t in words}

    def has_source(s):
        return any(table[s, t] for t in words)

    def has_target(t):
        return any(table[s, t] for s in words)

    def grow_diag():
        added = True
        while added:
            added = False
            for t in words:
                for s in words:
                    if not table[s, t]:
                        continue
                    for dt, ds in (
                        *((-1, 0), (0, -1), (1, 0), (0, 1)),
                        *((-1, -1), (-1, 1), (1, -1), (1, 1)),
                    ):
                        s2, t2 = s + ds, t + dt
                        if (s2, t2) not in either or table[s2, t2]:
                            continue
                        if not has_source(s2) or not has_target(t2):
                            table[s2, t2] = added = True

    def final(links, both):
        for t in words:
            for s in words:
                free = (not has_source(s), not has_target(t))
                if (s, t) in links and (all(free) if both else any(free)):
                    table[s, t] = True

    if how == "union":
        return either
    if "grow" in how:
        grow_diag()
    if "final" in how:
        final(forward, how.endswith("and"))
        final(backward, how.endswith("and"))
    return {cell for cell, there in table.items() if there}


@settings(max_examples=120)
@given(some_links, some_links, st.sampled_from(HOW))
def test_it_does_what_was_published(forward, backward, how):
    assert symmetrised(forward, backward, how) == published(forward, backward, how)


@given(some_links, some_links)
def test_each_way_lies_between_the_intersection_and_the_union(forward, backward):
    made = {how: symmetrised(forward, backward, how) for how in HOW}
    assert made["intersection"] == forward & backward
    assert made["union"] == forward | backward
    assert made["intersection"] <= made["grow-diag"]
    for final in ("grow-diag-final", "grow-diag-final-and"):
        assert made["grow-diag"] <= made[final] <= made["union"]


@given(some_links, some_links)
def test_final_leaves_no_word_alone_that_has_a_link(forward, backward):
    made = symmetrised(forward, backward, "grow-diag-final")
    for side in (0, 1):
        linked = {link[side] for link in forward | backward}
        assert {link[side] for link in made} == linked


@given(some_links, st.sampled_from(HOW))
def test_where_both_agree_there_is_nothing_to_decide(links, how):
    assert symmetrised(links, links, how) == links


def test_by_hand():
    """0-0 is common; 1-1 lies beside it; 3-3 beside nothing; 4-0 has one free word."""
    forward, backward = (parse_gold(one, 0, "x:1").sure for one in ("0-0 1-1 3-3", "0-0 4-0"))
    expected = {
        "intersection": "0-0",
        "grow-diag": "0-0 1-1",
        "grow-diag-final-and": "0-0 1-1 3-3",
        "grow-diag-final": "0-0 1-1 3-3 4-0",
        "union": "0-0 1-1 3-3 4-0",
    }
    for how, links in expected.items():
        assert symmetrised(forward, backward, how) == parse_gold(links, 0, "x:1").sure


def test_only_ways_there_are():
    with pytest.raises(BadInput, match="not 'grow'"):
        symmetrised(frozenset(), frozenset(), "grow")


@given(some_links)
def test_flipped_twice_is_as_before(links):
    assert flipped(flipped(links)) == links
    assert all((t, s) in links for s, t in flipped(links))
