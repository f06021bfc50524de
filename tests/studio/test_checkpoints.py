"""Checkpoints of a run as models of the studio: their weights, their number, their errors."""

import pytest
import torch

from regard.serving.app import ServerSettings
from regard.studio import checkpoints
from regard.studio.app import studio_apis
from regard.training.checkpoint import Checkpoints
from regard.weights.files import weights_of
from serving.running_server import running
from small_bert import model as small_bert
from studio.small_run import train_small_run
from studio.test_app import write_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("studio") / "runs"
    train_small_run(root)
    return root


@pytest.fixture(scope="module")
def server(root):
    models = {"labels": small_bert("one"), "one.step-8": small_bert("one")}
    with running(models, ServerSettings(), studio_apis(root)) as server:
        yield server


def opened(server, step, run="one"):
    return server.post("/studio/checkpoint", {"run": run, "step": step})


def test_a_checkpoint_has_its_own_weights_and_translates(server, root):
    described = opened(server, 4).json()
    assert described["name"] == "one.step-4" and "translate" in described["paths"]
    assert (described["run"], described["step"]) == ("one", 4)
    own = weights_of(server.engine.models["one.step-4"].plain.module)
    _, groups = Checkpoints(root / "one" / "checkpoints").load(4, only=("model",))
    assert all(torch.equal(own[name], groups["model"][name]) for name in own)
    body = {"model": "one.step-4", "text": "cow dog"}
    assert server.post("/v1/translate", body).status_code == 200
    last = opened(server, 12).json()["name"]
    scores = [
        server.post("/v1/score", {"model": name, "source": "cow dog", "target": "dog cow"}).json()
        for name in ("one.step-4", last)
    ]
    first, second = (each["results"][0]["records"][0] for each in scores)
    assert first != second


def test_the_checkpoint_that_was_used_first_is_closed(server, monkeypatch):
    monkeypatch.setattr(checkpoints, "MOST_OPEN", 2)
    opened(server, 4), opened(server, 10), opened(server, 4)
    loaded = server.engine.models["one.step-4"]
    opened(server, 12)
    assert {"one.step-4", "one.step-12"} <= server.engine.models.keys()
    assert "one.step-10" not in server.engine.models
    closed = server.post("/studio/look", {"model": "one.step-10", "text": "cow"})
    assert closed.status_code == 404
    assert "checkpoint one, step 10, is closed" in closed.json()["error"]["message"]
    assert server.engine.models["one.step-4"] is loaded


def test_open_checkpoints_are_not_listed_as_models(server):
    opened(server, 4)
    names = [each["name"] for each in server.client.get("/studio/models").json()["models"]]
    assert names == ["labels", "one.step-8"]  # those that were named at the start


def test_a_branch_without_a_model_has_that_of_its_run(server, root):
    origin = {"run": "one", "step": 4, "changed": []}
    write_run(root / "branch", [1.0], branch_json=origin)
    (root / "branch" / "checkpoints").symlink_to(root / "one" / "checkpoints")
    assert opened(server, 4, "branch").json()["name"] == "branch.step-4"


def test_what_cannot_be_opened_is_refused_in_one_line(server, root):
    write_run(root / "new", [1.0])
    (root / "new" / "checkpoints").symlink_to(root / "one" / "checkpoints")
    for answer, status, message in (
        (opened(server, 5), 400, "no checkpoint of step 5"),
        (opened(server, 4, "new"), 400, "this run has no model yet"),
        (opened(server, 4, "../one"), 404, "no such run"),
        (opened(server, 8), 400, "called one.step-8 already"),
        (opened(server, -1), 400, "not what this path reads"),
    ):
        assert answer.status_code == status
        assert message in answer.json()["error"]["message"]


def test_a_damaged_checkpoint_is_refused_in_one_line(server, root, tmp_path):
    path = Checkpoints(root / "one" / "checkpoints").place(10) / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    try:
        if "one.step-10" in server.engine.models:
            server.engine.unload("one.step-10")
        answer = opened(server, 10)
        assert answer.status_code == 400
        assert "damaged (its checksum differs)" in answer.json()["error"]["message"]
    finally:
        path.write_bytes(whole)
