"""Pre-training XLNet on streams of text: memory is carried, also over a resume; it is learned."""

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.core.pytree import tensors_in
from regard.training.loop import train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.loop.trainer import Trainer
from regard.training.recipe import read
from regard.training.run import prepare
from small_documents import RECIPE, write_animals
from small_runs import ALONE, check_resume

MEMORY = "objective.permutation-lm.memory=20"
CHANGES = (
    ('kind = "wordpiece"\n', ""),
    ("mixed = true\n", ""),
    ('paper = "bert"\nsize = "tiny"', 'paper = "xlnet"'),
    ("heads = 2, longest = 32,", "heads = 2,"),
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = write_animals(tmp_path_factory.mktemp("animals"))
    recipe = RECIPE
    for before, after in CHANGES:
        assert before in recipe
        recipe = recipe.replace(before, after)
    (folder / "xlnet.toml").write_text(recipe)
    return folder


def prepared(corpus, out, *settings, resume=False):
    recipe = read(corpus / "xlnet.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume)


@pytest.mark.slow
def test_a_recipe_learns_the_objective_of_the_paper(corpus, tmp_path):
    once = [f"train.{what}=60" for what in ("steps", "evaluate_every", "checkpoint_every")]
    run = prepared(corpus, tmp_path / "run", *once)
    events = list(train(run.job))
    first, *_, last = [event.loss for event in events if isinstance(event, ReportEvent)]
    assert last < 0.8 * first
    (dev,) = [event.verdict.figures for event in events if isinstance(event, DevEvent)]
    assert dev["perplexity"] == pytest.approx(np.exp(dev["loss"])) and dev["accuracy"] > 10


@pytest.mark.slow
def test_resume_with_a_memory_is_exact(corpus, tmp_path):
    def begin(out, resume):
        return prepared(corpus, out, MEMORY, "train.steps=9", resume=resume)

    assert check_resume(begin, tmp_path, 6, 4).job.sampler.streams == 8
    assert prepared(corpus, tmp_path / "c", "train.steps=9").job.sampler.streams == 0


def test_memory_is_carried_and_starts_anew_with_each_epoch(corpus, tmp_path):
    trainer = Trainer(
        prepared(corpus, tmp_path, MEMORY, "model.change.depth=2", "train.steps=99").job
    )
    trainer.start(False)
    trainer.step()
    states = tensors_in(trainer.carried.tree)
    assert [one.shape for one in states] == [(8, 20, 32)] * 2
    assert all(one.any() and not one.requires_grad for one in states)
    assert not any(one.any() for one in tensors_in(trainer.carried.initial))


def test_too_few_rows_for_the_streams(corpus, tmp_path):
    with pytest.raises(BadInput, match="rows are too few for 3000 streams of text"):
        prepared(corpus, tmp_path, MEMORY, "batches.tokens=96000", "batches.rows=3000")
