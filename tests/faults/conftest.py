"""The seed of faults that are drawn at random."""

import os
import time

import pytest


@pytest.fixture
def seed() -> int:
    """``FAULT_SEED``, or a new one each time; pytest shows it where a test fails."""
    seed = int(os.environ.get("FAULT_SEED") or time.time())
    print(f"FAULT_SEED={seed}")
    return seed
