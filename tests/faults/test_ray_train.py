"""Ray Train starts the processes of a run, as on the page docs/several-machines.md."""

import os
import sys
from importlib.util import find_spec

import pytest

from small import write_corpus
from small_ranks import STILL, losses_of
from verb import run

MISSING = [name for name in ("ray", "pandas", "pyarrow") if find_spec(name) is None]


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.filterwarnings("ignore")  # of Ray
def test_two_workers_of_ray_train_give_the_losses_of_one_process(tmp_path, monkeypatch):
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    recipe = write_corpus(tmp_path)
    words = ("train", recipe, "--data", tmp_path, "--device", "cpu", "--set", STILL)
    run(*words, "--out", tmp_path / "alone")

    def train(config):
        import regard

        for _ in regard.train(**config, device="cpu"):
            pass

    config = {"recipe": str(recipe), "data": str(tmp_path), "out": str(tmp_path / "together")}
    config["settings"] = {"model.change.dropout": 0.0}
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    ray.init(address="local", num_cpus=3, log_to_driver=False)  # the controller has one
    try:
        TorchTrainer(
            train,
            train_loop_config=config,
            scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
            run_config=RunConfig(storage_path=str(tmp_path / "ray")),
        ).fit()
    finally:
        ray.shutdown()
    alone, together = losses_of(tmp_path / "alone"), losses_of(tmp_path / "together")
    assert len(alone) == 14 and together == pytest.approx(alone, abs=1e-5)
