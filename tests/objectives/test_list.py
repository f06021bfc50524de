"""Recipes of pre-training list their objectives, each with a table of its own."""

import pytest

from regard.core.errors import BadInput
from regard.models.papers import LINEAGE
from regard.objectives.by_name import OBJECTIVES, ObjectiveTables, objectives_config
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.next_sentence import NextSentence, SentenceOrder
from regard.objectives.sum import Sum
from regard.training.recipe import read
from small_documents import RECIPE

REQUIRED = {"distillation": {"teacher": "folder"}}  # keys without a default


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "animals.toml"
    path.write_text(RECIPE)
    return path


def members(path, *settings):
    return read(path, settings).tables[ObjectiveTables].sum(0.0).members


def test_a_recipe_that_lists_none_learns_those_of_its_paper(recipe):
    assert members(recipe) == (MaskedLM(), NextSentence())
    assert members(recipe, "model.paper=roberta") == (MaskedLM(),)
    assert members(recipe, "model.paper=albert") == (MaskedLM(ngrams=3), SentenceOrder())
    changed = members(recipe, "objective.masked-lm.ngrams=2", "model.paper=albert")
    assert changed == (MaskedLM(ngrams=2), SentenceOrder())
    assert members(recipe, "model.paper=marian") == (MaskedLM(), NextSentence())


def test_objectives_have_their_names_in_the_catalogue():
    assert [kind.name for kind in OBJECTIVES.values()] == [*OBJECTIVES]
    assert [*objectives_config().model_fields] == [*OBJECTIVES]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["objective.masked-lm.rate=0.2"], (MaskedLM(rate=0.2), NextSentence())),
        (["objective.next-sentence.short=0.5"], (MaskedLM(), NextSentence(short=0.5))),
        (["objective.next-sentence=false"], (MaskedLM(),)),
        (["objective.masked-lm=false"], (NextSentence(),)),
        (["objective.masked-lm.ngrams=3"], (MaskedLM(ngrams=3), NextSentence())),
        (
            ["objective.next-sentence=false", "objective.sentence-order.short=0"],
            (MaskedLM(), SentenceOrder(short=0)),
        ),
    ],
)
def test_settings_change_one_objective_and_leave_the_other(recipe, settings, expected):
    assert members(recipe, *settings) == expected


def test_objectives_stand_in_the_order_in_which_they_are_listed(recipe):
    recipe.write_text(RECIPE + "\n[objective.next-sentence]\n[objective.masked-lm]\nrate = 0.3\n")
    assert members(recipe) == (NextSentence(), MaskedLM(rate=0.3))
    recipe.write_text(RECIPE + "\n[objective.masked-lm]\n")
    assert members(recipe) == (MaskedLM(),)


def test_false_removes_an_objective_that_a_recipe_is_like(recipe, tmp_path):
    recipe.write_text(RECIPE + "\n[objective.masked-lm]\nrate = 0.3\n[objective.next-sentence]\n")
    path = tmp_path / "mine.toml"
    path.write_text('like = "animals"\n[objective]\nnext-sentence = false\n')
    assert members(path) == (MaskedLM(rate=0.3),)
    path.write_text('like = "animals"\nobjective = false\n')
    assert members(path) == (MaskedLM(), NextSentence())


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("objective.maskd-lm.rate=0.2", "unknown key 'objective.maskd-lm'; did you mean 'masked-"),
        ("objective.masked-lm.rats=0.2", "unknown key 'objective.masked-lm.rats'; did you mean"),
        ("objective.masked-lm.rate=0", "objective.masked-lm.rate: Input should be greater than 0"),
        ("objective.masked-lm=true", "objective.masked-lm: write a table"),
        ("objective=3", "write it as table.key=value"),
    ],
)
def test_what_is_wrong_is_reported(recipe, setting, said):
    with pytest.raises(BadInput) as caught:
        read(recipe, [setting])
    assert said in str(caught.value)


def test_there_is_one_objective_at_least(recipe):
    with pytest.raises(BadInput, match="objective: list at least one objective"):
        members(recipe, "objective.masked-lm=false", "objective.next-sentence=false")


def test_only_one_objective_makes_the_rows():
    with pytest.raises(BadInput, match="next-sentence and next-sentence cannot be combined"):
        Sum(NextSentence(), MaskedLM(), NextSentence())


def test_other_tasks_have_no_objectives(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('like = "tour"\n[objective.masked-lm]\n')
    with pytest.raises(BadInput, match="objective cannot be used with task 'translate'"):
        read(path)


def test_every_objective_is_made_of_its_table():
    for name, objective in OBJECTIVES.items():
        made = objective.from_config(objective.config(**REQUIRED.get(name, {})), 0.1)
        assert made.name == name
        assert not objective.smooths or made.smoothing == 0.1


@pytest.mark.parametrize("paper", LINEAGE, ids=lambda paper: paper.key)
def test_papers_name_objectives_and_keys_that_there_are(paper):
    assert {*paper.pretraining_by_size} <= {*paper.sizes}
    assert all({*own} <= {*paper.pretraining} for own in paper.pretraining_by_size.values())
    for size in paper.sizes:
        for name, keys in paper.pretraining_of(size).items():
            OBJECTIVES[name].config(**REQUIRED.get(name, {}), **keys)


@pytest.mark.parametrize(
    ("size", "rate", "share"),
    [("small", 0.15, 1 / 4), ("base", 0.15, 1 / 3), ("large", 0.25, 1 / 4)],
)
def test_a_size_has_the_settings_that_its_paper_gives_it(recipe, size, rate, share):
    (_, detection) = members(recipe, "model.paper=electra", f"model.size={size}")
    assert (detection.generator.rate, detection.generator_size) == (rate, share)
