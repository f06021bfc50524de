"""Copies of tensors in host memory."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.training.shard_writer import HostCopies, copy_pack, packs_of

KINDS = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
SHAPES = st.lists(st.integers(0, 5), max_size=2).map(tuple)


@given(
    drawn=st.lists(st.tuples(st.sampled_from(KINDS), SHAPES), max_size=8),
    chunk=st.sampled_from((16, 64, 1 << 20)),
)
def test_packs_hold_every_tensor_once(drawn, chunk):
    torch.manual_seed(1)
    tensors = {
        str(number): torch.randint(0, 2, shape).to(kind)
        for number, (kind, shape) in enumerate(drawn)
    }
    packs = packs_of(tensors, chunk)
    for pack in packs:
        assert pack.host.nbytes <= chunk or len(pack.copies) == 1
        copy_pack(pack, tensors)
    copies = {name: copy for pack in packs for name, copy in pack.copies.items()}
    assert [*copies] == [*tensors]
    for name, tensor in tensors.items():
        assert copies[name].dtype == tensor.dtype and torch.equal(copies[name], tensor)


def test_copies_on_a_cpu_do_not_change_with_the_tensors():
    tensors = {"a": torch.ones(3)}
    copies = HostCopies(torch.device("cpu")).begin(tensors)
    tensors["a"].zero_()
    assert copies["a"].tolist() == [1, 1, 1]


@pytest.mark.gpu
def test_copies_of_a_gpu_are_those_before_the_next_kernels():
    device = torch.device("cuda")
    copies, sizes = HostCopies(device), (7, 1 << 20, 1 << 27, 3)
    for value in (1.0, 2.0, 3.0):
        tensors = {str(size): torch.full((size,), value, device=device) for size in sizes}
        copies.follow()
        made = copies.begin(tensors)
        copies.precede()
        torch._foreach_zero_([*tensors.values()])
        copies.wait()
        assert all((copy == value).all() for copy in made.values())
    assert len(copies.packs) == 3  # the largest alone
