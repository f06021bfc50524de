"""What a run writes beside its checkpoints is whole or absent too."""

from dataclasses import replace

import numpy as np
import pytest

from regard.tasks.run_paths import RunPaths
from regard.text.tokenizers.subwords import Subwords
from regard.training.loop import train
from regard.training.recipe import read
from regard.training.run import prepare
from small import write_corpus
from small_runs import ALONE


def test_a_kill_between_two_vocabularies_leaves_neither(tmp_path, monkeypatch):
    """Else a resumed run would take the one for both, or refuse to go on."""
    recipe = read(write_corpus(tmp_path), ["text.joint=false", "train.steps=1"])
    save, saved = Subwords.save, []

    def killed(self, path):
        if saved:
            raise SystemExit
        saved.append(path)
        save(self, path)

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(Subwords, "save", killed)
        prepare(recipe, tmp_path / "run", ALONE, data=tmp_path)
    assert not list((tmp_path / "run").glob("text/*"))
    run = prepare(recipe, tmp_path / "run", ALONE, data=tmp_path, resume=True)
    assert list(train(run.job, resume=True))[-1].progress.step == 1


def test_an_array_is_computed_once_and_read_by_other_processes_and_resumed_runs(tmp_path):
    computed = []

    def compute():
        computed.append(1)
        return np.arange(6, dtype=np.float32).reshape(3, 2)

    leader = RunPaths(tmp_path, tmp_path / "run")
    expected = leader.keep_array("logits", compute)
    for other in (replace(leader, leads=False), replace(leader, resume=True)):
        np.testing.assert_array_equal(other.keep_array("logits", compute), expected)
    assert len(computed) == 1
    leader.keep_array("logits", compute)  # of a new run
    assert len(computed) == 2
