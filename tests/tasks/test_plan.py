"""A recipe is resolved once: into facts, a start, a tokenizer, and one pool."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from regard.core.errors import BadInput
from regard.models.folders import folder as folders
from regard.models.heads import NextTokenHead
from regard.models.label_heads import LabelHead, TokenLabelHead
from regard.models.model_tables import ModelConfig
from regard.models.papers import bert
from regard.models.pools import FirstToken, LastToken, MeanPool
from regard.models.start import _read
from regard.tasks.plan import resolve_trunk
from regard.training.distributed import World
from regard.training.recipe import read, task_of
from regard.training.run import prepare
from small_bert import small_bert, vocabulary
from small_tuning import write_tuning

TASKS = Path(__file__).parents[2] / "src" / "regard" / "tasks"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_tuning(folder, "one")
    return folder


def tables(corpus, **model):
    recipe = read(write_tuning(corpus, "one"))
    return replace(recipe.tables, model=ModelConfig(**model))


def pool_of(tables, head):
    return resolve_trunk(tables, Path(), lambda facts: (head,), add_pool=True).facts.pool


@pytest.mark.parametrize(
    ("model", "head", "pool"),
    [
        ({"paper": "bert", "size": "tiny"}, TokenLabelHead(1), None),  # no head reads rows
        ({"paper": "gpt-2"}, NextTokenHead(), None),
        ({"paper": "bert", "size": "tiny"}, LabelHead(1), FirstToken()),  # the model's own
        ({"paper": "roberta"}, LabelHead(1), FirstToken(dense=False)),  # the paper's, of its head
        ({"paper": "zaremba"}, LabelHead(1), LastToken()),  # by the stack: causal
        ({"paper": "dai"}, LabelHead(1), LastToken()),
        ({"paper": "bert", "size": "tiny", "change": {"pool": "mean"}}, LabelHead(1), MeanPool()),
    ],
)
def test_one_place_decides_the_pool(corpus, model, head, pool):
    assert pool_of(tables(corpus, **model), head) == pool


def test_a_start_keeps_its_pool(corpus, tmp_path):
    start = small_bert("states")
    facts = replace(start.facts, pool=MeanPool(), output_heads=())
    folders.write(tmp_path / "start", replace(start, facts=facts, module=facts.build().eval()))
    _read.cache_clear()
    assert pool_of(tables(corpus, start=str(tmp_path / "start")), LabelHead(1)) == MeanPool()


def test_a_folder_is_read_once_for_a_whole_run(corpus, tmp_path, monkeypatch):
    folders.write(tmp_path / "start", small_bert("states"))
    _read.cache_clear()
    reads = []
    before = folders.read
    monkeypatch.setattr(folders, "read", lambda *given: reads.append(given[0]) or before(*given))
    settings = [f"model.start={tmp_path / 'start'}", "model.size=", "model.change=false"]
    recipe = read(write_tuning(corpus, "one"), [*settings, "text=false"])
    run = prepare(recipe, tmp_path / "run", World.join("cpu"), data=corpus)
    run.release()
    assert reads == [tmp_path / "start"]
    assert run.tokenizer.words.fingerprint == vocabulary().words.fingerprint
    assert run.facts.sizes["tokens"] == small_bert("states").facts.sizes["tokens"]


def test_the_data_decides_the_sizes_that_a_plan_leaves_open(corpus, tmp_path):
    recipe = read(write_tuning(corpus, "one"))
    task = task_of(recipe)
    plan = task.resolve(corpus)
    assert plan.start is plan.tokenizer is None and plan.paper.key == bert.PAPER.key
    run = prepare(recipe, tmp_path / "run", World.join("cpu"), data=corpus)
    run.release()
    fitted = plan.fit(run.tokenizer, run.labels)
    assert fitted == run.facts != plan.facts
    assert fitted.sizes["tokens"] == len(run.tokenizer.words)
    assert fitted.sizes["labels"] == len(run.labels)


def test_no_task_knows_the_recipe():
    """Tasks get a plan and tables; recipes stand two floors above."""
    for path in TASKS.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = (isinstance(node, ast.Name) and node.id) or (
                isinstance(node, ast.Attribute) and node.attr
            )
            assert named != "recipe", f"{path.name}:{node.lineno}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["images.flip=true"], "images.flip cannot be used with a model that reads texts"),
        (["model.vectors=x.txt"], "model.vectors needs a vocabulary of words: choose another"),
    ],
)
def test_a_reason_is_the_real_one(corpus, settings, message):
    with pytest.raises(BadInput, match=message):
        task_of(read(write_tuning(corpus, "one"), settings)).resolve(corpus)


def test_a_start_of_another_shape_is_named_by_its_key(corpus, small_run):
    start = small_run / "run" / "model"
    with pytest.raises(BadInput, match=rf"^model\.start: {start} is an encoder-decoder"):
        pool_of(tables(corpus, start=str(start)), LabelHead(1))


def test_texts_for_a_model_of_images_are_named_by_their_line(corpus, tmp_path):
    settings = ["model.paper=vit", "model.size=tiny", "model.change=false", "text=false"]
    recipe = read(write_tuning(corpus, "one"), settings)
    with pytest.raises(BadInput, match=r":\d+: .* is not a file; the model reads images"):
        prepare(recipe, tmp_path / "run", World.join("cpu"), data=corpus)
    assert not (tmp_path / "run").exists()
