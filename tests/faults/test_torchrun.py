"""One process and two agree."""

import json
import sys

import pytest

from small import environment, write_corpus

RECURRENT = ("model.paper=bahdanau", "model.change={width=16, embedding=16, maxout=16}")


@pytest.mark.parametrize(("accumulate", "model"), [(1, ()), (2, ()), (1, RECURRENT)])
def test_two_ranks_give_the_same_losses(tmp_path, accumulate, model):
    import subprocess

    recipe = write_corpus(tmp_path)
    settings = (*model, "model.change.dropout=0.0", f"batches.accumulate={accumulate}")
    changes = [word for setting in settings for word in ("--set", setting)]

    def losses(name, *launcher):
        out = tmp_path / name
        words = ["train", recipe, "--data", tmp_path, "--out", out, *changes, "--device", "cpu"]
        done = subprocess.run(
            [*launcher, "-m", "regard", *map(str, words)],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines]

    alone = losses("alone", sys.executable)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    together = losses("together", *torchrun, "--master-port", str(29_500 + accumulate + len(model)))
    assert len(alone) == 14
    assert together == pytest.approx(alone, abs=1e-5)


def test_a_batch_of_fewer_rows_than_ranks(tmp_path):
    """One rank has nothing to do and must still meet the others."""
    from regard.ground.batch import Budget
    from regard.models.facts import change
    from regard.models.transformer import LAPTOP, Transformer
    from regard.objectives.translated import Translated

    model = Transformer(change(LAPTOP, vocab=20, width=16, inner=32, heads=2, depth=1))
    objective = Translated(1, 2)
    for budget in (None, Budget(16, 4, 8)):
        model.zero_grad()
        loss, _ = objective(model, objective.collate([], budget))
        loss.backward()
        assert loss == 0
        assert all(parameter.grad is not None for parameter in model.parameters())
