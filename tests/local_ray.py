"""A Ray on this machine, for tests that compare its actors with worker processes."""

from importlib.util import find_spec

import pytest

RAY = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.filterwarnings("ignore"),  # of Ray
]
SYSTEMS = [pytest.param("processes"), pytest.param("ray", marks=RAY)]


def options_of(system):
    """Options of a verb for two workers of a system."""
    return ("--workers", 2, *(("--ray", "local") if system == "ray" else ()))
