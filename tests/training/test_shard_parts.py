"""Groups of blocks, and the part of a stored tensor that each process reads, as by ``chunk``."""

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from regard.core.batch import pack_texts
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.training import parallel
from regard.training.distributed import World
from regard.training.parallel import blocks_together, stacks_of
from regard.training.precision import Precision
from regard.training.recipe.tables import DistributedConfig
from regard.training.sharding import Shards, _own_part
from regard.weights.tensor_pieces import TensorPieces
from small_families import small_family
from small_gpt import small_gpt2

ALONE = World(0, 1, torch.device("cpu"))


@pytest.fixture
def rank_of_three(request):
    """This process as one of three, of which no other exists."""
    dist.init_process_group("fake", rank=request.param, world_size=3, store=FakeStore())
    yield request.param
    dist.destroy_process_group()


@pytest.mark.parametrize("rank_of_three", range(3), indirect=True)
@pytest.mark.parametrize("rows", [1, 2, 4, 6, 7, 8, 9])
def test_rows_that_do_not_divide_evenly_are_read_by_their_owners(rank_of_three, rows, tmp_path):
    whole = torch.arange(rows * 2.0).view(rows, 2)
    save_file({"model/x": whole}, tmp_path / "x.safetensors")
    parts = [*whole.chunk(3), whole[:0], whole[:0]]
    own, mesh = parts[rank_of_three], init_device_mesh("cpu", (3,))
    like = DTensor.from_local(
        torch.zeros_like(own), mesh, [Shard(0)], run_check=False, shape=whole.shape, stride=(2, 1)
    )
    pieces = TensorPieces([tmp_path / "x.safetensors"], "model/")
    found = _own_part(pieces, "x", like)
    assert isinstance(found, DTensor) and found.shape == whole.shape
    assert torch.equal(found.to_local(), own)
    assert torch.equal(_own_part(pieces, "x", None), whole)


def test_small_blocks_are_gathered_together_with_the_same_gradients(monkeypatch):
    facts, batch = change(small_gpt2().facts, depth=6), pack_texts([[3, 1, 4, 1, 5], [9, 2, 6]])
    results = []
    for most, groups in ((0, 6), (7_000, 4), (1 << 25, 2)):
        monkeypatch.setattr(parallel, "GROUPED", most)
        torch.manual_seed(0)
        model = facts.build()
        shards = Shards(DistributedConfig(kind="fsdp"), ALONE, Precision("fp32", "as asked"))
        shards.place(model)
        assert len(blocks_together(model.trunk)) == groups
        model(batch).by_head[NextTokenHead.name].square().sum().backward()
        learning = ((name, weight.grad) for name, weight in model.named_parameters())
        results.append({name: grad.full_tensor() for name, grad in learning if grad is not None})
    first, *others = results
    assert all(first.keys() == each.keys() for each in others)
    assert all(torch.equal(first[name], each[name]) for each in others for name in first)


def test_repeated_blocks_are_gathered_alone():
    model = change(small_family("albert").facts, depth=6, shared_groups=3).build()
    (stack,) = stacks_of(model)
    assert len(blocks_together(stack)) == len(stack.blocks) == 3 < len(stack.order)
