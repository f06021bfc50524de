"""Where tests of Triton's kernels run: on a GPU or, with TRITON_INTERPRET=1, in its interpreter.

The interpreter runs a kernel on the CPU, program by program, with NumPy. Its products in bfloat16
are wrong (3.7.1), and it is slow: tests take float16 and small sizes. ``test_interpreted`` starts a
process for it.
"""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
HALVES = (torch.float16,) if INTERPRETED else (torch.bfloat16, torch.float16)
each_half = pytest.mark.parametrize("dtype", HALVES, ids=str)
on_device = pytest.mark.filterwarnings("default") if INTERPRETED else pytest.mark.gpu

if INTERPRETED:
    from triton.runtime import jit

    plain_name = jit._normalize_ty

    def without_quotes(annotation: object) -> str:
        """The interpreter compiles a kernel with postponed annotations, which quotes ours twice."""
        return plain_name(annotation.strip("'") if isinstance(annotation, str) else annotation)

    jit._normalize_ty = without_quotes
    torch.Tensor.is_cuda = True  # type: ignore[assignment]  # what kernels are chosen by
