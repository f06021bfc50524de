"""Engines over the ``models`` of a test file, which end with the test."""

import pytest

from regard.serving.engine import EngineLimits, ServedModel, ServingEngine


@pytest.fixture
def engine_of(models):
    engines = []

    def start(**limits):
        served = [ServedModel(model, name) for name, model in models.items()]
        engines.append(ServingEngine(served, EngineLimits(**limits)))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()
