"""A branch goes on exactly from a checkpoint of a run; with a setting changed, the two part."""

import json

import pytest
import torch

from regard.core.errors import BadInput
from regard.models.folders.folder import read as read_folder
from regard.training.branch import branch_run, origin_of
from regard.training.metrics_log import read_log
from regard.training.recipe import read
from regard.weights.files import weights_of
from small import write_corpus
from verb import run

KEPT = ("--set", "train.steps=12", "--set", "train.keep_every=4")
KEPT += ("--set", "train.checkpoint_every=2", "--set", "train.report_every=1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    train(folder, "whole")
    return folder


def train(folder, out, *options):
    recipe = ("train", str(folder / "small.toml"), "--data", str(folder))
    return run(*recipe, "--out", str(folder / out), *KEPT, *options)


def branched(folder, out, *options, at=4):
    return train(folder, out, "--branch", str(folder / "whole"), "--at", str(at), *options)


def losses(folder):
    return {event["step"]: event["loss"] for event in read_log(folder) if event["event"] == "train"}


def weights(folder):
    return weights_of(read_folder(folder / "model").module)


def test_a_run_keeps_checkpoints_for_branches(trained):
    names = {path.name for path in (trained / "whole" / "checkpoints").iterdir()}
    assert {"step-00000004", "step-00000008", "step-00000012"} <= names
    assert "step-00000006" not in names


def test_a_branch_without_a_change_repeats_the_run(trained):
    branched(trained, "same")
    assert origin_of(trained / "same")["changed"] == []
    assert losses(trained / "same") == losses(trained / "whole")
    one, other = weights(trained / "whole"), weights(trained / "same")
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_runs_part_after_the_checkpoint(trained):
    branched(trained, "faster", "--set", "optimiser.rate=0.02")
    before, after = losses(trained / "whole"), losses(trained / "faster")
    assert before.keys() == after.keys()
    same = [step for step in before if before[step] == after[step]]
    assert same == [1, 2, 3, 4, 5]  # the loss of a step is that before its update
    origin = {"run": "whole", "step": 4, "changed": ["optimiser.rate"]}
    assert origin_of(trained / "faster") == origin
    assert origin_of(trained / "whole") is None
    assert json.loads((trained / "faster" / "recipe.json").read_text())["optimiser"]["rate"] == 0.02


def test_a_branch_is_resumed_like_a_run(trained):
    branched(trained, "short", "--set", "train.steps=6")
    assert origin_of(trained / "short")["changed"] == ["train.steps"]
    branched(trained, "short", "--resume")
    assert losses(trained / "short") == losses(trained / "whole")


def test_a_branch_has_the_journal_up_to_its_step(trained, tmp_path):
    """Before it goes on, too, when it has no steps of its own."""
    recipe = read(trained / "small.toml", KEPT[1::2])
    assert branch_run(trained / "whole", 4, tmp_path / "out", recipe) == []
    whole = [event for event in read_log(trained / "whole") if event.get("step", 0) <= 4]
    assert read_log(tmp_path / "out") == whole and losses(tmp_path / "out").keys() == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("settings", "step", "message"),
    [
        ((), 5, "has no checkpoint of step 5, but: "),
        (("model.change.width=32",), 4, "model.change: differs from the recipe of "),
        (("batches.tokens=128",), 4, "batches.tokens: differs from the recipe of "),
        (("train.precision=bf16",), 4, "train.precision: differs from the recipe of "),
    ],
)
def test_what_cannot_be_a_branch_is_refused(trained, tmp_path, settings, step, message):
    recipe = read(trained / "small.toml", ["train.checkpoint_every=2", *settings])
    with pytest.raises(BadInput, match=message):
        branch_run(trained / "whole", step, tmp_path / "out", recipe)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_run_or_not_empty_is_refused(trained, tmp_path):
    recipe = read(trained / "small.toml", ["train.checkpoint_every=2"])
    with pytest.raises(BadInput, match=r"not the folder of a run: it has no recipe\.json"):
        branch_run(tmp_path, 4, tmp_path / "out", recipe)
    with pytest.raises(BadInput, match="is not empty; choose a new folder"):
        branch_run(trained / "whole", 4, trained / "whole", recipe)
