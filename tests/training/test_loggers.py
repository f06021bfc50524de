"""Loggers of other projects, with stand-ins for their packages."""

import json
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

import regard
from regard.core.errors import BadInput
from regard.training.metrics_log import LOGGERS, check_loggers
from small import write_corpus
from verb import run


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path)
    return tmp_path


def module(monkeypatch, name, **content):
    """A package of this name."""
    package = ModuleType(name)
    package.__spec__ = ModuleSpec(name, None)
    vars(package).update(content)
    monkeypatch.setitem(sys.modules, name, package)


@pytest.fixture
def wandb(monkeypatch):
    """Calls of W&B, in order."""
    calls = []

    def init(**settings):
        calls.append(("init", settings))
        return SimpleNamespace(
            id=settings["id"] or f"id-{len(calls)}",
            log=lambda numbers, step: calls.append(("log", step, numbers)),
            finish=lambda exit_code: calls.append(("finish", exit_code)),
        )

    module(monkeypatch, "wandb", init=init)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return calls


@pytest.fixture
def mlflow(monkeypatch):
    """Calls of MLflow, in order."""
    calls = []

    def start_run(**settings):
        calls.append(("start_run", settings))
        return SimpleNamespace(info=SimpleNamespace(run_id=settings["run_id"] or "a1"))

    others = {
        name: lambda *values, called=name, **settings: calls.append((called, *values, settings))
        for name in ("set_experiment", "log_params", "log_metrics", "end_run")
    }
    module(monkeypatch, "mlflow", start_run=start_run, **others)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    return calls


def train(corpus, *more, code=0):
    place = ("--data", corpus, "--out", corpus / "run", "--device", "cpu")
    return run("train", corpus / "small.toml", *place, *more, code=code)


def test_wandb_gets_the_recipe_and_all_figures(corpus, wandb):
    train(corpus, "--log", "wandb")
    (_, settings), *logged, finished = wandb
    assert settings["project"] == "regard" and settings["name"] == "run"
    assert settings["config"]["optimiser"]["rate"] == 0.01
    assert settings["id"] is None and finished == ("finish", 0)
    lines = [
        json.loads(line) for line in (corpus / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert [step for _, step, _ in logged] == [line["step"] for line in lines]
    assert logged[0][2]["train/loss"] == lines[0]["loss"]
    assert [numbers["dev/loss"] for _, _, numbers in logged if "dev/loss" in numbers] == [
        line["loss"] for line in lines if line["event"] == "dev"
    ]


def test_a_resumed_run_continues_in_the_same_run_of_wandb(corpus, wandb):
    train(corpus, "--log", "wandb")
    del wandb[:]
    train(corpus, "--log", "wandb", "--resume", "--set", "train.steps=15")
    (_, settings), *logged, _ = wandb
    assert settings["id"] == "id-1" and settings["resume"] == "allow"
    assert min(step for _, step, _ in logged) == 13


def test_mlflow_gets_the_recipe_and_all_figures(corpus, mlflow):
    train(corpus, "--log", "mlflow")
    assert mlflow[0] == ("set_experiment", "regard", {})
    assert mlflow[1] == ("start_run", {"run_id": None, "run_name": "run"})
    parameters = mlflow[2][1]
    assert parameters["optimiser.rate"] == "0.01" and parameters["train.steps"] == "12"
    assert all(isinstance(value, str) and len(value) <= 250 for value in parameters.values())
    first = mlflow[3]
    assert first[0] == "log_metrics" and first[2] == {"step": 1} and "train/loss" in first[1]
    assert mlflow[-1] == ("end_run", "FINISHED", {})


def test_a_run_that_fails_is_marked_so(corpus, mlflow, wandb):
    train(corpus, "--log", "mlflow", "--log", "wandb", "--set", "optimiser.rate=1e30", code=1)
    assert mlflow[-1] == ("end_run", "FAILED", {}) and wandb[-1] == ("finish", 1)


def test_loggers_of_the_api(corpus, wandb):
    list(regard.train(corpus / "small.toml", corpus, corpus / "run", loggers=["wandb"]))
    assert wandb[-1] == ("finish", 0)


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_package_that_is_missing_is_one_line_and_nothing_is_written(corpus, monkeypatch, name):
    monkeypatch.setattr("regard.training.metrics_log.find_spec", lambda package: None)
    done = train(corpus, "--log", name, code=2)
    (line,) = done.stderr.splitlines()
    assert f"logger {name}: its package is not installed" in line
    assert f"pip install 'regard[{name}]'" in line
    assert not (corpus / "run").exists()
    with pytest.raises(BadInput, match="not installed"):
        regard.train(corpus / "small.toml", corpus, corpus / "run", loggers=[name])


def test_an_unknown_logger_is_refused():
    with pytest.raises(BadInput, match=r"^no logger is called 'wandbb'; did you mean 'wandb'"):
        check_loggers(["wandbb"])


def test_a_logger_that_cannot_be_opened_is_one_line(corpus, monkeypatch):
    def init(**settings):
        raise ConnectionError("no\nnetwork")

    module(monkeypatch, "wandb", init=init)
    done = train(corpus, "--log", "wandb", code=2)
    assert done.stderr.splitlines()[-1] == "regard: logger wandb: ConnectionError: no network"


def test_a_logger_that_fails_does_not_end_the_run(corpus, wandb, monkeypatch):
    def log(self, numbers, step):
        raise ConnectionError("gone")

    monkeypatch.setattr(LOGGERS["wandb"], "log", log)
    with pytest.warns(RuntimeWarning, match=r"wandb fails and gets no more figures: gone") as seen:
        train(corpus, "--log", "wandb")
    assert len(seen) == 1
    assert (corpus / "run" / "model").exists()


def test_tensorboard_is_used_where_it_is_installed(corpus, monkeypatch):
    values = []

    class SummaryWriter:
        def __init__(self, folder, purge_step):
            values.append((folder, purge_step))

        def add_scalar(self, name, value, step):
            values.append((name, step))

        def close(self):
            values.append("closed")

    module(monkeypatch, "tensorboard")
    module(monkeypatch, "torch.utils.tensorboard", SummaryWriter=SummaryWriter)
    train(corpus)
    assert values[0] == (str(corpus / "run" / "tensorboard"), 1)
    assert ("train/loss", 1) in values and ("dev/loss", 12) in values and values[-1] == "closed"
