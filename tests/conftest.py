"""What all tests share: one seed, one thread for each worker, GPU tests only where there is one."""

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # for `naive`, the slow formulas tests compare with

# At a desk every run draws new examples; on CI all runs draw the same.
settings.register_profile("regard", deadline=None, max_examples=25, derandomize="CI" in os.environ)
settings.load_profile("regard")

torch.set_num_threads(1)  # tensors are tiny, and workers share the cores


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs CUDA"))
