"""Damaged requests to the APIs of other clients are refused in one line, or answered."""

import json

import pytest

from regard.serving.engine import ServedModel
from serving.mutated_requests import OF_OTHER_APIS, mutated
from serving.running_server import running, translation_model
from small_bert import model as small_bert
from small_gpt import small_gpt2


@pytest.fixture(scope="module")
def server():
    translator = translation_model()
    models = {"one": small_bert("one"), "gpt": small_gpt2(), "mt-en-de": translator}
    models |= {"ranker": small_bert("number")}
    with running([ServedModel(model, name) for name, model in models.items()]) as server:
        yield server


def check(server, count, seed):
    statuses = set()
    for path, content in mutated(count, seed, OF_OTHER_APIS):
        response = server.client.post(path, content=content)
        statuses.add(response.status_code)
        assert response.status_code < 500, (path, content, response.text)
        if response.status_code >= 400:
            error = json.loads(response.content)["error"]
            message = error["message"] if isinstance(error, dict) else error
            assert message and "\n" not in message and "Traceback" not in message, message
    assert {200, 400, 404} <= statuses
    assert server.client.get("/health/ready").status_code == 200


def test_the_requests_are_good_before_they_are_damaged(server):
    assert all(server.post(path, body).is_success for path, body in OF_OTHER_APIS)


def test_mutated_requests(server):
    check(server, 300, seed=1)


@pytest.mark.slow
def test_many_mutated_requests(server):
    check(server, 5_000, seed=2)
