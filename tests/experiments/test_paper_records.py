"""Papers as listed from the table: sizes and changes are those of the facts."""

import pytest

from regard.core.errors import BadInput
from regard.experiments.paper_records import change_rows, find_size, lineage
from regard.models.facts import difference
from regard.models.papers import LINEAGE, sized

SIZES = [f"{paper.name}:{size}" for paper in LINEAGE for size in paper.sizes]


def plain(value):
    return value if isinstance(value, int | float | str | None) else str(value)


def test_papers_are_in_order():
    sizes = [(paper.key, list(paper.sizes)) for paper in lineage().values()]
    assert sizes == [(paper.key, list(paper.sizes)) for paper in LINEAGE]


@pytest.mark.parametrize("distance", [1, 7, 39])
def test_changed_facts_are_those_that_differ(distance):
    """Of encoders alone where only one of the two models has a decoder."""
    for before, after in zip(SIZES, SIZES[distance:] + SIZES[:distance], strict=True):
        one, other = sized(before), sized(after)
        alike = one.sides == other.sides
        changed = difference(one, other) if alike else difference(one.encoder, other.encoder)
        expected = [[path, *map(plain, values)] for path, values in changed.items()]
        rows = [list(row.values()) for row in change_rows(before, after)]
        training = rows[: len(rows) - len(expected)]
        assert rows[len(training) :] == expected
        assert alike == ("sides" not in [fact for fact, *_ in training])


@pytest.mark.parametrize("name", ["BRET", "no such paper", "bert:hug", "gpt-2:", ""])
def test_unknown_names_are_refused_in_the_words_of_the_library(name):
    with pytest.raises(BadInput) as ours:
        find_size(name)
    with pytest.raises(BadInput) as theirs:
        sized(name)
    assert str(ours.value) == str(theirs.value)
