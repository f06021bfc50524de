"""Recurrent translators train, resume and are looked into like any other."""

from dataclasses import replace

import pytest
import torch

from regard.api import load
from regard.core.batch import IGNORED
from regard.core.errors import BadInput
from regard.generation.beam import Beam
from regard.generation.exact import Exact
from regard.generation.greedy import Greedy
from regard.generation.sample import Sample
from regard.models.encoder_decoder import EncoderDecoderModule
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import ReportEvent
from regard.training.loop.trainable import TrainableModel
from regard.training.recipe import read
from regard.training.run import prepare
from regard.weights.files import weights_of
from small import RECIPE, write_corpus

ALONE = World(0, 1, torch.device("cpu"))
SMALL = "width = 16, embedding = 16, dropout = 0.1"
STARK = "train.smoothing=0.0"
MODELS = {
    "sutskever": f'paper = "sutskever"\nchange = {{ {SMALL} }}',
    "bahdanau": f'paper = "bahdanau"\nchange = {{ {SMALL}, maxout = 16 }}',
    "luong": f'paper = "luong"\nchange = {{ {SMALL}, depth = 1 }}',
    "recurrent to trunk": 'paper = "bahdanau"\ntarget = "transformer:laptop"\n'
    'change = { "source.width" = 16, embedding = 16, "target.width" = 16, heads = 2, inner = 32 }',
    "trunk to recurrent": 'paper = "luong"\nsource = "transformer:laptop"\n'
    "change = { width = 16, embedding = 16, heads = 2, inner = 32, depth = 1 }",
}


def write_recipes(folder, **sizes):
    """A corpus, and a recipe for each model."""
    write_corpus(folder, **sizes)
    start, end = RECIPE.index("[model]"), RECIPE.index("[batches]")
    for name, model in MODELS.items():
        text = f'{RECIPE[:start]}[model]\nsize = "laptop"\n{model}\n\n{RECIPE[end:]}'
        (folder / f"{name}.toml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_recipes(tmp_path_factory.mktemp("corpus"))


def prepared(corpus, out, name, *settings, resume=False):
    recipe = read(corpus / f"{name}.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume)


def losses(run, resume=False):
    return [event.loss for event in train(run.job, resume=resume) if isinstance(event, ReportEvent)]


@pytest.mark.thinned
@pytest.mark.parametrize("name", MODELS)
def test_resume_is_exact(corpus, tmp_path, name):
    straight = prepared(corpus, tmp_path / "a", name)
    assert isinstance(straight.job.model, EncoderDecoderModule)
    all_losses = losses(straight)
    first, seen = prepared(corpus, tmp_path / "b", name), []
    for event in train(first.job):  # as if the process died between two checkpoints
        if isinstance(event, ReportEvent):
            seen.append(event.loss)
        if len(seen) == 8:
            break
    second = prepared(corpus, tmp_path / "b", name, resume=True)
    assert seen[:6] + losses(second, resume=True) == all_losses
    one, other = weights_of(straight.job.model), weights_of(second.job.model)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_side_of_another_paper_must_be_there(corpus, tmp_path):
    with pytest.raises(BadInput, match="no paper is called 'xlm'"):
        prepared(corpus, tmp_path / "a", "bahdanau", "model.source=xlm:base")
    with pytest.raises(BadInput, match="share embeddings only if their shapes agree"):
        prepared(
            corpus,
            tmp_path / "a",
            "luong",
            "model.paper=transformer",
            "model.source=bahdanau:base",
            "model.change.depth=1",
        )


@pytest.mark.parametrize("name", ["bahdanau", "sutskever", "trunk to recurrent"])
def test_batches_on_cuda_are_padded_rectangles_of_few_shapes(corpus, tmp_path, name):
    run = prepared(corpus, tmp_path / "a", name)
    model = TrainableModel(run.job)
    model.world = World(0, 1, torch.device("cuda"))  # as the loop would see it there
    assert model.captures and not model.compiles
    batch = model._collate([([5] * 9, [6] * 3), ([7], [8, 9])])
    source, target = batch.inputs.source, batch.inputs.target
    assert (source.layout.rows, source.layout.longest) == (32, 16)
    assert (target.layout.rows, target.layout.longest) == (32, 8)
    assert source.layout.even and source.layout.lengths is None
    assert source.layout.lengths_B[:3].tolist() == [10, 2, 0]
    assert source.layout.pad(source.tokens_T)[1, :3].tolist() == [7, run.job.objective.eos, 0]
    assert (batch.targets["next_token"] == IGNORED).sum() == 32 * 8 - batch.weight == 32 * 8 - 7


@pytest.mark.parametrize(
    "setting", ["model.change.cell=rnn", "batches.mixed=true", "train.deterministic=true"]
)
def test_what_cannot_be_captured_has_free_shapes(corpus, tmp_path, setting):
    model = TrainableModel(prepared(corpus, tmp_path / "a", "sutskever", setting).job)
    model.world = World(0, 1, torch.device("cuda"))
    assert not model.captures and not model.compiles
    examples = [(list(range(5)), list(range(3)))]
    assert model._collate(examples).inputs.source.layout.lengths == (6,)


def trained(corpus, steps):
    """A model with attention."""
    every = [f"train.{what}_every={steps}" for what in ("report", "evaluate", "checkpoint")]
    wider = ("model.change.width=32", "model.change.embedding=32", "model.change.dropout=0.0")
    settings = (f"train.steps={steps}", *every, *wider, STARK)
    run = prepared(corpus, corpus / "run", "bahdanau", *settings)
    *_, ended = train(run.job)
    run.finish(ended.progress)
    return load(run.model_folder, "cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return trained(write_recipes(tmp_path_factory.mktemp("few"), train=100, longest=3), 40)


@pytest.mark.slow
def test_it_learns_to_reverse_and_every_search_runs(tmp_path):
    learned = trained(write_recipes(tmp_path, train=500, longest=3), 200)
    texts, wanted = ["ada bit cow", "dog", "elf fox"], ["cow bit ada", "dog", "fox elf"]
    for search in (Greedy(), Beam(3), Beam(3, coverage=0.1), Sample(top_k=1), Exact(length="none")):
        found = [one[0].text for one in learned.translate(texts, search)]
        assert found == wanted, search
    both = replace(learned.translator, others=(learned.translator,))
    assert [one[0].text for one in both.translate(texts, Beam(2))] == wanted


def test_translations_do_not_depend_on_the_batch(model):
    texts = ["ada bit cow dog", "elf", "fox gnu hen", "jay kid", "owl pig rat sow ada bit"]
    one_by_one = [model.translator.with_limits(1).translate([text], Beam(3))[0] for text in texts]
    together = model.translate(texts, Beam(3))
    for alone, among in zip(one_by_one, together, strict=True):
        assert [one.text for one in alone] == [one.text for one in among]
        assert alone[0].score == pytest.approx(among[0].score, abs=1e-5)


def test_look_and_align_read_its_attention(model):
    seen = model.look("ada bit cow")
    assert [one.name for one in seen.maps] == ["cross"]
    assert len(seen.maps[0].layers) == 1
    assert "ada" in seen.text(80) and seen.html().startswith("<!doctype html>")
    assert model.alignment_method.layer == 0
    (links,) = model.align([("ada bit cow", "cow bit ada")])
    assert links and all(0 <= i < 3 and 0 <= j < 3 for i, j in links)
    assert model.score([("ada bit", "bit ada")])[0][-1] < 0
    states = model.encode(["ada bit"], layer=1)
    assert states[0].shape[1] == 64 and model.embed(["ada"]).shape == (1, 64)


def test_a_folder_gives_it_back(model, tmp_path):
    model.save(tmp_path / "copy")
    again = load(tmp_path / "copy", "cpu")
    assert again.facts == model.facts and again.paper is model.paper
    one, other = weights_of(model.module), weights_of(again.module)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(BadInput, match="the hf format does not support"):
        model.save(tmp_path / "hf", format="hf")


def test_without_attention_there_is_one_clear_line(corpus, tmp_path):
    run = prepared(corpus, tmp_path / "run", "sutskever", "train.steps=2")
    *_, ended = train(run.job)
    run.finish(ended.progress)
    model = load(run.model_folder, "cpu")
    for work in (
        lambda: model.look("ada bit", "bit ada"),
        lambda: list(model.align([("ada", "ada")])),
        lambda: model.translate(["ada"], Beam(2, coverage=0.1)),
    ):
        with pytest.raises(BadInput, match="this model has no attention"):
            work()
