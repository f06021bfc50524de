"""Triton's kernels on a CPU, in Triton's interpreter: the tests that a GPU runs, at small sizes."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton: make triton")
@pytest.mark.parametrize(
    "file",
    [
        "layers/test_elementwise_cuda.py",
        "layers/test_few_rows_cuda.py",
        "layers/test_packed_dropout.py",
        "layers/test_relative_cuda.py",
        "generation/test_candidates_cuda.py",
    ],
)
def test_kernels_agree_with_their_definition(file):
    """Triton decides when it is imported whether it interprets, so each file has a process."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS / file]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "REGARD_HIDE": "cuda"}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
