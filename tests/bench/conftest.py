"""Scripts of bench/ are imported by their names."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    yield
    for script in BENCH.glob("*.py"):
        sys.modules.pop(script.stem, None)
