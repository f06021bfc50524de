"""Models, the server and the engines of the tests of a file; a file may have models of its own."""

import pytest

from regard.serving.engine import EngineLimits, ServedModel, ServingEngine
from serving.running_server import running, translation_model
from small_bert import model as small_bert
from small_gpt import small_gpt2


@pytest.fixture(scope="module")
def models():
    return {"bert": small_bert("one"), "gpt": small_gpt2()}


@pytest.fixture(scope="module")
def translator():
    return translation_model()


@pytest.fixture(scope="module")
def server(models):
    with running(models) as server:
        yield server


@pytest.fixture
def engine_of(models):
    """A function that makes engines of the models, which end with the test."""
    engines = []

    def start(**limits):
        served = [ServedModel(model, name) for name, model in models.items()]
        engines.append(ServingEngine(served, EngineLimits(**limits)))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()
