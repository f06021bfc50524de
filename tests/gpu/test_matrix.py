"""Every size of every paper on a GPU, in fp32 and in bf16, against fp32 on the CPU.

`make matrix` runs it in eight processes and writes the table for ``bench``. Sizes of more than 500
million parameters have fewer layers, and fewer tokens if need be: the CPU computes them as well.
Training steps are those of the smallest size of each form of a paper, with few layers, as compiling
takes most of the time.
"""

import gc
import shutil

import pytest
import torch

from paper_matrix import SIZES, check, forms, inference_rows, reduced, step_changes, training_rows

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the compiler's own, as is:
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]
MOST = 500_000_000


@pytest.fixture
def folder(tmp_path):
    """A folder whose files, and the memory of what was computed, are given back at once."""
    torch.set_num_threads(2)  # of 16 cores that eight processes share
    yield tmp_path
    shutil.rmtree(tmp_path)
    gc.collect()
    torch.cuda.empty_cache()


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_what_a_paper_does(size, folder):
    check(inference_rows(size, reduced(size, MOST), "cuda", folder / "model"))


@pytest.mark.parametrize("size", forms(), ids=str)
def test_steps(size, folder):
    check(training_rows(size, step_changes(size), "cuda", folder))
