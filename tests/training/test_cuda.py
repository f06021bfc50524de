"""Training on CUDA: compiled, captured and deterministic runs are the eager run."""

from itertools import islice

import pytest
import torch

from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import ReportEvent
from regard.training.loop.trainable import TrainableModel
from regard.training.loop.trainer import Trainer
from regard.training.recipe import read
from regard.training.run import prepare
from small import regard, tensors_of, write_corpus
from small_documents import write_animals
from small_images import write_corners
from small_rnn import write_streams
from small_teacher import write_teacher

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the compiler's own
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),  # of TF32, and of leaves' gradients
]
WAYS = {"compiled": (True, False), "captured": (False, True), "both": (True, True)}
EVERY_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
STILL = ("model.change.dropout=0.0", "train.precision=fp32")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


@pytest.fixture(autouse=True)
def _from_the_start():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def prepared(corpus, out, *settings):
    recipe = read(corpus / "small.toml", settings)
    return prepare(recipe, out, World(0, 1, torch.device("cuda", 0)), data=corpus)


def choose_way(monkeypatch, compiles, captures):
    monkeypatch.setattr(TrainableModel, "compiles", compiles)
    monkeypatch.setattr(TrainableModel, "captures", captures)


def losses(job):
    return [event.loss for event in train(job) if isinstance(event, ReportEvent)]


def gradients(job, batches):
    """Of each of the first batches, with the weights a run begins with."""
    trainer = Trainer(job)
    trainer.start(False)
    model = trainer.trainable
    model.model.train()
    found = []
    for rows in islice(trainer.steps, batches):
        (part,) = rows.slices
        weight = sum(map(job.objective.weight, part.examples))
        assert weight == rows.weight
        model.run_slice(part.examples, 1 / weight, None, last=True)
        found.append({name: one.grad.clone() for name, one in model.model.named_parameters()})
        for parameter in model.model.parameters():
            parameter.grad.zero_()
    return found, model


@EVERY_WAY
def test_a_translator_learns_as_in_eager_steps(corpus, tmp_path, monkeypatch, way):
    choose_way(monkeypatch, False, False)
    eager = losses(prepared(corpus, tmp_path / "eager", *STILL).job)
    choose_way(monkeypatch, *way)
    found = losses(prepared(corpus, tmp_path / "found", *STILL).job)
    assert len(eager) == 12 and eager[-1] < eager[0]
    assert found == pytest.approx(eager, rel=5e-3)


RECURRENT = {
    "bahdanau": {"paper": "bahdanau", "change.maxout": 16},
    "luong": {"paper": "luong", "change.depth": 1},
    "sutskever": {"paper": "sutskever", "change.depth": 2},
}


@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_translator_learns_as_in_eager_steps(corpus, tmp_path, monkeypatch, name):
    """Captured by shape, against ragged rows in a loop."""
    sizes = {"change.width": 16, "change.embedding": 16, "size": "laptop"}
    model = [f"model.{key}={value}" for key, value in (RECURRENT[name] | sizes).items()]
    settings = [*STILL, "model.change.heads=", "model.change.inner=", "model.change.depth=", *model]
    with monkeypatch.context() as patched:
        patched.setattr(TrainableModel, "_replayable", False)
        eager = losses(prepared(corpus, tmp_path / "eager", *settings).job)
    job = prepared(corpus, tmp_path / "found", *settings).job
    assert job.in_rectangles
    assert len(eager) == 12 and eager[-1] < eager[0]
    assert losses(job) == pytest.approx(eager, rel=5e-3)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_a_language_model_over_streams_learns_as_in_eager_steps(tmp_path, monkeypatch, cell):
    """Captured by the random length of the parts; the state is carried from graph to graph."""
    write_streams(tmp_path)
    settings = [*STILL, "objective.causal-lm.mean_length=12", "train.steps=24"]

    def found(name):
        recipe = read(tmp_path / "lstm.toml", [*settings, f"model.change.cell={cell}"])
        world = World(0, 1, torch.device("cuda", 0))
        return losses(prepare(recipe, tmp_path / name, world, data=tmp_path).job)

    with monkeypatch.context() as patched:
        patched.setattr(TrainableModel, "_replayable", False)
        eager = found("eager")
    assert eager[-1] < eager[0]
    assert found("captured") == pytest.approx(eager, rel=5e-3)


@EVERY_WAY
def test_gradients_are_those_of_eager_steps(corpus, tmp_path, monkeypatch, way):
    choose_way(monkeypatch, False, False)
    eager, _ = gradients(prepared(corpus, tmp_path / "eager", *STILL).job, 3)
    choose_way(monkeypatch, *way)
    found, _ = gradients(prepared(corpus, tmp_path / "found", *STILL).job, 3)
    torch.testing.assert_close(found, eager, rtol=1e-3, atol=1e-5)


@EVERY_WAY
@pytest.mark.parametrize("tokens", ["masked", "all"])
def test_a_student_learns_as_in_eager_steps(tmp_path, monkeypatch, way, tokens):
    write_animals(tmp_path, documents=10)
    write_teacher(tmp_path / "teacher")
    settings = (
        *("model.start=teacher", "model.layers=every second", "model.size=", "text=false"),
        *("model.change={dropout=0.0, attention_dropout=0.0}", "objective.next-sentence=false"),
        *("objective.distillation.teacher=teacher", f"objective.distillation.tokens={tokens}"),
    )

    def found(name):
        recipe, cuda = read(tmp_path / "animals.toml", settings), torch.device("cuda", 0)
        return losses(prepare(recipe, tmp_path / name, World(0, 1, cuda), data=tmp_path).job)

    choose_way(monkeypatch, False, False)
    eager = found("eager")
    choose_way(monkeypatch, *way)
    assert len(eager) == 12 and eager[-1] < eager[0]
    assert found("found") == pytest.approx(eager, rel=5e-3)


def test_the_loop_compiles_and_captures_on_its_own(corpus, tmp_path):
    model = TrainableModel(prepared(corpus, tmp_path / "run", *STILL).job)
    assert model.compiles and model.captures


def test_several_sizes_are_graphs_in_one_pool(corpus, tmp_path, monkeypatch):
    """Each replays its own batch, in whatever order they come."""
    sizes = (*STILL, "batches.pad_to_multiple=16")
    one_shape, plain = gradients(
        prepared(corpus, tmp_path / "whole", *STILL, "train.compile=false").job, 9
    )
    found, run = gradients(prepared(corpus, tmp_path / "found", *sizes).job, 9)
    assert not run.compiles and len(plain.run_batch.graphs) == 1 < len(run.run_batch.graphs)
    torch.testing.assert_close(found, one_shape, rtol=1e-3, atol=1e-5)
    monkeypatch.setattr(TrainableModel, "captures", False)
    eager = losses(prepared(corpus, tmp_path / "eager", *sizes).job)
    monkeypatch.undo()
    assert losses(prepared(corpus, tmp_path / "sizes", *sizes).job) == pytest.approx(
        eager, rel=5e-3
    )


@pytest.mark.parametrize("compiles", ["false", pytest.param("true", marks=pytest.mark.slow)])
def test_a_deterministic_run_resumes_bit_for_bit(corpus, tmp_path, compiles):
    """With dropout, in processes of their own: the choice holds for a whole process."""

    def trained(name, steps, *words):
        settings = ("--set", f"train.steps={steps}", "--set", f"train.compile={compiles}")
        place = ("--data", corpus, "--out", tmp_path / name, "--device", "cuda", "--deterministic")
        done = regard("train", corpus / "small.toml", *place, *settings, *words)
        assert done.returncode == 0, done.stderr
        return tmp_path / name

    whole = trained("whole", 9)
    trained("parts", 6)
    parts = trained("parts", 9, "--resume")
    found, wanted = tensors_of(parts, 9), tensors_of(whole, 9)
    assert wanted and found == wanted


@EVERY_WAY
def test_a_model_of_images_learns_as_in_eager_steps(tmp_path, monkeypatch, way):
    """Augmented and mixed inside the step: what is drawn follows from keys of the batch."""
    write_corners(tmp_path)

    def job(name):
        recipe = read(tmp_path / "corners.toml", ["train.steps=12", "train.report_every=1"])
        device = World(0, 1, torch.device("cuda", 0))
        return prepare(recipe, tmp_path / name, device, data=tmp_path).job

    choose_way(monkeypatch, False, False)
    eager = losses(job("eager"))
    choose_way(monkeypatch, *way)
    assert len(eager) == 12 and losses(job("found")) == pytest.approx(eager, rel=5e-3)
