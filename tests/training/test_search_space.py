"""Ranges and lists of values: how they are read, and the trials made of them."""

import math
from random import Random

import pytest

from regard.core.errors import BadInput
from regard.training.search_space import SearchSpace, ValueList, ValueRange, parse_dimension


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("16,32,64", ("16", "32", "64")),
        ("linear, cosine", ("linear", "cosine")),
        ("[0.9, 0.98],[0.9, 0.999]", ("[0.9, 0.98]", "[0.9, 0.999]")),
        ('"a,b",c', ('"a,b"', "c")),
        ("1,1,2", ("1", "2")),
        ("1e-4..1e-2:log:3", ("0.0001", "0.001", "0.01")),
        ("0..1:5", ("0", "1")),
        ("0.0..1.0:5", ("0", "0.25", "0.5", "0.75", "1")),
        ("-1.5..1.5:2", ("-1.5", "1.5")),
        ("2..8:3", ("2", "5", "8")),
    ],
)
def test_values_of_a_grid(text, points):
    assert parse_dimension("key", text).points == points


@pytest.mark.parametrize(
    "text", ["3", "0.1", "[0.9, 0.98]", '"a,b"', "{ a = 1, b = 2 }", "word", ""]
)
def test_one_value_is_not_searched(text):
    assert parse_dimension("key", text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1..0", "the lower end of a range comes first"),
        ("1..1", "the lower end of a range comes first"),
        ("0..1:log", "a logarithmic range begins above 0"),
        ("1..2:1", "a range has 2 to"),
        ("1..2:lin", "write a range as low..high"),
        ("1..", "write a range as low..high"),
        ("1,,2", "a value of the list is empty"),
    ],
)
def test_wrong_values_are_named(text, message):
    with pytest.raises(BadInput, match=f"^setting key={text}: .*{message}"):
        parse_dimension("key", text)


def test_draws_lie_in_the_range_on_its_scale():
    draws = Random(0)
    plain, log = parse_dimension("a", "1e-4..1.0"), parse_dimension("a", "1e-4..1.0:log")
    values = [float(plain.draw(draws)) for _ in range(400)]
    assert min(values) >= 1e-4 and max(values) <= 1 and sum(v < 0.01 for v in values) < 20
    values = [float(log.draw(draws)) for _ in range(400)]
    assert min(values) >= 1e-4 and max(values) <= 1
    assert sum(v < 0.01 for v in values) == pytest.approx(200, abs=50)
    whole = parse_dimension("a", "2..5")
    assert {whole.draw(draws) for _ in range(200)} == {"2", "3", "4", "5"}


def test_a_grid_has_all_combinations_and_fixed_settings_in_each():
    space = SearchSpace.of(["a.x=1,2", "train.steps=9", "a.y=0.0..1.0:3", "a.z=[1, 2]"])
    trials = space.grid()
    assert len(trials) == 6 and trials[1] == {"a.x": "1", "a.y": "0.5"}
    assert space.settings(trials[1]) == ["train.steps=9", "a.z=[1, 2]", "a.x=1", "a.y=0.5"]


def test_a_grid_needs_points_and_has_a_limit():
    with pytest.raises(BadInput, match=r"^setting a.x: a grid needs the number of points .*trials"):
        SearchSpace.of(["a.x=0..1"]).grid()
    with pytest.raises(BadInput, match=r"a grid of 1,000,000 trials"):
        SearchSpace.of(["a.x=0.0..1.0:1000", "a.y=0.0..1.0:1000"]).grid()
    with pytest.raises(BadInput, match="no setting has several values"):
        SearchSpace.of(["a.x=1"])
    with pytest.raises(BadInput, match=r"a\.x: is searched twice"):
        SearchSpace.of(["a.x=1,2", "a.x=3,4"])


def test_random_trials_follow_from_the_seed_and_more_of_them_begin_the_same():
    space = SearchSpace.of(["a.x=0.0..1.0", "a.y=u,v"])
    few, many = space.random(3, seed=5), space.random(9, seed=5)
    assert many[:3] == few and len({trial["a.x"] for trial in many}) == 9
    assert space.random(3, seed=6) != few


def test_random_trials_of_a_finite_space_are_different():
    space = SearchSpace.of(["a.x=1,2,3", "a.y=u,v"])
    trials = space.random(4, seed=1)
    assert len({tuple(trial.values()) for trial in trials}) == 4
    assert space.random(6, seed=1)[:4] == trials
    assert len(space.random(100, seed=1)) == 6 == math.prod((3, 2))


def test_dimensions_are_values():
    assert parse_dimension("a", "1,2") == ValueList("a", ("1", "2"))
    assert parse_dimension("a", "1..2") == ValueRange("a", 1, 2, False, True)
