"""One process and two agree."""

import json
import sys

import pytest

from small import environment, write_corpus


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_ranks_give_the_same_losses(tmp_path, accumulate):
    import subprocess

    recipe = write_corpus(tmp_path)
    changes = ("--set", "model.change.dropout=0.0", "--set", f"batches.accumulate={accumulate}")

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
    together = losses("together", *torchrun, "--master-port", str(29_500 + accumulate))
    assert len(alone) == 14
    assert together == pytest.approx(alone, abs=1e-5)
