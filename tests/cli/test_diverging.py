"""A run whose loss explodes ends with one line and code 1, and keeps its best model."""

import pytest

from small_labels import write_owls
from verb import run


@pytest.fixture
def owls(tmp_path):
    recipe = write_owls(tmp_path)
    return "train", recipe, "--data", tmp_path, "--out", tmp_path / "run", "--device", "cpu"


@pytest.mark.parametrize("report_every", [1, 50])
def test_a_rate_that_is_far_too_high(owls, tmp_path, report_every):
    settings = ("optimiser.rate=1e8", f"train.report_every={report_every}")
    done = run(*owls, *(word for one in settings for word in ("--set", one)), code=1)
    message = done.stderr.splitlines()[-1]
    assert "training diverges" in message and "optimiser.rate" in message and "step" in message
    assert "no model was evaluated before" in message
    assert "(best)" not in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run" / "model").exists()


def test_the_model_of_an_interrupted_warmup_stays(owls, tmp_path):
    """The rate rises by the warm-up: evaluations before the explosion give a model."""
    rising = ("optimiser.rate=1e11", "optimiser.warmup=1000000000", "optimiser.schedule=constant")
    steep = ("optimiser.kind=sgd", "train.evaluate_every=1", "train.steps=60")
    settings = [word for one in (*rising, *steep) for word in ("--set", one)]
    done = run(*owls, *settings, code=1)
    model = tmp_path / "run" / "model"
    assert f"best model so far: {model} (step " in done.stderr.splitlines()[-1]
    assert run("predict", model, stdin="an owl\n").stdout
