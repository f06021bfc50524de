"""Prefixes that are grammatical by construction, and sets that share none."""

from itertools import chain

from regard.data.readers.sources import read_pairs
from regard.data.readers.table_files import Table
from regard.experiments.studies.agreement_data import (
    NOUNS,
    PREPOSITIONS,
    long_prefixes,
    make_agreement,
    write,
)

NUMBER = {form: number for noun in NOUNS for number, form in enumerate(noun)}
SETS = make_agreement(300, 40, 50)


def parsed(text):
    """The nouns of a prefix; fails where it is not "The noun (preposition the noun)*"."""
    the, subject, *rest = text.split()
    assert the == "The" and len(rest) % 3 == 0
    for start in range(0, len(rest), 3):
        assert rest[start] in PREPOSITIONS and rest[start + 1] == "the"
    return [subject, *rest[2::3]]


def test_the_verb_follows_the_subject():
    for prefix in chain(SETS.train, SETS.dev, *SETS.tests):
        subject, *others = parsed(prefix.text)
        assert prefix.verb == ("is", "are")[NUMBER[subject]]
        assert prefix.attractors == sum(NUMBER[one] != NUMBER[subject] for one in others)
        assert prefix.between == len(others)


def test_forms_are_told_apart():
    assert len(NUMBER) == 2 * len(NOUNS)


def test_numbers_are_balanced_and_as_requested():
    assert [len(SETS.train), len(SETS.dev), *map(len, SETS.tests)] == [300, 40, 50, 50, 50, 50]
    for prefixes in (SETS.train, SETS.dev, *SETS.tests):
        assert sum(one.verb == "is" for one in prefixes) * 2 == len(prefixes)
    assert {(one.between, one.attractors) for one in SETS.train} == {(0, 0), (1, 0), (1, 1)}
    for number, test in enumerate(SETS.tests):
        assert {(one.between, one.attractors) for one in test} == {(3, number)}


def test_no_prefix_is_in_two_sets():
    texts = [one.text for one in chain(SETS.train, SETS.dev, *SETS.tests)]
    assert len(set(texts)) == len(texts)
    assert make_agreement(300, 40, 50) == SETS != make_agreement(300, 40, 50, seed=2)


def test_long_prefixes_have_the_requested_length():
    assert {len(one.text.split()) for one in long_prefixes(10, 12)} == {38}


def test_files_are_read_back(tmp_path):
    write(SETS, tmp_path)
    found = [(a, b) for _, a, b in read_pairs(Table(str(tmp_path / "attractors-2.tsv"), (0, 1)))]
    assert found == [(one.text, one.verb) for one in SETS.tests[2]]
