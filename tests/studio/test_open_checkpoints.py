"""Which checkpoints stay open, whatever is in them: the model of each is made at once."""

import pytest

from regard.serving.settings import ServerSettings
from regard.studio import checkpoints
from regard.studio.app import studio_apis
from regard.training.checkpoint import Checkpoints
from serving.running_server import running
from small_bert import model as small_bert
from studio.test_app import write_run

RUNS, STEPS = ("a b", "a+b", "other"), (1, 2, 3)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """It notes in ``server.opened`` which checkpoints are read."""
    root, opened = tmp_path / "runs", []
    for name in RUNS:
        write_run(root / name, [1.0])
        for step in STEPS:
            Checkpoints(root / name / "checkpoints").place(step).mkdir(parents=True)

    def read(run, step, settings):
        opened.append((run.name, step))
        return small_bert("one")

    monkeypatch.setattr(checkpoints, "open_checkpoint", read)
    monkeypatch.setattr(checkpoints, "MOST_OPEN", 2)
    with running({"labels": small_bert("one")}, ServerSettings(), studio_apis(root)) as server:
        server.opened = opened
        yield server


def opened(server, run, step):
    """The name of the model, once it is served."""
    answer = server.post("/studio/checkpoint", {"run": run, "step": step})
    assert answer.status_code == 200, answer.text
    name = answer.json()["name"]
    assert name in server.engine.models
    return name


def test_the_checkpoint_that_was_used_first_is_closed(server):
    first, second = opened(server, "other", 1), opened(server, "other", 2)
    assert opened(server, "other", 1) == first
    third = opened(server, "other", 3)
    assert {*server.engine.models} == {"labels", first, third}
    assert opened(server, "other", 2) == second
    assert {*server.engine.models} == {"labels", second, third}
    assert server.opened == [("other", step) for step in (1, 2, 3, 2)]


def test_runs_whose_models_have_one_name_take_turns(server):
    names = {opened(server, run, 1) for run in ("a b", "a+b", "a+b", "a b")}
    assert names == {"a-b.step-1"}
    assert server.opened == [(run, 1) for run in ("a b", "a+b", "a b")]
    assert {*server.engine.models} == {"labels", *names}
