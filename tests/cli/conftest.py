"""Workers of a verb that start no process."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from regard.core.workers import Workers
from regard.experiments.bulk import component_runs, result_file
from regard.tasks.components import ComponentSpec


class Inline(Workers):
    """Workers in this process, each job with a copy of the component; jobs are begun late."""

    def __init__(self, spec):
        super().__init__(2)
        self.run_block = spec.open_block_runner()

    def close(self):
        self.run_block = None

    def submit(self, job):
        return partial(self.run_block, *job)


@pytest.fixture
def inline_workers(monkeypatch):
    """The workers of a verb are in this process, and blocks have 8 lines."""

    @contextmanager
    def workers(spec, count, ray):
        yield None if not count and ray is None else Inline(replace(spec, device="cpu"))

    monkeypatch.setattr(ComponentSpec, "workers", workers)
    monkeypatch.setattr(component_runs, "BLOCK", 8)
    monkeypatch.setattr(result_file, "EVERY", 0.0)
