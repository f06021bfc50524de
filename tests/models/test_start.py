"""A model that starts from some of the layers of another."""

from dataclasses import replace

import pytest
import torch

from regard.core.errors import BadInput
from regard.models import start as starts
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.label_heads import LabelHead
from regard.models.model_tables import ModelConfig
from regard.models.papers import albert, bert, lin
from regard.models.pools import FirstToken
from regard.models.start import read_start, select_layers
from regard.text.label_sets import SingleLabelSet
from regard.training.recipe import read
from regard.training.run import prepare
from regard.weights.files import weights_of
from small_documents import write_animals
from small_runs import ALONE
from small_teacher import write_teacher
from small_tuning import write_tuning


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A BERT of five layers with a masked-LM head."""
    return write_teacher(tmp_path_factory.mktemp("teacher") / "model")


def block(weights, number):
    start = f"trunk.blocks.{number}."
    return {name[len(start) :]: one for name, one in weights.items() if name.startswith(start)}


def others(weights):
    return {name: one for name, one in weights.items() if not name.startswith("trunk.blocks.")}


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("layers", "chosen"), [([0, 2, 4], [0, 2, 4]), ("every second", [0, 2, 4]), ([3, 1], [3, 1])]
)
def test_the_chosen_layers_are_those_of_the_start_and_all_else_is_taken_over(
    teacher, tmp_path, layers, chosen
):
    whole = folders.read(teacher)
    start = read_start(ModelConfig(start=str(teacher), layers=layers), tmp_path)
    assert start.facts == change(whole.facts, depth=len(chosen))
    ours, theirs = weights_of(start.module), weights_of(whole.module)
    for number, original in enumerate(chosen):
        assert same(block(ours, number), block(theirs, original))
    assert not block(ours, len(chosen))
    assert same(others(ours), others(theirs))


def test_a_start_draws_no_random_numbers(teacher, tmp_path):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    read_start(ModelConfig(start=str(teacher), layers=[1]), tmp_path)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("task", ["classify", "pretrain"])
def test_runs_start_from_the_chosen_layers(teacher, tmp_path, task):
    if task == "classify":
        path = write_tuning(tmp_path, "one")
    else:
        path = write_animals(tmp_path, documents=8) / "animals.toml"
    settings = (
        *(f"model.start={teacher}", "model.size=", "text=false", "model.layers=[1, 4]"),
        *("model.change={dropout=0.0}", "objective.next-sentence=false"),
    )
    recipe = read(path, settings[: 5 if task == "classify" else 6])
    run = prepare(recipe, tmp_path / "run", ALONE, data=tmp_path)
    assert run.facts.trunk.stack.depth == 2
    ours, theirs = weights_of(run.job.model), weights_of(folders.read(teacher).module)
    assert same(block(ours, 0), block(theirs, 1)) and same(block(ours, 1), block(theirs, 4))
    taken = [name for name in ours if name in theirs and not name.startswith("trunk.blocks.")]
    assert {"trunk.embed.token.weight"} < {*taken}
    assert ("pool.dense.weight" if task == "classify" else "heads.mlm.dense.weight") in taken
    assert all(torch.equal(ours[name], theirs[name]) for name in taken)


def test_a_start_may_have_an_id_of_the_hub(teacher, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(starts, "fetch", lambda name: asked.append(name) or teacher)
    start = read_start(ModelConfig(start="bert-base-uncased"), tmp_path)
    assert asked == ["bert-base-uncased"]
    assert same(weights_of(start.module), weights_of(folders.read(teacher).module))


def test_a_distilbert_starts_from_a_bert_without_its_segments_and_pool(teacher, tmp_path):
    config = ModelConfig(paper="distilbert", start=str(teacher), layers="every second")
    start, whole = read_start(config, tmp_path), folders.read(teacher)
    assert start.paper.name == "DistilBERT"
    assert start.facts.pool is None and start.facts.trunk.embed.segments == 0
    assert start.facts.trunk.stack.attention_output_dropout == 0
    ours, theirs = weights_of(start.module), weights_of(whole.module)
    dropped = {"trunk.embed.segment.weight", "pool.dense.weight", "pool.dense.bias"}
    assert others(theirs).keys() - others(ours).keys() == dropped
    assert all(torch.equal(one, theirs[name]) for name, one in others(ours).items())
    assert same(block(ours, 2), block(theirs, 4))
    folders.write(tmp_path / "hf", start, "hf")
    assert same(weights_of(folders.read(tmp_path / "hf").module), ours)


def test_labels_of_a_head_that_a_distilbert_drops_are_dropped(teacher, tmp_path):
    whole = folders.read(teacher)
    facts = whole.facts.with_heads(LabelHead(2))
    labels = SingleLabelSet(("no", "owl"))
    tuned = replace(whole, facts=facts, module=facts.build(), labels=labels)
    folders.write(tmp_path / "tuned", tuned)
    settings = (f"model.start={tmp_path / 'tuned'}", "model.size=", "text=false", "model.change={}")
    path = write_tuning(tmp_path, "one")
    recipe = read(path, [*settings, "model.paper=distilbert"])
    run = prepare(recipe, tmp_path / "run", ALONE, data=tmp_path)
    assert run.facts.pool == FirstToken(dense=False)
    ours, theirs = (one.heads.label.out.weight for one in (run.job.model, tuned.module))
    assert not torch.isin(ours, theirs).any()


@pytest.mark.parametrize(
    ("facts", "layers", "said"),
    [
        (bert.TINY, [0, 2], "model.layers: no layer 2 in model.start, which has 0 to 1"),
        (albert.BASE, [0], "must be a Transformer whose layers share no weights"),
        (lin.BASE, [0], "must be a Transformer whose layers share no weights"),
    ],
)
def test_layers_that_are_not_there_are_refused(facts, layers, said):
    with torch.device("meta"):
        model = folders.LoadedModel(bert.PAPER, facts, facts.build())
    with pytest.raises(BadInput, match=said):
        select_layers(model, layers)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["model.layers=[0]"],
            "layers selects layers of the whole model of start: set model.start",
        ),
        (["model.start=a", "model.layers=[]"], "model.layers"),
        (["model.start=a", "model.layers=[-1]"], "model.layers"),
        (["model.start=a", "model.layers=some"], "model.layers: Input should be 'all' or 'every"),
    ],
)
def test_a_key_that_names_no_layers_is_one_line(tmp_path, settings, said):
    path = write_tuning(tmp_path, "one")
    with pytest.raises(BadInput, match=said) as refused:
        read(path, ["model.size=", "text=false", *settings])
    assert "\n" not in str(refused.value)
